//! Words of a line: separated by white space, quoted where they hold some.

use std::fmt::{self, Write as _};
use std::ops::Range;

use super::error::Fault;

/// One word, unquoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) span: Range<usize>,
}

/// Reads the words of `line` from byte `at` on. A `#` at the start of a word begins a comment.
pub(super) fn words(line: &str, at: usize) -> Result<Vec<Word>, Fault> {
    let mut words = Vec::new();
    let mut at = at;
    loop {
        let rest = &line[at..];
        let trimmed = rest.trim_start();
        let start = at + rest.len() - trimmed.len();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            return Ok(words);
        }
        let (text, end) = if trimmed.starts_with('"') {
            quoted_word(line, start)?
        } else {
            let end = trimmed.find(char::is_whitespace).map_or(line.len(), |length| start + length);
            (line[start..end].to_owned(), end)
        };
        words.push(Word { text, span: start..end });
        at = end;
    }
}

fn quoted_word(line: &str, start: usize) -> Result<(String, usize), Fault> {
    let mut text = String::new();
    let mut characters = line[start + 1..].char_indices().map(|(at, character)| (start + 1 + at, character));
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                let end = at + 1;
                if line[end..].starts_with(|next: char| !next.is_whitespace()) {
                    return Err(Fault::new(end..line.len(), "There must be a space after a closing quote."));
                }
                return Ok((text, end));
            }
            '\\' => {
                let escaped = characters.next();
                text.push(match escaped {
                    Some((_, plain @ ('"' | '\\'))) => plain,
                    Some((_, 'n')) => '\n',
                    Some((_, 't')) => '\t',
                    Some((_, 'u')) => {
                        let (code, length) = code_point(&line[at..]).ok_or_else(|| {
                            Fault::new(at..line.len(), "A character's number is written `\\u{1F600}`.")
                        })?;
                        // The opening brace, the digits and the closing one.
                        for _ in 0..length {
                            characters.next();
                        }
                        code
                    }
                    _ => {
                        let end = escaped.map_or(line.len(), |(at, character)| at + character.len_utf8());
                        let message = "After a backslash comes one of `\"`, `\\`, `n`, `t` or `u{...}`.";
                        return Err(Fault::new(at..end, message));
                    }
                });
            }
            plain => text.push(plain),
        }
    }
    Err(Fault::new(start..line.len(), "The quote is not closed: add a `\"`."))
}

/// Reads `\u{...}` at the start of `text`: the character and the length of the braces with what they hold.
fn code_point(text: &str) -> Option<(char, usize)> {
    let digits = text.strip_prefix("\\u{").and_then(|rest| rest.split_once('}')).map(|(digits, _)| digits);
    let digits = digits.filter(|digits| (1..=6).contains(&digits.len()))?;
    // `from_str_radix` would take a leading plus sign.
    let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, digits.len() + 2))
}

/// A word as a line of a macro has it: quoted if it has to be.
pub fn word(text: &str) -> String {
    struct Quoted<'a>(&'a str);
    impl fmt::Display for Quoted<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_word(f, self.0)
        }
    }
    Quoted(text).to_string()
}

/// A word as [`words`] reads it back.
pub(super) fn write_word(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let plain = !text.is_empty()
        && !text.starts_with(['"', '#'])
        && !text.contains(|character: char| character.is_whitespace() || character.is_control());
    if plain {
        return f.write_str(text);
    }
    f.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(f, "\\{character}")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            control if control.is_control() => write!(f, "\\u{{{:X}}}", u32::from(control))?,
            plain => f.write_char(plain)?,
        }
    }
    f.write_char('"')
}
