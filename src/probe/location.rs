//! The location canary: did a step change bytes of the pools that it had not declared?

use coalmine_kernels::{ByteRange, Memory};
use coalmine_sessions::CanaryMode;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::engine::{Family, Pools, Written};

/// Every page is hashed whole at least once in so many steps.
pub const SWEEP_STEPS: usize = 64;

/// Bytes on either side of a declared write that are watched in every step.
const NEIGHBOURHOOD: usize = 256;

/// What the canary saw in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CanarySight {
    /// Pages looked at.
    pub pages_checked: usize,
    /// Pages that changed undeclared: buffer and page.
    pub violations: Vec<(usize, usize)>,
}

/// Watches the pools of a decode side.
///
/// In each step it hashes the neighbourhood of every declared write and a rotating sample of
/// whole pages (less what the step declared), before and after. A sampled page that nobody
/// declared to write since its last visit must still have the hash of that visit.
#[derive(Debug, Default)]
pub struct LocationCanary {
    pages: Vec<(usize, usize)>,
    visited: Vec<Option<u64>>,
    first_of: Vec<usize>,
    cursor: usize,
    sampled: Vec<usize>,
    before: Vec<(usize, usize, u64)>,
    cloned: Vec<u8>,
    written: Vec<Written>,
    sight: CanarySight,
}

impl LocationCanary {
    /// A canary over all buffers of `pools`.
    pub fn new(pools: &Pools) -> Self {
        let mut canary = Self::default();
        for (number, buffer) in pools.buffers.iter().enumerate() {
            canary.first_of.push(canary.pages.len());
            canary.pages.extend((0..buffer.pages()).map(|page| (number, page)));
        }
        canary.visited = vec![None; canary.pages.len()];
        canary
    }

    /// Tells of a page that something other than a step wrote: a transfer or a prefill.
    pub fn declare(&mut self, buffer: usize, page: usize) {
        let index = self.first_of[buffer] + page;
        self.visited[index] = None;
    }

    /// Looks before a step.
    pub fn before(&mut self, mode: CanaryMode, memory: &Memory, pools: &Pools, written: &[Written]) {
        self.before.clear();
        self.sampled.clear();
        self.sight = CanarySight::default();
        if mode != CanaryMode::Hash {
            // Nobody keeps account of writes meanwhile, so no hash of an earlier visit holds.
            self.visited.fill(None);
        }
        if mode == CanaryMode::Off {
            return;
        }
        self.written.clear();
        self.written.extend_from_slice(written);
        self.written.sort_unstable_by_key(|written| written.range);
        self.written.dedup();
        if mode == CanaryMode::Clone {
            self.cloned.clear();
            for buffer in pools.buffers.iter().filter(|buffer| buffer.family == Family::IndexK) {
                self.cloned.extend_from_slice(memory.bytes(buffer.range));
            }
            return;
        }
        let share = self.pages.len().div_ceil(SWEEP_STEPS);
        for offset in 0..share {
            self.sampled.push((self.cursor + offset) % self.pages.len());
        }
        self.cursor = (self.cursor + share) % self.pages.len();
        for position in 0..self.sampled.len() {
            let index = self.sampled[position];
            let (buffer, page) = self.pages[index];
            let hash = self.masked(memory, pools, buffer, page);
            if let Some(visited) = self.visited[index]
                && visited != xxh3_64(memory.bytes(pools.buffers[buffer].page_range(page)))
            {
                self.sight.violations.push((buffer, page));
            }
            self.before.push((buffer, page, hash));
        }
        for (buffer, page, hash) in self.neighbourhoods(memory, pools) {
            self.before.push((buffer, page, hash));
        }
        for written in &self.written {
            self.visited[self.first_of[written.buffer] + written.page] = None;
        }
    }

    /// Looks after a step.
    pub fn after(&mut self, mode: CanaryMode, memory: &Memory, pools: &Pools) -> &CanarySight {
        match mode {
            CanaryMode::Off => {}
            CanaryMode::Clone => self.compare_clone(memory, pools),
            CanaryMode::Hash => {
                let sampled = self.sampled.len();
                for position in 0..sampled {
                    let (buffer, page, hash) = self.before[position];
                    if self.masked(memory, pools, buffer, page) != hash {
                        self.sight.violations.push((buffer, page));
                    }
                    let range = pools.buffers[buffer].page_range(page);
                    self.visited[self.sampled[position]] = Some(xxh3_64(memory.bytes(range)));
                }
                let after = self.neighbourhoods(memory, pools);
                for ((buffer, page, now), (_, _, hash)) in after.iter().zip(&self.before[sampled..]) {
                    if now != hash {
                        self.sight.violations.push((*buffer, *page));
                    }
                }
                self.sight.pages_checked = self.before.len();
            }
        }
        self.sight.violations.sort_unstable();
        self.sight.violations.dedup();
        &self.sight
    }

    /// What was seen in the last step.
    pub fn sight(&self) -> &CanarySight {
        &self.sight
    }

    /// The declared writes of the step, sorted by address.
    pub fn written(&self) -> &[Written] {
        &self.written
    }

    /// Declared writes that lie in a range.
    fn declared_in(&self, range: ByteRange) -> &[Written] {
        let from = self.written.partition_point(|written| written.range.end() <= range.start);
        let to = self.written.partition_point(|written| written.range.start < range.end());
        &self.written[from..to.max(from)]
    }

    /// Hash of a page without the bytes that the step declared to write.
    fn masked(&self, memory: &Memory, pools: &Pools, buffer: usize, page: usize) -> u64 {
        let range = pools.buffers[buffer].page_range(page);
        let mut hasher = Xxh3::new();
        let mut at = range.start;
        for written in self.declared_in(range) {
            if written.range.start > at {
                hasher.update(memory.bytes(ByteRange { start: at, length: written.range.start - at }));
            }
            at = at.max(written.range.end());
        }
        hasher.update(memory.bytes(ByteRange { start: at, length: range.end().saturating_sub(at) }));
        hasher.digest()
    }

    /// Hashes of the bytes around the declared writes, one a page.
    fn neighbourhoods(&self, memory: &Memory, pools: &Pools) -> Vec<(usize, usize, u64)> {
        let mut hashes: Vec<(usize, usize, u64)> = Vec::with_capacity(self.written.len());
        let mut hasher = Xxh3::new();
        for (index, written) in self.written.iter().enumerate() {
            let page = pools.buffers[written.buffer].page_range(written.page);
            let previous = index.checked_sub(1).map_or(0, |before| self.written[before].range.end());
            let next = self.written.get(index + 1).map_or(usize::MAX, |after| after.range.start);
            let start = written.range.start.saturating_sub(NEIGHBOURHOOD).max(page.start).max(previous);
            let end = (written.range.end() + NEIGHBOURHOOD).min(page.end()).min(next);
            hasher.reset();
            hasher.update(memory.bytes(ByteRange { start, length: written.range.start.saturating_sub(start) }));
            hasher.update(
                memory.bytes(ByteRange { start: written.range.end(), length: end.saturating_sub(written.range.end()) }),
            );
            hashes.push((written.buffer, written.page, hasher.digest()));
        }
        hashes
    }

    /// The incident's canary: the index keys compared byte by byte with their clone.
    fn compare_clone(&mut self, memory: &Memory, pools: &Pools) {
        let mut at = 0;
        let mut violations = Vec::new();
        for (number, buffer) in pools.buffers.iter().enumerate() {
            if buffer.family != Family::IndexK {
                continue;
            }
            let clone = &self.cloned[at..at + buffer.range.length];
            at += buffer.range.length;
            for page in 0..buffer.pages() {
                let range = buffer.page_range(page);
                let offset = range.start - buffer.range.start;
                let now = memory.bytes(range);
                if now == &clone[offset..offset + buffer.page] {
                    continue;
                }
                let mut expected = clone[offset..offset + buffer.page].to_vec();
                for written in self.declared_in(range) {
                    let part = written.range.start - range.start..written.range.end() - range.start;
                    expected[part.clone()].copy_from_slice(&now[part]);
                }
                if expected != now {
                    violations.push((number, page));
                }
            }
            self.sight.pages_checked += buffer.pages();
        }
        self.sight.violations.extend(violations);
    }
}
