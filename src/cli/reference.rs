//! What can be looked up: commands with their keys, toggles, the manual page. All of it comes from the registries.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use coalmine_sessions::{Danger, TOGGLES};

use super::console::read_config;
use super::print;
use crate::console::{Keymap, Row};
use crate::paths::Paths;

#[derive(Debug, Args)]
pub(super) struct KeysArguments {
    /// How to print them.
    #[arg(long, value_enum, default_value_t = KeysFormat::Text)]
    format: KeysFormat,
    /// The keys of a configuration file instead of the usual one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The default keys, whatever the configuration says.
    #[arg(long, conflicts_with = "config")]
    defaults: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KeysFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// `docs/commands.md`.
    Markdown,
}

/// Lists every command with its keys.
pub(super) fn list_keys(arguments: &KeysArguments) -> anyhow::Result<ExitCode> {
    let keymap = match arguments.defaults {
        true => Keymap::default(),
        false => read_config(arguments.config.as_deref(), &Paths::of_user())?.keymap,
    };
    print(&match arguments.format {
        KeysFormat::Text => text(&keymap),
        KeysFormat::Json => json(&keymap)?,
        KeysFormat::Markdown => markdown(&keymap),
    })
}

fn text(keymap: &Keymap) -> String {
    let mut out = String::new();
    for Row { line, keys, bound, command } in keymap.rows() {
        let scope = match command.scope.name() {
            "" => String::new(),
            pane => format!(" ({pane})"),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(out, "{:<22} {line:<28} {}{scope}", keys.join(" or "), bound.doc());
    }
    out
}

fn json(keymap: &Keymap) -> anyhow::Result<String> {
    let rows: Vec<_> = keymap
        .rows()
        .into_iter()
        .map(|Row { line, keys, bound, command }| {
            serde_json::json!({
                "command": command.name,
                "line": line,
                "keys": keys,
                "pane": command.scope.name(),
                "danger": danger(command.danger),
                "doc": bound.doc(),
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&rows)? + "\n")
}

fn danger(danger: Danger) -> &'static str {
    match danger {
        Danger::Read => "read",
        Danger::Local => "local",
        Danger::MutatesTarget => "mutates-target",
    }
}

/// The text of `docs/commands.md`.
fn markdown(keymap: &Keymap) -> String {
    let mut out = "# Commands\n\nEvery command works on the `:` line, in the palette (Ctrl-p), in macros and as what keys stand for in \
                   `config.toml`. This page is written by `coalmine keys --defaults --format markdown`; a test fails when \
                   it is not up to date.\n\n| command | keys | where | what it does |\n|---|---|---|---|\n"
        .to_owned();
    let code = |text: &str| format!("`{}`", text.replace('|', "\\|"));
    for Row { line, keys, bound, command } in keymap.rows() {
        let keys: Vec<_> = keys.iter().map(|keys| code(keys)).collect();
        let target = if command.danger == Danger::MutatesTarget { " *Changes the target.*" } else { "" };
        let place = command.scope.name();
        let _ = writeln!(out, "| {} | {} | {place} | {}{target} |", code(&line), keys.join(" "), bound.doc());
    }
    out
}

/// The manual page: what `--help` says, then every command of the console with its default keys.
pub(super) fn manual(command: clap::Command) -> anyhow::Result<String> {
    let mut page = Vec::new();
    let man = Man::new(command.clone());
    man.render(&mut page)?;
    let mut more = Roff::new();
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        more.control("SH", [format!("COALMINE {}", verb.get_name().to_uppercase()).as_str()]);
        if let Some(about) = verb.get_about() {
            more.text([roman(about.to_string())]);
        }
        for argument in verb.get_arguments() {
            let Some(help) = argument.get_help() else { continue };
            let name = match (argument.get_long(), argument.get_value_names()) {
                (Some(long), _) => format!("--{long}"),
                (None, Some(names)) => names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" "),
                (None, None) => argument.get_id().to_string(),
            };
            more.control("TP", []);
            more.text([bold(name)]);
            more.text([roman(help.to_string())]);
        }
    }
    more.control("SH", ["COMMANDS OF THE CONSOLE"]);
    more.text([roman("With their default keys. They work on the command line (:), in the palette, and in macros.")]);
    for Row { line, keys, bound, .. } in Keymap::default().rows() {
        more.control("TP", []);
        let keys = if keys.is_empty() { String::new() } else { format!("   ({})", keys.join(" or ")) };
        more.text([bold(line), roman(keys)]);
        more.text([roman(bound.doc())]);
    }
    page.write_all(more.render().as_bytes())?;
    Ok(String::from_utf8(page)?)
}

/// Lists every toggle.
pub(super) fn list_toggles() -> anyhow::Result<ExitCode> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::COMMANDS;

    #[test]
    fn the_page_of_commands_is_up_to_date() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md")).unwrap();
        let now = markdown(&Keymap::default());
        assert!(page == now, "run `coalmine keys --defaults --format markdown > docs/commands.md`");
    }

    #[test]
    fn every_command_is_in_every_reference() {
        let keymap = Keymap::default();
        let manual = manual(<super::super::Arguments as clap::CommandFactory>::command()).unwrap().replace('\\', "");
        for command in COMMANDS {
            for reference in [text(&keymap), json(&keymap).unwrap(), markdown(&keymap), manual.clone()] {
                assert!(reference.contains(command.name), "{}", command.name);
            }
        }
        // Every binding stands somewhere.
        let listed: usize = keymap.rows().iter().map(|row| row.keys.len()).sum();
        assert_eq!(listed, keymap.bindings().len());
    }
}
