//! Which rows are looked for: those with a cell that holds a text, or those without.

use std::fmt::{self, Write};

use coalmine_sessions::Sanitized;

use crate::{Grouped, table::Cell};

/// A text that rows are looked through for.
///
/// A leading `!` asks for the rows that do not hold it. Upper and lower case are the same
/// unless the text has an upper-case letter. An empty text is in every row.
///
/// ```
/// use coalmine_panes::{Cell, Filter};
///
/// let row = [Cell::from(214u64), Cell::from("Wrong-argument")];
/// assert!(Filter::new("wrong").accepts(&row));
/// assert!(!Filter::new("WRONG").accepts(&row));
/// assert!(!Filter::new("!21").accepts(&row));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    text: Sanitized,
    needle: String,
    inverted: bool,
    exact_case: bool,
}

impl Filter {
    /// A filter as it is typed.
    pub fn new(text: &str) -> Self {
        let text = Sanitized::new(text);
        let (inverted, needle) = text.strip_prefix('!').map_or((false, text.as_str()), |needle| (true, needle));
        let exact_case = needle.chars().any(char::is_uppercase);
        let needle = if exact_case { needle.to_owned() } else { needle.to_lowercase() };
        Self { needle, inverted, exact_case, text }
    }

    /// What was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a row with these cells is to be shown.
    pub fn accepts<'c>(&self, cells: impl IntoIterator<Item = &'c Cell<'c>>) -> bool {
        let mut number = String::new();
        self.needle.is_empty() || cells.into_iter().any(|cell| self.is_in(cell, &mut number)) != self.inverted
    }

    fn is_in(&self, cell: &Cell<'_>, number: &mut String) -> bool {
        number.clear();
        // Writing into a string cannot fail.
        let _ = match cell {
            Cell::Empty => return false,
            Cell::Text(text) => return self.is_part_of(text),
            Cell::Number(value) => write!(number, "{value}"),
            // As it stands in a file, or as it is read on the screen.
            Cell::Integer(value) if self.needle.contains(',') => write!(number, "{}", Grouped(*value)),
            Cell::Integer(value) => write!(number, "{value}"),
        };
        self.is_part_of(number)
    }

    fn is_part_of(&self, text: &str) -> bool {
        if self.exact_case {
            return text.contains(&self.needle);
        }
        if text.is_ascii() {
            let mut parts = text.as_bytes().windows(self.needle.len());
            return parts.any(|part| part.eq_ignore_ascii_case(self.needle.as_bytes()));
        }
        text.char_indices().any(|(start, _)| {
            let mut found = text[start..].chars().flat_map(char::to_lowercase);
            self.needle.chars().all(|wanted| found.next() == Some(wanted))
        })
    }
}

/// How many rows a filter lets through, for a header: `12 of 80 · /wrong`.
pub(crate) struct Matches<'a> {
    pub(crate) filter: &'a Filter,
    pub(crate) shown: usize,
    pub(crate) all: usize,
    pub(crate) dot: &'static str,
}

impl fmt::Display for Matches<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, all) = (Grouped(self.shown as u64), Grouped(self.all as u64));
        write!(formatter, "{shown} of {all} {} /{}", self.dot, self.filter.text())
    }
}

/// Which rows of a list are shown: all, or those that a filter lets through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) filter: Option<Filter>,
    /// The rows let through, in order; kept to spare an allocation a frame, and not used without a filter.
    kept: Vec<usize>,
    all: usize,
}

impl Shown {
    /// Looks through a list of `all` rows.
    pub(crate) fn sift(&mut self, all: usize, accepts: impl Fn(&Filter, usize) -> bool) {
        self.all = all;
        self.kept.clear();
        if let Some(filter) = &self.filter {
            self.kept.extend((0..all).filter(|row| accepts(filter, *row)));
        }
    }

    /// How many rows are shown.
    pub(crate) fn len(&self) -> usize {
        if self.filter.is_some() { self.kept.len() } else { self.all }
    }

    /// The row that is shown at a position.
    pub(crate) fn get(&self, position: usize) -> Option<usize> {
        if self.filter.is_some() { self.kept.get(position).copied() } else { (position < self.all).then_some(position) }
    }

    /// Where a row is shown, or the one after it where it is not, or the last.
    pub(crate) fn position(&self, row: usize) -> usize {
        let position = if self.filter.is_some() { self.kept.partition_point(|kept| *kept < row) } else { row };
        position.min(self.len().saturating_sub(1))
    }

    /// The rows shown.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    /// For the header, when there is a filter.
    pub(crate) fn matches(&self, dot: &'static str) -> Option<Matches<'_>> {
        let filter = self.filter.as_ref()?;
        Some(Matches { filter, shown: self.kept.len(), all: self.all, dot })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(filter: &str, text: &str, accepted: bool) {
        assert_eq!(Filter::new(filter).accepts(&[Cell::from(text)]), accepted, "{filter} in {text}");
    }

    #[test]
    fn upper_case_counts_where_it_is_typed() {
        check("l1 top", "L1 top-k", true);
        check("L1", "l1 top-k", false);
        check("\u{e9}t\u{e9}", "\u{c9}T\u{c9}", true);
        check("\u{c9}", "\u{e9}", false);
        check("longer than the text", "text", false);
    }

    #[test]
    fn an_exclamation_mark_inverts() {
        check("!right", "CORRUPT", true);
        check("!right", "right", false);
        // Typed so far, it asks for nothing yet.
        check("!", "right", true);
        check("", "right", true);
    }

    #[test]
    fn numbers_match_as_written_and_as_shown() {
        let row = [Cell::from(12_345u64), Cell::Empty];
        for (text, accepted) in [("234", true), ("12,3", true), ("13", false)] {
            assert_eq!(Filter::new(text).accepts(&row), accepted);
        }
    }

    proptest! {
        #[test]
        fn a_part_is_found_whatever_its_case(before in ".{0,4}", part in "[a-z\u{e9}\u{df}1 -]{1,4}", after in ".{0,4}") {
            let text = format!("{before}{}{after}", part.to_uppercase());
            let row = [Cell::from(text.as_str())];
            // What `to_uppercase` writes as two letters is found by those.
            let typed = part.to_uppercase().to_lowercase();
            let inverted = format!("!{typed}");
            prop_assert!(Filter::new(&typed).accepts(&row));
            prop_assert!(!Filter::new(&inverted).accepts(&row));
        }

        #[test]
        fn what_is_shown_is_what_is_accepted(rows in proptest::collection::vec(0usize..50, 0..30), digit in 0u8..10) {
            let filter = Filter::new(&digit.to_string());
            let mut shown = Shown { filter: Some(filter), ..Shown::default() };
            shown.sift(rows.len(), |filter, row| filter.accepts(&[Cell::from(rows[row] as u64)]));
            let wanted = |row: &usize| rows[*row].to_string().contains(char::from(b'0' + digit));
            let expected: Vec<usize> = (0..rows.len()).filter(wanted).collect();
            prop_assert_eq!(shown.iter().collect::<Vec<_>>(), expected.clone());
            for (position, row) in expected.into_iter().enumerate() {
                prop_assert_eq!(shown.position(row), position);
            }
        }
    }
}
