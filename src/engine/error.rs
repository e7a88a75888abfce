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
    /// The pools have no place left for a session that was let in.
    #[error("The pools have no pages left for session {session}, which needs {tokens} tokens.")]
    OutOfPages {
        /// The session.
        session: u64,
        /// Tokens that it needs room for.
        tokens: usize,
    },
    /// A page arrived changed.
    #[error(
        "Page {page} of the {family} pool of layer {layer} arrived on the decode side with another checksum than it was sent with."
    )]
    Transfer {
        /// The pool's family.
        family: &'static str,
        /// Its layer.
        layer: usize,
        /// The page.
        page: usize,
    },
}

/// More rounds than this change nothing and only keep a machine busy; upstream has 20.
const MOST_SINKHORN_ITERATIONS: usize = 1_000;

/// Checks that the operators can run a model of this shape.
pub(super) fn check_supported(config: &ModelConfig) -> Result<(), EngineError> {
    if config.hyper_connections > MAX_STREAMS {
        return Err(EngineError::Unsupported {
            field: "hc_mult",
            found: config.hyper_connections.to_string(),
            supported: format!("1 to {MAX_STREAMS} residual streams"),
        });
    }
    if config.sinkhorn_iterations > MOST_SINKHORN_ITERATIONS {
        return Err(EngineError::Unsupported {
            field: "hc_sinkhorn_iters",
            found: config.sinkhorn_iterations.to_string(),
            supported: format!("at most {MOST_SINKHORN_ITERATIONS} iterations"),
        });
    }
    Ok(())
}
