//! What can be told of a recording without reading its events.

use std::path::Path;

use super::container::Container;
use super::index::Index;
use super::scan::{read_index, read_manifest};
use super::{Manifest, Recording, RecordingError};

/// What can be told of a recording at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// What it says about itself.
    pub manifest: Manifest,
    /// Size of the file.
    pub bytes: u64,
    /// What it holds; `None` if it was cut off, or another program has rewritten it, so that only [`Recording::open`]
    /// can tell.
    pub contents: Option<Contents>,
}

/// What a recording holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Events.
    pub events: u64,
    /// Decode steps.
    pub steps: u64,
    /// The first step that an event belongs to.
    pub first_step: u64,
    /// The last step that an event belongs to.
    pub last_step: u64,
    /// Steps in which something was wrong.
    pub anomalies: u64,
    /// The first step after which a client would see wrong text.
    pub first_corruption: Option<u64>,
}

impl Contents {
    pub(super) fn of(index: &Index) -> Self {
        Self {
            events: index.events,
            steps: index.steps,
            first_step: index.first_step(),
            last_step: index.last_step(),
            anomalies: index.anomalies.len() as u64,
            first_corruption: index.first_corruption(),
        }
    }
}

impl Recording {
    /// Looks at a recording, but not at its events: takes no longer for a long one that was cut off.
    ///
    /// # Errors
    /// When it is no recording, or one of a later version, or cannot be read.
    pub fn glance(path: &Path) -> Result<Glance, RecordingError> {
        let container = Container::open(path)?;
        let (manifest, _) = read_manifest(&container)?;
        let index = read_index(&container).ok().flatten();
        Ok(Glance { manifest, bytes: container.length(), contents: index.as_ref().map(Contents::of) })
    }
}
