//! Reads the text of a macro.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::chord::chords;
use super::condition_parser::condition;
use super::error::{Fault, MacroError, MacroErrors, quoted};
use super::line::{Line, Macro, MacroLine};
use super::words::{Word, words};
use super::{LINE_BYTES, MACRO_BYTES, MACRO_LINES, MACRO_STEPS};
use crate::toggle::{nearest, suggestion};
use crate::{Danger, ToggleAssignment, ToggleName, ToggleValue};

/// The words that lines of the language begin with, other than the console's commands.
pub const VERBS: [&str; 12] =
    ["wait", "expect", "mark", "snapshot", "keys", "set", "toggle", "hold", "run", "step", "pace", "play"];

/// A command that a console has.
#[derive(Clone, Copy)]
pub struct KnownCommand<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it may do to the target.
    pub danger: Danger,
    /// Looks at the arguments, so that what is wrong with them is said before anything runs.
    pub check: &'a ArgumentCheck<'a>,
}

/// Finds what is wrong with the arguments of a command, given its name.
pub type ArgumentCheck<'a> = dyn Fn(&str, &[String]) -> Result<(), ArgumentProblem> + 'a;

/// What is wrong with the arguments of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentProblem {
    /// The wrong argument, counted from 0; one that is not there if an argument is missing.
    pub index: usize,
    /// What is wrong and what to do, as a full sentence.
    pub sentence: String,
}

/// Lets any arguments pass.
pub fn any_arguments(_: &str, _: &[String]) -> Result<(), ArgumentProblem> {
    Ok(())
}

impl fmt::Debug for KnownCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownCommand").field("name", &self.name).field("danger", &self.danger).finish_non_exhaustive()
    }
}

/// Reads a macro, whose lines may name the console's `commands`. What it plays is not looked at: see [`super::load`].
///
/// ```
/// use coalmine_sessions::macros::parse;
///
/// let parsed = parse("fix.macro", "set overlap off # the fix\nwait since_toggle.steps >= 150 10s\n", &[])?;
/// assert_eq!(parsed.to_string(), "set overlap 0\nwait since_toggle.steps >= 150 10s\n");
///
/// let errors = parse("fix.macro", "expect corupted == 0", &[]).unwrap_err();
/// assert_eq!((errors.0[0].line, errors.0[0].column), (1, 8));
/// assert!(errors.to_string().contains("did you mean `corrupted`?"));
/// # Ok::<(), coalmine_sessions::macros::MacroErrors>(())
/// ```
///
/// # Errors
/// Everything that is wrong with it, up to [`super::ERRORS`] things.
pub fn parse(file: &str, text: &str, commands: &[KnownCommand<'_>]) -> Result<Macro, MacroErrors> {
    let of_file = |message: String| MacroErrors(vec![MacroError::of_file(file, &message)]);
    if text.len() > MACRO_BYTES {
        return Err(of_file(format!("A macro has at most {MACRO_BYTES} bytes; this one has {}.", text.len())));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let name: Arc<str> = file.into();
    let mut lines = Vec::new();
    let mut errors = MacroErrors::default();
    for (number, text) in (1..).zip(text.lines()) {
        if number > MACRO_LINES {
            errors.push(MacroError::of_file(file, &format!("A macro has at most {MACRO_LINES} lines.")));
            break;
        }
        match line(text, commands) {
            Ok(None) => {}
            Ok(Some((line, danger))) => lines.push(MacroLine { file: Arc::clone(&name), number, line, danger }),
            Err(fault) => errors.push(MacroError::in_line(file, number, text, &fault)),
        }
    }
    if errors.0.is_empty() { Ok(Macro { name, lines }) } else { Err(errors) }
}

/// Reads one line; nothing if it is blank or a comment.
fn line(text: &str, commands: &[KnownCommand<'_>]) -> Result<Option<(Line, Danger)>, Fault> {
    if text.len() > LINE_BYTES {
        let end = text.floor_char_boundary(LINE_BYTES);
        return Err(Fault::new(end..text.len(), format!("A line has at most {LINE_BYTES} bytes.")));
    }
    let start = text.len() - text.trim_start().len();
    let rest = &text[start..];
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(None);
    }
    if let Some((at, control)) = text.char_indices().find(|(_, character)| character.is_control() && *character != '\t')
    {
        let message =
            format!("A control character cannot stand here; in quotes, write `\\u{{{:X}}}`.", u32::from(control));
        return Err(Fault::new(at..at + control.len_utf8(), message));
    }
    let end = rest.find(char::is_whitespace).map_or(text.len(), |length| start + length);
    let verb = Verb { text: &text[start..end], span: start..end, line: text };
    let line = match verb.text {
        "wait" => {
            let (condition, bound) = condition(text, end, true)?;
            Line::Wait { condition, bound }
        }
        "expect" => Line::Expect(condition(text, end, false)?.0),
        "keys" => {
            let chords = chords(text, end)?;
            if chords.is_empty() {
                return Err(Fault::new(verb.span, "`keys` needs keys, for example `keys <C-u>gg`; `#` is `<#>`."));
            }
            Line::Keys(chords)
        }
        "mark" => Line::Mark(verb.one("a name")?.text),
        "snapshot" => Line::Snapshot(verb.one("a file")?.text),
        "play" => Line::Play(verb.one("a file")?.text),
        "set" => {
            let [name, value] = verb.words("a toggle and a value, for example `set overlap 0`")?;
            let toggle = toggle_name(&name)?;
            Line::Set(ToggleAssignment { name: toggle, value: toggle_value(toggle, &value.text, value.span)? })
        }
        "toggle" => {
            let name = verb.one("a toggle")?;
            let toggle = toggle_name(&name)?;
            if toggle.spec().values.is_empty() {
                return Err(Fault::new(name.span, "This toggle takes a time and has no next value: use `set`."));
            }
            Line::Toggle(toggle)
        }
        "hold" => verb.alone(Line::Hold)?,
        "run" => verb.alone(Line::Run)?,
        "step" => match words(text, end)?.as_slice() {
            [] => Line::Step(1),
            _ => Line::Step(verb.number(|text| text.parse().ok(), |count| (1..=MACRO_STEPS).contains(count))?),
        },
        "pace" => {
            let pace = |text: &str| match text {
                "max" => Some(None),
                _ => text.parse::<f64>().ok().map(Some),
            };
            Line::Pace(verb.number(pace, |pace| pace.is_none_or(|steps| (0.01..=1e6).contains(&steps)))?)
        }
        name => {
            let Some(known) = commands.iter().find(|known| known.name == name) else {
                let nearest = nearest(name, VERBS.into_iter().chain(commands.iter().map(|known| known.name)));
                return Err(Fault::new(
                    verb.span,
                    format!("There is no command {}{}.", quoted(name), suggestion(nearest)),
                ));
            };
            let (arguments, spans): (Vec<_>, Vec<_>) =
                words(text, end)?.into_iter().map(|word| (word.text, word.span)).unzip();
            (known.check)(name, &arguments).map_err(|problem| {
                Fault::new(spans.get(problem.index).cloned().unwrap_or(verb.span), problem.sentence)
            })?;
            return Ok(Some((Line::Command { name: name.to_owned(), arguments }, known.danger)));
        }
    };
    let danger = line.danger();
    Ok(Some((line, danger)))
}

/// The word that a line begins with.
struct Verb<'a> {
    text: &'a str,
    span: Range<usize>,
    line: &'a str,
}

impl Verb<'_> {
    fn words<const COUNT: usize>(&self, expected: &str) -> Result<[Word; COUNT], Fault> {
        let words = words(self.line, self.span.end)?;
        let span = match (words.get(COUNT), words.last()) {
            (Some(first), Some(last)) => first.span.start..last.span.end,
            _ => self.span.clone(),
        };
        words.try_into().map_err(|_| Fault::new(span, format!("`{}` takes {expected}.", self.text)))
    }

    fn one(&self, expected: &str) -> Result<Word, Fault> {
        let [word] = self.words(expected)?;
        Ok(word)
    }

    fn alone(&self, line: Line) -> Result<Line, Fault> {
        let [] = self.words("nothing")?;
        Ok(line)
    }

    fn number<T>(&self, parse: impl Fn(&str) -> Option<T>, valid: impl Fn(&T) -> bool) -> Result<T, Fault> {
        let expected = match self.text {
            "step" => format!("a number of steps from 1 to {MACRO_STEPS}"),
            _ => "a number of steps a second from 0.01 to 1000000, or `max`".to_owned(),
        };
        let word = self.one(&expected)?;
        let number = parse(&word.text).filter(valid);
        number.ok_or_else(|| Fault::new(word.span, format!("`{}` takes {expected}.", self.text)))
    }
}

fn toggle_name(word: &Word) -> Result<ToggleName, Fault> {
    ToggleName::parse(&word.text).map_err(|error| Fault::new(word.span.clone(), error.to_string()))
}

/// A toggle's value; switches also take `on` and `off`.
pub(super) fn toggle_value(name: ToggleName, text: &str, span: Range<usize>) -> Result<ToggleValue, Fault> {
    let spec = name.spec();
    let text = match text {
        "off" if spec.values == ["0", "1"] => "0",
        "on" if spec.values == ["0", "1"] => "1",
        text => text,
    };
    spec.parse_value(text).map_err(|error| Fault::new(span, error.to_string()))
}
