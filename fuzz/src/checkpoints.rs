//! Model directories: `config.json`, and the header of a safetensors file before as many zeros as it speaks of.

use coalmine::engine::checkpoint::{Checkpoint, Reference, SafeTensors};
use serde_json::Value;

/// Bytes of tensors at most; the models in the repository have three million.
const MOST: u64 = 4 << 20;

/// A `config.json`, a zero byte, and the header of a safetensors file.
pub fn checkpoint(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (config, header) = (&bytes[..at], bytes.get(at + 1..).unwrap_or_default());
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.resize(file.len() + data_bytes(header) as usize, 0);
    let loaded = Checkpoint::from_parts(&String::from_utf8_lossy(config), vec![("model.safetensors", file.clone())]);
    let tensors = SafeTensors::from_bytes("reference.safetensors", file);
    let reference = tensors.and_then(|tensors| Reference::from_tensors(&tensors));
    match (loaded, reference) {
        (Ok(loaded), Ok(reference)) => drop(reference.check_against(&loaded.config)),
        (Err(error), _) | (_, Err(error)) => drop(error.to_string()),
    }
    // The file itself may be anything as well.
    let _ = SafeTensors::from_bytes("model.safetensors", bytes.to_vec());
}

/// How much data a header speaks of.
fn data_bytes(header: &[u8]) -> u64 {
    let Ok(Value::Object(entries)) = serde_json::from_slice(header) else { return 0 };
    let ends = entries.values().filter_map(|entry| entry["data_offsets"][1].as_u64());
    ends.max().unwrap_or(0).min(MOST)
}
