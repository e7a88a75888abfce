//! Sizes. `benches/recording.rs` has the times.

use std::time::Duration;

use super::tempdir;
use crate::recording::Manifest;
use crate::synthetic::{Shape, events};

#[test]
fn a_span_takes_at_most_30_bytes() {
    let scratch = tempdir().unwrap();
    for (steps, nodes, sessions) in [(400, 160, 80), (40, 3_000, 80)] {
        let path = scratch.path().join(format!("{nodes}.mcap"));
        let events = events(&Shape { steps, nodes, sessions, ..Shape::default() });
        super::record(&path, Manifest::default(), &events, Duration::from_millis(1));
        let bytes = std::fs::metadata(&path).unwrap().len() as f64 / (steps * u64::from(nodes)) as f64;
        println!("{nodes} nodes a step, {sessions} sessions: {bytes:.1} bytes a span, all channels together");
        assert!(bytes <= 30.0);
    }
}
