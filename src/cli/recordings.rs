//! `coalmine recordings`: what there is in a directory.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use coalmine_sessions::Sanitized;

use super::Format;
use super::console::read_config;
use crate::paths::Paths;
use crate::recordings::list;

#[derive(Debug, Args)]
pub(super) struct RecordingsArguments {
    /// Where to look; by default where `:record` puts them.
    directory: Option<PathBuf>,
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Lists recordings, the newest first.
pub(super) fn list_recordings(arguments: &RecordingsArguments) -> anyhow::Result<ExitCode> {
    let paths = Paths::of_user();
    let directory = match &arguments.directory {
        Some(directory) => directory.clone(),
        None => read_config(None, &paths)?.recordings.unwrap_or(paths.recordings),
    };
    // Nobody has recorded anything yet.
    let listed = if arguments.directory.is_none() && !directory.exists() {
        Vec::new()
    } else {
        list(&directory).with_context(|| format!("{} cannot be listed", directory.display()))?
    };
    let mut out = std::io::stdout().lock();
    match arguments.format {
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&listed)?)?,
        Format::Text if listed.is_empty() => {
            writeln!(out, "There is no recording in {}.", Sanitized::new(&directory.display().to_string()))?;
        }
        Format::Text => listed.iter().try_for_each(|recording| writeln!(out, "{recording}"))?,
    }
    Ok(ExitCode::SUCCESS)
}
