//! What an embedded engine hosts, from arguments.

use std::num::{IntErrorKind, NonZeroUsize, ParseIntError};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use clap::Args;
use coalmine_kernels::Compute;
use coalmine_kernels::math::Cpu;
use coalmine_sessions::{ToggleAssignment, Toggles};

use crate::engine::checkpoint::Checkpoint;
use crate::engine::{CostFactor, EngineOptions};
use crate::{DEMO_MODEL, demo_checkpoint};

/// What an embedded engine hosts.
#[derive(Debug, Args)]
pub(super) struct HostArguments {
    /// Most sessions that run at once.
    #[arg(long, default_value_t = 80, value_parser = parse_whole::<usize>)]
    pub(super) concurrency: usize,
    /// Turns of a session.
    #[arg(long, default_value_t = 6, value_parser = parse_whole::<u32>)]
    turns: u32,
    /// Seed of the workload and of the device's noise.
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<u64>)]
    pub(super) seed: u64,
    /// Gives a toggle a value, for example `overlap=0`; see `coalmine toggles`.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    assignments: Vec<String>,
    /// A Hugging Face DeepSeek-V4 directory; without it the embedded demo model runs. Whatever the model, its calls
    /// are judged by the answers of the demo's agent task.
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) model: Option<PathBuf>,
    /// Threads that compute; by default one a core.
    #[arg(long, value_parser = parse_whole::<NonZeroUsize>)]
    workers: Option<NonZeroUsize>,
    /// Leaves the step oracle out: divergence is then not known.
    #[arg(long)]
    no_oracle: bool,
    /// Lead of W on the main lane, us: the published constant that decides between R's last read and W's first write.
    #[arg(long, value_name = "US", value_parser = parse_margin)]
    margin_us: Option<f64>,
    /// Factor on the cost of every node whose name contains a text, for example `indexer top-k=1.05`.
    #[arg(long = "cost", value_name = "NODE=FACTOR", value_parser = parse_cost)]
    costs: Vec<CostFactor>,
}

impl HostArguments {
    /// Loads the model.
    pub(super) fn load(&self) -> anyhow::Result<Checkpoint> {
        Ok(match &self.model {
            None => demo_checkpoint()?,
            Some(directory) => Checkpoint::open(directory)?,
        })
    }

    /// What the engine is to be; `sessions` is how many there are in all, without end when there is none.
    pub(super) fn engine_options(&self, sessions: Option<u64>) -> anyhow::Result<EngineOptions> {
        let mut toggles = Toggles::default();
        for assignment in &self.assignments {
            let assignment = ToggleAssignment::parse(assignment)?;
            toggles.set(assignment.name, assignment.value)?;
        }
        let mut options = EngineOptions {
            model: self.model_name(),
            concurrency: self.concurrency,
            sessions,
            turns: self.turns,
            seed: self.seed,
            toggles,
            oracle: !self.no_oracle,
            costs: self.costs.clone(),
            ..EngineOptions::incident(compute(self.workers)?)
        };
        if let Some(margin) = self.margin_us {
            options.profile.incident_margin_us = margin;
        }
        Ok(options)
    }

    fn model_name(&self) -> String {
        self.model.as_ref().map_or(DEMO_MODEL.to_owned(), |directory| directory.display().to_string())
    }

    /// What the engine hosts, in words that are the same every time.
    pub(super) fn target(&self) -> String {
        format!("embedded engine, {}", self.model_name())
    }
}

/// Starts the threads that operators compute on.
pub(super) fn compute(workers: Option<NonZeroUsize>) -> anyhow::Result<Compute> {
    let workers = workers.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    rayon::ThreadPoolBuilder::new()
        .num_threads(workers)
        .build_global()
        .with_context(|| format!("{workers} threads to compute on could not be started"))?;
    Ok(Compute { cpu: Cpu::detect(), workers })
}

pub(super) fn parse_whole<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "expected a smaller whole number".to_owned(),
        IntErrorKind::Zero => "expected a whole number above 0".to_owned(),
        _ => "expected a whole number".to_owned(),
    })
}

fn parse_margin(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(margin) if (0.0..=1e6).contains(&margin) => Ok(margin),
        _ => Err("expected a number of microseconds between 0 and 1000000".to_owned()),
    }
}

fn parse_cost(text: &str) -> Result<CostFactor, String> {
    let parsed = text.rsplit_once('=').and_then(|(node, factor)| Some((node, factor.parse::<f64>().ok()?)));
    match parsed {
        Some((node, factor)) if !node.is_empty() && (0.01..=100.0).contains(&factor) => {
            Ok(CostFactor { node: node.to_owned(), factor })
        }
        _ => Err("expected NODE=FACTOR with a factor between 0.01 and 100".to_owned()),
    }
}
