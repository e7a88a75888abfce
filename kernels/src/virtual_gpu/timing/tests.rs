use std::sync::Arc;

use proptest::prelude::*;

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

fn node(lane: Lane, cost: Cost, after: Vec<NodeIndex>) -> Node {
    Node { name: String::new(), lane, operator: Arc::new(Nothing), cost, after }
}

fn graph(nodes: Vec<Node>) -> Graph {
    Graph { nodes, ..Graph::default() }
}

fn reading(key: u64, bytes: f64) -> Cost {
    Cost {
        touches: vec![Touch { key, extent: Extent::Bytes(bytes), write: false }],
        tiles: Tiles::Fixed(132),
        ..Cost::default()
    }
}

fn quiet() -> CostProfile {
    CostProfile {
        gap_sigma_us: 0.0,
        kernel_sigma: 0.0,
        memory_sigma_us: 0.0,
        tile_sigma_us: 0.0,
        tile_tail_chance: 0.0,
        eager_launch_sigma_us: 0.0,
        ..CostProfile::h200()
    }
}

fn load(rows: usize) -> Load {
    Load { context: vec![1000; rows] }
}

fn length_us(time: NodeTime) -> f64 {
    time.end_us - time.start_us
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-9 * (1.0 + right.abs())
}

#[test]
fn memory_bound_nodes_share_the_bandwidth() {
    let load = load(1);
    let alone = graph(vec![node(Lane::MAIN, reading(1, 43e6), vec![])]);
    let both = graph(vec![node(Lane::MAIN, reading(1, 43e6), vec![]), node(Lane::KV, reading(2, 43e6), vec![])]);
    let mut simulator = Simulator::new(quiet(), 1);
    assert!(near(length_us(simulator.run(&alone, &Conditions::plain(0, &load)).nodes[0]), 10.0));
    simulator.cache_mut().clear();
    let together = simulator.run(&both, &Conditions::plain(0, &load));
    assert!(near(length_us(together.nodes[0]), 20.0), "{:?}", together.nodes);
    assert!(near(length_us(together.nodes[1]), 20.0));
}

#[test]
fn a_compute_bound_node_is_not_slowed() {
    let load = load(1);
    let computing = Cost { fixed_us: 10.0, tiles: Tiles::Fixed(1), ..Cost::default() };
    let both = graph(vec![
        node(Lane::MAIN, reading(1, 43e6), vec![]),
        node(Lane::KV, computing, vec![]),
        node(Lane::INDEXER, reading(2, 43e6), vec![]),
    ]);
    let mut simulator = Simulator::new(quiet(), 1);
    let timeline = simulator.run(&both, &Conditions::plain(0, &load));
    assert!(near(length_us(timeline.nodes[1]), 10.0));
}

#[test]
fn a_tile_is_slowed_while_a_burst_lasts_and_not_before() {
    let load = load(1);
    let graph = graph(vec![node(Lane::MAIN, reading(1, 43e6), vec![])]);
    let begin_us = quiet().graph_launch_us;
    let burst = [Foreign::scan(Place::At(begin_us + 5.0), 2, 4.3e6)];
    let mut simulator = Simulator::new(CostProfile { landing_share: 0.0, ..quiet() }, 1);
    let timeline = simulator.run(&graph, &Conditions { foreign: &burst, ..Conditions::plain(0, &load) });
    // Ten chunks of 1 us: the sixth takes the burst's length longer.
    let sample = |chunk| timeline.sample_us(0, 0, 1, chunk, 10) - begin_us;
    assert!(near(sample(5), 5.0));
    assert!(near(sample(6), 7.0));
    assert!(near(sample(9), 10.0));
    assert!(near(length_us(timeline.foreign[0]), 2.0));
}

#[test]
fn a_link_limits_a_burst() {
    let load = load(1);
    let burst = [Foreign { most_bytes_per_us: 1e5, ..Foreign::fill(Place::At(0.0), 1, 1e6) }];
    let mut simulator = Simulator::new(quiet(), 1);
    let timeline = simulator.run(&graph(vec![]), &Conditions { foreign: &burst, ..Conditions::plain(0, &load) });
    assert!(near(timeline.foreign[0].end_us, 10.0));
}

#[test]
fn work_in_line_holds_the_step_up() {
    let load = load(1);
    let graph = graph(vec![node(Lane::MAIN, reading(1, 4.3e6), vec![])]);
    let mut simulator = Simulator::new(quiet(), 1);
    let plain = simulator.run(&graph, &Conditions::plain(0, &load)).clone();
    simulator.cache_mut().clear();
    let scans = [Foreign::scan(Place::Before, 2, 43e6), Foreign::scan(Place::After, 3, 43e6)];
    let held = simulator.run(&graph, &Conditions { foreign: &scans, ..Conditions::plain(0, &load) });
    assert!(near(held.nodes[0].start_us, plain.nodes[0].start_us + 10.0));
    assert!(near(held.end_us, plain.end_us + 20.0));
    assert!(near(held.nodes_end_us, plain.end_us + 10.0));
}

#[test]
fn rows_with_more_context_land_later() {
    let load = Load { context: vec![4000, 2000, 1000, 1] };
    let touches = vec![Touch { key: 1, extent: Extent::PerRatio4Entry(256.0), write: false }];
    let graph = graph(vec![node(Lane::MAIN, Cost { touches, ..Cost::default() }, vec![])]);
    let mut simulator = Simulator::new(quiet(), 1);
    let timeline = simulator.run(&graph, &Conditions::plain(0, &load));
    let lands: Vec<f64> = (0..4).map(|row| timeline.land_us(0, row, 4)).collect();
    assert!(lands.is_sorted_by(|a, b| a > b), "{lands:?}");
    assert_eq!(lands[0], timeline.nodes[0].end_us);
}

#[test]
fn numeric_tiles_stand_at_the_same_fraction_of_the_waves() {
    let load = load(1);
    let cost = Cost { tiles: Tiles::Fixed(4 * 132), ..reading(1, 43e6) };
    let graph = graph(vec![node(Lane::MAIN, cost, vec![])]);
    let mut simulator = Simulator::new(quiet(), 1);
    let timeline = simulator.run(&graph, &Conditions::plain(0, &load));
    let start_us = timeline.nodes[0].start_us;
    for tile in 0..4 {
        let land_us = timeline.land_us(0, tile, 4) - start_us;
        let wave = tile as f64;
        assert!((2.5 * wave + 2.1..=2.5 * wave + 2.5).contains(&land_us), "{tile}: {land_us}");
        assert!(near(timeline.sample_us(0, tile, 4, 0, 1) - start_us, 2.5 * wave));
    }
}

#[test]
fn the_host_launches_eager_nodes_one_by_one() {
    let load = load(1);
    let idle = || Cost { tiles: Tiles::Fixed(1), ..Cost::default() };
    let graph = graph((0..5).map(|lane| node(Lane(lane), idle(), vec![])).collect());
    let mut simulator = Simulator::new(quiet(), 1);
    let timeline = simulator.run(&graph, &Conditions { eager: true, ..Conditions::plain(0, &load) });
    let starts: Vec<f64> = timeline.nodes.iter().map(|node| node.start_us).collect();
    assert_eq!(starts, timeline.launched_us);
    assert!(near(starts[4], 5.0 * quiet().eager_launch_us));
}

#[test]
fn a_write_back_is_paid_by_whoever_misses() {
    let load = load(1);
    let graph = graph(vec![node(Lane::MAIN, reading(1, 8e6), vec![])]);
    let length = |foreign: &[Foreign]| {
        let mut simulator = Simulator::new(quiet(), 1);
        length_us(simulator.run(&graph, &Conditions { foreign, ..Conditions::plain(0, &load) }).nodes[0])
    };
    let scanned = length(&[Foreign::scan(Place::Before, 2, 64e6)]);
    let cloned = length(&[Foreign::copy(Place::Before, 2, 3, 64e6)]);
    assert!(near(scanned, length(&[])));
    assert!(cloned > scanned + 1.0, "{cloned} {scanned}");
}

#[test]
fn a_contradicted_order_is_dropped() {
    let load = load(1);
    let graph = graph(vec![
        node(Lane::MAIN, reading(1, 1e6), vec![]),
        node(Lane::MAIN, reading(2, 1e6), vec![0]),
        node(Lane::KV, reading(3, 1e6), vec![]),
    ]);
    let mut simulator = Simulator::new(quiet(), 1);
    let before = [(1, 0), (1, 2)];
    let timeline = simulator.run(&graph, &Conditions { before: &before, ..Conditions::plain(0, &load) });
    assert_eq!(timeline.dropped_orders, 1);
    assert!(timeline.nodes[2].start_us >= timeline.nodes[1].end_us);
    assert!(timeline.nodes[1].start_us > timeline.nodes[0].end_us);
}

#[test]
fn the_servers_own_traffic_has_its_rate() {
    let simulator = Simulator::new(CostProfile::h200(), 1);
    let mut traffic = Vec::new();
    for step in 0..20_000 {
        simulator.foreign_traffic(step, 100.0, &mut traffic);
    }
    let kind = simulator.profile().foreign;
    let share = traffic.len() as f64 / 20_000.0;
    assert!((share / kind.chance - 1.0).abs() < 0.1, "{share}");
    let bytes: f64 = traffic.iter().filter_map(|burst| burst.read).map(|stream| stream.bytes).sum();
    assert!((bytes / traffic.len() as f64 / kind.bytes - 1.0).abs() < 0.1);
}

/// A graph, a load and circumstances, all owned.
#[derive(Clone, Debug)]
struct Case {
    graph: Graph,
    load: Load,
    eager: bool,
    tracing: bool,
    delays: Vec<(NodeIndex, f64)>,
    before: Vec<(NodeIndex, NodeIndex)>,
    foreign: Vec<Foreign>,
    seed: u64,
}

impl Case {
    fn conditions(&self) -> Conditions<'_> {
        Conditions {
            step: 3,
            load: &self.load,
            eager: self.eager,
            tracing: self.tracing,
            delays: &self.delays,
            before: &self.before,
            foreign: &self.foreign,
        }
    }

    /// The second of two runs, so that the cache has something in it.
    fn run(&self) -> Timeline {
        let mut simulator = Simulator::new(CostProfile::h200(), self.seed);
        simulator.run(&self.graph, &Conditions { step: 2, ..self.conditions() });
        simulator.run(&self.graph, &self.conditions()).clone()
    }
}

fn any_extent() -> impl Strategy<Value = Extent> {
    prop_oneof![
        (0.0..3e7_f64).prop_map(Extent::Bytes),
        (0.0..1e5_f64).prop_map(Extent::PerRow),
        (0.0..512.0_f64).prop_map(Extent::PerRatio4Entry),
        (0.0..512.0_f64).prop_map(Extent::PerRatio128Entry),
    ]
}

fn any_cost() -> impl Strategy<Value = Cost> {
    let touches = prop::collection::vec(
        (0..10_u64, any_extent(), any::<bool>()).prop_map(|(key, extent, write)| Touch { key, extent, write }),
        0..4,
    );
    let tiles = prop_oneof![Just(Tiles::PerRow), (1..500_u32).prop_map(Tiles::Fixed)];
    let sometimes = || prop_oneof![Just(0.0), 0.0..4.0_f64];
    (0.0..5.0_f64, sometimes(), sometimes(), 0.0..1e8_f64, touches, tiles).prop_map(
        |(fixed_us, block_us, lead_us, flops_per_row, touches, tiles)| Cost {
            fixed_us,
            block_us,
            lead_us,
            flops_per_row,
            touches,
            tiles,
        },
    )
}

fn any_foreign() -> impl Strategy<Value = Foreign> {
    let place = prop_oneof![Just(Place::Before), Just(Place::After), (0.0..300.0_f64).prop_map(Place::At)];
    (place, 0.0..8e7_f64, 0..3_u8).prop_map(|(place, bytes, kind)| match kind {
        0 => Foreign::scan(place, 100, bytes),
        1 => Foreign::fill(place, 101, bytes),
        _ => Foreign::copy(place, 100, 101, bytes),
    })
}

prop_compose! {
    fn any_case()(
        plan in prop::collection::vec(
            (0..6_u8, any_cost(), prop::collection::vec(any::<prop::sample::Index>(), 0..3)),
            1..30,
        ),
        context in prop::collection::vec(1..5000_u32, 1..200),
        (eager, tracing, seed) in (any::<bool>(), any::<bool>(), any::<u64>()),
        delays in prop::collection::vec((any::<prop::sample::Index>(), 0.0..9.0_f64), 0..3),
        before in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..3),
        foreign in prop::collection::vec(any_foreign(), 0..4),
    ) -> Case {
        let count = plan.len();
        let nodes = plan.into_iter().enumerate().map(|(index, (lane, cost, edges))| {
            let edges = edges.iter().filter(|_| index > 0);
            node(Lane(lane), cost, edges.map(|edge| edge.index(index)).collect())
        });
        Case {
            graph: graph(nodes.collect()),
            load: Load { context },
            eager,
            tracing,
            delays: delays.iter().map(|(node, delay_us)| (node.index(count), *delay_us)).collect(),
            // Launch order never contradicts a graph.
            before: before
                .iter()
                .map(|(a, b)| (a.index(count), b.index(count)))
                .filter(|(a, b)| a != b)
                .map(|(a, b)| (a.min(b), a.max(b)))
                .collect(),
            foreign,
            seed,
        }
    }
}

fn same_before(one: &Timeline, other: &Timeline, moment_us: f64) -> bool {
    one.nodes.iter().zip(&other.nodes).all(|(a, b)| {
        let starts = a.start_us == b.start_us || a.start_us.min(b.start_us) >= moment_us;
        let ends = a.end_us == b.end_us || a.end_us.min(b.end_us) >= moment_us;
        starts && ends
    })
}

proptest! {
    #[test]
    fn edges_lanes_and_orders_are_honoured(case in any_case()) {
        let timeline = case.run();
        prop_assert_eq!(timeline.dropped_orders, 0);
        let nodes = &timeline.nodes;
        for (index, node) in case.graph.nodes.iter().enumerate() {
            prop_assert!(nodes[index].start_us <= nodes[index].end_us);
            prop_assert!(nodes[index].end_us <= timeline.nodes_end_us);
            for &before in &node.after {
                prop_assert!(nodes[before].end_us < nodes[index].start_us);
            }
            let lane = (0..index).rev().find(|&other| case.graph.nodes[other].lane == node.lane);
            if let Some(before) = lane {
                prop_assert!(nodes[before].end_us < nodes[index].start_us);
            }
            if case.eager {
                prop_assert!(timeline.launched_us[index] <= nodes[index].start_us);
            }
        }
        for &(before, after) in &case.before {
            prop_assert!(nodes[before].end_us <= nodes[after].start_us);
        }
        prop_assert!(timeline.nodes_end_us <= timeline.end_us);
    }

    #[test]
    fn any_orders_at_all_end(
        mut case in any_case(),
        orders in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..6),
    ) {
        let count = case.graph.nodes.len();
        case.before = orders.iter().map(|(a, b)| (a.index(count), b.index(count))).collect();
        let timeline = case.run();
        prop_assert!(timeline.nodes.iter().all(|node| node.start_us > 0.0));
        if timeline.dropped_orders == 0 {
            for &(before, after) in case.before.iter().filter(|(before, after)| before != after) {
                prop_assert!(timeline.nodes[before].end_us <= timeline.nodes[after].start_us);
            }
        }
    }

    #[test]
    fn one_seed_gives_one_timeline(case in any_case()) {
        let (one, other) = (case.run(), case.run());
        prop_assert_eq!(&one.nodes, &other.nodes);
        prop_assert_eq!(&one.foreign, &other.foreign);
        prop_assert_eq!(one.end_us, other.end_us);
    }

    #[test]
    fn a_burst_changes_nothing_before_it(case in any_case(), at in 0.0..1.2_f64, bytes in 1.0..1e8_f64) {
        let without = case.run();
        let at_us = at * without.nodes_end_us;
        let mut simulator = Simulator::new(CostProfile::h200(), case.seed);
        simulator.run(&case.graph, &Conditions { step: 2, ..case.conditions() });
        let mut foreign = case.foreign.clone();
        foreign.push(Foreign::copy(Place::At(at_us), 100, 101, bytes));
        let with = simulator.run(&case.graph, &Conditions { foreign: &foreign, ..case.conditions() });
        prop_assert!(same_before(&without, with, at_us));
        if at_us > without.nodes_end_us {
            prop_assert_eq!(&without.nodes, &with.nodes);
        }
    }

    #[test]
    fn a_delay_never_starts_a_node_earlier(
        case in any_case(),
        chosen in any::<prop::sample::Index>(),
        delay_us in 0.0..20.0_f64,
    ) {
        let without = case.run();
        let chosen = chosen.index(case.graph.nodes.len());
        let mut simulator = Simulator::new(CostProfile::h200(), case.seed);
        simulator.run(&case.graph, &Conditions { step: 2, ..case.conditions() });
        let mut delays = case.delays.clone();
        delays.push((chosen, delay_us));
        let with = simulator.run(&case.graph, &Conditions { delays: &delays, ..case.conditions() });
        prop_assert!(same_before(&without, with, without.nodes[chosen].start_us));
        let (then, now) = (without.nodes[chosen].start_us, with.nodes[chosen].start_us);
        prop_assert!(now >= then);
        prop_assert!(now <= then + delay_us + 1e-9);
        if case.before.is_empty() {
            prop_assert!((now - then - delay_us).abs() < 1e-9);
        }
    }

    #[test]
    fn tiles_read_and_land_inside_their_node(
        case in any_case(),
        tiles in 1..200_usize,
        chunks in 1..20_usize,
    ) {
        let timeline = case.run();
        for (index, node) in case.graph.nodes.iter().enumerate() {
            let NodeTime { start_us, end_us } = timeline.nodes[index];
            for tile in 0..tiles {
                let land_us = timeline.land_us(index, tile, tiles);
                prop_assert!(start_us <= land_us && land_us <= end_us);
                let mut latest_us = start_us;
                for chunk in 0..chunks {
                    let sample_us = timeline.sample_us(index, tile, tiles, chunk, chunks);
                    prop_assert!(latest_us <= sample_us && sample_us <= land_us);
                    latest_us = sample_us;
                }
            }
            let served = match node.cost.tiles {
                Tiles::PerRow => case.load.context.len(),
                Tiles::Fixed(count) => count as usize,
            };
            let last_us = (0..served).map(|tile| timeline.land_us(index, tile, served)).fold(0.0, f64::max);
            prop_assert!((last_us - end_us).abs() < 1e-6, "{} {}", last_us, end_us);
        }
    }
}
