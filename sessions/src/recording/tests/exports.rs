//! Other formats.

use std::time::Duration;

use super::{TempDir, open, record, tempdir};
use crate::recording::export::{Table, csv, json, perfetto};
use crate::recording::{Manifest, Recording};
use crate::synthetic::{Shape, events};
use crate::{Event, EventKind, SessionChange};

fn recording(scratch: &TempDir, events: &[Event]) -> Recording {
    let path = scratch.path().join("a.mcap");
    record(&path, Manifest::default(), events, Duration::ZERO);
    open(&path)
}

fn table(recording: &Recording, table: Table) -> String {
    let mut text = Vec::new();
    csv(recording, table, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn lines_of_json_are_the_events() {
    let scratch = tempdir().unwrap();
    let mut events = events(&Shape::default());
    events.retain(|event| !matches!(event.kind, EventKind::Differential(_)));
    let mut text = Vec::new();
    json(&recording(&scratch, &events), &mut text).unwrap();
    let lines = std::str::from_utf8(&text).unwrap().lines();
    let read: Vec<Event> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, events);
}

#[test]
fn a_table_has_as_many_cells_in_every_line() {
    let scratch = tempdir().unwrap();
    let recording = recording(&scratch, &events(&Shape { steps: 2, nodes: 2, sessions: 1, ..Shape::default() }));
    let steps = table(&recording, Table::Steps);
    assert_eq!(
        steps.lines().next().unwrap(),
        "step,start_ns,end_ns,rows,bucket,captured,overlapped,nodes,oracle,diverged_rows,witnesses"
    );
    let spans = table(&recording, Table::Spans);
    assert_eq!(spans.lines().count(), 5);
    assert!(spans.lines().nth(1).unwrap().starts_with("0,3,0,L0 node 0,main,0,"), "{spans}");
    for text in [steps, spans] {
        let cells = text.lines().next().unwrap().split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == cells), "{text}");
    }
}

#[test]
fn no_cell_is_a_formula_and_no_text_breaks_out() {
    let scratch = tempdir().unwrap();
    let calls = ["=1+1", "+1", "-1", "@x", "a\"b,c", "=a,\"b\"", "a\nb\u{1b}[2J", "it's"];
    let change = |(sequence, call): (u64, &&str)| Event {
        sequence,
        time_ns: 0,
        kind: EventKind::Session(SessionChange { call: (*call).into(), ..SessionChange::default() }),
    };
    let events: Vec<Event> = (0..).zip(&calls).map(change).collect();
    let text = table(&recording(&scratch, &events), Table::Sessions);
    let cells: Vec<&str> =
        text.lines().skip(1).map(|line| &line["0,0,0,waiting,,0,0,0,".len()..line.len() - 4]).collect();
    assert_eq!(cells, ["'=1+1", "'+1", "'-1", "'@x", "\"a\"\"b,c\"", "\"'=a,\"\"b\"\"\"", "ab[2J", "it's"]);
}

#[test]
fn a_trace_holds_lanes_steps_and_findings() {
    let scratch = tempdir().unwrap();
    let events = events(&Shape { steps: 120, nodes: 9, ..Shape::default() });
    let mut text = Vec::new();
    perfetto(&recording(&scratch, &events), &mut text).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let trace = trace["traceEvents"].as_array().unwrap();
    let count = |phase: &str, process: u64| {
        trace.iter().filter(|event| event["ph"] == phase && event["pid"] == process).count()
    };
    assert_eq!((count("X", 1), count("X", 2)), (1_080, 120));
    assert!(trace.iter().any(|event| event["args"]["name"] == "kv"));
    let flags =
        events.iter().filter(|event| matches!(&event.kind, EventKind::Session(change) if change.flag.is_some()));
    let named = |name: &str| trace.iter().filter(|event| event["name"] == name).count();
    assert_eq!(named("flag: wrong-argument"), flags.count());
    assert_eq!(named("canary"), 3);
    assert!(named("divergence") > 0 && named("SGLANG_OPT_USE_MULTI_STREAM_OVERLAP = 0") == 1);
}
