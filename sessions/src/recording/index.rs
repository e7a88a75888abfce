//! Where in a recording is what.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::EventKind;

/// Name and media type of the attachment that holds the index.
pub(super) const INDEX: (&str, &str) = ("coalmine.index", "application/json");

/// A step in which something was wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u32, u32, u32)", into = "(u64, u32, u32, u32)")]
pub struct Anomaly {
    /// The step.
    pub step: u64,
    /// Findings about sessions' texts.
    pub flags: u32,
    /// Rows that differed from the step oracle's.
    pub diverged_rows: u32,
    /// Pages that changed undeclared.
    pub violations: u32,
}

impl From<(u64, u32, u32, u32)> for Anomaly {
    fn from((step, flags, diverged_rows, violations): (u64, u32, u32, u32)) -> Self {
        Self { step, flags, diverged_rows, violations }
    }
}

impl From<Anomaly> for (u64, u32, u32, u32) {
    fn from(anomaly: Anomaly) -> Self {
        (anomaly.step, anomaly.flags, anomaly.diverged_rows, anomaly.violations)
    }
}

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
    /// Step after which the keyframe holds, and its chunk.
    pub(super) keyframes: Vec<(u64, usize)>,
    pub(super) anomalies: Vec<Anomaly>,
}

impl Index {
    /// Adds what is wrong in an event of `step`, which must not lie before the last one added, and counts steps.
    pub(super) fn note(&mut self, step: u64, kind: &EventKind) {
        let mut seen = Anomaly { step, ..Anomaly::default() };
        match kind {
            EventKind::Step(end) => {
                self.steps += 1;
                seen.diverged_rows = saturated(end.diverged_rows.len());
            }
            EventKind::Session(change) => seen.flags = change.flag.is_some().into(),
            EventKind::Canary(report) => seen.violations = saturated(report.violations.len()),
            _ => {}
        }
        if seen != (Anomaly { step, ..Anomaly::default() }) {
            self.add_anomaly(seen);
        }
    }

    fn add_anomaly(&mut self, seen: Anomaly) {
        match self.anomalies.last_mut() {
            Some(last) if last.step == seen.step => {
                last.flags = last.flags.saturating_add(seen.flags);
                last.diverged_rows = last.diverged_rows.saturating_add(seen.diverged_rows);
                last.violations = last.violations.saturating_add(seen.violations);
            }
            _ => self.anomalies.push(seen),
        }
    }

    /// Adds what comes after.
    pub(super) fn append(&mut self, later: Self) {
        self.events += later.events;
        self.steps += later.steps;
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
            && self.anomalies.is_sorted_by(|one, next| one.step < next.step)
    }

    /// The chunks that may hold events of these steps.
    pub(super) fn chunks_of(&self, steps: &RangeInclusive<u64>) -> std::ops::Range<usize> {
        let start = self.chunks.partition_point(|chunk| chunk.last_step < *steps.start());
        let end = self.chunks.partition_point(|chunk| chunk.first_step <= *steps.end());
        start..end.max(start)
    }

    /// The last keyframe that holds after `step` or an earlier one.
    pub(super) fn keyframe_before(&self, step: u64) -> Option<(u64, usize)> {
        let after = self.keyframes.partition_point(|&(held, _)| held <= step);
        self.keyframes[..after].last().copied()
    }
}

fn saturated(count: usize) -> u32 {
    count.try_into().unwrap_or(u32::MAX)
}
