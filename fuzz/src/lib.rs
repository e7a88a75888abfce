//! What is fuzzed: one function a decoder of input from outside. Each takes any bytes and must neither panic nor allocate
//! without bound.
//!
//! The fuzz targets call them, and so does `tests/hostile.rs` of the workspace, which includes this file: they know
//! nothing of libFuzzer.

mod checkpoints;
mod console;
mod events;
mod recordings;
mod scratch;
mod script;
mod texts;

pub use checkpoints::checkpoint;
pub use console::line;
pub use events::events;
pub use recordings::{recording, recording_script};
pub use texts::{arrangement, condition, config, keys, macro_text, toggle};

/// A target's name and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 11] = [
    ("recording", recording),
    ("recording_script", recording_script),
    ("macro_text", macro_text),
    ("condition", condition),
    ("config", config),
    ("keys", keys),
    ("line", line),
    ("arrangement", arrangement),
    ("checkpoint", checkpoint),
    ("toggle", toggle),
    ("events", events),
];
