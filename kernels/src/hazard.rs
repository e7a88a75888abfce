//! Unordered overlapping accesses of a graph: what can go wrong before it ever does.
//!
//! Nodes are taken in launch order. For every node a clock says how far along each chain of ordered nodes
//! its ancestors reach; of the earlier accesses to the same bytes, those beyond the clock are unordered
//! with it. Along one chain the unordered ones are always the latest, so only they are looked at, and a
//! clock lives only until the node's last successor has been seen.
//!
//! A join orders a node behind nearly all that was launched earlier. So histories are kept in order of
//! their latest access, and the search stops at the oldest node that can still be unordered.

use crate::{Access, ByteRange, Graph, NodeIndex};

/// Two nodes without a path between them that touch overlapping bytes, at least one of them writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HazardPair {
    /// The node launched first.
    pub first: NodeIndex,
    /// The node launched second.
    pub second: NodeIndex,
    /// Which of the first node's accesses.
    pub first_access: usize,
    /// Which of the second node's accesses.
    pub second_access: usize,
    /// Bytes that both touch. An access by columns counts with its whole range.
    pub range: ByteRange,
}

/// Finds all hazards of a graph, ordered by second node and then by first; one entry for every pair of
/// accesses.
///
/// # Panics
/// When an edge does not point backwards: no graph was captured so.
pub fn analyse(graph: &Graph) -> Vec<HazardPair> {
    let accesses: Vec<Touching> = graph
        .nodes
        .iter()
        .enumerate()
        .flat_map(|(node, launched)| {
            launched.operator.accesses().iter().enumerate().map(move |(access, declared)| Touching {
                node,
                access,
                declared: *declared,
            })
        })
        .filter(|touching| touching.declared.range.length > 0)
        .collect();
    let mut pieces = Pieces::new(&accesses);
    let mut clocks = Clocks::new(graph);
    let mut hazards = Vec::new();
    let mut next = 0;
    for node in 0..graph.nodes.len() {
        clocks.advance(graph, node);
        let oldest = clocks.oldest_unordered(node);
        let end = next + accesses[next..].iter().take_while(|touching| touching.node == node).count();
        for index in next..end {
            pieces.find(&accesses, index, clocks.clock(node), oldest, &mut hazards);
        }
        let from = hazards.len() - hazards.iter().rev().take_while(|hazard| hazard.second == node).count();
        hazards[from..].sort_unstable();
        for index in next..end {
            pieces.add(&accesses, index, clocks.place(node));
        }
        next = end;
    }
    hazards
}

/// One access of one node.
#[derive(Clone, Copy, Debug)]
struct Touching {
    node: NodeIndex,
    access: usize,
    declared: Access,
}

/// A place on a chain of ordered nodes; positions start at 1.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    chain: u32,
    position: u32,
}

const NONE: u32 = u32::MAX;

/// The latest access to one piece of memory along one chain.
#[derive(Clone, Copy, Debug)]
struct History {
    chain: u32,
    position: u32,
    node: u32,
    latest: u32,
}

/// An access, and the one before it along the same chain to the same piece.
#[derive(Clone, Copy, Debug)]
struct Past {
    access: u32,
    position: u32,
    earlier: u32,
}

/// The address space, cut wherever an access starts or ends, with what was done to each piece.
struct Pieces {
    cuts: Vec<usize>,
    /// Pieces that nobody writes have no hazards and keep no history.
    written: Vec<bool>,
    /// The most recent last.
    readers: Vec<Vec<History>>,
    writers: Vec<Vec<History>>,
    past: Vec<Past>,
}

impl Pieces {
    fn new(accesses: &[Touching]) -> Self {
        let mut cuts: Vec<usize> = accesses
            .iter()
            .flat_map(|touching| [touching.declared.range.start, touching.declared.range.end()])
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut pieces = Self {
            written: vec![false; cuts.len()],
            readers: vec![Vec::new(); cuts.len()],
            writers: vec![Vec::new(); cuts.len()],
            cuts,
            past: Vec::new(),
        };
        for touching in accesses.iter().filter(|touching| touching.declared.mode.writes()) {
            for piece in pieces.of(touching.declared.range) {
                pieces.written[piece] = true;
            }
        }
        pieces
    }

    /// The pieces that a range consists of.
    fn of(&self, range: ByteRange) -> std::ops::Range<usize> {
        let from = self.cuts.partition_point(|&cut| cut < range.start);
        from..from + self.cuts[from..].partition_point(|&cut| cut < range.end())
    }

    /// Adds the hazards between access `index` and earlier ones that its node's clock does not cover.
    fn find(&self, accesses: &[Touching], index: usize, clock: &[u32], oldest: u32, hazards: &mut Vec<HazardPair>) {
        let second = accesses[index];
        let range = second.declared.range;
        for piece in self.of(range).filter(|&piece| self.written[piece]) {
            let readers: &[History] = if second.declared.mode.writes() { &self.readers[piece] } else { &[] };
            let recent = |history: &&History| history.node >= oldest;
            let writers = self.writers[piece].iter().rev().take_while(recent);
            for history in writers.chain(readers.iter().rev().take_while(recent)) {
                let ordered = clock.get(history.chain as usize).copied().unwrap_or(0);
                if history.position <= ordered {
                    continue;
                }
                let mut at = history.latest;
                while at != NONE && self.past[at as usize].position > ordered {
                    let past = self.past[at as usize];
                    at = past.earlier;
                    let first = accesses[past.access as usize];
                    let start = first.declared.range.start.max(range.start);
                    // Several pieces hold the same pair; the first of them reports it.
                    if self.cuts[piece] == start {
                        hazards.push(HazardPair {
                            first: first.node,
                            second: second.node,
                            first_access: first.access,
                            second_access: second.access,
                            range: ByteRange { start, length: first.declared.range.overlap(range) },
                        });
                    }
                }
            }
        }
    }

    /// Adds an access to the history of its pieces.
    fn add(&mut self, accesses: &[Touching], index: usize, place: Place) {
        let declared = accesses[index].declared;
        for piece in self.of(declared.range) {
            if !self.written[piece] {
                continue;
            }
            // One that reads and writes is found through its writing.
            let histories = if declared.mode.writes() { &mut self.writers[piece] } else { &mut self.readers[piece] };
            let Place { chain, position } = place;
            let latest = self.past.len() as u32;
            // Searched from the most recent: a chain often touches the same bytes again soon.
            let earlier = match histories.iter().rposition(|history| history.chain == chain) {
                Some(at) => histories.remove(at).latest,
                None => NONE,
            };
            histories.push(History { chain, position, node: accesses[index].node as u32, latest });
            self.past.push(Past { access: index as u32, position, earlier });
        }
    }
}

/// How far along every chain a node's ancestors reach.
struct Clocks {
    places: Vec<Place>,
    /// The nodes of every chain.
    chains: Vec<Vec<u32>>,
    /// Position of the last node of every chain.
    ends: Vec<u32>,
    /// The chain that a lane's nodes are on, as long as the lane's nodes are ordered.
    chain_of_lane: [u32; 256],
    rows: Vec<Vec<u32>>,
    row_of: Vec<u32>,
    vacant: Vec<u32>,
    successors: Vec<u32>,
}

impl Clocks {
    fn new(graph: &Graph) -> Self {
        let mut successors = vec![0; graph.nodes.len()];
        for (index, node) in graph.nodes.iter().enumerate() {
            for &before in &node.after {
                assert!(before < index, "node {index} waits for node {before}, which is launched later");
                successors[before] += 1;
            }
        }
        Self {
            places: vec![Place::default(); graph.nodes.len()],
            chains: Vec::new(),
            ends: Vec::new(),
            chain_of_lane: [NONE; 256],
            rows: Vec::new(),
            row_of: vec![NONE; graph.nodes.len()],
            vacant: Vec::new(),
            successors,
        }
    }

    /// The clock of the node advanced to last.
    fn clock(&self, node: NodeIndex) -> &[u32] {
        &self.rows[self.row_of[node] as usize]
    }

    fn place(&self, node: NodeIndex) -> Place {
        self.places[node]
    }

    /// The earliest node that is not ordered before the node advanced to last.
    fn oldest_unordered(&self, node: NodeIndex) -> u32 {
        let beyond = |(chain, &at): (&Vec<u32>, &u32)| chain.get(at as usize).copied();
        self.chains.iter().zip(self.clock(node)).filter_map(beyond).min().unwrap_or(NONE)
    }

    /// Computes the clock of the next node in launch order.
    fn advance(&mut self, graph: &Graph, node: NodeIndex) {
        if node > 0 && self.successors[node - 1] == 0 {
            self.vacate(node - 1);
        }
        let row = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(Vec::new());
            (self.rows.len() - 1) as u32
        });
        let mut clock = std::mem::take(&mut self.rows[row as usize]);
        clock.clear();
        clock.resize(self.ends.len(), 0);
        for &before in &graph.nodes[node].after {
            for (mine, theirs) in clock.iter_mut().zip(&self.rows[self.row_of[before] as usize]) {
                *mine = (*mine).max(*theirs);
            }
            self.successors[before] -= 1;
            if self.successors[before] == 0 {
                self.vacate(before);
            }
        }
        let lane = usize::from(graph.nodes[node].lane.0);
        let covered = |chain: u32| clock.get(chain as usize).is_some_and(|&at| at == self.ends[chain as usize]);
        // A lane is one chain as long as its nodes are ordered; otherwise any chain whose end came before.
        let chain = if covered(self.chain_of_lane[lane]) {
            self.chain_of_lane[lane]
        } else {
            let owned = |chain: u32| self.chain_of_lane.contains(&chain);
            (0..self.ends.len() as u32).find(|&chain| covered(chain) && !owned(chain)).unwrap_or_else(|| {
                self.ends.push(0);
                self.chains.push(Vec::new());
                (self.ends.len() - 1) as u32
            })
        };
        clock.resize(self.ends.len(), 0);
        self.chain_of_lane[lane] = chain;
        self.ends[chain as usize] += 1;
        self.chains[chain as usize].push(node as u32);
        clock[chain as usize] = self.ends[chain as usize];
        self.places[node] = Place { chain, position: self.ends[chain as usize] };
        self.rows[row as usize] = clock;
        self.row_of[node] = row;
    }

    fn vacate(&mut self, node: NodeIndex) {
        let row = std::mem::replace(&mut self.row_of[node], NONE);
        if row != NONE {
            self.vacant.push(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::{Compute, Cost, Lane, Mode, Node, Operator, Part, Views};

    #[derive(Debug)]
    struct Declared(Vec<Access>);

    impl Operator for Declared {
        fn accesses(&self) -> &[Access] {
            &self.0
        }

        fn tiles(&self) -> usize {
            1
        }

        fn run(&self, _: Views<'_>, _: Part, _: Compute) {}
    }

    fn node(lane: Lane, accesses: &[(usize, usize, Mode)], after: &[NodeIndex]) -> Node {
        let declared = accesses
            .iter()
            .map(|&(start, length, mode)| Access { mode, ..Access::read(ByteRange { start, length }) })
            .collect();
        Node {
            name: String::new(),
            lane,
            operator: Arc::new(Declared(declared)),
            cost: Cost::default(),
            after: after.to_vec(),
        }
    }

    fn graph(nodes: Vec<Node>) -> Graph {
        Graph { nodes, ..Graph::default() }
    }

    const READ: Mode = Mode::Read;
    const WRITE: Mode = Mode::Write;

    #[test]
    fn a_reused_transient_is_found() {
        let graph = graph(vec![
            node(Lane::MAIN, &[(0, 100, WRITE)], &[]),
            node(Lane::INDEXER, &[(0, 100, READ), (500, 10, WRITE)], &[0]),
            node(Lane::MAIN, &[(500, 10, READ), (40, 80, WRITE)], &[0]),
            node(Lane::MAIN, &[(500, 10, READ), (40, 80, READ)], &[1, 2]),
        ]);
        let pair = |first_access, second_access, start, length| HazardPair {
            first: 1,
            second: 2,
            first_access,
            second_access,
            range: ByteRange { start, length },
        };
        assert_eq!(analyse(&graph), [pair(0, 1, 40, 60), pair(1, 0, 500, 10)]);
    }

    #[test]
    fn ordered_pairs_are_none() {
        let graph = graph(vec![
            node(Lane::MAIN, &[(0, 100, WRITE)], &[]),
            node(Lane::INDEXER, &[(0, 100, READ)], &[0]),
            node(Lane::KV, &[(200, 8, WRITE)], &[1]),
            node(Lane::MAIN, &[(0, 100, WRITE)], &[0, 2]),
        ]);
        assert_eq!(analyse(&graph), []);
    }

    #[test]
    fn two_readers_are_none() {
        let graph = graph(vec![node(Lane::MAIN, &[(0, 100, READ)], &[]), node(Lane::INDEXER, &[(0, 100, READ)], &[])]);
        assert_eq!(analyse(&graph), []);
    }

    #[test]
    fn a_missing_join_is_found_on_each_side() {
        let layers = |join: bool| {
            graph(vec![
                node(Lane::MAIN, &[(0, 10, WRITE)], &[]),
                node(Lane::KV, &[(0, 10, READ), (64, 10, WRITE)], &[0]),
                node(Lane::MAIN, &[(32, 10, WRITE)], &[0]),
                node(Lane::MAIN, &[(64, 10, READ), (32, 10, READ)], if join { &[1, 2] } else { &[2] }),
                node(Lane::MAIN, &[(0, 10, WRITE)], &[3]),
                node(Lane::KV, &[(0, 10, READ), (64, 10, WRITE)], &[1, 4]),
            ])
        };
        assert_eq!(analyse(&layers(true)), []);
        let found: Vec<_> = analyse(&layers(false)).iter().map(|pair| (pair.first, pair.second)).collect();
        assert_eq!(found, [(1, 3), (1, 4)]);
    }

    #[test]
    fn a_lane_without_its_own_order_is_no_chain() {
        let graph = graph(vec![
            node(Lane::MAIN, &[(0, 10, WRITE)], &[]),
            node(Lane::MAIN, &[(0, 10, WRITE)], &[]),
            node(Lane::MAIN, &[(0, 10, WRITE)], &[0]),
        ]);
        let found: Vec<_> = analyse(&graph).iter().map(|pair| (pair.first, pair.second)).collect();
        assert_eq!(found, [(0, 1), (1, 2)]);
    }

    fn by_brute_force(graph: &Graph) -> Vec<HazardPair> {
        let mut ancestors: Vec<BTreeSet<NodeIndex>> = Vec::new();
        let mut hazards = Vec::new();
        for (second, node) in graph.nodes.iter().enumerate() {
            let mut mine: BTreeSet<NodeIndex> = node.after.iter().copied().collect();
            for &first in &node.after {
                mine.extend(&ancestors[first]);
            }
            for first in (0..second).filter(|first| !mine.contains(first)) {
                let (a, b) = (&graph.nodes[first].operator, &graph.nodes[second].operator);
                for (first_access, mine) in a.accesses().iter().enumerate() {
                    for (second_access, theirs) in b.accesses().iter().enumerate() {
                        let length = mine.range.overlap(theirs.range);
                        if length > 0 && (mine.mode.writes() || theirs.mode.writes()) {
                            let start = mine.range.start.max(theirs.range.start);
                            hazards.push(HazardPair {
                                first,
                                second,
                                first_access,
                                second_access,
                                range: ByteRange { start, length },
                            });
                        }
                    }
                }
            }
            ancestors.push(mine);
        }
        hazards.sort_unstable_by_key(|pair| (pair.second, *pair));
        hazards
    }

    type Plan = (u8, Vec<(usize, usize, usize)>, Vec<prop::sample::Index>, bool);

    fn planned(plan: Vec<Plan>) -> Graph {
        let mut last = [None; 8];
        let mut nodes = Vec::new();
        for (index, (lane, accesses, edges, chained)) in plan.into_iter().enumerate() {
            let mut after: Vec<usize> = edges.iter().filter(|_| index > 0).map(|edge| edge.index(index)).collect();
            if chained {
                after.extend(last[usize::from(lane)]);
            }
            last[usize::from(lane)] = Some(index);
            let accesses: Vec<_> = accesses
                .into_iter()
                .map(|(start, length, mode)| (start, length, [READ, READ, WRITE, Mode::ReadWrite][mode]))
                .collect();
            nodes.push(node(Lane(lane), &accesses, &after));
        }
        graph(nodes)
    }

    proptest! {
        #[test]
        fn agrees_with_brute_force(plan in prop::collection::vec(
            (
                0..8_u8,
                prop::collection::vec((0..60_usize, 0..20_usize, 0..4_usize), 0..4),
                prop::collection::vec(any::<prop::sample::Index>(), 0..3),
                prop::bool::weighted(0.9),
            ),
            0..60,
        )) {
            let graph = planned(plan);
            prop_assert_eq!(analyse(&graph), by_brute_force(&graph));
        }
    }
}
