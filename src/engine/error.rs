//! What can be wrong with what an engine is asked to host.

use coalmine_kernels::math::MAX_STREAMS;

use super::checkpoint::{CheckpointError, ModelConfig};

/// Why an engine cannot be built or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The checkpoint is unusable.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint asks for something that the operators cannot do.
    #[error("The config field `{field}` is {found}, but the engine supports {supported}.")]
    Unsupported {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What would work.
        supported: String,
    },
    /// The workload speaks tokens that the model does not have.
    #[error(
        "The model's vocabulary has {vocabulary} entries, but the agent task uses token ids up to {largest}. Choose a model with a larger vocabulary."
    )]
    Vocabulary {
        /// Entries of the model.
        vocabulary: usize,
        /// Largest id of the task.
        largest: usize,
    },
    /// An option is out of range.
    #[error("`{option}` is {found}, but it must be {expected}.")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        found: String,
        /// What would work.
        expected: String,
    },
    /// A page arrived changed.
    #[error("Page {page} of the {family} pool of layer {layer} arrived on the decode side with another checksum than it was sent with.")]
    Transfer {
        /// The pool's family.
        family: &'static str,
        /// Its layer.
        layer: usize,
        /// The page.
        page: usize,
    },
}

/// Checks that the operators can run a model of this shape.
pub(super) fn check_supported(config: &ModelConfig) -> Result<(), EngineError> {
    if config.hyper_connections > MAX_STREAMS {
        return Err(EngineError::Unsupported {
            field: "hc_mult",
            found: config.hyper_connections.to_string(),
            supported: format!("1 to {MAX_STREAMS} residual streams"),
        });
    }
    Ok(())
}
