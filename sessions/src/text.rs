//! Text from outside, made harmless for a terminal.

use std::fmt::{self, Write as _};
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

/// Most characters of a [`Sanitized`]; the last one is an ellipsis when some were cut off.
pub const SANITIZED_CHARACTERS: usize = 4_096;
/// Most combining marks in a row that a [`Sanitized`] holds.
pub const COMBINING_MARKS: usize = 3;

/// Text that cannot move the cursor, colour the screen, reorder or hide its neighbours.
///
/// - Control characters are dropped, except that a tab becomes a space.
/// - Format characters (bidi controls, zero-width characters, tags), line separators and letters that show nothing
///   (Hangul fillers) become visible escapes such as `<U+202E>`.
/// - At most [`COMBINING_MARKS`] combining marks follow each other, or vowels and finals of a Hangul syllable, which
///   stand on what is before them as marks do.
/// - At most [`SANITIZED_CHARACTERS`] characters remain.
///
/// Model output, prompts, node names, host names and log lines all arrive as this type;
/// deserialising makes them harmless too, so no decoder can forget it.
///
/// ```
/// use coalmine_sessions::Sanitized;
///
/// assert_eq!(Sanitized::new("a\u{1b}[31mb\tc").as_str(), "a[31mb c");
/// assert_eq!(Sanitized::new("x\u{202e}y").as_str(), "x<U+202E>y");
/// ```
#[derive(Default, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sanitized(String);

impl Sanitized {
    /// Makes `text` harmless.
    pub fn new(text: &str) -> Self {
        // Nearly all text is short and printable ASCII already.
        if text.len() <= SANITIZED_CHARACTERS && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Self(text.to_owned());
        }
        let mut harmless = String::with_capacity(text.len().min(SANITIZED_CHARACTERS));
        // Each kept character of the input is at least one of the output, so one more than the
        // limit is enough to know that something has to be cut off.
        let mut kept = 0;
        let mut marks = 0;
        for character in text.chars() {
            if kept > SANITIZED_CHARACTERS {
                break;
            }
            let class = class(character);
            match class {
                Class::Drop => continue,
                Class::Space => harmless.push(' '),
                Class::Escape => {
                    write!(harmless, "<U+{:04X}>", u32::from(character)).expect("a String takes any text");
                }
                Class::Mark if marks == COMBINING_MARKS => continue,
                Class::Mark | Class::Plain => harmless.push(character),
            }
            marks = if class == Class::Mark { marks + 1 } else { 0 };
            kept += 1;
        }
        let mut harmless = Self(harmless);
        harmless.clip(SANITIZED_CHARACTERS);
        harmless
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Shortens to at most `characters`, the last of which is then an ellipsis.
    pub(crate) fn clip(&mut self, characters: usize) {
        if self.0.len() <= characters || self.0.chars().nth(characters).is_none() {
            return;
        }
        let end = self.0.char_indices().nth(characters.saturating_sub(1)).map_or(0, |(at, _)| at);
        self.0.truncate(end);
        self.0.push('…');
        self.0.shrink_to_fit();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Plain,
    Space,
    Drop,
    Mark,
    Escape,
}

fn class(character: char) -> Class {
    if matches!(character, ' '..='~') {
        return Class::Plain;
    }
    match character {
        // What the standard calls ignorable is not to be shown, although it is a letter or nothing yet.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => return Class::Escape,
        '\u{2065}' | '\u{fff0}'..='\u{fff8}' | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}' => {
            return Class::Escape;
        }
        '\u{1161}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7ff}' => return Class::Mark,
        _ => {}
    }
    match character.general_category() {
        GeneralCategory::Control if character == '\t' => Class::Space,
        GeneralCategory::Control => Class::Drop,
        GeneralCategory::Format | GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator => Class::Escape,
        GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark => Class::Mark,
        _ => Class::Plain,
    }
}

impl Deref for Sanitized {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Sanitized {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl From<&str> for Sanitized {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Sanitized {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl Serialize for Sanitized {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Sanitized {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Sanitized;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Sanitized, E> {
                Ok(Sanitized::new(text))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_bidi_control(character: char) -> bool {
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    }

    #[test]
    fn controls_are_dropped_and_a_tab_becomes_a_space() {
        assert_eq!(Sanitized::new("a\r\n\tb\u{7f}\u{9b}31m\u{1b}]0;x\u{7}").as_str(), "a b31m]0;x");
    }

    #[test]
    fn invisible_characters_become_visible() {
        assert_eq!(Sanitized::new("\u{200b}\u{feff}\u{2028}\u{e0041}").as_str(), "<U+200B><U+FEFF><U+2028><U+E0041>");
    }

    #[test]
    fn letters_that_show_nothing_become_visible() {
        let text = Sanitized::new("\u{115f}\u{1160}\u{3164}\u{ffa0}\u{2065}\u{fff0}\u{e0080}");
        assert_eq!(text.as_str(), "<U+115F><U+1160><U+3164><U+FFA0><U+2065><U+FFF0><U+E0080>");
    }

    #[test]
    fn a_syllable_has_only_so_many_parts() {
        let syllable = "\u{1112}\u{1161}\u{11ab}";
        assert_eq!(Sanitized::new(syllable).as_str(), syllable);
        let flood = format!("\u{1112}{}x", "\u{1161}".repeat(500));
        assert_eq!(Sanitized::new(&flood).as_str(), "\u{1112}\u{1161}\u{1161}\u{1161}x");
    }

    #[test]
    fn a_dropped_control_does_not_reset_the_count_of_marks() {
        let text = format!("e{}\u{1}{}f", "\u{301}".repeat(3), "\u{301}".repeat(9));
        assert_eq!(Sanitized::new(&text).as_str(), "e\u{301}\u{301}\u{301}f");
    }

    #[test]
    fn long_text_ends_in_an_ellipsis() {
        for filler in ["x", "あ", "\u{202e}"] {
            let text = Sanitized::new(&filler.repeat(SANITIZED_CHARACTERS * 2));
            assert_eq!(text.chars().count(), SANITIZED_CHARACTERS);
            assert!(text.ends_with('…'));
        }
        assert!(!Sanitized::new(&"あ".repeat(SANITIZED_CHARACTERS)).ends_with('…'));
    }

    #[test]
    fn deserialising_sanitizes() {
        let text: Sanitized = serde_json::from_str(r#""a\u001b[2Jb""#).unwrap();
        assert_eq!(text.as_str(), "a[2Jb");
    }

    proptest! {
        #[test]
        fn output_is_harmless(text in any::<String>()) {
            let harmless = Sanitized::new(&text);
            prop_assert!(harmless.chars().all(|c| !c.is_control() && !is_bidi_control(c)));
        }

        #[test]
        fn sanitizing_again_changes_nothing(
            text in proptest::collection::vec(
                prop_oneof![any::<char>(), Just('\u{301}'), Just('\u{202e}'), Just('\t')], 0..60),
            repeats in 1_usize..200,
        ) {
            let once = Sanitized::new(&text.iter().collect::<String>().repeat(repeats));
            prop_assert!(once.chars().count() <= SANITIZED_CHARACTERS);
            prop_assert_eq!(&Sanitized::new(once.as_str()), &once);
        }
    }
}
