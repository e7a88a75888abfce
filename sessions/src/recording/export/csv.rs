//! Tables for spreadsheets.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::csv::write_line;
use crate::recording::{Recording, RecordingError};
use crate::{EventKind, Hello, SessionChange, SpanBatch, State, Step};

/// What a table lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Decode steps.
    Steps,
    /// Changes of sessions, with calls and flags.
    Sessions,
    /// Nodes in time.
    Spans,
}

/// Writes a table as CSV with a line of names, escaped as [`write_line`] does.
pub fn csv(recording: &Recording, table: Table, mut writer: impl Write) -> Result<(), RecordingError> {
    let names = match table {
        Table::Steps => "step,start_ns,end_ns,rows,bucket,captured,overlapped,nodes,oracle,diverged_rows,witnesses",
        Table::Sessions => "time_ns,step,session,phase,slot,turn,turns,tokens,call,flag,flag_step,expected,found",
        Table::Spans => "step,graph,node,name,lane,start_ns,duration_ns",
    };
    writeln!(writer, "{names}")?;
    // Names of lanes and nodes, as they are at the time. A recording that began in the middle of a run knows them from
    // before its first event.
    let mut named = recording.state_at(recording.first_step())?;
    for event in recording.events_in(0..=u64::MAX) {
        let event = event?;
        match &event.kind {
            EventKind::Step(end) if table == Table::Steps => write_line(&mut writer, step(end))?,
            EventKind::Session(change) if table == Table::Sessions => {
                write_line(&mut writer, session(event.time_ns, change))?;
            }
            EventKind::Spans(batch) if table == Table::Spans => spans(&mut writer, batch, &named)?,
            EventKind::Hello(_) | EventKind::Graph(_) => named.apply_owned(event),
            _ => {}
        }
    }
    writer.flush()?;
    Ok(())
}

fn step(step: &Step) -> [Cow<'_, str>; 11] {
    [
        step.step.to_string().into(),
        step.start_ns.to_string().into(),
        step.end_ns.to_string().into(),
        step.rows.to_string().into(),
        step.bucket.to_string().into(),
        step.captured.to_string().into(),
        step.overlapped.to_string().into(),
        step.nodes.to_string().into(),
        step.oracle.to_string().into(),
        step.diverged_rows.len().to_string().into(),
        step.witnesses.to_string().into(),
    ]
}

fn session(time_ns: u64, change: &SessionChange) -> [Cow<'_, str>; 13] {
    let flag = change.flag.as_ref();
    [
        time_ns.to_string().into(),
        change.step.to_string().into(),
        change.session.to_string().into(),
        format!("{:?}", change.phase).to_lowercase().into(),
        change.slot.map_or_else(String::new, |slot| slot.to_string()).into(),
        change.turn.to_string().into(),
        change.turns.to_string().into(),
        change.tokens.to_string().into(),
        change.call.as_str().into(),
        flag.map_or("", |flag| flag.kind.name()).into(),
        flag.map_or_else(String::new, |flag| flag.step.to_string()).into(),
        flag.map_or("", |flag| flag.expected.as_str()).into(),
        flag.map_or("", |flag| flag.found.as_str()).into(),
    ]
}

fn spans(writer: &mut impl Write, batch: &SpanBatch, named: &State) -> io::Result<()> {
    let graph = named.graphs.get(&batch.graph);
    for span in &batch.spans {
        let name = graph.and_then(|graph| graph.nodes.get(span.node as usize));
        let fields: [Cow<'_, str>; 7] = [
            batch.step.to_string().into(),
            batch.graph.to_string().into(),
            span.node.to_string().into(),
            name.map_or("", |name| name.as_str()).into(),
            lane_name(named.hello.as_ref(), span.lane),
            span.start_ns.to_string().into(),
            span.duration_ns.to_string().into(),
        ];
        write_line(writer, fields)?;
    }
    Ok(())
}

/// The name of a lane, or its number where it has none.
pub(super) fn lane_name(hello: Option<&Hello>, lane: u8) -> Cow<'_, str> {
    let name = hello.and_then(|hello| hello.lanes.get(usize::from(lane)));
    name.map_or_else(|| lane.to_string().into(), |name| name.as_str().into())
}
