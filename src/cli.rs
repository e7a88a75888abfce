//! Arguments and exit codes: 0 done, 1 a check did not hold, 2 bad input.

use std::io::{IsTerminal, Write};
use std::num::{IntErrorKind, NonZeroUsize, ParseIntError};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use coalmine_kernels::Compute;
use coalmine_kernels::math::Cpu;
use coalmine_kernels::virtual_gpu::CostProfile;
use coalmine_sessions::recording::{Recording, RecordingWriter, Redaction, export};
use coalmine_sessions::{Event, Sanitized, TOGGLES, ToggleAssignment, Toggles};

use coalmine_panes::ThemeName;

use crate::console::{self, ConsoleOptions, TargetHandle};
use crate::engine::checkpoint::Checkpoint;
use crate::engine::{self, CostFactor, EngineOptions, OVERLAP_ROWS, ServedShape, Verification, verify_directory};
use crate::headless::{RunProgress, RunReport, run_observed};
use crate::recorder::manifest_of;
use crate::{DEMO_MODEL, demo_checkpoint, macro_run};

/// Finds out why a live GPU decode server corrupts its answers.
///
/// Without a command it opens the console on an embedded DeepSeek-V4 engine.
#[derive(Debug, Parser)]
#[command(name = "coalmine", bin_name = "coalmine")]
#[command(version, max_term_width = 100, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Verb>,
    #[command(flatten)]
    console: ConsoleArguments,
}

#[derive(Debug, Args)]
struct ConsoleArguments {
    /// Decode steps a second, or `max`: sessions arrive until you quit, at a pace that you can follow.
    #[arg(long, default_value = "20", value_parser = parse_pace)]
    pace: Pace,
    /// Colours; by default what `NO_COLOR`, `TERM` and `COLORFGBG` suggest.
    #[arg(long, value_enum)]
    theme: Option<ThemeChoice>,
    /// Draws with ASCII characters only.
    #[arg(long)]
    ascii: bool,
    /// Leaves the mouse to the terminal.
    #[arg(long)]
    no_mouse: bool,
    #[command(flatten)]
    host: HostArguments,
}

/// Steps a second; none is as fast as it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pace(Option<f64>);

fn parse_pace(text: &str) -> Result<Pace, String> {
    if text == "max" {
        return Ok(Pace(None));
    }
    match text.parse::<f64>() {
        Ok(steps) if (0.01..=1e6).contains(&steps) => Ok(Pace(Some(steps))),
        _ => Err("expected a number of steps a second between 0.01 and 1000000, or `max`".to_owned()),
    }
}

fn parse_whole<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ThemeChoice {
    /// For a dark background.
    Dark,
    /// For a light background.
    Light,
    /// No colour.
    Mono,
}

impl From<ThemeChoice> for ThemeName {
    fn from(choice: ThemeChoice) -> Self {
        match choice {
            ThemeChoice::Dark => Self::Dark,
            ThemeChoice::Light => Self::Light,
            ThemeChoice::Mono => Self::Mono,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs agent sessions without a console and reports how many were corrupted.
    Run(Box<RunArguments>),
    /// Writes what a recording holds in a form that other programs read.
    Export(ExportArguments),
    /// Lists every toggle: names, values, default, and when a change takes effect.
    Toggles,
    /// Looks at model directories.
    #[command(subcommand, arg_required_else_help = false)]
    Model(ModelVerb),
}

#[derive(Debug, Subcommand)]
enum ModelVerb {
    /// Compares the engine with the float32 reference in DIRECTORY/reference.safetensors.
    Verify {
        /// A Hugging Face DeepSeek-V4 directory.
        directory: PathBuf,
        /// How to print the result.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// What an embedded engine hosts.
#[derive(Debug, Args)]
struct HostArguments {
    /// Most sessions that run at once.
    #[arg(long, default_value_t = 80, value_parser = parse_whole::<usize>)]
    concurrency: usize,
    /// Turns of a session.
    #[arg(long, default_value_t = 6, value_parser = parse_whole::<u32>)]
    turns: u32,
    /// Seed of the workload and of the device's noise.
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<u64>)]
    seed: u64,
    /// Gives a toggle a value, for example `overlap=0`; see `coalmine toggles`.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    assignments: Vec<String>,
    /// A Hugging Face DeepSeek-V4 directory; without it the embedded demo model runs. Whatever the model, its calls
    /// are judged by the answers of the demo's agent task.
    #[arg(long, value_name = "DIRECTORY")]
    model: Option<PathBuf>,
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

#[derive(Debug, Args)]
struct RunArguments {
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
    #[command(flatten)]
    host: HostArguments,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// A macro instead of a plain run.
#[derive(Debug, Args)]
struct ExportArguments {
    /// A recording made with `coalmine run --record FILE`.
    recording: PathBuf,
    /// What to write.
    #[arg(long = "as", value_enum)]
    form: ExportForm,
    /// Where to; by default standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportForm {
    /// A trace for ui.perfetto.dev: lanes as threads, nodes as slices, flags as instants.
    Perfetto,
    /// Every event, one JSON object a line.
    Json,
    /// Decode steps as CSV.
    Steps,
    /// Changes of sessions as CSV.
    Sessions,
    /// Nodes in time as CSV.
    Spans,
}

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

/// Parses the arguments and does what they say.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) if !answer.use_stderr() => answer.exit(),
        Err(wrong) => {
            // The parser's first paragraph says what is wrong; it quotes what was typed, which may hold anything.
            let text = wrong.render().to_string();
            let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = writeln!(std::io::stderr(), "coalmine: {} (see `coalmine --help`)", Sanitized::new(&line));
            return ExitCode::from(2);
        }
    };
    let outcome = match arguments.command {
        None => open_console(&arguments.console),
        Some(Verb::Run(arguments)) => run_sessions(&arguments),
        Some(Verb::Export(arguments)) => export_recording(&arguments),
        Some(Verb::Toggles) => list_toggles(),
        Some(Verb::Model(ModelVerb::Verify { directory, format })) => verify_model(&directory, format),
    };
    outcome.unwrap_or_else(|error| {
        // A reader that went away is no fault of ours.
        let gone = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
        };
        if error.chain().any(gone) {
            return ExitCode::SUCCESS;
        }
        // Errors quote file names and what files say, and those may hold anything.
        let mut text = format!("coalmine: {error}");
        for cause in error.chain().skip(1).map(ToString::to_string) {
            // Some errors say their cause themselves.
            if !text.contains(&cause) {
                text.push_str(": ");
                text.push_str(&cause);
            }
        }
        for line in text.lines() {
            let _ = writeln!(std::io::stderr(), "{}", Sanitized::new(line));
        }
        ExitCode::from(2)
    })
}

/// Starts the threads that operators compute on.
fn compute(workers: Option<NonZeroUsize>) -> anyhow::Result<Compute> {
    let workers = workers.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    rayon::ThreadPoolBuilder::new()
        .num_threads(workers)
        .build_global()
        .with_context(|| format!("{workers} threads to compute on could not be started"))?;
    Ok(Compute { cpu: Cpu::detect(), workers })
}

fn open_console(arguments: &ConsoleArguments) -> anyhow::Result<ExitCode> {
    let options = engine_options(&arguments.host, None)?;
    let mut look = ConsoleOptions::from_environment();
    look.pace = arguments.pace.0;
    look.mouse = !arguments.no_mouse;
    look.ascii |= arguments.ascii;
    if let Some(theme) = arguments.theme {
        look.theme = theme.into();
    }
    // All is checked before the screen is taken, so that what is wrong can be said plainly.
    let checkpoint = load(&arguments.host)?;
    options.check(&checkpoint)?;
    let (events, commands) = engine::spawn(checkpoint, options, arguments.pace.0)?;
    match console::run(TargetHandle { events, commands }, look) {
        Ok(exit) => Ok(ExitCode::from(exit.code())),
        Err(error) => {
            writeln!(std::io::stderr(), "coalmine: {error}")?;
            Ok(ExitCode::from(error.code()))
        }
    }
}

fn load(arguments: &HostArguments) -> anyhow::Result<Checkpoint> {
    Ok(match &arguments.model {
        None => demo_checkpoint()?,
        Some(directory) => Checkpoint::open(directory)?,
    })
}

fn engine_options(arguments: &HostArguments, sessions: Option<u64>) -> anyhow::Result<EngineOptions> {
    let mut toggles = Toggles::default();
    for assignment in &arguments.assignments {
        let assignment = ToggleAssignment::parse(assignment)?;
        toggles.set(assignment.name, assignment.value)?;
    }
    let model = arguments.model.as_ref().map_or(DEMO_MODEL.to_owned(), |directory| directory.display().to_string());
    let mut profile = CostProfile::h200();
    if let Some(margin) = arguments.margin_us {
        profile.incident_margin_us = margin;
    }
    Ok(EngineOptions {
        model,
        concurrency: arguments.concurrency,
        sessions,
        turns: arguments.turns,
        seed: arguments.seed,
        toggles,
        oracle: !arguments.no_oracle,
        overlap_rows: OVERLAP_ROWS,
        profile,
        served: ServedShape::FLASH,
        costs: arguments.costs.clone(),
        compute: compute(arguments.workers)?,
    })
}

fn play_macro(arguments: &RunArguments, file: &str) -> anyhow::Result<ExitCode> {
    let script = macro_run::load_macro(file)?;
    let options = engine_options(&arguments.host, arguments.sessions)?;
    let checkpoint = load(&arguments.host)?;
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

fn run_sessions(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    if let Some(file) = &arguments.play.file {
        return play_macro(arguments, file);
    }
    let play = &arguments.play;
    if play.report_junit.is_some() || play.report_json.is_some() || play.allow_mutations {
        // The parser waives `requires` where the required option conflicts with another one given.
        anyhow::bail!("`--report-junit`, `--report-json` and `--allow-mutations` need `--macro FILE`.");
    }
    let options = engine_options(&arguments.host, Some(arguments.sessions.unwrap_or(80)))?;
    let checkpoint = load(&arguments.host)?;
    let stderr = std::io::stderr();
    let progress_line = stderr.is_terminal();
    let mut writer = arguments.record.as_deref().map(|path| record(path, &options)).transpose()?;
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
fn record(path: &std::path::Path, options: &EngineOptions) -> anyhow::Result<RecordingWriter> {
    let command_line = std::env::args().collect::<Vec<_>>().join(" ");
    let manifest = manifest_of(&command_line, options, Redaction::None);
    Ok(RecordingWriter::create(path, manifest)?)
}

fn export_recording(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    let (recording, recovery) = Recording::open(&arguments.recording)?;
    if recovery.truncated {
        let what = format!("{} steps and {} events are left of it", recovery.steps, recovery.events);
        writeln!(std::io::stderr(), "coalmine: The recording was cut off: {what}.")?;
    }
    let out: Box<dyn Write> = match &arguments.output {
        None => Box::new(std::io::stdout().lock()),
        Some(path) => {
            Box::new(std::fs::File::create(path).with_context(|| format!("{} cannot be written", path.display()))?)
        }
    };
    let mut out = std::io::BufWriter::new(out);
    match arguments.form {
        ExportForm::Perfetto => export::perfetto(&recording, &mut out)?,
        ExportForm::Json => export::json(&recording, &mut out)?,
        ExportForm::Steps => export::csv(&recording, export::Table::Steps, &mut out)?,
        ExportForm::Sessions => export::csv(&recording, export::Table::Sessions, &mut out)?,
        ExportForm::Spans => export::csv(&recording, export::Table::Spans, &mut out)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn list_toggles() -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    for toggle in &TOGGLES {
        let values =
            if toggle.values.is_empty() { "nanoseconds (also 3us)".to_owned() } else { toggle.values.join(", ") };
        writeln!(out, "{}", toggle.long)?;
        if !toggle.aliases.is_empty() {
            writeln!(out, "    also     {}", toggle.aliases.join(", "))?;
        }
        writeln!(out, "    values   {values}; default {}", toggle.show(toggle.default))?;
        writeln!(out, "    effect   {}", toggle.takes_effect.describe())?;
        writeln!(out, "    {}", toggle.doc)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn verify_model(directory: &std::path::Path, format: Format) -> anyhow::Result<ExitCode> {
    let result = verify_directory(directory, compute(None)?)?;
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
        result.prefill_largest_difference,
        result.decode_largest_difference,
        crate::engine::LOGIT_TOLERANCE
    )?;
    writeln!(
        out,
        "index selections     {} agree, {} differ, {} differ but are too close to decide",
        result.selections_agreeing, result.selections_differing, result.selections_undecided
    )?;
    writeln!(out, "{}", if result.within_tolerance { "within tolerance" } else { "OUTSIDE TOLERANCE" })
}
