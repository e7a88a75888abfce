//! How many bytes events and states take, by estimate: what allocators round up to, and the inner nodes of trees, are
//! left out.

use crate::{CanaryReport, Event, EventKind, Flag, Graph, Hazard, Hello, PageRef, Session, SessionId, Span, State};

impl Event {
    /// Bytes that it takes in memory with what it owns, by estimate.
    pub fn weight(&self) -> usize {
        let owned = match &self.kind {
            EventKind::Hello(hello) => of_hello(hello),
            EventKind::Step(step) => 4 * step.diverged_rows.len() + 8 * step.diverged_sessions.len(),
            EventKind::Spans(batch) => batch.spans.len() * size_of::<Span>(),
            EventKind::Canary(report) => of_pages(report),
            EventKind::Session(change) => change.call.len() + change.flag.as_ref().map_or(0, of_flag),
            EventKind::Graph(graph) => of_graph(graph),
            EventKind::Hazard(hazard) => hazard.accesses.len(),
            EventKind::Metric(metric) => metric.name.len(),
            EventKind::Log(line) => line.text.len(),
            EventKind::Ack(ack) => ack.outcome.as_ref().err().map_or(0, |reason| reason.len()),
            EventKind::Toggle(_) | EventKind::Differential(_) | EventKind::Gap(_) => 0,
        };
        size_of::<Self>() + owned
    }
}

/// What a state owns, without its windows, graphs, hazards and hello.
pub(crate) fn of_state(state: &State) -> usize {
    let session = |session: &Session| {
        size_of::<(SessionId, Session)>()
            + session.call.len()
            + session.flags.iter().map(|flag| size_of::<Flag>() + of_flag(flag)).sum::<usize>()
    };
    let totals = [&state.totals, &state.since_toggle];
    let tables = state.canary.last_written.iter().map(|table| table.weight() + 24);
    state.sessions.values().map(session).sum::<usize>()
        + tables.sum::<usize>()
        + state.canary.violations.len() * size_of::<(u64, PageRef)>()
        + state.canary.last.as_ref().map_or(0, of_pages)
        + size_of_val(state.divergences.as_slices().0)
        + size_of_val(state.divergences.as_slices().1)
        + state.log.iter().map(|line| size_of_val(line) + line.text.len()).sum::<usize>()
        + state.metrics.keys().map(|name| 32 + name.len()).sum::<usize>()
        + totals.map(|totals| totals.rows_per_hit_step.len() * 12 + totals.slots_hit.len() * 4).iter().sum::<usize>()
}

/// The graphs, hazards and hello of a state.
pub(crate) fn of_shared(state: &State) -> usize {
    let hazards = state.hazards.iter().map(|hazard| size_of::<Hazard>() + hazard.accesses.len());
    state.graphs.values().map(|graph| size_of::<Graph>() + of_graph(graph)).sum::<usize>()
        + hazards.sum::<usize>()
        + state.hello.as_ref().map_or(0, of_hello)
}

fn of_hello(hello: &Hello) -> usize {
    size_of::<Hello>()
        + hello.layers.len()
        + hello.pools.iter().map(|pool| size_of_val(pool) + pool.family.len()).sum::<usize>()
        + hello.lanes.iter().map(|lane| size_of_val(lane) + lane.len()).sum::<usize>()
}

fn of_graph(graph: &Graph) -> usize {
    graph.label.len() + graph.nodes.iter().map(|node| size_of_val(node) + node.len()).sum::<usize>()
}

fn of_pages(report: &CanaryReport) -> usize {
    (report.written.len() + report.violations.len()) * size_of::<PageRef>()
}

fn of_flag(flag: &Flag) -> usize {
    flag.expected.len() + flag.found.len()
}
