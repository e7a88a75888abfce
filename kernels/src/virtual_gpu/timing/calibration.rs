//! The simulator against what was measured on an H200: the captured layer of ten nodes, and the sharper
//! chain of spins. Run with `--nocapture` for the tables.

use std::sync::Arc;

use super::*;
use crate::{Access, Compute, Cost, Lane, Node, Operator, Part, Touch, Views};

#[derive(Debug)]
struct Nothing;

impl Operator for Nothing {
    fn accesses(&self) -> &[Access] {
        &[]
    }

    fn tiles(&self) -> usize {
        1
    }

    fn run(&self, _: Views<'_>, _: Part, _: Compute) {}
}

const MIB: f64 = 1_048_576.0;
const ROW_BYTES: f64 = 65_536.0;
/// The reader's tiles sample their row in this many parts.
const CHUNKS: usize = 16;
/// T, and at its address W.
const TRANSIENT: u64 = 1;

fn node(name: &str, lane: Lane, cost: Cost, after: &[NodeIndex]) -> Node {
    Node { name: name.to_owned(), lane, operator: Arc::new(Nothing), cost, after: after.to_vec() }
}

fn touch(key: u64, extent: Extent, write: bool) -> Touch {
    Touch { key, extent, write }
}

fn spin(microseconds: f64) -> Cost {
    Cost { fixed_us: microseconds, tiles: Tiles::Fixed(1), ..Cost::default() }
}

fn scan_of_memory(key: u64, bytes: f64) -> Cost {
    Cost {
        fixed_us: 0.8,
        touches: vec![touch(key, Extent::Bytes(bytes), false)],
        tiles: Tiles::Fixed(132),
        ..Cost::default()
    }
}

fn per_row(write: bool) -> Cost {
    Cost {
        fixed_us: 0.8,
        touches: vec![touch(TRANSIENT, Extent::PerRow(ROW_BYTES), write)],
        ..Cost::default()
    }
}

fn writer() -> Cost {
    Cost {
        fixed_us: 0.8,
        touches: vec![touch(TRANSIENT, Extent::Bytes(80.0 * ROW_BYTES), true)],
        tiles: Tiles::Fixed(132),
        ..Cost::default()
    }
}

/// The layer: main reads 8 + 4 MB, spins and writes W over T; the side lane spins, reads 8 MB, runs a small
/// kernel and reads T row by row.
struct Layer {
    simulator: Simulator,
    graph: Graph,
    load: Load,
}

const SPIN: NodeIndex = 3;
const WRITER: NodeIndex = 4;
const READER: NodeIndex = 8;
/// Nodes that read memory which no cache holds.
const COLD: [NodeIndex; 3] = [1, 2, 6];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Observer {
    None,
    Clone(f64),
    Scan(f64),
    /// A copy of 8 MiB on a third stream, in every fourth replay.
    ForeignCopy,
}

#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    bad_replays: f64,
    row_chance: f64,
    rows_in_bad: f64,
    mean_us: f64,
    between_us: f64,
    within_us: f64,
    skew: f64,
}

impl Layer {
    fn new(rows: usize, seed: u64) -> Self {
        let nodes = vec![
            node("write T", Lane::MAIN, per_row(true), &[]),
            node("read 8 MB", Lane::MAIN, scan_of_memory(0, 8e6), &[0]),
            node("read 4 MB", Lane::MAIN, scan_of_memory(0, 4e6), &[1]),
            node("spin", Lane::MAIN, spin(0.0), &[2]),
            node("W", Lane::MAIN, writer(), &[3]),
            node("spin", Lane::INDEXER, spin(4.0), &[0]),
            node("read 8 MB", Lane::INDEXER, scan_of_memory(0, 8e6), &[5]),
            node("small", Lane::INDEXER, spin(1.5), &[6]),
            node("R", Lane::INDEXER, per_row(false), &[7]),
            node("join", Lane::MAIN, spin(1.0), &[4, 8]),
        ];
        Self {
            simulator: Simulator::new(CostProfile::h200(), seed),
            graph: Graph { nodes, rows, ..Graph::default() },
            load: Load { context: vec![1000; rows] },
        }
    }

    fn replay(&mut self, delay_us: f64, observer: Observer, replays: u64) -> Outcome {
        let rows = self.load.context.len();
        self.graph.nodes[SPIN].cost.fixed_us = delay_us;
        let (mut bad, mut hits) = (0_u64, 0_u64);
        let mut means = Vec::new();
        let mut within = 0.0;
        let mut foreign = Vec::new();
        for step in 0..replays {
            for (number, index) in COLD.into_iter().enumerate() {
                self.graph.nodes[index].cost.touches[0].key = 1000 + step * 10 + number as u64;
            }
            foreign.clear();
            // What a harness writes besides: results, counters, cleared buffers.
            let noise = self.simulator.noise;
            let bytes = HARNESS_BYTES * 2.0 * noise.uniform(step, 77, 0, Purpose::Arrival);
            foreign.push(Foreign::fill(Place::Before, 1000 + step * 10 + 9, bytes));
            match observer {
                Observer::None => {}
                Observer::Clone(bytes) => foreign.push(Foreign::copy(Place::Before, 2, 3, bytes)),
                Observer::Scan(bytes) => foreign.push(Foreign::scan(Place::Before, 2, bytes)),
                Observer::ForeignCopy => {
                    if step % 4 == 0 {
                        let at_us = 6.0 + 18.0 * noise.uniform(step, 78, 0, Purpose::Arrival);
                        foreign.push(Foreign::copy(Place::At(at_us), 2, 3, 8.0 * MIB));
                    }
                }
            }
            let conditions =
                Conditions { foreign: &foreign, ..Conditions::plain(step, &self.load) };
            let timeline = self.simulator.run(&self.graph, &conditions);
            if step < 20 {
                continue; // the cache fills
            }
            let slack = |row| {
                timeline.land_us(WRITER, row, rows)
                    - timeline.sample_us(READER, row, rows, CHUNKS - 1, CHUNKS)
            };
            let slacks: Vec<f64> = (0..rows).map(slack).collect();
            let hit = slacks.iter().filter(|&&slack| slack < 0.0).count() as u64;
            bad += u64::from(hit > 0);
            hits += hit;
            let mean = slacks.iter().sum::<f64>() / rows as f64;
            within += slacks.iter().map(|slack| (slack - mean).powi(2)).sum::<f64>() / rows as f64;
            means.push(mean);
        }
        let count = means.len() as f64;
        let mean_us = means.iter().sum::<f64>() / count;
        let moment = |power| means.iter().map(|mean| (mean - mean_us).powi(power)).sum::<f64>() / count;
        Outcome {
            bad_replays: bad as f64 / count,
            row_chance: hits as f64 / (count * rows as f64),
            rows_in_bad: hits as f64 / bad.max(1) as f64,
            mean_us,
            between_us: moment(2).sqrt(),
            within_us: (within / count).sqrt(),
            skew: moment(3) / moment(2).powf(1.5),
        }
    }
}

const SHIFT: f64 = 1.8;
const HARNESS_BYTES: f64 = 1.5e6;

#[test]
fn layer_on_silicon() {
    let seed = 5;
    let plain = Layer::new(80, seed).replay(8.0, Observer::None, 2000);
    println!("{plain:?}");
    let centre = 8.0-plain.mean_us;
    for shift in [-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0] {
        let o = Layer::new(80, seed).replay(centre + shift, Observer::None, 4000);
        println!("{shift:5.1} bad {:6.2}% rows {:5.1} chance {:8.1e} slack {:.2} between {:.3} within {:.3} skew {:.2}", 100.0*o.bad_replays, o.rows_in_bad, o.row_chance, o.mean_us, o.between_us, o.within_us, o.skew);
    }
    let at = centre + SHIFT;
    for rows in [80, 32, 8, 1] {
        let o = Layer::new(rows, seed).replay(at, Observer::None, 20000);
        println!("rows {rows} chance {:8.1e} slack {:.2}", o.row_chance, o.mean_us);
    }
    for ob in [Observer::None, Observer::Clone(1.0*MIB), Observer::Clone(8.0*MIB), Observer::Clone(32.0*MIB), Observer::Clone(64.0*MIB), Observer::Scan(64.0*MIB), Observer::ForeignCopy] {
        let o = Layer::new(80, seed).replay(at, ob, 20000);
        println!("{ob:?} chance {:8.1e} slack {:.2} bad {:.2}% rows {:.1} sd {:.2}", o.row_chance, o.mean_us, 100.0*o.bad_replays, o.rows_in_bad, o.between_us);
    }
}

fn chain(delay_us: f64, eager: bool, tracing: bool, replays: u64) -> f64 {
    let touching = |cost: Cost, write| Cost {
        touches: vec![touch(TRANSIENT, Extent::Bytes(1e6), write)],
        tiles: Tiles::Fixed(64),
        ..cost
    };
    let nodes = vec![
        node("write A", Lane::MAIN, touching(spin(1.0), true), &[]),
        node("R", Lane::INDEXER, touching(spin(14.0), false), &[0]),
        node("spin", Lane::MAIN, spin(delay_us), &[0]),
        node("W", Lane::MAIN, touching(spin(3.0), true), &[2]),
        node("join", Lane::MAIN, spin(1.0), &[1, 3]),
    ];
    let graph = Graph { nodes, rows: 1, ..Graph::default() };
    let load = Load { context: vec![1000] };
    let mut simulator = Simulator::new(CostProfile::h200(), 3);
    let mut bad = 0;
    for step in 0..replays {
        let t = simulator.run(&graph, &Conditions { eager, tracing, ..Conditions::plain(step, &load) });
        let last = t.nodes[1].end_us;
        let first = (0..64).map(|i| t.land_us(3, i, 64)).fold(f64::INFINITY, f64::min);
        bad += u32::from(first < last);
    }
    f64::from(bad) / replays as f64
}

#[test]
fn chain_of_spins() {
    for (eager, tracing) in [(false, false), (false, true), (true, false), (true, true)] {
        println!("eager {eager} tracing {tracing}");
        let mut d = 0.0;
        while d < 16.0 {
            let p = chain(d, eager, tracing, 1500);
            if !eager && p < 0.9999 && p > 0.0 || (d % 2.0 < 0.01) {
                println!("  {d:.2}: {:.1}%", 100.0 * p);
            }
            d += if eager {0.25} else {0.08};
        }
    }
}
