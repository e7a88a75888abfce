//! The interactive console: what a target says on screen, what a person presses to the target.
//!
//! [`App`] is everything but the terminal: it folds events, takes keys and draws into a
//! buffer. The loop around it never blocks: it waits for keys, signals, the target's
//! waker and the next frame, and draws only when something changed.

mod app;
mod bars;
mod commands;
mod event_loop;
mod keymap;
mod layout;
mod options;
mod terminal;

#[cfg(test)]
mod tests;

use std::{
    io::{self, IsTerminal},
    sync::mpsc,
};

use coalmine_sessions::{Command, EventReceiver};

pub use app::{App, Request};
pub use commands::{Action, COMMANDS, ConsoleCommand, Scope};
pub use keymap::BINDINGS;
pub use options::ConsoleOptions;

/// A target as the console knows it: what it says and where to ask it.
///
/// Both ends may outlive the target; when it ends, the console says so and stays.
pub struct TargetHandle {
    /// What the target says.
    pub events: EventReceiver,
    /// What it is asked.
    pub commands: mpsc::Sender<Command>,
}

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
}

impl ConsoleError {
    /// The process's exit code: 2 where the caller can mend it, 1 otherwise.
    pub fn code(&self) -> u8 {
        match self {
            Self::NotATerminal { .. } => 2,
            Self::Terminal(_) => 1,
        }
    }
}

/// Runs the console on this process's terminal until the user quits, and restores the terminal.
///
/// Blocks the calling thread and starts a single-threaded runtime on it, so it must not be called
/// from inside of one. Installs a panic hook for as long as it runs.
pub fn run(target: TargetHandle, options: ConsoleOptions) -> Result<Exit, ConsoleError> {
    for (terminal, stream) in
        [(io::stdin().is_terminal(), "standard input"), (io::stdout().is_terminal(), "standard output")]
    {
        if !terminal {
            return Err(ConsoleError::NotATerminal { stream });
        }
    }
    event_loop::run(target, options)
}
