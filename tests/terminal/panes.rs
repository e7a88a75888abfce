//! Every pane, focused and with the screen to itself.

use crate::terminal::Terminal;

/// The panes by their keys.
const PANES: [&str; 6] = ["1 Overview", "2 Sessions", "3 Canary", "4 Timeline", "5 Toggles", "6 Log"];

/// Focuses and zooms every pane; `rest` is what only an unzoomed screen shows.
fn visit(terminal: &mut Terminal, rest: impl Fn(&str) -> String) {
    for pane in PANES {
        let (key, title) = (&pane[..1], format!("━ {pane} "));
        terminal.keys(key);
        terminal.shows(&[&title, &rest(pane)]);
        terminal.keys("z");
        terminal.hides(&rest(pane));
        terminal.shows(&[&title]);
        terminal.wait("the title in the first lines", |screen| {
            screen.contents().lines().take(3).any(|line| line.contains(&title))
        });
        // Into what is selected, and out again: of that, then of the zoom.
        terminal.keys("j\r");
        // What was selected in the toggles has changed, and that is said in the place of the keys until the next one.
        if pane == "5 Toggles" {
            terminal.last_line_shows(" from step ");
        }
        terminal.keys("k");
        terminal.keys("z");
        terminal.shows(&[&title, &rest(pane)]);
        terminal.last_line_shows("q quit");
    }
}

#[test]
fn every_pane_is_seen_where_one_fits_at_a_time() {
    let mut terminal = Terminal::open(80, 24, &[]);
    terminal.shows(&["running"]);
    visit(&mut terminal, |_| PANES.join(" "));
    terminal.keys("q");
    terminal.left().assert_clean(0);
}

#[test]
fn every_pane_is_seen_where_all_fit() {
    let mut terminal = Terminal::open(200, 60, &[]);
    terminal.shows(&["running"]);
    visit(&mut terminal, |pane| {
        let other = if pane == PANES[0] { PANES[1] } else { PANES[0] };
        format!("─ {other} ")
    });
    terminal.keys("\x03");
    terminal.left().assert_clean(0);
}

#[test]
fn the_focus_moves_by_keys() {
    let mut terminal = Terminal::open(160, 48, &[]);
    terminal.shows(&["━ 1 Overview ", "running"]);
    for (keys, pane) in [
        ("\t", "2 Sessions"),
        ("\x1b[Z", "1 Overview"),
        ("L", "2 Sessions"),
        ("J", "3 Canary"),
        ("H", "5 Toggles"),
        ("6", "6 Log"),
        ("K", "3 Canary"),
    ] {
        terminal.keys(keys);
        terminal.shows(&[&format!("━ {pane} ")]);
    }
    terminal.keys("q");
    terminal.left().assert_clean(0);
}
