//! An engine on a thread of its own, at a pace that a person can follow.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use coalmine_sessions::{
    Command, CommandKind, EventKind, EventReceiver, EventSender, Log, LogLevel, Metric, Sanitized, event_queue,
};

use super::checkpoint::Checkpoint;
use super::error::EngineError;
use super::scheduler::{Engine, EngineOptions, Progress};

/// Telemetry that waits for a slow reader.
const BACKLOG: usize = coalmine_sessions::TELEMETRY_BACKLOG;
/// How often the host's own numbers are told.
const METRIC_INTERVAL: Duration = Duration::from_millis(1_000);

/// Starts an engine on its own thread, where it also packs the model and captures its graphs.
///
/// The engine ends when the sender of commands is dropped, on [`CommandKind::Stop`], or when its sessions are done.
///
/// # Errors
/// When the operating system gives no thread.
pub fn spawn(
    checkpoint: Checkpoint,
    options: EngineOptions,
    pace: Option<f64>,
) -> std::io::Result<(EventReceiver, Sender<Command>)> {
    let (events, receiver) = event_queue(BACKLOG);
    let (sender, commands) = channel();
    thread::Builder::new().name("engine".to_owned()).spawn(move || {
        let events = Arc::new(events);
        let outcome = Engine::new(&checkpoint, options, Arc::clone(&events))
            .and_then(|engine| Host { engine, events: &events, commands, pace, held: false, steps: 0 }.run());
        if let Err(error) = outcome {
            let text = Sanitized::new(&format!("The engine ended: {error}"));
            events.send(EventKind::Log(Log { level: LogLevel::Error, text }), 0);
        }
    })?;
    Ok((receiver, sender))
}

struct Host<'a> {
    engine: Engine,
    events: &'a EventSender,
    commands: Receiver<Command>,
    /// Steps a second; none is as fast as it goes.
    pace: Option<f64>,
    held: bool,
    /// Steps to run although held.
    steps: u32,
}

impl Host<'_> {
    fn run(mut self) -> Result<(), EngineError> {
        let mut due = Instant::now();
        let mut told = (Instant::now(), 0);
        loop {
            match self.wait_until(due) {
                Turn::Stop => return Ok(()),
                Turn::Wait => continue,
                Turn::Step => {}
            }
            let now = Instant::now();
            // After a hold or a slow step the pace goes on from now; it does not catch up.
            due = due.max(now.checked_sub(Duration::from_millis(100)).unwrap_or(now)) + self.interval();
            if self.engine.advance()? == Progress::Finished {
                return Ok(());
            }
            self.steps = self.steps.saturating_sub(1);
            let elapsed = told.0.elapsed();
            if elapsed >= METRIC_INTERVAL {
                let tokens = self.engine.tokens_decoded();
                let value = (tokens - told.1) as f64 / elapsed.as_secs_f64();
                let name = Sanitized::new("tokens_per_second");
                let time_ns = (self.engine.runner().gpu.clock_us() * 1e3) as u64;
                self.events.send(EventKind::Metric(Metric { name, value }), time_ns);
                told = (Instant::now(), tokens);
            }
        }
    }

    fn interval(&self) -> Duration {
        match self.pace {
            Some(steps) if steps.is_finite() && steps > 0.0 => Duration::from_secs_f64(1.0 / steps.max(1e-3)),
            _ => Duration::ZERO,
        }
    }

    /// Takes commands until the next step is due.
    fn wait_until(&mut self, due: Instant) -> Turn {
        let command = if self.held && self.steps == 0 {
            self.commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            self.commands.recv_timeout(due.saturating_duration_since(Instant::now()))
        };
        match command {
            Ok(command) => self.take(&command),
            Err(RecvTimeoutError::Timeout) => Turn::Step,
            Err(RecvTimeoutError::Disconnected) => Turn::Stop,
        }
    }

    fn take(&mut self, command: &Command) -> Turn {
        if self.engine.answered(command.id) {
            // Applying a command twice is applying it once: only its answer is said again.
            self.engine.command(command);
            return Turn::Wait;
        }
        match command.kind {
            CommandKind::SetToggle(..) => {}
            CommandKind::Hold(held) => {
                self.held = held;
                self.steps = 0;
            }
            CommandKind::SingleStep => {
                self.held = true;
                self.steps += 1;
            }
            CommandKind::Pace(pace) if pace.is_some_and(|steps| !(steps.is_finite() && steps > 0.0)) => {
                self.engine.refuse(command.id, "The pace must be a positive number of steps a second.");
                return Turn::Wait;
            }
            CommandKind::Pace(pace) => self.pace = pace,
            CommandKind::Stop => {
                self.engine.command(command);
                return Turn::Stop;
            }
        }
        self.engine.command(command);
        Turn::Wait
    }
}

enum Turn {
    Step,
    Wait,
    Stop,
}
