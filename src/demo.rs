//! The demo model, embedded in the program.

use crate::engine::checkpoint::{Checkpoint, CheckpointError};

/// Name of the demo model in panes and reports.
pub const DEMO_MODEL: &str = "demo agent (2.9 M parameters)";

const CONFIG: &str = include_str!("../sessions/demo/config.json");
const WEIGHTS: &[u8] = include_bytes!("../sessions/demo/model.safetensors");

/// Loads the embedded model.
pub fn demo_checkpoint() -> Result<Checkpoint, CheckpointError> {
    Checkpoint::from_parts(CONFIG, vec![("sessions/demo/model.safetensors", WEIGHTS)])
}
