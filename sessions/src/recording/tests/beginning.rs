//! Recordings that begin in the middle of a run.

use std::fs;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{folded, open, steps, tempdir, written_out};
use crate::recording::export::{Table, csv, perfetto};
use crate::recording::{Manifest, Recording, RecordingWriter, Redaction, Replay};
use crate::synthetic::{Shape, events};
use crate::{Event, PageRef, State};

/// The state when `before` events have come.
fn live(events: &[Event], before: usize) -> State {
    let mut state = State::default();
    events[..before].iter().for_each(|event| state.apply(event));
    state
}

/// Records all but the first `before` events.
fn record_from(path: &std::path::Path, manifest: Manifest, events: &[Event], before: usize) {
    let mut writer = RecordingWriter::begin(path, manifest, &live(events, before)).unwrap();
    let mut now = Instant::now();
    for event in &events[before..] {
        writer.record(event, now).unwrap();
        now += Duration::from_millis(3);
    }
    writer.finish().unwrap();
}

/// What the live state was at the end of a step, with windows that begin when `before` events have come.
fn was(events: &[Event], before: usize, step: u64) -> State {
    let until = steps(events).partition_point(|&of| of <= step);
    let windows = folded(&events[before..until], u64::MAX);
    let mut state = live(events, until);
    (state.steps, state.spans) = (windows.steps, windows.spans);
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_state_at_every_step_is_as_it_was(seed in 0_u64..1_000, before in any::<proptest::sample::Index>()) {
        let scratch = tempdir().unwrap();
        let path = scratch.path().join("a.mcap");
        let events = events(&Shape { seed, steps: 600, nodes: 3, sessions: 5, ..Shape::default() });
        let before = before.index(events.len() + 1);
        record_from(&path, Manifest::default(), &events, before);
        let first = live(&events, before).step;
        // Once by its index, once by reading it through.
        let bytes = fs::read(&path).unwrap();
        for cut in [0, 40] {
            fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
            let (recording, recovery) = Recording::open(&path).unwrap();
            prop_assert_eq!(recovery.truncated, cut > 0);
            prop_assert_eq!(recording.first_step(), first);
            for step in (first..600).step_by(41).chain([first, first + 1, 255, 256, 257, 512, 599]) {
                let expected = if step < first { State::default() } else { was(&events, before, step) };
                let found = recording.state_at(step).unwrap();
                prop_assert!(written_out(&found) == written_out(&expected), "differs at step {}", step);
            }
            let left: Vec<Event> = recording.events_in(0..=u64::MAX).map(Result::unwrap).collect();
            prop_assert!(left == events[before..]);
        }
    }
}

#[test]
fn a_replay_begins_with_what_was_known() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let events = events(&Shape { steps: 400, nodes: 3, ..Shape::default() });
    let before = steps(&events).partition_point(|&of| of < 300);
    record_from(&path, Manifest::default(), &events, before);
    let mut replay = Replay::new(open(&path)).unwrap();
    assert_eq!((replay.step(), replay.state().totals.steps), (299, 300));
    assert!(replay.state().hello.is_some() && !replay.state().sessions.is_empty());
    replay.step_forward().unwrap();
    assert!(written_out(replay.state()) == written_out(&was(&events, before, 300)));
    replay.goto_step(0).unwrap();
    assert_eq!(replay.step(), 299);
    // Written before the recording began, and known all the same.
    let page = PageRef { pool: 2, page: 5 };
    let written = live(&events, before).canary.last_write(page);
    assert!(written.is_some());
    assert_eq!(replay.recording().last_write_of(page, 300).unwrap(), written);
    assert_eq!(replay.recording().last_write_of(page, 299).unwrap(), written.filter(|&at| at < 299));
}

#[test]
fn what_was_known_is_written_out_with_the_first_tick() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let events = events(&Shape { steps: 30, ..Shape::default() });
    let state = live(&events, events.len());
    let mut writer = RecordingWriter::begin(&path, Manifest::default(), &state).unwrap();
    writer.tick(Instant::now()).unwrap();
    let (recording, recovery) = Recording::open(&path).unwrap();
    assert!(recovery.truncated && recovery.events == 0);
    let found = recording.state_at(29).unwrap();
    assert!(written_out(&found) == written_out(&state.without_windows()));
    drop(writer);
    assert!(written_out(&open(&path).state_at(29).unwrap()) == written_out(&found));
}

#[test]
fn redacted_text_is_in_no_keyframe() {
    let scratch = tempdir().unwrap();
    let events = events(&Shape { steps: 600, ..Shape::default() });
    let before = steps(&events).partition_point(|&of| of < 150);
    let path = scratch.path().join("a.mcap");
    record_from(&path, Manifest { redaction: Redaction::Hashes, ..Manifest::default() }, &events, before);
    let bytes = fs::read(&path).unwrap();
    let mut keyframes = 0;
    for message in mcap::MessageStream::new(&bytes).unwrap().map(Result::unwrap) {
        let text = std::str::from_utf8(&message.data).unwrap();
        assert!(!text.contains("private") && !text.contains("amber") && !text.contains("B02"), "{text}");
        keyframes += u32::from(message.channel.topic == "/keyframes");
    }
    assert_eq!(keyframes, 3, "what it opens with, and those after steps 255 and 511");
    // Equal texts have equal hashes, before the beginning and after.
    let opening = open(&path).state_at(149).unwrap();
    let line = opening.log.front().unwrap();
    assert!(line.text.starts_with('#') && line.text.len() == 9);
    assert!(opening.sessions.values().any(|session| !session.flags.is_empty() && session.call.starts_with('#')));
    let end = open(&path).state_at(599).unwrap();
    assert!(end.log.len() > opening.log.len() && end.log.iter().all(|said| said.text == line.text));
}

#[test]
fn exports_know_the_names_from_before() {
    let scratch = tempdir().unwrap();
    let events = events(&Shape { steps: 40, nodes: 4, ..Shape::default() });
    let path = scratch.path().join("a.mcap");
    record_from(&path, Manifest::default(), &events, events.len() / 2);
    let recording = open(&path);
    let (mut spans, mut trace) = (Vec::new(), Vec::new());
    csv(&recording, Table::Spans, &mut spans).unwrap();
    perfetto(&recording, &mut trace).unwrap();
    let state = live(&events, events.len() / 2);
    let lane = state.hello.unwrap().lanes[0].to_string();
    let node = state.graphs.values().next().unwrap().nodes[0].to_string();
    for text in [spans, trace].map(|bytes| String::from_utf8(bytes).unwrap()) {
        assert!(text.contains(&lane) && text.contains(&node), "no {lane} or {node}");
    }
}
