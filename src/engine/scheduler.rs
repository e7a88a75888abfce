//! Continuous batching of agent sessions: arrive, prefill, transfer, decode, think, come back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use coalmine_kernels::virtual_gpu::{CostProfile, Foreign, Noise, Place, Purpose};
use coalmine_kernels::{Compute, Lane, Memory};
use coalmine_sessions::workload::{END_OF_SENTENCE, Finding, MAX_CALL_TOKENS, Schedule, Script, Vocabulary, judge};
use coalmine_sessions::{
    Ack, CanaryMode, CanaryReport, Command, CommandId, CommandKind, Divergence, EventKind, EventSender, Flag, Graph,
    Hazard, Hello, LayerKind, Log, LogLevel, PageRef, Pool, Sanitized, SessionChange, SessionPhase, Span, SpanBatch,
    Step, TakesEffect, ToggleChange, ToggleName, ToggleValue, Toggles,
};

use super::checkpoint::{AttentionKind, Checkpoint};
use super::error::{EngineError, check_supported};
use super::model::Model;
use super::pools::{Formats, Holding, Ownership, PoolSizes, Pools, transfer};
use super::runner::{
    CostFactor, Moment, PREFILL_ROWS, Row, Runner, RunnerShape, Side, StepModes, index_format, kv_format,
};
use super::served::{ServedShape, index_pool_key};
use super::write_set::Written;
use crate::probe::{LocationCanary, SWEEP_STEPS};

/// Cache keys of what is no node's: a canary's clone and arriving pages.
const CLONE_KEY: u64 = 3 << 32;
const TRANSFER_KEY: u64 = 4 << 32;
/// Served bytes of the index keys that the incident's canary cloned, over all layers.
const CLONED_BYTES: f64 = 64.0 * 1_048_576.0;
/// Device time that passes at a step boundary with nobody to decode, us.
const IDLE_US: f64 = 1_000.0;
/// Most rows for which the branches overlap: the limit of the incident's hardware.
pub const OVERLAP_ROWS: usize = 128;
/// Most tokens of a session of the agent task, rounded up to what a page table likes.
pub const CONTEXT: usize = 1024;

/// What an engine is asked to host.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Name of the model, for people.
    pub model: String,
    /// Most sessions at once.
    pub concurrency: usize,
    /// Sessions in all; none is endless.
    pub sessions: Option<u64>,
    /// Turns of a session.
    pub turns: u32,
    /// Seed of workload and noise.
    pub seed: u64,
    /// Toggles at the start.
    pub toggles: Toggles,
    /// Whether the step oracle runs beside every step.
    pub oracle: bool,
    /// Most rows for which the branches of a layer overlap.
    pub overlap_rows: usize,
    /// The device's costs.
    pub profile: CostProfile,
    /// The served model's shape.
    pub served: ServedShape,
    /// Factors on the costs of nodes.
    pub costs: Vec<CostFactor>,
    /// How operators compute.
    pub compute: Compute,
}

impl EngineOptions {
    /// The incident on the demo model: 80 sessions of 6 turns at once, without end, every toggle at its default.
    pub fn incident(compute: Compute) -> Self {
        Self {
            model: crate::DEMO_MODEL.to_owned(),
            concurrency: 80,
            sessions: None,
            turns: 6,
            seed: 1,
            toggles: Toggles::default(),
            oracle: true,
            overlap_rows: OVERLAP_ROWS,
            profile: CostProfile::h200(),
            served: ServedShape::FLASH,
            costs: Vec::new(),
            compute,
        }
    }

    /// Checks the options and that the model can run the agent task.
    ///
    /// # Errors
    /// Names the option or config field, what was found and what is expected.
    pub fn check(&self, checkpoint: &Checkpoint) -> Result<(), EngineError> {
        check_supported(&checkpoint.config)?;
        let largest = Vocabulary::demo().size() - 1;
        if checkpoint.config.vocab_size <= largest {
            return Err(EngineError::Vocabulary { vocabulary: checkpoint.config.vocab_size, largest });
        }
        for (option, value, most) in [("--concurrency", self.concurrency, 1024), ("--turns", self.turns as usize, 16)] {
            if !(1..=most).contains(&value) {
                let expected = format!("between 1 and {most}");
                return Err(EngineError::Option { option, found: value.to_string(), expected });
            }
        }
        Ok(())
    }
}

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Sessions are running or will come.
    Running,
    /// Every session has had all its turns.
    Finished,
}

#[derive(Debug)]
struct Agent {
    id: u64,
    script: Script,
    phase: SessionPhase,
    turn: u32,
    holding: Holding,
    /// Tokens whose rows are in the pools.
    tokens: Vec<u32>,
    /// Tokens of the present call; the last one is not in the pools yet.
    call: Vec<u32>,
    /// Step whose token was the first that a client could see to be wrong in the present call.
    first_wrong: Option<u64>,
    /// Step boundary at which its tool answers.
    ready: u64,
}

impl Agent {
    /// Starts the call of the present turn with the token that the prefill chose.
    fn begin_call(&mut self, token: u32, step: u64) {
        self.call.clear();
        self.first_wrong = None;
        self.phase = SessionPhase::Decoding;
        self.push(token, step);
    }

    /// Adds a token to the present call. Only one call is right, so the first other token makes it wrong.
    fn push(&mut self, token: u32, step: u64) {
        let expected = self.script.turns[self.turn as usize].expected.get(self.call.len());
        if expected != Some(&token) {
            self.first_wrong.get_or_insert(step);
        }
        self.call.push(token);
    }
}

/// A change of toggles that waits for the running calls to end.
#[derive(Debug)]
struct Drain {
    command: CommandId,
    name: ToggleName,
    value: ToggleValue,
}

/// An engine that hosts agent sessions.
pub struct Engine {
    options: EngineOptions,
    toggles: Toggles,
    runner: Runner,
    canary: LocationCanary,
    ownership: Ownership,
    prefill_ownership: Ownership,
    schedule: Schedule,
    noise: Noise,
    agents: Vec<Agent>,
    /// Sessions that arrive at a set step, soonest first: step and identity.
    first_arrivals: VecDeque<(u64, u64)>,
    arrived: u64,
    finished: u64,
    step: u64,
    tokens: u64,
    /// Length of the last step, over which traffic beside the next one is spread; us.
    last_step_us: f64,
    /// Served bytes that arrive beside the next step.
    arriving: f64,
    drain: Option<Drain>,
    acknowledged: BTreeMap<CommandId, Result<u64, Sanitized>>,
    events: Arc<EventSender>,
    foreign: Vec<Foreign>,
    announced: Vec<u32>,
}

impl Engine {
    /// Builds an engine and announces it.
    pub fn new(checkpoint: &Checkpoint, options: EngineOptions, events: Arc<EventSender>) -> Result<Self, EngineError> {
        options.check(checkpoint)?;
        let context = context_for(options.turns);
        let model = Arc::new(Model::new(checkpoint, context));
        let runner = build_runner(Arc::clone(&model), &options, options.toggles, context, 0);
        for cost in &options.costs {
            let names = |name: &str| name.contains(&cost.node);
            if !runner.captured().any(|list| list.prepared.graph().nodes.iter().any(|node| names(&node.name))) {
                return Err(EngineError::Option {
                    option: "--cost",
                    found: cost.node.clone(),
                    expected: "part of a node's name, for example `indexer top-k`".to_owned(),
                });
            }
        }
        let sizes = runner.pools.sizes;
        let schedule = Schedule::new(options.seed);
        let first = options.sessions.unwrap_or(u64::MAX).min(options.concurrency as u64);
        let mut first_arrivals: Vec<_> = (0..first).map(|id| (u64::from(schedule.arrival(id)), id)).collect();
        first_arrivals.sort_unstable();
        let engine = Self {
            first_arrivals: first_arrivals.into(),
            toggles: options.toggles,
            canary: LocationCanary::new(&runner.pools),
            ownership: Ownership::new(sizes),
            prefill_ownership: Ownership::new(runner.prefill_pools.sizes),
            schedule,
            noise: Noise::new(options.seed),
            agents: Vec::new(),
            arrived: 0,
            finished: 0,
            step: 0,
            tokens: 0,
            last_step_us: 0.0,
            arriving: 0.0,
            drain: None,
            acknowledged: BTreeMap::new(),
            events,
            foreign: Vec::new(),
            announced: Vec::new(),
            runner,
            options,
        };
        engine.announce();
        Ok(engine)
    }

    /// Step boundaries passed so far, with or without anyone to decode.
    pub fn step_number(&self) -> u64 {
        self.step
    }

    /// Tokens decoded so far.
    pub fn tokens_decoded(&self) -> u64 {
        self.tokens
    }

    /// Present values of the toggles.
    pub fn toggles(&self) -> &Toggles {
        &self.toggles
    }

    /// The runner, for those who look deeper.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Carries out a command at this step boundary. Pacing and holding are the host's affair.
    pub fn command(&mut self, command: &Command) {
        if let Some(outcome) = self.acknowledged.get(&command.id) {
            let outcome = outcome.clone();
            self.emit(EventKind::Ack(Ack { command: command.id, outcome }));
            return;
        }
        if self.drain.as_ref().is_some_and(|drain| drain.command == command.id) {
            // Its answer comes when the pools have drained.
            return;
        }
        let CommandKind::SetToggle(name, value) = command.kind else {
            return self.acknowledge(command.id, Ok(self.step));
        };
        let mut toggles = self.toggles;
        if let Err(error) = toggles.set(name, value) {
            return self.acknowledge(command.id, Err(Sanitized::new(&error.to_string())));
        }
        match name.spec().takes_effect {
            TakesEffect::NextStep => {
                self.toggles = toggles;
                self.emit(EventKind::Toggle(ToggleChange { name, value, step: self.step }));
                self.acknowledge(command.id, Ok(self.step));
            }
            TakesEffect::AfterDrain => match &self.drain {
                Some(drain) => {
                    let text = format!(
                        "The pools are being drained for a change of `{}`; ask again once that has been acknowledged.",
                        drain.name.spec().long
                    );
                    self.acknowledge(command.id, Err(Sanitized::new(&text)));
                }
                None if toggles == self.toggles => self.acknowledge(command.id, Ok(self.step)),
                None => self.drain = Some(Drain { command: command.id, name, value }),
            },
        }
    }

    /// Runs one step boundary and, if anyone decodes, the step after it.
    pub fn advance(&mut self) -> Result<Progress, EngineError> {
        self.rebuild_if_drained()?;
        self.admit()?;
        self.answer_tools()?;
        if self.agents.iter().any(|agent| agent.phase == SessionPhase::Decoding) {
            self.decode();
        } else if self.options.sessions.is_some_and(|sessions| self.finished >= sessions) {
            return Ok(Progress::Finished);
        } else {
            self.runner.gpu.idle(IDLE_US);
        }
        self.step += 1;
        Ok(Progress::Running)
    }

    fn emit(&self, kind: EventKind) {
        self.events.send(kind, (self.runner.gpu.clock_us() * 1e3) as u64);
    }

    /// Whether a command has been answered, so that it must not be carried out again.
    pub fn answered(&self, command: CommandId) -> bool {
        self.acknowledged.contains_key(&command)
    }

    /// Refuses a command, for good.
    pub fn refuse(&mut self, command: CommandId, reason: &str) {
        self.acknowledge(command, Err(Sanitized::new(reason)));
    }

    /// Answers a command, for good.
    pub(super) fn acknowledge(&mut self, command: CommandId, outcome: Result<u64, Sanitized>) {
        self.acknowledged.insert(command, outcome.clone());
        // Senders count upwards; what is far behind will not be asked again.
        while self.acknowledged.len() > 4096 {
            self.acknowledged.pop_first();
        }
        self.emit(EventKind::Ack(Ack { command, outcome }));
    }

    fn log(&self, level: LogLevel, text: &str) {
        self.emit(EventKind::Log(Log { level, text: Sanitized::new(text) }));
    }

    fn announce(&self) {
        let model = self.runner.model();
        let profile = self.runner.gpu.profile();
        let pools = self.runner.pools.buffers.iter().map(|buffer| Pool {
            family: Sanitized::new(buffer.family.name()),
            layer: buffer.layer as u16,
            pages: buffer.pages() as u32,
            page_bytes: buffer.page as u32,
        });
        let layers = model.config.layers.iter().map(|layer| match layer.attention {
            AttentionKind::Sliding => LayerKind::Sliding,
            AttentionKind::Ratio4 => LayerKind::Ratio4,
            AttentionKind::Ratio128 => LayerKind::Ratio128,
        });
        self.emit(EventKind::Hello(Box::new(Hello {
            target: Sanitized::new("embedded engine"),
            model: Sanitized::new(&self.options.model),
            device: Sanitized::new(&format!("virtual GPU (DeepSeek-V4-Flash costs, {})", profile.name)),
            instruction_set: Sanitized::new(self.options.compute.cpu.level()),
            seed: self.options.seed,
            concurrency: self.options.concurrency as u32,
            layers: layers.collect(),
            pools: pools.collect(),
            lanes: Lane::NAMES.iter().map(|name| Sanitized::new(name)).collect(),
        })));
        for (name, value) in self.toggles.iter() {
            self.emit(EventKind::Toggle(ToggleChange { name, value, step: self.step }));
        }
    }

    /// Tells of a graph the first time that it runs, and of its hazards.
    fn announce_graph(&mut self, id: u32) {
        if self.announced.contains(&id) {
            return;
        }
        self.announced.push(id);
        let Some(captured) = self.runner.graph(id) else { return };
        let graph = captured.prepared.graph();
        self.emit(EventKind::Graph(Graph {
            graph: id,
            label: Sanitized::new(&graph.label),
            nodes: graph.nodes.iter().map(|node| Sanitized::new(&node.name)).collect(),
        }));
        for hazard in captured.prepared.hazards() {
            let mode = |node: usize, access: usize| {
                if graph.nodes[node].operator.accesses()[access].mode.writes() { "write" } else { "read" }
            };
            let accesses =
                format!("{}/{}", mode(hazard.first, hazard.first_access), mode(hazard.second, hazard.second_access));
            self.emit(EventKind::Hazard(Hazard {
                graph: id,
                first: hazard.first as u32,
                second: hazard.second as u32,
                bytes: hazard.range.length as u64,
                accesses: Sanitized::new(&accesses),
            }));
        }
    }

    fn tell_session(&self, agent: &Agent, slot: Option<u32>, call: Sanitized, flag: Option<Flag>) {
        self.emit(EventKind::Session(SessionChange {
            session: agent.id,
            phase: agent.phase,
            slot,
            turn: agent.turn,
            turns: agent.script.turns.len() as u32,
            tokens: (agent.tokens.len() + agent.call.len()) as u32,
            step: self.step,
            call,
            flag,
        }));
    }

    /// Lets sessions in whose time has come and for whom there is a place.
    fn admit(&mut self) -> Result<(), EngineError> {
        while self.drain.is_none()
            && self.agents.len() < self.options.concurrency
            && self.options.sessions.is_none_or(|sessions| self.arrived < sessions)
        {
            // The first ones come spread over time; a later one takes the place of one that left,
            // and those leave spread over time.
            let id = match self.first_arrivals.front() {
                Some((arrival, _)) if *arrival > self.step => break,
                Some((_, id)) => *id,
                None => self.arrived,
            };
            let Some(holding) = self.ownership.admit() else { break };
            self.first_arrivals.pop_front();
            self.arrived += 1;
            let script = Script::new(self.schedule.script_seed(id), self.options.turns);
            let mut agent = Agent {
                id,
                script,
                phase: SessionPhase::Prefill,
                turn: 0,
                holding,
                tokens: Vec::new(),
                call: Vec::new(),
                first_wrong: None,
                ready: 0,
            };
            self.tell_session(&agent, None, Sanitized::default(), None);
            let prompt = agent.script.turns[0].prompt.clone();
            self.prefill_and_transfer(&mut agent, prompt)?;
            self.tell_session(&agent, None, Sanitized::default(), None);
            self.agents.push(agent);
        }
        Ok(())
    }

    /// Computes a whole prompt on the prefill side and moves its pages over.
    fn prefill_and_transfer(&mut self, agent: &mut Agent, prompt: Vec<u32>) -> Result<(), EngineError> {
        let tokens = prompt.len() + MAX_CALL_TOKENS;
        if !self.ownership.extend(&mut agent.holding, tokens) {
            return Err(EngineError::OutOfPages { session: agent.id, tokens });
        }
        // The prefill side holds one sequence at a time, so a row and its pages are free.
        let mut source = self.prefill_ownership.admit().expect("the prefill side is idle between sequences");
        self.prefill_ownership.extend(&mut source, prompt.len());
        let next = self.runner.prefill(Side::Prefill, &source, &prompt, 0, PREFILL_ROWS, |_, _, _| ());
        agent.phase = SessionPhase::Transfer;
        let runner = &mut self.runner;
        let target = Holding {
            pages: agent.holding.pages[..source.pages.len()].to_vec(),
            swa_pages: agent.holding.swa_pages[..source.swa_pages.len()].to_vec(),
            request: agent.holding.request,
        };
        let moved = transfer(&mut runner.gpu.memory, (&runner.prefill_pools, &source), (&runner.pools, &target));
        if let Err(mismatch) = moved {
            let buffer = &self.runner.pools.buffers[mismatch.buffer];
            return Err(EngineError::Transfer {
                family: buffer.family.name(),
                layer: buffer.layer,
                page: mismatch.page,
            });
        }
        self.runner.pools.map(&mut self.runner.gpu.memory, &agent.holding, 0, prompt.len());
        for (buffer, page) in self.runner.pools.pages_of(&agent.holding) {
            self.canary.declare(buffer, page);
        }
        self.arriving += self.runner.served().session_bytes(prompt.len() as u32);
        self.runner.prefill_pools.unmap(&mut self.runner.gpu.memory, &source);
        self.prefill_ownership.release(source);
        agent.tokens = prompt;
        agent.begin_call(next, self.step);
        Ok(())
    }

    /// Gives the sessions whose tools have answered their next turn, in place.
    fn answer_tools(&mut self) -> Result<(), EngineError> {
        if self.drain.is_some() {
            return Ok(());
        }
        for index in 0..self.agents.len() {
            let agent = &mut self.agents[index];
            if agent.phase != SessionPhase::Thinking || agent.ready > self.step {
                continue;
            }
            agent.turn += 1;
            // The call's last token was chosen but never fed; it leads the new part.
            let mut fresh: Vec<u32> = agent.call.last().copied().into_iter().collect();
            fresh.extend_from_slice(&agent.script.turns[agent.turn as usize].prompt);
            let from = agent.tokens.len();
            let tokens = from + fresh.len() + MAX_CALL_TOKENS;
            if !self.ownership.extend(&mut agent.holding, tokens) {
                return Err(EngineError::OutOfPages { session: agent.id, tokens });
            }
            let next = self.runner.prefill(Side::Decode, &agent.holding, &fresh, from, PREFILL_ROWS, |_, _, _| ());
            for (buffer, page) in self.runner.pools.pages_of(&agent.holding) {
                self.canary.declare(buffer, page);
            }
            agent.tokens.extend(fresh);
            agent.begin_call(next, self.step);
            let agent = &self.agents[index];
            self.tell_session(agent, None, Sanitized::default(), None);
        }
        Ok(())
    }

    fn modes(&self) -> StepModes {
        StepModes {
            captured: !self.toggles.eager(),
            overlap: self.toggles.overlap(),
            padding: self.toggles.padding(),
            tracing: self.toggles.tracing(),
            nudge_main_ns: self.toggles.nudge_main_ns(),
            nudge_indexer_ns: self.toggles.nudge_indexer_ns(),
            oracle: self.options.oracle,
        }
    }

    /// What else moves bytes beside the next step.
    fn plan_foreign(&mut self) {
        self.foreign.clear();
        let mode = self.toggles.canary();
        let traffic = self.runner.gpu.profile().foreign;
        // Pages arrive over the network when they arrive, whatever the host waits for.
        if self.arriving > 0.0 {
            let at = self.noise.uniform(self.step, 0, 1, Purpose::Arrival) * self.last_step_us;
            let mut pages = Foreign::fill(Place::At(at), TRANSFER_KEY, self.arriving);
            pages.most_bytes_per_us = traffic.most_bytes_per_us;
            self.foreign.push(pages);
            self.arriving = 0.0;
        }
        // The host prepares the next batch while this one runs. A synchronous canary makes the host
        // wait for the step, and then the preparation runs between steps.
        let first = self.foreign.len();
        self.runner.gpu.foreign_traffic(self.step, self.last_step_us, &mut self.foreign);
        if mode == CanaryMode::Clone {
            self.foreign[first..].iter_mut().for_each(|work| work.place = Place::After);
            self.runner.gpu.idle(self.runner.gpu.profile().host_sync_us);
        }
        let layers: Vec<u64> = self.runner.index_layers().collect();
        let share = CLONED_BYTES / layers.len().max(1) as f64;
        match mode {
            CanaryMode::Off => {}
            // Each step hashes a rotating share of the pages, before and after.
            CanaryMode::Hash => {
                for layer in layers {
                    let key = index_pool_key(layer);
                    self.foreign.push(Foreign::scan(Place::Before, key, share / SWEEP_STEPS as f64));
                    self.foreign.push(Foreign::scan(Place::After, key, share / SWEEP_STEPS as f64));
                }
            }
            CanaryMode::Clone => {
                for layer in layers {
                    let (key, clone) = (index_pool_key(layer), CLONE_KEY + layer);
                    self.foreign.push(Foreign::copy(Place::Before, key, clone, share));
                    self.foreign.push(Foreign::scan(Place::After, key, share));
                    self.foreign.push(Foreign::scan(Place::After, clone, share));
                }
            }
        }
    }

    fn decode(&mut self) {
        self.plan_foreign();
        let modes = self.modes();
        let decoding: Vec<usize> =
            (0..self.agents.len()).filter(|&index| self.agents[index].phase == SessionPhase::Decoding).collect();
        let rows: Vec<Row<'_>> = decoding
            .iter()
            .map(|&index| {
                let agent = &self.agents[index];
                Row {
                    // A decoding session has at least the token that its prefill chose.
                    token: agent.call.last().copied().unwrap_or(END_OF_SENTENCE),
                    position: agent.tokens.len(),
                    holding: &agent.holding,
                }
            })
            .collect();
        let mode = self.toggles.canary();
        let canary = &mut self.canary;
        let around = |memory: &Memory, pools: &Pools, written: &[Written], moment| match moment {
            Moment::Before => canary.before(mode, memory, pools, written),
            Moment::After => {
                canary.after(mode, memory, pools);
            }
        };
        let outcome = self.runner.decode(self.step, &rows, modes, &self.foreign, around);
        let tokens = outcome.tokens.clone();
        self.tokens += tokens.len() as u64;
        self.last_step_us = outcome.duration_us;
        let start_ns = (outcome.start_us * 1e3) as u64;
        let divergences = outcome.divergences.clone();
        let mut witnessed: Vec<usize> = outcome.witnesses.iter().filter_map(|witness| witness.row).collect();
        witnessed.sort_unstable();
        witnessed.dedup();
        let step = Step {
            step: self.step,
            rows: rows.len() as u32,
            bucket: outcome.bucket as u32,
            captured: outcome.captured,
            overlapped: outcome.overlapped,
            start_ns,
            end_ns: start_ns + (outcome.duration_us * 1e3) as u64,
            nodes: outcome.nodes.len() as u32,
            oracle: modes.oracle,
            diverged_rows: divergences.iter().map(|divergence| divergence.row as u32).collect(),
            diverged_sessions: divergences.iter().map(|divergence| self.agents[decoding[divergence.row]].id).collect(),
            witnesses: outcome.witnesses.len() as u32,
            witnessed_rows: witnessed.len() as u32,
        };
        let graph = outcome.graph;
        let times: Vec<(u64, u32)> = outcome
            .nodes
            .iter()
            .map(|time| {
                let start = start_ns + (time.start_us * 1e3) as u64;
                (start, ((time.end_us - time.start_us) * 1e3) as u32)
            })
            .collect();
        drop(rows);
        self.announce_graph(graph);
        if let Some(captured) = self.runner.graph(graph) {
            let spans = captured.prepared.graph().nodes.iter().zip(times).enumerate();
            let spans = spans.map(|(node, (of, (start_ns, duration_ns)))| Span {
                node: node as u32,
                lane: of.lane.0,
                start_ns,
                duration_ns,
            });
            let spans = spans.collect();
            self.emit(EventKind::Spans(SpanBatch { step: self.step, graph, spans }));
        }
        self.report_canary(mode);
        self.emit(EventKind::Step(step));
        for divergence in &divergences {
            self.emit(EventKind::Differential(Divergence {
                step: self.step,
                row: divergence.row as u32,
                session: self.agents[decoding[divergence.row]].id,
                first_layer: divergence.first_layer.map(|layer| layer as u16),
                largest: divergence.largest,
                flipped: divergence.flipped,
            }));
        }
        for (slot, (&index, token)) in decoding.iter().zip(tokens).enumerate() {
            self.take_token(index, slot as u32, token);
        }
        let finished = |agent: &Agent| agent.phase == SessionPhase::Finished;
        for agent in self.agents.extract_if(.., |agent| finished(agent)) {
            self.finished += 1;
            self.runner.pools.unmap(&mut self.runner.gpu.memory, &agent.holding);
            self.ownership.release(agent.holding);
        }
    }

    fn report_canary(&self, mode: CanaryMode) {
        if mode == CanaryMode::Off {
            return;
        }
        let page = |buffer: usize, page: usize| PageRef { pool: buffer as u16, page: page as u32 };
        let sight = self.canary.sight();
        let mut written: Vec<PageRef> =
            self.canary.written().iter().map(|written| page(written.buffer, written.page)).collect();
        written.sort_unstable();
        written.dedup();
        self.emit(EventKind::Canary(CanaryReport {
            step: self.step,
            pages_checked: sight.pages_checked as u32,
            written,
            violations: sight.violations.iter().map(|&(buffer, number)| page(buffer, number)).collect(),
        }));
    }

    /// Gives a session the token of its row.
    fn take_token(&mut self, index: usize, slot: u32, token: u32) {
        let step = self.step;
        let agent = &mut self.agents[index];
        agent.tokens.extend(agent.call.last());
        agent.push(token, step);
        if token != END_OF_SENTENCE && agent.call.len() < MAX_CALL_TOKENS {
            let agent = &self.agents[index];
            // A panel that follows tokens needs no more than one line a few steps.
            if agent.call.len() % 4 == 2 {
                self.tell_session(agent, Some(slot), Sanitized::default(), None);
            }
            return;
        }
        let expected = &agent.script.turns[agent.turn as usize].expected;
        let seen = agent.first_wrong.unwrap_or(step);
        let flag = judge(expected, &agent.call).map(|finding: Finding| finding.flag(agent.turn, seen));
        let text = Vocabulary::demo().text(&agent.call);
        agent.phase = if agent.turn + 1 == agent.script.turns.len() as u32 {
            SessionPhase::Finished
        } else {
            agent.ready = step + 1 + u64::from(self.schedule.think(agent.id, agent.turn));
            SessionPhase::Thinking
        };
        let agent = &self.agents[index];
        self.tell_session(agent, None, text, flag);
    }

    /// Once nobody decodes: rebuilds the pools in the new format and computes every session anew.
    fn rebuild_if_drained(&mut self) -> Result<(), EngineError> {
        let decoding = self.agents.iter().any(|agent| agent.phase == SessionPhase::Decoding);
        let Some(drain) = self.drain.take_if(|_| !decoding) else { return Ok(()) };
        if let Err(error) = self.toggles.set(drain.name, drain.value) {
            self.acknowledge(drain.command, Err(Sanitized::new(&error.to_string())));
            return Ok(());
        }
        let model = Arc::clone(self.runner.model());
        let clock_us = self.runner.gpu.clock_us();
        let context = self.runner.pools.sizes.context;
        let next_id = self.runner.next_id();
        self.runner = build_runner(model, &self.options, self.toggles, context, next_id);
        self.runner.gpu.idle(clock_us);
        self.ownership = Ownership::new(self.runner.pools.sizes);
        self.prefill_ownership = Ownership::new(self.runner.prefill_pools.sizes);
        self.canary = LocationCanary::new(&self.runner.pools);
        self.announced.clear();
        let mut agents = std::mem::take(&mut self.agents);
        for agent in &mut agents {
            // As many rows are free as there were sessions.
            agent.holding = self.ownership.admit().expect("a fresh pool holds all running sessions");
            let (phase, call, first_wrong) = (agent.phase, std::mem::take(&mut agent.call), agent.first_wrong);
            let tokens = std::mem::take(&mut agent.tokens);
            self.prefill_and_transfer(agent, tokens)?;
            (agent.phase, agent.call, agent.first_wrong) = (phase, call, first_wrong);
            self.tell_session(agent, None, Sanitized::default(), None);
        }
        self.agents = agents;
        self.emit(EventKind::Toggle(ToggleChange { name: drain.name, value: drain.value, step: self.step }));
        self.log(
            LogLevel::Info,
            &format!(
                "The pools were rebuilt for `{}` and {} running sessions were computed anew.",
                drain.name.spec().long,
                self.agents.len()
            ),
        );
        self.acknowledge(drain.command, Ok(self.step));
        Ok(())
    }
}

/// Tokens that a session of so many turns may hold.
fn context_for(turns: u32) -> usize {
    // A session starts with at most 13 + 5 * 48 tokens of facts, and a turn adds at most 55.
    (13 + 5 * 48 + turns as usize * (55 + MAX_CALL_TOKENS)).next_multiple_of(CONTEXT)
}

fn build_runner(model: Arc<Model>, options: &EngineOptions, toggles: Toggles, context: usize, first_id: u32) -> Runner {
    let shape = RunnerShape {
        rows: options.concurrency,
        sizes: PoolSizes::for_sessions(options.concurrency, context),
        formats: Formats { kv: kv_format(toggles.kv_rows()), index: index_format(toggles.index_k()) },
        overlap_rows: options.overlap_rows,
    };
    Runner::new(
        model,
        options.profile.clone(),
        options.served,
        options.seed,
        options.compute,
        shape,
        &options.costs,
        first_id,
    )
}
