//! What was recorded is what is read, from the start or from any step.

use std::time::{Duration, Instant};

use super::{folded, open, record, steps, tempdir, written_out};
use crate::recording::{Manifest, Recorded, Recording, RecordingWriter, Redaction};
use crate::synthetic::{Shape, events};
use crate::{Event, EventKind, Metric, PageRef, Sanitized, State};

fn read(recording: &Recording) -> Vec<Event> {
    recording.events_in(0..=u64::MAX).map(Result::unwrap).collect()
}

#[test]
fn events_come_back_as_they_were() {
    let scratch = tempdir().unwrap();
    let events = events(&Shape { steps: 300, spans_dropped: 3, ..Shape::default() });
    for (number, pause) in [0, 3, 40, 700].into_iter().enumerate() {
        let path = scratch.path().join(format!("{number}.mcap"));
        record(&path, Manifest::default(), &events, Duration::from_millis(pause));
        let recording = open(&path);
        assert_eq!(read(&recording), events);
        assert_eq!((recording.first_step(), recording.last_step()), (0, 299));
        let some: Vec<Event> = recording.events_in(100..=120).map(Result::unwrap).collect();
        let of = steps(&events);
        let expected: Vec<Event> = events
            .iter()
            .zip(of)
            .filter(|(_, step)| (100..=120).contains(step))
            .map(|(event, _)| event.clone())
            .collect();
        assert_eq!(some, expected);
    }
}

#[test]
fn numbers_that_json_lacks_and_streams_that_begin_anew_come_back() {
    let scratch = tempdir().unwrap();
    let mut stream = events(&Shape { steps: 3, ..Shape::default() });
    let again = stream.clone();
    let values = [f64::INFINITY, f64::NEG_INFINITY, 0.1, 1e300, 5e-324, -0.0];
    stream.extend(values.into_iter().zip(1_000..).map(|(value, sequence)| Event {
        sequence,
        time_ns: u64::MAX,
        kind: EventKind::Metric(Metric { name: "m".into(), value }),
    }));
    stream.extend(again);
    let path = scratch.path().join("a.mcap");
    record(&path, Manifest::default(), &stream, Duration::ZERO);
    assert_eq!(read(&open(&path)), stream);
}

#[test]
fn the_state_at_a_step_is_what_folding_from_the_start_gives() {
    let scratch = tempdir().unwrap();
    for (number, spans_dropped) in [0, 2].into_iter().enumerate() {
        let shape = Shape { steps: 2_200, nodes: 8, sessions: 10, spans_dropped, ..Shape::default() };
        let events = events(&shape);
        let path = scratch.path().join(format!("{number}.mcap"));
        record(&path, Manifest::default(), &events, Duration::from_millis(1));
        let recording = open(&path);
        let edges = [0, 1, 254, 255, 256, 257, 511, 512, 513, 767, 768, 1_023, 1_024, 2_047, 2_048, 2_199, 9_999];
        for step in edges.into_iter().chain((0..2_200).step_by(83)) {
            let state = recording.state_at(step).unwrap();
            assert!(written_out(&state) == written_out(&folded(&events, step)), "differs at step {step}");
        }
    }
}

#[test]
fn a_step_of_many_nodes_is_gone_to_with_its_last_spans() {
    let scratch = tempdir().unwrap();
    let events = events(&Shape { steps: 260, nodes: 3_000, sessions: 3, ..Shape::default() });
    let path = scratch.path().join("a.mcap");
    record(&path, Manifest::default(), &events, Duration::from_millis(1));
    let recording = open(&path);
    let mut cut = 0;
    for step in [0, 40, 84, 85, 86, 87, 140, 220, 259] {
        let mut expected = folded(&events, step);
        let mut found = recording.state_at(step).unwrap();
        let (all, spans): (Vec<_>, Vec<_>) =
            (std::mem::take(&mut expected.spans).into(), std::mem::take(&mut found.spans).into());
        assert!(written_out(&found) == written_out(&expected), "differs at step {step}");
        assert!(all.ends_with(&spans) && spans.last().unwrap().step == step);
        cut += u32::from(spans.len() < all.len());
    }
    assert!((1..8).contains(&cut), "{cut} windows began later");
}

#[test]
fn the_last_write_of_a_page_is_found() {
    let scratch = tempdir().unwrap();
    let events = events(&Shape { steps: 700, nodes: 2, ..Shape::default() });
    let path = scratch.path().join("a.mcap");
    record(&path, Manifest::default(), &events, Duration::ZERO);
    let recording = open(&path);
    for step in [0, 1, 64, 256, 257, 500, 699] {
        for page in [PageRef { pool: 2, page: 5 }, PageRef { pool: 0, page: 63 }, PageRef { pool: 9, page: 0 }] {
            let writes = events.iter().filter_map(|event| match &event.kind {
                EventKind::Canary(report) if report.written.contains(&page) || report.violations.contains(&page) => {
                    Some(report.step)
                }
                _ => None,
            });
            let expected = writes.filter(|&of| of < step).max();
            assert_eq!(recording.last_write_of(page, step).unwrap(), expected, "{page:?} before {step}");
        }
    }
}

#[test]
fn anomalies_are_where_they_happened() {
    let scratch = tempdir().unwrap();
    let events = events(&Shape { steps: 400, ..Shape::default() });
    let path = scratch.path().join("a.mcap");
    record(&path, Manifest::default(), &events, Duration::from_millis(2));
    let recording = open(&path);
    let anomalies = recording.anomalies();
    let total =
        |of: fn(&super::super::Anomaly) -> u32| anomalies.iter().map(|anomaly| u64::from(of(anomaly))).sum::<u64>();
    let state = folded(&events, 400);
    assert_eq!(total(|anomaly| anomaly.diverged_rows), state.totals.diverged_rows);
    assert_eq!(total(|anomaly| anomaly.violations), state.totals.canary_hits);
    let first = recording.first_corruption().unwrap();
    let contents = Recording::glance(&path).unwrap().contents.unwrap();
    assert_eq!((contents, contents.anomalies), (recording.contents(), anomalies.len() as u64));
    assert_eq!((contents.steps, contents.last_step, contents.first_corruption), (400, 399, Some(first)));
    assert_eq!(recording.state_at(first - 1).unwrap().totals.corrupted, 0);
    assert!(recording.state_at(first).unwrap().totals.corrupted > 0);
}

#[test]
fn redacted_text_is_nowhere_in_the_file() {
    let scratch = tempdir().unwrap();
    let stream = events(&Shape { steps: 300, ..Shape::default() });
    let path = scratch.path().join("a.mcap");
    record(&path, Manifest { redaction: Redaction::Hashes, ..Manifest::default() }, &stream, Duration::ZERO);
    let recording = open(&path);
    assert_eq!(recording.manifest().redaction, Redaction::Hashes);
    let mut calls: Vec<Sanitized> = Vec::new();
    for event in read(&recording) {
        let text = serde_json::to_string(&event).unwrap();
        assert!(!text.contains("private") && !text.contains("B02") && !text.contains("A01"), "{text}");
        if let EventKind::Session(change) = event.kind {
            calls.push(change.call);
        }
    }
    calls.sort();
    calls.dedup();
    // Equal texts, equal hashes: eight turns and the empty text.
    assert_eq!(calls.len(), 9);
    assert!(calls[0].is_empty() && calls[1].starts_with('#') && calls[1].len() == 9);
    let keyframe = recording.state_at(255).unwrap();
    assert!(!written_out(&keyframe).contains("private"));
}

#[test]
fn it_is_written_out_in_time_and_finished_when_dropped() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let events = events(&Shape::default());
    let start = Instant::now();
    let mut writer = RecordingWriter::create(&path, Manifest::default()).unwrap();
    let recovered = || Recording::open(&path).unwrap().1;
    writer.record(&events[0], start).unwrap();
    writer.tick(start + Duration::from_millis(499)).unwrap();
    assert_eq!(recovered().events, 0);
    writer.tick(start + Duration::from_millis(500)).unwrap();
    assert_eq!((recovered().events, recovered().truncated), (1, true));
    writer.record(&events[1], start + Duration::from_millis(600)).unwrap();
    drop(writer);
    assert_eq!((recovered().events, recovered().truncated), (2, false));
}

#[test]
fn an_empty_recording_opens() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let manifest = Manifest { command_line: "coalmine run --seed 7".into(), seed: 7, ..Manifest::default() };
    let recorded = RecordingWriter::create(&path, manifest.clone()).unwrap().finish().unwrap();
    assert_eq!(recorded, Recorded { events: 0, steps: 0, bytes: std::fs::metadata(&path).unwrap().len() });
    let recording = open(&path);
    assert_eq!(recording.manifest(), &manifest);
    assert_eq!(written_out(&recording.state_at(5).unwrap()), written_out(&State::default()));
    assert_eq!((recording.first_corruption(), recording.events_in(0..=9).count()), (None, 0));
}
