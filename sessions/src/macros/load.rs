//! Reads a macro together with everything that it plays.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{Fault, MacroError, MacroErrors};
use super::line::{Line, Macro, MacroLine};
use super::parser::{KnownCommand, parse};
use super::{MACRO_LINES, PLAY_DEPTH};

/// A macro's text and the name that says where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file; what it plays is found from here.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Reads a macro and puts what it plays in place, so that nothing runs before all is known to be well.
///
/// `read` finds the macro that `play PATH` means in the file of a given name: `read(name, path)`. It should refuse files
/// larger than [`super::MACRO_BYTES`] without reading them whole.
///
/// # Errors
/// Everything that is wrong with it and with what it plays.
pub fn load(
    source: &Source,
    commands: &[KnownCommand<'_>],
    read: &mut dyn FnMut(&str, &str) -> Result<Source, String>,
) -> Result<Macro, MacroErrors> {
    let mut loader = Loader {
        commands,
        read,
        parsed: BTreeMap::new(),
        visited: 0,
        errors: MacroErrors::default(),
        lines: Vec::new(),
    };
    let name: Arc<str> = source.name.as_str().into();
    loader.play(source, 0);
    if loader.errors.0.is_empty() { Ok(Macro { name, lines: loader.lines }) } else { Err(loader.errors) }
}

struct Loader<'a> {
    commands: &'a [KnownCommand<'a>],
    read: &'a mut dyn FnMut(&str, &str) -> Result<Source, String>,
    /// By name; nothing where there are errors, which are told once.
    parsed: BTreeMap<String, Option<Arc<Macro>>>,
    /// Lines looked at, those that play included.
    visited: usize,
    errors: MacroErrors,
    lines: Vec<MacroLine>,
}

impl Loader<'_> {
    /// Adds the lines of a macro; `false` when it makes no sense to go on.
    fn play(&mut self, source: &Source, depth: usize) -> bool {
        let Some(parsed) = self.parse(source) else { return true };
        for line in &parsed.lines {
            self.visited += 1;
            let (fault, go_on) = if self.visited > MACRO_LINES {
                (format!("A macro with everything that it plays has at most {MACRO_LINES} lines."), false)
            } else if let Line::Play(path) = &line.line {
                if depth == PLAY_DEPTH {
                    (format!("Macros play macros at most {PLAY_DEPTH} deep."), false)
                } else {
                    match (self.read)(&source.name, path) {
                        Ok(played) if self.play(&played, depth + 1) => continue,
                        Ok(_) => return false,
                        Err(message) => (message, true),
                    }
                }
            } else {
                self.lines.push(line.clone());
                continue;
            };
            let text = line.line.to_string();
            self.errors.push(MacroError::in_line(&source.name, line.number, &text, &Fault::new(0..text.len(), fault)));
            if !go_on {
                return false;
            }
        }
        true
    }

    fn parse(&mut self, source: &Source) -> Option<Arc<Macro>> {
        if let Some(known) = self.parsed.get(&source.name) {
            return known.clone();
        }
        let parsed = match parse(&source.name, &source.text, self.commands) {
            Ok(parsed) => Some(Arc::new(parsed)),
            Err(errors) => {
                errors.0.into_iter().for_each(|error| self.errors.push(error));
                None
            }
        };
        self.parsed.insert(source.name.clone(), parsed.clone());
        parsed
    }
}
