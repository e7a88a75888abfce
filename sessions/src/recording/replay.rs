//! A recording played back: a position in it that can go both ways.

use std::collections::VecDeque;
use std::time::Duration;

use super::reader::Batch;
use super::{Recording, RecordingError};
use crate::{Anomaly, State};

/// Slowest speed.
pub const SLOWEST: f64 = 0.1;
/// Fastest speed.
pub const FASTEST: f64 = 100.0;

/// Steps that one call advances at most, so that whoever draws is not held up. What is too fast to play plays slower.
const STEPS_AT_ONCE: u32 = 256;
/// Longest pause between two steps, ns: a target that was held for an hour is not waited for.
const LONGEST_PAUSE_NS: u64 = 1_000_000_000;
/// A step further ahead than this is jumped to rather than played to.
const NEAR: u64 = 256;

/// A position in a recording, the state there, and whether and how fast it moves.
///
/// It knows neither clock nor terminal: whoever owns it says how much time has passed. After an error it stays where it
/// was, unless it was moving step by step; then it stands at the last step that could be read, paused.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use coalmine_sessions::recording::{Manifest, Recording, RecordingWriter, Replay};
/// use coalmine_sessions::{Event, EventKind, Step};
///
/// # let directory = std::env::temp_dir().join(format!("coalmine-replay-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let path = directory.join("steps.mcap");
/// let mut writer = RecordingWriter::create(&path, Manifest::default())?;
/// let begin = Instant::now();
/// for step in 0..100 {
///     let kind = EventKind::Step(Step { step, ..Step::default() });
///     let event = Event { sequence: step, time_ns: step * 1_000_000, kind };
///     writer.record(&event, begin + Duration::from_millis(20 * step))?;
/// }
/// writer.finish()?;
///
/// let mut replay = Replay::new(Recording::open(&path)?.0)?;
/// replay.goto_step(40)?;
/// replay.step_back()?;
/// assert_eq!((replay.step(), replay.state().totals.steps), (39, 40));
/// replay.play();
/// replay.advance(Duration::from_millis(100))?;
/// assert_eq!(replay.step(), 45);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Replay {
    recording: Recording,
    state: State,
    step: u64,
    /// When what was played last was recorded, ns on the host's clock; nothing after a move.
    played_ns: Option<u64>,
    /// Time that has passed and not yet been played, ns.
    owed_ns: f64,
    playing: bool,
    speed: f64,
    /// The step that was last jumped to: everything up to its end was folded then.
    jumped_to: u64,
    /// Batches after the position that are read already.
    ahead: VecDeque<Batch>,
    /// The chunk to read after them.
    next_chunk: usize,
}

impl Replay {
    /// Stands at the first step, paused, at the speed at which it was recorded.
    pub fn new(recording: Recording) -> Result<Self, RecordingError> {
        let mut replay = Self {
            recording,
            state: State::default(),
            step: 0,
            played_ns: None,
            owed_ns: 0.0,
            playing: false,
            speed: 1.0,
            jumped_to: 0,
            ahead: VecDeque::new(),
            next_chunk: 0,
        };
        replay.jump(replay.recording.first_step())?;
        Ok(replay)
    }

    /// The recording.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The state after the step where it stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The step where it stands.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Whether it moves by itself.
    pub fn playing(&self) -> bool {
        self.playing
    }

    /// How many times faster it moves than it was recorded.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Whether it stands at the last step.
    pub fn at_end(&self) -> bool {
        self.step >= self.recording.last_step()
    }

    /// Lets it move; at the end there is nowhere to go.
    pub fn play(&mut self) {
        self.playing = !self.at_end();
    }

    /// Stops it.
    pub fn pause(&mut self) {
        self.playing = false;
    }

    /// Sets the speed, between [`SLOWEST`] and [`FASTEST`]; what is no number changes nothing.
    pub fn set_speed(&mut self, speed: f64) {
        if !speed.is_nan() {
            self.speed = speed.clamp(SLOWEST, FASTEST);
        }
    }

    /// Moves on by so much time, if it is playing, as fast as was recorded. Says whether the state changed.
    pub fn advance(&mut self, elapsed: Duration) -> Result<bool, RecordingError> {
        if !self.playing {
            return Ok(false);
        }
        let mut owed_ns = self.owed_ns + elapsed.as_nanos() as f64 * self.speed;
        let mut played_ns = self.played_ns;
        let start = self.step;
        let mut left = STEPS_AT_ONCE;
        let moved = self.play_while(|batch, step| {
            let pause = played_ns.map_or(0, |before| batch.wall_ns.saturating_sub(before)).min(LONGEST_PAUSE_NS) as f64;
            let goes_on = batch.step == step || (pause <= owed_ns && left > 0);
            if goes_on {
                left -= u32::from(batch.step != step);
                owed_ns -= pause.min(owed_ns);
                played_ns = Some(batch.wall_ns);
            }
            goes_on
        });
        // What is too much to play is not caught up with.
        self.owed_ns = if left == 0 { 0.0 } else { owed_ns };
        self.played_ns = played_ns;
        if moved.is_err() || self.at_end() {
            self.playing = false;
        }
        moved.map(|()| self.step != start)
    }

    /// Goes to the next step.
    pub fn step_forward(&mut self) -> Result<(), RecordingError> {
        self.goto_step(self.step.saturating_add(1))
    }

    /// Goes to the step before.
    pub fn step_back(&mut self) -> Result<(), RecordingError> {
        self.goto_step(self.step.saturating_sub(1))
    }

    /// Goes to a step, or to the first or last when there is none so early or late.
    pub fn goto_step(&mut self, step: u64) -> Result<(), RecordingError> {
        let first = self.recording.first_step();
        let step = step.clamp(first, self.recording.last_step().max(first));
        if step >= self.step && step - self.step <= NEAR {
            let moved = self.play_while(|batch, _| batch.step <= step);
            if moved.is_err() {
                self.playing = false;
                return moved;
            }
            // Also over steps of which nothing was recorded.
            self.step = step;
            self.forget_time();
            Ok(())
        } else {
            self.jump(step)
        }
    }

    /// Goes to the last step that had begun at a time on the target's clock.
    pub fn goto_time(&mut self, time_ns: u64) -> Result<(), RecordingError> {
        self.goto_step(self.recording.step_at_time(time_ns)?)
    }

    /// Goes to the next step in which something was wrong, if there is one.
    pub fn next_anomaly(&mut self) -> Result<Option<Anomaly>, RecordingError> {
        let anomalies = self.recording.anomalies();
        let next = anomalies.partition_point(|anomaly| anomaly.step <= self.step);
        self.goto_anomaly(anomalies.get(next).copied())
    }

    /// Goes to the step before in which something was wrong, if there is one.
    pub fn previous_anomaly(&mut self) -> Result<Option<Anomaly>, RecordingError> {
        let anomalies = self.recording.anomalies();
        let next = anomalies.partition_point(|anomaly| anomaly.step < self.step);
        self.goto_anomaly(anomalies[..next].last().copied())
    }

    fn goto_anomaly(&mut self, anomaly: Option<Anomaly>) -> Result<Option<Anomaly>, RecordingError> {
        if let Some(anomaly) = anomaly {
            self.goto_step(anomaly.step)?;
        }
        Ok(anomaly)
    }

    /// After a move it is as if playing began there.
    fn forget_time(&mut self) {
        self.played_ns = None;
        self.owed_ns = 0.0;
    }

    fn jump(&mut self, step: u64) -> Result<(), RecordingError> {
        self.state = self.recording.state_at(step)?;
        self.step = step;
        self.jumped_to = step;
        self.forget_time();
        self.ahead.clear();
        self.next_chunk = self.recording.chunks_of(&(step.saturating_add(1)..=u64::MAX)).start;
        Ok(())
    }

    /// Folds the batches ahead for as long as `goes_on` says, given each and the step reached.
    fn play_while(&mut self, mut goes_on: impl FnMut(&Batch, u64) -> bool) -> Result<(), RecordingError> {
        loop {
            if self.ahead.is_empty() {
                if self.next_chunk >= self.recording.chunks_of(&(0..=u64::MAX)).end {
                    return Ok(());
                }
                let batches = self.recording.batches(self.next_chunk, |_| true)?;
                self.next_chunk += 1;
                let jumped_to = self.jumped_to;
                self.ahead.extend(batches.into_iter().filter(|batch| batch.step > jumped_to));
                continue;
            }
            let step = self.step;
            match self.ahead.pop_front_if(|batch| goes_on(batch, step)) {
                Some(batch) => {
                    self.step = batch.step;
                    batch.events.into_iter().for_each(|event| self.state.apply_owned(event));
                }
                None => return Ok(()),
            }
        }
    }
}
