//! What is known of a target: what panes, reports and conditions read.
//!
//! How events change it is in `reducer.rs`. Peers are hostile, so everything is bounded: whatever a
//! target says beyond one of the [`crate::limits`] is counted in [`State::refused`] and otherwise
//! ignored, or pushes out the oldest of its kind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::{
    CanaryReport, Clusters, Divergence, Flag, FlagKind, Graph, Hazard, Hello, LastWrites, Log, PageRef, Rate,
    Sanitized, SessionId, SessionPhase, SpanBatch, Step, ToggleName, ToggleValue,
};

pub use crate::limits::{FINISHED_SESSIONS, LOG_LINES, WINDOW_STEPS};

/// Everything known of a target.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// What the target is, once it has said so.
    pub hello: Option<Hello>,
    /// Current value of every toggle.
    pub toggles: BTreeMap<ToggleName, ToggleValue>,
    /// Captured graphs and eager node lists by identity.
    pub graphs: BTreeMap<u32, Graph>,
    /// Sessions by identity.
    pub sessions: BTreeMap<SessionId, Session>,
    /// Totals since the start.
    pub totals: Totals,
    /// Totals since the last toggle change: of whatever happened at [`State::toggle_step`] or later.
    ///
    /// It starts anew when a toggle changes its value after step 0. What a change cannot cure must not be
    /// held against it, so sessions count with what happens to them from then on:
    /// - `sessions`: those that made a call since, whenever they arrived.
    /// - `corrupted`: those whose *first* flag came since.
    /// - `corrupted_before`: of `sessions`, those flagged before, which therefore cannot count in `corrupted`.
    /// - `carried_over`: of `corrupted`, those damaged before.
    /// - `diverged_sessions`: those with a row that diverged since, even if one had before.
    pub since_toggle: Totals,
    /// The step at which the last toggle change took effect.
    pub toggle_step: u64,
    /// The last steps, oldest first.
    pub steps: VecDeque<Step>,
    /// Their spans, oldest first.
    pub spans: VecDeque<SpanBatch>,
    /// The last divergences, oldest first.
    pub divergences: VecDeque<Divergence>,
    /// Hazards of captured graphs.
    pub hazards: Vec<Hazard>,
    /// Pages by pool.
    pub canary: Canary,
    /// The last log lines, oldest first.
    pub log: VecDeque<Log>,
    /// Last value of each host metric.
    pub metrics: BTreeMap<String, f64>,
    /// Telemetry events lost so far.
    pub dropped: u64,
    /// Things said beyond a limit, or out of range, and not kept.
    pub refused: u64,
    /// The largest step that any event has named: the one that is going on.
    pub step: u64,
    /// Sequence number of the last event folded.
    pub sequence: u64,
    /// Target time of the last event folded, ns.
    pub time_ns: u64,
}

impl State {
    /// A copy without the windows of steps and spans, which are by far the largest part.
    pub fn without_windows(&self) -> Self {
        let (hello, graphs, hazards) = (self.hello.clone(), self.graphs.clone(), self.hazards.clone());
        Self { hello, graphs, hazards, ..self.aggregates() }
    }

    /// A copy without what hardly ever changes either: hello, graphs and hazards.
    pub(crate) fn aggregates(&self) -> Self {
        // Every field by name, so that a new one is not copied, or left out, unseen.
        let Self {
            hello: _,
            toggles,
            graphs: _,
            sessions,
            totals,
            since_toggle,
            toggle_step,
            steps: _,
            spans: _,
            divergences,
            hazards: _,
            canary,
            log,
            metrics,
            dropped,
            refused,
            step,
            sequence,
            time_ns,
        } = self;
        Self {
            hello: None,
            toggles: toggles.clone(),
            graphs: BTreeMap::new(),
            sessions: sessions.clone(),
            totals: totals.clone(),
            since_toggle: since_toggle.clone(),
            toggle_step: *toggle_step,
            steps: VecDeque::new(),
            spans: VecDeque::new(),
            divergences: divergences.clone(),
            hazards: Vec::new(),
            canary: canary.clone(),
            log: log.clone(),
            metrics: metrics.clone(),
            dropped: *dropped,
            refused: *refused,
            step: *step,
            sequence: *sequence,
            time_ns: *time_ns,
        }
    }
}

/// One session as far as known.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Session {
    /// Where it is in its life.
    pub phase: SessionPhase,
    /// Its batch slot while decoding.
    pub slot: Option<u32>,
    /// Turn, from 0.
    pub turn: u32,
    /// Turns it will have.
    pub turns: u32,
    /// Tokens it holds.
    pub tokens: u32,
    /// Its last call as its client saw it.
    pub call: Sanitized,
    /// Findings about its text.
    pub flags: Vec<Flag>,
    /// Steps in which one of its rows diverged.
    pub diverged_steps: u32,
    /// The first of them.
    pub first_diverged: Option<u64>,
    /// First layer of the first divergence.
    pub first_layer: Option<u16>,
    /// The last step in which one of its rows diverged.
    pub last_diverged: Option<u64>,
    /// The last turn in which one of its rows diverged, and the first such step of that turn.
    pub diverged_turn: Option<(u32, u64)>,
    /// Tool calls it has made.
    pub calls: u32,
    /// Step of the last call.
    pub last_call: Option<u64>,
    /// Step of the last change.
    pub step: u64,
}

impl Session {
    /// Whether its client would see wrong text.
    pub fn corrupt(&self) -> bool {
        !self.flags.is_empty()
    }

    /// Whether one of its rows differed from the step oracle's.
    pub fn diverged(&self) -> bool {
        self.first_diverged.is_some()
    }

    /// The step that damaged what turn `turn` says: the first that diverged in that turn or, when
    /// none did, the last before it, as what was damaged stays damaged.
    pub fn damaging_step(&self, turn: u32) -> Option<u64> {
        match self.diverged_turn {
            Some((diverged, step)) if diverged == turn => Some(step),
            _ => self.last_diverged,
        }
    }
}

/// Counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Decode steps.
    pub steps: u64,
    /// Tokens decoded.
    pub tokens: u64,
    /// Sessions that have arrived.
    pub sessions: u64,
    /// Sessions that have had all their turns.
    pub finished: u64,
    /// Sessions with a flag.
    pub corrupted: u64,
    /// Of `sessions`, those that were corrupt before counting began: they are not at risk of a first flag.
    pub corrupted_before: u64,
    /// Of `corrupted`, those that were damaged before counting began.
    pub carried_over: u64,
    /// The corrupt sessions, linked when the same step damaged them.
    pub clusters: Clusters,
    /// Sessions with a diverged row.
    pub diverged_sessions: u64,
    /// Steps with a diverged row.
    pub hit_steps: u64,
    /// Rows per hit step: how many steps hit so many rows.
    pub rows_per_hit_step: BTreeMap<u32, u64>,
    /// Batch slots hit at least once.
    pub slots_hit: BTreeSet<u32>,
    /// Largest batch seen.
    pub slots_seen: u32,
    /// Diverged rows.
    pub diverged_rows: u64,
    /// Races recorded by the virtual GPU.
    pub witnesses: u64,
    /// Steps with a witness.
    pub witness_steps: u64,
    /// Steps that diverged without a witness: must stay 0.
    pub diverged_without_witness: u64,
    /// Flags by kind.
    pub flags: BTreeMap<FlagKind, u64>,
    /// Tool calls made.
    pub calls: u64,
    /// Canary violations.
    pub canary_hits: u64,
    /// Pages checked by the canary.
    pub pages_checked: u64,
}

impl Totals {
    /// The rate of corrupt sessions among those at risk of a first flag.
    pub fn corruption_rate(&self) -> Rate {
        self.clusters.rate(self.sessions.saturating_sub(self.corrupted_before))
    }
}

/// What the canary knows of the pages.
#[derive(Clone, Debug, Default)]
pub struct Canary {
    /// Per pool: last step in which each page changed, declared or not, if seen.
    pub last_written: Vec<LastWrites>,
    /// Pages that changed undeclared: page and step, oldest first, bounded.
    pub violations: VecDeque<(u64, PageRef)>,
    /// The last report.
    pub last: Option<CanaryReport>,
}

impl Canary {
    /// The last step in which a page changed, declared or not, if that was seen.
    pub fn last_write(&self, page: PageRef) -> Option<u64> {
        self.last_written.get(usize::from(page.pool))?.get(page.page)
    }
}
