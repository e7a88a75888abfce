//! Writes a recording in the present format, to be kept in `recordings/` when that format is first released:
//! `cargo run -p coalmine-sessions --example fixture -- version-2.mcap`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use coalmine_sessions::recording::{Manifest, RecordingError, RecordingWriter};

#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use synthetic::{Shape, events};

fn main() -> Result<(), RecordingError> {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("Give the file to write. It must not exist.");
        return Ok(());
    };
    let manifest = Manifest {
        command_line: "coalmine run --seed 7 --record fixture.mcap".into(),
        target: "synthetic".into(),
        device: "virtual GPU".into(),
        seed: 7,
        instruction_set: "x86-64-v4".into(),
        created: "2026-11-29T00:00:00Z".into(),
        coalmine: env!("CARGO_PKG_VERSION").into(),
        ..Manifest::default()
    };
    let mut writer = RecordingWriter::create(&path, manifest)?;
    let mut now = Instant::now();
    for event in events(&Shape { steps: 300, nodes: 4, sessions: 4, ..Shape::default() }) {
        writer.record(&event, now)?;
        now += Duration::from_millis(1);
    }
    writer.finish().map(drop)
}
