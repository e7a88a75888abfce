//! An engine on a thread of its own, at a pace that a person can follow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use coalmine_sessions::{
    Command, CommandId, CommandKind, EventKind, EventReceiver, EventSender, Log, LogLevel, Metric, Sanitized,
    event_queue,
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
        tracing::info!(model = options.model, seed = options.seed, "the engine starts");
        let events = Arc::new(events);
        let outcome = Engine::new(&checkpoint, options, Arc::clone(&events)).and_then(|engine| {
            Host { engine, events: &events, commands, pace, held: false, asked: VecDeque::new() }.run()
        });
        if let Err(error) = outcome {
            tracing::error!(%error, "the engine ended");
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
    /// Single steps that were asked for and have not run, in the order in which they were.
    asked: VecDeque<CommandId>,
}

impl Host<'_> {
    /// Runs to the end; whoever still waits for a step is then told that there is none.
    fn run(mut self) -> Result<(), EngineError> {
        let outcome = self.go_on();
        self.refuse_steps("The engine has ended: there are no more steps.");
        outcome
    }

    fn go_on(&mut self) -> Result<(), EngineError> {
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
            let step = self.engine.step_number();
            if self.engine.advance()? == Progress::Finished {
                return Ok(());
            }
            // Answered after the step, so that whoever reads the answer has read what the step said.
            if let Some(command) = self.asked.pop_front() {
                self.engine.acknowledge(command, Ok(step));
            }
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
        let command = if self.held && self.asked.is_empty() {
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
        // Applying a command twice is applying it once: only its answer is said again, or is still to come.
        if self.asked.contains(&command.id) {
            return Turn::Wait;
        }
        if self.engine.answered(command.id) {
            self.engine.command(command);
            return Turn::Wait;
        }
        match command.kind {
            CommandKind::SetToggle(..) => {}
            CommandKind::Hold(held) => {
                self.held = held;
                if held {
                    self.refuse_steps("The engine was asked to hold before this step had run.");
                }
            }
            CommandKind::SingleStep => {
                self.held = true;
                self.asked.push_back(command.id);
                return Turn::Wait;
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

    fn refuse_steps(&mut self, reason: &str) {
        for command in std::mem::take(&mut self.asked) {
            self.engine.refuse(command, reason);
        }
    }
}

enum Turn {
    Step,
    Wait,
    Stop,
}

#[cfg(test)]
mod tests {
    use coalmine_kernels::Compute;
    use coalmine_kernels::math::Cpu;
    use coalmine_sessions::{Ack, Event};

    use super::*;

    /// A host with what it has said so far and not been looked at.
    struct Bench {
        events: EventReceiver,
        commands: Sender<Command>,
        said: VecDeque<Event>,
    }

    impl Bench {
        /// An engine that was asked to hold before anything else.
        fn held(sessions: u64, turns: u32) -> Self {
            let options = EngineOptions {
                concurrency: 4,
                sessions: Some(sessions),
                turns,
                oracle: false,
                ..EngineOptions::incident(Compute { cpu: Cpu::detect(), workers: 1 })
            };
            let (events, commands) = spawn(crate::demo_checkpoint().unwrap(), options, None).unwrap();
            let mut bench = Self { events, commands, said: VecDeque::new() };
            bench.ask(1, CommandKind::Hold(true));
            bench.answer();
            bench
        }

        fn ask(&self, id: CommandId, kind: CommandKind) {
            self.commands.send(Command { id, kind }).unwrap();
        }

        /// What is said up to the next answer, and that answer.
        fn answer(&mut self) -> (Vec<Event>, Ack) {
            let mut before = Vec::new();
            loop {
                while let Some(event) = self.said.pop_front() {
                    match event.kind {
                        EventKind::Ack(ack) => return (before, ack),
                        _ => before.push(event),
                    }
                }
                let mut drained = Vec::new();
                self.events.drain(&mut drained);
                assert!(!(drained.is_empty() && self.events.is_closed()), "the engine ended without an answer");
                self.said.extend(drained);
                thread::yield_now();
            }
        }

        fn step(&mut self, id: CommandId) -> (Vec<Event>, u64) {
            self.ask(id, CommandKind::SingleStep);
            let (events, ack) = self.answer();
            assert_eq!(ack.command, id);
            (events, ack.outcome.unwrap())
        }
    }

    #[test]
    fn a_single_step_is_answered_after_it_has_run() {
        let mut bench = Bench::held(2, 6);
        let mut decoded = 0;
        let (_, mut last) = bench.step(2);
        for id in 3..60 {
            let (events, step) = bench.step(id);
            assert_eq!(step, last + 1);
            last = step;
            // What is said between two answers is of this step, whether or not anybody decodes in it.
            assert!(events.iter().all(|event| event.kind.named_step().is_none_or(|named| named == step)));
            let steps = events.iter().filter(|event| matches!(event.kind, EventKind::Step(_))).count();
            decoded += steps;
            assert!(steps <= 1);
        }
        assert!(decoded > 0 && decoded < 57, "{decoded} of 57 steps decoded");
    }

    #[test]
    fn a_step_asked_for_twice_runs_once() {
        let mut bench = Bench::held(4, 1);
        let (_, first) = bench.step(2);
        // Once again after it has run, and twice while it waits.
        bench.ask(2, CommandKind::SingleStep);
        assert_eq!(bench.answer().1, Ack { command: 2, outcome: Ok(first) });
        bench.ask(3, CommandKind::SingleStep);
        bench.ask(3, CommandKind::SingleStep);
        assert_eq!(bench.answer().1, Ack { command: 3, outcome: Ok(first + 1) });
        bench.ask(4, CommandKind::SingleStep);
        let (_, mut ack) = bench.answer();
        if ack.command == 3 {
            // The second time came after it had run.
            ack = bench.answer().1;
        }
        assert_eq!(ack, Ack { command: 4, outcome: Ok(first + 2) });
    }

    #[test]
    fn steps_that_do_not_run_are_refused() {
        // So slow that no step runs by itself.
        let mut bench = Bench::held(1, 1);
        bench.ask(2, CommandKind::Pace(Some(1e-3)));
        bench.answer();
        bench.step(3);
        bench.ask(4, CommandKind::SingleStep);
        bench.ask(5, CommandKind::SingleStep);
        bench.ask(6, CommandKind::Hold(true));
        for (command, words) in [(4, "asked to hold"), (5, "asked to hold")] {
            let (_, ack) = bench.answer();
            assert_eq!(ack.command, command);
            assert!(ack.outcome.unwrap_err().contains(words));
        }
        assert_eq!(bench.answer().1.command, 6);
        bench.ask(7, CommandKind::SingleStep);
        bench.ask(8, CommandKind::Stop);
        let answers = [bench.answer().1, bench.answer().1];
        assert!(answers.iter().any(|ack| ack.command == 7 && ack.outcome.is_err()), "{answers:?}");
        assert!(answers.iter().any(|ack| ack.command == 8 && ack.outcome.is_ok()), "{answers:?}");
    }

    #[test]
    fn the_engine_that_has_ended_says_that_there_are_no_more_steps() {
        let mut bench = Bench::held(1, 1);
        for id in 2.. {
            bench.ask(id, CommandKind::SingleStep);
            let (_, ack) = bench.answer();
            if let Err(reason) = ack.outcome {
                assert!(reason.contains("no more steps") && id > 10, "{reason}");
                return;
            }
        }
    }
}
