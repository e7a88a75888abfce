//! Loads a DeepSeek-V4 model in the Hugging Face layout: `config.json` and `model*.safetensors`, and the `reference.safetensors` of
//! models that come with one.
//!
//! Nothing from a file is trusted: whatever is wrong with it becomes a [`CheckpointError`] that says so, never a panic.

mod config;
#[cfg(test)]
mod config_tests;
mod error;
mod fields;
mod files;
mod names;
mod reference;
mod rope;
mod rope_settings;
mod safetensors;
mod schedule;
mod tensors;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::Path;

pub use config::{ModelConfig, Scoring};
pub use error::CheckpointError;
pub use reference::{Reference, Selection};
pub use rope::Rope;
pub use safetensors::{SafeTensors, TensorView};
pub use schedule::{AttentionKind, LayerConfig, Routing};
pub use tensors::{
    AttentionWeights, CompressorWeights, Expert, FfnWeights, HyperConnection, IndexerWeights, LayerWeights, Matrix,
    ModelWeights, RoutingWeights,
};

/// A model: its configuration and its weights, which agree with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Shapes and constants.
    pub config: ModelConfig,
    /// The weights.
    pub weights: ModelWeights,
    /// Names of tensors that the model has no use for, sorted, multi-token prediction left out. Worth a warning: a layer that
    /// config.json does not count would stand here.
    pub unused_tensors: Vec<String>,
}

impl Checkpoint {
    /// Loads a directory.
    pub fn open(directory: &Path) -> Result<Self, CheckpointError> {
        files::check_directory(directory)?;
        let path = directory.join("config.json");
        let text = files::read_text(
            &path,
            "Give a directory in the Hugging Face layout, or copy the model's config.json there.",
        )?;
        let config = ModelConfig::parse(&path.display().to_string(), &text)?;
        let files = files::weight_files(directory)?;
        let files = files.iter().map(|path| SafeTensors::open(path)).collect::<Result<Vec<_>, _>>()?;
        Self::assemble(config, &files)
    }

    /// Loads a model from memory: the text of its `config.json`, and name and bytes of each safetensors file.
    pub fn from_parts<N, B>(config_json: &str, files: Vec<(N, B)>) -> Result<Self, CheckpointError>
    where
        N: Into<String>,
        B: Into<Cow<'static, [u8]>>,
    {
        let config = ModelConfig::parse("config.json", config_json)?;
        let files = files
            .into_iter()
            .map(|(name, bytes)| SafeTensors::from_bytes(name, bytes))
            .collect::<Result<Vec<_>, _>>()?;
        Self::assemble(config, &files)
    }

    fn assemble(config: ModelConfig, files: &[SafeTensors]) -> Result<Self, CheckpointError> {
        let (weights, unused_tensors) = ModelWeights::load(&config, files)?;
        Ok(Self { config, weights, unused_tensors })
    }
}
