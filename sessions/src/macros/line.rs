//! The lines of a macro.

use std::fmt;
use std::sync::Arc;

use super::chord::Chord;
use super::condition::Condition;
use super::words::write_word;
use crate::{Danger, ToggleAssignment, ToggleName};

/// A macro: its lines that do something, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Macro {
    /// The file, as its reader named it.
    pub name: Arc<str>,
    /// The lines.
    pub lines: Vec<MacroLine>,
}

/// One line and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct MacroLine {
    /// The file.
    pub file: Arc<str>,
    /// Counted from 1.
    pub number: usize,
    /// What it asks for.
    pub line: Line,
    /// What it may do to the target.
    pub danger: Danger,
}

/// What a line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// Let the target go on until a condition holds.
    Wait {
        /// The condition.
        condition: Condition,
        /// When it has run out; without one, after [`super::WAIT_STEPS`] steps.
        bound: Option<Bound>,
    },
    /// Demand that a condition holds now.
    Expect(Condition),
    /// Name this moment.
    Mark(String),
    /// Save the screen.
    Snapshot(String),
    /// Press keys.
    Keys(Vec<Chord>),
    /// Give a toggle a value.
    Set(ToggleAssignment),
    /// Give a toggle its next value.
    Toggle(ToggleName),
    /// Hold the target.
    Hold,
    /// Let the target go on.
    Run,
    /// Run so many steps.
    Step(u64),
    /// Steps a second; `None` is as fast as it goes.
    Pace(Option<f64>),
    /// Play another macro.
    Play(String),
    /// A command of the console.
    Command {
        /// Its name.
        name: String,
        /// What stands after it.
        arguments: Vec<String>,
    },
}

/// When a `wait` has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// After so many steps.
    Steps(u64),
    /// After so long on the target's own clock, so that it is the same every time.
    Milliseconds(u64),
}

impl Macro {
    /// The most that any of its lines may do.
    pub fn danger(&self) -> Danger {
        let rank = |danger: &Danger| match danger {
            Danger::Read => 0,
            Danger::Local => 1,
            Danger::MutatesTarget => 2,
        };
        self.lines.iter().map(|line| line.danger).max_by_key(rank).unwrap_or(Danger::Read)
    }
}

impl Line {
    /// What the line may do, other than a [`Line::Command`], whose registry knows, and a [`Line::Play`].
    pub(super) fn danger(&self) -> Danger {
        match self {
            Self::Wait { .. } | Self::Expect(_) | Self::Mark(_) => Danger::Read,
            Self::Snapshot(_) | Self::Play(_) | Self::Command { .. } => Danger::Local,
            // What a key does depends on the bindings and on what is open.
            Self::Keys(_) | Self::Set(_) | Self::Toggle(_) | Self::Hold | Self::Run | Self::Step(_) | Self::Pace(_) => {
                Danger::MutatesTarget
            }
        }
    }
}

impl fmt::Display for Macro {
    /// As [`super::parse`] reads it back, without comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{}", line.line))
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(1) => f.write_str("1 step"),
            Self::Steps(steps) => write!(f, "{steps} steps"),
            Self::Milliseconds(count) if count % 1_000 == 0 => write!(f, "{}s", count / 1_000),
            Self::Milliseconds(count) => write!(f, "{count}ms"),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |f: &mut fmt::Formatter<'_>, verb: &str, text: &str| {
            write!(f, "{verb} ")?;
            write_word(f, text)
        };
        match self {
            Self::Wait { condition, bound: None } => write!(f, "wait {condition}"),
            Self::Wait { condition, bound: Some(bound) } => write!(f, "wait {condition} {bound}"),
            Self::Expect(condition) => write!(f, "expect {condition}"),
            Self::Mark(name) => word(f, "mark", name),
            Self::Snapshot(file) => word(f, "snapshot", file),
            Self::Keys(chords) => {
                f.write_str("keys ")?;
                chords.iter().try_for_each(|chord| write!(f, "{chord}"))
            }
            Self::Set(assignment) => {
                let value = assignment.name.spec().show(assignment.value);
                write!(f, "set {} {value}", assignment.name.spec().short())
            }
            Self::Toggle(name) => write!(f, "toggle {}", name.spec().short()),
            Self::Hold => f.write_str("hold"),
            Self::Run => f.write_str("run"),
            Self::Step(1) => f.write_str("step"),
            Self::Step(count) => write!(f, "step {count}"),
            Self::Pace(None) => f.write_str("pace max"),
            Self::Pace(Some(pace)) => write!(f, "pace {pace}"),
            Self::Play(file) => word(f, "play", file),
            Self::Command { name, arguments } => {
                f.write_str(name)?;
                for argument in arguments {
                    f.write_str(" ")?;
                    write_word(f, argument)?;
                }
                Ok(())
            }
        }
    }
}
