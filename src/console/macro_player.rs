//! A macro that plays in the console: what it waits for, and what it is told.

use coalmine_sessions::{
    CommandId, CommandKind, Danger, Sanitized,
    macros::{ConsoleOutcome, Line, Macro, Outcome, Player, Request, Verdict, WAIT_STEPS},
};

use super::{
    App,
    source::{Answered, Live, NO_CHANGE, Source},
};
use crate::playback::ReplayRequest;

/// Lines that one turn of the loop carries out at most, so that keys get theirs.
const LINES_AT_ONCE: usize = 64;

/// A macro that plays.
pub(super) struct Playing {
    player: Player,
    waiting: Waiting,
    /// The command whose answer a line waits for.
    answer: Option<CommandId>,
    /// The step that is being run.
    step: Option<CommandId>,
    /// Steps run only so that what a console's line asked of the target could be done.
    drained: u64,
    /// Whether the target is to be held when the macro has ended: as it was before, unless the macro says otherwise.
    held_after: bool,
    /// Whether the macro as a whole was allowed to change the target.
    pub(super) may_change: bool,
    /// Outcomes that were looked at.
    seen: usize,
    /// What it said last to whoever watches.
    pub(super) caption: Option<Sanitized>,
}

/// What it waits for, beside the target's answer and a step.
#[derive(Clone, Debug, PartialEq)]
enum Waiting {
    /// Nothing.
    Nothing,
    /// The target is to be held first.
    Hold(CommandId),
    /// One step of a recording.
    ReplayStep,
    /// A line of the console is to be drawn, and what it started to end: files, and commands from this one on.
    Console(ConsoleOutcome, CommandId),
}

impl Playing {
    /// The line that is carried out, with its place: `tour.macro:12: focus canary`.
    pub(super) fn line(&self) -> Option<Sanitized> {
        let line = self.player.current()?;
        // A macro is a file like any other, and may come from anywhere.
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
        tracing::info!(name = &*script.name, lines = script.lines.len(), "a macro begins");
        let mut playing = Playing {
            may_change: script.danger() == Danger::MutatesTarget,
            player: Player::new(script),
            waiting: Waiting::Nothing,
            answer: None,
            step: None,
            drained: 0,
            held_after: false,
            seen: 0,
            caption: None,
        };
        if let Source::Live(live) = &mut self.source {
            playing.held_after = live.holding();
            if let Ok(id) = live.ask(CommandKind::Hold(true)) {
                playing.waiting = Waiting::Hold(id);
            }
        }
        self.playing = Some(playing);
    }

    /// Shows a sentence: of the macro that plays, until it says another.
    pub(super) fn tell_sentence(&mut self, text: &str) {
        match &mut self.playing {
            Some(playing) if self.feeding => playing.caption = Some(Sanitized::new(text)),
            _ => self.inform(text.to_owned()),
        }
    }

    /// Ends the macro that plays.
    pub(super) fn abort_macro(&mut self, reason: &str) {
        if let Some(playing) = &mut self.playing {
            playing.player.abort(reason, self.source.now());
            (playing.waiting, playing.answer, playing.step) = (Waiting::Nothing, None, None);
        }
    }

    /// Tells the macro what the target answered.
    pub(super) fn macro_answered(&mut self, answered: &Answered) {
        let Some(playing) = &mut self.playing else { return };
        let (id, outcome) = (answered.ack.command, answered.ack.outcome.as_ref());
        let state = self.source.now();
        if playing.answer == Some(id) {
            playing.answer = None;
            playing.player.answered(outcome.copied().map_err(|reason| reason.as_str()), state);
        } else if playing.step == Some(id) {
            playing.step = None;
            match outcome {
                // While a line of the console is waited for, the player does not count.
                Ok(_) if matches!(playing.waiting, Waiting::Console(..)) => playing.drained += 1,
                Ok(_) => playing.player.advanced(),
                Err(reason) => playing.player.abort(reason, state),
            }
        } else if playing.waiting == Waiting::Hold(id) {
            playing.waiting = Waiting::Nothing;
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
        let Some(playing) = &mut self.playing else { return false };
        let gone = self.source.live().is_some_and(|live| live.gone && !live.behind());
        if gone {
            playing.player.abort("The target has ended.", self.source.now());
            (playing.waiting, playing.answer, playing.step) = (Waiting::Nothing, None, None);
        }
        if playing.step.is_some() {
            return false;
        }
        match &playing.waiting {
            Waiting::Nothing => {}
            Waiting::Hold(_) => return false,
            Waiting::ReplayStep => match &self.source {
                Source::Replay(replay) if !replay.is_answered() => return false,
                _ => {
                    playing.player.advanced();
                    playing.waiting = Waiting::Nothing;
                }
            },
            Waiting::Console(outcome, since) => {
                let (outcome, since) = (outcome.clone(), *since);
                if !self.console_is_done(outcome, since) {
                    return false;
                }
            }
        }
        let Some(playing) = &mut self.playing else { return false };
        let request = playing.player.poll(self.source.now());
        self.look_at_outcomes();
        match request {
            Request::Finished => {
                self.end_macro();
                false
            }
            // It comes by itself.
            Request::Answer => false,
            Request::Advance => self.macro_steps(),
            Request::Target(kind) => self.macro_asks(kind),
            Request::Console(line) => {
                self.job_error = None;
                let since = self.source.live().map_or(0, Live::next_command);
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
                    playing.drained = 0;
                    playing.waiting = Waiting::Console(outcome, since);
                }
                true
            }
        }
    }

    /// Whether a line of the console is done: drawn, its files written, its commands answered. What has to wait until
    /// sessions have drained gets the steps that it takes.
    fn console_is_done(&mut self, outcome: ConsoleOutcome, since: CommandId) -> bool {
        let answered = match &self.source {
            Source::Live(live) => live.is_answered_since(since),
            Source::Replay(replay) => replay.is_answered(),
        };
        let Some(playing) = &mut self.playing else { return false };
        if !answered && self.source.live().is_some_and(|live| live.drains_since(since)) {
            if playing.drained < WAIT_STEPS {
                self.macro_steps();
                return false;
            }
            playing.player.abort("The target has not answered what this line asked.", self.source.now());
        } else if self.dirty || self.jobs.busy() || !answered {
            return false;
        }
        let outcome = match (outcome, self.job_error.take()) {
            (ConsoleOutcome::Done, Some(error)) => ConsoleOutcome::Failed(error),
            (outcome, _) => outcome,
        };
        playing.player.done(outcome, self.source.now());
        playing.waiting = Waiting::Nothing;
        true
    }

    /// Asks the target for one step; `false` when that has to be waited for.
    fn macro_steps(&mut self) -> bool {
        let Some(playing) = &mut self.playing else { return false };
        match &mut self.source {
            Source::Live(live) => match live.ask(CommandKind::SingleStep) {
                Ok(id) => playing.step = Some(id),
                Err(reason) => playing.player.abort(&reason, &live.state),
            },
            Source::Replay(replay) if replay.view().step >= replay.handle().last_step() => {
                playing.player.abort("The recording has no more steps.", replay.state());
            }
            Source::Replay(replay) => {
                replay.ask(ReplayRequest::Forward);
                playing.waiting = Waiting::ReplayStep;
            }
        }
        true
    }

    /// Asks something of the target for a line of the macro.
    fn macro_asks(&mut self, kind: CommandKind) -> bool {
        let Some(playing) = &mut self.playing else { return false };
        let step = self.source.step().unwrap_or(0);
        match (&mut self.source, kind) {
            // While a macro plays the target is held between its steps; this is for when it has ended.
            (_, CommandKind::Hold(hold)) => {
                playing.held_after = hold;
                playing.player.answered(Ok(step), self.source.now());
            }
            (Source::Live(live), kind) => match live.ask(kind) {
                Ok(id) => playing.answer = Some(id),
                Err(reason) => playing.player.abort(&reason, &live.state),
            },
            (Source::Replay(replay), CommandKind::SetToggle(..)) => {
                playing.player.answered(Err(NO_CHANGE), replay.state());
            }
            // What paces a target has no meaning here.
            (Source::Replay(replay), _) => playing.player.answered(Ok(step), replay.state()),
        }
        self.show_pending();
        true
    }

    /// Keeps the marks that the macro set.
    fn look_at_outcomes(&mut self) {
        let Some(playing) = &mut self.playing else { return };
        let outcomes = playing.player.outcomes();
        let lines = &playing.player.script().lines;
        let new = playing.seen..outcomes.len().min(lines.len());
        playing.seen = outcomes.len();
        // Nothing has moved since: the player goes through such lines without asking for anything.
        if let Some(step) = self.source.step() {
            for line in &lines[new] {
                if let Line::Mark(name) = &line.line {
                    self.marks.set(name, step);
                }
            }
        }
    }

    /// Says what came of the macro, and leaves the target as it was.
    fn end_macro(&mut self) {
        let Some(playing) = self.playing.take() else { return };
        if let Source::Live(live) = &mut self.source
            && !playing.held_after
        {
            // A target that is gone needs no telling.
            let _ = live.ask(CommandKind::Hold(false));
        }
        let report = playing.player.report();
        let failed = report.outcomes.iter().find(|outcome| outcome.verdict == Verdict::Failed);
        match (failed, &report.outcomes[..]) {
            (Some(outcome), _) => self.warn(explain(outcome)),
            (None, [only]) => match playing.player.script().lines[0].line {
                Line::Expect(_) | Line::Wait { .. } => self.inform(format!("`{}` holds: {}", only.text, only.detail)),
                _ => self.inform(format!("`{}` is done.", only.text)),
            },
            (None, _) => self.inform(report.verdict()),
        }
        self.dirty = true;
    }
}

/// Why a line ended its macro, or what did not hold.
fn explain(outcome: &Outcome) -> String {
    format!("{}:{}: `{}` failed: {}", outcome.file, outcome.line, outcome.text, outcome.detail)
}
