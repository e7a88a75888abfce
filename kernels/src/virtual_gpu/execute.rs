//! Running a graph's operators: in launch order, or interleaved as their times say.
//!
//! Edges order most nodes, so for them launch order and time order give the same bytes and
//! each runs as a whole. Only where two unordered nodes touch the same bytes (a hazard) *and*
//! their times in this replay are not in launch order do tiles run one by one: a tile copies
//! what it reads chunk by chunk when the chunk's time comes, computes on that copy, and its
//! writes land at its end.

use std::cmp::Ordering;

use super::Timeline;
use crate::{ByteRange, Compute, Graph, HazardPair, Memory, Mode, NodeIndex, Part, Slicing, address_order, analyse};

/// A graph ready to run: hazards found and address orders known.
#[derive(Debug)]
pub struct Prepared {
    graph: Graph,
    orders: Vec<Vec<u8>>,
    hazards: Vec<HazardPair>,
    /// Accesses of each node that lie in a hazard, as a bit set.
    shared: Vec<u32>,
}

impl Prepared {
    /// Analyses a graph.
    pub fn new(graph: Graph) -> Self {
        let orders = graph.nodes.iter().map(|node| address_order(node.operator.accesses())).collect();
        let hazards = analyse(&graph);
        let mut shared = vec![0; graph.nodes.len()];
        for hazard in &hazards {
            for (index, node) in graph.nodes.iter().enumerate() {
                for (number, access) in node.operator.accesses().iter().enumerate() {
                    if access.range.overlap(hazard.range) > 0 {
                        shared[index] |= 1 << number;
                    }
                }
            }
        }
        Self { graph, orders, hazards, shared }
    }

    /// Prepares a graph on one lane, where launch order is the only order.
    pub fn on_one_lane(graph: Graph) -> Self {
        let orders = graph.nodes.iter().map(|node| address_order(node.operator.accesses())).collect();
        let shared = vec![0; graph.nodes.len()];
        Self { graph, orders, hazards: Vec::new(), shared }
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Its unordered overlapping accesses.
    pub fn hazards(&self) -> &[HazardPair] {
        &self.hazards
    }
}

/// The device's own record of a race that happened: two accesses to the same bytes took
/// place in the order opposite to the launch order, and no edge forbade it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Witness {
    /// Node that comes first in launch order.
    pub first: NodeIndex,
    /// Its tile.
    pub first_tile: usize,
    /// Node that comes second in launch order, but whose access came first.
    pub second: NodeIndex,
    /// Its tile.
    pub second_tile: usize,
    /// Bytes that both touch.
    pub bytes: usize,
    /// The row that the first node's tile works for.
    pub row: Option<usize>,
    /// By how much the order was missed, us.
    pub by_us: f64,
}

/// Buffers kept between replays.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    events: Vec<Event>,
    conflicted: Vec<bool>,
    private: Vec<Vec<Option<Vec<u64>>>>,
    ranges: Vec<ByteRange>,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at_us: f64,
    node: NodeIndex,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Sample { tile: usize, access: usize, chunk: u16 },
    Land { tile: usize },
    Whole,
}

/// Runs every node, one after the other.
pub(super) fn in_order(memory: &mut Memory, prepared: &Prepared, compute: Compute) {
    for (node, order) in prepared.graph.nodes.iter().zip(&prepared.orders) {
        let views = memory.views(node.operator.accesses(), order, None);
        node.operator.run(views, Part::All, compute);
    }
}

/// Runs every node as the timeline says.
pub(super) fn in_time(
    memory: &mut Memory,
    prepared: &Prepared,
    timeline: &Timeline,
    compute: Compute,
    witnesses: &mut Vec<Witness>,
    scratch: &mut Scratch,
) {
    let nodes = &prepared.graph.nodes;
    scratch.conflicted.clear();
    scratch.conflicted.resize(nodes.len(), false);
    let mut any = false;
    for hazard in &prepared.hazards {
        let (first, second) = (hazard.first, hazard.second);
        if timeline.nodes[first].end_us <= timeline.nodes[second].start_us {
            continue;
        }
        let raced = find_witnesses(memory, prepared, timeline, hazard, &mut scratch.ranges, witnesses);
        if raced || timeline.nodes[first].end_us > timeline.nodes[second].end_us {
            scratch.conflicted[first] = true;
            scratch.conflicted[second] = true;
            any = true;
        }
    }
    if !any {
        return in_order(memory, prepared, compute);
    }
    // A node that overlaps a tiled one in time must be tiled as well, or it would see (or hide)
    // landings of tiles that come later.
    loop {
        let mut grown = false;
        for hazard in &prepared.hazards {
            let (first, second) = (&timeline.nodes[hazard.first], &timeline.nodes[hazard.second]);
            let apart = first.end_us <= second.start_us || second.end_us <= first.start_us;
            if !apart && scratch.conflicted[hazard.first] != scratch.conflicted[hazard.second] {
                scratch.conflicted[hazard.first] = true;
                scratch.conflicted[hazard.second] = true;
                grown = true;
            }
        }
        if !grown {
            break;
        }
    }
    scratch.events.clear();
    for (index, node) in nodes.iter().enumerate() {
        if !scratch.conflicted[index] {
            scratch.events.push(Event { at_us: timeline.nodes[index].end_us, node: index, action: Action::Whole });
            continue;
        }
        let tiles = node.operator.tiles();
        for tile in 0..tiles {
            for (number, access) in node.operator.accesses().iter().enumerate() {
                if prepared.shared[index] & (1 << number) != 0 && access.mode.reads() {
                    let chunks = chunks_of(access.slicing);
                    for chunk in 0..chunks {
                        scratch.events.push(Event {
                            at_us: timeline.sample_us(index, tile, tiles, usize::from(chunk), usize::from(chunks)),
                            node: index,
                            action: Action::Sample { tile, access: number, chunk },
                        });
                    }
                }
            }
            scratch.events.push(Event {
                at_us: timeline.land_us(index, tile, tiles),
                node: index,
                action: Action::Land { tile },
            });
        }
    }
    scratch.events.sort_unstable_by(|a, b| {
        a.at_us.partial_cmp(&b.at_us).unwrap_or(Ordering::Equal).then(a.node.cmp(&b.node)).then(a.action.cmp(&b.action))
    });
    if scratch.private.len() < nodes.len() {
        scratch.private.resize_with(nodes.len(), Vec::new);
    }
    for index in 0..nodes.len() {
        if scratch.conflicted[index] {
            prepare_private(prepared, index, &mut scratch.private[index]);
        }
    }
    let events = std::mem::take(&mut scratch.events);
    for event in &events {
        let node = &nodes[event.node];
        let accesses = node.operator.accesses();
        match event.action {
            Action::Whole => {
                let views = memory.views(accesses, &prepared.orders[event.node], None);
                node.operator.run(views, Part::All, compute);
            }
            Action::Sample { tile, access, chunk } => {
                touched(memory, prepared, event.node, access, tile, Some(chunk), &mut scratch.ranges);
                let base = accesses[access].range.start;
                // `prepare_private` gave every sampled access a buffer.
                if let Some(Some(buffer)) = scratch.private[event.node].get_mut(access) {
                    let private: &mut [u8] = bytemuck::cast_slice_mut(buffer);
                    for range in &scratch.ranges {
                        private[range.start - base..range.end() - base].copy_from_slice(memory.bytes(*range));
                    }
                }
            }
            Action::Land { tile } => {
                let private = &mut scratch.private[event.node];
                let views = memory.views(accesses, &prepared.orders[event.node], Some(private));
                node.operator.run(views, Part::Tiles(tile..tile + 1), compute);
                for (number, access) in accesses.iter().enumerate() {
                    let Some(Some(buffer)) = scratch.private[event.node].get(number) else { continue };
                    if access.mode.writes() {
                        touched(memory, prepared, event.node, number, tile, None, &mut scratch.ranges);
                        let private: &[u8] = bytemuck::cast_slice(buffer);
                        let base = access.range.start;
                        for range in &scratch.ranges {
                            memory.bytes_mut(*range).copy_from_slice(&private[range.start - base..range.end() - base]);
                        }
                    }
                }
            }
        }
    }
    scratch.events = events;
}

fn prepare_private(prepared: &Prepared, index: NodeIndex, private: &mut Vec<Option<Vec<u64>>>) {
    let accesses = prepared.graph.nodes[index].operator.accesses();
    private.resize_with(accesses.len(), || None);
    for (number, access) in accesses.iter().enumerate() {
        if prepared.shared[index] & (1 << number) == 0 {
            private[number] = None;
            continue;
        }
        let words = access.range.length.div_ceil(8);
        let buffer = private[number].get_or_insert_default();
        buffer.clear();
        buffer.resize(words, 0);
    }
}

fn chunks_of(slicing: Slicing) -> u16 {
    match slicing {
        Slicing::Resolved { chunks } => chunks.max(1),
        Slicing::Whole | Slicing::Columns { .. } | Slicing::Rows { .. } => 1,
    }
}

/// The bytes that a tile (or one chunk of it) touches of an access.
fn touched(
    memory: &Memory,
    prepared: &Prepared,
    node: NodeIndex,
    access: usize,
    tile: usize,
    chunk: Option<u16>,
    ranges: &mut Vec<ByteRange>,
) {
    ranges.clear();
    let operator = &prepared.graph.nodes[node].operator;
    let declared = operator.accesses()[access];
    match declared.slicing {
        Slicing::Whole => ranges.push(declared.range),
        Slicing::Resolved { chunks } => {
            operator.resolve(memory, access, tile, ranges);
            if let (Some(chunk), 2..) = (chunk, chunks) {
                for range in ranges.iter_mut() {
                    // Cut at multiples of four bytes, so that no value is torn by the cut itself.
                    let cut = |i: u16| match i {
                        i if i == chunks => range.length,
                        i => range.length * usize::from(i) / usize::from(chunks) / 4 * 4,
                    };
                    *range = range.part(cut(chunk), cut(chunk + 1) - cut(chunk));
                }
            }
        }
        Slicing::Rows { stride } => {
            ranges.push(declared.range.part(tile * stride, stride.min(declared.range.length - tile * stride)));
        }
        Slicing::Columns { stride, width } => {
            let from = tile * width;
            let width = width.min(stride - from);
            for row in 0..declared.range.length / stride {
                ranges.push(declared.range.part(row * stride + from, width));
            }
        }
    }
}

/// When a tile reads (per chunk) or writes an access, as (time, bytes) pairs.
struct Occurrence {
    tile: usize,
    at_us: f64,
    ranges: Vec<ByteRange>,
}

fn occurrences(
    memory: &Memory,
    prepared: &Prepared,
    timeline: &Timeline,
    node: NodeIndex,
    access: usize,
    reading: bool,
    ranges: &mut Vec<ByteRange>,
) -> Vec<Occurrence> {
    let operator = &prepared.graph.nodes[node].operator;
    let tiles = operator.tiles();
    let slicing = operator.accesses()[access].slicing;
    let chunks = if reading { chunks_of(slicing) } else { 1 };
    let mut found = Vec::with_capacity(tiles * usize::from(chunks));
    for tile in 0..tiles {
        for chunk in 0..chunks {
            touched(memory, prepared, node, access, tile, reading.then_some(chunk), ranges);
            let at_us = if reading {
                timeline.sample_us(node, tile, tiles, usize::from(chunk), usize::from(chunks))
            } else {
                timeline.land_us(node, tile, tiles)
            };
            found.push(Occurrence { tile, at_us, ranges: ranges.clone() });
        }
    }
    found
}

/// Finds accesses of a hazard that took place against launch order; whether there were any.
fn find_witnesses(
    memory: &Memory,
    prepared: &Prepared,
    timeline: &Timeline,
    hazard: &HazardPair,
    ranges: &mut Vec<ByteRange>,
    witnesses: &mut Vec<Witness>,
) -> bool {
    let nodes = &prepared.graph.nodes;
    let first_mode = nodes[hazard.first].operator.accesses()[hazard.first_access].mode;
    let second_mode = nodes[hazard.second].operator.accesses()[hazard.second_access].mode;
    let before = witnesses.len();
    for (reading_first, reading_second) in [(true, false), (false, true), (false, false)] {
        let applies = |mode: Mode, reading: bool| if reading { mode.reads() } else { mode.writes() };
        if !applies(first_mode, reading_first) || !applies(second_mode, reading_second) {
            continue;
        }
        let firsts = occurrences(memory, prepared, timeline, hazard.first, hazard.first_access, reading_first, ranges);
        let seconds =
            occurrences(memory, prepared, timeline, hazard.second, hazard.second_access, reading_second, ranges);
        let earliest = seconds.iter().map(|o| o.at_us).fold(f64::INFINITY, f64::min);
        let mut last_tile = None;
        for first in &firsts {
            // One witness a tile is enough: that its row was hit.
            if first.at_us < earliest || last_tile == Some(first.tile) {
                continue;
            }
            for second in &seconds {
                if first.at_us < second.at_us {
                    continue;
                }
                let bytes = overlap(&first.ranges, &second.ranges);
                if bytes > 0 {
                    witnesses.push(Witness {
                        first: hazard.first,
                        first_tile: first.tile,
                        second: hazard.second,
                        second_tile: second.tile,
                        bytes,
                        row: nodes[hazard.first].operator.row_of_tile(first.tile),
                        by_us: first.at_us - second.at_us,
                    });
                    last_tile = Some(first.tile);
                    break;
                }
            }
        }
    }
    witnesses.len() > before
}

/// Bytes that two sorted lists of ranges share.
fn overlap(a: &[ByteRange], b: &[ByteRange]) -> usize {
    let (mut i, mut j, mut bytes) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        bytes += a[i].overlap(b[j]);
        if a[i].end() < b[j].end() { i += 1 } else { j += 1 }
    }
    bytes
}
