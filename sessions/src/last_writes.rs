//! When each page of a pool last changed.

use std::ops::Range;

/// The step of each page's last write, if one was seen.
///
/// A table of millions of pages of which nothing is known takes neither time nor memory to make: a hostile target may
/// ask for one with every hello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWrites {
    /// One more than the step, and 0 where there was none: the system has pages of zeros ready.
    after: Vec<u64>,
}

impl LastWrites {
    /// So many pages, of which none was written.
    pub fn new(pages: usize) -> Self {
        Self { after: vec![0; pages] }
    }

    /// Number of pages.
    pub fn len(&self) -> usize {
        self.after.len()
    }

    /// Whether there are no pages.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// The last write of a page.
    pub fn get(&self, page: u32) -> Option<u64> {
        self.after.get(page as usize)?.checked_sub(1)
    }

    /// Takes note that a page was written; `false` if there is no such page. The very last of all steps counts as the
    /// one before it.
    pub(crate) fn set(&mut self, page: u32, step: u64) -> bool {
        let after = self.after.get_mut(page as usize);
        after.map(|after| *after = step.saturating_add(1)).is_some()
    }

    /// Takes note that some pages were written, as far as there are such pages.
    pub(crate) fn fill(&mut self, pages: Range<u32>, step: u64) {
        let end = (pages.end as usize).min(self.len());
        self.after[end.min(pages.start as usize)..end].fill(step.saturating_add(1));
    }

    /// The last write of each page, in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<u64>> {
        self.after.iter().map(|after| after.checked_sub(1))
    }

    /// Runs of pages last written in the same step: first page, number of pages, step.
    pub(crate) fn runs(&self) -> Vec<(u32, u32, u64)> {
        let mut first = 0;
        let mut runs = Vec::new();
        for run in self.after.chunk_by(|one, next| one == next) {
            if let Some(step) = run[0].checked_sub(1) {
                runs.push((first, run.len() as u32, step));
            }
            first += run.len() as u32;
        }
        runs
    }

    /// The last write among some pages; nothing where they begin beyond the last.
    pub fn latest(&self, pages: Range<u32>) -> Option<u64> {
        let end = (pages.end as usize).min(self.len());
        self.after.get(pages.start as usize..end)?.iter().max()?.checked_sub(1)
    }

    /// Bytes that it takes.
    pub(crate) fn weight(&self) -> usize {
        size_of_val(&*self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_found_again() {
        let mut writes = LastWrites::new(6);
        assert!(writes.set(2, 0) && writes.set(5, u64::MAX) && !writes.set(6, 1));
        writes.fill(3..5, 7);
        writes.fill(9..20, 7);
        let (start, end) = (5, 2);
        writes.fill(start..end, 7);
        let steps: Vec<_> = writes.iter().collect();
        assert_eq!(steps, [None, None, Some(0), Some(7), Some(7), Some(u64::MAX - 1)]);
        assert_eq!(writes.runs(), [(2, 1, 0), (3, 2, 7), (5, 1, u64::MAX - 1)]);
        assert_eq!((writes.get(1), writes.get(3), writes.get(9)), (None, Some(7), None));
        assert_eq!((writes.latest(0..2), writes.latest(0..9), writes.latest(7..9)), (None, Some(u64::MAX - 1), None));
    }
}
