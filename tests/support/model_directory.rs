//! Model directories with one thing wrong: copies of a golden one, changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A copy of a golden model that is removed when it is dropped.
pub(crate) struct ModelDirectory(PathBuf);

impl ModelDirectory {
    /// A copy of `tests/golden/NAME`.
    pub(crate) fn copy_of(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("model-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        for entry in fs::read_dir(golden).unwrap() {
            let from = entry.unwrap().path();
            // Not `fs::copy`: that would keep a golden file's read-only mode.
            fs::write(path.join(from.file_name().unwrap()), fs::read(&from).unwrap()).unwrap();
        }
        Self(path)
    }

    /// The directory, as an argument.
    pub(crate) fn argument(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(crate) fn remove(&self, file: &str) -> &Self {
        fs::remove_file(self.0.join(file)).unwrap();
        self
    }

    /// Cuts a file off after so many bytes.
    pub(crate) fn truncate(&self, file: &str, length: usize) -> &Self {
        self.edit(file, |bytes| bytes.truncate(length))
    }

    /// Changes a file's bytes.
    pub(crate) fn edit(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) -> &Self {
        let path = self.0.join(file);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
        self
    }

    /// Changes `config.json`.
    pub(crate) fn configure(&self, change: impl FnOnce(&mut Value)) -> &Self {
        self.edit("config.json", |bytes| {
            let mut config = serde_json::from_slice(bytes).unwrap();
            change(&mut config);
            *bytes = serde_json::to_vec_pretty(&config).unwrap();
        })
    }

    /// Changes a safetensors file.
    pub(crate) fn retensor(&self, file: &str, change: impl FnOnce(&mut Tensors)) -> &Self {
        self.edit(file, |bytes| {
            let mut tensors = Tensors::parse(bytes);
            change(&mut tensors);
            *bytes = tensors.serialize();
        })
    }
}

impl Drop for ModelDirectory {
    fn drop(&mut self) {
        // What cannot be removed lies in the build directory and harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One tensor of a safetensors file.
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// A safetensors file, taken apart.
pub(crate) struct Tensors(Vec<Tensor>);

impl Tensors {
    fn parse(bytes: &[u8]) -> Self {
        let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
        let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
        let header: serde_json::Map<String, Value> = serde_json::from_slice(header).unwrap();
        let entries = header.into_iter().filter(|(name, _)| name != "__metadata__");
        let number = |value: &Value| value.as_u64().unwrap() as usize;
        let tensor = |(name, entry): (String, Value)| Tensor {
            name,
            kind: entry["dtype"].as_str().unwrap().to_owned(),
            shape: entry["shape"].as_array().unwrap().iter().map(number).collect(),
            bytes: data[number(&entry["data_offsets"][0])..number(&entry["data_offsets"][1])].to_vec(),
        };
        Self(entries.map(tensor).collect())
    }

    fn serialize(&self) -> Vec<u8> {
        let mut header = serde_json::Map::new();
        let mut data = Vec::new();
        for tensor in &self.0 {
            let start = data.len();
            data.extend_from_slice(&tensor.bytes);
            let entry = serde_json::json!({
                "dtype": tensor.kind, "shape": tensor.shape, "data_offsets": [start, data.len()]
            });
            header.insert(tensor.name.clone(), entry);
        }
        let header = serde_json::to_vec(&header).unwrap();
        [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
    }

    /// The tensor whose name ends so.
    pub(crate) fn named(&mut self, end: &str) -> &mut Tensor {
        self.0.iter_mut().find(|tensor| tensor.name.ends_with(end)).unwrap()
    }

    pub(crate) fn remove(&mut self, end: &str) {
        let at = self.0.iter().position(|tensor| tensor.name.ends_with(end)).unwrap();
        self.0.remove(at);
    }
}

impl Tensor {
    /// Keeps only the first rows.
    pub(crate) fn keep_rows(&mut self, rows: usize) {
        self.bytes.truncate(self.bytes.len() / self.shape[0] * rows);
        self.shape[0] = rows;
    }

    /// Adds to one value of an F32 tensor.
    pub(crate) fn add(&mut self, index: usize, difference: f32) {
        assert_eq!(self.kind, "F32");
        let bytes = &mut self.bytes[4 * index..][..4];
        let value = f32::from_le_bytes(bytes.try_into().unwrap());
        bytes.copy_from_slice(&(value + difference).to_le_bytes());
    }

    /// Sets one value of an I32 tensor.
    pub(crate) fn set(&mut self, index: usize, value: i32) {
        assert_eq!(self.kind, "I32");
        self.bytes[4 * index..][..4].copy_from_slice(&value.to_le_bytes());
    }
}
