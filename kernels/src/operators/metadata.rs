//! Expanding a batch's raw metadata inside the graph (dsv4.md 2.5, 2.9).

use super::{PAGE_TOKENS, Tensor};
use crate::{Access, Compute, Operator, Part, Views};

/// Positions whose state rows one ratio-4 entry is pooled from.
pub const RATIO4_REACH: usize = 8;

/// Sizes that the expansion needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataShape {
    /// Raw tokens that attention sees.
    pub window: usize,
    /// State rows of a sliding-window page for ratio-4 compressors.
    pub ratio4_ring: usize,
    /// State rows of a request for ratio-128 compressors.
    pub ratio128_ring: usize,
    /// Pages that a request may hold.
    pub pages: usize,
    /// Ratio-128 entries that a request may hold.
    pub ratio128_width: usize,
}

/// What the scheduler writes for every step.
#[derive(Clone, Copy, Debug)]
pub struct RawMetadata {
    /// Token of each row.
    pub input_ids: Tensor,
    /// Request row of each row; 0 is the padding request.
    pub req_pool_indices: Tensor,
    /// Tokens of each row's sequence, the row's own included; a padded row has 1.
    pub seq_lens: Tensor,
    /// Full slot that each row's token is stored to; 0 is the dummy slot, negative is skipped.
    pub out_cache_loc: Tensor,
    /// Full slot of every position of every request: `[requests, context]`.
    pub req_to_token: Tensor,
    /// Sliding-window slot of every full slot: `[1, slots]`.
    pub full_to_swa: Tensor,
}

/// What the graph derives from it.
#[derive(Clone, Copy, Debug)]
pub struct ExpandedMetadata {
    /// Window slots by ascending position, -1 where there is none: `[rows, window]`.
    pub swa_page_indices: Tensor,
    /// Sliding-window slot of the row's token: `[rows, 1]`.
    pub swa_out_cache_loc: Tensor,
    /// Full pages of the request: `[rows, pages]`.
    pub page_table: Tensor,
    /// Slot of the ratio-4 entry that this token completes, 0 if none, -1 to skip: `[rows, 1]`.
    pub c4_out_loc: Tensor,
    /// The same for ratio 128.
    pub c128_out_loc: Tensor,
    /// Ratio-4 entries visible: `[rows, 1]`.
    pub c4_lengths: Tensor,
    /// Visible ratio-128 slots, -1 padded: `[rows, ratio128_width]`.
    pub c128_page_indices: Tensor,
    /// State rows of the last eight positions by ascending position, -1 before the sequence: `[rows, 8]`.
    pub c4_state_rows: Tensor,
    /// Selected ratio-4 slots, filled with -1 here and by the indexer later: `[rows, index_topk]`.
    pub c4_sparse_page_indices: Tensor,
}

/// Expands [`RawMetadata`] to [`ExpandedMetadata`].
#[derive(Debug)]
pub struct ExpandMetadata {
    accesses: [Access; 14],
    raw: RawMetadata,
    expanded: ExpandedMetadata,
    shape: MetadataShape,
}

impl ExpandMetadata {
    /// The expansion of `raw` into `expanded`.
    pub fn new(raw: RawMetadata, expanded: ExpandedMetadata, shape: MetadataShape) -> Self {
        let accesses = [
            raw.req_pool_indices.read(),
            raw.seq_lens.read(),
            raw.out_cache_loc.read(),
            raw.req_to_token.read_whole(),
            raw.full_to_swa.read_whole(),
            expanded.swa_page_indices.write(),
            expanded.swa_out_cache_loc.write(),
            expanded.page_table.write(),
            expanded.c4_out_loc.write(),
            expanded.c128_out_loc.write(),
            expanded.c4_lengths.write(),
            expanded.c128_page_indices.write(),
            expanded.c4_state_rows.write(),
            expanded.c4_sparse_page_indices.write(),
        ];
        Self { accesses, raw, expanded, shape }
    }
}

impl Operator for ExpandMetadata {
    fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    fn tiles(&self) -> usize {
        self.raw.seq_lens.rows()
    }

    fn run(&self, mut views: Views<'_>, part: Part, _compute: Compute) {
        let requests = views.read::<i32>();
        let lengths = views.read::<i32>();
        let out_locs = views.read::<i32>();
        let req_to_token = views.read::<i32>();
        let full_to_swa = views.read::<i32>();
        let window = views.write::<i32>();
        let swa_out = views.write::<i32>();
        let page_table = views.write::<i32>();
        let c4_out = views.write::<i32>();
        let c128_out = views.write::<i32>();
        let c4_lengths = views.write::<i32>();
        let c128_indices = views.write::<i32>();
        let state_rows = views.write::<i32>();
        let selected = views.write::<i32>();
        let shape = &self.shape;
        let context = self.raw.req_to_token.columns;
        // A stale or foreign slot reads the trailing -1, as a device would read what lies there.
        let swa = |slot: i32| usize::try_from(slot).map_or(-1, |slot| full_to_swa[slot.min(full_to_swa.len() - 1)]);
        for row in part.tiles(self.tiles()) {
            let request = requests[row].max(0) as usize;
            let length = lengths[row].clamp(1, context as i32) as usize;
            let tokens = &req_to_token[request * context..][..context];
            let position = length - 1;
            for (offset, cell) in window[row * shape.window..][..shape.window].iter_mut().enumerate() {
                *cell = (length + offset).checked_sub(shape.window).map_or(-1, |p| swa(tokens[p]));
            }
            swa_out[row] = if out_locs[row] < 0 { -1 } else { swa(out_locs[row]) };
            for (page, cell) in page_table[row * shape.pages..][..shape.pages].iter_mut().enumerate() {
                *cell = tokens.get(page * PAGE_TOKENS).map_or(0, |slot| slot / PAGE_TOKENS as i32);
            }
            let boundary = |ratio: usize| match out_locs[row] {
                slot if slot < 0 => -1,
                slot if length.is_multiple_of(ratio) => slot / ratio as i32,
                _ => 0,
            };
            c4_out[row] = boundary(4);
            c128_out[row] = boundary(128);
            c4_lengths[row] = (length / 4) as i32;
            for (entry, cell) in
                c128_indices[row * shape.ratio128_width..][..shape.ratio128_width].iter_mut().enumerate()
            {
                *cell = if entry < length / 128 { tokens[entry * 128] / 128 } else { -1 };
            }
            for (back, cell) in state_rows[row * RATIO4_REACH..][..RATIO4_REACH].iter_mut().enumerate() {
                *cell = (position + 1 + back).checked_sub(RATIO4_REACH).map_or(-1, |p| {
                    let slot = swa(tokens[p]);
                    let (page, ring) = (slot / PAGE_TOKENS as i32, shape.ratio4_ring as i32);
                    page * ring + slot.rem_euclid(ring)
                });
            }
            let topk = self.expanded.c4_sparse_page_indices.columns;
            selected[row * topk..][..topk].fill(-1);
        }
    }
}
