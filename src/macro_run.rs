//! Macros without a console: from a file to a report, on an engine of one's own.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use coalmine_sessions::macros::{
    ConsoleOutcome, MACRO_BYTES, Macro, MacroError, MacroErrors, MacroLine, MacroReport, Outcome, Player, Request,
    SHIPPED, SHIPPED_PREFIX, Source, load, shipped,
};
use coalmine_sessions::{
    Command, CommandId, CommandKind, Danger, EventKind, EventReceiver, Sanitized, State, Summary, event_queue,
};
use serde::Serialize;

use crate::console::known_commands;
use crate::engine::checkpoint::Checkpoint;
use crate::engine::{Engine, EngineError, EngineOptions, Progress};

/// Telemetry events that may wait: they are folded after every step.
const BACKLOG: usize = 1024;

/// What came of a macro and of the engine that it ran on. The same macro on the same engine gives the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MacroRun {
    /// How the lines went.
    #[serde(flatten)]
    pub report: MacroReport,
    /// The state at the end.
    pub summary: Summary,
}

/// Reads a macro, with everything that it plays, from a file or by the name of a shipped one (`coalmine:tour`).
///
/// # Errors
/// When a file cannot be read, and everything that is wrong with what it says.
pub fn load_macro(path: &str) -> Result<Macro, MacroErrors> {
    let source = match path.starts_with(SHIPPED_PREFIX) {
        true => read_source("", path),
        false => read_text(Path::new(path)).map(|text| Source { name: path.to_owned(), text }),
    };
    let source = source.map_err(|message| MacroErrors(vec![MacroError::of_file(path, &message)]))?;
    load(&source, &known_commands(), &mut read_source)
}

/// Finds the macro that `path` means in the macro `from`: beside it.
///
/// # Errors
/// When there is none, or it is no text, or it is too large.
pub fn read_source(from: &str, path: &str) -> Result<Source, String> {
    if path.starts_with(SHIPPED_PREFIX) || from.starts_with(SHIPPED_PREFIX) {
        let name = path.strip_prefix(SHIPPED_PREFIX).unwrap_or(path);
        return shipped(&format!("{SHIPPED_PREFIX}{name}")).ok_or_else(|| {
            let names: Vec<_> = SHIPPED.iter().map(|(name, _)| format!("{SHIPPED_PREFIX}{name}")).collect();
            format!("There is no shipped macro `{path}`. There are {}.", names.join(", "))
        });
    }
    let name = Path::new(from).parent().unwrap_or(Path::new("")).join(path);
    let text = read_text(&name).map_err(|what| format!("{} {what}", name.display()))?;
    Ok(Source { name: name.display().to_string(), text })
}

/// Reads a macro's text; an error says what is wrong with the file, after its name.
fn read_text(path: &Path) -> Result<String, String> {
    // Whoever types would share the terminal's keys with whatever reads it.
    let device = |found: Metadata| found.file_type().is_char_device() || found.file_type().is_block_device();
    if fs::metadata(path).is_ok_and(device) {
        return Err("is a device and no file of text.".to_owned());
    }
    let mut bytes = Vec::new();
    // One byte more than may be, so that the parser says that it is too much.
    File::open(path)
        .and_then(|file| file.take(MACRO_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read: {error}."))?;
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text.".to_owned())
}

/// Plays a macro on an engine of its own, which is held whenever the macro does not ask for a step. `tell` hears of
/// each line as it is done.
///
/// # Errors
/// When the engine cannot be built or fails.
pub fn play(
    checkpoint: &Checkpoint,
    options: EngineOptions,
    script: Macro,
    mut tell: impl FnMut(&Outcome),
) -> Result<MacroRun, EngineError> {
    let (sender, receiver) = event_queue(BACKLOG);
    let engine = Engine::new(checkpoint, options, Arc::new(sender))?;
    let mut held = Held { engine, receiver, state: State::default(), asked: 0 };
    let mut player = Player::new(script);
    held.fold(&mut player);
    let mut told = 0;
    loop {
        let request = player.poll(&held.state);
        player.outcomes()[told..].iter().for_each(&mut tell);
        told = player.outcomes().len();
        match request {
            Request::Advance => held.advance(&mut player)?,
            Request::Target(kind) => held.ask(kind, &mut player),
            // This engine answers at once.
            Request::Answer => player.abort("The engine did not answer.", &held.state),
            Request::Console(line) => player.done(ConsoleOutcome::Skipped(skipped(&line)), &held.state),
            Request::Finished => return Ok(MacroRun { report: player.report(), summary: held.state.summary() }),
        }
    }
}

fn skipped(line: &MacroLine) -> String {
    match line.danger {
        Danger::MutatesTarget => "needs a console; nothing was changed".to_owned(),
        Danger::Read | Danger::Local => "needs a console".to_owned(),
    }
}

/// An engine that only goes on when it is told to.
struct Held {
    engine: Engine,
    receiver: EventReceiver,
    state: State,
    /// Identity of the last command.
    asked: CommandId,
}

impl Held {
    fn advance(&mut self, player: &mut Player) -> Result<(), EngineError> {
        let progress = self.engine.advance()?;
        if progress == Progress::Running {
            player.advanced();
        }
        self.fold(player);
        if progress == Progress::Finished {
            player.abort("Every session has had all its turns: there are no more steps.", &self.state);
        }
        Ok(())
    }

    fn ask(&mut self, kind: CommandKind, player: &mut Player) {
        self.asked += 1;
        self.engine.command(&Command { id: self.asked, kind });
        self.fold(player);
    }

    /// Folds what the engine said, then hands on its answer, if it gave one.
    fn fold(&mut self, player: &mut Player) {
        let mut events = Vec::new();
        self.receiver.drain(&mut events);
        let mut answer: Option<Result<u64, Sanitized>> = None;
        for event in events {
            if let EventKind::Ack(ack) = &event.kind
                && ack.command == self.asked
            {
                answer = Some(ack.outcome.clone());
            }
            self.state.apply_owned(event);
        }
        if let Some(answer) = answer {
            player.answered(answer.as_ref().map(|step| *step).map_err(|reason| reason.as_str()), &self.state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_macros_read_and_name_commands_that_there_are() {
        for (name, _) in SHIPPED {
            let script = load_macro(&format!("{SHIPPED_PREFIX}{name}")).unwrap_or_else(|errors| panic!("{errors}"));
            assert!(script.lines.len() > 10, "{name}");
        }
    }

    #[test]
    fn a_macro_plays_its_neighbours() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("sessions/macros");
        let from_file = load_macro(directory.join("prove-the-fix.macro").to_str().unwrap()).unwrap();
        let from_program = load_macro("coalmine:prove-the-fix").unwrap();
        assert_eq!(from_file.to_string(), from_program.to_string());
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (path, words) in
            [("/nowhere.macro", "cannot be read"), ("coalmine:nothing", "coalmine:tour.macro"), ("/", "cannot be read")]
        {
            let errors = load_macro(path).unwrap_err().to_string();
            assert!(errors.contains(words), "{errors}");
        }
    }
}
