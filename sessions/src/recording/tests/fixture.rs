//! Recordings of every format version that was ever written, which must stay readable. The example `fixture` writes
//! one of the present version.

use std::path::{Path, PathBuf};

use super::{folded, open, written_out};
use crate::Event;

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("recordings/version-{version}.mcap"))
}

#[test]
fn version_1_is_read() {
    let recording = open(&fixture(1));
    let manifest = recording.manifest();
    assert_eq!((manifest.seed, manifest.coalmine.as_str()), (7, "0.1.0"));
    assert_eq!(manifest.command_line.as_str(), "coalmine run --seed 7 --record version-1.mcap");
    assert_eq!((recording.first_step(), recording.last_step()), (0, 299));
    let events: Vec<Event> = recording.events_in(0..=u64::MAX).map(Result::unwrap).collect();
    let state = recording.state_at(299).unwrap();
    // Step 299 is read by way of the keyframe after step 255.
    assert!(written_out(&state) == written_out(&folded(&events, 299)));
    let facts = (events.len(), state.totals.tokens, state.totals.diverged_rows, state.totals.canary_hits);
    let anomalies = (recording.anomalies().len(), recording.first_corruption());
    assert_eq!((facts, anomalies), ((1_205, 1_200, 30, 6), (20, Some(28))));
    assert_eq!(state.hello.unwrap().lanes[2].as_str(), "indexer");
    assert_eq!(state.spans.back().unwrap().spans[3].start_ns, 3_584_072);
}
