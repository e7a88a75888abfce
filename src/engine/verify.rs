//! Comparing the engine with a checkpoint's float32 reference.

use std::collections::BTreeSet;
use std::sync::Arc;

use coalmine_kernels::Compute;
use coalmine_kernels::operators::{IndexFormat, KvFormat};
use coalmine_kernels::virtual_gpu::CostProfile;
use coalmine_sessions::Padding;
use serde::Serialize;

use super::checkpoint::{AttentionKind, Checkpoint, Reference};
use super::error::EngineError;
use super::model::Model;
use super::pools::{Formats, Ownership, PoolSizes};
use super::runner::{PREFILL_ROWS, Row, Runner, RunnerShape, Side, StepModes};
use super::served::ServedShape;

/// Largest difference of a logit that still counts as equal.
pub const LOGIT_TOLERANCE: f32 = 2e-3;
/// Selections are compared only where the last chosen and the first unchosen score are further apart than this.
pub const SELECTION_MARGIN: f32 = 1e-4;

/// How the engine compares with the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verification {
    /// The model's directory or name.
    pub model: String,
    /// Decoded tokens that agree.
    pub tokens_agreeing: usize,
    /// Decoded tokens compared.
    pub tokens: usize,
    /// Largest difference of a logit over all positions of the prompt.
    pub prefill_largest_difference: f32,
    /// Largest difference of a logit over all decode steps.
    pub decode_largest_difference: f32,
    /// Largest difference of a residual stream in the positions that the reference holds, by layer.
    pub hidden_largest_difference: Vec<(usize, f32)>,
    /// Index selections that agree as sets.
    pub selections_agreeing: usize,
    /// Index selections that differ although the margin is large enough to decide.
    pub selections_differing: usize,
    /// Index selections that differ where the scores are too close to decide.
    pub selections_undecided: usize,
    /// Whether all is within tolerance.
    pub within_tolerance: bool,
}

/// Prefills the reference's prompt and decodes its tokens one by one, comparing the greedy choice each time, with f32 rows and f32 index keys.
pub fn verify(
    name: &str,
    checkpoint: &Checkpoint,
    reference: &Reference,
    compute: Compute,
) -> Result<Verification, EngineError> {
    reference.check_against(&checkpoint.config)?;
    let steps = reference.decode_tokens.len();
    let tokens = reference.prompt.len() + steps;
    let context = tokens.next_multiple_of(PREFILL_ROWS);
    super::error::check_supported(&checkpoint.config)?;
    let model = Arc::new(Model::new(checkpoint, context));
    let shape = RunnerShape {
        rows: 1,
        sizes: PoolSizes::for_sessions(1, context),
        formats: Formats { kv: KvFormat::F32, index: IndexFormat::F32 },
        overlap_rows: 128,
    };
    let profile = CostProfile::h200();
    let mut runner = Runner::new(Arc::clone(&model), profile, ServedShape::FLASH, 0, compute, shape, &[], 0);
    let mut ownership = Ownership::new(shape.sizes);
    // A fresh pool for one sequence has a row and pages for it.
    let mut holding = ownership.admit().expect("a fresh pool has a request row");
    ownership.extend(&mut holding, tokens);

    let mut result = Verification {
        model: name.to_owned(),
        tokens_agreeing: 0,
        tokens: steps,
        prefill_largest_difference: 0.0,
        decode_largest_difference: 0.0,
        hidden_largest_difference: Vec::new(),
        selections_agreeing: 0,
        selections_differing: 0,
        selections_undecided: 0,
        within_tolerance: false,
    };
    let vocabulary = model.config.vocab_size;
    let mut last_logits = Vec::new();
    let mut hidden = vec![0f32; model.layers.len() + 1];
    let prompt = &reference.prompt;
    let mut next = runner.prefill(Side::Decode, &holding, prompt, 0, PREFILL_ROWS, |memory, buffers, first| {
        let logits = memory.slice::<f32>(buffers.logits.range);
        for (index, row) in logits.chunks_exact(vocabulary).enumerate() {
            let difference = largest_difference(row, reference.prefill_logits.row(first + index));
            result.prefill_largest_difference = result.prefill_largest_difference.max(difference);
        }
        last_logits = logits[logits.len() - vocabulary..].to_vec();
        for (layer, kind) in model.config.layers.iter().enumerate() {
            let (Some(selection), AttentionKind::Ratio4, Some(tap)) =
                (reference.index_topk.get(&layer), kind.attention, buffers.selections[layer])
            else {
                continue;
            };
            let Some(table) = buffers.index_logits[layer] else { continue };
            let all_scores = memory.slice::<f32>(table.range);
            for (index, ours) in memory.slice::<i32>(tap.range).chunks_exact(tap.columns).enumerate() {
                let visible = (first + index + 1) / 4;
                let margin = selection_margin(&all_scores[index * table.columns..][..visible], tap.columns);
                let equal = selected(ours) == selected(selection.row(first + index));
                match (equal, margin > SELECTION_MARGIN) {
                    (true, _) => result.selections_agreeing += 1,
                    (false, true) => result.selections_differing += 1,
                    (false, false) => result.selections_undecided += 1,
                }
            }
        }
        for (layer, rows) in &reference.hidden {
            let Some(tap) = buffers.streams.get(*layer) else { continue };
            if tap.columns != rows.columns {
                continue;
            }
            for back in 0..rows.rows {
                let position = prompt.len() - rows.rows + back;
                if let Some(index) = position.checked_sub(first).filter(|index| *index < tap.rows()) {
                    let ours = &memory.slice::<f32>(tap.range)[index * tap.columns..][..tap.columns];
                    hidden[*layer] = hidden[*layer].max(largest_difference(ours, rows.row(back)));
                }
            }
        }
    });
    result.hidden_largest_difference =
        reference.hidden.keys().filter(|l| **l < hidden.len() - 1).map(|l| (*l, hidden[*l])).collect();
    let modes = StepModes {
        captured: true,
        overlap: true,
        padding: Padding::Sentinel,
        tracing: false,
        nudge_main_ns: 0,
        nudge_indexer_ns: 0,
        oracle: false,
    };
    // Row `n` of the reference's decode logits is what predicted its token `n`: the first is the
    // prompt's last row. Its own tokens are fed, so that one difference does not make all later ones.
    let mut logits = last_logits;
    for (step, expected) in reference.decode_tokens.iter().enumerate() {
        result.tokens_agreeing += usize::from(next == *expected);
        let difference = largest_difference(&logits, reference.decode_logits.row(step));
        result.decode_largest_difference = result.decode_largest_difference.max(difference);
        let row = Row { token: *expected, position: prompt.len() + step, holding: &holding };
        next = runner.decode(step as u64, &[row], modes, &[], |_, _, _, _| ()).tokens[0];
        logits.clear();
        logits.extend_from_slice(&runner.logits()[..vocabulary]);
    }
    result.within_tolerance = result.tokens_agreeing == steps
        && result.prefill_largest_difference <= LOGIT_TOLERANCE
        && result.decode_largest_difference <= LOGIT_TOLERANCE
        && result.selections_differing == 0;
    Ok(result)
}

/// The selected entries as a set.
fn selected(entries: &[i32]) -> BTreeSet<i32> {
    entries.iter().copied().filter(|entry| *entry >= 0).collect()
}

/// Distance between the last chosen and the first unchosen score; infinite when all are chosen.
fn selection_margin(scores: &[f32], chosen: usize) -> f32 {
    if scores.len() <= chosen {
        return f32::INFINITY;
    }
    let mut sorted = scores.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    sorted[chosen - 1] - sorted[chosen]
}

/// The largest difference, infinite when a value is not a number.
pub(super) fn largest_difference(ours: &[f32], theirs: &[f32]) -> f32 {
    ours.iter()
        .zip(theirs)
        .map(|(a, b)| (a - b).abs())
        .fold(0f32, |m, d| if d.is_nan() { f32::INFINITY } else { m.max(d) })
}

/// Opens a directory and verifies it.
pub fn verify_directory(directory: &std::path::Path, compute: Compute) -> Result<Verification, EngineError> {
    let checkpoint = Checkpoint::open(directory)?;
    let reference = Reference::open(directory)?;
    verify(&directory.display().to_string(), &checkpoint, &reference, compute)
}
