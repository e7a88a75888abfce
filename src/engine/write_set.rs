//! Which bytes of the pools a decode step declares that it writes.

use coalmine_kernels::ByteRange;
use coalmine_kernels::operators::PAGE_TOKENS;

use super::pools::{Family, Holding, Pools, RATIO4_RING, RATIO128_RING};

/// Bytes of a page that a step writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of the buffer in [`Pools::buffers`].
    pub buffer: usize,
    /// The page.
    pub page: usize,
    /// The bytes, in device memory.
    pub range: ByteRange,
}

/// Collects what one row writes: its sliding-window slot, its state rows and, where a window
/// is full, the entry's slots.
pub(super) fn written_by_row(pools: &Pools, holding: &Holding, position: usize, written: &mut Vec<Written>) {
    let slots = RowSlots {
        full: holding.slot(position),
        swa: holding.swa_slot(position),
        request: holding.request,
        length: position + 1,
    };
    collect(pools, slots, position, written);
}

/// Collects what padded rows write: the dummy slots.
pub(super) fn written_by_padding(pools: &Pools, written: &mut Vec<Written>) {
    collect(pools, RowSlots { full: 0, swa: 0, request: 0, length: 1 }, 0, written);
}

struct RowSlots {
    full: usize,
    swa: usize,
    request: usize,
    length: usize,
}

fn collect(pools: &Pools, slots: RowSlots, position: usize, written: &mut Vec<Written>) {
    let mut ranges = Vec::with_capacity(2);
    for (number, buffer) in pools.buffers.iter().enumerate() {
        let layer = &pools.layers[buffer.layer];
        ranges.clear();
        match buffer.family {
            Family::Swa => layer.swa.layout.slot_ranges(layer.swa.range, slots.swa, &mut ranges),
            Family::C4 | Family::C128 => {
                let ratio = if buffer.family == Family::C4 { 4 } else { 128 };
                if let Some(pool) = layer.compressed.filter(|_| slots.length.is_multiple_of(ratio)) {
                    pool.layout.slot_ranges(pool.range, slots.full / ratio, &mut ranges);
                }
            }
            Family::IndexK => {
                if let Some(pool) = layer.index.filter(|_| slots.length.is_multiple_of(4)) {
                    pool.layout.slot_ranges(pool.range, slots.full / 4, &mut ranges);
                }
            }
            Family::State | Family::IndexState => {
                let state = if buffer.family == Family::State { layer.state } else { layer.index_state };
                ranges.extend(state.map(|state| {
                    state.row(if state.ring == RATIO128_RING {
                        slots.request * RATIO128_RING + position % RATIO128_RING
                    } else {
                        slots.swa / PAGE_TOKENS * RATIO4_RING + slots.swa % RATIO4_RING
                    })
                }));
            }
        }
        written.extend(ranges.iter().map(|range| Written {
            buffer: number,
            page: (range.start - buffer.range.start) / buffer.page,
            range: *range,
        }));
    }
}
