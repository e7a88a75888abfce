//! What differs between what a text should have said and what it said.

use coalmine_sessions::Flag;

use crate::{Ink, Pen, Scene, pen::text_width};

/// The words in which two texts differ, without what is the same before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Difference<'a> {
    /// The argument that the words are the value of, if they are one: `bin` in `bin=B11`.
    argument: &'a str,
    expected: &'a str,
    found: &'a str,
}

impl<'a> Difference<'a> {
    fn new(expected: &'a str, found: &'a str) -> Self {
        let same = same_start(expected.chars(), found.chars());
        // Whole words: `B11` and `B12` differ, not `1` and `2`.
        let before = expected[..same]
            .rfind(|character| !in_word(character))
            .map_or(0, |at| at + after_character(&expected[at..]));
        let (expected_rest, found_rest) = (&expected[before..], &found[before..]);
        let same = same_start(expected_rest.chars().rev(), found_rest.chars().rev());
        let tail = &expected_rest[expected_rest.len() - same..];
        let after = tail.find(|character| !in_word(character));
        let after = after.map_or(0, |at| tail.len() - at);
        Self {
            argument: argument(&expected[..before]),
            expected: &expected_rest[..expected_rest.len() - after],
            found: &found_rest[..found_rest.len() - after],
        }
    }
}

fn in_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_')
}

fn after_character(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// Bytes of the characters that two texts have in common at their start.
fn same_start(left: impl Iterator<Item = char>, right: impl Iterator<Item = char>) -> usize {
    left.zip(right).take_while(|(left, right)| left == right).map(|(character, _)| character.len_utf8()).sum()
}

/// The name in front of a final `=`.
fn argument(text: &str) -> &str {
    let Some(text) = text.strip_suffix('=') else {
        return "";
    };
    let start = text.rfind(|character| !in_word(character));
    start.map_or(text, |at| &text[at + after_character(&text[at..])..])
}

/// Writes what a text should have said against what it said, in the room that is left.
pub(crate) fn draw(pen: &mut Pen<'_>, scene: Scene<'_>, flag: &Flag) {
    let theme = scene.theme;
    let (dim, ellipsis) = (theme.ink(Ink::Dim), theme.glyphs.ellipsis);
    let Difference { argument, expected, found } = Difference::new(&flag.expected, &flag.found);
    let (wanted, got) = match pen.room() {
        36.. => ("expected ", "  found "),
        24.. => ("want ", " got "),
        _ => ("", theme.glyphs.arrow),
    };
    if !argument.is_empty() && !wanted.is_empty() {
        pen.text(dim, argument).text(dim, " ");
    }
    let labels = text_width(wanted) + text_width(got);
    let room = pen.room().saturating_sub(labels);
    // An empty text is said to be one.
    let or_nothing = |text| if str::is_empty(text) { "nothing" } else { text };
    let (expected, found) = (or_nothing(expected), or_nothing(found));
    let first = room.saturating_sub(text_width(found)).max(room / 2).min(text_width(expected));
    pen.text(dim, wanted).clip(theme.ink(Ink::Good), expected, first, ellipsis).text(dim, got).clip(
        theme.ink(Ink::Corrupt),
        found,
        room - first,
        ellipsis,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: &str, found: &str, difference: [&str; 3]) {
        let [argument, left, right] = difference;
        let wanted = Difference { argument, expected: left, found: right };
        assert_eq!(Difference::new(expected, found), wanted);
    }

    #[test]
    fn only_what_differs_is_kept_in_whole_words() {
        let right = "ship(item=iron-coil, bin=B11)";
        check(right, "ship(item=iron-coil, bin=B12)", ["bin", "B11", "B12"]);
        let other = "ship(item=iron-bolt, bin=B11)";
        check(right, other, ["item", "iron-coil", "iron-bolt"]);
        check(right, "hold(item=iron-coil, bin=B11)", ["", "ship", "hold"]);
        let both = "ship(item=jade-coil, bin=C01)";
        check(right, both, ["item", "iron-coil, bin=B11", "jade-coil, bin=C01"]);
        check(right, "", ["", right, ""]);
        check("é=日本", "é=日木", ["é", "日本", "日木"]);
        check("a", "a b", ["", "a", "a b"]);
    }

    proptest::proptest! {
        #[test]
        fn what_is_left_out_is_the_same_in_both(
            expected in "[ab=, \u{e9}\u{65e5}-]{0,12}",
            found in "[ab=, \u{e9}\u{65e5}-]{0,12}",
        ) {
            let difference = Difference::new(&expected, &found);
            let around = |text: &str, part: &str| {
                let start = part.as_ptr() as usize - text.as_ptr() as usize;
                (text[..start].to_owned(), text[start + part.len()..].to_owned())
            };
            proptest::prop_assert_eq!(
                around(&expected, difference.expected),
                around(&found, difference.found)
            );
        }
    }
}
