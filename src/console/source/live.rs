//! A live target: what it says, what it is asked, and the way back over what it said.

use std::{
    collections::VecDeque,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use coalmine_sessions::{
    Ack, Command, CommandId, CommandKind, Event, EventKind, EventReceiver, History, State, TakesEffect, ToggleName,
    ToggleValue,
};

use super::{Move, Place};
use crate::recorder::Recorder;

/// Longest stretch of folding events before keys get their turn.
const FOLDING: Duration = Duration::from_millis(4);

/// An answered command.
#[derive(Debug)]
pub(in crate::console) struct Answered {
    pub(in crate::console) kind: CommandKind,
    pub(in crate::console) ack: Ack,
}

/// A live target.
pub(in crate::console) struct Live {
    pub(in crate::console) state: State,
    history: History,
    /// What the view is pinned on, and its step.
    pinned: Option<(Option<u64>, Box<State>)>,
    events: EventReceiver,
    drained: Vec<Event>,
    commands: mpsc::Sender<Command>,
    next_command: CommandId,
    /// Commands sent and not yet answered, oldest first.
    unanswered: Vec<Command>,
    pub(in crate::console) held: bool,
    /// The last command that held or released the target: a step that was asked for before is answered after it.
    held_by: CommandId,
    pub(in crate::console) pace: Option<f64>,
    pub(in crate::console) gone: bool,
    pub(in crate::console) ask_first: bool,
    pub(in crate::console) recorder: Option<Recorder>,
    /// Events taken from the target and not yet folded.
    backlog: VecDeque<Event>,
    behind: bool,
}

impl Live {
    pub(in crate::console) fn new(
        events: EventReceiver,
        commands: mpsc::Sender<Command>,
        pace: Option<f64>,
        ask_first: bool,
    ) -> Self {
        Self {
            state: State::default(),
            history: History::default(),
            pinned: None,
            events,
            drained: Vec::new(),
            commands,
            next_command: 1,
            unanswered: Vec::new(),
            held: false,
            held_by: 0,
            pace,
            gone: false,
            ask_first,
            recorder: None,
            backlog: VecDeque::new(),
            behind: false,
        }
    }

    /// What to call when the target has said something or has ended.
    pub(in crate::console) fn set_waker(&self, waker: Box<dyn Fn() + Send>) {
        self.events.set_waker(waker);
    }

    /// Folds for a few milliseconds what the target said. Says whether that was anything, and pushes answers to commands.
    pub(in crate::console) fn fold(&mut self, answered: &mut Vec<Answered>) -> bool {
        let until = Instant::now() + FOLDING;
        let mut any = false;
        self.behind = false;
        loop {
            // Only once all is folded: the queue knows what to drop when a reader is slow, and a backlog does not.
            if self.backlog.is_empty() {
                self.events.drain(&mut self.drained);
                self.backlog.extend(self.drained.drain(..));
            }
            if self.backlog.is_empty() {
                break;
            }
            any = true;
            // The clock is read once for many events: an event may take well under a microsecond.
            if Instant::now() >= until {
                self.behind = true;
                break;
            }
            for event in self.backlog.drain(..self.backlog.len().min(64)) {
                let event = Arc::new(event);
                self.state.apply(&event);
                if let EventKind::Ack(ack) = &event.kind {
                    let at = self.unanswered.iter().position(|command| command.id == ack.command);
                    if let Some(command) = at.map(|at| self.unanswered.remove(at)) {
                        match (&ack.outcome, &command.kind) {
                            (Ok(_), CommandKind::Hold(hold)) if command.id > self.held_by => {
                                (self.held, self.held_by) = (*hold, command.id);
                            }
                            // One step, then hold.
                            (Ok(_), CommandKind::SingleStep) if command.id > self.held_by => {
                                (self.held, self.held_by) = (true, command.id);
                            }
                            (Ok(_), CommandKind::Pace(pace)) => self.pace = *pace,
                            _ => {}
                        }
                        answered.push(Answered { kind: command.kind, ack: ack.clone() });
                    }
                }
                if let Some(recorder) = &mut self.recorder {
                    recorder.record(&event);
                }
                self.history.push(event, &self.state);
            }
        }
        any
    }

    /// Whether the target has ended and everything it said is folded.
    pub(in crate::console) fn has_ended(&self) -> bool {
        self.events.is_closed() && !self.behind
    }

    /// Whether folding ended before everything was folded.
    pub(in crate::console) fn behind(&self) -> bool {
        self.behind
    }

    /// Sends a command and gives its identity; a sentence says why it cannot.
    pub(in crate::console) fn ask(&mut self, kind: CommandKind) -> Result<CommandId, String> {
        let command = Command { id: self.next_command, kind };
        self.next_command += 1;
        if self.commands.send(command.clone()).is_err() {
            return Err("The target has ended and takes no commands.".to_owned());
        }
        self.unanswered.push(command);
        Ok(self.next_command - 1)
    }

    /// Values that are asked for and not yet acknowledged; the last request for a toggle stands.
    pub(in crate::console) fn pending(&self) -> impl Iterator<Item = (ToggleName, ToggleValue)> {
        self.unanswered.iter().filter_map(|command| match command.kind {
            CommandKind::SetToggle(name, value) => Some((name, value)),
            _ => None,
        })
    }

    /// Whether the target will be held once every request is answered.
    pub(in crate::console) fn holding(&self) -> bool {
        let mut asked = self.unanswered.iter().rev().filter_map(|command| match command.kind {
            CommandKind::Hold(hold) => Some(hold),
            CommandKind::SingleStep => Some(true),
            _ => None,
        });
        asked.next().unwrap_or(self.held)
    }

    /// The pace once every request is answered.
    pub(in crate::console) fn asked_pace(&self) -> Option<f64> {
        let mut asked = self.unanswered.iter().rev().filter_map(|command| match command.kind {
            CommandKind::Pace(pace) => Some(pace),
            _ => None,
        });
        asked.next().unwrap_or(self.pace)
    }

    /// Whether every request is answered.
    pub(in crate::console) fn is_answered(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// The identity that the next command will have.
    pub(in crate::console) fn next_command(&self) -> CommandId {
        self.next_command
    }

    /// Whether every request from this one on is answered.
    pub(in crate::console) fn is_answered_since(&self, since: CommandId) -> bool {
        self.unanswered.iter().all(|command| command.id < since)
    }

    /// Whether one of the requests from this one on has to wait until running sessions have drained.
    pub(in crate::console) fn drains_since(&self, since: CommandId) -> bool {
        self.unanswered.iter().any(|command| match command.kind {
            CommandKind::SetToggle(name, _) => {
                command.id >= since && name.spec().takes_effect == TakesEffect::AfterDrain
            }
            _ => false,
        })
    }

    pub(in crate::console) fn pinned(&self) -> Option<&State> {
        self.pinned.as_ref().map(|(_, state)| &**state)
    }

    /// The step that is shown.
    pub(in crate::console) fn step(&self) -> Option<u64> {
        match &self.pinned {
            Some((step, _)) => *step,
            None => self.history.newest_step(),
        }
    }

    /// Steps by which a pinned view is behind.
    pub(in crate::console) fn steps_behind(&self) -> Option<u64> {
        let (step, _) = self.pinned.as_ref()?;
        Some(self.history.newest_step().unwrap_or(0).saturating_sub(step.unwrap_or(0)))
    }

    /// Pins the view on what is known now, or lets it go on.
    pub(in crate::console) fn freeze(&mut self) {
        self.pinned = match self.pinned.take() {
            Some(_) => None,
            None => Some((self.history.newest_step(), Box::new(self.state.clone()))),
        };
    }

    pub(in crate::console) fn go(&mut self, to: Move) -> Result<(), String> {
        if to == Move::To(Place::Now) {
            self.pinned = None;
            return Ok(());
        }
        let (Some(oldest), Some(newest)) = (self.history.oldest_step(), self.history.newest_step()) else {
            return Err("The target has not run a step yet.".to_owned());
        };
        let step = self.step().unwrap_or(newest);
        let step = match to {
            Move::Back => step.checked_sub(1).ok_or("Step 0 is the first there is.")?,
            Move::Forward if self.pinned.is_none() => return Err("This is the newest step.".to_owned()),
            Move::Forward => (step + 1).min(newest),
            Move::To(Place::Step(step)) if step > newest => {
                return Err(format!("Step {step} has not run yet; the newest is {newest}."));
            }
            Move::To(Place::Step(step)) => step,
            Move::To(Place::First) => oldest,
            Move::To(Place::Last | Place::Now) => newest,
            Move::To(Place::Corruption) => {
                self.history.first_corruption().ok_or("No flag is among the steps that are kept.")?
            }
            Move::PreviousAnomaly => self.history.previous_anomaly(step).ok_or_else(|| {
                format!("Nothing was wrong between step {oldest}, the oldest that is kept, and this one.")
            })?,
            Move::NextAnomaly => self.history.next_anomaly(step).ok_or("Nothing has been wrong since this step.")?,
            Move::Time(time_ns) => {
                self.history.step_at_time(time_ns).ok_or("No step that is kept had begun by that time.")?
            }
            Move::LastWrite(page) => {
                self.history.last_write_of(page, step).ok_or("No write of this page before this step is known.")?
            }
        };
        let state = self.history.state_at(step).ok_or_else(|| {
            format!("Step {step} is no longer kept: the oldest is {oldest}. A recording (`:record`) keeps everything.")
        })?;
        self.pinned = Some((Some(step), Box::new(state)));
        Ok(())
    }
}
