//! What a captured graph looks like: nodes, lanes, edges, accesses and allocations, as data.

use std::sync::Arc;

use crate::{ByteRange, Operator};

/// A stream that nodes were captured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u8);

impl Lane {
    /// The stream that the forward pass runs on.
    pub const MAIN: Self = Self(0);
    /// KV norm, rotary and store; the shared expert.
    pub const KV: Self = Self(1);
    /// The core compressor.
    pub const COMPRESSOR: Self = Self(2);
    /// Index compressor, logits and top-k.
    pub const INDEXER: Self = Self(3);
    /// Index queries.
    pub const INDEXER_Q: Self = Self(4);
    /// Index head weights.
    pub const INDEXER_WEIGHTS: Self = Self(5);
    /// The host: launches, table writes, waits.
    pub const HOST: Self = Self(6);
    /// Copies that the forward pass did not ask for: transfers, the next batch's preparation, canaries.
    pub const FOREIGN: Self = Self(7);
    /// Names in the order of the lanes' numbers.
    pub const NAMES: [&'static str; 8] =
        ["main", "kv", "compressor", "indexer", "indexer-q", "indexer-weights", "host", "foreign"];

    /// Position in [`Lane::NAMES`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The lane's name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// Whether bytes are read, written or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Read only.
    Read,
    /// Written without being read.
    Write,
    /// Read, then written in place.
    ReadWrite,
}

impl Mode {
    /// Whether the access changes bytes.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// Whether the access looks at bytes.
    pub fn reads(self) -> bool {
        !matches!(self, Self::Write)
    }
}

/// How an access divides among the tiles of its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slicing {
    /// Every tile touches the whole range.
    Whole,
    /// Tile `i` touches `stride` bytes at `i * stride`.
    Rows {
        /// Bytes of one row.
        stride: usize,
    },
    /// Tile `i` touches, of every row of `stride` bytes, the `width` bytes at `i * width` (the last tile what is left).
    Columns {
        /// Bytes of one row.
        stride: usize,
        /// Bytes of one tile's share of a row.
        width: usize,
    },
    /// Which bytes a tile touches depends on data: [`Operator::resolve`] tells.
    Resolved {
        /// Parts a reading tile samples one after the other.
        chunks: u16,
    },
}

/// Bytes that an operator declares it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The bytes.
    pub range: ByteRange,
    /// What is done with them.
    pub mode: Mode,
    /// How tiles share them.
    pub slicing: Slicing,
}

/// What a cost depends on besides the captured row count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// A fixed number of bytes.
    Bytes(f64),
    /// So many bytes for every row.
    PerRow(f64),
    /// So many bytes for every ratio-4 entry visible to a row (at the served context length).
    PerRatio4Entry(f64),
    /// So many bytes for every ratio-128 entry visible to a row.
    PerRatio128Entry(f64),
}

/// Memory that a node touches, at the served shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touch {
    /// Identity for the cache: equal keys are the same bytes.
    pub key: u64,
    /// How much.
    pub extent: Extent,
    /// Whether it is written (the lines become dirty).
    pub write: bool,
}

/// What a node costs, at the shape of the served model (not of the loaded weights).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Time that does not shrink with bandwidth: ramp, tail, serial passes; us.
    pub fixed_us: f64,
    /// Time that the block of every row spends working on its row beside moving bytes (serial passes
    /// with barriers between them), reading as it goes; us. Only for one block a row.
    pub block_us: f64,
    /// Delay in the node's lane before it starts, on top of the usual gap; us.
    pub lead_us: f64,
    /// Floating-point operations for every row.
    pub flops_per_row: f64,
    /// Memory touched.
    pub touches: Vec<Touch>,
    /// Tiles of the served kernel (thread blocks); more than the device has slots means several waves.
    pub tiles: Tiles,
}

/// How a served kernel is cut into blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Tiles {
    /// One block a row.
    #[default]
    PerRow,
    /// A fixed number of blocks, each covering all rows.
    Fixed(u32),
}

impl Cost {
    /// Multiplies everything that the node itself takes: time, operations and bytes, but not its lead.
    pub fn scale(&mut self, factor: f64) {
        self.fixed_us *= factor;
        self.block_us *= factor;
        self.flops_per_row *= factor;
        for touch in &mut self.touches {
            match &mut touch.extent {
                Extent::Bytes(bytes)
                | Extent::PerRow(bytes)
                | Extent::PerRatio4Entry(bytes)
                | Extent::PerRatio128Entry(bytes) => *bytes *= factor,
            }
        }
    }
}

/// Position of a node in its graph, in launch order.
pub type NodeIndex = usize;

/// One kernel, copy or fill.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name with its layer, for example `L1 indexer top-k`.
    pub name: String,
    /// The lane it was captured on.
    pub lane: Lane,
    /// What runs.
    pub operator: Arc<dyn Operator>,
    /// What it costs.
    pub cost: Cost,
    /// Nodes that must have ended before it starts.
    pub after: Vec<NodeIndex>,
}

/// A block of the graph's memory pool in use between two points of the launch order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// What it was for.
    pub name: String,
    /// Its bytes.
    pub range: ByteRange,
    /// The lane whose free list it came from.
    pub lane: Lane,
    /// Nodes launched before it was allocated.
    pub born: NodeIndex,
    /// Nodes launched before it was freed.
    pub died: Option<NodeIndex>,
}

/// A captured graph (or the list of an eager pass, which is a graph on one lane).
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// One line that tells graphs apart.
    pub label: String,
    /// Rows it was captured for.
    pub rows: usize,
    /// Nodes in launch order; edges point backwards.
    pub nodes: Vec<Node>,
    /// Blocks of the pool, in order of birth.
    pub allocations: Vec<Allocation>,
}
