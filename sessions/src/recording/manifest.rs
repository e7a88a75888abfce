//! What a recording says about itself.

use std::collections::BTreeMap;
use std::path::Path;

use super::RecordingError;
use crate::Sanitized;

/// The format that this version writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// Name of the metadata record.
pub(super) const MANIFEST: &str = "coalmine";

/// What becomes of text that may be private.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redaction {
    /// It is kept.
    #[default]
    None,
    /// Sessions' calls, flags' texts and log lines are kept as hashes, `#` and eight digits. Equal texts have equal
    /// hashes within a recording and different ones in another; the key is not kept.
    Hashes,
}

impl Redaction {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hashes => "hashes",
        }
    }
}

/// Where a recording comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The command line that was recorded. It is not redacted.
    pub command_line: Sanitized,
    /// The target in words.
    pub target: Sanitized,
    /// The device and its driver in words.
    pub device: Sanitized,
    /// Seed of the workload and of the device's noise.
    pub seed: u64,
    /// CPU instruction-set level of the numerics.
    pub instruction_set: Sanitized,
    /// When it was made, as the caller writes dates.
    pub created: Sanitized,
    /// Version of the Coalmine that wrote it.
    pub coalmine: Sanitized,
    /// Whether text was kept.
    pub redaction: Redaction,
}

impl Manifest {
    pub(super) fn to_metadata(&self) -> BTreeMap<String, String> {
        [
            ("format", FORMAT_VERSION.to_string()),
            ("command_line", self.command_line.to_string()),
            ("target", self.target.to_string()),
            ("device", self.device.to_string()),
            ("seed", self.seed.to_string()),
            ("instruction_set", self.instruction_set.to_string()),
            ("created", self.created.to_string()),
            ("coalmine", self.coalmine.to_string()),
            ("redaction", self.redaction.name().to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Fields that are missing are empty, so that a later version may add some; only the format must be known.
    pub(super) fn from_metadata(metadata: &BTreeMap<String, String>, path: &Path) -> Result<Self, RecordingError> {
        let text = |name: &str| Sanitized::new(metadata.get(name).map_or("", String::as_str));
        let format = text("format");
        if !format.parse().is_ok_and(|version| (1..=FORMAT_VERSION).contains(&version)) {
            let found = format.to_string();
            return Err(RecordingError::Version { path: path.to_owned(), found, newest: FORMAT_VERSION });
        }
        Ok(Self {
            command_line: text("command_line"),
            target: text("target"),
            device: text("device"),
            seed: text("seed").parse().unwrap_or_default(),
            instruction_set: text("instruction_set"),
            created: text("created"),
            coalmine: text("coalmine"),
            redaction: match text("redaction").as_str() {
                "hashes" => Redaction::Hashes,
                _ => Redaction::None,
            },
        })
    }
}
