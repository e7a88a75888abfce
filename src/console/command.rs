//! What a command of the console is: a name, typed parameters, a handler. The table of them is in `commands.rs`.

use std::{fmt, time::Duration};

use coalmine_panes::PaneId;
use coalmine_sessions::{Danger, macros::ArgumentProblem};

use super::App;

/// Where a command works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In every pane.
    Everywhere,
    /// While this pane is focused; such keys come before those that work everywhere.
    Pane(PaneId),
}

impl Scope {
    /// Whether the command works while `pane` is focused.
    pub fn covers(self, pane: PaneId) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Pane(own) => own == pane,
        }
    }

    /// In one word; empty for everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Everywhere => "",
            Self::Pane(pane) => pane.name(),
        }
    }
}

/// What an argument has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pane's name.
    Pane,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A step, or `first`, `last`, `corruption` or `now`.
    Place,
    /// A time on the target's clock, for example `1.5s` or `200ms`.
    Time,
    /// A number of times the speed at which it was recorded.
    Speed,
    /// The name of a mark.
    Mark,
    /// A file to write.
    File,
    /// A macro: a file or a shipped one.
    Macro,
    /// A toggle's name.
    Toggle,
    /// A value of the toggle before it.
    ToggleValue,
    /// A pace in steps a second, or `max`.
    Pace,
    /// A number of steps.
    Steps,
    /// Keys as vim and helix write them.
    Keys,
    /// A condition of a macro.
    Condition,
    /// Any text, to the end of the line.
    Text,
}

/// One parameter of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in usage lines.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Whether it may be left out.
    pub optional: bool,
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.optional { write!(f, "[{}]", self.name) } else { f.write_str(self.name) }
    }
}

/// A place in the target's past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A step.
    Step(u64),
    /// The first that is known.
    First,
    /// The last that is known.
    Last,
    /// The first step after which a client would see wrong text.
    Corruption,
    /// Wherever the target is; of a recording, its end.
    Now,
}

/// An argument, parsed.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// [`Kind::Pane`].
    Pane(PaneId),
    /// [`Kind::Choice`].
    Choice(&'static str),
    /// [`Kind::Place`].
    Place(Place),
    /// [`Kind::Time`].
    Time(Duration),
    /// [`Kind::Speed`].
    Speed(f64),
    /// Every kind that stays text.
    Text(String),
}

/// What carries a command out. An error is a full sentence for the person who asked.
pub type Handler = fn(&mut App, &[Value]) -> Result<(), String>;

/// How a command is carried out.
#[derive(Clone, Copy)]
pub enum Action {
    /// By the console.
    Console(Handler),
    /// It is a line of the macro language, which has its own meaning there.
    Line,
}

/// One command.
#[derive(Clone, Copy)]
pub struct ConsoleCommand {
    /// Its name, the same in every version.
    pub name: &'static str,
    /// What stands after the name.
    pub parameters: &'static [Parameter],
    /// What it does, in one line.
    pub doc: &'static str,
    /// How it is carried out.
    pub action: Action,
    /// What it may do to the target.
    pub danger: Danger,
    /// Where it works.
    pub scope: Scope,
}

impl ConsoleCommand {
    /// Name and parameters: `focus PANE`.
    pub fn usage(&self) -> String {
        let mut usage = self.name.to_owned();
        for parameter in self.parameters {
            usage.push(' ');
            usage.push_str(&parameter.to_string());
        }
        usage
    }

    /// Parses arguments.
    ///
    /// # Errors
    /// When one is missing, too many, or not what its parameter takes.
    pub fn parse(&self, arguments: &[String]) -> Result<Vec<Value>, ArgumentProblem> {
        let wrong = |index: usize, sentence: String| ArgumentProblem { index, sentence };
        let most = self.parameters.len();
        let takes_rest = self.parameters.last().is_some_and(|last| last.kind == Kind::Text);
        if arguments.len() > most && !takes_rest {
            let takes = if most == 0 { "nothing".to_owned() } else { format!("`{}`", self.usage()) };
            return Err(wrong(most, format!("`{}` takes {takes}.", self.name)));
        }
        let mut values = Vec::with_capacity(arguments.len());
        for (index, parameter) in self.parameters.iter().enumerate() {
            let rest = takes_rest && index + 1 == most;
            let text = match arguments.get(index) {
                Some(_) if rest => arguments[index..].join(" "),
                Some(text) => text.clone(),
                None if parameter.optional => break,
                None => return Err(wrong(index, format!("`{}` lacks {}.", self.usage(), parameter.name))),
            };
            let value = parameter.kind.parse(&text);
            values.push(value.map_err(|expected| {
                wrong(index, format!("`{}` takes {expected} for {}, not `{text}`.", self.name, parameter.name))
            })?);
        }
        Ok(values)
    }
}

impl Kind {
    /// Parses one argument; an error says what was expected.
    fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Pane => PaneId::named(text).map(Value::Pane).ok_or_else(|| {
                let names: Vec<_> = PaneId::ALL.into_iter().map(PaneId::name).collect();
                format!("one of {}", names.join(", "))
            }),
            Self::Choice(words) => {
                let found = words.iter().find(|word| **word == text);
                found.map(|word| Value::Choice(word)).ok_or_else(|| format!("one of {}", words.join(", ")))
            }
            Self::Place => match text {
                "first" => Ok(Value::Place(Place::First)),
                "last" => Ok(Value::Place(Place::Last)),
                "corruption" => Ok(Value::Place(Place::Corruption)),
                "now" => Ok(Value::Place(Place::Now)),
                _ => text
                    .parse()
                    .map(|step| Value::Place(Place::Step(step)))
                    .map_err(|_| "a step, or `first`, `last`, `corruption` or `now`,".to_owned()),
            },
            Self::Time => {
                parse_time(text).map(Value::Time).ok_or_else(|| "a time such as `1.5s`, `200ms` or `90us`".to_owned())
            }
            Self::Speed => match text.parse::<f64>() {
                Ok(speed) if (0.1..=100.0).contains(&speed) => Ok(Value::Speed(speed)),
                _ => Err("a number from 0.1 to 100".to_owned()),
            },
            // The letter that a key gives is a name like any other.
            Self::Mark if text.is_empty() || text.chars().count() > 32 => {
                Err("a name of 1 to 32 characters".to_owned())
            }
            Self::File if text.is_empty() => Err("a file's name".to_owned()),
            _ => Ok(Value::Text(text.to_owned())),
        }
    }
}

/// Reads `1.5s`, `200ms`, `90us` or `10ns`.
fn parse_time(text: &str) -> Option<Duration> {
    let at = text.find(|character: char| character.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(at);
    let scale = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(parameters: &'static [Parameter]) -> ConsoleCommand {
        ConsoleCommand {
            name: "try",
            parameters,
            doc: "Tries.",
            action: Action::Line,
            danger: Danger::Local,
            scope: Scope::Everywhere,
        }
    }

    fn parse(command: &ConsoleCommand, arguments: &[&str]) -> Result<Vec<Value>, ArgumentProblem> {
        command.parse(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_become_what_their_parameters_take() {
        const PARAMETERS: &[Parameter] = &[
            Parameter { name: "PANE", kind: Kind::Pane, optional: false },
            Parameter { name: "TIME", kind: Kind::Time, optional: true },
            Parameter { name: "TEXT", kind: Kind::Text, optional: true },
        ];
        let command = command(PARAMETERS);
        assert_eq!(command.usage(), "try PANE [TIME] [TEXT]");
        let values = parse(&command, &["canary", "1.5ms", "a", "b"]).unwrap();
        let expected =
            [Value::Pane(PaneId::Canary), Value::Time(Duration::from_micros(1_500)), Value::Text("a b".to_owned())];
        assert_eq!(values, expected);
        for (arguments, argument, words) in [
            (&[][..], 0, "lacks PANE"),
            (&["nowhere"], 0, "one of overview, sessions"),
            (&["canary", "soon"], 1, "a time such as"),
            (&["canary", "-1s"], 1, "a time such as"),
        ] {
            let error = parse(&command, arguments).unwrap_err();
            assert_eq!(error.index, argument);
            assert!(error.sentence.contains(words), "{error:?}");
        }
    }

    #[test]
    fn a_command_without_parameters_takes_nothing() {
        let error = parse(&command(&[]), &["more"]).unwrap_err();
        assert_eq!(error.sentence, "`try` takes nothing.");
    }

    #[test]
    fn places_are_steps_or_words() {
        const PARAMETERS: &[Parameter] = &[Parameter { name: "PLACE", kind: Kind::Place, optional: false }];
        let command = command(PARAMETERS);
        assert_eq!(parse(&command, &["412"]), Ok(vec![Value::Place(Place::Step(412))]));
        assert_eq!(parse(&command, &["corruption"]), Ok(vec![Value::Place(Place::Corruption)]));
        assert!(parse(&command, &["-1"]).is_err());
    }
}
