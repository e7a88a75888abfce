//! Keys and the commands they stand for.

use std::fmt::Write;

use coalmine_panes::PaneId;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::commands::{COMMANDS, ConsoleCommand, Scope};

/// Keys by command. A command's first key is the one that the key bar names.
pub const BINDINGS: &[(&str, &str)] = &[
    ("s", "sessions.sort"),
    ("S", "sessions.invert"),
    (",", "span.previous"),
    (".", "span.next"),
    ("w", "time.zoom-in"),
    ("s", "time.zoom-out"),
    ("a", "time.earlier"),
    ("d", "time.later"),
    ("f", "time.fit"),
    ("[", "step.previous"),
    ("]", "step.next"),
    ("{", "hit.previous"),
    ("}", "hit.next"),
    ("t", "toggle.next"),
    ("o", "overlap"),
    ("E", "eager"),
    ("K", "index-k"),
    ("c", "canary"),
    ("space", "freeze"),
    ("p", "hold"),
    (".", "step"),
    ("+", "faster"),
    ("=", "faster"),
    ("-", "slower"),
    ("z", "zoom"),
    ("e", "zoom"),
    ("tab", "focus.next"),
    ("shift-tab", "focus.previous"),
    ("1", "focus.overview"),
    ("2", "focus.sessions"),
    ("3", "focus.canary"),
    ("4", "focus.timeline"),
    ("5", "focus.toggles"),
    ("6", "focus.log"),
    ("enter", "drill"),
    ("esc", "back"),
    ("k", "up"),
    ("up", "up"),
    ("j", "down"),
    ("down", "down"),
    ("h", "left"),
    ("left", "left"),
    ("l", "right"),
    ("right", "right"),
    ("g g", "first"),
    ("home", "first"),
    ("G", "last"),
    ("end", "last"),
    ("pageup", "page-up"),
    ("pagedown", "page-down"),
    ("ctrl-u", "half-page-up"),
    ("ctrl-d", "half-page-down"),
    ("ctrl-l", "repaint"),
    ("ctrl-z", "suspend"),
    ("?", "help"),
    ("f1", "help"),
    ("q", "quit"),
    ("ctrl-c", "quit"),
];

/// One key with what is held down. Shift is part of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chord {
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl From<KeyEvent> for Chord {
    fn from(key: KeyEvent) -> Self {
        let modifiers = match key.code {
            KeyCode::Char(_) | KeyCode::BackTab => key.modifiers - KeyModifiers::SHIFT,
            _ => key.modifiers,
        };
        Self { code: key.code, modifiers }
    }
}

impl Chord {
    fn parse(text: &str) -> Option<Self> {
        let (modifiers, name) = match text.strip_prefix("ctrl-") {
            Some(name) => (KeyModifiers::CONTROL, name),
            None => (KeyModifiers::NONE, text),
        };
        let mut characters = name.chars();
        let code = match (characters.next(), characters.next()) {
            (Some(character), None) => KeyCode::Char(character),
            _ => match name {
                "space" => KeyCode::Char(' '),
                "tab" => KeyCode::Tab,
                "shift-tab" => KeyCode::BackTab,
                "enter" => KeyCode::Enter,
                "esc" => KeyCode::Esc,
                "up" => KeyCode::Up,
                "down" => KeyCode::Down,
                "left" => KeyCode::Left,
                "right" => KeyCode::Right,
                "home" => KeyCode::Home,
                "end" => KeyCode::End,
                "pageup" => KeyCode::PageUp,
                "pagedown" => KeyCode::PageDown,
                "f1" => KeyCode::F(1),
                _ => return None,
            },
        };
        Some(Self { code, modifiers })
    }
}

/// What keys pressed so far amount to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Match {
    /// A command.
    Command(&'static ConsoleCommand),
    /// The beginning of a longer sequence.
    Prefix,
    /// Nothing.
    Nothing,
}

/// The bindings, parsed.
pub(super) struct Keymap {
    sequences: Vec<(Vec<Chord>, &'static ConsoleCommand)>,
}

impl Default for Keymap {
    fn default() -> Self {
        // A test sees to it that every binding parses and names a command.
        let sequences = BINDINGS.iter().filter_map(|(keys, name)| {
            let command = COMMANDS.iter().find(|command| command.name == *name)?;
            let chords: Option<Vec<_>> = keys.split(' ').map(Chord::parse).collect();
            Some((chords?, command))
        });
        Self { sequences: sequences.collect() }
    }
}

impl Keymap {
    /// What `pressed` amounts to while `pane` is focused.
    pub(super) fn find(&self, pressed: &[Chord], pane: PaneId) -> Match {
        let in_scope = |own: bool| {
            let sequences = self.sequences.iter();
            sequences
                .filter(move |(_, command)| (command.scope != Scope::Everywhere) == own && command.scope.covers(pane))
        };
        let candidates = || in_scope(true).chain(in_scope(false));
        if let Some((_, command)) = candidates().find(|(keys, _)| keys == pressed) {
            Match::Command(command)
        } else if candidates().any(|(keys, _)| keys.starts_with(pressed)) {
            Match::Prefix
        } else {
            Match::Nothing
        }
    }
}

/// All keys of a command, for the help: `z or e`.
pub(super) fn keys_of(name: &str) -> String {
    let mut keys = String::new();
    for (key, _) in BINDINGS.iter().filter(|(_, command)| *command == name) {
        let or = if keys.is_empty() { "" } else { " or " };
        // Writing into a string cannot fail.
        let _ = write!(keys, "{or}{key}");
    }
    keys
}

/// The key of a command that the key bar names.
pub(super) fn first_key(name: &str) -> &'static str {
    let found = BINDINGS.iter().find(|(_, command)| *command == name);
    found.map_or("", |(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binding_parses_and_every_command_has_one() {
        let keymap = Keymap::default();
        assert_eq!(keymap.sequences.len(), BINDINGS.len());
        for command in COMMANDS {
            assert!(!keys_of(command.name).is_empty(), "{}", command.name);
        }
    }

    #[test]
    fn names_are_unique_and_docs_are_sentences() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert!(command.doc.ends_with('.'), "{}", command.name);
            // What the help has room for beside a name, at its full width.
            assert!(command.doc.len() <= 72, "{}", command.name);
            let same = |other: &ConsoleCommand| other.name == command.name;
            assert_eq!(COMMANDS.iter().position(same), Some(index));
        }
    }

    #[test]
    fn no_key_stands_for_two_commands_in_one_pane() {
        let keymap = Keymap::default();
        for (index, (keys, command)) in keymap.sequences.iter().enumerate() {
            for (other_keys, other) in &keymap.sequences[index + 1..] {
                let clash = keys == other_keys && command.scope == other.scope;
                assert!(!clash, "{} and {}", command.name, other.name);
            }
        }
    }

    #[test]
    fn a_pane_s_own_keys_come_first() {
        let keymap = Keymap::default();
        let dot = [Chord::parse(".").unwrap()];
        let found = |pane| match keymap.find(&dot, pane) {
            Match::Command(command) => command.name,
            _ => "",
        };
        assert_eq!(found(PaneId::Timeline), "span.next");
        assert_eq!(found(PaneId::Sessions), "step");
        let g = [Chord::parse("g").unwrap()];
        assert!(matches!(keymap.find(&g, PaneId::Log), Match::Prefix));
    }
}
