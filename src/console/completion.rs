//! What can come next on the command line.

use std::{fs, path::PathBuf};

use coalmine_panes::{Candidate, PaneId};
use coalmine_sessions::{
    Sanitized, TOGGLES, ToggleName,
    macros::{self as language, QUANTITIES, SHIPPED, SHIPPED_PREFIX},
};

use super::{
    command::{ConsoleCommand, Kind, Parameter},
    commands::{COMMANDS, command_named},
};
use crate::paths::expand_home;

/// Candidates that are worked out at most; a person who sees so many types on.
const MOST: usize = 64;
/// Files of a directory that are looked at, at most.
const MOST_FILES: usize = 1 << 17;

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

/// The files of a directory that a line can go on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    /// The directory as it was typed: nothing, or with a `/` at its end.
    pub(super) directory: String,
    names: Vec<String>,
}

impl Files {
    /// Those of a directory that has not been read yet.
    pub(super) fn unread(directory: &str) -> Self {
        Self { directory: directory.to_owned(), names: Vec::new() }
    }

    /// Reads a directory; of one that cannot be read, and of names that a line cannot say without quotes, there is
    /// nothing to say here.
    pub(super) fn read(directory: String) -> Self {
        let path = if directory.is_empty() { PathBuf::from(".") } else { expand_home(&directory) };
        let entries = fs::read_dir(path).into_iter().flatten().take(MOST_FILES).flatten();
        let named = entries.filter_map(|entry| {
            let mut name = entry.file_name().into_string().ok()?;
            let plain = language::word(&name) == name && Sanitized::new(&name).as_str() == name;
            let kind = entry.file_type().ok()?;
            // A link to a directory is one too.
            let directory = || kind.is_dir() || fs::metadata(entry.path()).is_ok_and(|found| found.is_dir());
            if plain && !kind.is_file() && directory() {
                name.push('/');
            }
            plain.then_some(name)
        });
        let mut names: Vec<String> = named.collect();
        names.sort_unstable();
        Self { directory, names }
    }

    fn candidates(&self, word: &str) -> impl Iterator<Item = Candidate> {
        let name = word.strip_prefix(&*self.directory).unwrap_or(word);
        let shown = self.names.iter().filter(move |other| !other.starts_with('.') || name.starts_with('.'));
        shown.map(|name| candidate(&format!("{}{name}", self.directory), ""))
    }
}

/// The word that a line ends with, and what it is an argument of.
struct Place<'a> {
    from: usize,
    command: &'static ConsoleCommand,
    arguments: Vec<&'a str>,
    kind: Option<Kind>,
}

impl<'a> Place<'a> {
    fn new(line: &'a str) -> Option<Self> {
        let from = word_start(line);
        let mut words = line[..from].split_whitespace();
        let command = command_named(words.next()?)?;
        let arguments: Vec<&str> = words.collect();
        let rest = |last: &&Parameter| matches!(last.kind, Kind::Text | Kind::Condition | Kind::Keys);
        let last = command.parameters.last().filter(rest);
        let kind = command.parameters.get(arguments.len()).or(last).map(|parameter| parameter.kind);
        Some(Self { from, command, arguments, kind })
    }
}

fn word_start(line: &str) -> usize {
    line.rfind(' ').map_or(0, |space| space + 1)
}

/// The directory, as typed, of whose files one may come next where a line ends.
pub(super) fn directory_of(line: &str) -> Option<&str> {
    let place = Place::new(line)?;
    let word = &line[place.from..];
    let file = matches!(place.kind, Some(Kind::File | Kind::Macro)) && !word.starts_with(SHIPPED_PREFIX);
    file.then(|| word.rfind('/').map_or("", |slash| &word[..=slash]))
}

/// What can come next where a line ends, given the names of the marks and the files that [`directory_of`] asks for.
pub(super) fn complete<'a>(line: &str, marks: impl Iterator<Item = &'a str>, files: &Files) -> Completion {
    let from = word_start(line);
    let word = &line[from..];
    if line[..from].trim().is_empty() {
        let named = COMMANDS.iter().filter(|command| command.name.starts_with(word));
        // A part of a name is enough, but its beginning counts for more.
        let longer = |command: &&ConsoleCommand| command.name.len() > word.len();
        let inside = COMMANDS.iter().filter(longer).filter(|command| command.name[1..].contains(word));
        let inside = inside.filter(|command| !command.name.starts_with(word));
        let candidates = named.chain(inside).map(|command| candidate(command.name, command.doc));
        let usage = command_named(word).map(|command| usage_after(command, 0)).unwrap_or_default();
        return Completion { from, candidates: candidates.take(MOST).collect(), usage };
    }
    let Some(Place { command, arguments, kind: Some(kind), .. }) = Place::new(line) else {
        return Completion { from, ..Completion::default() };
    };
    let all: Vec<Candidate> = match kind {
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
        Kind::Macro => {
            let shipped = SHIPPED.iter().map(|(name, _)| candidate(&format!("{SHIPPED_PREFIX}{name}"), ""));
            shipped.chain(files.candidates(word)).collect()
        }
        Kind::File => files.candidates(word).collect(),
        Kind::Toggle => TOGGLES.iter().map(|spec| candidate(spec.short(), spec.doc)).collect(),
        Kind::ToggleValue => {
            let toggle = arguments.last().and_then(|name| ToggleName::parse(name).ok());
            let values = toggle.map_or(&[][..], |toggle| toggle.spec().values);
            let switch = if values == ["0", "1"] { &["off", "on"][..] } else { values };
            switch.iter().map(|value| candidate(value, "")).collect()
        }
        Kind::Pace => vec![candidate("max", "as fast as it goes")],
        Kind::Condition => QUANTITIES.iter().map(|quantity| candidate(quantity.name, quantity.doc)).collect(),
        Kind::Time | Kind::Speed | Kind::Steps | Kind::Keys | Kind::Text => Vec::new(),
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
        let found = complete(line, ["before", "after"].into_iter(), &Files::default());
        found.candidates.into_iter().map(|found| found.text).collect()
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
        assert!(texts("play ").contains(&"coalmine:tour.macro".to_owned()));
        assert!(texts("expect since").iter().all(|name| name.starts_with("since")));
        assert!(texts("nonsense ").is_empty());
    }

    #[test]
    fn what_is_still_to_come_is_shown() {
        let usage = |line| complete(line, std::iter::empty(), &Files::default()).usage;
        assert_eq!(usage("set"), "TOGGLE VALUE");
        assert_eq!(usage("set over"), "VALUE");
        assert_eq!(usage("set overlap "), "VALUE");
        assert_eq!(usage("export "), "[FILE]");
        assert_eq!(usage("quit"), "");
    }

    #[test]
    fn a_candidate_replaces_the_word_that_it_completes() {
        let from = |line| complete(line, std::iter::empty(), &Files::default()).from;
        assert_eq!(from("set ov"), 4);
        assert_eq!(from("fo"), 0);
    }

    #[test]
    fn files_complete_directory_by_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().to_str().unwrap();
        fs::create_dir(scratch.path().join("runs")).unwrap();
        for name in ["rows.csv", ".hidden", "two words.csv", "bell\u{7}.csv", "turned\u{202e}.csv"] {
            fs::write(scratch.path().join(name), "").unwrap();
        }
        let texts = |line: &str| {
            let files = directory_of(line).map(|directory| Files::read(directory.to_owned())).unwrap_or_default();
            let found = complete(line, std::iter::empty(), &files).candidates;
            found.into_iter().map(|found| found.text.replace(root, "ROOT")).collect::<Vec<_>>()
        };
        assert_eq!(texts(&format!("export {root}/")), ["ROOT/rows.csv", "ROOT/runs/"]);
        assert_eq!(texts(&format!("record {root}/ru")), ["ROOT/runs/"]);
        assert_eq!(texts(&format!("play {root}/.h")), ["ROOT/.hidden"]);
        assert_eq!(texts(&format!("snapshot {root}/runs/")), [""; 0]);
        assert_eq!(texts("play /nowhere/at/all/"), [""; 0]);

        assert_eq!(directory_of("export "), Some(""));
        assert_eq!(directory_of("export runs/a"), Some("runs/"));
        assert_eq!(directory_of("play coalmine:to"), None);
        assert_eq!(directory_of("focus ca"), None);
        assert_eq!(directory_of("exp"), None);
    }
}
