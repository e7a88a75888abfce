//! The interactive console: what a target says on screen, what a person presses to the target.
//!
//! [`App`] is everything but the terminal: it folds events, takes keys and draws into a
//! buffer. The loop around it never blocks: it waits for keys, signals, the target's
//! waker and the next frame, and draws only when something changed.

mod actions;
mod app;
mod arrangement;
mod bars;
mod command;
mod commands;
mod completion;
mod event_loop;
mod fuzzy;
mod jobs;
mod keyboard;
mod keymap;
mod layout;
mod line_editor;
mod macro_player;
mod marks;
mod options;
mod overlay;
mod source;
mod terminal;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};

use coalmine_sessions::recording::RecordingError;

pub use app::{App, Request};
pub use arrangement::Arrangement;
pub use command::{Action, ConsoleCommand, Handler, Kind, Parameter, Scope};
pub use commands::{COMMANDS, known_commands};
pub use jobs::Waker;
pub use keymap::{BINDINGS, Binding, Bound, Keymap, Row, parse_keys};
pub use layout::Shape;
pub use options::ConsoleOptions;
pub use source::Target;

/// How the console ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The user quit.
    Quit,
    /// A signal asked for it.
    Signal(i32),
    /// The terminal went away.
    TerminalGone,
}

impl Exit {
    /// The process's exit code: 0, or 128 and the signal's number (hang-up when the terminal went away).
    pub fn code(self) -> u8 {
        match self {
            Self::Quit => 0,
            Self::Signal(signal) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(127)),
            Self::TerminalGone => 129,
        }
    }
}

/// Why the console could not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsoleError {
    /// Standard input or output is a file, a pipe or nothing.
    #[error("the console needs a terminal, and {stream} is none; `coalmine run` works without one")]
    NotATerminal {
        /// Which one.
        stream: &'static str,
    },
    /// The terminal refused something.
    #[error("the terminal failed: {0}")]
    Terminal(#[from] io::Error),
    /// The recording could not be written to its end.
    #[error("the recording is not whole: {0}")]
    Recording(#[from] RecordingError),
}

impl ConsoleError {
    /// The process's exit code: 2 where the caller can mend it, 1 otherwise.
    pub fn code(&self) -> u8 {
        match self {
            Self::NotATerminal { .. } => 2,
            Self::Terminal(_) | Self::Recording(_) => 1,
        }
    }
}

/// Runs the console on this process's terminal until the user quits, and restores the terminal. Also says how the
/// panes were left.
///
/// Blocks the calling thread and starts a single-threaded runtime on it, so it must not be called
/// from inside of one. Installs a panic hook for as long as it runs.
///
/// # Errors
/// When standard input or output is no terminal, or the terminal fails.
pub fn run(target: Target, options: ConsoleOptions) -> Result<(Exit, Arrangement), ConsoleError> {
    require_terminal()?;
    event_loop::run(target, options)
}

/// Checks that there is a terminal, before anything is started for it.
///
/// # Errors
/// When standard input or output is none.
pub fn require_terminal() -> Result<(), ConsoleError> {
    for (terminal, stream) in
        [(io::stdin().is_terminal(), "standard input"), (io::stdout().is_terminal(), "standard output")]
    {
        if !terminal {
            return Err(ConsoleError::NotATerminal { stream });
        }
    }
    Ok(())
}
