//! What must hold of the engine whatever the model: bits do not depend on company.

use std::sync::Arc;

use coalmine_kernels::Compute;
use coalmine_kernels::math::Cpu;
use coalmine_kernels::operators::{IndexFormat, KvFormat};
use coalmine_kernels::virtual_gpu::CostProfile;
use coalmine_sessions::Padding;

use super::checkpoint::Checkpoint;
use super::model::Model;
use super::pools::{Formats, Holding, Ownership, PoolSizes};
use super::runner::{Row, Runner, RunnerShape, Side, StepModes};
use super::served::ServedShape;
use super::verify::verify;
use super::*;

const CLEAN: StepModes = StepModes {
    captured: true,
    overlap: false,
    padding: Padding::Sentinel,
    tracing: false,
    nudge_main_ns: 0,
    nudge_indexer_ns: 0,
    oracle: true,
};

fn golden(name: &str) -> Checkpoint {
    Checkpoint::open(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
}

fn compute(workers: usize) -> Compute {
    Compute { cpu: Cpu::detect(), workers }
}

/// A sequence of pseudo-random tokens.
fn tokens(seed: u64, length: usize, vocabulary: usize) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % vocabulary as u64) as u32
        })
        .collect()
}

struct Company {
    sequences: Vec<(Vec<u32>, Holding)>,
    runner: Runner,
}

impl Company {
    /// Prefills sequences of the given lengths in chunks.
    fn new(
        model: &Arc<Model>,
        formats: Formats,
        rows: usize,
        seeds: &[(u64, usize)],
        chunk: usize,
        workers: usize,
    ) -> Self {
        let shape = RunnerShape { rows, sizes: PoolSizes::for_sessions(rows, 512), formats, overlap_rows: 128 };
        let profile = CostProfile::h200();
        let mut runner =
            Runner::new(Arc::clone(model), profile, ServedShape::FLASH, 7, compute(workers), shape, &[], 0);
        let mut ownership = Ownership::new(shape.sizes);
        let sequences = seeds
            .iter()
            .map(|&(seed, length)| {
                let tokens = tokens(seed, length, model.config.vocab_size);
                let mut holding = ownership.admit().unwrap();
                assert!(ownership.extend(&mut holding, length + 64));
                runner.prefill(Side::Decode, &holding, &tokens, 0, chunk, |_, _, _| ());
                (tokens, holding)
            })
            .collect();
        Self { sequences, runner }
    }

    /// Decodes `steps` forced steps and returns the logit bits of the first sequence.
    fn decode(&mut self, steps: usize, modes: StepModes) -> Vec<u32> {
        let vocabulary = self.runner.model().config.vocab_size;
        let mut bits = Vec::new();
        for step in 0..steps {
            let rows: Vec<Row<'_>> = self
                .sequences
                .iter()
                .map(|(tokens, holding)| Row {
                    token: (tokens[step] + 1) % vocabulary as u32,
                    position: tokens.len() + step,
                    holding,
                })
                .collect();
            let outcome = self.runner.decode(step as u64, &rows, modes, &[], |_, _, _, _| ());
            assert!(outcome.divergences.is_empty());
            bits.extend(self.runner.logits()[..vocabulary].iter().map(|logit| logit.to_bits()));
        }
        bits
    }
}

#[test]
fn a_row_has_the_same_bits_in_any_company() {
    for (name, kv, index) in [
        ("tiny-a", KvFormat::F32, IndexFormat::F32),
        ("tiny-a", KvFormat::Fp8, IndexFormat::Fp8),
        ("tiny-b", KvFormat::Fp8, IndexFormat::Bf16),
    ] {
        let model = Arc::new(Model::new(&golden(name), 512));
        let formats = Formats { kv, index };
        let first = (11, 133);
        let alone = Company::new(&model, formats, 1, &[first], 512, 1).decode(9, CLEAN);
        let many: Vec<(u64, usize)> =
            std::iter::once(first).chain((1..21).map(|i| (i, 40 + 13 * i as usize))).collect();
        // 21 rows run in the bucket of 24, and in one of 40 when that is the only larger one.
        for (rows, chunk, workers) in [(24, 512, 2), (40, 37, 3), (21, 5, 1)] {
            let bits = Company::new(&model, formats, rows, &many, chunk, workers).decode(9, CLEAN);
            assert_eq!(bits, alone, "{name} {kv:?} {index:?}, {rows} rows, chunks of {chunk}, {workers} workers");
        }
        let eager = StepModes { captured: false, ..CLEAN };
        assert_eq!(Company::new(&model, formats, 24, &many, 64, 2).decode(9, eager), alone, "{name} eager");
    }
}

#[test]
fn padding_policies_leave_real_rows_alone() {
    let model = Arc::new(Model::new(&golden("tiny-b"), 512));
    let formats = Formats { kv: KvFormat::Fp8, index: IndexFormat::Fp8 };
    let seeds: Vec<(u64, usize)> = (1..6).map(|i| (i, 100 + i as usize)).collect();
    let expected = Company::new(&model, formats, 8, &seeds, 512, 1).decode(6, CLEAN);
    let skip = StepModes { padding: Padding::Skip, ..CLEAN };
    assert_eq!(Company::new(&model, formats, 8, &seeds, 512, 1).decode(6, skip), expected);
}

#[test]
fn golden_models_are_within_tolerance() {
    for name in ["tests/golden/tiny-a", "tests/golden/tiny-b", "sessions/demo"] {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let checkpoint = Checkpoint::open(&directory).unwrap();
        let reference = checkpoint::Reference::open(&directory).unwrap();
        let result = verify(name, &checkpoint, &reference, compute(2)).unwrap();
        assert!(result.within_tolerance, "{result:?}");
        assert_eq!((result.tokens_agreeing, result.tokens), (64, 64));
    }
}
