//! `coalmine` and `coalmine replay`: the console.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use coalmine_panes::ThemeName;
use coalmine_sessions::recording::{Recovery, Redaction};

use super::command_line;
use super::host::HostArguments;
use super::log_file::LogArguments;
use super::progress::while_doing;
use crate::config::{self, Config};
use crate::console::{self, Arrangement, ConsoleOptions, Target};
use crate::engine;
use crate::macro_run::load_macro;
use crate::paths::Paths;
use crate::playback::ReplayHandle;

#[derive(Debug, Args)]
pub(super) struct ConsoleArguments {
    /// Decode steps a second, or `max`: sessions arrive until you quit, at a pace that you can follow.
    #[arg(long, default_value = "20", value_parser = parse_pace)]
    pace: Pace,
    /// Records what the engine says: an MCAP file that `coalmine replay` and Foxglove open.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Keeps hashes in place of what sessions and the log say, in this and every recording of this console.
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    look: LookArguments,
    #[command(flatten)]
    host: HostArguments,
}

#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// A recording made with `coalmine --record FILE`, `:record` or `coalmine run --record FILE`.
    recording: PathBuf,
    /// The step to begin at.
    #[arg(long, value_name = "STEP")]
    step: Option<u64>,
    #[command(flatten)]
    look: LookArguments,
}

/// What every console takes.
#[derive(Debug, Args)]
pub(super) struct LookArguments {
    /// Colours; by default what `NO_COLOR`, `TERM` and `COLORFGBG` suggest.
    #[arg(long, value_enum)]
    theme: Option<ThemeChoice>,
    /// Draws with ASCII characters only.
    #[arg(long)]
    ascii: bool,
    /// Leaves the mouse to the terminal.
    #[arg(long)]
    no_mouse: bool,
    /// A configuration file instead of the usual one; see `coalmine config`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Plays a macro from the start: a file, or a shipped one such as `coalmine:tour`.
    #[arg(long = "macro", value_name = "FILE")]
    play: Option<String>,
    /// Lets macros change a live target without asking. The embedded engine may always be changed.
    #[arg(long)]
    allow_mutations: bool,
    #[command(flatten)]
    log: LogArguments,
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

/// Reads the configuration: the named file, which must exist, or the user's own, which need not.
pub(super) fn read_config(named: Option<&Path>, paths: &Paths) -> anyhow::Result<Config> {
    if let Some(named) = named {
        std::fs::metadata(named).with_context(|| format!("{} cannot be read", named.display()))?;
    }
    Ok(config::load(named.unwrap_or(&paths.config))?)
}

impl LookArguments {
    /// What the console is to look like: the arguments before the configuration, and that before the environment.
    fn options(&self, paths: &Paths, target: &str) -> anyhow::Result<ConsoleOptions> {
        let config = read_config(self.config.as_deref(), paths)?;
        let mut options = ConsoleOptions::from_environment();
        options.theme = self.theme.map(ThemeName::from).or(config.theme).unwrap_or(options.theme);
        options.ascii = self.ascii || config.ascii.unwrap_or(options.ascii);
        options.mouse = !self.no_mouse && config.mouse.unwrap_or(options.mouse);
        options.frames_per_second = config.frames_per_second.unwrap_or(options.frames_per_second);
        options.keymap = config.keymap;
        options.recordings = config.recordings.unwrap_or_else(|| paths.recordings.clone());
        options.redaction = config.redaction;
        options.recorded_macro = paths.recorded_macro.clone();
        options.arrangement = Arrangement::load(&paths.arrangement(target)).unwrap_or_default();
        options.allow_mutations = self.allow_mutations;
        options.command_line = command_line();
        options.play = self.play.as_deref().map(load_macro).transpose()?;
        Ok(options)
    }
}

/// Opens the console on an engine of our own.
pub(super) fn open_console(arguments: &ConsoleArguments) -> anyhow::Result<ExitCode> {
    let paths = Paths::of_user();
    let target = arguments.host.target();
    let mut options = arguments.look.options(&paths, &target)?;
    options.pace = arguments.pace.0;
    options.record = arguments.record.clone();
    if arguments.redact {
        options.redaction = Redaction::Hashes;
    }
    if let Some(path) = &arguments.record {
        anyhow::ensure!(!path.exists(), "{} exists already, and a recording never replaces a file.", path.display());
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        if let Some(directory) = directory {
            anyhow::ensure!(directory.is_dir(), "{} is no directory to record into.", directory.display());
        }
    }
    arguments.look.log.open()?;
    let host = arguments.host.engine_options(None)?;
    // All is checked before the screen is taken, so that what is wrong can be said plainly.
    let checkpoint = while_doing("Loading the model", || arguments.host.load())?;
    host.check(&checkpoint)?;
    if let Err(error) = console::require_terminal() {
        return refuse(&error);
    }
    let (events, commands) = engine::spawn(checkpoint, host, arguments.pace.0)?;
    show(Target::Live { events, commands, ask_first: false }, options, &paths.arrangement(&target))
}

/// Opens the console on a recording.
pub(super) fn open_replay(arguments: &ReplayArguments) -> anyhow::Result<ExitCode> {
    let paths = Paths::of_user();
    let target = "recordings";
    let options = arguments.look.options(&paths, target)?;
    arguments.look.log.open()?;
    let (handle, recovery, _) = while_doing("Reading the recording", || ReplayHandle::open(&arguments.recording))?;
    if let Err(error) = console::require_terminal() {
        return refuse(&error);
    }
    let mut options = options;
    options.notice = cut_off(&recovery);
    if let Some(step) = arguments.step {
        handle.ask(crate::playback::ReplayRequest::Step(step));
    }
    show(Target::Replay(handle), options, &paths.arrangement(target))
}

/// What is left of a recording that was cut off, in a sentence.
pub(super) fn cut_off(recovery: &Recovery) -> Option<String> {
    let Recovery { steps, events, lost_tail_bytes, .. } = recovery;
    recovery.truncated.then(|| {
        format!(
            "The recording was cut off: {steps} steps and {events} events are left, and of its last {lost_tail_bytes} \
             bytes nothing could be made."
        )
    })
}

fn show(target: Target, options: ConsoleOptions, arrangement: &Path) -> anyhow::Result<ExitCode> {
    let before = options.arrangement;
    match console::run(target, options) {
        Ok((exit, after)) => {
            // Only a comfort: the next time the panes stand as they do at first.
            if after != before
                && let Err(error) = after.store(arrangement)
            {
                tracing::warn!(%error, "the arrangement of the panes could not be stored");
            }
            Ok(ExitCode::from(exit.code()))
        }
        Err(error) => refuse(&error),
    }
}

fn refuse(error: &console::ConsoleError) -> anyhow::Result<ExitCode> {
    writeln!(std::io::stderr(), "coalmine: {error}")?;
    Ok(ExitCode::from(error.code()))
}
