//! A macro that plays in the console: what it waits for, and what it is told.

use coalmine_sessions::{
    CommandId, CommandKind, Sanitized,
    macros::{ConsoleOutcome, Line, Macro, Outcome, Player, Request, Verdict},
};

use super::{
    App,
    source::{Answered, NO_CHANGE, Source},
};
use crate::playback::ReplayRequest;

/// Lines that one turn of the loop carries out at most, so that keys get theirs.
const LINES_AT_ONCE: usize = 64;

/// A macro that plays.
pub(super) struct Playing {
    player: Player,
    waiting: Waiting,
    /// Whether the target was held before, and is to be again.
    held_before: bool,
    /// Outcomes that were looked at.
    seen: usize,
}

/// What it waits for.
#[derive(Clone, Debug, PartialEq)]
enum Waiting {
    /// Nothing.
    Nothing,
    /// The target is to be held first.
    Hold,
    /// The target's answer to a line.
    Answer(CommandId),
    /// One step.
    Step(CommandId),
    /// One step of a recording.
    ReplayStep,
    /// A line of the console is to be drawn, and what it started to end.
    Console(ConsoleOutcome),
}

impl Playing {
    /// The line that is carried out, with its place: `tour.macro:12: focus canary`.
    pub(super) fn line(&self) -> Option<Sanitized> {
        let line = self.player.current()?;
        Some(Sanitized::new(&format!("{}:{}: {}", line.file, line.number, line.line)))
    }
}

impl App {
    /// Begins to play a macro; the target is held between its lines.
    pub(super) fn start_macro(&mut self, script: Macro) {
        if self.playing.is_some() {
            self.warn("A macro is playing already; esc ends it.".to_owned());
            return;
        }
        let mut playing =
            Playing { player: Player::new(script), waiting: Waiting::Nothing, held_before: false, seen: 0 };
        if let Source::Live(live) = &mut self.source {
            playing.held_before = live.holding();
            if live.ask(CommandKind::Hold(true)).is_ok() {
                playing.waiting = Waiting::Hold;
            }
        }
        self.playing = Some(playing);
    }

    /// Ends the macro that plays.
    pub(super) fn abort_macro(&mut self, reason: &str) {
        if let Some(playing) = &mut self.playing {
            playing.player.abort(reason, self.source.now());
            playing.waiting = Waiting::Nothing;
        }
    }

    /// Tells the macro what the target answered.
    pub(super) fn macro_answered(&mut self, answered: &Answered) {
        let Some(playing) = &mut self.playing else { return };
        let state = self.source.now();
        match playing.waiting {
            Waiting::Answer(id) if id == answered.ack.command => {
                let outcome = answered.ack.outcome.as_ref();
                playing.player.answered(outcome.map(|step| *step).map_err(|reason| reason.as_str()), state);
                playing.waiting = Waiting::Nothing;
            }
            Waiting::Step(id) if id == answered.ack.command => {
                match &answered.ack.outcome {
                    Ok(_) => playing.player.advanced(),
                    Err(reason) => playing.player.abort(reason, state),
                }
                playing.waiting = Waiting::Nothing;
            }
            _ => {}
        }
    }

    /// Carries the macro on as far as it goes without waiting. To be called after every draw.
    pub fn work(&mut self) {
        for _ in 0..LINES_AT_ONCE {
            if !self.carry_on() {
                return;
            }
        }
    }

    /// Does the next thing of the macro; `false` when there is nothing to do now.
    fn carry_on(&mut self) -> bool {
        let settled = !self.dirty && !self.jobs.busy() && self.settled();
        let gone = self.source.live().is_some_and(|live| live.gone && !live.behind());
        let Some(playing) = &mut self.playing else { return false };
        if gone && playing.player.current().is_some() {
            playing.player.abort("The target has ended.", self.source.now());
            playing.waiting = Waiting::Nothing;
        }
        match &playing.waiting {
            Waiting::Nothing => {}
            Waiting::Hold if settled => playing.waiting = Waiting::Nothing,
            Waiting::ReplayStep if settled => {
                playing.player.advanced();
                if matches!(&self.source, Source::Replay(replay) if replay.view().step >= replay.handle().last_step()) {
                    playing.player.abort("The recording has no more steps.", self.source.now());
                }
                playing.waiting = Waiting::Nothing;
            }
            Waiting::Console(outcome) if settled => {
                let outcome = match (outcome.clone(), self.job_error.take()) {
                    (ConsoleOutcome::Done, Some(error)) => ConsoleOutcome::Failed(error),
                    (outcome, _) => outcome,
                };
                playing.player.done(outcome, self.source.now());
                playing.waiting = Waiting::Nothing;
            }
            _ => return false,
        }
        let request = playing.player.poll(self.source.now());
        self.look_at_outcomes();
        match request {
            Request::Finished => {
                self.end_macro();
                false
            }
            // Only asked for while something is unanswered.
            Request::Answer => false,
            Request::Advance => {
                self.macro_asks(CommandKind::SingleStep, Waiting::Step);
                true
            }
            Request::Target(kind) => {
                self.macro_asks(kind, Waiting::Answer);
                true
            }
            Request::Console(line) => {
                self.job_error = None;
                self.feeding = true;
                let outcome = match &line.line {
                    Line::Keys(chords) => {
                        chords.iter().for_each(|chord| self.chord(*chord));
                        Ok(())
                    }
                    _ => self.execute(&line),
                };
                self.feeding = false;
                self.dirty = true;
                let outcome = outcome.map_or_else(ConsoleOutcome::Failed, |()| ConsoleOutcome::Done);
                if let Some(playing) = &mut self.playing {
                    playing.waiting = Waiting::Console(outcome);
                }
                true
            }
        }
    }

    /// Asks the target for the macro.
    fn macro_asks(&mut self, kind: CommandKind, then: fn(CommandId) -> Waiting) {
        let Some(playing) = &mut self.playing else { return };
        match &mut self.source {
            Source::Live(live) => match live.ask(kind) {
                Ok(id) => playing.waiting = then(id),
                Err(reason) => playing.player.abort(&reason, &live.state),
            },
            Source::Replay(replay) if kind == CommandKind::SingleStep => {
                replay.ask(ReplayRequest::Forward);
                playing.waiting = Waiting::ReplayStep;
            }
            // What holds, runs and paces a target has no meaning here; a switch cannot be changed.
            Source::Replay(replay) => match kind {
                CommandKind::SetToggle(..) => playing.player.answered(Err(NO_CHANGE), replay.state()),
                _ => playing.player.answered(Ok(replay.view().step), replay.state()),
            },
        }
        self.show_pending();
    }

    /// Keeps the marks that the macro set.
    fn look_at_outcomes(&mut self) {
        let Some(playing) = &mut self.playing else { return };
        let outcomes = playing.player.outcomes();
        let lines = &playing.player.script().lines;
        let new = outcomes.iter().zip(lines).skip(playing.seen);
        let marks: Vec<(String, u64)> = new
            .filter_map(|(outcome, line)| match &line.line {
                Line::Mark(name) => Some((name.clone(), outcome.step)),
                _ => None,
            })
            .collect();
        playing.seen = outcomes.len();
        for (name, step) in marks {
            self.marks.set(&name, step);
        }
    }

    /// Says what came of the macro, and leaves the target as it was.
    fn end_macro(&mut self) {
        let Some(playing) = self.playing.take() else { return };
        if let Source::Live(live) = &mut self.source
            && !playing.held_before
        {
            // A target that is gone needs no telling.
            let _ = live.ask(CommandKind::Hold(false));
        }
        let report = playing.player.report();
        let failed = report.outcomes.iter().find(|outcome| outcome.verdict == Verdict::Failed);
        match (failed, &report.outcomes[..]) {
            (Some(outcome), _) => self.warn(explain(outcome)),
            (None, [only]) => self.inform(format!("`{}` holds: {}", only.text, only.detail)),
            (None, _) => self.inform(report.verdict()),
        }
        self.dirty = true;
    }
}

/// Why a line ended its macro, or what did not hold.
fn explain(outcome: &Outcome) -> String {
    format!("{}:{}: `{}` failed: {}", outcome.file, outcome.line, outcome.text, outcome.detail)
}
