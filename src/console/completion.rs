//! What can come next on the command line.

use coalmine_panes::{Candidate, PaneId};
use coalmine_sessions::{
    TOGGLES, ToggleName,
    macros::{self as language, QUANTITIES, SHIPPED, SHIPPED_PREFIX},
};

use super::{
    command::{ConsoleCommand, Kind},
    commands::{COMMANDS, command_named},
};

/// Candidates that are worked out at most; a person who sees so many types on.
const MOST: usize = 64;

/// What can come next.
#[derive(Clone, Debug, Default)]
pub(super) struct Completion {
    /// The byte at which the word begins that a candidate replaces.
    pub(super) from: usize,
    /// What it can become.
    pub(super) candidates: Vec<Candidate>,
    /// The parameters that are still to come.
    pub(super) usage: String,
}

/// What can come next where a line ends, given the names of the marks.
pub(super) fn complete<'a>(line: &str, marks: impl Iterator<Item = &'a str>) -> Completion {
    let from = line.rfind(' ').map_or(0, |space| space + 1);
    let (before, word) = line.split_at(from);
    let mut words = before.split_whitespace();
    let Some(command) = words.next() else {
        let named = COMMANDS.iter().filter(|command| command.name.starts_with(word));
        // A part of a name is enough, but its beginning counts for more.
        let inside = COMMANDS.iter().filter(|command| command.name.find(word).is_some_and(|at| at > 0));
        let candidates = named.chain(inside).map(|command| candidate(command.name, command.doc));
        let usage = command_named(word).map(|command| usage_after(command, 0)).unwrap_or_default();
        return Completion { from, candidates: candidates.take(MOST).collect(), usage };
    };
    let Some(command) = command_named(command) else {
        return Completion { from, ..Completion::default() };
    };
    let arguments: Vec<&str> = words.collect();
    let last = command.parameters.last().filter(|last| matches!(last.kind, Kind::Text | Kind::Condition | Kind::Keys));
    let Some(parameter) = command.parameters.get(arguments.len()).or(last) else {
        return Completion { from, ..Completion::default() };
    };
    let all: Vec<Candidate> = match parameter.kind {
        Kind::Pane => PaneId::ALL.into_iter().map(|pane| candidate(pane.name(), "")).collect(),
        Kind::Choice(words) => words.iter().map(|word| candidate(word, "")).collect(),
        Kind::Place => [
            ("first", "the first step that is known"),
            ("last", "the last step that is known"),
            ("corruption", "the step at whose end the first wrong text was seen"),
            ("now", "wherever the target is"),
        ]
        .map(|(word, note)| candidate(word, note))
        .into(),
        Kind::Mark => marks.map(|mark| candidate(&language::word(mark), "")).collect(),
        Kind::Macro => SHIPPED.iter().map(|(name, _)| candidate(&format!("{SHIPPED_PREFIX}{name}"), "")).collect(),
        Kind::Toggle => TOGGLES.iter().map(|spec| candidate(spec.short(), spec.doc)).collect(),
        Kind::ToggleValue => {
            let toggle = arguments.last().and_then(|name| ToggleName::parse(name).ok());
            let values = toggle.map_or(&[][..], |toggle| toggle.spec().values);
            let switch = if values == ["0", "1"] { &["off", "on"][..] } else { values };
            switch.iter().map(|value| candidate(value, "")).collect()
        }
        Kind::Pace => vec![candidate("max", "as fast as it goes")],
        Kind::Condition => QUANTITIES.iter().map(|quantity| candidate(quantity.name, quantity.doc)).collect(),
        Kind::Time | Kind::Speed | Kind::File | Kind::Steps | Kind::Keys | Kind::Text => Vec::new(),
    };
    let candidates = all.into_iter().filter(|candidate| candidate.text.starts_with(word)).take(MOST);
    let usage = usage_after(command, arguments.len() + usize::from(!word.is_empty()));
    Completion { from, candidates: candidates.collect(), usage }
}

fn candidate(text: &str, note: &str) -> Candidate {
    Candidate { text: text.to_owned(), note: note.to_owned() }
}

/// The parameters of a command from one on.
fn usage_after(command: &ConsoleCommand, skip: usize) -> String {
    let parameters: Vec<_> = command.parameters.iter().skip(skip).map(ToString::to_string).collect();
    parameters.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        complete(line, ["before", "after"].into_iter()).candidates.into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn commands_arguments_and_values_complete() {
        assert_eq!(texts("foc"), ["focus", "focus.next", "focus.previous", "focus.towards"]);
        assert!(texts("").len() > 40);
        assert_eq!(texts("focus ca"), ["canary"]);
        assert_eq!(texts("set index-k f"), ["fp8", "f32"]);
        assert_eq!(texts("set overlap "), ["off", "on"]);
        assert_eq!(texts("toggle ea"), ["eager"]);
        assert_eq!(texts("goto.mark b"), ["before"]);
        assert!(texts("play ").contains(&"coalmine:tour".to_owned()) || !texts("play ").is_empty());
        assert!(texts("expect since").iter().all(|name| name.starts_with("since")));
        assert!(texts("nonsense ").is_empty());
    }

    #[test]
    fn what_is_still_to_come_is_shown() {
        let usage = |line| complete(line, std::iter::empty()).usage;
        assert_eq!(usage("set"), "TOGGLE VALUE");
        assert_eq!(usage("set over"), "VALUE");
        assert_eq!(usage("set overlap "), "VALUE");
        assert_eq!(usage("export "), "[FILE]");
        assert_eq!(usage("quit"), "");
    }

    #[test]
    fn a_candidate_replaces_the_word_that_it_completes() {
        assert_eq!(complete("set ov", std::iter::empty()).from, 4);
        assert_eq!(complete("fo", std::iter::empty()).from, 0);
    }
}
