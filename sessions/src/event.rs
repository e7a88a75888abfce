//! What a target says: one ordered stream of events.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::limits::{GRAPH_NODES, LANES, LARGEST_BATCH, LAYERS, POOLS, REPORT_PAGES, WINDOW_SPANS};
use crate::{CommandId, Sanitized, ToggleName, ToggleValue};

/// One thing a target said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Position in the target's stream, counted from 0 without gaps at the source.
    pub sequence: u64,
    /// The target's own clock in nanoseconds (virtual time on the virtual GPU).
    pub time_ns: u64,
    /// What happened.
    pub kind: EventKind,
}

/// The kinds of event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum EventKind {
    /// First event of every stream: what the target is.
    Hello(Box<Hello>),
    /// A toggle took a value (also sent once for every toggle after `Hello`).
    Toggle(ToggleChange),
    /// One decode step ended.
    Step(Step),
    /// The nodes of one step in time.
    Spans(SpanBatch),
    /// What the canary saw in one step.
    Canary(CanaryReport),
    /// A session changed.
    Session(SessionChange),
    /// A graph was captured, or the eager node list was first launched.
    Graph(Graph),
    /// Two unordered accesses were found in a graph.
    Hazard(Hazard),
    /// A row's logits differed, bit for bit, from the step oracle's.
    Differential(Divergence),
    /// A number measured by the host.
    Metric(Metric),
    /// A line of log.
    Log(Log),
    /// A command was carried out or refused.
    Ack(Ack),
    /// Telemetry was dropped because a reader was slow.
    Gap(Gap),
}

impl EventKind {
    /// The step that this event names as that in which it happened.
    pub fn named_step(&self) -> Option<u64> {
        match self {
            Self::Toggle(change) => Some(change.step),
            Self::Step(step) => Some(step.step),
            Self::Spans(batch) => Some(batch.step),
            Self::Canary(report) => Some(report.step),
            Self::Session(change) => Some(change.step),
            Self::Differential(divergence) => Some(divergence.step),
            Self::Hello(_)
            | Self::Graph(_)
            | Self::Hazard(_)
            | Self::Metric(_)
            | Self::Log(_)
            | Self::Ack(_)
            | Self::Gap(_) => None,
        }
    }

    /// The step that this event belongs to where the event before it belongs to `before`, or to 0 if there is none: the
    /// largest step that any event up to and including it has named. So every event belongs to exactly one step, and
    /// the events of a step follow each other.
    pub fn belongs_to(&self, before: u64) -> u64 {
        self.named_step().map_or(before, |step| step.max(before))
    }
}

/// What a target is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// One line naming the target, for example `embedded engine`.
    pub target: Sanitized,
    /// The model's name.
    pub model: Sanitized,
    /// The device in words, for example `virtual GPU (DeepSeek-V4-Flash costs on an H200)`.
    pub device: Sanitized,
    /// The CPU instruction-set level that the numerics use, for example `x86-64-v4`.
    pub instruction_set: Sanitized,
    /// Seed of the workload and of the device's noise.
    pub seed: u64,
    /// Most sessions that run at once.
    pub concurrency: u32,
    /// One entry a layer.
    #[serde(deserialize_with = "at_most::<LAYERS, _, _>")]
    pub layers: Vec<LayerKind>,
    /// The watched pools, in the order that [`PageRef::pool`] counts them.
    #[serde(deserialize_with = "at_most::<POOLS, _, _>")]
    pub pools: Vec<Pool>,
    /// Names of the lanes, in the order that [`Span::lane`] counts them.
    #[serde(deserialize_with = "at_most::<LANES, _, _>")]
    pub lanes: Vec<Sanitized>,
}

/// What a layer attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayerKind {
    /// The sliding window only.
    Sliding,
    /// The window and entries of four tokens, selected by the indexer.
    Ratio4,
    /// The window and all entries of 128 tokens.
    Ratio128,
}

/// One paged buffer of one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// Which family of buffers, for example `index-k` or `swa-kv`.
    pub family: Sanitized,
    /// The layer that owns it.
    pub layer: u16,
    /// Number of pages, the reserved page 0 included.
    pub pages: u32,
    /// Bytes of one page.
    pub page_bytes: u32,
}

/// A toggle took a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToggleChange {
    /// Which toggle.
    pub name: ToggleName,
    /// Its value from `step` on.
    pub value: ToggleValue,
    /// The first step that ran with it.
    pub step: u64,
}

/// One decode step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Counted from 0.
    pub step: u64,
    /// Sessions decoded in it.
    pub rows: u32,
    /// Rows after padding to the captured bucket.
    pub bucket: u32,
    /// Whether a captured graph was replayed.
    pub captured: bool,
    /// Whether the graph ran on several lanes.
    pub overlapped: bool,
    /// Start on the target's clock, ns.
    pub start_ns: u64,
    /// End on the target's clock, ns.
    pub end_ns: u64,
    /// Nodes launched.
    pub nodes: u32,
    /// Whether the step oracle ran beside it.
    pub oracle: bool,
    /// Batch slots (0-based) whose logits differed from the oracle's.
    #[serde(deserialize_with = "at_most::<LARGEST_BATCH, _, _>")]
    pub diverged_rows: Vec<u32>,
    /// Sessions of `diverged_rows`, in the same order.
    #[serde(deserialize_with = "at_most::<LARGEST_BATCH, _, _>")]
    pub diverged_sessions: Vec<u64>,
    /// Races that the virtual GPU itself recorded in this step. For grading only: no probe reads it.
    pub witnesses: u32,
    /// Rows for which a witness was recorded.
    pub witnessed_rows: u32,
}

/// The nodes of one step in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpanBatch {
    /// The step they belong to.
    pub step: u64,
    /// The graph whose node table `Span::node` indexes.
    pub graph: u32,
    /// One a node.
    #[serde(deserialize_with = "at_most::<WINDOW_SPANS, _, _>")]
    pub spans: Vec<Span>,
}

/// One node's time in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Index in [`Graph::nodes`].
    pub node: u32,
    /// Index in [`Hello::lanes`].
    pub lane: u8,
    /// Start, ns on the target's clock.
    pub start_ns: u64,
    /// Length, ns.
    pub duration_ns: u32,
}

/// A node list that spans refer to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Identity within the target.
    pub graph: u32,
    /// One line, for example `bucket 80, overlap on, index-k bf16`.
    pub label: Sanitized,
    /// Node names in launch order, for example `L1 indexer top-k`.
    #[serde(deserialize_with = "at_most::<GRAPH_NODES, _, _>")]
    pub nodes: Vec<Sanitized>,
}

/// A page of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PageRef {
    /// Index in [`Hello::pools`].
    pub pool: u16,
    /// Page number.
    pub page: u32,
}

/// What the location canary saw in one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CanaryReport {
    /// The step.
    pub step: u64,
    /// Pages hashed before and after the step.
    pub pages_checked: u32,
    /// Pages that the step declared it would write (and, by the hashes, did or did not).
    #[serde(deserialize_with = "at_most::<REPORT_PAGES, _, _>")]
    pub written: Vec<PageRef>,
    /// Pages that changed although the step had not declared it. Empty when all is well.
    #[serde(deserialize_with = "at_most::<REPORT_PAGES, _, _>")]
    pub violations: Vec<PageRef>,
}

/// Identity of a session within a target.
pub type SessionId = u64;

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionPhase {
    /// Waiting for a place.
    #[default]
    Waiting,
    /// Its prompt (or the new part of it) is being computed.
    Prefill,
    /// Its pages are being moved to the decode side.
    Transfer,
    /// It takes part in decode steps.
    Decoding,
    /// Its tool is running: it will come back with a result.
    Thinking,
    /// All its turns are done.
    Finished,
}

/// A session changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionChange {
    /// Which.
    pub session: SessionId,
    /// Where it is now.
    pub phase: SessionPhase,
    /// Its batch slot while decoding.
    pub slot: Option<u32>,
    /// Turn, counted from 0. While `call` or `flag` is given, the turn that made that call.
    pub turn: u32,
    /// Turns it will have.
    pub turns: u32,
    /// Tokens it holds.
    pub tokens: u32,
    /// Step at which this was so.
    pub step: u64,
    /// The last call it made, as its client saw it; empty when unchanged.
    pub call: Sanitized,
    /// What is wrong with that call, if anything.
    pub flag: Option<Flag>,
}

/// A finding about a session's text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flag {
    /// What kind of wrong.
    pub kind: FlagKind,
    /// Turn it was seen in, counted from 0.
    pub turn: u32,
    /// Step whose token was the first wrong one.
    pub step: u64,
    /// What the text should have said.
    pub expected: Sanitized,
    /// What it said.
    pub found: Sanitized,
}

/// Kinds of textual corruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlagKind {
    /// The call is well formed but an argument is not the known answer.
    WrongArgument,
    /// The call does not parse.
    MalformedCall,
}

impl FlagKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::WrongArgument, Self::MalformedCall];

    /// The word that panes and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::WrongArgument => "wrong-argument",
            Self::MalformedCall => "malformed-call",
        }
    }
}

/// Two accesses that no edge orders, found in a captured graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hazard {
    /// The graph.
    pub graph: u32,
    /// Node that comes first in launch order.
    pub first: u32,
    /// Node that comes second.
    pub second: u32,
    /// Overlapping bytes.
    pub bytes: u64,
    /// What the two do, for example `read/write`.
    pub accesses: Sanitized,
}

/// A row's logits differed from the step oracle's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// The step.
    pub step: u64,
    /// Batch slot.
    pub row: u32,
    /// Whose row.
    pub session: SessionId,
    /// First layer whose tapped output differed, if one did (otherwise only the logits).
    pub first_layer: Option<u16>,
    /// Largest absolute difference of a logit.
    pub largest: f32,
    /// Whether the chosen token changed.
    pub flipped: bool,
}

/// A number measured by the host; left out wherever streams are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name with its unit, for example `tokens_per_second`.
    pub name: Sanitized,
    /// The value.
    pub value: f64,
}

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LogLevel {
    /// For whoever looks for details.
    Info,
    /// Something to know about.
    Warning,
    /// Something failed.
    Error,
}

/// A line of log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Log {
    /// How grave.
    pub level: LogLevel,
    /// A full sentence.
    pub text: Sanitized,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    /// Which command.
    pub command: CommandId,
    /// The first step that runs with it, or why it was refused.
    pub outcome: Result<u64, Sanitized>,
}

/// Telemetry that was dropped, oldest first, because a reader was slow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// Events dropped.
    pub dropped: u64,
}
