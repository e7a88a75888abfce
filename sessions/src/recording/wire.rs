//! Events as JSON.
//!
//! Most kinds are written as they are. Spans become columns and pages become runs, as there are many of them, and
//! numbers that JSON lacks become strings.

use std::fmt;

use serde::de::{self, DeserializeOwned, Deserializer, Error as _, IgnoredAny};
use serde::{Deserialize, Serialize};

use super::channel::Channel;
use crate::bounded::at_most;
use crate::limits::{REPORT_PAGES, WINDOW_SPANS};
use crate::{CanaryReport, Divergence, Event, EventKind, Metric, PageRef, Sanitized, SessionId, Span, SpanBatch};

/// One event within a message.
#[derive(Serialize, Deserialize)]
struct Entry<T> {
    sequence: u64,
    time_ns: u64,
    data: T,
}

/// A message.
#[derive(Deserialize)]
struct Envelope<T> {
    step: u64,
    events: Vec<T>,
}

/// Appends one event to a message.
pub(super) fn write_event(message: &mut Vec<u8>, event: &Event) -> serde_json::Result<()> {
    match &event.kind {
        EventKind::Hello(hello) => write_entry(message, event, hello),
        EventKind::Toggle(change) => write_entry(message, event, change),
        EventKind::Step(step) => write_entry(message, event, step),
        EventKind::Spans(batch) => write_entry(message, event, &Columns::new(batch)),
        EventKind::Canary(report) => write_entry(message, event, &Pages::new(report)),
        EventKind::Session(change) => write_entry(message, event, change),
        EventKind::Graph(graph) => write_entry(message, event, graph),
        EventKind::Hazard(hazard) => write_entry(message, event, hazard),
        EventKind::Differential(divergence) => write_entry(message, event, &Differential::new(divergence)),
        EventKind::Metric(metric) => write_entry(message, event, &Measured::new(metric)),
        EventKind::Log(line) => write_entry(message, event, line),
        EventKind::Ack(ack) => write_entry(message, event, ack),
        EventKind::Gap(gap) => write_entry(message, event, gap),
    }
}

fn write_entry<T: Serialize>(message: &mut Vec<u8>, event: &Event, data: &T) -> serde_json::Result<()> {
    serde_json::to_writer(message, &Entry { sequence: event.sequence, time_ns: event.time_ns, data })
}

/// The step and the events of a message.
pub(super) fn read_events(channel: Channel, message: &[u8]) -> serde_json::Result<(u64, Vec<Event>)> {
    match channel {
        Channel::Hello => read_entries(message, |hello| Ok(EventKind::Hello(hello))),
        Channel::Toggles => read_entries(message, |change| Ok(EventKind::Toggle(change))),
        Channel::Steps => read_entries(message, |step| Ok(EventKind::Step(step))),
        Channel::Spans => read_entries(message, |columns: Columns| columns.spans().map(EventKind::Spans)),
        Channel::Canary => read_entries(message, |pages: Pages| pages.report().map(EventKind::Canary)),
        Channel::Sessions => read_entries(message, |change| Ok(EventKind::Session(change))),
        Channel::Graphs => read_entries(message, |graph| Ok(EventKind::Graph(graph))),
        Channel::Hazards => read_entries(message, |hazard| Ok(EventKind::Hazard(hazard))),
        Channel::Differentials => {
            read_entries(message, |wire: Differential| wire.divergence().map(EventKind::Differential))
        }
        Channel::Metrics => read_entries(message, |wire: Measured| wire.metric().map(EventKind::Metric)),
        Channel::Log => read_entries(message, |line| Ok(EventKind::Log(line))),
        Channel::Acks => read_entries(message, |ack| Ok(EventKind::Ack(ack))),
        Channel::Gaps => read_entries(message, |gap| Ok(EventKind::Gap(gap))),
        Channel::Keyframes => Err(serde_json::Error::custom("a keyframe is no event")),
    }
}

fn read_entries<T: DeserializeOwned>(
    message: &[u8],
    kind: impl Fn(T) -> serde_json::Result<EventKind>,
) -> serde_json::Result<(u64, Vec<Event>)> {
    let envelope: Envelope<Entry<T>> = serde_json::from_slice(message)?;
    // Of the right size at once: a list that grows takes up to three times as much.
    let mut events = Vec::with_capacity(envelope.events.len());
    for entry in envelope.events {
        events.push(Event { sequence: entry.sequence, time_ns: entry.time_ns, kind: kind(entry.data)? });
    }
    Ok((envelope.step, events))
}

/// The step and the number of events of a message.
pub(super) fn count_events(message: &[u8]) -> serde_json::Result<(u64, usize)> {
    let envelope: Envelope<IgnoredAny> = serde_json::from_slice(message)?;
    Ok((envelope.step, envelope.events.len()))
}

/// A batch of spans by columns.
#[derive(Serialize, Deserialize)]
struct Columns {
    step: u64,
    graph: u32,
    /// Empty for 0, 1, 2, ...
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "at_most::<WINDOW_SPANS, _, _>")]
    node: Vec<u32>,
    #[serde(deserialize_with = "at_most::<WINDOW_SPANS, _, _>")]
    lane: Vec<u8>,
    /// From the start before, the first from 0; wraps around, so that any start can be given.
    #[serde(deserialize_with = "at_most::<WINDOW_SPANS, _, _>")]
    start_delta_ns: Vec<i64>,
    #[serde(deserialize_with = "at_most::<WINDOW_SPANS, _, _>")]
    duration_ns: Vec<u32>,
}

impl Columns {
    fn new(batch: &SpanBatch) -> Self {
        let spans = &batch.spans;
        let counted = (0..).zip(spans).all(|(number, span)| span.node == number);
        let mut before = 0;
        let delta = |span: &Span| span.start_ns.wrapping_sub(std::mem::replace(&mut before, span.start_ns)) as i64;
        Self {
            step: batch.step,
            graph: batch.graph,
            node: if counted { Vec::new() } else { spans.iter().map(|span| span.node).collect() },
            lane: spans.iter().map(|span| span.lane).collect(),
            start_delta_ns: spans.iter().map(delta).collect(),
            duration_ns: spans.iter().map(|span| span.duration_ns).collect(),
        }
    }

    fn spans(self) -> serde_json::Result<SpanBatch> {
        let count = self.lane.len();
        let same = self.start_delta_ns.len() == count && self.duration_ns.len() == count;
        if !same || !(self.node.is_empty() || self.node.len() == count) {
            return Err(serde_json::Error::custom("the columns of spans differ in length"));
        }
        let mut nodes = self.node.into_iter();
        let mut start_ns = 0_u64;
        let times = self.start_delta_ns.into_iter().zip(self.duration_ns);
        let spans = (0..).zip(self.lane).zip(times).map(|((number, lane), (delta, duration_ns))| {
            start_ns = start_ns.wrapping_add(delta as u64);
            Span { node: nodes.next().unwrap_or(number), lane, start_ns, duration_ns }
        });
        Ok(SpanBatch { step: self.step, graph: self.graph, spans: spans.collect() })
    }
}

/// A canary report with its pages in runs.
#[derive(Serialize, Deserialize)]
pub(super) struct Pages {
    step: u64,
    pages_checked: u32,
    #[serde(deserialize_with = "at_most::<REPORT_PAGES, _, _>")]
    written: Vec<Vec<u32>>,
    #[serde(deserialize_with = "at_most::<REPORT_PAGES, _, _>")]
    violations: Vec<Vec<u32>>,
}

impl Pages {
    pub(super) fn new(report: &CanaryReport) -> Self {
        Self {
            step: report.step,
            pages_checked: report.pages_checked,
            written: runs(&report.written),
            violations: runs(&report.violations),
        }
    }

    pub(super) fn report(self) -> serde_json::Result<CanaryReport> {
        Ok(CanaryReport {
            step: self.step,
            pages_checked: self.pages_checked,
            written: pages(self.written)?,
            violations: pages(self.violations)?,
        })
    }
}

/// `[pool, page, page, ...]` for each run of pages of one pool.
fn runs(pages: &[PageRef]) -> Vec<Vec<u32>> {
    let by_pool = pages.chunk_by(|one, next| one.pool == next.pool);
    by_pool
        .map(|run| {
            run.first().map(|page| page.pool.into()).into_iter().chain(run.iter().map(|page| page.page)).collect()
        })
        .collect()
}

fn pages(runs: Vec<Vec<u32>>) -> serde_json::Result<Vec<PageRef>> {
    let mut pages = Vec::new();
    for run in runs {
        let pool = run.first().and_then(|&pool| u16::try_from(pool).ok());
        let pool = pool.ok_or_else(|| serde_json::Error::custom("a run of pages begins with a pool (0 to 65535)"))?;
        let room = REPORT_PAGES - pages.len();
        pages.extend(run.into_iter().skip(1).take(room).map(|page| PageRef { pool, page }));
    }
    Ok(pages)
}

/// A number that may be infinite or none.
#[derive(Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Number {
    Finite(f64),
    Other(String),
}

impl<'de> Deserialize<'de> for Number {
    /// As derived, but without a copy of whatever stands there instead, which may be of any size.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Number;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number, or `inf`, `-inf` or `NaN` as a string")
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
                Ok(Number::Finite(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number::Finite(value as f64))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
                Ok(Number::Finite(value as f64))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Number, E> {
                Ok(Number::Other(word.to_owned()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Number {
    pub(super) fn new(value: f64) -> Self {
        if value.is_finite() { Self::Finite(value) } else { Self::Other(value.to_string()) }
    }

    pub(super) fn value(&self) -> serde_json::Result<f64> {
        match self {
            Self::Finite(value) => Ok(*value),
            Self::Other(word) => word.parse().map_err(serde_json::Error::custom),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Differential {
    step: u64,
    row: u32,
    session: SessionId,
    first_layer: Option<u16>,
    largest: Number,
    flipped: bool,
}

impl Differential {
    pub(super) fn new(divergence: &Divergence) -> Self {
        let &Divergence { step, row, session, first_layer, largest, flipped } = divergence;
        Self { step, row, session, first_layer, largest: Number::new(largest.into()), flipped }
    }

    pub(super) fn divergence(self) -> serde_json::Result<Divergence> {
        let Self { step, row, session, first_layer, largest, flipped } = self;
        Ok(Divergence { step, row, session, first_layer, largest: largest.value()? as f32, flipped })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Measured {
    name: Sanitized,
    value: Number,
}

impl Measured {
    pub(super) fn new(metric: &Metric) -> Self {
        Self { name: metric.name.clone(), value: Number::new(metric.value) }
    }

    pub(super) fn metric(self) -> serde_json::Result<Metric> {
        Ok(Metric { value: self.value.value()?, name: self.name })
    }
}
