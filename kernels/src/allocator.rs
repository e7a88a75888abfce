//! The memory pool of a graph set, by the rules of PyTorch's caching allocator.
//!
//! The rules are kept because their consequences are what this program looks for: a block freed on the
//! host goes back to the list of the lane that allocated it at once, also while another lane still reads
//! it, unless that use was recorded.

use std::collections::BTreeSet;

use crate::{ALIGNMENT, ByteRange, Lane, Memory};

const MIB: usize = 1 << 20;
/// Largest request served from the small pool (PyTorch's `kSmallSize`).
const SMALL_REQUEST: usize = MIB;
/// Segment of the small pool (`kSmallBuffer`).
const SMALL_SEGMENT: usize = 2 * MIB;
/// Requests of the large pool below this share segments (`kMinLargeAlloc`).
const SHARED_LARGE_REQUEST: usize = 10 * MIB;
/// Segment that they share (`kLargeBuffer`).
const LARGE_SEGMENT: usize = 20 * MIB;
/// Larger requests get segments of their own, in multiples of this (`kRoundLarge`).
const LARGE_ROUNDING: usize = 2 * MIB;

/// A block in use. Giving it to [`PoolAllocator::free`] ends its life; it cannot be freed twice.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The bytes asked for, at the block's address.
    pub range: ByteRange,
    /// The lane whose list it came from and goes back to.
    pub lane: Lane,
    cell: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Live,
    /// Freed, but another lane's use was recorded: neither reused nor merged before the capture ends.
    Parked,
}

/// A stretch of a segment.
#[derive(Clone, Debug)]
struct Cell {
    start: usize,
    size: usize,
    lane: Lane,
    small: bool,
    state: State,
    used_elsewhere: bool,
    before: Option<usize>,
    after: Option<usize>,
}

/// A free stretch as the lists order it: by lane and pool, then best fit.
type Listed = (Lane, bool, usize, usize, usize);

/// The allocator: one value is one private pool.
#[derive(Clone, Debug, Default)]
pub struct PoolAllocator {
    cells: Vec<Cell>,
    vacant: Vec<usize>,
    free: BTreeSet<Listed>,
    parked: Vec<usize>,
    segments: Vec<(Lane, ByteRange)>,
}

impl PoolAllocator {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a block from the lists of `lane`; where none fits, a new segment is made.
    pub fn allocate(&mut self, memory: &mut Memory, lane: Lane, bytes: usize) -> Block {
        let size = bytes.max(1).next_multiple_of(ALIGNMENT);
        let small = size <= SMALL_REQUEST;
        let fitting = self.free.range((lane, small, size, 0, 0)..).next().copied();
        let cell = match fitting {
            Some(listed) if (listed.0, listed.1) == (lane, small) => {
                self.free.remove(&listed);
                listed.4
            }
            _ => self.add_segment(memory, lane, small, size),
        };
        let rest = self.cells[cell].size - size;
        // A large block is not split for a remainder that only small requests could use.
        if if small { rest >= ALIGNMENT } else { rest > SMALL_REQUEST } {
            self.split(cell, size);
        }
        let cell_in_use = &mut self.cells[cell];
        cell_in_use.state = State::Live;
        cell_in_use.used_elsewhere = false;
        Block { range: ByteRange { start: cell_in_use.start, length: bytes }, lane, cell }
    }

    /// Gives a block back to its lane's list at once, also while another lane still reads it, unless that
    /// use was recorded.
    pub fn free(&mut self, block: Block) {
        let cell = &mut self.cells[block.cell];
        debug_assert_eq!(cell.state, State::Live, "{block:?} comes from another pool");
        if cell.used_elsewhere {
            cell.state = State::Parked;
            self.parked.push(block.cell);
        } else {
            self.release(block.cell);
        }
    }

    /// Records that `lane` uses a block (PyTorch's `record_stream`): once freed it is parked until the
    /// capture ends, if the lane is not its own.
    pub fn record_use(&mut self, block: &Block, lane: Lane) {
        if lane != block.lane {
            self.cells[block.cell].used_elsewhere = true;
        }
    }

    /// Ends a capture: parked blocks go back to their lanes' lists.
    pub fn end_capture(&mut self) {
        for cell in std::mem::take(&mut self.parked) {
            self.release(cell);
        }
    }

    /// The segments, in the order they were made, with the lane that each belongs to.
    pub fn segments(&self) -> &[(Lane, ByteRange)] {
        &self.segments
    }

    /// Bytes of all segments.
    pub fn reserved_bytes(&self) -> usize {
        self.segments.iter().map(|(_, range)| range.length).sum()
    }

    /// The free stretches of all lanes; a probe may poison them.
    pub fn free_ranges(&self) -> impl Iterator<Item = ByteRange> + '_ {
        self.free.iter().map(|&(_, _, length, start, _)| ByteRange { start, length })
    }

    fn add_segment(&mut self, memory: &mut Memory, lane: Lane, small: bool, size: usize) -> usize {
        let bytes = if small {
            SMALL_SEGMENT
        } else if size < SHARED_LARGE_REQUEST {
            LARGE_SEGMENT
        } else {
            size.next_multiple_of(LARGE_ROUNDING)
        };
        let range = memory.reserve(bytes);
        self.segments.push((lane, range));
        self.add_cell(Cell {
            start: range.start,
            size: range.length,
            lane,
            small,
            state: State::Live,
            used_elsewhere: false,
            before: None,
            after: None,
        })
    }

    fn add_cell(&mut self, cell: Cell) -> usize {
        if let Some(index) = self.vacant.pop() {
            self.cells[index] = cell;
            index
        } else {
            self.cells.push(cell);
            self.cells.len() - 1
        }
    }

    /// Cuts a stretch after `size` bytes; the rest becomes free.
    fn split(&mut self, index: usize, size: usize) {
        let cell = self.cells[index].clone();
        let rest = self.add_cell(Cell {
            start: cell.start + size,
            size: cell.size - size,
            state: State::Free,
            before: Some(index),
            ..cell
        });
        self.cells[index].size = size;
        self.cells[index].after = Some(rest);
        if let Some(after) = cell.after {
            self.cells[after].before = Some(rest);
        }
        self.list(rest);
    }

    /// Makes a stretch free, merged with free neighbours.
    fn release(&mut self, index: usize) {
        self.cells[index].state = State::Free;
        self.cells[index].used_elsewhere = false;
        let mut merged = index;
        if let Some(before) = self.cells[merged].before.filter(|&cell| self.is_free(cell)) {
            self.unlist(before);
            self.absorb_after(before);
            merged = before;
        }
        if let Some(after) = self.cells[merged].after.filter(|&cell| self.is_free(cell)) {
            self.unlist(after);
            self.absorb_after(merged);
        }
        self.list(merged);
    }

    fn is_free(&self, index: usize) -> bool {
        self.cells[index].state == State::Free
    }

    /// Joins a stretch with the one behind it, whose cell becomes vacant.
    fn absorb_after(&mut self, index: usize) {
        let Some(absorbed) = self.cells[index].after else {
            return;
        };
        let Cell { size, after, .. } = self.cells[absorbed];
        self.cells[index].size += size;
        self.cells[index].after = after;
        if let Some(after) = after {
            self.cells[after].before = Some(index);
        }
        self.vacant.push(absorbed);
    }

    fn listed(&self, index: usize) -> Listed {
        let cell = &self.cells[index];
        (cell.lane, cell.small, cell.size, cell.start, index)
    }

    fn list(&mut self, index: usize) {
        let listed = self.listed(index);
        self.free.insert(listed);
    }

    fn unlist(&mut self, index: usize) {
        let listed = self.listed(index);
        self.free.remove(&listed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const KIB: usize = 1 << 10;

    fn pool() -> (PoolAllocator, Memory) {
        (PoolAllocator::new(), Memory::default())
    }

    #[test]
    fn a_freed_block_is_the_next_one_of_its_size() {
        let (mut pool, mut memory) = pool();
        let transient = pool.allocate(&mut memory, Lane::MAIN, 40_000);
        let address = transient.range.start;
        pool.free(transient);
        let writer = pool.allocate(&mut memory, Lane::MAIN, 40_000);
        assert_eq!(writer.range, ByteRange { start: address, length: 40_000 });
    }

    #[test]
    fn a_recorded_use_parks_the_block_until_the_capture_ends() {
        let (mut pool, mut memory) = pool();
        let transient = pool.allocate(&mut memory, Lane::MAIN, 40_000);
        let address = transient.range.start;
        pool.record_use(&transient, Lane::INDEXER);
        pool.free(transient);
        let writer = pool.allocate(&mut memory, Lane::MAIN, 40_000);
        assert_ne!(writer.range.start, address);
        pool.free(writer);
        pool.end_capture();
        assert_eq!(pool.allocate(&mut memory, Lane::MAIN, 40_000).range.start, address);
    }

    #[test]
    fn use_on_the_own_lane_parks_nothing() {
        let (mut pool, mut memory) = pool();
        let block = pool.allocate(&mut memory, Lane::MAIN, 512);
        let address = block.range.start;
        pool.record_use(&block, Lane::MAIN);
        pool.free(block);
        assert_eq!(pool.allocate(&mut memory, Lane::MAIN, 512).range.start, address);
    }

    #[test]
    fn another_lane_gets_a_segment_of_its_own() {
        let (mut pool, mut memory) = pool();
        let block = pool.allocate(&mut memory, Lane::MAIN, 512);
        pool.free(block);
        pool.allocate(&mut memory, Lane::INDEXER, 512);
        let lanes: Vec<Lane> = pool.segments().iter().map(|segment| segment.0).collect();
        assert_eq!(lanes, [Lane::MAIN, Lane::INDEXER]);
    }

    #[test]
    fn the_best_fit_is_the_smallest_and_then_the_lowest() {
        let (mut pool, mut memory) = pool();
        let mut take = |pool: &mut PoolAllocator, bytes| pool.allocate(&mut memory, Lane::MAIN, bytes);
        let holes = [8 * KIB, 4 * KIB, 4 * KIB, 16 * KIB].map(|bytes| {
            let hole = take(&mut pool, bytes);
            // Keeps the holes apart.
            take(&mut pool, 512);
            hole
        });
        let addresses = [0, 1, 2, 3].map(|i: usize| holes[i].range.start);
        for hole in holes {
            pool.free(hole);
        }
        assert_eq!(take(&mut pool, 4 * KIB - 100).range.start, addresses[1]);
        assert_eq!(take(&mut pool, 3 * KIB).range.start, addresses[2]);
        assert_eq!(take(&mut pool, 5 * KIB).range.start, addresses[0]);
        // The remainder of the hole just split is the smallest that is large enough.
        assert_eq!(take(&mut pool, 2 * KIB).range.start, addresses[0] + 5 * KIB);
    }

    #[test]
    fn segments_have_pytorchs_sizes() {
        let (mut pool, mut memory) = pool();
        for (lane, bytes) in [1, MIB + 1, 10 * MIB, 25 * MIB + 1].into_iter().enumerate() {
            pool.allocate(&mut memory, Lane(lane as u8), bytes);
        }
        let sizes: Vec<usize> = pool.segments().iter().map(|segment| segment.1.length / MIB).collect();
        assert_eq!(sizes, [2, 20, 10, 26]);
    }

    #[test]
    fn a_large_block_is_not_split_for_a_small_remainder() {
        let (mut pool, mut memory) = pool();
        let exact = pool.allocate(&mut memory, Lane::MAIN, 19 * MIB);
        assert_eq!(pool.reserved_bytes(), 20 * MIB);
        assert_eq!(pool.free_ranges().count(), 0);
        pool.free(exact);
        pool.allocate(&mut memory, Lane::MAIN, 18 * MIB);
        assert_eq!(pool.free_ranges().map(|range| range.length).collect::<Vec<_>>(), [2 * MIB]);
    }

    #[test]
    fn neighbours_merge_back_into_their_segment() {
        let (mut pool, mut memory) = pool();
        let blocks = [0; 5].map(|_| pool.allocate(&mut memory, Lane::MAIN, 100 * KIB));
        let [a, b, c, d, e] = blocks;
        for block in [b, d, a, e, c] {
            pool.free(block);
        }
        assert_eq!(pool.free_ranges().collect::<Vec<_>>(), [pool.segments()[0].1]);
        assert_eq!(pool.cells.len() - pool.vacant.len(), 1);
    }

    #[derive(Clone, Debug)]
    enum Act {
        Allocate { lane: u8, bytes: usize },
        Free(prop::sample::Index),
        RecordUse(prop::sample::Index, u8),
        EndCapture,
    }

    fn act() -> impl Strategy<Value = Act> {
        let bytes = prop_oneof![
            4 => 0..8 * KIB,
            3 => 0..MIB + 1000,
            1 => MIB..24 * MIB,
        ];
        prop_oneof![
            6 => (0..3_u8, bytes).prop_map(|(lane, bytes)| Act::Allocate { lane, bytes }),
            5 => any::<prop::sample::Index>().prop_map(Act::Free),
            2 => (any::<prop::sample::Index>(), 0..3_u8).prop_map(|(i, lane)| Act::RecordUse(i, lane)),
            1 => Just(Act::EndCapture),
        ]
    }

    /// Every segment is covered by its cells without gap or overlap, and the lists hold the free ones.
    fn check_structure(pool: &PoolAllocator) {
        let vacant: BTreeSet<usize> = pool.vacant.iter().copied().collect();
        let cells: BTreeMap<usize, &Cell> = (0..pool.cells.len())
            .filter(|index| !vacant.contains(index))
            .map(|index| (pool.cells[index].start, &pool.cells[index]))
            .collect();
        let mut seen = 0;
        for (lane, segment) in pool.segments() {
            let mut at = segment.start;
            let mut was_free = false;
            while at < segment.end() {
                let cell = cells[&at];
                assert_eq!(cell.lane, *lane);
                let free = cell.state == State::Free;
                assert!(!(free && was_free), "free neighbours at {at} were not merged");
                assert_eq!(pool.free.iter().any(|listed| listed.3 == at), free);
                was_free = free;
                at += cell.size;
                seen += 1;
            }
            assert_eq!(at, segment.end());
        }
        assert_eq!(seen, cells.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn rules_hold_for_any_order_of_calls(acts in prop::collection::vec(act(), 1..120)) {
            let (mut pool, mut memory) = pool();
            let mut live: Vec<(Block, bool)> = Vec::new();
            let mut parked: Vec<ByteRange> = Vec::new();
            for act in acts {
                match act {
                    Act::Allocate { lane, bytes } => {
                        let block = pool.allocate(&mut memory, Lane(lane), bytes);
                        prop_assert_eq!(block.range.length, bytes);
                        prop_assert_eq!(block.range.start % ALIGNMENT, 0);
                        prop_assert!(live.iter().all(|(other, _)| other.range.overlap(block.range) == 0));
                        prop_assert!(parked.iter().all(|range| range.overlap(block.range) == 0));
                        // Bytes are only ever reused by the lane that first had them.
                        let home = pool.segments().iter().find(|(_, segment)| segment.overlap(block.range) > 0);
                        prop_assert!(bytes == 0 || home.is_some_and(|(owner, _)| *owner == Lane(lane)));
                        live.push((block, false));
                    }
                    Act::Free(index) if !live.is_empty() => {
                        let (block, recorded) = live.swap_remove(index.index(live.len()));
                        if recorded {
                            parked.push(block.range);
                        }
                        pool.free(block);
                    }
                    Act::RecordUse(index, lane) if !live.is_empty() => {
                        let at = index.index(live.len());
                        let (block, recorded) = &mut live[at];
                        pool.record_use(block, Lane(lane));
                        *recorded |= block.lane != Lane(lane);
                    }
                    Act::EndCapture => {
                        pool.end_capture();
                        parked.clear();
                    }
                    Act::Free(_) | Act::RecordUse(..) => {}
                }
                check_structure(&pool);
            }
            for (block, _) in live {
                pool.free(block);
            }
            pool.end_capture();
            let free: usize = pool.free_ranges().map(|range| range.length).sum();
            prop_assert_eq!(free, pool.reserved_bytes());
            prop_assert_eq!(pool.free_ranges().count(), pool.segments().len());
        }
    }
}
