//! Text broken into lines.

use unicode_segmentation::UnicodeSegmentation;

use crate::pen::text_width;

/// The lines that `text` takes in so many cells: broken at spaces, and within a word only where
/// it is longer than a line. Nothing but spaces at the breaks is lost.
pub fn lines(text: &str, width: u16) -> impl Iterator<Item = &str> {
    let mut rest = text.trim();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = end_of_line(rest, width);
        let (line, after) = rest.split_at(end);
        rest = after.trim_start();
        Some(line.trim_end())
    })
}

/// Bytes of the first line of `text`, which does not begin with a space; never none.
fn end_of_line(text: &str, width: u16) -> usize {
    let mut used = 0u16;
    let mut space = None;
    for (at, grapheme) in text.grapheme_indices(true) {
        used = used.saturating_add(text_width(grapheme));
        if grapheme == " " {
            space = Some(at);
        } else if used > width {
            // What does not even fit a line of its own gets one, or there would be no end.
            return space.unwrap_or(at.max(if at == 0 { grapheme.len() } else { 0 }));
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn breaks_at_spaces_and_in_long_words() {
        let broken = |text, width| lines(text, width).collect::<Vec<_>>();
        assert_eq!(broken("one two three", 7), ["one two", "three"]);
        assert_eq!(broken("a verylongword", 5), ["a", "veryl", "ongwo", "rd"]);
        assert_eq!(broken("\u{65e5}\u{672c}\u{8a9e}", 4), ["\u{65e5}\u{672c}", "\u{8a9e}"]);
        assert_eq!(broken("  ", 4), [""; 0]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_sticks_out(text in "[a-c \u{65e5}e\u{301}]{0,40}", width in 0u16..12) {
            let lines: Vec<&str> = lines(&text, width).collect();
            let dense = |text: &str| text.replace(' ', "");
            prop_assert_eq!(dense(&lines.concat()), dense(&text));
            prop_assert!(lines.iter().all(|line| text_width(line) <= width.max(2)));
        }
    }
}
