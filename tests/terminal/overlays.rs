//! What lies over the panes: opened, used, closed.

use crate::terminal::Terminal;

const CONTROL_P: &str = "\x10";
const CONTROL_C: &str = "\x03";
const ESCAPE: &str = "\x1b";

/// A console whose engine has run a few steps.
fn running() -> Terminal {
    let mut terminal = Terminal::open(120, 40, &[]);
    terminal.shows(&["━ 1 Overview ", "running"]);
    terminal
}

fn quit(mut terminal: Terminal) {
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

#[test]
fn the_help_lists_filters_and_runs_commands() {
    let mut terminal = running();
    terminal.keys("?");
    terminal.shows(&["Help", "type to filter", "hold.switch"]);
    terminal.keys("focus canary");
    terminal.hides("hold.switch");
    terminal.keys("\r");
    terminal.shows(&["━ 3 Canary "]);
    terminal.hides("Help");
    // What a pane can do comes first.
    terminal.keys("?");
    terminal.shows(&["Help", "last-write"]);
    terminal.keys("zoom");
    terminal.hides("last-write");
    terminal.keys(ESCAPE);
    terminal.shows(&["last-write"]);
    terminal.keys("?");
    terminal.hides("Help");
    quit(terminal);
}

#[test]
fn the_palette_finds_a_command_by_a_few_letters() {
    let mut terminal = running();
    terminal.keys(CONTROL_P);
    terminal.shows(&["Commands", "type to filter"]);
    terminal.keys("fcstmln");
    terminal.shows(&["focus timeline"]);
    terminal.hides("hold.switch");
    terminal.keys("\r");
    terminal.shows(&["━ 4 Timeline "]);
    // A command that lacks an argument asks for it.
    terminal.keys(CONTROL_P);
    terminal.shows(&["Commands"]);
    terminal.keys("goto.time");
    terminal.hides("hold.switch");
    terminal.keys("\r");
    terminal.last_line_shows(":goto.time ");
    terminal.keys(CONTROL_C);
    terminal.last_line_shows("q quit");
    terminal.keys(CONTROL_P);
    terminal.shows(&["Commands"]);
    terminal.keys(ESCAPE);
    terminal.hides("Commands");
    quit(terminal);
}

#[test]
fn the_command_line_completes_refuses_and_remembers() {
    let mut terminal = running();
    terminal.keys(":foc");
    terminal.shows(&[":foc", "focus.next", "focus.towards"]);
    terminal.keys("\t can\t");
    terminal.last_line_shows(":focus canary");
    terminal.keys("\r");
    terminal.shows(&["━ 3 Canary "]);

    terminal.keys(":set overlap maybe\r");
    terminal.shows(&[":set overlap maybe", "0, 1"]);
    // It can be mended where it stands.
    terminal.keys("\x17off\r");
    terminal.shows(&["overlap = 0 from step"]);

    terminal.keys(":nonsense\r");
    terminal.shows(&[":nonsense", "There is no command `nonsense`"]);
    terminal.keys(CONTROL_C);
    terminal.hides(":nonsense");

    terminal.keys(":\x1b[A\x1b[A");
    terminal.last_line_shows(":set overlap off");
    terminal.keys("\x1b[A");
    terminal.last_line_shows(":set overlap maybe");
    terminal.keys(ESCAPE);
    terminal.last_line_shows("q quit");
    quit(terminal);
}

#[test]
fn pasted_text_is_text_and_no_keys() {
    let mut terminal = running();
    terminal.keys("\x1b[200~qqq:quit\r\x1b[201~");
    // Nothing is typed here, so nothing comes of it.
    terminal.keys(":");
    terminal.last_line_shows(":");
    terminal.keys("\x1b[200~focus \r\ncanary\x07\x1b[201~");
    terminal.last_line_shows(":focus canary");
    terminal.keys("\r");
    terminal.shows(&["━ 3 Canary "]);
    quit(terminal);
}

#[test]
fn a_filter_hides_rows_until_it_is_backed_out_of() {
    let mut terminal = running();
    terminal.keys("6");
    terminal.shows(&["━ 6 Log "]);
    terminal.keys("/nothing says this");
    terminal.last_line_shows("/nothing says this");
    terminal.shows(&["matches"]);
    // Back to what it was before.
    terminal.keys(ESCAPE);
    terminal.hides("nothing says this");
    terminal.keys("/nothing says this\r");
    terminal.last_line_shows("q quit");
    terminal.shows(&["nothing says this"]);
    terminal.keys(ESCAPE);
    terminal.hides("nothing says this");
    quit(terminal);
}

#[test]
fn a_letter_marks_a_step_and_the_marks_lead_back_to_it() {
    let mut terminal = running();
    terminal.keys("p");
    terminal.shows(&["HELD"]);
    terminal.keys("m");
    terminal.shows(&["mark: which letter?"]);
    terminal.keys(ESCAPE);
    terminal.hides("which letter?");
    terminal.keys("ma");
    terminal.shows(&["`a` marks step "]);
    let rows = terminal.rows();
    let said = rows.iter().find_map(|row| row.split_once("`a` marks step ")).unwrap().1;
    let step: u64 = said.split('.').next().unwrap().parse().unwrap();
    terminal.keys("p");
    terminal.hides("HELD");
    terminal.line("wait step > 40");
    terminal.shows(&["`wait step > 40` holds"]);

    let frozen = format!("FROZEN at {step},");
    terminal.keys("'");
    terminal.shows(&["goto.mark: which letter?"]);
    terminal.keys("a");
    terminal.shows(&[&frozen]);
    terminal.keys("gn");
    terminal.hides("FROZEN");

    terminal.line("marks");
    terminal.shows(&["Marks", &format!("step {step}")]);
    terminal.keys("\r");
    terminal.shows(&[&frozen]);
    terminal.hides("Marks");
    terminal.line("marks");
    terminal.shows(&["Marks"]);
    terminal.keys(ESCAPE);
    terminal.hides("Marks");
    terminal.keys("'z");
    terminal.shows(&["There is no mark `z`."]);
    quit(terminal);
}
