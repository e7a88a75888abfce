//! Recordings, from their events to their bytes and back.

mod beginning;
mod damage;
mod exports;
mod figures;
mod fixture;
mod format;
mod playback;
mod round_trip;

use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::{TempDir, tempdir};

use super::{Manifest, Recording, RecordingWriter};
use crate::{Event, EventKind, State};

/// Records events, of which each takes so long.
fn record(path: &Path, manifest: Manifest, events: &[Event], pause: Duration) {
    let mut writer = RecordingWriter::create(path, manifest).unwrap();
    let mut now = Instant::now();
    for event in events {
        writer.record(event, now).unwrap();
        now += pause;
    }
    writer.finish().unwrap();
}

fn open(path: &Path) -> Recording {
    let (recording, recovery) = Recording::open(path).unwrap();
    assert!(!recovery.truncated);
    recording
}

/// What events are named as happening in, or else in the step before: the definition, written down anew.
fn steps(events: &[Event]) -> Vec<u64> {
    let mut last = 0;
    let step = |event: &Event| {
        let named = match &event.kind {
            EventKind::Toggle(change) => change.step,
            EventKind::Step(step) => step.step,
            EventKind::Spans(batch) => batch.step,
            EventKind::Canary(report) => report.step,
            EventKind::Session(change) => change.step,
            EventKind::Differential(divergence) => divergence.step,
            _ => 0,
        };
        last = last.max(named);
        last
    };
    events.iter().map(step).collect()
}

/// Everything of a state, to compare.
fn written_out(state: &State) -> String {
    format!("{state:?}")
}

/// What the events up to the end of a step fold to.
fn folded(events: &[Event], step: u64) -> State {
    let mut state = State::default();
    let until = steps(events).partition_point(|&of| of <= step);
    events[..until].iter().for_each(|event| state.apply(event));
    state
}
