//! The panes of Coalmine: one file a pane.
//!
//! A pane reads a [`State`](coalmine_sessions::State) and a small view struct of its
//! own (what is selected, how far it is scrolled), and draws into a buffer. It knows
//! neither a terminal nor a target, so that live, remote and replayed look alike.

mod canary;
mod chrome;
mod difference;
mod filter;
mod log;
mod menu;
mod number;
mod overview;
mod pane;
mod pen;
pub mod picture;
mod prompt;
mod sessions;
mod sheet;
mod table;
mod theme;
mod timeline;
mod toggles;
pub mod wrap;

#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

pub use canary::CanaryView;
pub use filter::Filter;
pub use log::LogView;
pub use menu::{Menu, MenuEntry, MenuView};
pub use number::{Grouped, Nanoseconds, Percent, Seconds};
pub use overview::OverviewView;
pub use pane::{Input, Pane, PaneAction, PaneId, Scene};
pub use pen::Pen;
pub use prompt::{Candidate, Prompt, draw_prompt};
pub use sessions::{SessionsView, SortColumn};
pub use table::{Cell, Table, TableForm};
pub use theme::{Glyphs, Ink, Theme, ThemeName};
pub use timeline::TimelineView;
pub use toggles::{TogglesView, next_value};
