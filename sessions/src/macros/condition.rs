//! What a `wait` waits for and an `expect` demands.

use std::fmt;

use super::quantity::Quantity;
use crate::{State, ToggleName, ToggleValue};

/// Something that holds of a state or does not.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Two numbers compared. It does not hold while one of them has no value.
    Compare {
        /// What stands left.
        left: Operand,
        /// How they are compared.
        comparison: Comparison,
        /// What stands right.
        right: Operand,
    },
    /// A toggle has a value, or has another one. It does not hold while the target has not told it.
    Toggle {
        /// Which toggle.
        name: ToggleName,
        /// Whether the value is to be this one, or any other.
        equal: bool,
        /// The value.
        value: ToggleValue,
    },
    /// All of these hold.
    All(Vec<Condition>),
    /// At least one of these holds.
    Any(Vec<Condition>),
    /// This does not hold.
    Not(Box<Condition>),
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// As written.
    Number(f64),
    /// As the state says.
    Quantity(Quantity),
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `!=`
    Different,
}

/// Whether a condition holds, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Whether it holds.
    pub holds: bool,
    /// Every comparison in it, in the order written.
    pub seen: Vec<Seen>,
}

/// What one comparison saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether it is as the condition wants it; of a negated comparison, that it does not hold.
    pub as_expected: bool,
    /// What was seen, for example `corruption_rate was 0.152`.
    pub was: String,
    /// What was wanted, for example `> 0.1`.
    pub expected: String,
}

impl Condition {
    /// In words that [`super::parse`] reads back.
    pub fn describe(&self) -> String {
        self.to_string()
    }

    /// Whether it holds of `state`, with everything that was seen.
    ///
    /// ```
    /// use coalmine_sessions::State;
    /// use coalmine_sessions::macros::{Line, parse};
    ///
    /// let parsed = parse("example.macro", "expect corruption_rate > 0.1 or step >= 400", &[])?;
    /// let Line::Expect(condition) = &parsed.lines[0].line else { unreachable!() };
    /// let evaluation = condition.evaluate(&State::default());
    /// assert!(!evaluation.holds);
    /// assert_eq!(
    ///     evaluation.to_string(),
    ///     "corruption_rate was 0, expected > 0.1; step was 0, expected >= 400"
    /// );
    /// # Ok::<(), coalmine_sessions::macros::MacroErrors>(())
    /// ```
    pub fn evaluate(&self, state: &State) -> Evaluation {
        let mut seen = Vec::new();
        self.look(state, true, &mut seen);
        Evaluation { holds: self.holds(state), seen }
    }

    /// Whether it holds.
    pub fn holds(&self, state: &State) -> bool {
        match self {
            Self::Compare { left, comparison, right } => {
                let values = left.value(state).zip(right.value(state));
                values.is_some_and(|(left, right)| comparison.holds(left, right))
            }
            Self::Toggle { name, equal, value } => {
                state.toggles.get(name).is_some_and(|present| (present == value) == *equal)
            }
            Self::All(conditions) => conditions.iter().all(|condition| condition.holds(state)),
            Self::Any(conditions) => conditions.iter().any(|condition| condition.holds(state)),
            Self::Not(condition) => !condition.holds(state),
        }
    }

    /// Adds what each comparison sees; `wanted` is false below an odd number of `not`s.
    fn look(&self, state: &State, wanted: bool, seen: &mut Vec<Seen>) {
        let not = if wanted { "" } else { "not " };
        match self {
            Self::Compare { left, comparison, right } => {
                let was = match left.value(state) {
                    Some(value) => format!("{left} was {}", shown(value)),
                    None => format!("{left} had no value"),
                };
                let mut expected = format!("{not}{} {right}", comparison.symbol());
                if let Operand::Quantity(_) = right {
                    let value = right.value(state).map_or_else(|| "no value".to_owned(), shown);
                    expected = format!("{expected} ({value})");
                }
                seen.push(Seen { as_expected: self.holds(state) == wanted, was, expected });
            }
            Self::Toggle { name, equal, value } => {
                let spec = name.spec();
                let present = state.toggles.get(name).map_or("not told yet".into(), |value| spec.show(*value));
                let symbol = if *equal { "==" } else { "!=" };
                seen.push(Seen {
                    as_expected: self.holds(state) == wanted,
                    was: format!("{} was {present}", name.spec().short()),
                    expected: format!("{not}{symbol} {}", spec.show(*value)),
                });
            }
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().for_each(|condition| condition.look(state, wanted, seen));
            }
            Self::Not(condition) => condition.look(state, !wanted, seen),
        }
    }
}

impl Operand {
    fn value(self, state: &State) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Quantity(quantity) => quantity.value(state),
        }
    }
}

impl Comparison {
    /// All, the longer ones first.
    pub(super) const ALL: [Self; 6] =
        [Self::AtMost, Self::AtLeast, Self::Equal, Self::Different, Self::Less, Self::Greater];

    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::Equal => "==",
            Self::Different => "!=",
        }
    }

    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
            Self::Equal => left == right,
            Self::Different => left != right,
        }
    }
}

/// A seen number: at most four places.
fn shown(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Quantity(quantity) => write!(f, "{quantity}"),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, conditions: &[Self], word: &str, apart: fn(&Self) -> bool| {
            for (index, condition) in conditions.iter().enumerate() {
                let word = if index == 0 { "" } else { word };
                if apart(condition) { write!(f, "{word}({condition})")? } else { write!(f, "{word}{condition}")? }
            }
            Ok(())
        };
        match self {
            Self::Compare { left, comparison, right } => write!(f, "{left} {} {right}", comparison.symbol()),
            Self::Toggle { name, equal, value } => {
                let symbol = if *equal { "==" } else { "!=" };
                write!(f, "toggle {} {symbol} {}", name.spec().short(), name.spec().show(*value))
            }
            Self::All(conditions) => {
                joined(f, conditions, " and ", |condition| matches!(condition, Self::All(_) | Self::Any(_)))
            }
            Self::Any(conditions) => joined(f, conditions, " or ", |condition| matches!(condition, Self::Any(_))),
            Self::Not(condition) if matches!(**condition, Self::All(_) | Self::Any(_)) => {
                write!(f, "not ({condition})")
            }
            Self::Not(condition) => write!(f, "not {condition}"),
        }
    }
}

impl fmt::Display for Evaluation {
    /// What was seen and, of what is not as it should be, what was wanted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, seen) in self.seen.iter().enumerate() {
            let wrong = !self.holds && !seen.as_expected;
            // A range compares the same number twice.
            if !wrong && self.seen[..index].iter().any(|before| before.was == seen.was) {
                continue;
            }
            write!(f, "{}{}", if index == 0 { "" } else { "; " }, seen.was)?;
            if wrong {
                write!(f, ", expected {}", seen.expected)?;
            }
        }
        Ok(())
    }
}
