//! Where in a recording is what.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{Anomaly, EventKind};

/// Name and media type of the attachment that holds the index.
pub(super) const INDEX: (&str, &str) = ("coalmine.index", "application/json");

/// A chunk of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64, u64)", into = "(u64, u64, u64, u64)")]
pub(super) struct Chunk {
    /// Where its record begins.
    pub(super) offset: u64,
    /// Step of its first event.
    pub(super) first_step: u64,
    /// Step of its last event.
    pub(super) last_step: u64,
    /// Largest `log_time` up to its end.
    pub(super) end_ns: u64,
}

impl From<(u64, u64, u64, u64)> for Chunk {
    fn from((offset, first_step, last_step, end_ns): (u64, u64, u64, u64)) -> Self {
        Self { offset, first_step, last_step, end_ns }
    }
}

impl From<Chunk> for (u64, u64, u64, u64) {
    fn from(chunk: Chunk) -> Self {
        (chunk.offset, chunk.first_step, chunk.last_step, chunk.end_ns)
    }
}

/// The chunks, keyframes and anomalies of a recording, each in the order of steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Index {
    /// Where the data ends and this index is stored: it differs if another program has rewritten the file.
    pub(super) end: u64,
    /// Events in all.
    pub(super) events: u64,
    /// Step events.
    pub(super) steps: u64,
    pub(super) chunks: Vec<Chunk>,
    /// Whether the recording begins with its first keyframe, which then holds *before* its step's events.
    #[serde(default)]
    pub(super) opens: bool,
    /// Step after which the keyframe holds, and its chunk.
    pub(super) keyframes: Vec<(u64, usize)>,
    pub(super) anomalies: Vec<Anomaly>,
}

impl Index {
    /// Adds what is wrong in an event of `step`, which must not lie before the last one added, and counts steps.
    pub(super) fn note(&mut self, step: u64, kind: &EventKind) {
        self.steps += u64::from(matches!(kind, EventKind::Step(_)));
        if let Some(seen) = Anomaly::of(step, kind) {
            self.add_anomaly(seen);
        }
    }

    fn add_anomaly(&mut self, seen: Anomaly) {
        match self.anomalies.last_mut() {
            Some(last) if last.step == seen.step => last.join(seen),
            _ => self.anomalies.push(seen),
        }
    }

    /// Adds what comes after.
    pub(super) fn append(&mut self, later: Self) {
        self.events += later.events;
        self.steps += later.steps;
        self.opens |= later.opens;
        self.chunks.extend(later.chunks);
        self.keyframes.extend(later.keyframes);
        later.anomalies.into_iter().for_each(|anomaly| self.add_anomaly(anomaly));
    }

    /// Whether a reader can rely on the order of everything.
    pub(super) fn is_consistent(&self) -> bool {
        let chunks = &self.chunks;
        chunks.iter().all(|chunk| chunk.first_step <= chunk.last_step && chunk.offset < self.end)
            && chunks.is_sorted_by(|one, next| {
                one.offset < next.offset && one.last_step <= next.first_step && one.end_ns <= next.end_ns
            })
            && self.keyframes.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1)
            && self.keyframes.iter().all(|&(_, chunk)| chunk < chunks.len())
            && (!self.opens || self.opening().is_some_and(|(held, chunk)| chunk == 0 && held == self.first_step()))
            && self.anomalies.is_sorted_by(|one, next| one.step < next.step)
    }

    /// The first step that an event belongs to.
    pub(super) fn first_step(&self) -> u64 {
        self.chunks.first().map_or(0, |chunk| chunk.first_step)
    }

    /// The last step that an event belongs to.
    pub(super) fn last_step(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.last_step)
    }

    /// The first step after which a client would see wrong text.
    pub(super) fn first_corruption(&self) -> Option<u64> {
        self.anomalies.iter().find(|anomaly| anomaly.flags > 0).map(|anomaly| anomaly.step)
    }

    /// The chunks that may hold events of these steps.
    pub(super) fn chunks_of(&self, steps: &RangeInclusive<u64>) -> std::ops::Range<usize> {
        let start = self.chunks.partition_point(|chunk| chunk.last_step < *steps.start());
        let end = self.chunks.partition_point(|chunk| chunk.first_step <= *steps.end());
        start..end.max(start)
    }

    /// The keyframe that the recording begins with.
    pub(super) fn opening(&self) -> Option<(u64, usize)> {
        self.keyframes.first().copied().filter(|_| self.opens)
    }

    /// The last keyframe that the state after `step` can be made from.
    pub(super) fn keyframe_before(&self, step: u64) -> Option<(u64, usize)> {
        let after = self.keyframes.partition_point(|&(held, _)| held <= step);
        self.keyframes[..after].last().copied()
    }

    /// The steps up to `step` whose events are not in a keyframe.
    pub(super) fn steps_since(&self, keyframe: (u64, usize), step: u64) -> RangeInclusive<u64> {
        let held = keyframe.0;
        if self.opening() == Some(keyframe) {
            return held..=step;
        }
        // No range of one bound can be empty at the largest step.
        if held < step { held + 1..=step } else { RangeInclusive::new(1, 0) }
    }
}
