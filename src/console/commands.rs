//! The one registry of commands: keys, the `:` line, the palette, macros, the help and the docs come from it.

use coalmine_panes::{Input, PaneId, ThemeName};
use coalmine_sessions::{
    Danger,
    macros::{ArgumentProblem, KnownCommand, VERBS},
};

use super::{
    Exit,
    app::Request,
    command::{Action, ConsoleCommand, Handler, Kind, Parameter, Place, Scope, Value},
    layout::Resize,
    source::Move,
};

const fn required(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, optional: false }
}

const fn optional(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, optional: true }
}

/// A command that changes only this console.
const fn local(
    name: &'static str,
    parameters: &'static [Parameter],
    doc: &'static str,
    handler: Handler,
) -> ConsoleCommand {
    let action = Action::Console(handler);
    ConsoleCommand { name, parameters, doc, action, danger: Danger::Local, scope: Scope::Everywhere }
}

/// A command that changes the target.
const fn mutates(
    name: &'static str,
    parameters: &'static [Parameter],
    doc: &'static str,
    handler: Handler,
) -> ConsoleCommand {
    ConsoleCommand { danger: Danger::MutatesTarget, ..local(name, parameters, doc, handler) }
}

/// A command of one pane.
const fn within(pane: PaneId, name: &'static str, doc: &'static str, handler: Handler) -> ConsoleCommand {
    ConsoleCommand { scope: Scope::Pane(pane), ..local(name, &[], doc, handler) }
}

/// A line of the macro language, which means the same here.
const fn line(
    name: &'static str,
    parameters: &'static [Parameter],
    danger: Danger,
    doc: &'static str,
) -> ConsoleCommand {
    ConsoleCommand { name, parameters, doc, action: Action::Line, danger, scope: Scope::Everywhere }
}

const DIRECTIONS: &[&str] = &["left", "right", "up", "down"];
const SIZES: &[&str] = &["wider", "narrower", "taller", "shorter", "reset"];
const THEMES: &[&str] = &["dark", "light", "mono"];

fn choice(values: &[Value]) -> &'static str {
    match values.first() {
        Some(Value::Choice(word)) => word,
        _ => "",
    }
}

fn text(values: &[Value]) -> Option<&str> {
    match values.first() {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

macro_rules! input {
    ($input:ident) => {
        |app, _| {
            app.input(Input::$input);
            Ok(())
        }
    };
}

/// Every command, in the order of the help.
#[rustfmt::skip]
pub const COMMANDS: &[ConsoleCommand] = &[
    // The focused pane's own.
    within(PaneId::Sessions, "sort.next", "Sorts the sessions by the next column.", input!(Sort)),
    within(PaneId::Sessions, "sort.invert", "Turns the order of the sessions round.", input!(SortInvert)),
    within(PaneId::Canary, "last-write", "Goes back to the step that last wrote the selected page.",
        |app, _| app.last_write()),
    within(PaneId::Timeline, "span.previous", "Goes to the span before on this lane.", input!(PreviousSpan)),
    within(PaneId::Timeline, "span.next", "Goes to the next span on this lane.", input!(NextSpan)),
    within(PaneId::Timeline, "time.zoom-in", "Magnifies time around the cursor.", input!(ZoomIn)),
    within(PaneId::Timeline, "time.zoom-out", "Shows more time around the cursor.", input!(ZoomOut)),
    within(PaneId::Timeline, "time.earlier", "Moves the view to earlier times.", input!(PanLeft)),
    within(PaneId::Timeline, "time.later", "Moves the view to later times.", input!(PanRight)),
    within(PaneId::Timeline, "time.fit", "Shows the whole step.", input!(Fit)),
    ConsoleCommand {
        danger: Danger::MutatesTarget,
        ..within(PaneId::Toggles, "toggle.next", "Gives the selected toggle its next value.", input!(Cycle))
    },

    // The target.
    line("toggle", &[required("TOGGLE", Kind::Toggle)], Danger::MutatesTarget, "Gives a toggle its next value."),
    line("set", &[required("TOGGLE", Kind::Toggle), required("VALUE", Kind::ToggleValue)], Danger::MutatesTarget,
        "Gives a toggle a value."),
    mutates("hold.switch", &[], "Holds the engine at a step boundary, or lets it run.", |app, _| app.switch_hold()),
    line("hold", &[], Danger::MutatesTarget, "Holds the engine at the next step boundary."),
    line("run", &[], Danger::MutatesTarget, "Lets a held engine run."),
    line("step", &[optional("COUNT", Kind::Steps)], Danger::MutatesTarget, "Runs one step, or so many, then holds."),
    line("pace", &[required("PACE", Kind::Pace)], Danger::MutatesTarget, "Sets the pace in steps a second, or `max`."),
    mutates("faster", &[], "Raises the pace; of a recording, the speed.", |app, _| app.change_pace(true)),
    mutates("slower", &[], "Lowers the pace; of a recording, the speed.", |app, _| app.change_pace(false)),

    // Time.
    local("freeze", &[], "Pins the view, never the collection; plays or pauses a recording.", |app, _| app.freeze()),
    local("now", &[], "Goes back to what the target says now.", |app, _| app.go(Move::To(Place::Now))),
    local("step.previous", &[], "Goes one step back in what is known.", |app, _| app.go(Move::Back)),
    local("step.next", &[], "Goes one step on in what is known.", |app, _| app.go(Move::Forward)),
    local("anomaly.previous", &[], "Goes back to a step with a flag, a divergence or a violation.",
        |app, _| app.go(Move::PreviousAnomaly)),
    local("anomaly.next", &[], "Goes on to a step with a flag, a divergence or a violation.",
        |app, _| app.go(Move::NextAnomaly)),
    local("goto", &[required("STEP", Kind::Place)], "Goes to a step, `first`, `last`, `corruption` or `now`.",
        |app, values| match values.first() {
            Some(Value::Place(place)) => app.go(Move::To(*place)),
            _ => Ok(()),
        }),
    local("goto.time", &[required("TIME", Kind::Time)], "Goes to a time on the target's clock, such as `1.5s`.",
        |app, values| match values.first() {
            Some(Value::Time(time)) => app.go(Move::Time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))),
            _ => Ok(()),
        }),
    local("speed", &[required("TIMES", Kind::Speed)], "Sets how fast a recording plays, from 0.1 to 100 times.",
        |app, values| match values.first() {
            Some(Value::Speed(speed)) => app.set_speed(*speed),
            _ => Ok(()),
        }),
    line("mark", &[required("NAME", Kind::Mark)], Danger::Local, "Names this step; from a key, by one letter."),
    local("goto.mark", &[required("NAME", Kind::Mark)], "Goes to a marked step; from a key, by one letter.",
        |app, values| app.goto_mark(text(values).unwrap_or_default())),
    local("marks", &[], "Lists the marks; enter goes to one.", |app, _| app.list_marks()),

    // This pane's rows.
    local("filter", &[optional("TEXT", Kind::Text)], "Shows only rows with this text; `!` inverts; without one, all.",
        |app, values| { app.filter(text(values).unwrap_or_default()); Ok(()) }),
    local("filter.type", &[], "Opens a line to type a filter for this pane's rows.",
        |app, _| { app.open_filter(); Ok(()) }),
    local("match.next", &[], "Goes to the next match.", input!(NextMatch)),
    local("match.previous", &[], "Goes to the match before.", input!(PreviousMatch)),
    local("copy", &[], "Copies the selected row to the clipboard (OSC 52).", |app, _| app.copy()),
    local("export", &[optional("FILE", Kind::File)], "Writes this pane's rows to a .csv, .json or .txt file.",
        |app, values| app.export(text(values))),
    line("snapshot", &[required("FILE", Kind::File)], Danger::Local, "Writes the screen to an .svg or .txt file."),

    // Recordings and macros.
    local("record", &[optional("FILE", Kind::File)], "Records what the target says to a file, from now on.",
        |app, values| app.record(text(values))),
    local("record.stop", &[], "Ends the recording.", |app, _| app.stop_recording()),
    line("play", &[required("MACRO", Kind::Macro)], Danger::Local, "Plays a macro: a file or a shipped one."),
    local("macro.record", &[], "Begins to record commands as a macro, or ends it and saves it.",
        |app, _| app.record_macro()),
    local("macro.play", &[], "Plays the macro that was recorded last.", |app, _| app.play_recorded_macro()),
    local("macro.save", &[required("FILE", Kind::File)], "Writes the macro that was recorded last to a file.",
        |app, values| app.save_macro(text(values).unwrap_or_default())),
    local("say", &[required("TEXT", Kind::Text)], "Shows a sentence; a macro's stays until it says another.",
        |app, values| { app.tell_sentence(text(values).unwrap_or_default()); Ok(()) }),
    line("keys", &[required("KEYS", Kind::Keys)], Danger::MutatesTarget, "Presses keys, such as `<C-u>gg`."),
    line("expect", &[required("CONDITION", Kind::Condition)], Danger::Read, "Says whether a condition holds now."),
    line("wait", &[required("CONDITION", Kind::Condition)], Danger::Read, "Lets the target run until a condition holds."),

    // Panes and screen.
    local("focus", &[required("PANE", Kind::Pane)], "Focuses a pane.", |app, values| match values.first() {
        Some(Value::Pane(pane)) => { app.set_focus(*pane); Ok(()) }
        _ => Ok(()),
    }),
    local("focus.next", &[], "Focuses the next pane.", |app, _| { app.focus_neighbour(1); Ok(()) }),
    local("focus.previous", &[], "Focuses the previous pane.",
        |app, _| { app.focus_neighbour(PaneId::ALL.len() - 1); Ok(()) }),
    local("focus.towards", &[required("DIRECTION", Kind::Choice(DIRECTIONS))], "Focuses the pane in a direction.",
        |app, values| { app.focus_towards(choice(values)); Ok(()) }),
    local("zoom", &[], "Gives the focused pane the whole screen, or takes it back.", |app, _| { app.zoom(); Ok(()) }),
    local("resize", &[required("HOW", Kind::Choice(SIZES))], "Makes the focused pane wider, narrower, taller or shorter.",
        |app, values| {
            app.resize(match choice(values) {
                "wider" => Resize::Wider,
                "narrower" => Resize::Narrower,
                "taller" => Resize::Taller,
                "shorter" => Resize::Shorter,
                _ => Resize::Reset,
            });
            Ok(())
        }),
    local("theme", &[required("THEME", Kind::Choice(THEMES))], "Changes the colours: dark, light or mono.",
        |app, values| {
            app.set_theme(ThemeName::named(choice(values)).unwrap_or_default());
            Ok(())
        }),
    local("drill", &[], "Drills into a session, pool, span or line; next value of a toggle.", input!(Enter)),
    local("back", &[], "Backs out one level: drill, filter, zoom, then to now.", |app, _| { app.back(); Ok(()) }),
    local("up", &[], "Goes up.", input!(Up)),
    local("down", &[], "Goes down.", input!(Down)),
    local("left", &[], "Goes left; in the toggles: previous value.", input!(Left)),
    local("right", &[], "Goes right; in the toggles: next value.", input!(Right)),
    local("first", &[], "Goes to the first.", input!(First)),
    local("last", &[], "Goes to the last.", input!(Last)),
    local("page-up", &[], "Goes one page up.", input!(PageUp)),
    local("page-down", &[], "Goes one page down.", input!(PageDown)),
    local("half-page-up", &[], "Goes half a page up.", input!(HalfUp)),
    local("half-page-down", &[], "Goes half a page down.", input!(HalfDown)),
    local("repaint", &[], "Draws every cell anew.", |app, _| { app.ask(Request::Repaint); Ok(()) }),
    local("suspend", &[], "Hands the terminal back to the shell until `fg`.",
        |app, _| { app.ask(Request::Suspend); Ok(()) }),
    local("prompt", &[], "Opens the command line; tab completes.", |app, _| { app.open_prompt(); Ok(()) }),
    local("palette", &[], "Finds a command by a few of its letters.", |app, _| { app.open_palette(); Ok(()) }),
    local("help", &[], "Shows every command with its keys; type to filter, enter runs one.",
        |app, _| { app.open_help(); Ok(()) }),
    local("debug.panic", &[], "Panics inside the focused pane, to see the terminal handed back.",
        |app, _| { app.panic_on_draw(); Ok(()) }),
    local("quit", &[], "Ends the console.",
        |app, _| { app.ask(Request::Exit(Exit::Quit)); Ok(()) }),
];

/// The command of a name.
pub(super) fn command_named(name: &str) -> Option<&'static ConsoleCommand> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// The commands that lines of a macro can name beside the language's own verbs, and what checks their arguments.
pub fn known_commands() -> Vec<KnownCommand<'static>> {
    let named = COMMANDS.iter().filter(|command| !VERBS.contains(&command.name));
    named.map(|command| KnownCommand { name: command.name, danger: command.danger, check: &check }).collect()
}

/// Checks the arguments of a command.
fn check(name: &str, arguments: &[String]) -> Result<(), ArgumentProblem> {
    let Some(command) = command_named(name) else { return Ok(()) };
    command.parse(arguments).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_docs_are_sentences() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert!(command.doc.ends_with('.'), "{}", command.name);
            // What the help has room for beside a name, at its full width.
            assert!(command.doc.len() <= 72, "{}: {}", command.name, command.doc.len());
            assert_eq!(COMMANDS.iter().position(|other| other.name == command.name), Some(index), "{}", command.name);
        }
    }

    #[test]
    fn every_verb_of_the_macro_language_is_a_command_and_no_other_line_is() {
        for verb in VERBS {
            assert!(command_named(verb).is_some(), "{verb}");
        }
        for command in COMMANDS {
            assert_eq!(matches!(command.action, Action::Line), VERBS.contains(&command.name), "{}", command.name);
        }
    }

    #[test]
    fn parameters_that_may_be_left_out_come_last() {
        for command in COMMANDS {
            let optional: Vec<_> = command.parameters.iter().map(|parameter| parameter.optional).collect();
            assert!(optional.is_sorted(), "{}", command.name);
        }
    }
}
