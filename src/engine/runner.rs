//! The decode runner: buckets, captured graphs, eager lists, the step oracle; and prefill.

use std::collections::BTreeMap;
use std::sync::Arc;

use coalmine_kernels::operators::{IndexFormat, KvFormat, Tensor};
use coalmine_kernels::virtual_gpu::{Conditions, CostProfile, Foreign, Load, NodeTime, Prepared, VirtualGpu, Witness};
use coalmine_kernels::{ByteRange, Compute, Graph, Memory, PoolAllocator, Recorder};
use coalmine_sessions::{IndexK, KvRows, Padding};

use super::buffers::Buffers;
use super::forward::{Pass, RacePair};
use super::model::Model;
use super::pools::{Formats, Holding, PoolSizes, Pools};
use super::served::ServedShape;
use super::verify::largest_difference;
use super::write_set::{Written, written_by_padding, written_by_row};

/// Most tokens of one prefill pass; a longer prompt takes several.
pub const PREFILL_ROWS: usize = 512;

/// Sizes and modes that a runner is built for.
#[derive(Clone, Copy, Debug)]
pub struct RunnerShape {
    /// Most rows of a decode step.
    pub rows: usize,
    /// Pools of the decode side.
    pub sizes: PoolSizes,
    /// Row formats.
    pub formats: Formats,
    /// Most rows for which the branches of a layer overlap: 64 on Hopper, 128 on Blackwell.
    pub overlap_rows: usize,
}

/// A factor on the cost of every node whose name contains a text, to ask what a figure hangs on.
#[derive(Clone, Debug, PartialEq)]
pub struct CostFactor {
    /// What the name contains, for example `indexer top-k`.
    pub node: String,
    /// The factor.
    pub factor: f64,
}

/// What a decode step runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepModes {
    /// Replay a captured graph.
    pub captured: bool,
    /// Overlap the branches (a captured step only, and within the row limit).
    pub overlap: bool,
    /// What padded rows do.
    pub padding: Padding,
    /// Trace every node.
    pub tracing: bool,
    /// Delay of the main lane before W, ns.
    pub nudge_main_ns: u32,
    /// Delay of the indexer lane before R, ns.
    pub nudge_indexer_ns: u32,
    /// Run the step oracle beside the step.
    pub oracle: bool,
}

/// One row of a decode step.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The token to feed.
    pub token: u32,
    /// Its position in the sequence.
    pub position: usize,
    /// Where the sequence lies.
    pub holding: &'a Holding,
}

/// A row that differed from the oracle's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowDivergence {
    /// The row.
    pub row: usize,
    /// First layer whose output or selection differed.
    pub first_layer: Option<usize>,
    /// Largest absolute difference of a logit.
    pub largest: f32,
    /// Whether another token was chosen.
    pub flipped: bool,
}

/// A list of nodes that the runner can run.
#[derive(Debug)]
pub struct Captured {
    /// Identity within the runner.
    pub id: u32,
    /// The nodes.
    pub prepared: Prepared,
    /// R and W of each ratio-4 layer.
    pub races: Vec<RacePair>,
}

/// What a decode step did.
#[derive(Debug, Default)]
pub struct StepOutcome {
    /// The token chosen for each row.
    pub tokens: Vec<u32>,
    /// Rows after padding.
    pub bucket: usize,
    /// Whether a captured graph ran.
    pub captured: bool,
    /// Whether its branches overlapped.
    pub overlapped: bool,
    /// Identity of the node list.
    pub graph: u32,
    /// Device clock at the start, us.
    pub start_us: f64,
    /// Length, us.
    pub duration_us: f64,
    /// Times of its nodes, from the start.
    pub nodes: Vec<NodeTime>,
    /// Races that the device recorded.
    pub witnesses: Vec<Witness>,
    /// Rows that differed from the oracle's.
    pub divergences: Vec<RowDivergence>,
    /// Bytes of the pools that the step declared to write.
    pub written: Vec<Written>,
}

/// Which pools a prefill fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The prefill side's own, one sequence at a time.
    Prefill,
    /// The decode side's, in place.
    Decode,
}

/// Runs decode steps and prefills of one model on one device.
#[derive(Debug)]
pub struct Runner {
    /// The device.
    pub gpu: VirtualGpu,
    /// The decode side's pools.
    pub pools: Pools,
    /// The prefill side's pools.
    pub prefill_pools: Pools,
    model: Arc<Model>,
    served: ServedShape,
    shape: RunnerShape,
    buffers: Buffers,
    oracle_buffers: Buffers,
    prefill_buffers: [Buffers; 2],
    buckets: Vec<usize>,
    graph_pool: PoolAllocator,
    eager_pool: PoolAllocator,
    graphs: BTreeMap<(usize, bool), Captured>,
    eager: BTreeMap<usize, Captured>,
    oracles: BTreeMap<usize, Captured>,
    next_id: u32,
    costs: Vec<CostFactor>,
    load: Load,
    saved: Vec<u8>,
    outcome: StepOutcome,
}

/// Upstream's bucket sizes without speculation: 1, 2, 4, 8, 12, then by 8 to 256, by 16 to 511, by 32 (dsv4.md 2.7).
pub fn buckets(rows: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> = [1, 2, 4, 8, 12]
        .into_iter()
        .chain((16..=256).step_by(8))
        .chain((272..512).step_by(16))
        .chain((512..).step_by(32).take_while(|size| *size < rows + 32))
        .take_while(|size| *size < rows)
        .collect();
    sizes.push(rows);
    sizes
}

/// The device's format of a toggle's value.
pub fn index_format(value: IndexK) -> IndexFormat {
    match value {
        IndexK::Bf16 => IndexFormat::Bf16,
        IndexK::Fp8 => IndexFormat::Fp8,
        IndexK::F32 => IndexFormat::F32,
    }
}

/// The device's format of a toggle's value.
pub fn kv_format(value: KvRows) -> KvFormat {
    match value {
        KvRows::Fp8 => KvFormat::Fp8,
        KvRows::F32 => KvFormat::F32,
    }
}

impl Runner {
    /// A runner with all graphs captured, largest bucket first; node lists are numbered from `first_id`.
    pub fn new(
        model: Arc<Model>,
        profile: CostProfile,
        served: ServedShape,
        seed: u64,
        compute: Compute,
        shape: RunnerShape,
        costs: &[CostFactor],
        first_id: u32,
    ) -> Self {
        let mut gpu = VirtualGpu::new(profile, seed, compute);
        let config = &model.config;
        let memory = &mut gpu.memory;
        let pools = Pools::new(memory, config, shape.sizes, shape.formats);
        let prefill_sizes = PoolSizes::for_sessions(1, shape.sizes.context);
        let prefill_pools = Pools::new(memory, config, prefill_sizes, shape.formats);
        let buffers = Buffers::new(memory, config, &pools, shape.rows);
        let oracle_buffers = Buffers::new(memory, config, &pools, shape.rows);
        let prefill_rows = PREFILL_ROWS.min(shape.sizes.context);
        let prefill_buffers = [
            Buffers::new(memory, config, &prefill_pools, prefill_rows),
            Buffers::new(memory, config, &pools, prefill_rows),
        ];
        let mut runner = Self {
            gpu,
            pools,
            prefill_pools,
            model,
            served,
            shape,
            buffers,
            oracle_buffers,
            prefill_buffers,
            buckets: buckets(shape.rows),
            graph_pool: PoolAllocator::default(),
            eager_pool: PoolAllocator::default(),
            graphs: BTreeMap::new(),
            eager: BTreeMap::new(),
            oracles: BTreeMap::new(),
            next_id: first_id,
            costs: costs.to_vec(),
            load: Load::default(),
            saved: Vec::new(),
            outcome: StepOutcome::default(),
        };
        for bucket in runner.buckets.clone().into_iter().rev() {
            for overlap in [true, false] {
                if !overlap || bucket <= shape.overlap_rows {
                    let captured = runner.capture(bucket, overlap);
                    runner.graphs.insert((bucket, overlap), captured);
                }
            }
        }
        runner
    }

    fn pass<'a>(
        model: &'a Model,
        pools: &'a Pools,
        buffers: &'a Buffers,
        served: &'a ServedShape,
        margin_us: f64,
    ) -> Pass<'a> {
        Pass { model, pools, buffers, served, margin_us }
    }

    fn capture(&mut self, bucket: usize, overlap: bool) -> Captured {
        let label = format!("bucket {bucket}, overlap {}", if overlap { "on" } else { "off" });
        let margin_us = self.gpu.profile().incident_margin_us;
        let buffers = self.buffers.first(bucket);
        let mut recorder = Recorder::new(label, bucket, !overlap, &mut self.graph_pool, &mut self.gpu.memory);
        let races = Self::pass(&self.model, &self.pools, &buffers, &self.served, margin_us).record(&mut recorder);
        let mut graph = recorder.finish();
        scale_costs(&mut graph, &self.costs);
        let prepared = Prepared::new(graph);
        Captured { id: self.take_id(), prepared, races }
    }

    /// A list on one lane, over `pools`.
    fn list(&mut self, label: String, buffers: &Buffers, side: Side) -> (Prepared, Vec<RacePair>) {
        let margin_us = self.gpu.profile().incident_margin_us;
        let pools = match side {
            Side::Prefill => &self.prefill_pools,
            Side::Decode => &self.pools,
        };
        let mut recorder = Recorder::new(label, buffers.rows, true, &mut self.eager_pool, &mut self.gpu.memory);
        let races = Self::pass(&self.model, pools, buffers, &self.served, margin_us).record(&mut recorder);
        let mut graph = recorder.finish();
        scale_costs(&mut graph, &self.costs);
        (Prepared::on_one_lane(graph), races)
    }

    fn take_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The served shape.
    pub fn served(&self) -> &ServedShape {
        &self.served
    }

    /// The sizes and modes that this runner was built for.
    pub fn shape(&self) -> &RunnerShape {
        &self.shape
    }

    /// The identity that the next node list will get; a runner that replaces this one starts there.
    pub fn next_id(&self) -> u32 {
        self.next_id
    }

    /// The layers that have index keys.
    pub fn index_layers(&self) -> impl Iterator<Item = u64> + '_ {
        (0..).zip(&self.pools.layers).filter(|(_, pools)| pools.index.is_some()).map(|(layer, _)| layer)
    }

    /// The captured graphs and the eager lists made so far.
    pub fn captured(&self) -> impl Iterator<Item = &Captured> {
        self.graphs.values().chain(self.eager.values())
    }

    /// A captured graph or eager list by identity.
    pub fn graph(&self, id: u32) -> Option<&Captured> {
        self.captured().find(|captured| captured.id == id)
    }

    /// Computes the prompt tokens `tokens`, which start at position `from` of the sequence at
    /// `holding`, and calls `each` with the buffers after each pass and its first token's number.
    /// Returns the token that the last one predicts.
    pub fn prefill(
        &mut self,
        side: Side,
        holding: &Holding,
        tokens: &[u32],
        from: usize,
        chunk: usize,
        mut each: impl FnMut(&Memory, &Buffers, usize),
    ) -> u32 {
        let all = self.prefill_buffers[usize::from(side == Side::Decode)].clone();
        let chunk = chunk.clamp(1, all.rows);
        let mut next = 0;
        for (number, part) in tokens.chunks(chunk).enumerate() {
            let first = number * chunk;
            let buffers = all.first(part.len());
            let pools = if side == Side::Prefill { &self.prefill_pools } else { &self.pools };
            pools.map(&mut self.gpu.memory, holding, from + first, from + first + part.len());
            let memory = &mut self.gpu.memory;
            for (index, token) in part.iter().enumerate() {
                let position = from + first + index;
                set(memory, buffers.raw.input_ids, index, *token as i32);
                set(memory, buffers.raw.req_pool_indices, index, holding.request as i32);
                set(memory, buffers.raw.seq_lens, index, position as i32 + 1);
                set(memory, buffers.raw.out_cache_loc, index, holding.slot(position) as i32);
            }
            let (prepared, _) = self.list(String::new(), &buffers, side);
            self.gpu.run_in_order(&prepared);
            each(&self.gpu.memory, &buffers, first);
            if let Some(last) = self.gpu.memory.slice::<i32>(buffers.tokens.range).last() {
                next = (*last).max(0) as u32;
            }
        }
        next
    }

    /// Runs one decode step. `foreign` is what else uses the device meanwhile; `around` is called
    /// with the memory and the declared writes before and after the step proper.
    pub fn decode(
        &mut self,
        step: u64,
        rows: &[Row<'_>],
        modes: StepModes,
        foreign: &[Foreign],
        mut around: impl FnMut(&Memory, &Pools, &[Written], Moment),
    ) -> &StepOutcome {
        let count = rows.len();
        let bucket = match self.buckets.iter().find(|bucket| **bucket >= count) {
            Some(bucket) if modes.captured => *bucket,
            _ => count,
        };
        let overlap = modes.captured && modes.overlap && bucket <= self.shape.overlap_rows;
        self.write_inputs(rows, bucket, modes.padding);
        self.outcome.written.clear();
        for row in rows {
            written_by_row(&self.pools, row.holding, row.position, &mut self.outcome.written);
        }
        let real = self.outcome.written.len();
        if modes.oracle {
            self.run_oracle(rows, real);
        }
        if bucket > count && modes.padding != Padding::Skip {
            written_by_padding(&self.pools, &mut self.outcome.written);
        }
        if !modes.captured && !self.eager.contains_key(&count) {
            let buffers = self.buffers.first(count);
            let (prepared, races) = self.list(format!("eager, {count} rows"), &buffers, Side::Decode);
            let captured = Captured { id: self.take_id(), prepared, races };
            self.eager.insert(count, captured);
        }
        self.load.context.clear();
        self.load.context.extend(rows.iter().map(|row| self.served.context(row.position as u32 + 1)));
        self.load.context.resize(bucket, 1);
        let key = (bucket, overlap);
        let captured = if modes.captured { self.graphs.get(&key) } else { self.eager.get(&count) };
        // Every bucket was captured in `new`, in each variant that its row count allows.
        let captured = captured.expect("a graph exists for every bucket");
        let mut delays = Vec::new();
        for race in &captured.races {
            delays.push((race.writer, f64::from(modes.nudge_main_ns) / 1e3));
            delays.push((race.reader, f64::from(modes.nudge_indexer_ns) / 1e3));
        }
        delays.retain(|(_, delay)| *delay > 0.0);
        around(&self.gpu.memory, &self.pools, &self.outcome.written, Moment::Before);
        let replay = self.gpu.replay(
            &captured.prepared,
            &Conditions {
                step,
                load: &self.load,
                eager: !modes.captured,
                tracing: modes.tracing,
                delays: &delays,
                before: &[],
                foreign,
            },
        );
        let outcome = &mut self.outcome;
        outcome.bucket = bucket;
        outcome.captured = modes.captured;
        outcome.overlapped = overlap;
        outcome.graph = captured.id;
        outcome.start_us = replay.start_us;
        outcome.duration_us = replay.timeline.end_us;
        outcome.nodes.clear();
        outcome.nodes.extend_from_slice(&replay.timeline.nodes);
        outcome.witnesses.clear();
        outcome.witnesses.extend_from_slice(replay.witnesses);
        around(&self.gpu.memory, &self.pools, &outcome.written, Moment::After);
        let tokens = self.gpu.memory.slice::<i32>(self.buffers.tokens.range);
        outcome.tokens.clear();
        outcome.tokens.extend(tokens[..count].iter().map(|token| (*token).max(0) as u32));
        outcome.divergences.clear();
        if modes.oracle {
            compare(&self.gpu.memory, &self.buffers, &self.oracle_buffers, count, &mut outcome.divergences);
        }
        outcome
    }

    /// The logits of the last decode step's rows.
    pub fn logits(&self) -> &[f32] {
        self.gpu.memory.slice(self.buffers.logits.range)
    }

    /// The selections of the last decode step's rows in a ratio-4 layer.
    pub fn selections(&self, layer: usize) -> Option<&[i32]> {
        self.buffers.selections[layer].map(|tensor| self.gpu.memory.slice(tensor.range))
    }

    fn write_inputs(&mut self, rows: &[Row<'_>], bucket: usize, padding: Padding) {
        let memory = &mut self.gpu.memory;
        for (index, row) in rows.iter().enumerate() {
            self.pools.map(memory, row.holding, row.position, row.position + 1);
            for raw in [self.buffers.raw, self.oracle_buffers.raw] {
                set(memory, raw.input_ids, index, row.token as i32);
                set(memory, raw.req_pool_indices, index, row.holding.request as i32);
                set(memory, raw.seq_lens, index, row.position as i32 + 1);
                set(memory, raw.out_cache_loc, index, row.holding.slot(row.position) as i32);
            }
        }
        // input_ids keep the tail of the step before, as upstream's registry does (dsv4.md 2.8).
        let raw = self.buffers.raw;
        for index in rows.len()..bucket {
            set(memory, raw.req_pool_indices, index, 0);
            set(memory, raw.seq_lens, index, 1);
            match padding {
                Padding::Sentinel => set(memory, raw.out_cache_loc, index, 0),
                Padding::Skip => set(memory, raw.out_cache_loc, index, -1),
                Padding::Scatter => {}
            }
        }
    }

    /// The same rows on the same state through the one-lane list; then what it wrote is put back.
    fn run_oracle(&mut self, rows: &[Row<'_>], real: usize) {
        let count = rows.len();
        if !self.oracles.contains_key(&count) {
            let buffers = self.oracle_buffers.first(count);
            let (prepared, races) = self.list(format!("oracle, {count} rows"), &buffers, Side::Decode);
            let captured = Captured { id: u32::MAX, prepared, races };
            self.oracles.insert(count, captured);
        }
        self.saved.clear();
        for written in &self.outcome.written[..real] {
            self.saved.extend_from_slice(self.gpu.memory.bytes(written.range));
        }
        if let Some(oracle) = self.oracles.get(&count) {
            self.gpu.run_in_order(&oracle.prepared);
        }
        let mut at = 0;
        for written in &self.outcome.written[..real] {
            let range = written.range;
            self.gpu.memory.bytes_mut(range).copy_from_slice(&self.saved[at..at + range.length]);
            at += range.length;
        }
    }
}

/// Before or after a step proper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Inputs are written, the oracle has run, the step has not.
    Before,
    /// The step has run.
    After,
}

fn scale_costs(graph: &mut Graph, costs: &[CostFactor]) {
    for node in &mut graph.nodes {
        for cost in costs.iter().filter(|cost| node.name.contains(&cost.node)) {
            node.cost.scale(cost.factor);
        }
    }
}

fn set(memory: &mut Memory, column: Tensor, row: usize, value: i32) {
    memory.slice_mut::<i32>(column.range.part(row * 4, 4))[0] = value;
}

fn row_range(tensor: Tensor, row: usize) -> ByteRange {
    tensor.range.part(row * tensor.stride(), tensor.stride())
}

fn compare(memory: &Memory, served: &Buffers, oracle: &Buffers, rows: usize, divergences: &mut Vec<RowDivergence>) {
    let equal = |a: Tensor, b: Tensor, row| memory.bytes(row_range(a, row)) == memory.bytes(row_range(b, row));
    for row in 0..rows {
        if equal(served.logits, oracle.logits, row) {
            continue;
        }
        let layers = served.streams.len() - 1;
        let first_layer = (0..layers).find(|&layer| !equal(served.streams[layer + 1], oracle.streams[layer + 1], row));
        let logits = |buffers: &Buffers| memory.slice::<f32>(row_range(buffers.logits, row));
        let largest = largest_difference(logits(served), logits(oracle));
        let token = |buffers: &Buffers| memory.slice::<i32>(buffers.tokens.range)[row];
        divergences.push(RowDivergence { row, first_layer, largest, flipped: token(served) != token(oracle) });
    }
}
