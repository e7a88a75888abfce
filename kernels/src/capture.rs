//! Recording launches into a graph.

use std::sync::Arc;

use crate::{Allocation, Block, Cost, Graph, Lane, Memory, Node, NodeIndex, Operator, PoolAllocator};

/// A point in a lane's order that other lanes can wait for.
#[derive(Clone, Debug, Default)]
pub struct Event {
    nodes: Vec<NodeIndex>,
}

/// A pool block as the recorder hands it out.
#[derive(Debug)]
pub struct Transient {
    block: Block,
    allocation: usize,
}

impl Transient {
    /// The bytes.
    pub fn range(&self) -> crate::ByteRange {
        self.block.range
    }
}

/// Records launches, waits and allocations, as stream capture does.
#[derive(Debug)]
pub struct Recorder<'a> {
    graph: Graph,
    single_lane: bool,
    last: [Option<NodeIndex>; Lane::NAMES.len()],
    waits: [Vec<NodeIndex>; Lane::NAMES.len()],
    allocator: &'a mut PoolAllocator,
    memory: &'a mut Memory,
}

impl<'a> Recorder<'a> {
    /// Starts a recording of a pass over `rows` rows. With `single_lane` everything lands on the main lane.
    pub fn new(
        label: String,
        rows: usize,
        single_lane: bool,
        allocator: &'a mut PoolAllocator,
        memory: &'a mut Memory,
    ) -> Self {
        Self {
            graph: Graph { label, rows, ..Graph::default() },
            single_lane,
            last: Default::default(),
            waits: Default::default(),
            allocator,
            memory,
        }
    }

    fn lane(&self, lane: Lane) -> Lane {
        if self.single_lane { Lane::MAIN } else { lane }
    }

    /// Launches an operator on a lane.
    pub fn launch(&mut self, lane: Lane, name: String, operator: impl Operator + 'static, cost: Cost) -> NodeIndex {
        let lane = self.lane(lane);
        let mut after = std::mem::take(&mut self.waits[lane.index()]);
        after.extend(self.last[lane.index()]);
        after.sort_unstable();
        after.dedup();
        let index = self.graph.nodes.len();
        self.graph.nodes.push(Node { name, lane, operator: Arc::new(operator), cost, after });
        self.last[lane.index()] = Some(index);
        index
    }

    /// Marks the present end of a lane.
    pub fn record(&self, lane: Lane) -> Event {
        let lane = self.lane(lane).index();
        let mut nodes = self.waits[lane].clone();
        nodes.extend(self.last[lane]);
        Event { nodes }
    }

    /// Makes what `lane` launches next wait for an event.
    pub fn wait_event(&mut self, lane: Lane, event: &Event) {
        if !self.single_lane {
            self.waits[lane.index()].extend(&event.nodes);
        }
    }

    /// Makes what `lane` launches next wait for all that `on` was given so far.
    pub fn wait(&mut self, lane: Lane, on: Lane) {
        let event = self.record(on);
        self.wait_event(lane, &event);
    }

    /// Takes a block from the graph's pool, from the free list of `lane`.
    pub fn allocate(&mut self, lane: Lane, name: &str, bytes: usize) -> Transient {
        let lane = self.lane(lane);
        let block = self.allocator.allocate(self.memory, lane, bytes);
        self.graph.allocations.push(Allocation {
            name: name.to_owned(),
            range: block.range,
            lane,
            born: self.graph.nodes.len(),
            died: None,
        });
        Transient { block, allocation: self.graph.allocations.len() - 1 }
    }

    /// Gives a block back to the lane that it came from, at once: whoever still reads it is not asked.
    pub fn free(&mut self, transient: Transient) {
        self.graph.allocations[transient.allocation].died = Some(self.graph.nodes.len());
        self.allocator.free(transient.block);
    }

    /// Ends the recording.
    pub fn finish(self) -> Graph {
        self.allocator.end_capture();
        self.graph
    }
}
