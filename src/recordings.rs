//! What recordings a folder holds.

use std::cmp::Reverse;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use coalmine_sessions::Sanitized;
use coalmine_sessions::recording::{Glance, Recording};
use jiff::Timestamp;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// A file that looks like a recording by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where it is.
    pub path: PathBuf,
    /// Its file name, fit to be shown.
    pub name: Sanitized,
    /// Its size.
    pub bytes: u64,
    /// When the recording was begun, or else when the file was last written to.
    pub created: Option<Timestamp>,
    /// What it holds, or why it is no recording that can be read, as a full sentence.
    pub glance: Result<Glance, Sanitized>,
}

impl fmt::Display for Listed {
    /// In one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let created = self.created.map_or_else(String::new, |created| created.strftime("%Y-%m-%d %H:%M").to_string());
        write!(f, "{:<28} {created:16} {:>9.1} MB  ", self.name.as_str(), self.bytes as f64 / 1e6)?;
        match &self.glance {
            Err(sentence) => write!(f, "{sentence}"),
            Ok(Glance { manifest, contents: None, .. }) => {
                write!(f, "{}, cut off or still being made", manifest.target)
            }
            Ok(Glance { manifest, contents: Some(contents), .. }) => {
                let (steps, anomalies) = (contents.steps, contents.anomalies);
                write!(f, "{}, {steps} steps, {anomalies} anomalies", manifest.target)?;
                match contents.first_corruption {
                    Some(step) => write!(f, ", first flag at step {step}"),
                    None => write!(f, ", no flag raised"),
                }
            }
        }
    }
}

impl Serialize for Listed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Listed", 9)?;
        fields.serialize_field("file", &self.name)?;
        fields.serialize_field("bytes", &self.bytes)?;
        fields.serialize_field("created", &self.created.map(|created| created.to_string()))?;
        fields.serialize_field("cut_off", &self.is_cut_off())?;
        let glance = self.glance.as_ref().ok();
        let contents = glance.and_then(|glance| glance.contents.as_ref());
        fields.serialize_field("target", &glance.map(|glance| &glance.manifest.target))?;
        fields.serialize_field("steps", &contents.map(|contents| contents.steps))?;
        fields.serialize_field("anomalies", &contents.map(|contents| contents.anomalies))?;
        fields.serialize_field("first_corruption", &contents.and_then(|contents| contents.first_corruption))?;
        fields.serialize_field("problem", &self.glance.as_ref().err())?;
        fields.end()
    }
}

impl Listed {
    /// Whether the recording was not finished: it was killed, or is still being made.
    pub fn is_cut_off(&self) -> bool {
        self.glance.as_ref().is_ok_and(|glance| glance.contents.is_none())
    }
}

/// The files of a folder whose names end in `.mcap`, newest first. Events are not read, so that even a long recording
/// that was cut off takes no time.
///
/// # Errors
/// When the folder cannot be read. What is wrong with a file is said in its [`Listed::glance`].
pub fn list(directory: &Path) -> io::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "mcap") {
            listed.push(look_at(path));
        }
    }
    listed.sort_by(|one, other| (Reverse(one.created), &one.path).cmp(&(Reverse(other.created), &other.path)));
    Ok(listed)
}

fn look_at(path: PathBuf) -> Listed {
    let name = Sanitized::new(&path.file_name().unwrap_or_default().to_string_lossy());
    let metadata = fs::metadata(&path);
    let glance = match &metadata {
        // Opening a pipe could wait for ever.
        Ok(metadata) if !metadata.is_file() => Err("It is no regular file.".into()),
        Ok(_) => Recording::glance(&path).map_err(|error| Sanitized::new(&error.to_string())),
        Err(error) => Err(Sanitized::new(&format!("It cannot be looked at: {error}."))),
    };
    let said = glance.as_ref().ok().and_then(|glance| glance.manifest.created.parse().ok());
    let written = |metadata: &fs::Metadata| metadata.modified().ok().and_then(timestamp);
    Listed {
        created: said.or_else(|| metadata.as_ref().ok().and_then(written)),
        bytes: metadata.as_ref().map_or(0, fs::Metadata::len),
        path,
        name,
        glance,
    }
}

fn timestamp(time: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(time).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use coalmine_sessions::recording::{Manifest, RecordingWriter};
    use coalmine_sessions::{Event, EventKind, Step};

    use super::*;

    fn write(path: &Path, created: &str) -> RecordingWriter {
        let manifest = Manifest { created: created.into(), target: "embedded engine".into(), ..Manifest::default() };
        let mut writer = RecordingWriter::create(path, manifest).unwrap();
        for step in 0..7 {
            let diverged_rows = if step == 3 { vec![1] } else { Vec::new() };
            let kind = EventKind::Step(Step { step, diverged_rows, ..Step::default() });
            writer.record(&Event { sequence: step, time_ns: step, kind }, Instant::now()).unwrap();
        }
        writer
    }

    #[test]
    fn every_recording_is_listed_newest_first_and_what_is_none_says_why() {
        let folder = std::env::temp_dir().join(format!("coalmine-recordings-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("folder.mcap")).unwrap();
        write(&folder.join("older.mcap"), "2031-01-02T03:04:05Z").finish().unwrap();
        write(&folder.join("newer.mcap"), "2031-01-02T03:04:06Z").finish().unwrap();
        let unfinished = write(&folder.join("unfinished.mcap"), "2031-01-02T03:04:07Z");
        fs::write(folder.join("oth\u{1b}er\u{202e}.mcap"), "something else").unwrap();
        fs::write(folder.join("notes.txt"), "no recording").unwrap();
        std::os::unix::fs::symlink("nowhere", folder.join("lost.mcap")).unwrap();

        let listed = list(&folder).unwrap();
        let names: Vec<&str> = listed.iter().map(|listed| listed.name.as_str()).collect();
        assert_eq!(names[..3], ["unfinished.mcap", "newer.mcap", "older.mcap"]);
        let mut others = names[3..].to_vec();
        others.sort_unstable();
        assert_eq!(others, ["folder.mcap", "lost.mcap", "other<U+202E>.mcap"]);
        assert!(listed[0].is_cut_off() && !listed[1].is_cut_off());
        let glance = listed[1].glance.as_ref().unwrap();
        let contents = glance.contents.unwrap();
        assert_eq!((contents.steps, contents.anomalies, contents.first_corruption), (7, 1, None));
        assert_eq!((glance.manifest.target.as_str(), glance.bytes), ("embedded engine", listed[1].bytes));
        for (name, words) in [
            ("folder.mcap", "no regular file"),
            ("lost.mcap", "looked at"),
            ("other<U+202E>.mcap", "is not a recording"),
        ] {
            let found = listed.iter().find(|listed| listed.name.as_str() == name).unwrap();
            let reason = found.glance.as_ref().unwrap_err();
            assert!(reason.contains(words) && reason.ends_with('.') && !reason.contains('\u{1b}'), "{reason}");
        }
        assert!(list(&folder.join("nowhere")).is_err());
        drop(unfinished);
        fs::remove_dir_all(&folder).unwrap();
    }
}
