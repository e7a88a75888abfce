//! Keys as vim and helix write them: `gg`, `<C-u>`, `<esc>`, `<S-tab>`.

use std::fmt;
use std::ops::Range;

use super::error::{Fault, quoted};
use crate::toggle::{nearest, suggestion};

/// Keys of one line.
const CHORDS: usize = 256;

/// One key with what is held down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chord {
    /// The key.
    pub key: Key,
    /// Whether Control is held.
    pub control: bool,
    /// Whether Alt is held.
    pub alt: bool,
    /// Whether Shift is held; of a character it is part, so there it is never set.
    pub shift: bool,
}

/// A key, whatever the terminal calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// What a character's key types, Shift included.
    Character(char),
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Tab.
    Tab,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Insert.
    Insert,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// A function key, from 1 to 12.
    Function(u8),
}

/// Names of keys; a key's first name is the one that is written.
const NAMES: [(&str, Key); 37] = [
    ("space", Key::Character(' ')),
    ("lt", Key::Character('<')),
    ("gt", Key::Character('>')),
    ("minus", Key::Character('-')),
    ("enter", Key::Enter),
    ("return", Key::Enter),
    ("ret", Key::Enter),
    ("cr", Key::Enter),
    ("esc", Key::Escape),
    ("escape", Key::Escape),
    ("tab", Key::Tab),
    ("backspace", Key::Backspace),
    ("bs", Key::Backspace),
    ("del", Key::Delete),
    ("delete", Key::Delete),
    ("ins", Key::Insert),
    ("insert", Key::Insert),
    ("up", Key::Up),
    ("down", Key::Down),
    ("left", Key::Left),
    ("right", Key::Right),
    ("home", Key::Home),
    ("end", Key::End),
    ("pageup", Key::PageUp),
    ("pagedown", Key::PageDown),
    ("f1", Key::Function(1)),
    ("f2", Key::Function(2)),
    ("f3", Key::Function(3)),
    ("f4", Key::Function(4)),
    ("f5", Key::Function(5)),
    ("f6", Key::Function(6)),
    ("f7", Key::Function(7)),
    ("f8", Key::Function(8)),
    ("f9", Key::Function(9)),
    ("f10", Key::Function(10)),
    ("f11", Key::Function(11)),
    ("f12", Key::Function(12)),
];

impl Chord {
    /// A key with nothing held down.
    pub fn plain(key: Key) -> Self {
        Self { key, control: false, alt: false, shift: false }
    }

    /// Reads one key by its character or its name, with what is held down: `x`, `ctrl-u`, `shift-tab`.
    ///
    /// # Errors
    /// A full sentence about what is no key.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::named(text, &(0..text.len())).map_err(|fault| fault.message)
    }

    /// Reads what stands between angle brackets, at `span` of its line.
    fn named(text: &str, span: &Range<usize>) -> Result<Self, Fault> {
        let mut chord = Self::plain(Key::Enter);
        let mut name = text;
        // A minus may be the key itself, so the last character is never taken for the end of a modifier.
        while let Some((modifier, rest)) = name.split_once('-').filter(|(_, rest)| !rest.is_empty()) {
            let flag = match modifier.to_ascii_lowercase().as_str() {
                "c" | "ctrl" => &mut chord.control,
                "a" | "m" | "alt" => &mut chord.alt,
                "s" | "shift" => &mut chord.shift,
                _ => {
                    let message = format!(
                        "{} is held down with no key: write `C-` for Control, `A-` for Alt, `S-` for Shift.",
                        quoted(modifier)
                    );
                    return Err(Fault::new(span.clone(), message));
                }
            };
            *flag = true;
            name = rest;
        }
        let mut characters = name.chars();
        chord.key = match (characters.next(), characters.next()) {
            (Some(character), None) if !character.is_whitespace() && !character.is_control() => {
                Key::Character(character)
            }
            _ => {
                let lower = name.to_ascii_lowercase();
                let found = NAMES.iter().find(|(known, _)| *known == lower);
                let found = found.ok_or_else(|| {
                    let nearest = nearest(name, NAMES.iter().map(|(known, _)| *known));
                    Fault::new(span.clone(), format!("There is no key {}{}.", quoted(name), suggestion(nearest)))
                })?;
                found.1
            }
        };
        if let (Key::Character(character), true) = (chord.key, chord.shift) {
            if !character.is_ascii_alphabetic() {
                let message = "Shift is part of a character: write what the key types with it.";
                return Err(Fault::new(span.clone(), message));
            }
            chord.key = Key::Character(character.to_ascii_uppercase());
            chord.shift = false;
        }
        Ok(chord)
    }
}

/// Reads the keys of `line` from byte `at` on. White space only separates; a `#` after it begins a comment.
pub(super) fn chords(line: &str, at: usize) -> Result<Vec<Chord>, Fault> {
    let mut chords = Vec::new();
    let mut at = at;
    let mut apart = true;
    while let Some(character) = line[at..].chars().next() {
        let end = at + character.len_utf8();
        if character == '#' && apart {
            break;
        }
        apart = character.is_whitespace();
        if apart {
            at = end;
            continue;
        }
        let (chord, end) = if character == '<' {
            let close = line[end..].find('>').map(|length| end + length).ok_or_else(|| {
                Fault::new(at..line.len(), "The key is not closed: add a `>`; the key `<` itself is `<lt>`.")
            })?;
            (Chord::named(&line[end..close], &(at..close + 1))?, close + 1)
        } else if character.is_control() {
            return Err(Fault::new(at..end, "A control character is no key: write for example `<esc>`."));
        } else {
            (Chord::plain(Key::Character(character)), end)
        };
        if chords.len() == CHORDS {
            return Err(Fault::new(at..end, format!("A line has at most {CHORDS} keys.")));
        }
        chords.push(chord);
        at = end;
    }
    Ok(chords)
}

impl fmt::Display for Chord {
    /// As [`chords`] reads it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = !(self.control || self.alt || self.shift);
        let name = match self.key {
            Key::Character('-') | Key::Character('#') if bare => None,
            key => NAMES.iter().find(|(_, known)| *known == key).map(|(name, _)| *name),
        };
        match (self.key, name) {
            // A bare one might begin a comment.
            (Key::Character('#'), _) if bare => return f.write_str("<#>"),
            (Key::Character(character), None) if bare => return write!(f, "{character}"),
            _ => {}
        }
        let held = |held: bool, text: &'static str| if held { text } else { "" };
        write!(f, "<{}{}{}", held(self.control, "C-"), held(self.alt, "A-"), held(self.shift, "S-"))?;
        match (self.key, name) {
            (_, Some(name)) => f.write_str(name)?,
            (Key::Character(character), None) => write!(f, "{character}")?,
            (key, None) => write!(f, "{key:?}")?,
        }
        f.write_str(">")
    }
}
