//! The state in one flat record, for JSON and for conditions.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{FlagKind, Rate, State};

/// What a headless run prints: totals since the start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Sessions that have arrived.
    pub sessions: u64,
    /// Sessions that have had all their turns.
    pub finished: u64,
    /// Sessions whose client would see wrong text.
    pub corrupted: u64,
    /// The rate of corrupted sessions with its 95% interval.
    pub rate: Rate,
    /// Sessions with a row that differed from the step oracle's; nearly always far more than `corrupted`.
    pub diverged_sessions: u64,
    /// Steps with a diverged row.
    pub hit_steps: u64,
    /// How many steps had so many diverged rows, by number of rows.
    pub rows_per_hit_step: BTreeMap<u32, u64>,
    /// Median of the above; `None` without a hit step.
    pub median_rows_per_hit_step: Option<f64>,
    /// Batch slots that diverged at least once.
    pub slots_hit: u64,
    /// Largest batch seen.
    pub slots_seen: u32,
    /// Races that the virtual GPU recorded.
    pub witnesses: u64,
    /// Steps with a witness.
    pub witness_steps: u64,
    /// Steps that diverged without a witness.
    pub diverged_without_witness: u64,
    /// Flags by the name of their kind; every kind is listed.
    pub flags: BTreeMap<String, u64>,
    /// Tool calls made.
    pub calls: u64,
    /// Pages that the canary saw change undeclared.
    pub canary_hits: u64,
    /// Pages that the canary checked.
    pub pages_checked: u64,
    /// Decode steps.
    pub steps: u64,
    /// Tokens decoded.
    pub tokens: u64,
    /// Value of every toggle, by its long name.
    pub toggles: BTreeMap<String, String>,
    /// Nodes of the largest graph.
    pub graph_nodes: u64,
    /// Seed of the workload and of the device's noise.
    pub seed: u64,
    /// CPU instruction-set level of the numerics.
    pub instruction_set: String,
}

impl State {
    /// The rate of corrupt sessions since the start, with an interval that knows that the rows of
    /// one bad step fail together.
    pub fn corruption_rate(&self) -> Rate {
        self.totals.corruption_rate()
    }

    /// The state in one flat record.
    pub fn summary(&self) -> Summary {
        let totals = &self.totals;
        let flags =
            FlagKind::ALL.map(|kind| (kind.name().to_owned(), totals.flags.get(&kind).copied().unwrap_or_default()));
        let toggles = self.toggles.iter().map(|(name, value)| {
            let spec = name.spec();
            (spec.long.to_owned(), spec.show(*value).into_owned())
        });
        Summary {
            sessions: totals.sessions,
            finished: totals.finished,
            corrupted: totals.corrupted,
            rate: self.corruption_rate(),
            diverged_sessions: totals.diverged_sessions,
            hit_steps: totals.hit_steps,
            rows_per_hit_step: totals.rows_per_hit_step.clone(),
            median_rows_per_hit_step: median(&totals.rows_per_hit_step),
            slots_hit: totals.slots_hit.len() as u64,
            slots_seen: totals.slots_seen,
            witnesses: totals.witnesses,
            witness_steps: totals.witness_steps,
            diverged_without_witness: totals.diverged_without_witness,
            flags: flags.into(),
            calls: totals.calls,
            canary_hits: totals.canary_hits,
            pages_checked: totals.pages_checked,
            steps: totals.steps,
            tokens: totals.tokens,
            toggles: toggles.collect(),
            graph_nodes: self.graphs.values().map(|graph| graph.nodes.len() as u64).max().unwrap_or_default(),
            seed: self.hello.as_ref().map_or(0, |hello| hello.seed),
            instruction_set: self.hello.as_ref().map_or_else(String::new, |hello| hello.instruction_set.to_string()),
        }
    }
}

/// The median of values with counts; between the two middle values when their number is even.
pub(crate) fn median(counts: &BTreeMap<u32, u64>) -> Option<f64> {
    let total: u64 = counts.values().sum();
    let at = |rank: u64| {
        let mut seen = 0;
        counts.iter().find(|(_, count)| {
            seen += **count;
            seen > rank
        })
    };
    let (low, _) = at(total.checked_sub(1)? / 2)?;
    let (high, _) = at(total / 2)?;
    Some((f64::from(*low) + f64::from(*high)) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, EventKind, Step, ToggleChange, ToggleName, ToggleValue};

    #[test]
    fn the_median_is_the_middle_or_between_the_middles() {
        assert_eq!(median(&BTreeMap::new()), None);
        assert_eq!(median(&BTreeMap::from([(80, 1)])), Some(80.0));
        assert_eq!(median(&BTreeMap::from([(1, 2), (5, 1), (9, 2)])), Some(5.0));
        assert_eq!(median(&BTreeMap::from([(2, 3), (5, 3)])), Some(3.5));
    }

    #[test]
    fn it_is_flat_json_with_every_flag_kind() {
        let mut state = State::default();
        let toggle = ToggleChange { name: ToggleName::Overlap, value: ToggleValue::Choice(1), step: 0 };
        let step = Step {
            rows: 80,
            witnesses: 2,
            diverged_rows: vec![1, 2],
            diverged_sessions: vec![7, 8],
            ..Step::default()
        };
        for kind in [EventKind::Toggle(toggle), EventKind::Step(step)] {
            state.apply_owned(Event { sequence: 0, time_ns: 0, kind });
        }
        let json = serde_json::to_value(state.summary()).unwrap();
        assert_eq!(json["flags"], serde_json::json!({ "wrong-argument": 0, "malformed-call": 0 }));
        assert_eq!(json["toggles"], serde_json::json!({ "SGLANG_OPT_USE_MULTI_STREAM_OVERLAP": "1" }));
        assert_eq!(json["rows_per_hit_step"], serde_json::json!({ "2": 1 }));
        assert_eq!(json["median_rows_per_hit_step"], 2.0);
        assert_eq!(json["diverged_sessions"], 2);
        assert_eq!(json["corrupted"], 0);
        assert_eq!(json["rate"]["value"], 0.0);
    }
}
