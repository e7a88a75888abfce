//! Keys and what they stand for: the defaults, and what a configuration makes of them.

use coalmine_panes::PaneId;
use coalmine_sessions::Sanitized;
use coalmine_sessions::macros::{Chord, Key, Line, MacroErrors, MacroLine, parse};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Span;

use super::{
    command::{ConsoleCommand, Kind, Scope},
    commands::{COMMANDS, command_named, known_commands},
};

/// Default bindings: keys, what they stand for, and a word or two for the key bar (empty when it is not worth a place
/// there). The first keys for a line are the ones that are named first.
pub const BINDINGS: &[(&str, &str, &str)] = &[
    ("s", "sort.next", "sort"),
    ("S", "sort.invert", "invert"),
    ("b", "last-write", "last write"),
    (",", "span.previous", ""),
    (".", "span.next", "span"),
    ("w", "time.zoom-in", "zoom in"),
    ("+", "time.zoom-in", ""),
    ("s", "time.zoom-out", "out"),
    ("-", "time.zoom-out", ""),
    ("a", "time.earlier", ""),
    ("<", "time.earlier", ""),
    ("d", "time.later", "pan"),
    (">", "time.later", ""),
    ("f", "time.fit", "fit"),
    ("t", "toggle.next", "next value"),
    ("o", "toggle overlap", "overlap"),
    ("E", "toggle eager", "eager"),
    ("space", "freeze", "freeze"),
    (":", "prompt", "command"),
    ("[", "step.previous", ""),
    ("]", "step.next", "step"),
    ("{", "anomaly.previous", ""),
    ("}", "anomaly.next", "anomaly"),
    ("/", "filter.type", "filter"),
    ("n", "match.next", ""),
    ("N", "match.previous", ""),
    ("i", "toggle index-k", "index-k"),
    ("c", "toggle canary", "canary"),
    ("p", "hold.switch", "hold"),
    (".", "step", "one step"),
    ("+", "faster", "faster"),
    ("=", "faster", ""),
    ("-", "slower", ""),
    ("z", "zoom", "zoom"),
    ("e", "zoom", ""),
    ("tab", "focus.next", "pane"),
    ("shift-tab", "focus.previous", ""),
    ("1", "focus overview", ""),
    ("2", "focus sessions", ""),
    ("3", "focus canary", ""),
    ("4", "focus timeline", ""),
    ("5", "focus toggles", ""),
    ("6", "focus log", ""),
    ("H", "focus.towards left", ""),
    ("J", "focus.towards down", ""),
    ("K", "focus.towards up", ""),
    ("L", "focus.towards right", ""),
    ("ctrl-right", "resize wider", ""),
    ("ctrl-left", "resize narrower", ""),
    ("ctrl-up", "resize taller", ""),
    ("ctrl-down", "resize shorter", ""),
    ("enter", "drill", ""),
    ("esc", "back", ""),
    ("k", "up", ""),
    ("up", "up", ""),
    ("j", "down", ""),
    ("down", "down", ""),
    ("h", "left", ""),
    ("left", "left", ""),
    ("l", "right", ""),
    ("right", "right", ""),
    ("g g", "first", ""),
    ("home", "first", ""),
    ("G", "last", ""),
    ("end", "last", ""),
    ("pageup", "page-up", ""),
    ("pagedown", "page-down", ""),
    ("ctrl-u", "half-page-up", ""),
    ("ctrl-d", "half-page-down", ""),
    ("y", "copy", ""),
    ("x", "export", ""),
    ("m", "mark", ""),
    ("'", "goto.mark", ""),
    ("g c", "goto corruption", ""),
    ("g n", "now", ""),
    ("Q", "macro.record", ""),
    ("@", "macro.play", ""),
    ("ctrl-l", "repaint", ""),
    ("ctrl-z", "suspend", ""),
    ("ctrl-p", "palette", ""),
    ("?", "help", "help"),
    ("f1", "help", ""),
    ("q", "quit", "quit"),
    ("ctrl-c", "quit", ""),
];

/// What keys stand for.
#[derive(Clone, Debug)]
pub enum Bound {
    /// Lines of the macro language, carried out in order.
    Lines(Vec<MacroLine>),
    /// A command whose argument is the next letter.
    Letter(&'static ConsoleCommand),
    /// A command whose arguments are asked for on the command line.
    Fill(&'static ConsoleCommand),
}

impl std::fmt::Debug for ConsoleCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Bound {
    /// Reads what keys are to stand for: one line, or several.
    ///
    /// # Errors
    /// What is wrong with a line.
    pub fn parse(lines: &[&str]) -> Result<Self, MacroErrors> {
        if let [only] = lines
            && let Some(command) = command_named(only.trim())
            && let Some(first) = command.parameters.first().filter(|first| !first.optional)
        {
            return Ok(if first.kind == Kind::Mark { Self::Letter(command) } else { Self::Fill(command) });
        }
        Ok(Self::Lines(parse("binding", &lines.join("\n"), &known_commands())?.lines))
    }

    /// As text, several lines joined by a semicolon: for the help, not for reading back.
    pub fn text(&self) -> String {
        match self {
            Self::Lines(lines) => {
                let lines: Vec<_> = lines.iter().map(|line| line.line.to_string()).collect();
                // It may quote what only a macro is meant to hold.
                Sanitized::new(&lines.join("; ")).to_string()
            }
            Self::Letter(command) | Self::Fill(command) => command.name.to_owned(),
        }
    }

    /// The command that comes first.
    pub fn command(&self) -> Option<&'static ConsoleCommand> {
        match self {
            Self::Lines(lines) => {
                let line = lines.first()?.line.to_string();
                command_named(line.split(' ').next().unwrap_or_default())
            }
            Self::Letter(command) | Self::Fill(command) => Some(command),
        }
    }

    /// What it does, in one line.
    pub fn doc(&self) -> String {
        if let Self::Lines(lines) = self
            && let [MacroLine { line: Line::Toggle(name), .. }] = &lines[..]
        {
            let spec = name.spec();
            return format!("Gives {} its next value, of {}.", spec.short(), spec.values.join(", "));
        }
        self.command().map_or_else(String::new, |command| command.doc.to_owned())
    }

    /// Where it works if nothing else is said: where its commands do.
    pub fn scope(&self) -> Scope {
        self.command().map_or(Scope::Everywhere, |command| command.scope)
    }
}

/// One binding.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The keys, one after the other.
    pub chords: Vec<Chord>,
    /// Where they work.
    pub scope: Scope,
    /// What they stand for.
    pub bound: Bound,
    /// The keys as the help and the configuration write them: `ctrl-u`, `g g`. The key bar shows them in every frame.
    pub keys: String,
    /// What they stand for as [`Bound::text`] has it.
    pub text: String,
}

impl Binding {
    /// Keys that stand for something there.
    pub fn new(chords: Vec<Chord>, scope: Scope, bound: Bound) -> Self {
        Self { keys: show(&chords), text: bound.text(), chords, scope, bound }
    }
}

/// Reads keys as the configuration writes them: separated by spaces, each a character or a name such as `ctrl-u`.
///
/// # Errors
/// A full sentence about the first key that there is not.
pub fn parse_keys(text: &str) -> Result<Vec<Chord>, String> {
    let chords: Vec<_> = text.split(' ').filter(|word| !word.is_empty()).map(Chord::parse).collect::<Result<_, _>>()?;
    if let Some(unseen) = chords.iter().find_map(|chord| unseen(*chord)) {
        return Err(format!("U+{:04X} cannot be seen, so no help could name it as a key.", u32::from(unseen)));
    }
    match chords.len() {
        0 => Err("There is no key here: write for example `ctrl-o` or `g o`.".to_owned()),
        1..=8 => Ok(chords),
        _ => Err("A binding has at most 8 keys.".to_owned()),
    }
}

/// The character of a key that would not be seen where keys are named.
fn unseen(chord: Chord) -> Option<char> {
    let Key::Character(character) = chord.key else { return None };
    let text = character.to_string();
    (Sanitized::new(&text).as_str() != text || Span::raw(&text).width() == 0).then_some(character)
}

/// Keys as [`parse_keys`] reads them.
pub(super) fn show(chords: &[Chord]) -> String {
    let mut text = String::new();
    for chord in chords {
        if !text.is_empty() {
            text.push(' ');
        }
        for (held, name) in [(chord.control, "ctrl-"), (chord.alt, "alt-"), (chord.shift, "shift-")] {
            text.push_str(if held { name } else { "" });
        }
        match chord.key {
            Key::Character(' ') => text.push_str("space"),
            Key::Character(character) => text.push(character),
            Key::Escape => text.push_str("esc"),
            Key::Function(number) => text.push_str(&format!("f{number}")),
            key => text.push_str(&format!("{key:?}").to_ascii_lowercase()),
        }
    }
    text
}

/// What keys pressed so far amount to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Match<'a> {
    /// A binding.
    Bound(&'a Bound),
    /// The beginning of a longer sequence.
    Prefix,
    /// Nothing.
    Nothing,
}

/// A line of the help or the reference.
#[derive(Debug)]
pub struct Row<'a> {
    /// A command with its parameters, or what keys stand for beside the bare command.
    pub line: String,
    /// The keys that stand for it, the first to be named first.
    pub keys: Vec<&'a str>,
    /// What picking it does.
    pub bound: Bound,
    /// The command.
    pub command: &'static ConsoleCommand,
}

/// All bindings.
#[derive(Clone, Debug)]
pub struct Keymap {
    bindings: Vec<Binding>,
}

impl Default for Keymap {
    fn default() -> Self {
        // A test sees to it that every default parses.
        let bindings = BINDINGS.iter().filter_map(|(keys, line, _)| {
            let (chords, bound) = (parse_keys(keys).ok()?, Bound::parse(&[line]).ok()?);
            Some(Binding::new(chords, bound.scope(), bound))
        });
        Self { bindings: bindings.collect() }
    }
}

impl Keymap {
    /// All bindings, those of one line in the order in which the help names their keys.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// Takes the keys away from whatever they stood for there.
    pub fn unbind(&mut self, chords: &[Chord], scope: Scope) {
        self.bindings.retain(|binding| binding.chords != chords || binding.scope != scope);
    }

    /// Adds a binding in place of what its keys stood for; what a person binds is named before the defaults.
    pub fn bind(&mut self, binding: Binding) {
        self.unbind(&binding.chords, binding.scope);
        self.bindings.insert(0, binding);
    }

    /// A binding that would never be reached because the keys of another one are its beginning, or the other way round.
    pub fn unreachable_beside(&self, binding: &Binding) -> Option<&Binding> {
        self.bindings.iter().find(|other| {
            let (one, two) = (&binding.chords, &other.chords);
            let together =
                binding.scope == other.scope || binding.scope == Scope::Everywhere || other.scope == Scope::Everywhere;
            together && one.len() != two.len() && (one.starts_with(two) || two.starts_with(one))
        })
    }

    /// What `pressed` amounts to while `pane` is focused. A pane's own bindings come first.
    pub(super) fn find(&self, pressed: &[Chord], pane: PaneId) -> Match<'_> {
        for scope in [Scope::Pane(pane), Scope::Everywhere] {
            let candidates = || self.bindings.iter().filter(|binding| binding.scope == scope);
            if let Some(binding) = candidates().find(|binding| binding.chords == pressed) {
                return Match::Bound(&binding.bound);
            }
            if candidates().any(|binding| binding.chords.starts_with(pressed)) {
                return Match::Prefix;
            }
        }
        Match::Nothing
    }

    /// How sequences that begin with `pressed` go on, and what they stand for.
    pub(super) fn continuations(&self, pressed: &[Chord], pane: PaneId) -> impl Iterator<Item = (String, &str)> {
        let going_on = self.bindings.iter().filter(move |binding| {
            binding.scope.covers(pane) && binding.chords.len() > pressed.len() && binding.chords.starts_with(pressed)
        });
        going_on.map(move |binding| (show(&binding.chords[pressed.len()..]), binding.text.as_str()))
    }

    /// Every command, each followed by what keys stand for with arguments of their own: for the help and the reference.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        for command in COMMANDS {
            // Every command's bare name parses: what it lacks is asked for.
            let Ok(bare) = Bound::parse(&[command.name]) else { continue };
            rows.push(Row { line: command.usage(), keys: self.keys(command.name), bound: bare, command });
            let mut listed = vec![command.name];
            for Binding { text, bound, .. } in &self.bindings {
                if bound.command().is_some_and(|own| own.name == command.name) && !listed.contains(&text.as_str()) {
                    rows.push(Row { line: text.clone(), keys: self.keys(text), bound: bound.clone(), command });
                    listed.push(text);
                }
            }
        }
        rows
    }

    fn keys(&self, line: &str) -> Vec<&str> {
        self.of(line).map(|binding| binding.keys.as_str()).collect()
    }

    /// All keys of a line, for the help: `z or e`.
    pub fn keys_of(&self, line: &str) -> String {
        self.keys(line).join(" or ")
    }

    /// The bindings of a line.
    pub(super) fn of(&self, line: &str) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().filter(move |binding| binding.text == line)
    }
}

/// The key of a terminal event, unless macros and the configuration have no name for it.
pub(super) fn chord_of(key: KeyEvent) -> Option<Chord> {
    let held = |modifier| key.modifiers.contains(modifier);
    let mut shift = held(KeyModifiers::SHIFT);
    let named = match key.code {
        KeyCode::Char(typed) => {
            // Shift is part of what was typed.
            shift = false;
            Key::Character(typed)
        }
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => {
            shift = true;
            Key::Tab
        }
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::Insert => Key::Insert,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::F(number @ 1..=12) => Key::Function(number),
        _ => return None,
    };
    Some(Chord { key: named, control: held(KeyModifiers::CONTROL), alt: held(KeyModifiers::ALT), shift })
}

/// A key of a macro as the terminal would send it.
pub(super) fn event_of(chord: Chord) -> KeyEvent {
    let mut modifiers = KeyModifiers::NONE;
    modifiers.set(KeyModifiers::CONTROL, chord.control);
    modifiers.set(KeyModifiers::ALT, chord.alt);
    modifiers.set(KeyModifiers::SHIFT, chord.shift);
    let code = match chord.key {
        Key::Character(character) => KeyCode::Char(character),
        Key::Enter => KeyCode::Enter,
        Key::Escape => KeyCode::Esc,
        Key::Tab if chord.shift => KeyCode::BackTab,
        Key::Tab => KeyCode::Tab,
        Key::Backspace => KeyCode::Backspace,
        Key::Delete => KeyCode::Delete,
        Key::Insert => KeyCode::Insert,
        Key::Up => KeyCode::Up,
        Key::Down => KeyCode::Down,
        Key::Left => KeyCode::Left,
        Key::Right => KeyCode::Right,
        Key::Home => KeyCode::Home,
        Key::End => KeyCode::End,
        Key::PageUp => KeyCode::PageUp,
        Key::PageDown => KeyCode::PageDown,
        Key::Function(number) => KeyCode::F(number),
    };
    KeyEvent::new(code, modifiers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_default_parses() {
        assert_eq!(Keymap::default().bindings.len(), BINDINGS.len());
    }

    #[test]
    fn no_default_hides_another() {
        let keymap = Keymap::default();
        for (index, binding) in keymap.bindings.iter().enumerate() {
            let hidden = keymap.unreachable_beside(binding);
            assert!(hidden.is_none(), "{} and {hidden:?}", binding.keys);
            for other in &keymap.bindings[index + 1..] {
                let clash = binding.chords == other.chords && binding.scope == other.scope;
                assert!(!clash, "{} is bound twice", binding.keys);
            }
        }
    }

    #[test]
    fn a_pane_s_own_keys_come_first() {
        let keymap = Keymap::default();
        let dot = parse_keys(".").unwrap();
        let found = |pane| match keymap.find(&dot, pane) {
            Match::Bound(bound) => bound.text(),
            _ => String::new(),
        };
        assert_eq!(found(PaneId::Timeline), "span.next");
        assert_eq!(found(PaneId::Sessions), "step");
        assert!(matches!(keymap.find(&parse_keys("g").unwrap(), PaneId::Log), Match::Prefix));
    }

    #[test]
    fn a_bound_command_that_lacks_its_argument_asks_for_it() {
        assert!(matches!(Bound::parse(&["mark"]), Ok(Bound::Letter(_))));
        assert!(matches!(Bound::parse(&["set"]), Ok(Bound::Fill(_))));
        assert!(matches!(Bound::parse(&["set overlap off"]), Ok(Bound::Lines(_))));
        assert!(Bound::parse(&["set overlap maybe"]).is_err());
        assert!(Bound::parse(&["focus nowhere"]).is_err());
    }

    #[test]
    fn rebinding_replaces_and_is_named_first() {
        let mut keymap = Keymap::default();
        let bound = Bound::parse(&["zoom"]).unwrap();
        keymap.bind(Binding::new(parse_keys("q").unwrap(), Scope::Everywhere, bound));
        assert_eq!(keymap.keys_of("zoom"), "q or z or e");
        assert_eq!(keymap.keys_of("quit"), "ctrl-c");
    }

    #[test]
    fn what_cannot_be_seen_is_no_key_of_the_configuration() {
        for character in ["\u{202e}", "\u{301}", "\u{200d}", "\u{3164}"] {
            assert!(parse_keys(character).unwrap_err().contains("cannot be seen"), "{character:?}");
        }
    }

    proptest! {
        #[test]
        fn keys_read_back_as_they_are_shown(
            character in any::<char>().prop_filter("a key", |c| {
                !c.is_whitespace() && unseen(Chord::plain(Key::Character(*c))).is_none()
            }),
            control: bool,
            alt: bool,
        ) {
            let chord = Chord { key: Key::Character(character), control, alt, shift: false };
            prop_assert_eq!(parse_keys(&show(&[chord, chord])), Ok(vec![chord, chord]));
        }

        #[test]
        fn keys_of_any_text_never_panic(text in ".{0,40}") {
            let _ = parse_keys(&text);
        }
    }

    #[test]
    fn a_chord_survives_the_terminal() {
        for text in ["a", "A", "ctrl-u", "shift-tab", "esc", "f12", "pageup", "alt-x", "space", "-", "<"] {
            let [chord] = parse_keys(text).unwrap()[..] else { panic!("{text}") };
            assert_eq!(chord_of(event_of(chord)), Some(chord), "{text}");
            assert_eq!(show(&[chord]), text);
        }
    }
}
