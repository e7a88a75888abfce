//! The timeline for <https://ui.perfetto.dev>, in the trace-event format of Chrome.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::csv::lane_name;
use crate::recording::{Recording, RecordingError};
use crate::{Event, EventKind};

/// The process of the lanes, one thread each.
const LANES: u32 = 1;
/// The process of what is no lane: threads [`STEPS`] and [`FINDINGS`].
const TARGET: u32 = 2;
const STEPS: u32 = 1;
const FINDINGS: u32 = 2;
/// Pages that one finding lists; nobody looks through more, and each takes hundreds of bytes on the way.
const PAGES: usize = 4_096;

/// Writes lanes as threads, nodes and steps as slices, flags, divergences and canary hits as instants.
pub fn perfetto(recording: &Recording, mut writer: impl Write) -> Result<(), RecordingError> {
    let mut trace = Trace { writer: &mut writer, empty: true };
    trace.begin()?;
    trace.name("process_name", LANES, 0, "lanes")?;
    trace.name("process_name", TARGET, 0, "target")?;
    trace.name("thread_name", TARGET, STEPS, "steps")?;
    trace.name("thread_name", TARGET, FINDINGS, "findings")?;
    // Names of lanes and nodes, as they are at the time. A recording that began in the middle of a run knows them from
    // before its first event.
    let mut named = recording.state_at(recording.first_step())?;
    let mut lanes = BTreeSet::new();
    for event in recording.events_in(0..=u64::MAX) {
        let event = event?;
        match &event.kind {
            EventKind::Hello(_) => {
                lanes.clear();
                named.apply_owned(event);
            }
            EventKind::Graph(_) => named.apply_owned(event),
            EventKind::Spans(batch) => {
                let graph = named.graphs.get(&batch.graph);
                for span in &batch.spans {
                    if lanes.insert(span.lane) {
                        let name = lane_name(named.hello.as_ref(), span.lane);
                        trace.name("thread_name", LANES, span.lane.into(), &name)?;
                    }
                    let name = graph.and_then(|graph| graph.nodes.get(span.node as usize));
                    let name = name.map_or_else(|| format!("node {}", span.node), ToString::to_string);
                    let arguments = json!({ "step": batch.step, "node": span.node });
                    let times = (span.start_ns, span.duration_ns.into());
                    trace.slice(&name, LANES, span.lane.into(), times, &arguments)?;
                }
            }
            EventKind::Step(step) => {
                let arguments = json!({
                    "rows": step.rows, "bucket": step.bucket, "captured": step.captured, "overlapped": step.overlapped,
                    "diverged_rows": step.diverged_rows,
                });
                let times = (step.start_ns, step.end_ns.saturating_sub(step.start_ns));
                trace.slice(&format!("step {}", step.step), TARGET, STEPS, times, &arguments)?;
            }
            _ => finding(&mut trace, &event)?,
        }
    }
    trace.end()?;
    writer.flush()?;
    Ok(())
}

fn finding(trace: &mut Trace<&mut impl Write>, event: &Event) -> io::Result<()> {
    match &event.kind {
        EventKind::Session(change) => {
            let Some(flag) = &change.flag else { return Ok(()) };
            let arguments = json!({
                "session": change.session, "turn": flag.turn, "step": flag.step, "expected": flag.expected,
                "found": flag.found,
            });
            trace.instant(&format!("flag: {}", flag.kind.name()), event.time_ns, &arguments)
        }
        EventKind::Differential(divergence) => {
            let arguments = json!({
                "session": divergence.session, "row": divergence.row, "step": divergence.step,
                "first_layer": divergence.first_layer, "flipped": divergence.flipped,
            });
            trace.instant("divergence", event.time_ns, &arguments)
        }
        EventKind::Canary(report) if !report.violations.is_empty() => {
            let pages = &report.violations[..report.violations.len().min(PAGES)];
            let arguments = json!({ "step": report.step, "pages": pages });
            trace.instant("canary", event.time_ns, &arguments)
        }
        EventKind::Toggle(change) if change.step > 0 => {
            let spec = change.name.spec();
            let arguments = json!({ "step": change.step });
            trace.instant(&format!("{} = {}", spec.long, spec.show(change.value)), event.time_ns, &arguments)
        }
        _ => Ok(()),
    }
}

/// A trace that is being written.
struct Trace<W> {
    writer: W,
    empty: bool,
}

impl<W: Write> Trace<W> {
    fn begin(&mut self) -> io::Result<()> {
        self.writer.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")
    }

    fn end(&mut self) -> io::Result<()> {
        self.writer.write_all(b"\n]}\n")
    }

    fn name(&mut self, of: &str, process: u32, thread: u32, name: &str) -> io::Result<()> {
        self.write(&json!({ "ph": "M", "name": of, "pid": process, "tid": thread, "args": { "name": name } }))
    }

    fn slice(&mut self, name: &str, process: u32, thread: u32, times: (u64, u64), arguments: &Value) -> io::Result<()> {
        self.write(&json!({
            "ph": "X", "name": name, "pid": process, "tid": thread, "ts": microseconds(times.0),
            "dur": microseconds(times.1), "args": arguments,
        }))
    }

    fn instant(&mut self, name: &str, time_ns: u64, arguments: &Value) -> io::Result<()> {
        self.write(&json!({
            "ph": "i", "s": "g", "name": name, "pid": TARGET, "tid": FINDINGS, "ts": microseconds(time_ns),
            "args": arguments,
        }))
    }

    fn write(&mut self, event: &Value) -> io::Result<()> {
        if !std::mem::replace(&mut self.empty, false) {
            self.writer.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut self.writer, event)?;
        Ok(())
    }
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
