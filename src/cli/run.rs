//! `coalmine run`: sessions without a console.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use clap::Args;
use coalmine_sessions::Event;
use coalmine_sessions::recording::{RecordingWriter, Redaction};

use super::host::{HostArguments, parse_whole};
use super::progress::while_doing;
use super::{Format, command_line};
use crate::engine::EngineOptions;
use crate::headless::{RunProgress, RunReport, run_observed};
use crate::macro_run;
use crate::recorder::manifest_of;

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// Sessions in all; 80, or with a macro as many as it takes.
    #[arg(long, value_parser = parse_whole::<u64>)]
    sessions: Option<u64>,
    /// Stops after so many step boundaries, finished or not.
    #[arg(long, value_parser = parse_whole::<u64>)]
    steps: Option<u64>,
    #[command(flatten)]
    play: MacroArguments,
    /// Records the run: an MCAP file that Foxglove opens and `coalmine export` reads.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    record: Option<PathBuf>,
    /// Keeps hashes in place of what sessions and the log say.
    #[arg(long, requires = "record")]
    redact: bool,
    #[command(flatten)]
    host: HostArguments,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// A macro instead of a plain run.
#[derive(Debug, Args)]
struct MacroArguments {
    /// Plays a macro: a file, or a shipped one such as `coalmine:reproduce-incident`. Exits with 1 when it does not hold.
    #[arg(long = "macro", value_name = "FILE", conflicts_with = "steps")]
    file: Option<String>,
    /// Writes what came of the macro as JUnit XML.
    #[arg(long, value_name = "FILE", requires = "file")]
    report_junit: Option<PathBuf>,
    /// Writes what came of the macro as JSON.
    #[arg(long, value_name = "FILE", requires = "file")]
    report_json: Option<PathBuf>,
    /// Lets the macro change a live target. The embedded engine may always be changed.
    #[arg(long, requires = "file")]
    allow_mutations: bool,
}

fn play_macro(arguments: &RunArguments, file: &str) -> anyhow::Result<ExitCode> {
    let script = macro_run::load_macro(file)?;
    let options = arguments.host.engine_options(arguments.sessions)?;
    let checkpoint = while_doing("Loading the model", || arguments.host.load())?;
    let text = arguments.format == Format::Text;
    let mut out = std::io::stdout().lock();
    let mut written = Ok(());
    let run = macro_run::play(&checkpoint, options, script, |outcome| {
        if text && written.is_ok() {
            written = writeln!(out, "{outcome}");
        }
    })?;
    written?;
    let json = serde_json::to_string_pretty(&run)?;
    match arguments.format {
        Format::Json => writeln!(out, "{json}")?,
        Format::Text => writeln!(out, "{}", run.report.verdict())?,
    }
    for (path, report) in
        [(&arguments.play.report_junit, run.report.junit()), (&arguments.play.report_json, json + "\n")]
    {
        if let Some(path) = path {
            std::fs::write(path, report).with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    Ok(if run.report.passed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Runs sessions, or a macro.
pub(super) fn run_sessions(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    if let Some(file) = &arguments.play.file {
        return play_macro(arguments, file);
    }
    let play = &arguments.play;
    if play.report_junit.is_some() || play.report_json.is_some() || play.allow_mutations {
        // The parser waives `requires` where the required option conflicts with another one given.
        anyhow::bail!("`--report-junit`, `--report-json` and `--allow-mutations` need `--macro FILE`.");
    }
    let options = arguments.host.engine_options(Some(arguments.sessions.unwrap_or(80)))?;
    let checkpoint = while_doing("Loading the model", || arguments.host.load())?;
    let stderr = std::io::stderr();
    let progress_line = stderr.is_terminal();
    let mut writer = arguments.record.as_deref().map(|path| record(path, &options, arguments.redact)).transpose()?;
    let mut broken = None;
    let observe = |event: &Event| {
        if let (Some(open), None) = (writer.as_mut(), &broken) {
            broken = open.record(event, Instant::now()).err();
        }
    };
    let progress = |progress: RunProgress| {
        if progress_line {
            let _ = write!(
                std::io::stderr(),
                "\r\x1b[Kstep {}, {} of {} sessions finished",
                progress.step,
                progress.finished,
                progress.sessions
            );
        }
    };
    let (report, _) = run_observed(&checkpoint, options, arguments.steps, progress, observe)?;
    if let Some(error) = broken {
        return Err(error.into());
    }
    if let Some(writer) = writer {
        writer.finish()?;
    }
    if progress_line {
        write!(std::io::stderr(), "\r\x1b[K")?;
    }
    let mut out = std::io::stdout().lock();
    match arguments.format {
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        Format::Text => print_report(&mut out, &report)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_report(out: &mut impl Write, report: &RunReport) -> std::io::Result<()> {
    let summary = &report.summary;
    writeln!(
        out,
        "{} of {} sessions corrupted by their text: {:.1}% (95% between {:.1}% and {:.1}%)",
        summary.corrupted,
        summary.sessions,
        100.0 * summary.rate.value,
        100.0 * summary.rate.low,
        100.0 * summary.rate.high
    )?;
    let flags: Vec<String> = summary.flags.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    writeln!(out, "flags           {}", if flags.is_empty() { "none".to_owned() } else { flags.join(", ") })?;
    if report.oracle {
        writeln!(
            out,
            "diverged        {} sessions, {} of {} steps hit",
            summary.diverged_sessions, summary.hit_steps, summary.steps
        )?;
    } else {
        writeln!(out, "diverged        not measured: the step oracle did not run")?;
    }
    if let Some(median) = summary.median_rows_per_hit_step {
        writeln!(
            out,
            "rows a hit step median {median}, {} of {} slots hit at least once",
            summary.slots_hit, summary.slots_seen
        )?;
    }
    write!(out, "witnesses       {} in {} steps", summary.witnesses, summary.witness_steps)?;
    writeln!(out, " (the virtual GPU's own record; {} diverged steps without one)", summary.diverged_without_witness)?;
    writeln!(out, "canary          {} hits, {} pages checked", summary.canary_hits, summary.pages_checked)?;
    writeln!(
        out,
        "tokens          {} in {:.2} s: {:.0} tokens/s ({}), {:.1} ms on the device",
        summary.tokens,
        report.seconds,
        report.tokens_per_second,
        summary.instruction_set,
        1e3 * report.device_seconds
    )?;
    let toggles: Vec<String> = summary.toggles.iter().map(|(name, value)| format!("{name}={value}")).collect();
    writeln!(out, "toggles         {}", toggles.join(" "))?;
    writeln!(out, "seed            {}", summary.seed)
}

/// Begins a recording of a run.
fn record(path: &Path, options: &EngineOptions, redact: bool) -> anyhow::Result<RecordingWriter> {
    let redaction = if redact { Redaction::Hashes } else { Redaction::None };
    Ok(RecordingWriter::create(path, manifest_of(&command_line(), options, redaction))?)
}
