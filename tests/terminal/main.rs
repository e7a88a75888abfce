//! The console as a person has it: the real program in a real (pseudo-)terminal.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

#[path = "../support/binary.rs"]
#[expect(dead_code, reason = "its other half is for refusals of one line")]
mod binary;
#[path = "../support/home.rs"]
mod home;
#[path = "../support/terminal.rs"]
mod terminal;

mod commands;
mod configuration;
mod ending;
mod injection;
mod looks;
mod macros;
mod overlays;
mod panes;
mod recordings;
mod resizing;
mod signals;
mod start;
mod synthetic;
mod typing;
