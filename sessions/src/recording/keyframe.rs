//! The state without its spans, to start from.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::wire::{Differential, Measured, Pages};
use crate::bounded::{at_most, keep};
use crate::limits::{CALL_CHARACTERS, CANARY_VIOLATIONS, FLAGS_PER_SESSION, LARGEST_BATCH, POOLS, SESSIONS};
use crate::{
    Event, EventKind, Graph, Hazard, Hello, LastWrites, Log, Metric, PageRef, Session, SessionId, State, Step,
    ToggleName, ToggleValue, Totals,
};

/// Beyond any honest count, and small enough that counting on from it cannot overflow.
const COUNT_LIMIT: u64 = 1 << 48;

/// The message of a keyframe.
#[derive(Serialize, Deserialize)]
pub(super) struct KeyframeMessage<'a> {
    /// The step after which it holds.
    pub(super) step: u64,
    /// Whether the recording begins with it, in the middle of a run: it then holds before those of its step's events
    /// that follow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) opens: bool,
    pub(super) keyframe: Keyframe<'a>,
}

/// What tells where a keyframe stands.
#[derive(Deserialize)]
pub(super) struct KeyframeStep {
    pub(super) step: u64,
    #[serde(default)]
    pub(super) opens: bool,
}

/// A [`State`] without its spans.
#[derive(Serialize, Deserialize)]
pub(super) struct Keyframe<'a> {
    /// The first step that the windows of steps and spans reach back to.
    pub(super) window_from: u64,
    /// The window of steps. Early files lack it; their steps are read one by one.
    #[serde(default)]
    steps: Option<Cow<'a, VecDeque<Step>>>,
    hello: Cow<'a, Option<Hello>>,
    toggles: Cow<'a, BTreeMap<ToggleName, ToggleValue>>,
    graphs: Cow<'a, BTreeMap<u32, Graph>>,
    sessions: Cow<'a, BTreeMap<SessionId, Session>>,
    totals: Cow<'a, Totals>,
    since_toggle: Cow<'a, Totals>,
    toggle_step: u64,
    divergences: Vec<Differential>,
    hazards: Cow<'a, [Hazard]>,
    /// Per pool, runs of pages last written in the same step: first page, number of pages, step.
    #[serde(deserialize_with = "at_most::<POOLS, _, _>")]
    last_written: Vec<Vec<(u32, u32, u64)>>,
    violations: Cow<'a, VecDeque<(u64, PageRef)>>,
    last_report: Option<Pages>,
    log: Cow<'a, VecDeque<Log>>,
    metrics: Vec<Measured>,
    dropped: u64,
    refused: u64,
    /// As in the state; early files lack it, and then it is the step after which the keyframe holds.
    #[serde(default)]
    named_step: Option<u64>,
    sequence: u64,
    time_ns: u64,
}

impl<'a> Keyframe<'a> {
    pub(super) fn of(state: &'a State, window_from: u64) -> Self {
        let metric = |(name, &value): (&String, &f64)| Measured::new(&Metric { name: name.as_str().into(), value });
        Self {
            window_from,
            steps: Some(Cow::Borrowed(&state.steps)),
            hello: Cow::Borrowed(&state.hello),
            toggles: Cow::Borrowed(&state.toggles),
            graphs: Cow::Borrowed(&state.graphs),
            sessions: Cow::Borrowed(&state.sessions),
            totals: Cow::Borrowed(&state.totals),
            since_toggle: Cow::Borrowed(&state.since_toggle),
            toggle_step: state.toggle_step,
            divergences: state.divergences.iter().map(Differential::new).collect(),
            hazards: Cow::Borrowed(&state.hazards),
            last_written: state.canary.last_written.iter().map(LastWrites::runs).collect(),
            violations: Cow::Borrowed(&state.canary.violations),
            last_report: state.canary.last.as_ref().map(Pages::new),
            log: Cow::Borrowed(&state.log),
            metrics: state.metrics.iter().map(metric).collect(),
            dropped: state.dropped,
            refused: state.refused,
            named_step: Some(state.step),
            sequence: state.sequence,
            time_ns: state.time_ns,
        }
    }

    pub(super) fn has_steps(&self) -> bool {
        self.steps.is_some()
    }

    /// The state after `step`. Whatever the reducer bounds goes through it; the rest is bounded here.
    pub(super) fn into_state(self, step: u64) -> serde_json::Result<State> {
        let mut state = State::default();
        let mut fold = |kind| state.apply_owned(Event { sequence: 0, time_ns: 0, kind });
        if let Some(hello) = self.hello.into_owned() {
            fold(EventKind::Hello(Box::new(hello)));
        }
        self.steps.map(Cow::into_owned).into_iter().flatten().for_each(|step| fold(EventKind::Step(step)));
        self.graphs.into_owned().into_values().for_each(|graph| fold(EventKind::Graph(graph)));
        self.hazards.into_owned().into_iter().for_each(|hazard| fold(EventKind::Hazard(hazard)));
        self.log.into_owned().into_iter().for_each(|line| fold(EventKind::Log(line)));
        for divergence in self.divergences {
            fold(EventKind::Differential(divergence.divergence()?));
        }
        for metric in self.metrics {
            fold(EventKind::Metric(metric.metric()?));
        }

        state.toggles = self.toggles.into_owned();
        state.toggles.retain(|name, value| name.spec().accepts(*value));
        state.toggle_step = self.toggle_step;
        state.sessions = self.sessions.into_owned();
        while state.sessions.len() > SESSIONS {
            state.sessions.pop_last();
        }
        state.sessions.values_mut().for_each(bound);
        for (table, runs) in state.canary.last_written.iter_mut().zip(self.last_written) {
            for (first, count, step) in runs {
                table.fill(first..first.saturating_add(count), step);
            }
        }
        state.canary.violations = self.violations.into_owned();
        state.canary.violations.truncate(CANARY_VIOLATIONS);
        state.canary.violations.shrink_to_fit();
        state.canary.last = self.last_report.map(Pages::report).transpose()?;
        state.totals = plausible(self.totals)?;
        state.since_toggle = plausible(self.since_toggle)?;
        state.dropped = self.dropped;
        state.refused = self.refused.min(COUNT_LIMIT);
        state.step = self.named_step.unwrap_or(step);
        state.sequence = self.sequence;
        state.time_ns = self.time_ns;
        Ok(state)
    }
}

fn bound(session: &mut Session) {
    session.call.clip(CALL_CHARACTERS);
    keep(&mut session.flags, FLAGS_PER_SESSION);
    for flag in &mut session.flags {
        flag.expected.clip(CALL_CHARACTERS);
        flag.found.clip(CALL_CHARACTERS);
    }
}

/// The totals, unless they would make the reducer overflow or grow without bound.
fn plausible(totals: Cow<'_, Totals>) -> serde_json::Result<Totals> {
    if is_plausible(&totals) {
        Ok(totals.into_owned())
    } else {
        Err(serde::de::Error::custom("the totals of a keyframe are absurd"))
    }
}

fn is_plausible(totals: &Totals) -> bool {
    // Every field by name, so that a new one cannot be forgotten here.
    let Totals {
        steps,
        tokens,
        sessions,
        finished,
        corrupted,
        corrupted_before,
        carried_over,
        clusters,
        diverged_sessions,
        hit_steps,
        rows_per_hit_step,
        slots_hit,
        slots_seen: _,
        diverged_rows,
        witnesses,
        witness_steps,
        diverged_without_witness,
        flags,
        calls,
        canary_hits,
        pages_checked,
    } = totals;
    let counts = [
        steps,
        tokens,
        sessions,
        finished,
        corrupted,
        corrupted_before,
        carried_over,
        diverged_sessions,
        hit_steps,
        diverged_rows,
        witnesses,
        witness_steps,
        diverged_without_witness,
        calls,
        canary_hits,
        pages_checked,
    ];
    let mut counts = counts.into_iter().chain(rows_per_hit_step.values()).chain(flags.values());
    let bounded = rows_per_hit_step.len() <= LARGEST_BATCH + 1
        && slots_hit.len() <= LARGEST_BATCH
        && slots_hit.iter().all(|&slot| (slot as usize) < LARGEST_BATCH);
    bounded && clusters.counts_up_to(COUNT_LIMIT) && counts.all(|&count| count <= COUNT_LIMIT)
}
