//! Carries out a macro against any target: says what is to be done next and is told how it went.

use super::condition::Condition;
use super::line::{Bound, Line, Macro, MacroLine};
use super::report::{MacroReport, Outcome, Verdict};
use super::{MACRO_STEPS, WAIT_STEPS};
use crate::{CommandKind, Sanitized, State, TakesEffect, ToggleName, ToggleValue};

/// What the target or the console is to do before the macro can go on.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// The target is to take one step boundary; then [`Player::advanced`], once its events are folded.
    ///
    /// For the same result every time the target is held between requests; a live one may go on by itself.
    Advance,
    /// Ask the target; then [`Player::answered`], once it has and its events are folded.
    Target(CommandKind),
    /// The target has not answered yet, and needs no step to do so.
    Answer,
    /// The console is to carry out this line ([`Line::Keys`], [`Line::Snapshot`] or [`Line::Command`]); then
    /// [`Player::done`], once it is drawn and nothing is pending.
    Console(MacroLine),
    /// Nothing more.
    Finished,
}

/// How a console's line went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsoleOutcome {
    /// Done.
    Done,
    /// It makes no sense here, for this reason.
    Skipped(String),
    /// It did not work, for this reason. The macro ends.
    Failed(String),
}

/// A macro being played. It reads no clock and does nothing by itself.
#[derive(Clone, Debug)]
pub struct Player {
    script: Macro,
    /// Index of the line that is being carried out, or comes next.
    at: usize,
    doing: Doing,
    /// Step boundaries so far.
    steps: u64,
    /// Their number when the present line began.
    line_steps: u64,
    ended: bool,
    outcomes: Vec<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    /// Nothing: the line comes next.
    Nothing,
    /// Waiting since this time on the target's clock.
    Waiting { since_ns: u64 },
    /// Running so many more steps.
    Stepping { left: u64 },
    /// Waiting for the target's answer, for which it may have to drain.
    Asking { drains: bool },
    /// Waiting for the console.
    Console,
}

impl Player {
    /// Begins.
    pub fn new(script: Macro) -> Self {
        Self { script, at: 0, doing: Doing::Nothing, steps: 0, line_steps: 0, ended: false, outcomes: Vec::new() }
    }

    /// What the macro is.
    pub fn script(&self) -> &Macro {
        &self.script
    }

    /// The line that is being carried out or comes next.
    pub fn current(&self) -> Option<&MacroLine> {
        self.script.lines.get(self.at).filter(|_| !self.ended)
    }

    /// How every line went so far.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Goes as far as it can with `state` and says what is needed next. Asking again changes nothing.
    pub fn poll(&mut self, state: &State) -> Request {
        loop {
            let Some(line) = self.current().cloned() else { return Request::Finished };
            match self.doing {
                Doing::Nothing => {
                    self.line_steps = self.steps;
                    if let Some(request) = self.begin(&line, state) {
                        return request;
                    }
                }
                Doing::Waiting { since_ns } => {
                    let Line::Wait { condition, bound } = &line.line else { return Request::Finished };
                    if !self.wait(condition, *bound, since_ns, state) {
                        return self.advance(state);
                    }
                }
                Doing::Stepping { left: 0 } => self.finish(Verdict::Passed, "", state),
                Doing::Stepping { .. } => return self.advance(state),
                Doing::Asking { drains: false } => return Request::Answer,
                Doing::Asking { drains: true } if self.steps - self.line_steps >= WAIT_STEPS => {
                    self.fail(&format!("The target has not answered within {WAIT_STEPS} steps."), state);
                }
                Doing::Asking { drains: true } => return self.advance(state),
                Doing::Console => return Request::Console(line),
            }
        }
    }

    /// The target took a step boundary.
    pub fn advanced(&mut self) {
        self.steps += 1;
        if let Doing::Stepping { left } = &mut self.doing {
            *left = left.saturating_sub(1);
        }
    }

    /// The target answered what it was asked: the first step that runs with it, or why not.
    pub fn answered(&mut self, outcome: Result<u64, &str>, state: &State) {
        if !matches!(self.doing, Doing::Asking { .. }) {
            return;
        }
        match outcome {
            Ok(step) => self.finish(Verdict::Passed, &format!("from step {step} on"), state),
            Err(reason) => self.fail(reason, state),
        }
    }

    /// The console carried out its line.
    pub fn done(&mut self, outcome: ConsoleOutcome, state: &State) {
        if self.doing != Doing::Console {
            return;
        }
        match outcome {
            ConsoleOutcome::Done => self.finish(Verdict::Passed, "", state),
            ConsoleOutcome::Skipped(reason) => self.finish(Verdict::Skipped, &reason, state),
            ConsoleOutcome::Failed(reason) => self.fail(&reason, state),
        }
    }

    /// Ends the macro at the present line: the target is gone, a person pressed Esc.
    pub fn abort(&mut self, reason: &str, state: &State) {
        if self.current().is_some() {
            self.fail(reason, state);
        }
    }

    /// What there is to say about it, at any time.
    pub fn report(&self) -> MacroReport {
        MacroReport {
            name: Sanitized::new(&self.script.name),
            passed: self.at == self.script.lines.len()
                && self.outcomes.iter().all(|outcome| outcome.verdict != Verdict::Failed),
            steps: self.steps,
            not_run: self.script.lines.len() - self.at,
            outcomes: self.outcomes.clone(),
        }
    }

    fn begin(&mut self, line: &MacroLine, state: &State) -> Option<Request> {
        let ask = |player: &mut Self, kind: CommandKind| {
            let drains =
                matches!(kind, CommandKind::SetToggle(name, _) if name.spec().takes_effect == TakesEffect::AfterDrain);
            player.doing = Doing::Asking { drains };
            Some(Request::Target(kind))
        };
        match &line.line {
            Line::Wait { .. } => {
                self.doing = Doing::Waiting { since_ns: state.time_ns };
                None
            }
            Line::Expect(condition) => {
                let evaluation = condition.evaluate(state);
                let verdict = if evaluation.holds { Verdict::Passed } else { Verdict::Failed };
                self.finish(verdict, &evaluation.to_string(), state);
                None
            }
            Line::Mark(_) => {
                self.finish(Verdict::Passed, "", state);
                None
            }
            Line::Step(count) => {
                self.doing = Doing::Stepping { left: *count };
                None
            }
            Line::Set(assignment) => ask(self, CommandKind::SetToggle(assignment.name, assignment.value)),
            Line::Toggle(name) => ask(self, CommandKind::SetToggle(*name, next_value(*name, state))),
            Line::Hold => ask(self, CommandKind::Hold(true)),
            Line::Run => ask(self, CommandKind::Hold(false)),
            Line::Pace(pace) => ask(self, CommandKind::Pace(*pace)),
            Line::Snapshot(_) | Line::Keys(_) | Line::Command { .. } => {
                self.doing = Doing::Console;
                None
            }
            Line::Play(path) => {
                self.fail(&format!("`{path}` was not loaded."), state);
                None
            }
        }
    }

    /// Whether a `wait` is over.
    fn wait(&mut self, condition: &Condition, bound: Option<Bound>, since_ns: u64, state: &State) -> bool {
        let waited = self.steps - self.line_steps;
        let holds = condition.holds(state);
        let bound = bound.unwrap_or(Bound::Steps(WAIT_STEPS));
        let over = match bound {
            Bound::Steps(steps) => waited >= steps,
            Bound::Milliseconds(count) => state.time_ns.saturating_sub(since_ns) / 1_000_000 >= count,
        };
        if holds {
            self.finish(Verdict::Passed, &condition.evaluate(state).to_string(), state);
        } else if over {
            self.fail(&format!("After {bound}: {}.", condition.evaluate(state)), state);
        }
        holds || over
    }

    fn advance(&mut self, state: &State) -> Request {
        if self.steps < MACRO_STEPS {
            return Request::Advance;
        }
        self.fail(&format!("A macro takes at most {MACRO_STEPS} steps."), state);
        Request::Finished
    }

    fn fail(&mut self, reason: &str, state: &State) {
        self.finish(Verdict::Failed, reason, state);
        self.ended = true;
    }

    fn finish(&mut self, verdict: Verdict, detail: &str, state: &State) {
        self.doing = Doing::Nothing;
        let Some(line) = self.script.lines.get(self.at) else { return };
        self.at += 1;
        self.outcomes.push(Outcome {
            file: Sanitized::new(&line.file),
            line: line.number,
            text: Sanitized::new(&line.line.to_string()),
            verdict,
            detail: Sanitized::new(detail),
            step: state.steps.back().map_or(0, |step| step.step),
            steps: self.steps - self.line_steps,
        });
    }
}

/// The value after a toggle's present one.
fn next_value(name: ToggleName, state: &State) -> ToggleValue {
    let spec = name.spec();
    match state.toggles.get(&name).copied().unwrap_or(spec.default) {
        ToggleValue::Choice(index) if usize::from(index) + 1 < spec.values.len() => ToggleValue::Choice(index + 1),
        ToggleValue::Choice(_) => ToggleValue::Choice(0),
        time => time,
    }
}
