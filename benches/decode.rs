//! How fast the virtual GPU decodes and prefills: tiny-a after prompts of 256 tokens, as `transformers.py` measures it.
//!
//! A decode step replays a captured graph (overlap on) without the step oracle; its time includes the simulation of
//! the device's clock. `fp8` has the served defaults' KV rows and fp8 index keys, `f32` what `model verify` uses.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot set itself up has failed")]
#![allow(missing_docs, reason = "criterion's macros make items without")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coalmine::engine::checkpoint::Checkpoint;
use coalmine::engine::{
    Formats, Holding, Model, OVERLAP_ROWS, Ownership, PREFILL_ROWS, PoolSizes, Row, Runner, RunnerShape, ServedShape,
    Side, StepModes,
};
use coalmine_kernels::Compute;
use coalmine_kernels::math::Cpu;
use coalmine_kernels::operators::{IndexFormat, KvFormat};
use coalmine_kernels::virtual_gpu::CostProfile;
use coalmine_sessions::Padding;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const PROMPT: usize = 256;
/// Decoded positions before they start over, so that every step attends to about as much.
const DECODED: usize = 64;

const FORMATS: [(&str, Formats); 2] = [
    ("fp8", Formats { kv: KvFormat::Fp8, index: IndexFormat::Fp8 }),
    ("f32", Formats { kv: KvFormat::F32, index: IndexFormat::F32 }),
];

const MODES: StepModes = StepModes {
    captured: true,
    overlap: true,
    padding: Padding::Sentinel,
    tracing: false,
    nudge_main_ns: 0,
    nudge_indexer_ns: 0,
    oracle: false,
};

/// Sequences with room for a prompt and what is decoded after it.
struct Sequences {
    runner: Runner,
    prompts: Vec<Vec<u32>>,
    holdings: Vec<Holding>,
    step: usize,
}

impl Sequences {
    fn new(formats: Formats, rows: usize) -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-a");
        let model = Arc::new(Model::new(&Checkpoint::open(&directory).unwrap(), 2 * PROMPT));
        let shape =
            RunnerShape { rows, sizes: PoolSizes::for_sessions(rows, 2 * PROMPT), formats, overlap_rows: OVERLAP_ROWS };
        let workers = std::thread::available_parallelism().map_or(1, |count| count.get().min(2));
        let compute = Compute { cpu: Cpu::detect(), workers };
        let vocabulary = model.config.vocab_size;
        let runner = Runner::new(model, CostProfile::h200(), ServedShape::FLASH, 1, compute, shape, &[], 0);
        let mut ownership = Ownership::new(shape.sizes);
        let holding = |_| {
            let mut holding = ownership.admit().unwrap();
            assert!(ownership.extend(&mut holding, PROMPT + DECODED));
            holding
        };
        let holdings = (0..rows).map(holding).collect();
        let prompt = |row| (0..PROMPT).map(|at| ((row * 131 + at * 17) % vocabulary) as u32).collect();
        Self { runner, prompts: (0..rows).map(prompt).collect(), holdings, step: 0 }
    }

    fn prefill(&mut self) {
        for (prompt, holding) in self.prompts.iter().zip(&self.holdings) {
            self.runner.prefill(Side::Decode, holding, prompt, 0, PREFILL_ROWS, |_, _, _| ());
        }
    }

    fn decode(&mut self) {
        let position = PROMPT + self.step % DECODED;
        let rows = self.prompts.iter().zip(&self.holdings);
        let rows: Vec<Row<'_>> =
            rows.map(|(prompt, holding)| Row { token: prompt[position % PROMPT], position, holding }).collect();
        self.runner.decode(self.step as u64, &rows, MODES, &[], |_, _, _, _| ());
        self.step += 1;
    }
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3)).sample_size(30);
    for (name, formats) in FORMATS {
        for rows in [1, 16, 64] {
            let mut sequences = Sequences::new(formats, rows);
            sequences.prefill();
            group.throughput(Throughput::Elements(rows as u64));
            group.bench_function(BenchmarkId::new(name, rows), |bencher| bencher.iter(|| sequences.decode()));
        }
    }
}

fn prefill(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("prefill");
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(5)).sample_size(10);
    for (name, formats) in FORMATS {
        let mut sequences = Sequences::new(formats, 16);
        group.throughput(Throughput::Elements(16 * PROMPT as u64));
        group.bench_function(BenchmarkId::new(name, "16x256"), |bencher| bencher.iter(|| sequences.prefill()));
    }
}

criterion_group!(benches, decode, prefill);
criterion_main!(benches);
