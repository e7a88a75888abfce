//! Material for this directory's tests: the models in the repository, and safetensors files taken apart and put together by other code
//! than the one under test.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tempfile::{TempDir, tempdir};

/// The models that every test of loading runs over.
pub(super) const MODELS: [&str; 3] = ["tests/golden/tiny-a", "tests/golden/tiny-b", "sessions/demo"];

pub(super) fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub(super) fn config_text(name: &str) -> String {
    fs::read_to_string(model(name).join("config.json")).expect("the model is in the repository")
}

/// A configuration as JSON, with some fields changed; `null` takes a field out.
pub(super) fn config_with(name: &str, changes: Value) -> String {
    let mut config: Map<String, Value> = serde_json::from_str(&config_text(name)).expect("valid JSON");
    for (field, value) in changes.as_object().expect("changes are an object") {
        match value {
            Value::Null => config.remove(field),
            value => config.insert(field.clone(), value.clone()),
        };
    }
    Value::Object(config).to_string()
}

/// One tensor of a file.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) data_type: String,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn tensor(name: &str, data_type: &str, shape: &[usize], bytes: Vec<u8>) -> Tensor {
    Tensor { name: name.to_owned(), data_type: data_type.to_owned(), shape: shape.to_vec(), bytes }
}

pub(super) fn weights(name: &str) -> Vec<Tensor> {
    take_apart(&fs::read(model(name).join("model.safetensors")).expect("the model is in the repository"))
}

/// The tensors of a good file, by name.
pub(super) fn take_apart(bytes: &[u8]) -> Vec<Tensor> {
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).expect("valid JSON");
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let entries = header.iter().filter(|(name, _)| *name != "__metadata__");
    entries
        .map(|(name, entry)| {
            let offset = |end: usize| 8 + length + number(&entry["data_offsets"][end]);
            Tensor {
                name: name.clone(),
                data_type: entry["dtype"].as_str().expect("a name").to_owned(),
                shape: entry["shape"].as_array().expect("a list").iter().map(number).collect(),
                bytes: bytes[offset(0)..offset(1)].to_vec(),
            }
        })
        .collect()
}

/// A file of the given tensors, in their order.
pub(super) fn put_together(tensors: &[Tensor]) -> Vec<u8> {
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    let mut data = Vec::new();
    for tensor in tensors {
        let begin = data.len();
        data.extend_from_slice(&tensor.bytes);
        let entry = json!({"dtype": tensor.data_type, "shape": tensor.shape, "data_offsets": [begin, data.len()]});
        assert!(header.insert(tensor.name.clone(), entry).is_none(), "{} twice", tensor.name);
    }
    file_of(&Value::Object(header).to_string(), &data)
}

/// A file with any header.
pub(super) fn file_of(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

/// A directory that is removed with the value.
pub(super) struct Scratch(TempDir);

impl Scratch {
    pub(super) fn new() -> Self {
        Self(tempdir().expect("the temporary directory is writable"))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), bytes).expect("the temporary directory is writable");
    }
}
