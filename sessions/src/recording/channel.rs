//! The channels of a recording and the schemas of their messages.

use crate::EventKind;

/// A channel: one a kind of event, and one for keyframes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Hello,
    Toggles,
    Steps,
    Spans,
    Canary,
    Sessions,
    Graphs,
    Hazards,
    Differentials,
    Metrics,
    Log,
    Acks,
    Gaps,
    Keyframes,
}

impl Channel {
    pub(super) const ALL: [Self; 14] = [
        Self::Hello,
        Self::Toggles,
        Self::Steps,
        Self::Spans,
        Self::Canary,
        Self::Sessions,
        Self::Graphs,
        Self::Hazards,
        Self::Differentials,
        Self::Metrics,
        Self::Log,
        Self::Acks,
        Self::Gaps,
        Self::Keyframes,
    ];

    pub(super) fn of(kind: &EventKind) -> Self {
        match kind {
            EventKind::Hello(_) => Self::Hello,
            EventKind::Toggle(_) => Self::Toggles,
            EventKind::Step(_) => Self::Steps,
            EventKind::Spans(_) => Self::Spans,
            EventKind::Canary(_) => Self::Canary,
            EventKind::Session(_) => Self::Sessions,
            EventKind::Graph(_) => Self::Graphs,
            EventKind::Hazard(_) => Self::Hazards,
            EventKind::Differential(_) => Self::Differentials,
            EventKind::Metric(_) => Self::Metrics,
            EventKind::Log(_) => Self::Log,
            EventKind::Ack(_) => Self::Acks,
            EventKind::Gap(_) => Self::Gaps,
        }
    }

    /// Its identity, and its schema's, in files of format version 1.
    pub(super) fn id(self) -> u16 {
        self as u16 + 1
    }

    pub(super) fn topic(self) -> &'static str {
        match self {
            Self::Hello => "/hello",
            Self::Toggles => "/toggles",
            Self::Steps => "/steps",
            Self::Spans => "/spans",
            Self::Canary => "/canary",
            Self::Sessions => "/sessions",
            Self::Graphs => "/graphs",
            Self::Hazards => "/hazards",
            Self::Differentials => "/differentials",
            Self::Metrics => "/metrics",
            Self::Log => "/log",
            Self::Acks => "/acks",
            Self::Gaps => "/gaps",
            Self::Keyframes => "/keyframes",
        }
    }

    /// Name of the schema.
    pub(super) fn schema_name(self) -> String {
        format!("coalmine.{}.v1", &self.topic()[1..])
    }

    /// JSON Schema of a message.
    pub(super) fn schema(self) -> String {
        let data = self.data_schema();
        if self == Self::Keyframes {
            return format!(
                r#"{{"type":"object","required":["step","keyframe"],"properties":{{"step":{{"type":"integer"}},"opens":{{"type":"boolean"}},"keyframe":{data}}}}}"#
            );
        }
        format!(
            r#"{{"type":"object","required":["step","events"],"properties":{{"step":{{"type":"integer"}},"events":{{"type":"array","items":{{"type":"object","required":["sequence","time_ns","data"],"properties":{{"sequence":{{"type":"integer"}},"time_ns":{{"type":"integer"}},"data":{data}}}}}}}}}}}"#
        )
    }

    fn data_schema(self) -> &'static str {
        match self {
            Self::Hello => {
                r#"{"type":"object","description":"What the target is.","properties":{"target":{"type":"string"},"model":{"type":"string"},"device":{"type":"string"},"instruction_set":{"type":"string"},"seed":{"type":"integer"},"concurrency":{"type":"integer"},"layers":{"type":"array","items":{"type":"string"}},"pools":{"type":"array","items":{"type":"object","properties":{"family":{"type":"string"},"layer":{"type":"integer"},"pages":{"type":"integer"},"page_bytes":{"type":"integer"}}}},"lanes":{"type":"array","items":{"type":"string"}}}}"#
            }
            Self::Toggles => {
                r#"{"type":"object","description":"A toggle took a value.","properties":{"name":{"type":"string"},"value":{"type":"object"},"step":{"type":"integer"}}}"#
            }
            Self::Steps => {
                r#"{"type":"object","description":"One decode step ended.","properties":{"step":{"type":"integer"},"rows":{"type":"integer"},"bucket":{"type":"integer"},"captured":{"type":"boolean"},"overlapped":{"type":"boolean"},"start_ns":{"type":"integer"},"end_ns":{"type":"integer"},"nodes":{"type":"integer"},"oracle":{"type":"boolean"},"diverged_rows":{"type":"array","items":{"type":"integer"}},"diverged_sessions":{"type":"array","items":{"type":"integer"}},"witnesses":{"type":"integer"},"witnessed_rows":{"type":"integer"}}}"#
            }
            Self::Spans => {
                r#"{"type":"object","description":"The nodes of one step in time, a column a field. Starts are relative to the start before, the first to 0. Without a column of nodes they are 0, 1, 2, ...","properties":{"step":{"type":"integer"},"graph":{"type":"integer"},"node":{"type":"array","items":{"type":"integer"}},"lane":{"type":"array","items":{"type":"integer"}},"start_delta_ns":{"type":"array","items":{"type":"integer"}},"duration_ns":{"type":"array","items":{"type":"integer"}}}}"#
            }
            Self::Canary => {
                r#"{"type":"object","description":"What the canary saw in one step. Pages are listed as [pool, page, page, ...].","properties":{"step":{"type":"integer"},"pages_checked":{"type":"integer"},"written":{"type":"array","items":{"type":"array","items":{"type":"integer"}}},"violations":{"type":"array","items":{"type":"array","items":{"type":"integer"}}}}}"#
            }
            Self::Sessions => {
                r#"{"type":"object","description":"A session changed.","properties":{"session":{"type":"integer"},"phase":{"type":"string"},"slot":{"type":["integer","null"]},"turn":{"type":"integer"},"turns":{"type":"integer"},"tokens":{"type":"integer"},"step":{"type":"integer"},"call":{"type":"string"},"flag":{"type":["object","null"],"properties":{"kind":{"type":"string"},"turn":{"type":"integer"},"step":{"type":"integer"},"expected":{"type":"string"},"found":{"type":"string"}}}}}"#
            }
            Self::Graphs => {
                r#"{"type":"object","description":"A node list that spans refer to.","properties":{"graph":{"type":"integer"},"label":{"type":"string"},"nodes":{"type":"array","items":{"type":"string"}}}}"#
            }
            Self::Hazards => {
                r#"{"type":"object","description":"Two accesses that no edge orders.","properties":{"graph":{"type":"integer"},"first":{"type":"integer"},"second":{"type":"integer"},"bytes":{"type":"integer"},"accesses":{"type":"string"}}}"#
            }
            Self::Differentials => {
                r#"{"type":"object","description":"A row's logits differed from the step oracle's. What is not finite is a string.","properties":{"step":{"type":"integer"},"row":{"type":"integer"},"session":{"type":"integer"},"first_layer":{"type":["integer","null"]},"largest":{"type":["number","string"]},"flipped":{"type":"boolean"}}}"#
            }
            Self::Metrics => {
                r#"{"type":"object","description":"A number measured by the host. What is not finite is a string.","properties":{"name":{"type":"string"},"value":{"type":["number","string"]}}}"#
            }
            Self::Log => {
                r#"{"type":"object","description":"A line of log.","properties":{"level":{"type":"string"},"text":{"type":"string"}}}"#
            }
            Self::Acks => {
                r#"{"type":"object","description":"The answer to a command.","properties":{"command":{"type":"integer"},"outcome":{"type":"object"}}}"#
            }
            Self::Gaps => {
                r#"{"type":"object","description":"Telemetry that was dropped.","properties":{"dropped":{"type":"integer"}}}"#
            }
            Self::Keyframes => {
                r#"{"type":"object","description":"Everything known of the target after the step, without its last spans; where it opens the recording, before the step's other events."}"#
            }
        }
    }
}
