//! Steps in which something was wrong: where people go to first, in a recording as in what is remembered of a live
//! target.

use serde::{Deserialize, Serialize};

use crate::EventKind;

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

impl Anomaly {
    /// What is wrong in an event that belongs to `step`, if anything is.
    pub(crate) fn of(step: u64, kind: &EventKind) -> Option<Self> {
        let mut seen = Self { step, ..Self::default() };
        match kind {
            EventKind::Step(end) => seen.diverged_rows = saturated(end.diverged_rows.len()),
            EventKind::Session(change) => seen.flags = change.flag.is_some().into(),
            EventKind::Canary(report) => seen.violations = saturated(report.violations.len()),
            _ => {}
        }
        (seen != Self { step, ..Self::default() }).then_some(seen)
    }

    /// Adds what another event of the same step says.
    pub(crate) fn join(&mut self, other: Self) {
        self.flags = self.flags.saturating_add(other.flags);
        self.diverged_rows = self.diverged_rows.saturating_add(other.diverged_rows);
        self.violations = self.violations.saturating_add(other.violations);
    }
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

fn saturated(count: usize) -> u32 {
    count.try_into().unwrap_or(u32::MAX)
}
