//! What is wrong with a macro, and where.

use std::fmt;
use std::ops::Range;

use crate::Sanitized;

/// Characters of a line that an error shows before and after what is wrong.
const CONTEXT: usize = 60;
/// Characters of a name that a message repeats.
const NAME: usize = 64;

/// Something wrong within a line; spans are in bytes of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) span: Range<usize>,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }
}

/// Text from a macro as messages repeat it.
pub(super) fn quoted(text: &str) -> String {
    let mut text = Sanitized::new(text);
    text.clip(NAME);
    format!("`{text}`")
}

/// Something wrong with a macro.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct MacroError {
    /// The file as its reader named it.
    pub file: Sanitized,
    /// Counted from 1; 0 when the file as a whole is wrong.
    pub line: usize,
    /// Character of the line at which it begins, counted from 1.
    pub column: usize,
    /// What is wrong and what to do.
    pub message: Sanitized,
    /// The part of the line before what is wrong.
    before: Sanitized,
    /// What is wrong.
    wrong: Sanitized,
    /// The part after it.
    after: Sanitized,
}

impl MacroError {
    /// An error of a file as a whole, for example that it cannot be read.
    pub fn of_file(file: &str, message: &str) -> Self {
        Self {
            file: Sanitized::new(file),
            line: 0,
            column: 0,
            message: Sanitized::new(message),
            before: Sanitized::default(),
            wrong: Sanitized::default(),
            after: Sanitized::default(),
        }
    }

    /// An error at a span of bytes of a whole text.
    pub fn at(file: &str, text: &str, span: Range<usize>, message: &str) -> Self {
        let start = text.floor_char_boundary(span.start);
        let begin = text[..start].rfind('\n').map_or(0, |end| end + 1);
        let line = &text[begin..];
        let line = line.lines().next().unwrap_or_default();
        let end = text.ceil_char_boundary(span.end.max(start)).saturating_sub(begin).min(line.len());
        let from = (start - begin).min(line.len());
        let number = text[..begin].matches('\n').count() + 1;
        Self::in_line(file, number, line, &Fault::new(from..end.max(from), message))
    }

    pub(super) fn in_line(file: &str, line: usize, text: &str, fault: &Fault) -> Self {
        let (before, wrong, after) = text
            .get(..fault.span.start)
            .zip(text.get(fault.span.clone()))
            .zip(text.get(fault.span.end..))
            .map_or((text, "", ""), |((before, wrong), after)| (before, wrong, after));
        let column = before.chars().count() + 1;
        let skip = (column - 1).saturating_sub(CONTEXT);
        let mut near: String = before.chars().skip(skip).collect();
        if skip > 0 {
            near.insert(0, '…');
        }
        let first = |text: &str| {
            // One character too many, so that cutting it off shows an ellipsis.
            let mut text = Sanitized::new(&text.chars().take(CONTEXT + 1).collect::<String>());
            text.clip(CONTEXT);
            text
        };
        Self {
            file: Sanitized::new(file),
            line,
            column,
            message: Sanitized::new(&fault.message),
            before: Sanitized::new(&near),
            wrong: first(wrong),
            after: first(after),
        }
    }
}

impl fmt::Display for MacroError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, before, wrong, after } = self;
        if *line == 0 {
            return write!(f, "{file}: {message}");
        }
        let gutter = line.to_string().len();
        let indent = before.chars().count();
        let carets = "^".repeat(wrong.chars().count().max(1));
        write!(f, "{file}:{line}:{column}: {message}\n {line} | {before}{wrong}{after}\n ")?;
        write!(f, "{:gutter$} | {:indent$}{carets}", "", "")
    }
}

/// Everything wrong with a macro.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct MacroErrors(pub Vec<MacroError>);

impl MacroErrors {
    /// Adds an error; beyond [`super::ERRORS`] it only says that there are more.
    pub(super) fn push(&mut self, error: MacroError) {
        match self.0.len() {
            count if count < super::ERRORS => self.0.push(error),
            count if count == super::ERRORS => {
                self.0.push(MacroError::of_file(&error.file, "There are more errors than are shown."));
            }
            _ => {}
        }
    }
}
