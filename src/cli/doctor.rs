//! `coalmine doctor`: what it finds here, so that a report of a bug can say it.

use std::env;
use std::fmt::Write as _;
use std::io::{IsTerminal, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use coalmine_kernels::math::Cpu;
use coalmine_sessions::Sanitized;

use super::{Format, print};
use crate::config;
use crate::console::ConsoleOptions;
use crate::paths::Paths;

#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// One thing that was looked at.
#[derive(Debug, serde::Serialize)]
struct Finding {
    /// What it is about.
    topic: &'static str,
    name: &'static str,
    found: String,
    /// Whether something has to be done about it.
    wrong: bool,
}

/// Looks around. Exits with 1 when something has to be done.
pub(super) fn examine(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let findings = examine_all(&Paths::of_user());
    let wrong = findings.iter().any(|finding| finding.wrong);
    match arguments.format {
        Format::Json => print(&(serde_json::to_string_pretty(&findings)? + "\n"))?,
        Format::Text => print(&text(&findings))?,
    };
    Ok(if wrong { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    let mut topic = "";
    for finding in findings {
        if finding.topic != topic {
            topic = finding.topic;
            // Writing into a string cannot fail.
            let _ = writeln!(out, "{topic}");
        }
        let mark = if finding.wrong { "!" } else { " " };
        let mut lines = finding.found.lines();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(out, "{mark} {:<18} {first}", finding.name);
        for line in lines {
            let _ = writeln!(out, "{:20} {}", "", line);
        }
    }
    out
}

fn examine_all(paths: &Paths) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |topic: &'static str, name: &'static str, found: String, wrong: bool| {
        // Paths may hold anything.
        let found: Vec<_> = found.lines().map(|line| Sanitized::new(line).to_string()).collect();
        let found = found.join("\n");
        findings.push(Finding { topic, name, found, wrong });
    };
    find("Coalmine", "version", env!("CARGO_PKG_VERSION").to_owned(), false);
    find("Coalmine", "platform", format!("{} {}", env::consts::OS, env::consts::ARCH), false);

    let (config, wrong) = match (paths.config.exists(), config::load(&paths.config)) {
        (false, _) => ("there is none; `coalmine config` prints an example".to_owned(), false),
        (true, Ok(config)) => (format!("read; {} bindings", config.keymap.bindings().len()), false),
        (true, Err(errors)) => (errors.to_string(), true),
    };
    find("Paths", "configuration", format!("{}\n{config}", paths.config.display()), wrong);
    for (name, path) in
        [("recordings", &paths.recordings), ("recorded macro", &paths.recorded_macro), ("panes", &paths.arrangements)]
    {
        let (state, wrong) = writable(path);
        find("Paths", name, format!("{}\n{state}", path.display()), wrong);
    }

    let both = (stdin().is_terminal(), stdout().is_terminal());
    let terminal = match both {
        (true, true) => "standard input and output are a terminal",
        (false, _) => "standard input is none: the console cannot open here, `coalmine run` can",
        (true, false) => "standard output is none: the console cannot open here, `coalmine run` can",
    };
    find("Terminal", "terminal", terminal.to_owned(), false);
    if stdout().is_terminal()
        && let Ok((columns, rows)) = crossterm::terminal::size()
    {
        let small = columns < 60 || rows < 15;
        let enough = if small { "; the console needs 60x15" } else { "" };
        find("Terminal", "size", format!("{columns}x{rows}{enough}"), small);
    }
    let options = ConsoleOptions::from_environment();
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| "not set".to_owned());
    find("Terminal", "TERM", variable("TERM"), false);
    find("Terminal", "NO_COLOR", variable("NO_COLOR"), false);
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| env::var(name).ok());
    find("Terminal", "locale", locale.unwrap_or_else(|| "not set".to_owned()), false);
    let glyphs = if options.ascii { "ASCII" } else { "Unicode" };
    find("Terminal", "look", format!("{} theme, {glyphs}", options.theme.name()), false);
    for (name, program) in [("TMUX", "tmux"), ("STY", "screen"), ("SSH_CONNECTION", "ssh")] {
        if env::var_os(name).is_some() {
            find("Terminal", "inside of", program.to_owned(), false);
        }
    }

    let cores = std::thread::available_parallelism().map_or_else(|_| "unknown".to_owned(), |cores| cores.to_string());
    find("Backends", "processor", format!("{cores} cores, numerics as {}", Cpu::detect().level()), false);
    find("Backends", "virtual GPU", "runs anywhere: this version uses it for every embedded engine".to_owned(), false);
    find("Backends", "CUDA", cuda(), false);
    findings
}

/// Whether files can be made below a directory, as far as its nearest existing ancestor tells.
fn writable(path: &Path) -> (String, bool) {
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    match existing.map(|ancestor| (ancestor, rustix::fs::access(ancestor, rustix::fs::Access::WRITE_OK))) {
        Some((ancestor, Ok(()))) if ancestor == path => ("exists, can be written".to_owned(), false),
        Some((_, Ok(()))) => ("does not exist yet, can be made".to_owned(), false),
        Some((ancestor, Err(error))) => (format!("cannot be written: {}: {error}", ancestor.display()), true),
        None => ("cannot be made".to_owned(), true),
    }
}

/// What there is of a GPU, and what this version would do with it.
fn cuda() -> String {
    let driver = std::fs::read_to_string("/proc/driver/nvidia/version").ok();
    let driver = driver.as_deref().and_then(|text| text.lines().next()).map_or("no NVIDIA driver", str::trim);
    let mut found = format!("not used by this version, which has the virtual GPU only\n{driver}");
    for library in ["libcuda.so.1", "libnvrtc.so", "libcublasLt.so", "libcupti.so"] {
        let place = library_paths().into_iter().find_map(|directory| first_with_prefix(&directory, library));
        let place = place.map_or_else(|| "not found".to_owned(), |place| place.display().to_string());
        // Writing into a string cannot fail.
        let _ = write!(found, "\n{library}: {place}");
    }
    found
}

/// Where GPU libraries usually lie.
fn library_paths() -> Vec<PathBuf> {
    let named = env::var_os("LD_LIBRARY_PATH");
    let named = named.iter().flat_map(env::split_paths);
    let usual = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/local/cuda/lib64",
        "/usr/local/cuda/extras/CUPTI/lib64",
        "/usr/local/nvidia/lib64",
    ];
    named.chain(usual.map(PathBuf::from)).collect()
}

fn first_with_prefix(directory: &Path, prefix: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let mut names = entries.filter_map(|entry| Some(entry.ok()?.path()));
    names.find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_marked_and_the_rest_is_not() {
        let findings = [
            Finding { topic: "Paths", name: "configuration", found: "a\nb".to_owned(), wrong: true },
            Finding { topic: "Terminal", name: "TERM", found: "xterm".to_owned(), wrong: false },
        ];
        let text = text(&findings);
        assert_eq!(
            text,
            "Paths\n! configuration      a\n                     b\nTerminal\n  TERM               xterm\n"
        );
    }

    #[test]
    fn every_path_and_backend_is_named() {
        let findings = examine_all(&Paths::of_user());
        for name in ["configuration", "recordings", "terminal", "virtual GPU", "CUDA"] {
            assert!(findings.iter().any(|finding| finding.name == name), "{name}");
        }
    }
}
