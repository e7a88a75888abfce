//! One event a line.

use std::io::{self, Write};

use crate::recording::{Recording, RecordingError};

/// Writes every event as a line of JSON, in order.
///
/// A number that is not finite becomes `null`.
pub fn json(recording: &Recording, mut writer: impl Write) -> Result<(), RecordingError> {
    for event in recording.events_in(0..=u64::MAX) {
        serde_json::to_writer(&mut writer, &event?).map_err(io::Error::from)?;
        writer.write_all(b"\n")?;
    }
    writer.flush()?;
    Ok(())
}
