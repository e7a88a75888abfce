//! Writes what was done as a macro.

use std::fmt::Write as _;

use super::error::MacroErrors;
use super::line::Line;
use super::parser::{KnownCommand, any_arguments, parse};
use super::{MACRO_BYTES, MACRO_LINES};
use crate::Danger;

/// Collects what a console carries out. While it plays a macro it should record nothing, or the macro would record itself.
///
/// ```
/// use coalmine_sessions::macros::{Line, MacroRecorder};
///
/// let mut recorder = MacroRecorder::default();
/// recorder.command("focus.timeline", &[])?;
/// recorder.command("filter", &["wrong argument"])?;
/// recorder.line(&Line::Hold)?;
/// assert_eq!(recorder.text(), "focus.timeline\nfilter \"wrong argument\"\nhold\n");
/// # Ok::<(), coalmine_sessions::macros::MacroErrors>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MacroRecorder {
    text: String,
    lines: Vec<Line>,
}

impl MacroRecorder {
    /// Adds a command of the console.
    ///
    /// What has a line of its own is better recorded as what it did: a key that turned overlap off as
    /// `set overlap 0` ([`Line::Set`]), one that held the engine as [`Line::Hold`]. A command by the name of such a line is
    /// taken for it.
    ///
    /// # Errors
    /// When no line can say it: the name has a space, or arguments that its line does not take; or the macro is full.
    pub fn command(&mut self, name: &str, arguments: &[&str]) -> Result<(), MacroErrors> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.add(&Line::Command { name: name.to_owned(), arguments }, name)
    }

    /// Adds a line of any kind.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub fn line(&mut self, line: &Line) -> Result<(), MacroErrors> {
        match line {
            Line::Command { name, .. } => self.add(line, name),
            _ => self.add(line, ""),
        }
    }

    /// The macro's text so far. It reads back as [`Self::lines`].
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What was recorded so far.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Writes the line if it reads back, and keeps what it reads back as.
    fn add(&mut self, line: &Line, name: &str) -> Result<(), MacroErrors> {
        let text = line.to_string();
        let known = [KnownCommand { name, danger: Danger::Local, check: &any_arguments }];
        let full = self.lines.len() == MACRO_LINES || self.text.len() + text.len() >= MACRO_BYTES;
        let parsed = parse("recording", &text, &known)?.lines;
        match <[_; 1]>::try_from(parsed) {
            Ok([read]) if !full => {
                let _ = writeln!(self.text, "{text}");
                self.lines.push(read.line);
                Ok(())
            }
            _ => Err(MacroErrors(vec![super::MacroError::of_file(
                "recording",
                if full { "The macro is full." } else { "This cannot be written as a line of a macro." },
            )])),
        }
    }
}
