//! Reads conditions and the bound of a `wait`.
//!
//! ```text
//! any        = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" any ")" | "toggle" NAME ("==" | "!=") VALUE | operand COMPARISON operand
//! bound      = NUMBER ("step" | "steps" | "s" | "ms")
//! ```

use std::ops::Range;

use super::condition::{Comparison, Condition, Operand};
use super::error::{Fault, quoted};
use super::line::Bound;
use super::quantity::Quantity;
use super::{MACRO_STEPS, parser::toggle_value};
use crate::ToggleName;

/// How deep parentheses and `not`s nest.
const DEPTH: usize = 32;
/// Comparisons of one condition.
const COMPARISONS: usize = 32;
/// Digits of a number: so many are always kept.
const DIGITS: usize = 15;
/// Longest time that a `wait` may be given, ms.
const LONGEST_MS: u64 = 86_400_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Comparison(Comparison),
    Open,
    Close,
    /// What belongs nowhere, such as a single `=`.
    Stray(&'a str),
}

/// Reads a condition from byte `at` of `line` to its end, and a bound after it where one may stand.
pub(super) fn condition(line: &str, at: usize, bounded: bool) -> Result<(Condition, Option<Bound>), Fault> {
    let mut reader = Reader { line, tokens: tokens(line, at), next: 0, comparisons: 0 };
    let condition = reader.any(0)?;
    let bound = if bounded { reader.bound()? } else { None };
    match reader.peek() {
        None => Ok((condition, bound)),
        Some(_) => Err(Fault::new(
            reader.span().start..reader.end().max(reader.span().end),
            match (bounded, bound) {
                (true, None) => "Nothing more is expected than `and`, `or`, or a bound such as `200 steps` or `10s`.",
                (true, Some(_)) => "Nothing more is expected after the bound.",
                (false, _) => "Nothing more is expected than `and` or `or`.",
            },
        )),
    }
}

fn tokens(line: &str, at: usize) -> Vec<(Token<'_>, Range<usize>)> {
    let special = |character: char| matches!(character, '(' | ')' | '<' | '>' | '=' | '!');
    let mut tokens = Vec::new();
    let mut at = at;
    while let Some(character) = line[at..].chars().next() {
        let rest = &line[at..];
        let (token, length) = if character.is_whitespace() {
            at += character.len_utf8();
            continue;
        } else if character == '#' {
            break;
        } else if let Some(comparison) = Comparison::ALL.iter().find(|known| rest.starts_with(known.symbol())) {
            (Token::Comparison(*comparison), comparison.symbol().len())
        } else if character == '(' {
            (Token::Open, 1)
        } else if character == ')' {
            (Token::Close, 1)
        } else if special(character) {
            (Token::Stray(&rest[..1]), 1)
        } else {
            let end = rest.find(|next: char| next.is_whitespace() || special(next)).unwrap_or(rest.len());
            (Token::Word(&rest[..end]), end)
        };
        tokens.push((token, at..at + length));
        at += length;
    }
    tokens
}

struct Reader<'a> {
    line: &'a str,
    tokens: Vec<(Token<'a>, Range<usize>)>,
    next: usize,
    comparisons: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).map(|(token, _)| *token)
    }

    /// Byte after the last token.
    fn end(&self) -> usize {
        self.tokens.last().map_or(self.line.trim_end().len(), |(_, span)| span.end)
    }

    /// Where the next token stands, or where one is missing.
    fn span(&self) -> Range<usize> {
        self.tokens.get(self.next).map_or(self.end()..self.end(), |(_, span)| span.clone())
    }

    fn take(&mut self, token: Token<'_>) -> bool {
        let taken = self.peek() == Some(token);
        self.next += usize::from(taken);
        taken
    }

    fn word(&mut self, expected: &str) -> Result<(&'a str, Range<usize>), Fault> {
        let span = self.span();
        match self.peek() {
            Some(Token::Word(word)) => {
                self.next += 1;
                Ok((word, span))
            }
            _ => Err(self.missing(expected)),
        }
    }

    fn missing(&self, expected: &str) -> Fault {
        let message = match self.peek() {
            None => format!("Here {expected} is missing."),
            Some(Token::Stray("=")) => format!("Here {expected} is missing; to compare, write `==`."),
            Some(Token::Stray("!")) => format!("Here {expected} is missing; to negate, write `not`."),
            Some(_) => format!("Here {expected} should stand instead."),
        };
        Fault::new(self.span(), message)
    }

    fn any(&mut self, depth: usize) -> Result<Condition, Fault> {
        self.joined(depth, "or", Self::all, Condition::Any)
    }

    fn all(&mut self, depth: usize) -> Result<Condition, Fault> {
        self.joined(depth, "and", Self::one, Condition::All)
    }

    fn joined(
        &mut self,
        depth: usize,
        word: &'static str,
        part: fn(&mut Self, usize) -> Result<Condition, Fault>,
        join: fn(Vec<Condition>) -> Condition,
    ) -> Result<Condition, Fault> {
        let first = part(self, depth)?;
        if self.peek() != Some(Token::Word(word)) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take(Token::Word(word)) {
            parts.push(part(self, depth)?);
        }
        Ok(join(parts))
    }

    fn one(&mut self, depth: usize) -> Result<Condition, Fault> {
        if depth > DEPTH {
            return Err(Fault::new(self.span(), format!("Conditions nest at most {DEPTH} deep.")));
        }
        let span = self.span();
        if self.take(Token::Word("not")) {
            return Ok(Condition::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.take(Token::Open) {
            let inner = self.any(depth + 1)?;
            if !self.take(Token::Close) {
                let message = "The parenthesis is not closed: add a `)`, or join with `and` or `or`.";
                return Err(Fault::new(span.start..self.span().end, message));
            }
            return Ok(inner);
        }
        self.comparisons += 1;
        if self.comparisons > COMPARISONS {
            return Err(Fault::new(span, format!("A condition has at most {COMPARISONS} comparisons.")));
        }
        if self.take(Token::Word("toggle")) {
            return self.toggle();
        }
        let left = self.operand()?;
        let comparison = match self.peek() {
            Some(Token::Comparison(comparison)) => comparison,
            _ => return Err(self.missing("a comparison such as `>=`")),
        };
        self.next += 1;
        Ok(Condition::Compare { left, comparison, right: self.operand()? })
    }

    fn toggle(&mut self) -> Result<Condition, Fault> {
        let (name, span) = self.word("a toggle's name")?;
        let name = ToggleName::parse(name).map_err(|error| Fault::new(span, error.to_string()))?;
        let equal = match self.peek() {
            Some(Token::Comparison(Comparison::Equal)) => true,
            Some(Token::Comparison(Comparison::Different)) => false,
            _ => return Err(self.missing("`==` or `!=`")),
        };
        self.next += 1;
        let (value, span) = self.word("a value")?;
        Ok(Condition::Toggle { name, equal, value: toggle_value(name, value, span)? })
    }

    fn operand(&mut self) -> Result<Operand, Fault> {
        let (word, span) = self.word("a number or its name")?;
        if word.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+' | '.')) {
            let number = decimal(word).ok_or_else(|| {
                let message = format!(
                    "{} is no number: write for example `12` or `0.15`, with at most {DIGITS} digits.",
                    quoted(word)
                );
                Fault::new(span, message)
            })?;
            return Ok(Operand::Number(number));
        }
        Quantity::parse(word).map(Operand::Quantity).map_err(|message| Fault::new(span, message))
    }

    /// `200 steps`, `10s`, `10 s`; nothing if there is no number.
    fn bound(&mut self) -> Result<Option<Bound>, Fault> {
        let Some(Token::Word(word)) = self.peek() else { return Ok(None) };
        if !word.starts_with(|first: char| first.is_ascii_digit()) {
            return Ok(None);
        }
        let mut span = self.span();
        self.next += 1;
        let digits = word.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(word.len());
        let (number, mut unit) = word.split_at(digits);
        if unit.is_empty()
            && let Some(Token::Word(word)) = self.peek()
        {
            unit = word;
            span.end = self.span().end;
            self.next += 1;
        }
        let milliseconds = match unit {
            "s" => Some(1e3),
            "ms" => Some(1.0),
            _ => None,
        };
        let bound = match (unit, milliseconds) {
            ("step" | "steps", _) => {
                number.parse().ok().filter(|steps| (1..=MACRO_STEPS).contains(steps)).map(Bound::Steps)
            }
            (_, Some(scale)) => {
                let time = decimal(number).map(|number| (number * scale).round());
                // Within the range no rounding is lost.
                time.filter(|time| (1.0..=LONGEST_MS as f64).contains(time))
                    .map(|time| Bound::Milliseconds(time as u64))
            }
            _ => None,
        };
        bound.map(Some).ok_or_else(|| {
            let message = format!(
                "A bound is written `200 steps` (1 to {MACRO_STEPS}) or `10s` or `500ms` of the target's time (at most {} s).",
                LONGEST_MS / 1_000
            );
            Fault::new(span, message)
        })
    }
}

/// A plain decimal number, short enough to be written and read back without a change.
fn decimal(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().filter(u8::is_ascii_digit).count() <= DIGITS;
    if !plain {
        return None;
    }
    text.parse().ok()
}
