//! From a directory to the bytes of its files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::{CheckpointError, shortened};

/// A whole file. `remedy` is the sentence to add when it does not exist.
pub(super) fn read_file(path: &Path, remedy: &'static str) -> Result<Vec<u8>, CheckpointError> {
    let file = || path.display().to_string();
    let failed = |cause: std::io::Error| match cause.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => CheckpointError::FileMissing { file: file(), remedy },
        _ => CheckpointError::Unreadable { file: file(), cause },
    };
    // A pipe would block and a device never end.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(CheckpointError::NotAFile { file: file() });
    }
    fs::read(path).map_err(failed)
}

/// A whole text file.
pub(super) fn read_text(path: &Path, remedy: &'static str) -> Result<String, CheckpointError> {
    String::from_utf8(read_file(path, remedy)?).map_err(|cause| CheckpointError::Json {
        file: path.display().to_string(),
        problem: format!("it is not UTF-8 text ({cause})"),
    })
}

/// Says clearly what is wrong with a path that is no directory.
pub(super) fn check_directory(path: &Path) -> Result<(), CheckpointError> {
    let shown = path.display().to_string();
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(CheckpointError::NotADirectory { path: shown }),
        Err(cause) => match cause.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                Err(CheckpointError::DirectoryMissing { directory: shown })
            }
            _ => Err(CheckpointError::Unreadable { file: shown, cause }),
        },
    }
}

/// The files that hold a directory's weights: `model.safetensors`, or the shards that the index names, or the shards that lie there.
pub(super) fn weight_files(directory: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    let single = directory.join("model.safetensors");
    if single.exists() {
        return Ok(vec![single]);
    }
    let index = directory.join("model.safetensors.index.json");
    let names = if index.exists() { indexed_shards(&index)? } else { listed_shards(directory)? };
    if names.is_empty() {
        return Err(CheckpointError::FileMissing {
            file: single.display().to_string(),
            remedy: "Neither are there shards named model-00001-of-0000N.safetensors. Give a directory with safetensors weights; other formats are not read.",
        });
    }
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

fn indexed_shards(index: &Path) -> Result<BTreeSet<String>, CheckpointError> {
    let file = || index.display().to_string();
    let text = read_text(index, "Copy it there.")?;
    let json: Value = serde_json::from_str(&text)
        .map_err(|cause| CheckpointError::Json { file: file(), problem: cause.to_string() })?;
    let Some(map) = json.get("weight_map").and_then(Value::as_object) else {
        return Err(CheckpointError::FieldMissing {
            file: file(),
            field: "weight_map".to_owned(),
            meaning: "an object from tensor names to shard files",
        });
    };
    let shard = |(tensor, value): (&String, &Value)| match value.as_str() {
        // The index comes with the weights from outside; it must not reach beyond its own directory.
        Some(name) if Path::new(name).file_name() == Some(name.as_ref()) && !name.contains('\\') => Ok(name.to_owned()),
        _ => Err(CheckpointError::FieldValue {
            file: file(),
            field: format!("weight_map.{}", shortened(tensor)),
            found: shortened(&value.to_string()),
            expected: "the bare name of a file in the same directory".to_owned(),
        }),
    };
    map.iter().map(shard).collect()
}

fn listed_shards(directory: &Path) -> Result<BTreeSet<String>, CheckpointError> {
    let unreadable = |cause| CheckpointError::Unreadable { file: directory.display().to_string(), cause };
    let mut shards: BTreeMap<(u64, u64), String> = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if let Some(name) = name.to_str()
            && let Some((number, total)) = shard_number(name)
        {
            shards.insert((total, number), name.to_owned());
        }
    }
    if let (Some(((least, _), first)), Some(((most, _), last))) = (shards.first_key_value(), shards.last_key_value())
        && least != most
    {
        return Err(CheckpointError::Inconsistent {
            file: directory.display().to_string(),
            problem: format!("{first:?} and {last:?} belong to different sets of shards; keep one set"),
        });
    }
    // Sorted by number, so the first that is out of place tells which one is missing.
    for (expected, ((total, number), _)) in (1..).zip(&shards) {
        if *number != expected {
            return Err(missing_shard(directory, expected, *total));
        }
    }
    if let Some(((total, number), _)) = shards.last_key_value()
        && number != total
    {
        return Err(missing_shard(directory, number + 1, *total));
    }
    Ok(shards.into_values().collect())
}

/// The number and the total in `model-00002-of-00005.safetensors`.
fn shard_number(name: &str) -> Option<(u64, u64)> {
    let (number, total) = name.strip_prefix("model-")?.strip_suffix(".safetensors")?.split_once("-of-")?;
    Some((number.parse().ok()?, total.parse().ok()?))
}

fn missing_shard(directory: &Path, number: u64, total: u64) -> CheckpointError {
    CheckpointError::FileMissing {
        file: directory.join(format!("model-{number:05}-of-{total:05}.safetensors")).display().to_string(),
        remedy: "Other shards of its set are there. Copy or download this one too.",
    }
}
