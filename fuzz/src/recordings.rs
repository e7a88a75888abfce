//! Recordings: opened, looked through, gone back in and exported.

use std::{io, path::Path, time::Duration};

use coalmine::cast;
use coalmine_sessions::{
    PageRef,
    recording::{
        Recording, Replay,
        export::{self, Table},
    },
};

use super::{scratch::with_file, script::pack};

/// Steps that are gone to.
const PLACES: [u64; 3] = [0, 7, u64::MAX];

/// A file of any bytes.
pub fn recording(bytes: &[u8]) {
    with_file("any.mcap", bytes, read);
}

/// A file whose lengths, checksums and compression are right, with anything in it; see [`pack`].
pub fn recording_script(bytes: &[u8]) {
    recording(&pack(bytes));
}

/// Does everything with a recording that Coalmine does with one.
fn read(path: &Path) {
    let Ok((recording, recovery)) = Recording::open(path) else { return };
    let _ = format!("{recovery:?} {:?} {:?}", recording.manifest(), recording.first_corruption());
    let anomalies: Vec<u64> = recording.anomalies().iter().take(1).map(|anomaly| anomaly.step).collect();
    // What goes wrong on the way is said, and is as good an end as any.
    let _ = recording.events_in(0..=u64::MAX).take_while(Result::is_ok).count();
    let ends = [recording.first_step(), recording.last_step()];
    for step in PLACES.into_iter().chain(ends).chain(anomalies) {
        let _ = recording.state_at(step).map(|state| state.summary());
        let _ = recording.last_write_of(PageRef { pool: 0, page: 1 }, step);
        let _ = recording.step_at_time(step);
    }
    let _ = export::perfetto(&recording, io::sink());
    let _ = export::json(&recording, io::sink());
    for table in [Table::Steps, Table::Sessions, Table::Spans] {
        let _ = export::csv(&recording, table, io::sink());
    }
    // At this speed the cast has as few frames as there can be.
    let _ = cast::write(path, (80, 24), Some(f64::MAX), io::sink());
    let Ok(mut replay) = Replay::new(recording) else { return };
    replay.play();
    let _ = replay.advance(Duration::from_secs(1));
    let _ = (replay.step_back(), replay.next_anomaly(), replay.previous_anomaly(), replay.step_forward());
    for step in PLACES {
        let _ = replay.goto_step(step);
        let _ = replay.goto_time(step);
    }
    replay.set_speed(f64::INFINITY);
    replay.play();
    let _ = replay.advance(Duration::MAX);
}
