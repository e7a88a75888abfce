//! The engine without a console: runs to its end and says how it went.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coalmine_sessions::{Event, State, Summary, event_queue};
use serde::Serialize;

use crate::engine::checkpoint::Checkpoint;
use crate::engine::{Engine, EngineError, EngineOptions, Progress};

/// Telemetry events that may wait: the run folds them after every step.
const BACKLOG: usize = 1024;

/// What a run found.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// The state at its end.
    #[serde(flatten)]
    pub summary: Summary,
    /// Whether the step oracle ran; without it the figures about divergence say nothing.
    pub oracle: bool,
    /// Tokens decoded for each second of wall time.
    pub tokens_per_second: f64,
    /// Wall time, s.
    pub seconds: f64,
    /// Virtual time of the device, s.
    pub device_seconds: f64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct RunProgress {
    /// Steps so far.
    pub step: u64,
    /// Sessions that have had all their turns.
    pub finished: u64,
    /// Sessions that will run in all.
    pub sessions: u64,
}

/// Runs an engine until every session has had its turns, or for `steps` steps.
pub fn run(
    checkpoint: &Checkpoint,
    options: EngineOptions,
    steps: Option<u64>,
    progress: impl FnMut(RunProgress),
) -> Result<(RunReport, State), EngineError> {
    run_observed(checkpoint, options, steps, progress, |_| ())
}

/// As [`run`], and calls `observe` with every event, in order.
///
/// # Errors
/// As [`run`].
pub fn run_observed(
    checkpoint: &Checkpoint,
    options: EngineOptions,
    steps: Option<u64>,
    mut progress: impl FnMut(RunProgress),
    mut observe: impl FnMut(&Event),
) -> Result<(RunReport, State), EngineError> {
    let (sender, receiver) = event_queue(BACKLOG);
    let sessions = options.sessions.unwrap_or(0);
    let oracle = options.oracle;
    let start = Instant::now();
    let mut engine = Engine::new(checkpoint, options, Arc::new(sender))?;
    let mut state = State::default();
    let mut events = Vec::new();
    let mut told = Instant::now();
    loop {
        let done = steps.is_some_and(|steps| engine.step_number() >= steps);
        let finished = done || engine.advance()? == Progress::Finished;
        receiver.drain(&mut events);
        for event in events.drain(..) {
            observe(&event);
            state.apply_owned(event);
        }
        if finished {
            break;
        }
        if told.elapsed() > Duration::from_millis(200) {
            told = Instant::now();
            progress(RunProgress { step: engine.step_number(), finished: state.totals.finished, sessions });
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let summary = state.summary();
    let report = RunReport {
        oracle,
        tokens_per_second: summary.tokens as f64 / seconds.max(1e-9),
        device_seconds: engine.runner().gpu.clock_us() / 1e6,
        seconds,
        summary,
    };
    Ok((report, state))
}
