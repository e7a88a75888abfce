//! When the nodes of a graph run, and when their tiles read and write.
//!
//! An event-driven simulation in virtual time. A node starts once its predecessors have ended and a gap has
//! passed; what it costs follows from its bytes and from what the cache holds at that moment. Nodes and
//! foreign copies that run at the same time share the memory bandwidth: each is slowed in its memory-bound
//! share only, so progress is linear between two starts or ends. Blocks ("tiles") of a node have places in
//! its own undisturbed time, and through its progress in virtual time.

mod tiles;

#[cfg(test)]
mod calibration;
#[cfg(test)]
mod tests;

use super::{CostProfile, L2Cache, Noise, Purpose, Traffic};
use crate::{Extent, Graph, NodeIndex, Tiles};
use tiles::TilePlan;

/// What a step has to do, at the served shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Served tokens visible to each row launched; padded rows have 1.
    pub context: Vec<u32>,
}

/// When foreign work starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// Before the step: its first node waits for it.
    Before,
    /// So many us after the step's start, on a lane of its own.
    At(f64),
    /// After the step's last node: the next step waits for it.
    After,
}

/// Bytes of one buffer that foreign work reads or writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Identity for the cache, as in [`crate::Touch`].
    pub key: u64,
    /// How much.
    pub bytes: f64,
}

/// Work beside the graph that moves bytes: a transfer, a canary's scan or clone, the next batch's
/// preparation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foreign {
    /// When it starts.
    pub place: Place,
    /// What it reads.
    pub read: Option<Stream>,
    /// What it writes.
    pub write: Option<Stream>,
    /// Most bytes/us, read and written together, where a link limits it; otherwise infinite.
    pub most_bytes_per_us: f64,
}

impl Foreign {
    /// Reads a buffer.
    pub fn scan(place: Place, key: u64, bytes: f64) -> Self {
        let read = Some(Stream { key, bytes });
        Self { place, read, write: None, most_bytes_per_us: f64::INFINITY }
    }

    /// Writes a buffer.
    pub fn fill(place: Place, key: u64, bytes: f64) -> Self {
        let write = Some(Stream { key, bytes });
        Self { place, read: None, write, most_bytes_per_us: f64::INFINITY }
    }

    /// Copies a buffer to another.
    pub fn copy(place: Place, from: u64, to: u64, bytes: f64) -> Self {
        Self { write: Some(Stream { key: to, bytes }), ..Self::scan(place, from, bytes) }
    }
}

/// Circumstances of one run of a graph.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// The step, for noise.
    pub step: u64,
    /// What there is to do.
    pub load: &'a Load,
    /// Whether the host launches every node instead of one graph.
    pub eager: bool,
    /// Whether a profiler traces nodes.
    pub tracing: bool,
    /// Nudges: delays in a node's own lane before it starts, us.
    pub delays: &'a [(NodeIndex, f64)],
    /// Orders to force: the first must have ended before the second starts. One that contradicts the
    /// graph is dropped when it would stop everything; [`Timeline::dropped_orders`] counts those.
    pub before: &'a [(NodeIndex, NodeIndex)],
    /// Work beside the graph.
    pub foreign: &'a [Foreign],
}

impl<'a> Conditions<'a> {
    /// A captured run with nothing special about it.
    pub fn plain(step: u64, load: &'a Load) -> Self {
        Self { step, load, eager: false, tracing: false, delays: &[], before: &[], foreign: &[] }
    }
}

/// When something ran, us from the step's start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeTime {
    /// Start.
    pub start_us: f64,
    /// End: its last tile has landed.
    pub end_us: f64,
}

/// A node's rate of progress from a moment on.
#[derive(Clone, Copy, Debug)]
struct Segment {
    at_us: f64,
    done_us: f64,
    rate: f64,
    previous: u32,
}

const NONE: u32 = u32::MAX;

/// When everything of one run happened.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The graph's nodes.
    pub nodes: Vec<NodeTime>,
    /// The foreign work, in the order it was given.
    pub foreign: Vec<NodeTime>,
    /// What each node moved.
    pub traffic: Vec<Traffic>,
    /// When the host launched each node; empty unless eager.
    pub launched_us: Vec<f64>,
    /// When the last node had ended.
    pub nodes_end_us: f64,
    /// When the next step may begin.
    pub end_us: f64,
    /// Forced orders that contradicted the graph.
    pub dropped_orders: usize,
    plans: Vec<TilePlan>,
    latest: Vec<u32>,
    segments: Vec<Segment>,
    relative_context: Vec<f64>,
}

impl Timeline {
    /// When tile `tile` of `tiles` numeric tiles of a node samples chunk `chunk` of `chunks`, us.
    pub fn sample_us(&self, node: NodeIndex, tile: usize, tiles: usize, chunk: usize, chunks: usize) -> f64 {
        let plan = &self.plans[node];
        let done_us = plan.sample_us(plan.served(tile, tiles), chunk, chunks, &self.relative_context);
        self.at_us(node, done_us)
    }

    /// When the writes of tile `tile` of `tiles` numeric tiles of a node land, us.
    pub fn land_us(&self, node: NodeIndex, tile: usize, tiles: usize) -> f64 {
        let plan = &self.plans[node];
        let done_us = plan.land_us(plan.served(tile, tiles), &self.relative_context);
        self.at_us(node, done_us)
    }

    /// The moment at which a node had done so much of its undisturbed time.
    fn at_us(&self, node: NodeIndex, done_us: f64) -> f64 {
        let NodeTime { start_us, end_us } = self.nodes[node];
        let mut index = self.latest[node];
        while index != NONE {
            let segment = self.segments[index as usize];
            if segment.done_us <= done_us || segment.previous == NONE {
                let at_us = segment.at_us + (done_us - segment.done_us) / segment.rate;
                return at_us.clamp(start_us, end_us);
            }
            index = segment.previous;
        }
        end_us
    }

    fn clear(&mut self, nodes: usize, foreign: usize) {
        self.nodes.clear();
        self.nodes.resize(nodes, NodeTime::default());
        self.foreign.clear();
        self.foreign.resize(foreign, NodeTime::default());
        self.traffic.clear();
        self.traffic.resize(nodes, Traffic::default());
        self.launched_us.clear();
        self.nodes_end_us = 0.0;
        self.end_us = 0.0;
        self.dropped_orders = 0;
        self.plans.clear();
        self.plans.resize(nodes, TilePlan::default());
        self.latest.clear();
        self.latest.resize(nodes, NONE);
        self.segments.clear();
        self.relative_context.clear();
    }
}

/// What a load amounts to.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    rows: f64,
    ratio_4_entries: f64,
    ratio_128_entries: f64,
}

impl Totals {
    fn of(load: &Load) -> Self {
        let entries = |ratio: u32| load.context.iter().map(|&tokens| f64::from(tokens / ratio)).sum();
        Self { rows: load.context.len() as f64, ratio_4_entries: entries(4), ratio_128_entries: entries(128) }
    }

    fn bytes(self, extent: Extent) -> f64 {
        match extent {
            Extent::Bytes(bytes) => bytes,
            Extent::PerRow(bytes) => bytes * self.rows,
            Extent::PerRatio4Entry(bytes) => bytes * self.ratio_4_entries,
            Extent::PerRatio128Entry(bytes) => bytes * self.ratio_128_entries,
        }
    }
}

/// Something that runs: a node or, beyond the nodes, foreign work.
#[derive(Clone, Copy, Debug)]
struct Running {
    actor: usize,
    /// Undisturbed time in all.
    total_us: f64,
    /// Share of the undisturbed time in which it needs the whole memory bandwidth.
    demand: f64,
    at_us: f64,
    done_us: f64,
    rate: f64,
    end_us: f64,
}

/// What must still happen before a node starts.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    edges: u32,
    orders: u32,
    ready_us: f64,
    ordered_us: f64,
    delay_us: f64,
    queued: bool,
}

#[derive(Clone, Copy, Debug)]
struct Follower {
    node: NodeIndex,
    gap: Gap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    SameLane,
    CrossLane,
    Order,
}

/// Buffers kept between runs.
#[derive(Clone, Debug, Default)]
struct Scratch {
    pending: Vec<Pending>,
    edges: Vec<(NodeIndex, Follower)>,
    first_follower: Vec<usize>,
    followers: Vec<Follower>,
    waiting: Vec<(f64, usize)>,
    running: Vec<Running>,
}

/// A card in virtual time. Its cache keeps its contents from run to run.
#[derive(Clone, Debug)]
pub struct Simulator {
    profile: CostProfile,
    noise: Noise,
    cache: L2Cache,
    timeline: Timeline,
    scratch: Scratch,
}

impl Simulator {
    /// A card with an empty cache, and the seed of its noise.
    pub fn new(profile: CostProfile, seed: u64) -> Self {
        Self {
            cache: L2Cache::new(profile.cache_bytes),
            profile,
            noise: Noise::new(seed),
            timeline: Timeline::default(),
            scratch: Scratch::default(),
        }
    }

    /// The card.
    pub fn profile(&self) -> &CostProfile {
        &self.profile
    }

    /// The cache.
    pub fn cache(&self) -> &L2Cache {
        &self.cache
    }

    /// The cache, to be changed.
    pub fn cache_mut(&mut self) -> &mut L2Cache {
        &mut self.cache
    }

    /// The last run.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Adds the server's own traffic beside step `step`, spread over `span_us`.
    pub fn foreign_traffic(&self, step: u64, span_us: f64, traffic: &mut Vec<Foreign>) {
        let kind = self.profile.foreign;
        let draws = self.noise.draws(step, 0, Purpose::Arrival);
        if draws.uniform(0) < kind.chance {
            let bytes = draws.tail(2, 1.0, kind.bytes);
            traffic.push(Foreign {
                most_bytes_per_us: kind.most_bytes_per_us,
                ..Foreign::copy(Place::At(draws.uniform(1) * span_us), FOREIGN_KEYS, FOREIGN_KEYS + 1, bytes)
            });
        }
    }

    /// Runs a graph in virtual time.
    pub fn run(&mut self, graph: &Graph, conditions: &Conditions<'_>) -> &Timeline {
        let totals = Totals::of(conditions.load);
        self.timeline.clear(graph.nodes.len(), conditions.foreign.len());
        self.set_relative_context(conditions.load);
        self.connect(graph, conditions);
        let begin_us = self.run_in_line(conditions, |place| place == Place::Before, 0.0);
        self.queue_first(graph, conditions, begin_us);
        self.run_concurrently(graph, conditions, totals);
        let nodes_end_us = self.timeline.nodes.iter().map(|node| node.end_us).fold(begin_us, f64::max);
        self.timeline.nodes_end_us = nodes_end_us;
        let traced_us = nodes_end_us + if conditions.tracing { self.profile.tracing_step_us } else { 0.0 };
        self.timeline.end_us = self.run_in_line(conditions, |place| place == Place::After, traced_us);
        &self.timeline
    }

    /// Every row's context relative to the mean: a block works through its own row.
    fn set_relative_context(&mut self, load: &Load) {
        let sum: f64 = load.context.iter().map(|&tokens| f64::from(tokens)).sum();
        let scale = if sum > 0.0 { load.context.len() as f64 / sum } else { 0.0 };
        let relative = load.context.iter().map(|&tokens| f64::from(tokens) * scale);
        self.timeline.relative_context.extend(relative);
    }

    /// Lays out who follows whom. Lanes run in launch order, whatever the edges say.
    fn connect(&mut self, graph: &Graph, conditions: &Conditions<'_>) {
        let count = graph.nodes.len();
        let Scratch { pending, edges, first_follower, followers, .. } = &mut self.scratch;
        pending.clear();
        pending.resize(count, Pending::default());
        edges.clear();
        let mut last_of_lane = [None; 256];
        for (index, node) in graph.nodes.iter().enumerate() {
            let lane_before = last_of_lane[usize::from(node.lane.0)].replace(index);
            let unlisted = lane_before.filter(|before| !node.after.contains(before));
            for before in node.after.iter().copied().chain(unlisted) {
                debug_assert!(before < index, "edges point backwards");
                let gap = if graph.nodes[before].lane == node.lane { Gap::SameLane } else { Gap::CrossLane };
                edges.push((before, Follower { node: index, gap }));
                pending[index].edges += 1;
            }
        }
        for &(before, node) in conditions.before.iter().filter(|(before, node)| before != node) {
            edges.push((before, Follower { node, gap: Gap::Order }));
            pending[node].orders += 1;
        }
        for &(node, delay_us) in conditions.delays {
            pending[node].delay_us += delay_us.max(0.0);
        }
        // Counting sort by predecessor.
        first_follower.clear();
        first_follower.resize(count + 1, 0);
        for (before, _) in edges.iter() {
            first_follower[*before + 1] += 1;
        }
        for index in 0..count {
            first_follower[index + 1] += first_follower[index];
        }
        followers.clear();
        followers.resize(edges.len(), Follower { node: 0, gap: Gap::Order });
        for &(before, follower) in edges.iter().rev() {
            // The end of each predecessor's part moves down as the part fills, and comes to rest at its start.
            first_follower[before + 1] -= 1;
            followers[first_follower[before + 1]] = follower;
        }
        first_follower.rotate_left(1);
        first_follower[count] = edges.len();
    }

    /// Runs foreign work that holds the step up, piece after piece; returns when it is done.
    fn run_in_line(&mut self, conditions: &Conditions<'_>, chosen: impl Fn(Place) -> bool, mut now_us: f64) -> f64 {
        for (index, foreign) in conditions.foreign.iter().enumerate() {
            if chosen(foreign.place) {
                let end_us = now_us + self.serve_foreign(foreign).0;
                self.timeline.foreign[index] = NodeTime { start_us: now_us, end_us };
                now_us = end_us;
            }
        }
        now_us
    }

    /// Readies what depends on nothing, and sets the times at which the host launches.
    fn queue_first(&mut self, graph: &Graph, conditions: &Conditions<'_>, begin_us: f64) {
        let begin_us = begin_us + if conditions.eager { 0.0 } else { self.profile.graph_launch_us };
        if conditions.eager {
            let mut now_us = begin_us;
            for node in 0..graph.nodes.len() {
                let draw = self.noise.normal(conditions.step, node, 0, Purpose::Launch);
                let cost_us = self.profile.eager_launch_us + self.profile.eager_launch_sigma_us * draw;
                now_us += cost_us.max(0.5 * self.profile.eager_launch_us);
                if conditions.tracing {
                    now_us += self.profile.tracing_launch_us;
                }
                self.timeline.launched_us.push(now_us);
            }
        }
        for pending in &mut self.scratch.pending {
            pending.ready_us = begin_us;
        }
        self.scratch.waiting.clear();
        self.scratch.running.clear();
        for (index, foreign) in conditions.foreign.iter().enumerate() {
            if let Place::At(at_us) = foreign.place {
                self.scratch.waiting.push((at_us.max(0.0), graph.nodes.len() + index));
            }
        }
        for node in 0..graph.nodes.len() {
            self.queue_if_ready(graph, conditions, node);
        }
    }

    /// Queues a node whose predecessors have all ended.
    fn queue_if_ready(&mut self, graph: &Graph, conditions: &Conditions<'_>, node: NodeIndex) {
        let pending = &mut self.scratch.pending[node];
        if pending.edges > 0 || pending.orders > 0 || pending.queued {
            return;
        }
        pending.queued = true;
        let mut ready_us = pending.ready_us;
        if let Some(&launched_us) = self.timeline.launched_us.get(node) {
            ready_us = ready_us.max(launched_us);
        }
        ready_us += graph.nodes[node].cost.lead_us.max(0.0) + pending.delay_us;
        if conditions.tracing {
            ready_us += self.profile.tracing_node_us;
        }
        self.scratch.waiting.push((ready_us.max(pending.ordered_us), node));
    }

    /// The event loop: the next end or the next start, whichever comes first.
    fn run_concurrently(&mut self, graph: &Graph, conditions: &Conditions<'_>, totals: Totals) {
        loop {
            let start = earliest(self.scratch.waiting.iter().map(|&(at_us, actor)| (at_us, actor)));
            let end = earliest(self.scratch.running.iter().map(|running| (running.end_us, running.actor)));
            match (start, end) {
                (None, None) => {
                    if !self.drop_orders(graph, conditions) {
                        return;
                    }
                }
                (start, Some((index, end_us))) if start.is_none_or(|(_, start_us)| end_us <= start_us) => {
                    let running = self.scratch.running.swap_remove(index);
                    self.end(graph, conditions, running.actor, end_us);
                    self.share_bandwidth(graph.nodes.len(), end_us);
                }
                (Some((index, start_us)), _) => {
                    let (_, actor) = self.scratch.waiting.swap_remove(index);
                    self.start(graph, conditions, totals, actor, start_us);
                    self.share_bandwidth(graph.nodes.len(), start_us);
                }
                (None, Some(_)) => {}
            }
        }
    }

    /// Drops the forced orders of the first node that waits for nothing else; whether there was one.
    fn drop_orders(&mut self, graph: &Graph, conditions: &Conditions<'_>) -> bool {
        let blocked = self.scratch.pending.iter().position(|pending| pending.edges == 0 && pending.orders > 0);
        let Some(node) = blocked else { return false };
        self.timeline.dropped_orders += self.scratch.pending[node].orders as usize;
        self.scratch.pending[node].orders = 0;
        self.queue_if_ready(graph, conditions, node);
        true
    }

    fn start(&mut self, graph: &Graph, conditions: &Conditions<'_>, totals: Totals, actor: usize, now_us: f64) {
        let (total_us, demand) = if actor < graph.nodes.len() {
            self.timeline.nodes[actor].start_us = now_us;
            self.serve_node(graph, conditions, totals, actor)
        } else {
            let index = actor - graph.nodes.len();
            self.timeline.foreign[index].start_us = now_us;
            self.serve_foreign(&conditions.foreign[index])
        };
        // A rate of 0 marks it as new: whatever rate it gets begins its first segment.
        self.scratch.running.push(Running {
            actor,
            total_us,
            demand,
            at_us: now_us,
            done_us: 0.0,
            rate: 0.0,
            end_us: now_us + total_us,
        });
    }

    fn end(&mut self, graph: &Graph, conditions: &Conditions<'_>, actor: usize, now_us: f64) {
        if actor >= graph.nodes.len() {
            self.timeline.foreign[actor - graph.nodes.len()].end_us = now_us;
            return;
        }
        self.timeline.nodes[actor].end_us = now_us;
        let followers = self.scratch.first_follower[actor]..self.scratch.first_follower[actor + 1];
        for index in followers {
            let Follower { node, gap } = self.scratch.followers[index];
            let gap_us = match gap {
                Gap::SameLane => self.profile.gap_us,
                Gap::CrossLane => self.profile.cross_gap_us,
                Gap::Order => {
                    let pending = &mut self.scratch.pending[node];
                    pending.ordered_us = pending.ordered_us.max(now_us);
                    pending.orders = pending.orders.saturating_sub(1);
                    self.queue_if_ready(graph, conditions, node);
                    continue;
                }
            };
            let noise_us = self.profile.gap_sigma_us * self.noise.normal(conditions.step, node, 0, Purpose::Gap);
            let pending = &mut self.scratch.pending[node];
            let ready_us = now_us + (gap_us + noise_us).max(self.profile.least_gap_us);
            pending.ready_us = pending.ready_us.max(ready_us);
            pending.edges -= 1;
            self.queue_if_ready(graph, conditions, node);
        }
    }

    /// Gives every running actor its rate. One whose rate stays the same is left untouched, so that what
    /// happens elsewhere does not disturb even its rounding.
    fn share_bandwidth(&mut self, nodes: usize, now_us: f64) {
        let stretch = stretch(&self.scratch.running);
        for running in &mut self.scratch.running {
            let rate = 1.0 / (1.0 + running.demand * (stretch - 1.0));
            if rate == running.rate {
                continue;
            }
            running.done_us += (now_us - running.at_us) * running.rate;
            running.at_us = now_us;
            running.rate = rate;
            running.end_us = now_us + (running.total_us - running.done_us).max(0.0) / rate;
            if running.actor < nodes {
                let latest = &mut self.timeline.latest[running.actor];
                let previous = *latest;
                *latest = self.timeline.segments.len() as u32;
                let done_us = running.done_us;
                self.timeline.segments.push(Segment { at_us: now_us, done_us, rate, previous });
            }
        }
    }

    /// A node's undisturbed time, and the share of it in which it needs the whole memory bandwidth.
    fn serve_node(
        &mut self,
        graph: &Graph,
        conditions: &Conditions<'_>,
        totals: Totals,
        node: NodeIndex,
    ) -> (f64, f64) {
        let cost = &graph.nodes[node].cost;
        let mut traffic = Traffic::default();
        let (mut bytes, mut entry_bytes, mut row_bytes) = (0.0, 0.0, 0.0);
        for touch in &cost.touches {
            let touched = totals.bytes(touch.extent);
            traffic.add(self.cache.touch(touch.key, touched, touch.write));
            bytes += touched;
            match touch.extent {
                Extent::Bytes(_) => {}
                Extent::PerRow(_) => row_bytes += touched,
                Extent::PerRatio4Entry(_) | Extent::PerRatio128Entry(_) => entry_bytes += touched,
            }
        }
        self.timeline.traffic[node] = traffic;
        let profile = &self.profile;
        let (moving_us, external_us) = memory_time(profile, traffic);
        // In a short kernel the fetch that displaces a dirty line waits for it; a long copy hides that.
        let waiting_us = (profile.write_back_weight - 1.0) * traffic.write_back_bytes / profile.memory_bytes_per_us;
        let memory_us = moving_us + waiting_us;
        let compute_us = cost.flops_per_row * totals.rows / profile.flops_per_us;
        let draw = |purpose| self.noise.normal(conditions.step, node, 0, purpose);
        let relative = 1.0 + profile.kernel_sigma * draw(Purpose::Kernel);
        let scale = (external_us / profile.memory_reference_us).min(1.0).sqrt();
        let waited_us = profile.memory_sigma_us * scale * draw(Purpose::Memory);
        let shared_us = (memory_us.max(compute_us) * relative + waited_us).max(0.5 * memory_us);
        let fixed_us = cost.fixed_us.max(0.0);
        let draws = |purpose| self.noise.draws(conditions.step, node, purpose);
        let plan = match cost.tiles {
            Tiles::PerRow => {
                let rows = totals.rows.max(1.0);
                let entry_share = if bytes > 0.0 { entry_bytes / bytes } else { 0.0 };
                let block = 1.0 / (rows * profile.block_bytes_per_us);
                TilePlan::per_row(
                    profile,
                    conditions.load.context.len(),
                    fixed_us,
                    [shared_us * (1.0 - entry_share), shared_us * entry_share],
                    [row_bytes * block + cost.block_us, entry_bytes * block],
                    [draws(Purpose::Tile), draws(Purpose::TileTail)],
                )
            }
            Tiles::Fixed(count) => {
                TilePlan::fixed(profile, count as usize, fixed_us, shared_us, draws(Purpose::Landing))
            }
        };
        let total_us = plan.total_us(&self.timeline.relative_context);
        self.timeline.plans[node] = plan;
        (total_us, demand(external_us, total_us))
    }

    fn serve_foreign(&mut self, foreign: &Foreign) -> (f64, f64) {
        let traffic = match (foreign.read, foreign.write) {
            (Some(read), Some(write)) if read.bytes == write.bytes => self.cache.copy(read.key, write.key, read.bytes),
            (read, write) => {
                let mut traffic = Traffic::default();
                for (stream, write) in [(read, false), (write, true)] {
                    if let Some(Stream { key, bytes }) = stream {
                        traffic.add(self.cache.touch(key, bytes, write));
                    }
                }
                traffic
            }
        };
        let bytes = [foreign.read, foreign.write].iter().flatten().map(|stream| stream.bytes).sum::<f64>();
        let (memory_us, external_us) = memory_time(&self.profile, traffic);
        let total_us = memory_us.max(bytes / foreign.most_bytes_per_us);
        (total_us, demand(external_us, total_us))
    }
}

/// First of the cache keys that the server's own traffic uses.
const FOREIGN_KEYS: u64 = 0xF0E1_6000_0000_0000;

/// Time that traffic takes, and the part of it spent on memory outside the cache.
fn memory_time(profile: &CostProfile, traffic: Traffic) -> (f64, f64) {
    let external_us = traffic.memory_bytes() / profile.memory_bytes_per_us;
    (external_us + traffic.hit_bytes / profile.cache_bytes_per_us, external_us)
}

fn demand(external_us: f64, total_us: f64) -> f64 {
    if total_us > 0.0 { (external_us / total_us).min(1.0) } else { 0.0 }
}

/// Position and time of the earliest; ties go to the actor with the lowest number.
fn earliest(candidates: impl Iterator<Item = (f64, usize)>) -> Option<(usize, f64)> {
    candidates
        .enumerate()
        .min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
        .map(|(index, (at_us, _))| (index, at_us))
}

/// By how much memory-bound time stretches so that what all get together is what there is.
fn stretch(running: &[Running]) -> f64 {
    let asked: f64 = running.iter().map(|running| running.demand).sum();
    if asked <= 1.0 {
        return 1.0;
    }
    // Newton's method on a convex falling function, from its left: never overshoots.
    let mut stretch = 1.0;
    for _ in 0..6 {
        let (mut got, mut slope) = (0.0, 0.0);
        for Running { demand, .. } in running {
            let slowed = 1.0 + demand * (stretch - 1.0);
            got += demand / slowed;
            slope += demand * demand / (slowed * slowed);
        }
        stretch += (got - 1.0).max(0.0) / slope;
    }
    stretch
}
