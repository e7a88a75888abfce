//! A made-up target for tests: the events of an engine, without an engine.
//!
//! Everything follows from the seed, so that snapshots do not change by themselves.

use coalmine_sessions::*;

const SESSIONS: u64 = 80;
const TURNS: u32 = 6;
const LANES: [&str; 6] = ["main", "kv", "compressor", "indexer", "indexer-q", "indexer-weights"];
const LAYERS: [LayerKind; 4] = [LayerKind::Sliding, LayerKind::Ratio4, LayerKind::Ratio128, LayerKind::Ratio4];
const PLACES: [&str; 4] = ["amber-lamp", "cedar-rope", "iron-coil", "north-tile"];
const TOOLS: [&str; 4] = ["fetch", "count", "inspect", "weigh"];

/// The target: gives its events step by step.
pub(crate) struct Synthetic {
    random: u64,
    step: u64,
    time_ns: u64,
    sequence: u64,
    next_session: SessionId,
    running: Vec<Running>,
    nodes: Vec<Node>,
    /// Whether the branches run on lanes of their own, and so race.
    pub(crate) overlap: bool,
    /// Whether a page changes undeclared now and then.
    pub(crate) stray_writes: bool,
}

struct Running {
    id: SessionId,
    turn: u32,
    tokens: u32,
    /// Steps until its phase changes.
    left: u64,
    thinking: bool,
    damaged: bool,
}

struct Node {
    name: String,
    lane: u8,
    /// Nodes that must have ended before.
    after: Vec<usize>,
    duration_ns: u32,
}

impl Synthetic {
    pub(crate) fn new(seed: u64) -> Self {
        let mut target = Self {
            random: seed,
            step: 0,
            time_ns: 0,
            sequence: 0,
            next_session: 0,
            running: Vec::new(),
            nodes: nodes(),
            overlap: true,
            stray_writes: false,
        };
        for _ in 0..SESSIONS {
            target.arrive();
        }
        target
    }

    /// A state after so many steps.
    pub(crate) fn state_after(steps: u64) -> State {
        let mut target = Self::new(7);
        let mut state = State::default();
        for event in target.start() {
            state.apply(&event);
        }
        for _ in 0..steps {
            for event in target.next_step() {
                state.apply(&event);
            }
        }
        state
    }

    fn event(&mut self, kind: EventKind) -> Event {
        self.sequence += 1;
        Event { sequence: self.sequence - 1, time_ns: self.time_ns, kind }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn arrive(&mut self) {
        let running = Running {
            id: self.next_session,
            turn: 0,
            tokens: 180 + self.below(80) as u32,
            left: 4 + self.below(40),
            thinking: false,
            damaged: false,
        };
        self.next_session += 1;
        self.running.push(running);
    }

    /// What a target says first.
    pub(crate) fn start(&mut self) -> Vec<Event> {
        let hello = Hello {
            target: "embedded engine".into(),
            model: "demo, 4 layers".into(),
            device: "virtual GPU (DeepSeek-V4-Flash costs on an H200)".into(),
            instruction_set: "x86-64-v3".into(),
            seed: 7,
            concurrency: SESSIONS as u32,
            layers: LAYERS.to_vec(),
            pools: pools(),
            lanes: LANES.map(Sanitized::from).to_vec(),
        };
        let graph = Graph {
            graph: 1,
            label: "bucket 80, overlap on, index-k bf16".into(),
            nodes: self.nodes.iter().map(|node| node.name.as_str().into()).collect(),
        };
        let mut kinds = vec![EventKind::Hello(Box::new(hello))];
        kinds.extend(
            TOGGLES
                .iter()
                .map(|spec| EventKind::Toggle(ToggleChange { name: spec.name, value: spec.default, step: 0 })),
        );
        kinds.push(EventKind::Graph(graph));
        kinds.push(log(LogLevel::Info, "Captured 8 buckets with 2 variants each."));
        kinds.push(log(LogLevel::Warning, "1 hazard in bucket 80: q_b writes what top-k reads."));
        kinds.into_iter().map(|kind| self.event(kind)).collect()
    }

    /// The events of one step.
    pub(crate) fn next_step(&mut self) -> Vec<Event> {
        let step = self.step;
        self.step += 1;
        let start_ns = self.time_ns;
        let (spans, end_ns) = self.spans(start_ns);
        self.time_ns = end_ns;
        let decoding = self.running.iter().filter(|session| !session.thinking);
        let rows: Vec<SessionId> = decoding.map(|session| session.id).collect();
        let hits = if self.overlap && !rows.is_empty() && self.below(24) == 0 { 1 + self.below(3) } else { 0 };
        let mut kinds = Vec::new();
        let mut diverged_rows: Vec<u32> = (0..hits).map(|_| self.below(rows.len() as u64) as u32).collect();
        diverged_rows.sort_unstable();
        diverged_rows.dedup();
        let diverged_sessions: Vec<SessionId> = diverged_rows.iter().map(|row| rows[*row as usize]).collect();
        for (&row, &session) in diverged_rows.iter().zip(&diverged_sessions) {
            let harmful = self.below(4) == 0;
            kinds.push(EventKind::Differential(Divergence {
                step,
                row,
                session,
                first_layer: Some(if row % 2 == 0 { 1 } else { 3 }),
                largest: 0.37,
                flipped: harmful,
            }));
            let hit = self.running.iter_mut().find(|other| other.id == session);
            if let Some(hit) = hit {
                hit.damaged |= harmful;
            }
        }
        let written = self.written(step, &rows);
        let violations = if self.stray_writes && self.below(40) == 0 {
            vec![PageRef { pool: 5, page: 1 + self.below(90) as u32 }]
        } else {
            Vec::new()
        };
        self.advance_sessions(step, &mut kinds);
        kinds.push(EventKind::Step(Step {
            step,
            rows: rows.len() as u32,
            bucket: 80,
            captured: true,
            overlapped: self.overlap,
            start_ns,
            end_ns,
            nodes: spans.len() as u32,
            oracle: true,
            witnesses: diverged_rows.len() as u32,
            witnessed_rows: diverged_rows.len() as u32,
            diverged_rows,
            diverged_sessions,
        }));
        kinds.push(EventKind::Spans(SpanBatch { step, graph: 1, spans }));
        kinds.push(EventKind::Canary(CanaryReport { step, pages_checked: 900, written, violations }));
        if step.is_multiple_of(30) {
            kinds.push(EventKind::Metric(Metric {
                name: "tokens_per_second".into(),
                value: 4_800.0 + (step % 7) as f64,
            }));
        }
        kinds.into_iter().map(|kind| self.event(kind)).collect()
    }

    fn written(&mut self, step: u64, rows: &[SessionId]) -> Vec<PageRef> {
        let mut written = Vec::new();
        for (pool, known) in (0u16..).zip(pools()) {
            let every = match known.family.as_str() {
                "c4-kv" | "index-k" => 4,
                "c128-kv" => 128,
                _ => 1,
            };
            let due = rows.iter().filter(|id| (*id + step).is_multiple_of(every));
            written.extend(due.map(|id| PageRef { pool, page: 1 + (id * 3 + step / 100) as u32 % (known.pages - 1) }));
        }
        written
    }

    fn advance_sessions(&mut self, step: u64, kinds: &mut Vec<EventKind>) {
        let mut finished = 0;
        let mut running = std::mem::take(&mut self.running);
        for (slot, session) in running.iter_mut().enumerate() {
            session.tokens += u32::from(!session.thinking);
            session.left = session.left.saturating_sub(1);
            let ended = session.left == 0;
            let called = ended && !session.thinking;
            let mut change = SessionChange {
                session: session.id,
                phase: SessionPhase::Decoding,
                slot: Some(slot as u32),
                turn: session.turn,
                turns: TURNS,
                tokens: session.tokens,
                step,
                ..SessionChange::default()
            };
            if called {
                let place = PLACES[self.below(4) as usize];
                let tool = TOOLS[self.below(4) as usize];
                let right = format!("{}{:02}", ["A", "C", "F"][self.below(3) as usize], 1 + self.below(16));
                let wrong = format!("B{:02}", 1 + self.below(16));
                if session.damaged && self.below(2) == 0 {
                    change.call = format!("{tool}(item={place}, bin={wrong})").into();
                    change.flag = Some(Flag {
                        kind: FlagKind::WrongArgument,
                        turn: session.turn,
                        step,
                        expected: format!("{tool}(item={place}, bin={right})").into(),
                        found: change.call.clone(),
                    });
                } else {
                    change.call = format!("{tool}(item={place}, bin={right})").into();
                }
                session.thinking = true;
                session.left = 8 + self.below(30);
                change.phase = SessionPhase::Thinking;
                change.slot = None;
                if session.turn + 1 == TURNS {
                    change.phase = SessionPhase::Finished;
                    finished += 1;
                    session.turn = TURNS;
                }
            } else if ended {
                session.thinking = false;
                session.turn += 1;
                session.tokens += 24;
                session.left = 17;
                change.turn = session.turn;
            } else if session.thinking {
                change.phase = SessionPhase::Thinking;
                change.slot = None;
            }
            if ended || step == 0 || step % 16 == session.id % 16 {
                kinds.push(EventKind::Session(change));
            }
        }
        running.retain(|session| session.turn < TURNS);
        self.running = running;
        for _ in 0..finished {
            self.arrive();
        }
    }

    /// Times for the nodes, each as soon as its lane and what it waits for allow.
    fn spans(&mut self, start_ns: u64) -> (Vec<Span>, u64) {
        let mut lane_end = [start_ns; LANES.len()];
        let mut ends: Vec<u64> = Vec::new();
        let mut spans = Vec::new();
        for index in 0..self.nodes.len() {
            let noise = 950 + self.below(100);
            let node = &self.nodes[index];
            let lane = if self.overlap { node.lane } else { 0 };
            let ready = node.after.iter().map(|other| ends[*other]).max();
            let start = lane_end[usize::from(lane)].max(ready.unwrap_or(start_ns)) + 300;
            let duration = u64::from(node.duration_ns) * noise / 1_000;
            lane_end[usize::from(lane)] = start + duration;
            ends.push(start + duration);
            spans.push(Span { node: index as u32, lane, start_ns: start, duration_ns: duration as u32 });
        }
        let end = ends.into_iter().max().unwrap_or(start_ns);
        (spans, end + 2_000)
    }
}

fn log(level: LogLevel, text: &str) -> EventKind {
    EventKind::Log(Log { level, text: text.into() })
}

fn pools() -> Vec<Pool> {
    let mut pools = Vec::new();
    for (layer, kind) in (0u16..).zip(LAYERS) {
        let mut add = |family: &str, pages| {
            pools.push(Pool { family: family.into(), layer, pages, page_bytes: 8_448 });
        };
        add("swa-kv", 121);
        match kind {
            LayerKind::Sliding => {}
            LayerKind::Ratio4 => {
                add("c4-kv", 241);
                add("index-k", 241);
                add("c4-state", 121);
            }
            LayerKind::Ratio128 => {
                add("c128-kv", 241);
                add("c128-state", 121);
            }
        }
    }
    pools
}

fn nodes() -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut joined: Vec<usize> = Vec::new();
    for (layer, kind) in LAYERS.into_iter().enumerate() {
        let mut add = |name: &str, lane: u8, after: &[usize], duration_ns: u32| {
            nodes.push(Node { name: format!("L{layer} {name}"), lane, after: after.to_vec(), duration_ns });
            nodes.len() - 1
        };
        add("hc pre", 0, &joined, 2_400);
        let qkv = add("qkv_a", 0, &[], 6_800);
        joined = vec![add("kv norm-rope-store", 1, &[qkv], 3_100)];
        if kind != LayerKind::Sliding {
            let gemm = add("compress gemm", 2, &[qkv], 4_300);
            joined.push(add("compress norm-rope-store", 2, &[gemm], 3_700));
        }
        if kind == LayerKind::Ratio4 {
            let query = add("index q_b", 4, &[qkv], 5_200);
            let weights = add("index weights", 5, &[qkv], 2_200);
            let read = add("index-k to bf16", 3, &[qkv], 3_600);
            let logits = add("index logits", 3, &[query, weights, read], 7_400);
            joined.push(add("index top-k", 3, &[logits], 4_100));
        }
        add("q_b", 0, &[], 8_900);
        add("q norm-rope", 0, &[], 2_700);
        add("attention", 0, &joined, 14_200);
        add("o_a", 0, &[], 5_100);
        add("o_b", 0, &[], 4_600);
        add("hc post", 0, &[], 2_100);
        let gate = add("gate", 0, &[], 2_900);
        let shared = add("shared expert", 1, &[gate], 6_300);
        let up = add("experts up", 0, &[], 12_800);
        joined = vec![add("experts down", 0, &[up], 9_700), shared];
    }
    let last = nodes.len();
    for (name, duration_ns) in [("head norm", 2_000), ("logits", 11_000), ("argmax", 3_000)] {
        nodes.push(Node {
            name: name.to_owned(),
            lane: 0,
            after: if name == "head norm" { joined.clone() } else { vec![last] },
            duration_ns,
        });
    }
    nodes
}
