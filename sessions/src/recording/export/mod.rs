//! Recordings in other formats.

mod csv;
mod json;
mod perfetto;

pub use csv::{Table, csv};
pub use json::json;
pub use perfetto::perfetto;
