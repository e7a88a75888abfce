//! The configuration file: how the console looks, what keys stand for, where recordings go.
//!
//! Everything that is wrong is reported at once, each with file, line and column.

use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
};

use coalmine_panes::ThemeName;
use coalmine_sessions::macros::{Chord, MacroError, MacroErrors};
use coalmine_sessions::nearest;
use coalmine_sessions::recording::Redaction;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::console::{Binding, Bound, Keymap, Scope, parse_keys};
use crate::paths::expand_home;
use coalmine_panes::PaneId;

/// Bytes of a configuration file.
const LONGEST: u64 = 1 << 20;

/// The documented example, which says what holds without any file.
pub const EXAMPLE: &str = include_str!("../docs/config.toml");

/// What a configuration file says; nothing where it says nothing.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Colours.
    pub theme: Option<ThemeName>,
    /// ASCII only.
    pub ascii: Option<bool>,
    /// Whether the mouse is taken.
    pub mouse: Option<bool>,
    /// Most frames a second, from 1 to 60.
    pub frames_per_second: Option<u16>,
    /// The directory of recordings that were given no name.
    pub recordings: Option<PathBuf>,
    /// What becomes of private text in recordings.
    pub redaction: Redaction,
    /// The default keys with the file's own over them.
    pub keymap: Keymap,
}

/// Reads a configuration file. One that does not exist says nothing.
///
/// # Errors
/// When it cannot be read, and everything that is wrong with what it says.
pub fn load(path: &Path) -> Result<Config, MacroErrors> {
    let name = path.display().to_string();
    let whole = |message: String| MacroErrors(vec![MacroError::of_file(&name, &message)]);
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(error) => return Err(whole(format!("It cannot be read: {error}."))),
    }
    if bytes.len() as u64 > LONGEST {
        return Err(whole(format!("A configuration has at most {LONGEST} bytes.")));
    }
    let text = String::from_utf8(bytes).map_err(|_| whole("It is not UTF-8 text.".to_owned()))?;
    parse(&name, &text)
}

/// Reads the text of a configuration file that is called `file` in errors.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(file: &str, text: &str) -> Result<Config, MacroErrors> {
    let mut reader = Reader { file, text, errors: Vec::new(), config: Config::default() };
    match DeTable::parse(text) {
        Ok(table) => reader.document(table.get_ref()),
        Err(error) => reader.wrong(error.span().unwrap_or(0..0), &format!("This is not TOML: {}.", error.message())),
    }
    if reader.errors.is_empty() { Ok(reader.config) } else { Err(MacroErrors(reader.errors)) }
}

type Value<'i> = Spanned<DeValue<'i>>;

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    errors: Vec<MacroError>,
    config: Config,
}

impl Reader<'_> {
    fn wrong(&mut self, span: Range<usize>, message: &str) {
        // As many as a person will look at.
        if self.errors.len() < 100 {
            self.errors.push(MacroError::at(self.file, self.text, span, message));
        }
    }

    fn unknown(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, what: &str, known: &[&str]) {
        let name = key.get_ref();
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}.", known.join(", ")),
        };
        self.wrong(key.span(), &format!("There is no {what} `{name}`: {hint}"));
    }

    fn document(&mut self, table: &DeTable<'_>) {
        const SECTIONS: &[&str] = &["look", "recordings", "keys"];
        for (key, value) in table {
            let Some(section) = self.table(value) else { continue };
            match key.get_ref().as_ref() {
                "look" => self.look(section),
                "recordings" => self.recordings(section),
                "keys" => self.keys(section),
                _ => self.unknown(key, "section", SECTIONS),
            }
        }
    }

    fn table<'v, 'i>(&mut self, value: &'v Value<'i>) -> Option<&'v DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong(value.span(), "A section is expected here, such as `[look]`.");
        }
        table
    }

    fn look(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "theme" => {
                    let theme = value.get_ref().as_str().and_then(ThemeName::named);
                    self.config.theme = self.expect(value, theme, "`dark`, `light` or `mono`");
                }
                "ascii" => self.config.ascii = self.expect(value, value.get_ref().as_bool(), "`true` or `false`"),
                "mouse" => self.config.mouse = self.expect(value, value.get_ref().as_bool(), "`true` or `false`"),
                "frames-per-second" => {
                    let number = value.get_ref().as_integer().filter(|number| number.radix() == 10);
                    let number = number.and_then(|number| number.as_str().parse::<u16>().ok());
                    let number = number.filter(|number| (1..=60).contains(number));
                    self.config.frames_per_second = self.expect(value, number, "a whole number from 1 to 60");
                }
                _ => self.unknown(key, "setting of [look]", &["theme", "ascii", "mouse", "frames-per-second"]),
            }
        }
    }

    fn recordings(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "directory" => {
                    let directory = value.get_ref().as_str().filter(|text| !text.is_empty()).map(expand_home);
                    self.config.recordings = self.expect(value, directory, "a directory's name");
                }
                "redact" => {
                    let redact = self.expect(value, value.get_ref().as_bool(), "`true` or `false`");
                    self.config.redaction = if redact == Some(true) { Redaction::Hashes } else { Redaction::None };
                }
                _ => self.unknown(key, "setting of [recordings]", &["directory", "redact"]),
            }
        }
    }

    fn expect<T>(&mut self, value: &Value<'_>, parsed: Option<T>, expected: &str) -> Option<T> {
        if parsed.is_none() {
            self.wrong(value.span(), &format!("{expected} is expected here."));
        }
        parsed
    }

    /// `[keys]` and, in tables inside of it, the keys of single panes.
    fn keys(&mut self, table: &DeTable<'_>) {
        let mut added: Vec<(Range<usize>, Binding)> = Vec::new();
        for (key, value) in table {
            match (value.get_ref(), PaneId::named(key.get_ref())) {
                (DeValue::Table(own), Some(pane)) => {
                    for (key, value) in own {
                        self.key(key, value, Some(pane), &mut added);
                    }
                }
                (DeValue::Table(_), None) => {
                    let panes: Vec<_> = PaneId::ALL.into_iter().map(PaneId::name).collect();
                    self.unknown(key, "pane", &panes);
                }
                _ => self.key(key, value, None, &mut added),
            }
        }
        // Only once all are read is it known which defaults are gone.
        let keymap = &mut self.config.keymap;
        // Those that come later in the file are named first; a person expects the order of the file.
        for (_, binding) in added.iter().rev() {
            keymap.bind(binding.clone());
        }
        let keymap = self.config.keymap.clone();
        for (span, binding) in added {
            if let Some(other) = keymap.unreachable_beside(&binding) {
                let (keys, others, line) = (&binding.keys, &other.keys, &other.text);
                self.wrong(
                    span,
                    &format!(
                        "One of `{keys}` and `{others}` ({line}) is the beginning of the other, so that the longer \
                         could never be reached: give one of them other keys, or unbind `{others}` with \"\"."
                    ),
                );
            }
        }
    }

    fn key(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Value<'_>,
        pane: Option<PaneId>,
        added: &mut Vec<(Range<usize>, Binding)>,
    ) {
        let chords = match parse_keys(key.get_ref()) {
            Ok(chords) => chords,
            Err(sentence) => return self.wrong(key.span(), &sentence),
        };
        let lines: Option<Vec<&str>> = match value.get_ref() {
            DeValue::String(line) => Some(vec![line.as_ref()]),
            DeValue::Array(lines) => lines.iter().map(|line| line.get_ref().as_str()).collect(),
            _ => None,
        };
        let Some(lines) = lines.filter(|lines| lines.len() <= 100) else {
            return self
                .wrong(value.span(), "A command is expected here, such as \"set overlap off\", or a list of them.");
        };
        if lines.iter().all(|line| line.trim().is_empty()) {
            return self.unbind(&chords, pane);
        }
        let bound = match Bound::parse(&lines) {
            Ok(bound) => bound,
            Err(errors) => {
                for error in errors.0 {
                    let place = if lines.len() > 1 { format!("Line {}: ", error.line) } else { String::new() };
                    self.wrong(value.span(), &format!("{place}{}", error.message));
                }
                return;
            }
        };
        let scope = match (pane, bound.scope()) {
            (Some(pane), own @ Scope::Pane(other)) if other != pane => {
                let (name, pane) = (lines[0], pane.name());
                return self.wrong(
                    value.span(),
                    &format!("`{name}` works in the {} pane, and these are the keys of the {pane} pane.", own.name()),
                );
            }
            (Some(pane), _) => Scope::Pane(pane),
            (None, own) => own,
        };
        let same = |(_, other): &&(_, Binding)| other.chords == chords && other.scope == scope;
        if let Some((_, other)) = added.iter().find(same) {
            let message = format!("`{}` stands for `{}` already.", other.keys, other.text);
            return self.wrong(key.span(), &message);
        }
        added.push((key.span(), Binding::new(chords, scope, bound)));
    }

    /// Takes keys away from what they stand for by default: in one pane, or wherever `[keys]` speaks of.
    fn unbind(&mut self, chords: &[Chord], pane: Option<PaneId>) {
        match pane {
            Some(pane) => self.config.keymap.unbind(chords, Scope::Pane(pane)),
            None => {
                self.config.keymap.unbind(chords, Scope::Everywhere);
                PaneId::ALL.into_iter().for_each(|pane| self.config.keymap.unbind(chords, Scope::Pane(pane)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn errors(text: &str) -> String {
        parse("config.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn the_example_says_what_holds_anyway() {
        let config = parse("example", EXAMPLE).unwrap();
        let defaults = Keymap::default();
        assert_eq!(config.keymap.bindings().len(), defaults.bindings().len());
        // Every line that is commented out is one that can be put in.
        let uncommented: String = EXAMPLE
            .lines()
            .map(|line| match line.strip_prefix("#") {
                Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let config = parse("example", &uncommented).unwrap();
        assert_eq!(config.theme, Some(ThemeName::Dark));
        assert!(config.keymap.bindings().len() > defaults.bindings().len());
    }

    #[test]
    fn keys_are_bound_rebound_and_unbound() {
        let text = "[keys]\n\"ctrl-o\" = \"set overlap off\"\nz = \"\"\n\"g o\" = [\"focus canary\", \"zoom\"]\n\
                    [keys.timeline]\nq = \"time.fit\"\n";
        let keymap = parse("config.toml", text).unwrap().keymap;
        assert_eq!(keymap.keys_of("set overlap 0"), "ctrl-o");
        assert_eq!(keymap.keys_of("zoom"), "e");
        assert_eq!(keymap.keys_of("focus canary; zoom"), "g o");
        assert_eq!(keymap.keys_of("time.fit"), "q or f");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, place, words) in [
            ("[lok]\ntheme = \"dark\"", "config.toml:1:2:", "did you mean `look`?"),
            ("[look]\ntheme = \"pink\"", "config.toml:2:9:", "`dark`, `light` or `mono`"),
            ("[look]\n  thme = 1", "config.toml:2:3:", "did you mean `theme`?"),
            ("[keys]\nhyper-q = \"quit\"", "config.toml:2:1:", "key"),
            ("[keys]\nx = \"quti\"", "config.toml:2:5:", "did you mean `quit`?"),
            ("[keys]\nx = \"focus nowhere\"", "config.toml:2:5:", "one of overview"),
            ("[keys]\nx = 3", "config.toml:2:5:", "A command is expected"),
            ("[keys]\ng = \"zoom\"", "config.toml:2:1:", "`g g` (first)"),
            ("[keys]\nC-o = \"zoom\"\nctrl-o = \"quit\"", "config.toml:3:1:", "`ctrl-o` stands for `zoom` already"),
            ("[keys.canary]\nq = \"time.fit\"", "config.toml:2:5:", "works in the timeline pane"),
            ("[keys.nowhere]\nq = \"zoom\"", "config.toml:1:7:", "There is no pane `nowhere`"),
            ("look", "config.toml:1:", "not TOML"),
            ("look = 1", "config.toml:1:8:", "A section is expected"),
            ("[look]\nframes-per-second = 0", "config.toml:2:21:", "from 1 to 60"),
        ] {
            let said = errors(text);
            assert!(said.starts_with(place), "{text:?}: {said}");
            assert!(said.contains(words), "{text:?}: {said}");
        }
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        assert_eq!(parse("c", "[look]\nascii = 1\nmouse = 2\n[keys]\nx = 3").unwrap_err().0.len(), 3);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\[(look|keys|recordings)\\]\n)?(\\PC{0,12} ?= ?\\PC{0,16}\n){0,5}") {
            let _ = parse("config.toml", &text);
        }
    }
}
