//! Finding by a few letters, best first.

use nucleo_matcher::{
    Config, Matcher, Utf32Str,
    pattern::{CaseMatching, Normalization, Pattern},
};

/// Ranks texts against what was typed. It keeps its tables from one key to the next.
pub(super) struct Fuzzy {
    matcher: Matcher,
    characters: Vec<char>,
}

impl Default for Fuzzy {
    fn default() -> Self {
        Self { matcher: Matcher::new(Config::DEFAULT), characters: Vec::new() }
    }
}

impl Fuzzy {
    /// The numbers of the texts that match, the best first; without a query all, in their order. A text's first part
    /// (its name) counts for more than its second (what it does).
    pub(super) fn rank<'a>(&mut self, query: &str, texts: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<usize> {
        let pattern = Pattern::parse(query, CaseMatching::Smart, Normalization::Smart);
        let mut score = |text: &str| pattern.score(Utf32Str::new(text, &mut self.characters), &mut self.matcher);
        let scored = texts.enumerate().filter_map(|(index, (name, doc))| {
            let score = match score(name) {
                Some(score) => u64::from(score) * 4,
                None => score(doc)?.into(),
            };
            Some((std::cmp::Reverse(score), index))
        });
        let mut scored: Vec<_> = scored.collect();
        if !query.is_empty() {
            scored.sort();
        }
        scored.into_iter().map(|(_, index)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_docs_and_gaps_are_allowed() {
        let texts =
            [("zoom", "Gives the pane the screen."), ("focus", "Zooms nothing."), ("time.zoom-in", "Magnifies.")];
        let rank = |query| Fuzzy::default().rank(query, texts.into_iter());
        assert_eq!(rank(""), [0, 1, 2]);
        assert_eq!(rank("zoom"), [0, 2, 1]);
        assert_eq!(rank("tzi"), [2]);
        assert!(rank("quux").is_empty());
    }
}
