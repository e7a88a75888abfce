//! The paged pools of one side (prefill or decode) and who owns which page (dsv4.md 2.1-2.4).

use coalmine_kernels::operators::{
    IndexBuffer, IndexFormat, KvBuffer, KvFormat, MetadataShape, PAGE_TOKENS, PageLayout, Tensor,
};
use coalmine_kernels::{ByteRange, Memory};
use xxhash_rust::xxh3::xxh3_64;

use super::checkpoint::{AttentionKind, ModelConfig};

/// State rows of a sliding-window page for ratio-4 compressors.
pub(super) const RATIO4_RING: usize = 8;
/// State rows of a request for ratio-128 compressors.
pub(super) const RATIO128_RING: usize = 128;

/// Sizes of a side's pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSizes {
    /// Most tokens of a sequence.
    pub context: usize,
    /// Request rows, the padding row 0 included.
    pub requests: usize,
    /// Full pages, the reserved page 0 included; the sliding-window pool has as many, so that it holds all sessions.
    pub pages: usize,
}

impl PoolSizes {
    /// Pools for `sessions` sequences of up to `context` tokens.
    pub fn for_sessions(sessions: usize, context: usize) -> Self {
        Self { context, requests: sessions + 1, pages: sessions * context.div_ceil(PAGE_TOKENS) + 1 }
    }
}

/// Row formats of a side's pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats {
    /// KV rows.
    pub kv: KvFormat,
    /// Index keys.
    pub index: IndexFormat,
}

/// The buffers of one layer.
#[derive(Clone, Copy, Debug)]
pub struct LayerPools {
    /// KV rows of raw tokens.
    pub swa: KvBuffer,
    /// KV rows of compressed entries.
    pub compressed: Option<KvBuffer>,
    /// State rows of the core compressor.
    pub state: Option<StateBuffer>,
    /// Index keys.
    pub index: Option<IndexBuffer>,
    /// State rows of the index compressor.
    pub index_state: Option<StateBuffer>,
}

/// State rows of a compressor.
#[derive(Clone, Copy, Debug)]
pub struct StateBuffer {
    /// The bytes.
    pub range: ByteRange,
    /// Bytes of a row.
    pub row: usize,
    /// Rows of an owner: a sliding-window page for ratio 4, a request for ratio 128.
    pub ring: usize,
}

impl StateBuffer {
    /// The bytes of an owner's rows.
    pub fn owner(&self, owner: usize) -> ByteRange {
        self.range.part(owner * self.ring * self.row, self.ring * self.row)
    }

    /// The bytes of one row.
    pub fn row(&self, row: usize) -> ByteRange {
        self.range.part(row * self.row, self.row)
    }
}

/// A family of paged buffers, as canaries and panes name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Raw KV rows.
    Swa,
    /// Ratio-4 KV rows.
    C4,
    /// Ratio-128 KV rows.
    C128,
    /// Index keys.
    IndexK,
    /// State of the core compressor.
    State,
    /// State of the index compressor.
    IndexState,
}

impl Family {
    /// The name in panes and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Swa => "swa-kv",
            Self::C4 => "c4-kv",
            Self::C128 => "c128-kv",
            Self::IndexK => "index-k",
            Self::State => "state",
            Self::IndexState => "index-state",
        }
    }
}

/// One buffer as pages.
#[derive(Clone, Copy, Debug)]
pub struct PagedBuffer {
    /// Its family.
    pub family: Family,
    /// Its layer.
    pub layer: usize,
    /// Its bytes.
    pub range: ByteRange,
    /// Bytes of a page.
    pub page: usize,
}

impl PagedBuffer {
    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.range.length / self.page
    }

    /// The bytes of a page.
    pub fn page_range(&self, page: usize) -> ByteRange {
        self.range.part(page * self.page, self.page)
    }
}

/// The pools of one side.
#[derive(Clone, Debug)]
pub struct Pools {
    /// Sizes.
    pub sizes: PoolSizes,
    /// Formats.
    pub formats: Formats,
    /// One entry a layer.
    pub layers: Vec<LayerPools>,
    /// Every paged buffer.
    pub buffers: Vec<PagedBuffer>,
    /// Full slot of every position of every request.
    pub req_to_token: Tensor,
    /// Sliding-window slot of every full slot, with a trailing -1.
    pub full_to_swa: Tensor,
    /// Sizes for the metadata expansion.
    pub shape: MetadataShape,
}

impl Pools {
    /// Reserves zeroed pools for a model.
    pub fn new(memory: &mut Memory, config: &ModelConfig, sizes: PoolSizes, formats: Formats) -> Self {
        let mut buffers = Vec::new();
        let mut layers = Vec::new();
        for (number, layer) in config.layers.iter().enumerate() {
            let mut kv = |memory: &mut Memory, family, slots| {
                let layout = PageLayout::kv(formats.kv, config.head_dim, config.rope_dim, slots);
                let range = memory.reserve(layout.bytes(sizes.pages));
                buffers.push(PagedBuffer { family, layer: number, range, page: layout.page });
                KvBuffer { range, layout, format: formats.kv, head: config.head_dim, rope: config.rope_dim }
            };
            let swa = kv(memory, Family::Swa, PAGE_TOKENS);
            let compressed = match layer.attention {
                AttentionKind::Sliding => None,
                AttentionKind::Ratio4 => Some(kv(memory, Family::C4, PAGE_TOKENS / 4)),
                AttentionKind::Ratio128 => Some(kv(memory, Family::C128, PAGE_TOKENS / 128)),
            };
            let mut state = |memory: &mut Memory, family, width: usize, owners: usize, ring: usize| {
                let row = width * 4;
                // One more owner than there are: the sentinel rows.
                let range = memory.reserve((owners + 1) * ring * row);
                buffers.push(PagedBuffer { family, layer: number, range, page: ring * row });
                StateBuffer { range, row, ring }
            };
            let core_state = match layer.attention {
                AttentionKind::Sliding => None,
                AttentionKind::Ratio4 => {
                    Some(state(memory, Family::State, 4 * config.head_dim, sizes.pages, RATIO4_RING))
                }
                AttentionKind::Ratio128 => {
                    Some(state(memory, Family::State, 2 * config.head_dim, sizes.requests, RATIO128_RING))
                }
            };
            let ratio4 = layer.attention == AttentionKind::Ratio4;
            let index_state =
                ratio4.then(|| state(memory, Family::IndexState, 4 * config.index_head_dim, sizes.pages, RATIO4_RING));
            let index = ratio4.then(|| {
                let layout = PageLayout::index(formats.index, config.index_head_dim, PAGE_TOKENS / 4);
                let range = memory.reserve(layout.bytes(sizes.pages));
                buffers.push(PagedBuffer { family: Family::IndexK, layer: number, range, page: layout.page });
                IndexBuffer { range, layout, format: formats.index, dimension: config.index_head_dim }
            });
            layers.push(LayerPools { swa, compressed, state: core_state, index, index_state });
        }
        let table = |memory: &mut Memory, rows, columns| {
            Tensor::new(memory.reserve(Tensor::bytes(rows, columns)), rows, columns)
        };
        let req_to_token = table(memory, sizes.requests, sizes.context);
        let full_to_swa = table(memory, 1, sizes.pages * PAGE_TOKENS + 1);
        if let Some(last) = memory.slice_mut::<i32>(full_to_swa.range).last_mut() {
            *last = -1;
        }
        let shape = MetadataShape {
            window: config.sliding_window.min(sizes.context),
            ratio4_ring: RATIO4_RING,
            ratio128_ring: RATIO128_RING,
            pages: sizes.context.div_ceil(PAGE_TOKENS),
            ratio128_width: (sizes.context / 128).max(1),
        };
        Self { sizes, formats, layers, buffers, req_to_token, full_to_swa, shape }
    }

    /// Enters the slots of positions `from..to` of a request into the tables.
    pub fn map(&self, memory: &mut Memory, holding: &Holding, from: usize, to: usize) {
        let table = memory.slice_mut::<i32>(self.req_to_token.range);
        for position in from..to {
            table[holding.request * self.sizes.context + position] = holding.slot(position) as i32;
        }
        let table = memory.slice_mut::<i32>(self.full_to_swa.range);
        for position in from..to {
            table[holding.slot(position)] = holding.swa_slot(position) as i32;
        }
    }

    /// Forgets a request's slots, as an eviction does: unmapped slots translate to slot 0.
    pub fn unmap(&self, memory: &mut Memory, holding: &Holding) {
        let row = holding.request * self.sizes.context;
        memory.slice_mut::<i32>(self.req_to_token.range)[row..row + self.sizes.context].fill(0);
        let table = memory.slice_mut::<i32>(self.full_to_swa.range);
        for page in &holding.pages {
            table[page * PAGE_TOKENS..(page + 1) * PAGE_TOKENS].fill(0);
        }
    }

    /// The pages (by buffer number) in which a sequence of `tokens` tokens lies, `holding` its owner.
    pub fn pages_of<'a>(&'a self, holding: &'a Holding) -> impl Iterator<Item = (usize, usize)> + 'a {
        self.buffers.iter().enumerate().flat_map(move |(number, buffer)| {
            let pages: &[usize] = match buffer.family {
                Family::Swa | Family::IndexState => &holding.swa_pages,
                Family::C4 | Family::C128 | Family::IndexK => &holding.pages,
                Family::State => match self.layers[buffer.layer].state {
                    Some(state) if state.ring == RATIO128_RING => std::slice::from_ref(&holding.request),
                    _ => &holding.swa_pages,
                },
            };
            pages.iter().map(move |page| (number, *page))
        })
    }
}

/// What a sequence holds of a side's pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Its request row.
    pub request: usize,
    /// Its full pages, by position.
    pub pages: Vec<usize>,
    /// Its sliding-window pages, by position.
    pub swa_pages: Vec<usize>,
}

impl Holding {
    /// Full slot of a position.
    pub fn slot(&self, position: usize) -> usize {
        self.pages[position / PAGE_TOKENS] * PAGE_TOKENS + position % PAGE_TOKENS
    }

    /// Sliding-window slot of a position.
    pub fn swa_slot(&self, position: usize) -> usize {
        self.swa_pages[position / PAGE_TOKENS] * PAGE_TOKENS + position % PAGE_TOKENS
    }
}

/// Which pages and request rows are free. Page 0 and row 0 are never handed out.
#[derive(Clone, Debug)]
pub struct Ownership {
    pages: Vec<usize>,
    swa_pages: Vec<usize>,
    requests: Vec<usize>,
}

impl Ownership {
    /// Everything free.
    pub fn new(sizes: PoolSizes) -> Self {
        let descending = |count: usize| (1..count).rev().collect::<Vec<_>>();
        Self {
            pages: descending(sizes.pages),
            swa_pages: descending(sizes.pages),
            requests: descending(sizes.requests),
        }
    }

    /// A request row, without pages yet.
    pub fn admit(&mut self) -> Option<Holding> {
        self.requests.pop().map(|request| Holding { request, ..Holding::default() })
    }

    /// Gives a sequence pages for `tokens` tokens; false (and nothing changed) when there are too few.
    pub fn extend(&mut self, holding: &mut Holding, tokens: usize) -> bool {
        let more = tokens.div_ceil(PAGE_TOKENS).saturating_sub(holding.pages.len());
        if more > self.pages.len() || more > self.swa_pages.len() {
            return false;
        }
        holding.pages.extend(self.pages.drain(self.pages.len() - more..).rev());
        holding.swa_pages.extend(self.swa_pages.drain(self.swa_pages.len() - more..).rev());
        true
    }

    /// Takes everything back.
    pub fn release(&mut self, holding: Holding) {
        self.pages.extend(holding.pages);
        self.swa_pages.extend(holding.swa_pages);
        self.requests.push(holding.request);
    }

    /// Pages that are free.
    pub fn free_pages(&self) -> usize {
        self.pages.len()
    }
}

/// A page whose bytes differ between the two ends of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferMismatch {
    /// Number of the buffer.
    pub buffer: usize,
    /// Page on the receiving side.
    pub page: usize,
}

/// Copies a sequence's pages from one side to the other and compares checksums of both ends.
///
/// The sides have the same model and formats, so their buffers correspond one to one.
pub fn transfer(
    memory: &mut Memory,
    from: (&Pools, &Holding),
    to: (&Pools, &Holding),
) -> Result<usize, TransferMismatch> {
    let pairs: Vec<_> = from.0.pages_of(from.1).zip(to.0.pages_of(to.1)).collect();
    let mut copied = 0;
    let mut page_bytes = Vec::new();
    for ((buffer, source), (same, target)) in pairs {
        debug_assert_eq!(buffer, same);
        let source = from.0.buffers[buffer].page_range(source);
        let destination = to.0.buffers[buffer].page_range(target);
        page_bytes.clear();
        page_bytes.extend_from_slice(memory.bytes(source));
        let sent = xxh3_64(&page_bytes);
        memory.bytes_mut(destination).copy_from_slice(&page_bytes);
        if xxh3_64(memory.bytes(destination)) != sent {
            return Err(TransferMismatch { buffer, page: target });
        }
        copied += page_bytes.len();
    }
    Ok(copied)
}
