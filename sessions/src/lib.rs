//! The words everything else in Coalmine speaks.
//!
//! A *target* (the embedded engine, later a remote server or a recording) produces
//! [`Event`]s and accepts [`Command`]s. One reducer, [`State::apply`], folds events
//! into state; the console, the headless runner and replay all read that state and
//! nothing else. No terminal, GPU or network is known here.

#![cfg_attr(test, allow(clippy::unwrap_used))]

// What tests share with benchmarks names this crate as those do.
#[cfg(test)]
extern crate self as coalmine_sessions;

mod anomaly;
mod bounded;
mod command;
pub mod csv;
mod delivery;
mod event;
mod history;
mod last_writes;
pub mod limits;
pub mod macros;
pub mod recording;
mod reducer;
mod state;
mod statistics;
mod summary;
#[cfg(test)]
#[path = "../tests/support/synthetic.rs"]
mod synthetic;
mod text;
mod toggle;
mod toggles;
mod weight;
pub mod workload;

pub use anomaly::*;
pub use command::*;
pub use delivery::*;
pub use event::*;
pub use history::{CHECKPOINT_STEPS, HISTORY_BYTES, History};
pub use last_writes::LastWrites;
pub use state::*;
pub use statistics::*;
pub use summary::*;
pub use text::*;
pub use toggle::*;
pub use toggles::*;
