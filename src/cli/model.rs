//! `coalmine model`: looks at model directories.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use coalmine_sessions::Sanitized;

use super::Format;
use super::host::compute;
use super::progress::while_doing;
use crate::engine::{LOGIT_TOLERANCE, Verification, verify_directory};

#[derive(Debug, Subcommand)]
pub(super) enum ModelVerb {
    /// Compares the engine with the float32 reference in DIRECTORY/reference.safetensors.
    Verify {
        /// A Hugging Face DeepSeek-V4 directory.
        directory: PathBuf,
        /// How to print the result.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
}

/// Verifies a directory.
pub(super) fn verify_model(directory: &Path, format: Format) -> anyhow::Result<ExitCode> {
    let result = {
        let compute = compute(None)?;
        while_doing("Comparing", || verify_directory(directory, compute))?
    };
    let mut out = std::io::stdout().lock();
    match format {
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&result)?)?,
        Format::Text => print_verification(&mut out, &result)?,
    }
    Ok(if result.within_tolerance { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print_verification(out: &mut impl Write, result: &Verification) -> std::io::Result<()> {
    writeln!(out, "{}", Sanitized::new(&result.model))?;
    writeln!(out, "tokens agreeing      {} of {}", result.tokens_agreeing, result.tokens)?;
    writeln!(
        out,
        "largest difference   prefill {:.2e}, decode {:.2e} (at most {:.0e})",
        result.prefill_largest_difference, result.decode_largest_difference, LOGIT_TOLERANCE
    )?;
    writeln!(
        out,
        "index selections     {} agree, {} differ, {} differ but are too close to decide",
        result.selections_agreeing, result.selections_differing, result.selections_undecided
    )?;
    writeln!(out, "{}", if result.within_tolerance { "within tolerance" } else { "OUTSIDE TOLERANCE" })
}
