//! A GPU without hardware: operators really compute, on the CPU; time is virtual.

mod cache;
mod execute;
mod noise;
mod profile;
mod timing;

pub use cache::*;
pub use execute::{Prepared, Witness};
pub use noise::*;
pub use profile::*;
pub use timing::*;

use crate::{Compute, Memory};

/// The device.
#[derive(Debug)]
pub struct VirtualGpu {
    /// Its memory.
    pub memory: Memory,
    compute: Compute,
    simulator: Simulator,
    clock_us: f64,
    witnesses: Vec<Witness>,
    scratch: execute::Scratch,
}

/// What one replay did.
#[derive(Debug)]
pub struct Replay<'a> {
    /// Device clock at its start, us.
    pub start_us: f64,
    /// Times of its nodes, from `start_us`.
    pub timeline: &'a Timeline,
    /// Races that happened in it.
    pub witnesses: &'a [Witness],
}

impl VirtualGpu {
    /// A device with a cost profile, a noise seed and a way to compute.
    pub fn new(profile: CostProfile, seed: u64, compute: Compute) -> Self {
        Self {
            memory: Memory::default(),
            compute,
            simulator: Simulator::new(profile, seed),
            clock_us: 0.0,
            witnesses: Vec::new(),
            scratch: execute::Scratch::default(),
        }
    }

    /// How operators compute.
    pub fn compute(&self) -> Compute {
        self.compute
    }

    /// The cost profile.
    pub fn profile(&self) -> &CostProfile {
        self.simulator.profile()
    }

    /// Adds the server's own traffic beside a step, spread over `span_us`.
    pub fn foreign_traffic(&self, step: u64, span_us: f64, foreign: &mut Vec<Foreign>) {
        self.simulator.foreign_traffic(step, span_us, foreign);
    }

    /// The device clock, us.
    pub fn clock_us(&self) -> f64 {
        self.clock_us
    }

    /// Lets time pass with the device idle.
    pub fn idle(&mut self, microseconds: f64) {
        self.clock_us += microseconds;
    }

    /// Runs a graph in its launch order. Costs no virtual time: oracles and the prefill side use it.
    pub fn run_in_order(&mut self, graph: &Prepared) {
        let (memory, compute) = (&mut self.memory, self.compute);
        on_workers(graph, compute, || execute::in_order(memory, graph, compute));
    }

    /// Runs a graph in virtual time.
    pub fn replay(&mut self, graph: &Prepared, conditions: &Conditions<'_>) -> Replay<'_> {
        let start_us = self.clock_us;
        let timeline = self.simulator.run(graph.graph(), conditions);
        self.clock_us += timeline.end_us;
        self.witnesses.clear();
        let (memory, compute) = (&mut self.memory, self.compute);
        let (witnesses, scratch) = (&mut self.witnesses, &mut self.scratch);
        on_workers(graph, compute, || execute::in_time(memory, graph, timeline, compute, witnesses, scratch));
        Replay { start_us, timeline, witnesses: &self.witnesses }
    }
}

/// Fewest rows of a graph that are worth going to the workers for.
const FEWEST_ROWS: usize = 8;

/// Runs a whole graph on a worker thread: from there, the others take part in an operator at little
/// cost, while from outside every operator would wait for them to wake.
fn on_workers(graph: &Prepared, compute: Compute, run: impl FnOnce() + Send) {
    if compute.workers > 1 && graph.graph().rows >= FEWEST_ROWS {
        rayon::scope(|_| run());
    } else {
        run();
    }
}
