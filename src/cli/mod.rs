//! Arguments and exit codes: 0 done, 1 a check did not hold, 2 bad input.

mod console;
mod doctor;
mod export;
mod host;
mod log_file;
mod model;
mod progress;
mod recordings;
mod reference;
mod run;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use coalmine_sessions::Sanitized;

use console::{ConsoleArguments, ReplayArguments};
use export::ExportArguments;
use model::ModelVerb;
use recordings::RecordingsArguments;
use run::RunArguments;

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

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs agent sessions, or a macro, without a console and reports how many were corrupted.
    Run(Box<RunArguments>),
    /// Opens a recording in the console, to go back and forth in it.
    Replay(Box<ReplayArguments>),
    /// Lists the recordings of a directory.
    Recordings(RecordingsArguments),
    /// Writes what a recording holds in a form that other programs read.
    Export(ExportArguments),
    /// Lists every command of the console with its keys.
    Keys(reference::KeysArguments),
    /// Lists every toggle: names, values, default, and when a change takes effect.
    Toggles,
    /// Looks at model directories.
    #[command(subcommand, arg_required_else_help = false)]
    Model(ModelVerb),
    /// Says what it finds here: paths, terminal, colours, processor, GPU, and what each backend would do.
    Doctor(doctor::DoctorArguments),
    /// Prints the documented example of a configuration file.
    Config,
    /// Prints a script that completes the command line in a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Prints the manual page.
    Man,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
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
        None => console::open_console(&arguments.console),
        Some(Verb::Run(arguments)) => run::run_sessions(&arguments),
        Some(Verb::Replay(arguments)) => console::open_replay(&arguments),
        Some(Verb::Recordings(arguments)) => recordings::list_recordings(&arguments),
        Some(Verb::Export(arguments)) => export::export_recording(&arguments),
        Some(Verb::Keys(arguments)) => reference::list_keys(&arguments),
        Some(Verb::Toggles) => reference::list_toggles(),
        Some(Verb::Model(ModelVerb::Verify { directory, format })) => model::verify_model(&directory, format),
        Some(Verb::Doctor(arguments)) => doctor::examine(&arguments),
        Some(Verb::Config) => print(crate::config::EXAMPLE),
        Some(Verb::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "coalmine", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Some(Verb::Man) => reference::manual(Arguments::command()).and_then(|page| print(&page)),
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

fn print(text: &str) -> anyhow::Result<ExitCode> {
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The command line of this process, as recordings keep it.
fn command_line() -> String {
    let arguments: Vec<_> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    arguments.join(" ")
}
