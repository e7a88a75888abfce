//! The one reducer: folds events into what is known of a target.

use std::collections::VecDeque;

use crate::bounded::keep;
use crate::limits::*;
use crate::{
    Canary, CanaryReport, Divergence, Event, EventKind, Flag, Graph, Hazard, Hello, LastWrites, Log, Metric, Session,
    SessionChange, SessionId, SessionPhase, SpanBatch, State, Step, ToggleChange, Totals,
};

impl State {
    /// Folds one event. Prefer [`State::apply_owned`] where the event is not needed any more.
    pub fn apply(&mut self, event: &Event) {
        self.apply_owned(event.clone());
    }

    /// Folds one event and keeps its parts.
    ///
    /// ```
    /// use coalmine_sessions::{Event, EventKind, State, Step};
    ///
    /// let mut state = State::default();
    /// let step = Step { rows: 80, diverged_rows: vec![3], diverged_sessions: vec![9], ..Step::default() };
    /// state.apply_owned(Event { sequence: 0, time_ns: 10, kind: EventKind::Step(step) });
    /// assert_eq!(state.totals.hit_steps, 1);
    /// assert!(state.sessions[&9].diverged() && !state.sessions[&9].corrupt());
    /// ```
    pub fn apply_owned(&mut self, event: Event) {
        self.pass(&event);
        match event.kind {
            EventKind::Hello(hello) => self.start(*hello),
            EventKind::Toggle(change) => self.toggle(change),
            EventKind::Step(step) => self.step(step),
            EventKind::Spans(batch) => self.spans(batch),
            EventKind::Canary(report) => self.canary(report),
            EventKind::Session(change) => self.session(change),
            EventKind::Graph(graph) => self.graph(graph),
            EventKind::Hazard(hazard) => self.hazard(hazard),
            EventKind::Differential(divergence) => self.differential(divergence),
            EventKind::Metric(metric) => self.metric(metric),
            EventKind::Log(line) => self.log(line),
            // Who sent the command waits for its answer; nobody else does.
            EventKind::Ack(_) => {}
            EventKind::Gap(gap) => self.dropped = self.dropped.saturating_add(gap.dropped),
        }
    }

    /// Takes note of where the stream is, but of nothing that the event says.
    pub(crate) fn pass(&mut self, event: &Event) {
        self.step = event.kind.belongs_to(self.step);
        self.sequence = event.sequence;
        self.time_ns = event.time_ns;
    }

    /// A stream begins with a hello, so a second one is another stream and nothing of the first holds.
    fn start(&mut self, mut hello: Hello) {
        keep(&mut hello.layers, LAYERS);
        keep(&mut hello.pools, POOLS);
        keep(&mut hello.lanes, LANES);
        hello.pools.iter_mut().for_each(|pool| pool.family.clip(NAME_CHARACTERS));
        hello.lanes.iter_mut().for_each(|lane| lane.clip(NAME_CHARACTERS));

        let mut refused = 0;
        let mut left = CANARY_PAGES;
        let tables = hello.pools.iter().map(|pool| match left.checked_sub(pool.pages as usize) {
            Some(rest) => {
                left = rest;
                LastWrites::new(pool.pages as usize)
            }
            None => {
                refused += 1;
                LastWrites::default()
            }
        });
        let canary = Canary { last_written: tables.collect(), ..Canary::default() };
        let (sequence, time_ns) = (self.sequence, self.time_ns);
        *self = Self { hello: Some(hello), canary, refused, sequence, time_ns, ..Self::default() };
    }

    fn toggle(&mut self, change: ToggleChange) {
        if !change.name.spec().accepts(change.value) {
            self.refused += 1;
            return;
        }
        let previous = self.toggles.insert(change.name, change.value);
        if change.step > 0 && previous != Some(change.value) {
            self.since_toggle = Totals::default();
            self.toggle_step = change.step;
        }
    }

    /// Counts something that happened at `step`.
    fn count(&mut self, step: u64, count: impl Fn(&mut Totals)) {
        count(&mut self.totals);
        if step >= self.toggle_step {
            count(&mut self.since_toggle);
        }
    }

    fn step(&mut self, mut step: Step) {
        keep(&mut step.diverged_rows, LARGEST_BATCH);
        keep(&mut step.diverged_sessions, LARGEST_BATCH);
        self.count(step.step, |totals| totals.add_step(&step));
        for &session in &step.diverged_sessions {
            self.diverged(session, step.step);
        }
        push_bounded(&mut self.steps, step, WINDOW_STEPS);
    }

    fn diverged(&mut self, id: SessionId, step: u64) {
        let toggle_step = self.toggle_step;
        let Some(session) = self.session_mut(id) else {
            return;
        };
        if session.last_diverged == Some(step) {
            return;
        }
        let first = session.last_diverged.is_none();
        let first_since = step >= toggle_step && session.last_diverged.is_none_or(|last| last < toggle_step);
        session.diverged_steps = session.diverged_steps.saturating_add(1);
        session.first_diverged.get_or_insert(step);
        session.last_diverged = Some(step);
        if session.diverged_turn.is_none_or(|(turn, _)| turn != session.turn) {
            session.diverged_turn = Some((session.turn, step));
        }
        self.totals.diverged_sessions += u64::from(first);
        self.since_toggle.diverged_sessions += u64::from(first_since);
    }

    fn spans(&mut self, mut batch: SpanBatch) {
        keep(&mut batch.spans, WINDOW_SPANS);
        push_bounded(&mut self.spans, batch, WINDOW_STEPS);
        let mut held: usize = self.spans.iter().map(|batch| batch.spans.len()).sum();
        while held > WINDOW_SPANS {
            held -= self.spans.pop_front().map_or(0, |batch| batch.spans.len());
        }
    }

    fn canary(&mut self, mut report: CanaryReport) {
        self.count(report.step, |totals| {
            totals.pages_checked += u64::from(report.pages_checked);
            totals.canary_hits += report.violations.len() as u64;
        });
        keep(&mut report.written, REPORT_PAGES);
        keep(&mut report.violations, REPORT_PAGES);
        for page in report.written.iter().chain(&report.violations) {
            let table = self.canary.last_written.get_mut(usize::from(page.pool));
            if !table.is_some_and(|table| table.set(page.page, report.step)) {
                self.refused += 1;
            }
        }
        for &page in &report.violations {
            push_bounded(&mut self.canary.violations, (report.step, page), CANARY_VIOLATIONS);
        }
        self.canary.last = Some(report);
    }

    /// The session, which arrives if it was not known. `None` if there is no room for it.
    fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        if !self.sessions.contains_key(&id) {
            if self.sessions.len() >= SESSIONS && !self.drop_finished() {
                self.refused += 1;
                return None;
            }
            self.totals.sessions += 1;
        }
        Some(self.sessions.entry(id).or_default())
    }

    /// Drops the finished session that will be missed least.
    fn drop_finished(&mut self) -> bool {
        let finished = self.sessions.iter().filter(|(_, session)| session.phase == SessionPhase::Finished);
        let least = finished
            .min_by_key(|(id, session)| (session.corrupt(), session.diverged(), session.step, **id))
            .map(|(id, _)| *id);
        least.is_some_and(|id| self.sessions.remove(&id).is_some())
    }

    fn session(&mut self, mut change: SessionChange) {
        let toggle_step = self.toggle_step;
        let Some(session) = self.session_mut(change.session) else {
            return;
        };
        let finishes = change.phase == SessionPhase::Finished && session.phase != SessionPhase::Finished;
        session.phase = change.phase;
        session.slot = change.slot;
        session.turn = change.turn;
        session.turns = change.turns;
        session.tokens = change.tokens;
        session.step = change.step;

        if !change.call.is_empty() || change.flag.is_some() {
            // Counting by turn counts a call once, however often a change is resent, and counts the
            // calls of changes that delivery has merged away.
            let made = change.turn.saturating_add(1);
            let made = if change.turns > 0 { made.min(change.turns) } else { made };
            let calls = made.saturating_sub(session.calls);
            session.calls += calls;
            let first_since = change.step >= toggle_step && session.last_call.is_none_or(|last| last < toggle_step);
            session.last_call = Some(change.step);
            let corrupt_before = session.flags.first().is_some_and(|flag| flag.step < toggle_step);
            if !change.call.is_empty() {
                change.call.clip(CALL_CHARACTERS);
                session.call = change.call;
            }
            self.since_toggle.sessions += u64::from(first_since);
            self.since_toggle.corrupted_before += u64::from(first_since && corrupt_before);
            self.count(change.step, |totals| totals.calls += u64::from(calls));
        }
        if let Some(flag) = change.flag {
            self.flag(change.session, flag);
        }
        if finishes {
            self.count(change.step, |totals| totals.finished += 1);
            let finished = self.sessions.values().filter(|session| session.phase == SessionPhase::Finished).count();
            if finished > FINISHED_SESSIONS {
                self.drop_finished();
            }
        }
    }

    fn flag(&mut self, id: SessionId, mut flag: Flag) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let identity = |flag: &Flag| (flag.kind, flag.turn, flag.step);
        if session.flags.iter().any(|known| identity(known) == identity(&flag)) {
            return;
        }
        let first = session.flags.is_empty();
        let damaged = session.damaging_step(flag.turn);
        let (kind, step) = (flag.kind, flag.step);
        if session.flags.len() < FLAGS_PER_SESSION {
            flag.expected.clip(CALL_CHARACTERS);
            flag.found.clip(CALL_CHARACTERS);
            session.flags.push(flag);
        } else {
            self.refused += 1;
        }
        let toggle_step = self.toggle_step;
        self.count(step, |totals| {
            *totals.flags.entry(kind).or_default() += 1;
            if first {
                totals.corrupted += 1;
                totals.clusters.add(damaged);
            }
        });
        if first && step >= toggle_step && damaged.is_some_and(|damaged| damaged < toggle_step) {
            self.since_toggle.carried_over += 1;
        }
    }

    fn graph(&mut self, mut graph: Graph) {
        keep(&mut graph.nodes, GRAPH_NODES);
        graph.nodes.iter_mut().for_each(|node| node.clip(NAME_CHARACTERS));
        graph.label.clip(NAME_CHARACTERS);
        if self.graphs.get(&graph.graph) == Some(&graph) {
            return;
        }
        self.forget_graph(graph.graph);
        let mut held: usize = self.graphs.values().map(|graph| graph.nodes.len()).sum();
        while self.graphs.len() >= GRAPHS || held + graph.nodes.len() > GRAPH_NODES {
            let Some((&oldest, _)) = self.graphs.first_key_value() else {
                break;
            };
            held -= self.forget_graph(oldest);
        }
        self.graphs.insert(graph.graph, graph);
    }

    /// Forgets a graph with its hazards; gives the number of its nodes.
    fn forget_graph(&mut self, id: u32) -> usize {
        let Some(graph) = self.graphs.remove(&id) else {
            return 0;
        };
        self.hazards.retain(|hazard| hazard.graph != id);
        graph.nodes.len()
    }

    fn hazard(&mut self, mut hazard: Hazard) {
        hazard.accesses.clip(NAME_CHARACTERS);
        if self.hazards.len() >= HAZARDS {
            self.refused += 1;
        } else if !self.hazards.contains(&hazard) {
            self.hazards.push(hazard);
        }
    }

    fn differential(&mut self, divergence: Divergence) {
        if let Some(session) = self.sessions.get_mut(&divergence.session)
            && session.first_diverged.is_none_or(|first| first == divergence.step)
        {
            // Sent before or after the step it belongs to.
            session.first_layer = session.first_layer.or(divergence.first_layer);
        }
        push_bounded(&mut self.divergences, divergence, DIVERGENCES);
    }

    fn metric(&mut self, mut metric: Metric) {
        metric.name.clip(NAME_CHARACTERS);
        if let Some(value) = self.metrics.get_mut(metric.name.as_str()) {
            *value = metric.value;
        } else if self.metrics.len() < METRICS {
            self.metrics.insert(metric.name.to_string(), metric.value);
        } else {
            self.refused += 1;
        }
    }

    fn log(&mut self, line: Log) {
        push_bounded(&mut self.log, line, LOG_LINES);
    }
}

impl Totals {
    fn add_step(&mut self, step: &Step) {
        self.steps += 1;
        self.tokens += u64::from(step.rows);
        self.slots_seen = self.slots_seen.max(step.rows);
        self.witnesses += u64::from(step.witnesses);
        self.witness_steps += u64::from(step.witnesses > 0);
        if step.diverged_rows.is_empty() {
            return;
        }
        let rows = step.diverged_rows.len();
        self.hit_steps += 1;
        self.diverged_rows += rows as u64;
        *self.rows_per_hit_step.entry(rows as u32).or_default() += 1;
        self.slots_hit.extend(step.diverged_rows.iter().filter(|&&slot| (slot as usize) < LARGEST_BATCH));
        self.diverged_without_witness += u64::from(step.witnesses == 0);
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, limit: usize) {
    if queue.len() >= limit {
        queue.pop_front();
    }
    queue.push_back(item);
}
