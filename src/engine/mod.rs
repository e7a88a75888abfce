//! The DeepSeek-V4 decode engine: checkpoint, pools, forward pass, runner, scheduler.
//!
//! The engine never prints, never reads the environment or the home directory: values come in as arguments.

mod buffers;
pub mod checkpoint;
mod error;
mod forward;
mod host;
mod model;
mod pools;
mod runner;
mod scheduler;
mod served;
mod verify;
mod write_set;

#[cfg(test)]
mod tests;

pub use buffers::Buffers;
pub use error::EngineError;
pub use forward::RacePair;
pub use host::spawn;
pub use model::Model;
pub use pools::{Family, Formats, Holding, Ownership, PoolSizes, Pools, transfer};
pub use runner::{
    CostFactor, Moment, PREFILL_ROWS, Row, RowDivergence, Runner, RunnerShape, Side, StepModes, StepOutcome, buckets,
    index_format, kv_format,
};
pub use scheduler::{CONTEXT, Engine, EngineOptions, OVERLAP_ROWS, Progress};
pub use served::ServedShape;
pub use verify::{LOGIT_TOLERANCE, SELECTION_MARGIN, Verification, verify, verify_directory};
pub use write_set::Written;
