//! Coalmine: a terminal console for finding out why a live GPU decode server corrupts its answers.

pub mod cli;
pub mod console;
mod demo;
pub mod engine;
pub mod headless;
pub mod macro_run;
pub mod playback;
pub mod probe;
pub mod recorder;
pub mod recordings;

pub use demo::{DEMO_MODEL, demo_checkpoint};
