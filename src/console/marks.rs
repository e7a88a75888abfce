//! Names for steps.

use std::collections::BTreeMap;

use coalmine_sessions::Sanitized;

/// Marks that are kept; a person needs a few.
const MOST: usize = 1_000;

/// Names for steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    marks: BTreeMap<String, u64>,
}

impl Marks {
    /// Names a step; a name that was in use moves.
    pub(super) fn set(&mut self, name: &str, step: u64) {
        let name = Sanitized::new(name).to_string();
        if self.marks.len() < MOST || self.marks.contains_key(&name) {
            self.marks.insert(name, step);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<u64> {
        self.marks.get(name).copied()
    }

    /// Names in order, with their steps.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.marks.iter().map(|(name, step)| (name.as_str(), *step))
    }

    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.marks.keys().map(String::as_str)
    }
}
