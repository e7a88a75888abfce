//! How much of what a target says is kept. Peers are hostile, so there is a limit to everything.

/// Steps of spans and step records that are kept.
pub const WINDOW_STEPS: usize = 512;
/// Spans that are kept, over all steps of the window (24 bytes each).
pub const WINDOW_SPANS: usize = 2_000_000;
/// Divergences that are kept.
pub const DIVERGENCES: usize = 8_192;
/// Log lines that are kept.
pub const LOG_LINES: usize = 1_000;
/// Sessions that are kept in all. Running ones are never dropped for others; beyond the limit new ones are refused.
pub const SESSIONS: usize = 4_096;
/// Finished sessions that are kept beside the running ones: clean ones are dropped first, then those that
/// only diverged, and corrupt ones last.
pub const FINISHED_SESSIONS: usize = 512;
/// Flags of one session whose texts are kept; later ones are only counted.
pub const FLAGS_PER_SESSION: usize = 16;
/// Largest batch whose slots and rows are told apart.
pub const LARGEST_BATCH: usize = 4_096;
/// Graphs that are kept; the lowest identity goes first.
pub const GRAPHS: usize = 256;
/// Nodes that are kept, over all graphs.
pub const GRAPH_NODES: usize = 262_144;
/// Hazards that are kept.
pub const HAZARDS: usize = 4_096;
/// Host metrics that are kept.
pub const METRICS: usize = 1_024;
/// Layers of a [`crate::Hello`] that are kept.
pub const LAYERS: usize = 1_024;
/// Pools of a [`crate::Hello`] that are kept.
pub const POOLS: usize = 4_096;
/// Lanes of a [`crate::Hello`] that are kept: all that [`crate::Span::lane`] can name.
pub const LANES: usize = 256;
/// Pages whose last write is kept, over all pools (8 bytes each); a pool that would exceed it has none.
pub const CANARY_PAGES: usize = 4_194_304;
/// Pages of one list of a canary report that are looked at.
pub const REPORT_PAGES: usize = 262_144;
/// Canary violations that are kept.
pub const CANARY_VIOLATIONS: usize = 4_096;
/// Characters of a node's, lane's, pool's or metric's name that are kept.
pub const NAME_CHARACTERS: usize = 128;
/// Characters of a session's call and of a flag's texts that are kept.
pub const CALL_CHARACTERS: usize = 512;
