//! What a live target said lately, so that a console can go back in it without a recording.

mod checkpoint;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::limits::{WINDOW_SPANS, WINDOW_STEPS};
use crate::{Anomaly, Event, EventKind, Hello, PageRef, State};
use checkpoint::Checkpoint;

/// Steps between two checkpoints, from which a state is rebuilt; more where checkpoints are heavy, fewer where steps are.
pub const CHECKPOINT_STEPS: u64 = 64;
/// Bytes that a [`History`] holds unless it is told otherwise.
pub const HISTORY_BYTES: usize = 64 << 20;

/// The last events of a live target, with the state at some of them.
///
/// Events belong to steps as in recordings: see [`EventKind::belongs_to`]. A hello that differs from the one before
/// begins another stream, and what was held of the first is forgotten.
///
/// Events and checkpoints together take at most the given number of bytes, by estimate; the oldest go first. The one
/// exception is a state that is itself larger than a third of that, windows not counted: then they take up to three
/// times what it takes.
///
/// ```
/// use std::sync::Arc;
///
/// use coalmine_sessions::{Event, EventKind, History, State, Step};
///
/// let (mut state, mut history) = (State::default(), History::default());
/// for step in 0..100 {
///     let kind = EventKind::Step(Step { step, rows: 80, ..Step::default() });
///     let event = Arc::new(Event { sequence: step, time_ns: step * 1_000, kind });
///     state.apply(&event);
///     history.push(event, &state);
/// }
/// assert_eq!(history.state_at(40).map(|state| state.totals.steps), Some(41));
/// assert_eq!((history.oldest_step(), history.newest_step()), (Some(0), Some(99)));
/// ```
pub struct History {
    limit: usize,
    events: VecDeque<Held>,
    /// How many events came before the first of `events`.
    forgotten: u64,
    checkpoints: VecDeque<Checkpoint>,
    /// Those of the steps that can be gone back to, oldest first.
    anomalies: VecDeque<Anomaly>,
    /// The step of the last event.
    step: u64,
    hello: Option<Hello>,
    /// Of events and checkpoints.
    bytes: usize,
    /// Of the events since the last checkpoint.
    bytes_since: usize,
    /// Whether what checkpoints share has changed since the last one.
    shared_changed: bool,
}

struct Held {
    event: Arc<Event>,
    /// The step that it belongs to.
    step: u64,
    bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        Self::with_bytes(HISTORY_BYTES)
    }
}

impl History {
    /// A history of another size than [`HISTORY_BYTES`].
    pub fn with_bytes(limit: usize) -> Self {
        Self {
            limit,
            events: VecDeque::new(),
            forgotten: 0,
            checkpoints: VecDeque::new(),
            anomalies: VecDeque::new(),
            step: 0,
            hello: None,
            bytes: 0,
            bytes_since: 0,
            shared_changed: true,
        }
    }

    /// Adds an event right after it was folded: `after` is the state that came of it. Takes constant time, but for one
    /// in many events, at which it copies the state without its windows.
    pub fn push(&mut self, event: Arc<Event>, after: &State) {
        if let EventKind::Hello(_) = event.kind {
            if self.hello.is_some() && self.hello != after.hello {
                *self = Self::with_bytes(self.limit);
            }
            self.hello.clone_from(&after.hello);
        }
        self.shared_changed |= matches!(event.kind, EventKind::Hello(_) | EventKind::Graph(_) | EventKind::Hazard(_));
        self.step = event.kind.belongs_to(self.step);
        self.note_anomaly(&event.kind);

        let bytes = size_of::<Held>() + event.weight();
        self.events.push_back(Held { event, step: self.step, bytes });
        self.bytes += bytes;
        self.bytes_since += bytes;
        if self.is_checkpoint_due() {
            self.add_checkpoint(after);
        }
        self.forget_oldest();
    }

    /// The first step that can be gone back to.
    pub fn oldest_step(&self) -> Option<u64> {
        self.checkpoints.front().map(|checkpoint| checkpoint.step)
    }

    /// The step that the last event belongs to.
    pub fn newest_step(&self) -> Option<u64> {
        self.checkpoints.back().map(|_| self.step)
    }

    /// What all events up to the end of a step folded to, for the newest step those that have come; `None` before
    /// [`History::oldest_step`] and after [`History::newest_step`].
    ///
    /// It equals the live state at that time, but that its windows of steps and spans begin with what is still held:
    /// among the oldest steps they are shorter than they were.
    pub fn state_at(&self, step: u64) -> Option<State> {
        let (checkpoint, events, end) = self.way_to(step)?;
        let mut state = checkpoint.state();
        for event in events {
            match event.kind {
                // They bear on nothing but their window.
                EventKind::Spans(_) => state.pass(event),
                _ => state.apply(event),
            }
        }
        let windows = self.windows(end);
        state.steps = windows.steps;
        state.spans = windows.spans;
        Some(state)
    }

    /// The last step before `step` in which something was wrong.
    pub fn previous_anomaly(&self, step: u64) -> Option<u64> {
        let before = self.anomalies.partition_point(|anomaly| anomaly.step < step);
        Some(self.anomalies.get(before.checked_sub(1)?)?.step)
    }

    /// The first step after `step` in which something was wrong.
    pub fn next_anomaly(&self, step: u64) -> Option<u64> {
        let after = self.anomalies.partition_point(|anomaly| anomaly.step <= step);
        Some(self.anomalies.get(after)?.step)
    }

    /// The first step held after which a client would see wrong text.
    pub fn first_corruption(&self) -> Option<u64> {
        self.anomalies.iter().find(|anomaly| anomaly.flags > 0).map(|anomaly| anomaly.step)
    }

    /// The last step that had begun at a time on the target's clock; `None` if that is not held any more.
    pub fn step_at_time(&self, time_ns: u64) -> Option<u64> {
        let begun = self.events.iter().rev().find(|held| held.event.time_ns <= time_ns)?;
        (begun.step >= self.oldest_step()?).then_some(begun.step)
    }

    /// The last step before `before_step` in which a page changed, declared or not, as far as the target has ever said;
    /// `None` also if the state before `before_step` is not held any more.
    pub fn last_write_of(&self, page: PageRef, before_step: u64) -> Option<u64> {
        let (checkpoint, events, _) = self.way_to(before_step.checked_sub(1)?.min(self.step))?;
        let mut state = State { canary: checkpoint.canary().clone(), ..State::default() };
        let bears = |event: &&Event| matches!(event.kind, EventKind::Hello(_) | EventKind::Canary(_));
        events.filter(bears).for_each(|event| state.apply(event));
        state.canary.last_write(page)
    }

    /// The last checkpoint before the end of a step, the events that lead from there to that end, and how many of the
    /// events held come before it.
    fn way_to(&self, step: u64) -> Option<(&Checkpoint, impl Iterator<Item = &Event>, usize)> {
        if step > self.step {
            return None;
        }
        let end = self.events.partition_point(|held| held.step <= step);
        let later = self.checkpoints.partition_point(|checkpoint| checkpoint.step <= step);
        let checkpoint = self.checkpoints.get(later.checked_sub(1)?)?;
        let start = (checkpoint.events - self.forgotten) as usize;
        Some((checkpoint, self.events.range(start..end).map(|held| &*held.event), end))
    }

    /// A state whose windows are as after so many of the events held.
    fn windows(&self, end: usize) -> State {
        let (mut steps, mut batches, mut spans) = (0, 0, 0);
        let mut start = end;
        while start > 0 && (steps < WINDOW_STEPS || (batches < WINDOW_STEPS && spans <= WINDOW_SPANS)) {
            start -= 1;
            match &self.events[start].event.kind {
                EventKind::Hello(_) => break,
                EventKind::Step(_) => steps += 1,
                EventKind::Spans(batch) => {
                    batches += 1;
                    spans += batch.spans.len();
                }
                _ => {}
            }
        }
        let mut state = State::default();
        let bears = |held: &&Held| matches!(held.event.kind, EventKind::Step(_) | EventKind::Spans(_));
        self.events.range(start..end).filter(bears).for_each(|held| state.apply(&held.event));
        state
    }

    fn note_anomaly(&mut self, kind: &EventKind) {
        let Some(seen) = Anomaly::of(self.step, kind) else { return };
        match self.anomalies.back_mut() {
            Some(last) if last.step == seen.step => last.join(seen),
            _ => self.anomalies.push_back(seen),
        }
    }

    /// A checkpoint is no heavier than the events that it stands for, so that checkpoints take at most half of the
    /// memory and copying them costs no more than the events did.
    fn is_checkpoint_due(&self) -> bool {
        let Some(last) = self.checkpoints.back() else { return true };
        let far = self.step - last.step >= CHECKPOINT_STEPS || self.bytes_since >= self.limit / 8;
        let shared = if self.shared_changed { last.shared().bytes } else { 0 };
        far && self.bytes_since >= last.bytes + shared
    }

    fn add_checkpoint(&mut self, state: &State) {
        let last = self.checkpoints.back().filter(|_| !self.shared_changed);
        let shared = last.map(|last| Arc::clone(last.shared()));
        let events = self.forgotten + self.events.len() as u64;
        let checkpoint = Checkpoint::new(state, events, self.step, shared);
        self.bytes += checkpoint.bytes;
        if self.shared_changed {
            self.bytes += checkpoint.shared().bytes;
        }
        self.bytes_since = 0;
        self.shared_changed = false;
        self.checkpoints.push_back(checkpoint);
    }

    fn forget_oldest(&mut self) {
        let largest = self.checkpoints.back().map_or(0, |last| 3 * (last.bytes + last.shared().bytes));
        while self.bytes > self.limit.max(largest) {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.bytes;
            self.forgotten += 1;
            // What it led to cannot be led to any more.
            while let Some(lost) = self.checkpoints.pop_front_if(|first| first.events < self.forgotten) {
                self.bytes -= lost.bytes;
                if Arc::strong_count(lost.shared()) == 1 {
                    self.bytes -= lost.shared().bytes;
                }
            }
        }
        let oldest = self.oldest_step().unwrap_or(u64::MAX);
        while self.anomalies.pop_front_if(|first| first.step < oldest).is_some() {}
    }
}
