//! The words everything else in Coalmine speaks.
//!
//! A *target* (the embedded engine, later a remote server or a recording) produces
//! [`Event`]s and accepts [`Command`]s. One reducer, [`State::apply`], folds events
//! into state; the console, the headless runner and replay all read that state and
//! nothing else. No terminal, GPU or network is known here.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod command;
pub mod csv;
mod delivery;
mod event;
pub mod limits;
pub mod macros;
pub mod recording;
mod reducer;
mod state;
mod statistics;
mod summary;
mod text;
mod toggle;
mod toggles;
pub mod workload;

pub use command::*;
pub use delivery::*;
pub use event::*;
pub use state::*;
pub use statistics::*;
pub use summary::*;
pub use text::*;
pub use toggle::*;
pub use toggles::*;
