//! `reference.safetensors`: what another implementation computed from the same weights, to compare with.

use std::collections::BTreeMap;
use std::path::Path;

use super::config::ModelConfig;
use super::error::CheckpointError;
use super::files::{check_directory, read_file};
use super::safetensors::{SafeTensors, TensorView};
use super::schedule::AttentionKind;
use super::tensors::{Matrix, check_shape, finite, integers};

/// A prompt and a teacher-forced continuation with the logits after every token.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// The name that errors give.
    pub file: String,
    /// The prompt, at least one token.
    pub prompt: Vec<u32>,
    /// Logits after each token of the prompt.
    pub prefill_logits: Matrix,
    /// The tokens fed one by one after the prompt.
    pub decode_tokens: Vec<u32>,
    /// Logits after each of those.
    pub decode_logits: Matrix,
    /// By layer, what its indexer selected for each token of the prompt.
    pub index_topk: BTreeMap<usize, Selection>,
    /// By depth (0 is the embedding, the last is the final norm), the hidden state of some rows, a row's streams side by side.
    pub hidden: BTreeMap<usize, Matrix>,
}

/// The compressed entries that an indexer selected, a row per token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Tokens.
    pub rows: usize,
    /// Places a token has.
    pub columns: usize,
    /// `rows * columns` entries in no order; -1 for a place not used.
    pub entries: Vec<i32>,
}

impl Selection {
    /// The places of one token. Panics past the last one.
    pub fn row(&self, row: usize) -> &[i32] {
        &self.entries[row * self.columns..(row + 1) * self.columns]
    }
}

const FILE: &str = "reference.safetensors";

impl Reference {
    /// Reads `reference.safetensors` in a model's directory.
    pub fn open(directory: &Path) -> Result<Self, CheckpointError> {
        check_directory(directory)?;
        let path = directory.join(FILE);
        let bytes = read_file(
            &path,
            "Only models made for checking an engine have one; it cannot be derived from the weights.",
        )?;
        Self::from_tensors(&SafeTensors::from_bytes(path.display().to_string(), bytes)?)
    }

    /// The reference in an opened file.
    pub fn from_tensors(tensors: &SafeTensors) -> Result<Self, CheckpointError> {
        let prompt = required(tensors, "prompt")?;
        let [length] = dimensions(&prompt)?;
        let prefill_logits = required(tensors, "prefill_logits")?;
        let [_, vocabulary] = dimensions(&prefill_logits)?;
        if length == 0 || vocabulary == 0 {
            let problem = "its prompt or its vocabulary is empty; write the reference again".to_owned();
            return Err(CheckpointError::Inconsistent { file: tensors.file().to_owned(), problem });
        }
        let decode_tokens = required(tensors, "decode_tokens")?;
        let [steps] = dimensions(&decode_tokens)?;
        let decode_logits = required(tensors, "decode_logits")?;

        let mut index_topk = BTreeMap::new();
        let mut hidden = BTreeMap::new();
        for name in tensors.names() {
            // Of other names, and of numbers that are no numbers, nothing is known: they are left alone.
            let numbered = |prefix| name.strip_prefix(prefix).and_then(|number| number.parse().ok());
            if let Some(layer) = numbered("index_topk.") {
                index_topk.insert(layer, selection(&required(tensors, name)?, length)?);
            } else if let Some(depth) = numbered("hidden.") {
                hidden.insert(depth, rows(&required(tensors, name)?)?);
            }
        }
        const LOGITS: &str = "one row per token and one column per entry of the vocabulary, as in prefill_logits";
        Ok(Self {
            file: tensors.file().to_owned(),
            prompt: tokens(&prompt, vocabulary)?,
            prefill_logits: matrix(&prefill_logits, [length, vocabulary], LOGITS)?,
            decode_tokens: tokens(&decode_tokens, vocabulary)?,
            decode_logits: matrix(&decode_logits, [steps, vocabulary], LOGITS)?,
            index_topk,
            hidden,
        })
    }

    /// Refuses a reference that cannot be of this model: another vocabulary, or selections of layers that do not select.
    pub fn check_against(&self, config: &ModelConfig) -> Result<(), CheckpointError> {
        let vocabulary = config.vocab_size;
        for (tensor, tokens) in [("prompt", &self.prompt), ("decode_tokens", &self.decode_tokens)] {
            if let Some((index, token)) = tokens.iter().enumerate().find(|(_, token)| **token as usize >= vocabulary) {
                return Err(CheckpointError::TokenOutsideVocabulary {
                    file: self.file.clone(),
                    tensor: tensor.to_owned(),
                    index,
                    token: i64::from(*token),
                    vocabulary,
                });
            }
        }
        let inconsistent = |problem| Err(CheckpointError::Inconsistent { file: self.file.clone(), problem });
        if self.prefill_logits.columns != vocabulary {
            return inconsistent(format!(
                "it has logits for {} tokens, the model's vocab_size is {vocabulary}; use the reference that belongs to this model",
                self.prefill_logits.columns
            ));
        }
        let selects =
            |layer: usize| config.layers.get(layer).is_some_and(|layer| layer.attention == AttentionKind::Ratio4);
        if let Some(layer) = self.index_topk.keys().find(|layer| !selects(**layer)) {
            return inconsistent(format!(
                "it has index_topk.{layer}, but layer {layer} of the model is not of ratio 4; use the reference that belongs to this model"
            ));
        }
        if let Some((layer, selection)) = self.index_topk.iter().find(|(_, found)| found.columns > config.index_topk) {
            return inconsistent(format!(
                "index_topk.{layer} selects {} entries a token, the model's index_topk is {}; use the reference that belongs to this model",
                selection.columns, config.index_topk
            ));
        }
        Ok(())
    }
}

fn required<'a>(tensors: &'a SafeTensors, name: &str) -> Result<TensorView<'a>, CheckpointError> {
    tensors.tensor(name).ok_or_else(|| CheckpointError::TensorMissing {
        file: tensors.file().to_owned(),
        tensor: name.to_owned(),
        tried: name.to_owned(),
    })
}

/// The shape of a tensor that must have `N` dimensions.
fn dimensions<const N: usize>(view: &TensorView<'_>) -> Result<[usize; N], CheckpointError> {
    view.shape().try_into().map_err(|_| wrong_rank(view, N))
}

fn wrong_rank(view: &TensorView<'_>, expected: usize) -> CheckpointError {
    CheckpointError::Inconsistent {
        file: view.file().to_owned(),
        problem: format!(
            "{:?} has {} dimensions instead of {expected}; write the reference again",
            view.name(),
            view.shape().len()
        ),
    }
}

fn matrix(view: &TensorView<'_>, shape: [usize; 2], meaning: &'static str) -> Result<Matrix, CheckpointError> {
    check_shape(view, &shape, meaning)?;
    Ok(Matrix { rows: shape[0], columns: shape[1], data: finite(view)? })
}

/// A matrix of the first dimension by all the others.
fn rows(view: &TensorView<'_>) -> Result<Matrix, CheckpointError> {
    let (rows, rest) = view.shape().split_first().ok_or_else(|| wrong_rank(view, 2))?;
    let data = finite(view)?;
    // Not the product of the other dimensions: beside a dimension of zero that may overflow.
    let columns = if rest.is_empty() { 1 } else { data.len() / (*rows).max(1) };
    Ok(Matrix { rows: *rows, columns, data })
}

fn tokens(view: &TensorView<'_>, vocabulary: usize) -> Result<Vec<u32>, CheckpointError> {
    let values = view.to_i64()?;
    let token = |(index, value): (usize, &i64)| match u32::try_from(*value) {
        Ok(token) if (token as usize) < vocabulary => Ok(token),
        _ => Err(CheckpointError::TokenOutsideVocabulary {
            file: view.file().to_owned(),
            tensor: view.name().to_owned(),
            index,
            token: *value,
            vocabulary,
        }),
    };
    values.iter().enumerate().map(token).collect()
}

fn selection(view: &TensorView<'_>, length: usize) -> Result<Selection, CheckpointError> {
    let [_, columns] = dimensions(view)?;
    check_shape(view, &[length, columns], "one row per token of the prompt")?;
    // Whole windows of four tokens make entries.
    let end = i64::try_from(length / 4).unwrap_or(i64::MAX);
    let entries = integers(view, "a compressed entry of the prompt, or -1", -1, end)?;
    Ok(Selection { rows: length, columns, entries: entries.into_iter().map(|entry| entry as i32).collect() })
}
