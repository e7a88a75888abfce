//! `--log FILE`: what Coalmine itself does, in a file, since the screen belongs to the target.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::Context as _;
use clap::Args;
use tracing_subscriber::EnvFilter;

/// The environment variable that picks what is logged.
const FILTER: &str = "COALMINE_LOG";

#[derive(Debug, Args)]
pub(super) struct LogArguments {
    /// Appends what Coalmine does to a file; COALMINE_LOG picks what, for example `coalmine=debug`.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

impl LogArguments {
    /// Begins to log, if it was asked for. What is logged goes out line by line, so nothing is lost at the end.
    pub(super) fn open(&self) -> anyhow::Result<()> {
        let Some(path) = &self.log else { return Ok(()) };
        let filter = match std::env::var(FILTER) {
            Ok(text) => {
                EnvFilter::try_new(&text).with_context(|| format!("{FILTER} is no filter for a log: `{text}`"))?
            }
            Err(_) => EnvFilter::new("info"),
        };
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.with_context(|| format!("{} cannot be written", path.display()))?;
        let subscriber =
            tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Mutex::new(file));
        let begun = subscriber.try_init();
        begun.map_err(|error| anyhow::anyhow!("The log could not be begun: {error}."))?;
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "coalmine begins");
        Ok(())
    }
}
