//! Recordings: a target's events in a file that other tools can read too, and that can be gone back in.
//!
//! # Format, version 1
//! An [MCAP](https://mcap.dev/spec) file of zstd chunks, each with its checksum. Right after the header stands a
//! metadata record named `coalmine`, the [`Manifest`]. There is one channel a kind of event, encoded as JSON and
//! described by a JSON Schema in the file.
//!
//! - **Step.** Every event belongs to a step: the largest that any event up to and including it
//!   has named. So "the state at step N" is what the events before the first one of a later step fold to.
//! - **Message.** `{"step":N,"events":[{"sequence":..,"time_ns":..,"data":..},..]}`: what one channel said in one
//!   step. `log_time` is its first event's time on the target's clock, `publish_time` when its last event was
//!   recorded, on the host's clock of the day. Messages with the same MCAP sequence number were written together, a
//!   *batch*; within one, the events of all channels are in the order of their `sequence`.
//! - **Keyframe.** Every [`KEYFRAME_STEPS`] or [`KEYFRAME_BYTES`], on `/keyframes`: the state without its window of
//!   spans, and the step where its windows begin. A recording that began in the middle of a run opens with
//!   one, marked `"opens":true`: what was known then.
//! - **Index.** At the end, an attachment: the steps of every chunk, the keyframes, the anomalies. A file
//!   that was cut off has none, and is read from start to end once to make it.
//!
//! What is read is hostile until shown otherwise: lengths have limits, checksums are verified, text is sanitized, and
//! a keyframe is put through the reducer's own limits.

mod batch;
mod channel;
mod container;
mod error;
pub mod export;
mod glance;
mod index;
mod keyframe;
mod manifest;
mod reader;
mod record;
mod redaction;
mod replay;
mod scan;
#[cfg(test)]
mod tests;
mod wire;
mod writer;

pub use crate::Anomaly;
pub use error::RecordingError;
pub use glance::{Contents, Glance};
pub use manifest::{FORMAT_VERSION, Manifest, Redaction};
pub use reader::{Events, Recording, Recovery, SEEK_BYTES};
pub use replay::{FASTEST, Replay, SLOWEST};
pub use writer::{FLUSH_AFTER, FLUSH_BYTES, KEYFRAME_BYTES, KEYFRAME_STEPS, Recorded, RecordingWriter};
