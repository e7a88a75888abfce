//! What the operators cost at the shape of a served model, whatever the size of the loaded weights.
//!
//! A toy's weights would all sit in the cache and no effect of memory could appear, so costs
//! are those of DeepSeek-V4-Flash as one of four expert-parallel decode GPUs runs it. Bytes and
//! operations follow from the shapes; fixed times are those of the kernels of `gpu-notes.md`.

use coalmine_kernels::operators::{IndexFormat, PRODUCT_TILE_COLUMNS};
use coalmine_kernels::{Cost, Extent, Tiles, Touch};

/// Time of a matrix product beyond its memory traffic: launch ramp, tail and epilogue, us.
const PRODUCT_FIXED_US: f64 = 1.2;
/// Time of a small element-wise kernel, us.
const ELEMENTWISE_FIXED_US: f64 = 1.7;
/// Ramp and tail of the top-k, us.
const TOP_K_FIXED_US: f64 = 0.9;
/// What the top-k's block works on its row: radix passes over the scores, one after the other, us.
const TOP_K_BLOCK_US: f64 = 1.5;
/// Time of sparse attention beyond its memory traffic, us.
const ATTENTION_FIXED_US: f64 = 6.0;

/// The served model's shape, and how long its contexts are for ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServedShape {
    /// Width of a residual stream.
    pub hidden: usize,
    /// Residual streams.
    pub streams: usize,
    /// Query heads times head width.
    pub query: usize,
    /// Width of a head.
    pub head: usize,
    /// Latent query.
    pub q_lora_rank: usize,
    /// Output groups times their width.
    pub o_lora: usize,
    /// Index heads times their width.
    pub index_query: usize,
    /// Index heads.
    pub index_heads: usize,
    /// Width of an index key.
    pub index_head: usize,
    /// Entries selected.
    pub index_topk: usize,
    /// Raw tokens attended to.
    pub window: usize,
    /// Routed experts on this GPU.
    pub local_experts: usize,
    /// Inner width of an expert.
    pub intermediate: usize,
    /// Vocabulary.
    pub vocabulary: usize,
    /// Bytes of a KV row.
    pub kv_row: usize,
    /// Tokens that every served session shares in front of what our session holds: instructions and tools.
    pub preamble_tokens: u32,
    /// Served tokens for each of our session's tokens.
    pub tokens_per_token: u32,
}

impl ServedShape {
    /// DeepSeek-V4-Flash (dsv4.md 1.1), experts spread over four GPUs.
    pub const FLASH: Self = Self {
        hidden: 4096,
        streams: 4,
        query: 64 * 512,
        head: 512,
        q_lora_rank: 1024,
        o_lora: 8 * 1024,
        index_query: 64 * 128,
        index_heads: 64,
        index_head: 128,
        index_topk: 512,
        window: 128,
        local_experts: 64,
        intermediate: 2048,
        vocabulary: 129_280,
        kv_row: 584,
        preamble_tokens: 512,
        tokens_per_token: 2,
    };

    /// Served tokens of a session that holds `tokens` of ours.
    pub fn context(&self, tokens: u32) -> u32 {
        self.preamble_tokens + tokens * self.tokens_per_token
    }

    /// Served bytes that a session's pages take over all layers (dsv4.md 7.2: full pages and one sliding-window page).
    pub fn session_bytes(&self, tokens: u32) -> f64 {
        f64::from(self.context(tokens)) * 3_899.0 + 6_439_680.0
    }
}

/// Cache key of the index keys of layer `layer`, counted from 0.
pub(super) fn index_pool_key(layer: u64) -> u64 {
    LayerCosts { shape: &ServedShape::FLASH, layer: layer + 1 }.key(Data::Pool(INDEX_KEYS))
}

/// Number of the index keys among a layer's pools.
pub(super) const INDEX_KEYS: u8 = 2;

/// Costs of one layer's nodes. Keys tell the cache which bytes are the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerCosts<'a> {
    /// The served shape.
    pub shape: &'a ServedShape,
    /// Layer number, from 1; 0 is what belongs to no layer.
    pub layer: u64,
}

/// What is touched, within a layer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data {
    /// A weight, by number.
    Weight(u8),
    /// An activation, by number; activations of all layers share one place, as pool memory is reused.
    Activation(u8),
    /// A pool of this layer, by number.
    Pool(u8),
}

impl LayerCosts<'_> {
    fn key(&self, data: Data) -> u64 {
        match data {
            Data::Weight(number) => self.layer << 16 | u64::from(number),
            Data::Activation(number) => 1 << 32 | u64::from(number),
            Data::Pool(number) => 2 << 32 | self.layer << 16 | u64::from(number),
        }
    }

    /// A touch of `data`.
    pub(super) fn touch(&self, data: Data, extent: Extent, write: bool) -> Touch {
        Touch { key: self.key(data), extent, write }
    }

    /// A dense product with weights of `bits` bits; activations are bf16.
    pub(super) fn product(&self, weight: u8, from: u8, to: u8, inputs: usize, outputs: usize, bits: usize) -> Cost {
        Cost {
            fixed_us: PRODUCT_FIXED_US,
            flops_per_row: 2.0 * inputs as f64 * outputs as f64,
            touches: vec![
                self.touch(Data::Weight(weight), Extent::Bytes((inputs * outputs * bits / 8) as f64), false),
                self.touch(Data::Activation(from), Extent::PerRow(inputs as f64 * 2.0), false),
                self.touch(Data::Activation(to), Extent::PerRow(outputs as f64 * 2.0), true),
            ],
            tiles: Tiles::Fixed(outputs.div_ceil(PRODUCT_TILE_COLUMNS) as u32),
            ..Cost::default()
        }
    }

    /// An element-wise kernel, one block a row.
    pub(super) fn elementwise(&self, from: u8, to: u8, inputs: usize, outputs: usize) -> Cost {
        Cost {
            fixed_us: ELEMENTWISE_FIXED_US,
            touches: vec![
                self.touch(Data::Activation(from), Extent::PerRow(inputs as f64 * 2.0), false),
                self.touch(Data::Activation(to), Extent::PerRow(outputs as f64 * 2.0), true),
            ],
            ..Cost::default()
        }
    }

    /// A kernel that also stores `bytes` a row to a pool.
    pub(super) fn store(&self, from: u8, inputs: usize, pool: u8, bytes: usize) -> Cost {
        Cost {
            fixed_us: ELEMENTWISE_FIXED_US,
            touches: vec![
                self.touch(Data::Activation(from), Extent::PerRow(inputs as f64 * 2.0), false),
                self.touch(Data::Pool(pool), Extent::PerRow(bytes as f64), true),
            ],
            ..Cost::default()
        }
    }

    /// Index scores: reads every visible key of every row.
    pub(super) fn index_logits(&self, format: IndexFormat, query: u8, logits: u8, pool: u8) -> Cost {
        let key_bytes = match format {
            IndexFormat::Fp8 => self.shape.index_head + 4,
            IndexFormat::Bf16 => self.shape.index_head * 2,
            IndexFormat::F32 => self.shape.index_head * 4,
        };
        Cost {
            fixed_us: PRODUCT_FIXED_US,
            touches: vec![
                self.touch(Data::Activation(query), Extent::PerRow(self.shape.index_query as f64 * 2.0), false),
                self.touch(Data::Pool(pool), Extent::PerRatio4Entry(key_bytes as f64), false),
                self.touch(Data::Activation(logits), Extent::PerRatio4Entry(4.0), true),
            ],
            ..Cost::default()
        }
    }

    /// Selection from the scores.
    pub(super) fn top_k(&self, logits: u8, selected: u8) -> Cost {
        Cost {
            fixed_us: TOP_K_FIXED_US,
            block_us: TOP_K_BLOCK_US,
            touches: vec![
                self.touch(Data::Activation(logits), Extent::PerRatio4Entry(4.0), false),
                self.touch(Data::Activation(selected), Extent::PerRow(self.shape.index_topk as f64 * 4.0), true),
            ],
            ..Cost::default()
        }
    }

    /// Sparse attention over the window and `entries`.
    pub(super) fn attention(&self, query: u8, output: u8, window_pool: u8, entries: Option<(u8, Extent)>) -> Cost {
        let window = (self.shape.window * self.shape.kv_row) as f64;
        let mut touches = vec![
            self.touch(Data::Activation(query), Extent::PerRow(self.shape.query as f64 * 2.0), false),
            self.touch(Data::Pool(window_pool), Extent::PerRow(window), false),
            self.touch(Data::Activation(output), Extent::PerRow(self.shape.query as f64 * 2.0), true),
        ];
        touches.extend(entries.map(|(pool, extent)| self.touch(Data::Pool(pool), extent, false)));
        Cost { fixed_us: ATTENTION_FIXED_US, touches, ..Cost::default() }
    }

    /// The routed experts of this GPU: at decode batches nearly all of them are visited.
    pub(super) fn experts(&self, weight: u8, from: u8, to: u8) -> Cost {
        let shape = self.shape;
        let weights = shape.local_experts * 3 * shape.hidden * shape.intermediate / 2;
        Cost {
            fixed_us: 4.0,
            flops_per_row: 6.0 / 4.0 * 2.0 * 3.0 * shape.hidden as f64 * shape.intermediate as f64,
            touches: vec![
                self.touch(Data::Weight(weight), Extent::Bytes(weights as f64), false),
                self.touch(Data::Activation(from), Extent::PerRow(shape.hidden as f64 * 2.0), false),
                self.touch(Data::Activation(to), Extent::PerRow(shape.hidden as f64 * 2.0), true),
            ],
            tiles: Tiles::Fixed(264),
            ..Cost::default()
        }
    }
}
