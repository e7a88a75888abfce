//! How the console looks and what it starts with.

use std::{env, path::PathBuf};

use coalmine_panes::{Theme, ThemeName};
use coalmine_sessions::{macros::Macro, recording::Redaction};

use super::{arrangement::Arrangement, keymap::Keymap};

/// How the console looks and what it starts with.
#[derive(Clone, Debug)]
pub struct ConsoleOptions {
    /// Colours.
    pub theme: ThemeName,
    /// Whether to draw with ASCII only.
    pub ascii: bool,
    /// Whether the mouse focuses and scrolls (and the terminal's own selection needs Shift).
    pub mouse: bool,
    /// Decode steps a second that the target was started with; `None` is as fast as it goes.
    pub pace: Option<f64>,
    /// Most frames a second.
    pub frames_per_second: u16,
    /// What keys stand for.
    pub keymap: Keymap,
    /// How large the panes are, and which is focused.
    pub arrangement: Arrangement,
    /// The directory where a recording goes that is given no name.
    pub recordings: PathBuf,
    /// What becomes of texts in recordings.
    pub redaction: Redaction,
    /// Where a recorded macro goes.
    pub recorded_macro: PathBuf,
    /// What to record to from the start.
    pub record: Option<PathBuf>,
    /// A macro to play at the start.
    pub play: Option<Macro>,
    /// A warning to show first.
    pub notice: Option<String>,
    /// Whether macros may change any target without asking.
    pub allow_mutations: bool,
    /// The command line, as recordings keep it.
    pub command_line: String,
}

impl Default for ConsoleOptions {
    fn default() -> Self {
        Self {
            theme: ThemeName::default(),
            ascii: false,
            mouse: true,
            pace: None,
            frames_per_second: 30,
            keymap: Keymap::default(),
            arrangement: Arrangement::default(),
            recordings: PathBuf::from("."),
            redaction: Redaction::None,
            recorded_macro: PathBuf::from("recorded.macro"),
            record: None,
            play: None,
            notice: None,
            allow_mutations: false,
            command_line: String::new(),
        }
    }
}

impl ConsoleOptions {
    /// The defaults that suit this process's environment: `NO_COLOR`, `TERM`, `COLORFGBG` and the locale.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_some_and(|term| term == "dumb" || term.starts_with("vt"));
        // `COLORFGBG` ends in the number of the background's colour; 7 and 15 are the light ones.
        let light = set("COLORFGBG").is_some_and(|colours| matches!(colours.rsplit(';').next(), Some("7" | "15")));
        let theme = if set("NO_COLOR").is_some() || dumb {
            ThemeName::Mono
        } else if light {
            ThemeName::Light
        } else {
            ThemeName::Dark
        };
        // The first that is set decides, as in the C library.
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
        // Without any locale, as in a container, terminals still show Unicode.
        let unicode = locale.is_none_or(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8") || !locale.contains('.')
        });
        Self { theme, ascii: !unicode || dumb, ..Self::default() }
    }

    pub(super) fn theme(&self) -> Theme {
        Theme::new(self.theme, self.ascii)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(variables: &[(&str, &str)]) -> (ThemeName, bool) {
        let options = ConsoleOptions::from_variables(|name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        (options.theme, options.ascii)
    }

    #[test]
    fn the_environment_decides_what_is_not_asked_for() {
        assert_eq!(detect(&[]), (ThemeName::Dark, false));
        assert_eq!(detect(&[("NO_COLOR", "1")]), (ThemeName::Mono, false));
        assert_eq!(detect(&[("NO_COLOR", "")]), (ThemeName::Dark, false));
        assert_eq!(detect(&[("COLORFGBG", "0;15")]), (ThemeName::Light, false));
        assert_eq!(detect(&[("TERM", "dumb")]), (ThemeName::Mono, true));
        assert_eq!(detect(&[("LANG", "de_DE.UTF-8")]), (ThemeName::Dark, false));
        let latin = [("LANG", "de_DE.UTF-8"), ("LC_ALL", "de_DE.ISO-8859-1")];
        assert_eq!(detect(&latin), (ThemeName::Dark, true));
    }
}
