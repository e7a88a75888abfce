//! What things cost on a named card.

/// Times, bandwidths and noise of one card.
///
/// Sources are named at each constant. *Measured* means seen on one H200 (driver 580, CUDA 13.0) with the
/// programs whose results the project's notes hold; *fitted* means chosen so that the simulator repeats
/// such a measurement (`timing/calibration.rs` holds the comparison); *published* means the vendor's data.
#[derive(Clone, Debug, PartialEq)]
pub struct CostProfile {
    /// The card's name.
    pub name: String,

    /// Memory bandwidth, bytes/us. Measured: a device copy moves 4.3 TB/s, reads and writes together.
    pub memory_bytes_per_us: f64,
    /// How often the transfer time of a displaced dirty byte is paid by the kernel that displaces it. Fitted:
    /// a clone of 64 MiB before a replay holds the lane that reads 4 MB more up by 0.68 us.
    pub write_back_weight: f64,
    /// Bandwidth of second-level cache hits, bytes/us. Fitted, with `queueing_share`, to how a row's chance
    /// falls with the batch, measured as 1e-3 at 80 rows, 6e-6 at 32, none at 8 and 1; it falls too little here.
    pub cache_bytes_per_us: f64,
    /// Usable bytes of the second-level cache, a multiple of 2^20. Published: 60 MB.
    pub cache_bytes: u64,
    /// Bytes/us that one block pulls when it works through a row of its own. Fitted to the served index
    /// reader: 0.5 us for 64 entries of 256 bytes, at 80 rows of 600 to 1,100 entries.
    pub block_bytes_per_us: f64,
    /// Share of the transfer time of all row blocks together that each of them waits on top of its own
    /// time: what makes a row slower in a larger batch. Fitted, see `cache_bytes_per_us`.
    pub queueing_share: f64,
    /// Floating-point operations in a us. Published: 989 Tflop/s dense bf16, of which kernels reach some 60%.
    pub flops_per_us: f64,
    /// Blocks that run at one time. Published: 132 multiprocessors.
    pub slots: u32,

    /// Time between a node's end and the start of its follower on the same lane, inside a graph, us.
    /// Measured: a stamp kernel in a captured chain costs 0.9 us.
    pub gap_us: f64,
    /// The same across lanes, us. Assumed, as in the model that the incident was first repeated with.
    pub cross_gap_us: f64,
    /// Shortest gap that noise leaves, us.
    pub least_gap_us: f64,
    /// Standard deviation of a gap, us. Fitted: the race between spins fades within some 0.2 us. What makes
    /// real kernels noisier is their memory, below.
    pub gap_sigma_us: f64,
    /// Standard deviation of the time that a node spends on bytes and arithmetic, relative. Assumed: 2%.
    pub kernel_sigma: f64,
    /// Standard deviation of the time that a node waits for memory, us, for a node that moves bytes for
    /// `memory_reference_us` or longer; below that it grows with the root of the time. Fitted, measured: the
    /// slack of a layer differs by 0.43 us between replays.
    pub memory_sigma_us: f64,
    /// See `memory_sigma_us`.
    pub memory_reference_us: f64,
    /// Standard deviation of a row block's start, us, for a block that works `tile_reference_us`; it grows
    /// with the root of that time up to there. Measured: rows of one replay differ by 0.30 us.
    pub tile_sigma_us: f64,
    /// Chance that a row block is held up for longer. Fitted to the rows hit in a bad replay.
    pub tile_tail_chance: f64,
    /// Mean of that delay (exponential), us, scaled like `tile_sigma_us`.
    pub tile_tail_us: f64,
    /// See `tile_sigma_us`. The blocks measured read 64 KiB each.
    pub tile_reference_us: f64,
    /// Share of a wave's time over which the blocks of a fixed grid land: its end. Assumed: a matrix
    /// product writes in its epilogue.
    pub landing_share: f64,
    /// Share of a node's fixed time that passes before its blocks read; the rest passes after.
    pub ramp_share: f64,

    /// Host's cost of launching a graph, before its first node, us.
    pub graph_launch_us: f64,
    /// Host's cost of launching one node eagerly, us. Fitted to the eager race: 94, 82, 7.5 and 0% at
    /// delays of 0, 4, 6 and 8 us.
    pub eager_launch_us: f64,
    /// Standard deviation of that, us. Fitted, as before.
    pub eager_launch_sigma_us: f64,
    /// What tracing adds to it, us. Fitted to the same race with CUPTI on: 9, 20, 0 and 0%.
    pub tracing_launch_us: f64,
    /// Host's cost of waiting for the device, us. Measured not to move the rate.
    pub host_sync_us: f64,
    /// Time that tracing adds before every node, us. Measured: CUPTI moves the race's curve by 0.3 us.
    pub tracing_node_us: f64,
    /// Time that tracing adds to a step besides, us. Measured: 10 us on a step of five nodes.
    pub tracing_step_us: f64,

    /// **The published constant of the incident**: the delay put before W (the q projection of ratio-4
    /// layers, which takes the address of the index path's transient T) so that the natural order, in which
    /// W overtakes the reader of T in every step, becomes a race. See docs/calibration.md for what else was chosen.
    pub incident_margin_us: f64,

    /// Copies of the server beside its steps.
    pub foreign: ForeignTraffic,
}

/// Traffic that the forward pass did not ask for: arriving pages, the next batch's preparation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForeignTraffic {
    /// Chance of a burst in a step.
    pub chance: f64,
    /// Bytes copied by a burst (read and written once each): mean of an exponential distribution.
    pub bytes: f64,
    /// Most bytes/us of a burst's reading and writing together, where a link limits it.
    pub most_bytes_per_us: f64,
}

impl CostProfile {
    /// An H200 in a server that decodes.
    pub fn h200() -> Self {
        let memory_bytes_per_us = 4.3e6;
        Self {
            name: "NVIDIA H200".to_owned(),
            memory_bytes_per_us,
            write_back_weight: 2.0,
            cache_bytes_per_us: 1.5 * memory_bytes_per_us,
            cache_bytes: 60 << 20,
            block_bytes_per_us: 50.0e3,
            queueing_share: 0.6,
            flops_per_us: 0.6 * 989.0e6,
            slots: 132,
            gap_us: 0.9,
            cross_gap_us: 1.4,
            least_gap_us: 0.2,
            gap_sigma_us: 0.04,
            kernel_sigma: 0.02,
            memory_sigma_us: 0.24,
            memory_reference_us: 1.0,
            tile_sigma_us: 0.28,
            tile_tail_chance: 0.06,
            tile_tail_us: 0.29,
            tile_reference_us: 1.3,
            landing_share: 0.15,
            ramp_share: 0.75,
            graph_launch_us: 6.0,
            eager_launch_us: 4.8,
            eager_launch_sigma_us: 0.55,
            tracing_launch_us: 1.0,
            host_sync_us: 8.0,
            tracing_node_us: 0.3,
            tracing_step_us: 8.5,
            incident_margin_us: 11.2,
            foreign: ForeignTraffic { chance: 0.05, bytes: 8.0 * 1_048_576.0, most_bytes_per_us: f64::INFINITY },
        }
    }
}

impl Default for CostProfile {
    fn default() -> Self {
        Self::h200()
    }
}
