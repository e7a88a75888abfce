//! What can go wrong with a recording.

use std::io;
use std::path::PathBuf;

/// Why a recording could not be written, opened or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A recording is never written over.
    #[error("{} exists already, and a recording is never written over. Give another name, or remove it first.", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("Could not {action} {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, for example `read`.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is not a recording of Coalmine: it should {expected}, but {found}.", path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// What is there, as the end of a sentence.
        found: String,
        /// What a recording does, as the end of a sentence.
        expected: &'static str,
    },
    /// The recording is of a format that this version does not know.
    #[error("{} is a recording of format version {found}; this Coalmine reads versions 1 to {newest}. Open it with the version that wrote it, or newer.", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format version as the file gives it.
        found: String,
        /// The newest version that can be read.
        newest: u32,
    },
    /// Part of the file makes no sense.
    #[error("{} is damaged at byte {offset}: expected {expected}, found {found}.", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged record begins.
        offset: u64,
        /// What is there.
        found: String,
        /// What should be there.
        expected: &'static str,
    },
    /// One event, or the state to begin with, is larger than any reader would accept.
    #[error("A message of {bytes} bytes does not fit in {}: a message holds at most {limit} bytes.", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Size of the message.
        bytes: usize,
        /// The largest that is allowed.
        limit: usize,
    },
    /// An export could not be written.
    #[error("Could not write the export: {0}")]
    Export(#[from] io::Error),
}
