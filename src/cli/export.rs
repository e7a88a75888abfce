//! `coalmine export`: what a recording holds, in a form that other programs read.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use coalmine_sessions::recording::{Recording, export};

use super::console::cut_off;
use super::host::parse_whole;
use super::progress::while_doing;

#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    /// A recording made with `coalmine --record FILE`, `:record` or `coalmine run --record FILE`.
    recording: PathBuf,
    #[command(flatten)]
    form: FormArguments,
    /// Where to; by default standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Columns and rows of a `--cast`.
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "160x48", value_parser = parse_size, requires = "cast")]
    size: (u16, u16),
    /// How many times faster than the target a `--cast` plays; by default so that it lasts a minute.
    #[arg(long, value_name = "TIMES", requires = "cast", value_parser = parse_speed)]
    speed: Option<f64>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct FormArguments {
    /// A trace for ui.perfetto.dev: lanes as threads, nodes as slices, flags as instants.
    #[arg(long)]
    perfetto: bool,
    /// Every event, one JSON object a line.
    #[arg(long)]
    json: bool,
    /// A table as CSV.
    #[arg(long, value_enum, value_name = "TABLE")]
    csv: Option<Table>,
    /// The console playing it, for asciinema (asciicast v3).
    #[arg(long)]
    cast: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Table {
    /// Decode steps.
    Steps,
    /// Changes of sessions, with calls and flags.
    Sessions,
    /// Nodes in time.
    Spans,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok().filter(|speed| (1e-9..=1e9).contains(speed));
    speed.ok_or_else(|| "expected a number above 0".to_owned())
}

fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let parsed = text
        .split_once('x')
        .and_then(|(columns, rows)| Some((parse_whole::<u16>(columns).ok()?, parse_whole::<u16>(rows).ok()?)));
    let sensible = |&(columns, rows): &(u16, u16)| (60..=400).contains(&columns) && (15..=200).contains(&rows);
    parsed.filter(sensible).ok_or_else(|| "expected COLUMNSxROWS from 60x15 to 400x200".to_owned())
}

/// Exports a recording.
pub(super) fn export_recording(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    let (recording, recovery) = while_doing("Reading the recording", || Recording::open(&arguments.recording))?;
    if let Some(sentence) = cut_off(&recovery) {
        writeln!(std::io::stderr(), "coalmine: {sentence}")?;
    }
    let same = |output: &PathBuf| output.canonicalize().ok() == arguments.recording.canonicalize().ok();
    if arguments.output.as_ref().is_some_and(|output| output.exists() && same(output)) {
        anyhow::bail!("`--output` names the recording itself; an export never replaces it.");
    }
    let out: Box<dyn Write> = match &arguments.output {
        None => Box::new(std::io::stdout().lock()),
        Some(path) => {
            Box::new(std::fs::File::create(path).with_context(|| format!("{} cannot be written", path.display()))?)
        }
    };
    let out = BufWriter::new(out);
    // Onto a terminal it shows by itself that something goes on.
    match arguments.output.is_none() && std::io::stdout().is_terminal() {
        true => export(arguments, &recording, out)?,
        false => while_doing("Exporting", || export(arguments, &recording, out))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn export(arguments: &ExportArguments, recording: &Recording, mut out: impl Write) -> anyhow::Result<()> {
    let form = &arguments.form;
    if form.perfetto {
        export::perfetto(recording, &mut out)?;
    } else if form.json {
        export::json(recording, &mut out)?;
    } else if let Some(table) = form.csv {
        let table = match table {
            Table::Steps => export::Table::Steps,
            Table::Sessions => export::Table::Sessions,
            Table::Spans => export::Table::Spans,
        };
        export::csv(recording, table, &mut out)?;
    } else {
        crate::cast::write(&arguments.recording, arguments.size, arguments.speed, &mut out)?;
    }
    Ok(out.flush()?)
}
