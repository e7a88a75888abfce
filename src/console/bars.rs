//! The status line, the tabs and the key bar.

use coalmine_panes::{Grouped, Ink, PaneId, Pen, Percent, Scene, Theme, TogglesView};
use coalmine_sessions::{Sanitized, SessionPhase, State, ToggleName, ToggleValue};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    text::Span,
};

use super::{
    app::Message,
    commands::{Action, COMMANDS, ConsoleCommand},
    keymap::first_key,
};

/// What the console knows beside the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// Steps by which a frozen view is behind.
    pub(super) frozen: Option<u64>,
    pub(super) held: bool,
    pub(super) target_gone: bool,
    pub(super) pace: Option<f64>,
}

/// Draws the status on one line, or on two.
pub(super) fn draw_status(scene: Scene<'_>, toggles: &TogglesView, marks: Marks, area: Rect, buffer: &mut Buffer) {
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(1);
    draw_marks(&mut pen, scene, marks);
    if area.height > 1 {
        draw_mode(&mut pen, scene, toggles);
        draw_pace(&mut pen, scene, marks);
        draw_identity(&mut pen, scene);
        let mut pen = Pen::new(buffer, area, 1);
        pen.skip(1);
        draw_counts(&mut pen, scene);
    } else {
        draw_counts(&mut pen, scene);
        draw_mode(&mut pen, scene, toggles);
        draw_pace(&mut pen, scene, marks);
        draw_identity(&mut pen, scene);
    }
}

fn draw_marks(pen: &mut Pen<'_>, scene: Scene<'_>, marks: Marks) {
    let banner = scene.theme.ink(Ink::Banner);
    if let Some(behind) = marks.frozen {
        let behind = Grouped(behind);
        pen.put(banner, format_args!(" FROZEN, {behind} steps behind ")).skip(1);
    }
    if marks.held {
        pen.text(banner, " HELD ").skip(1);
    }
    if marks.target_gone {
        pen.text(banner, " TARGET ENDED ").skip(1);
    }
    let dropped = scene.state.dropped;
    if dropped > 0 {
        let style = scene.theme.ink(Ink::Warning);
        pen.put(style, format_args!("GAP {}", Grouped(dropped))).skip(2);
    }
}

fn draw_counts(pen: &mut Pen<'_>, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
    let Some(step) = state.steps.back() else {
        pen.text(dim, "no step yet").skip(2);
        return;
    };
    let glyphs = theme.glyphs;
    pen.text(dim, "step ")
        .put(theme.ink(Ink::Strong), format_args!("{}", Grouped(step.step)))
        .skip(2)
        .put(text, format_args!("{}", Grouped(running(state))))
        .text(dim, " running")
        .skip(2);
    let totals = &state.totals;
    if totals.corrupted > 0 {
        let (mark, count) = (glyphs.corrupt, Grouped(totals.corrupted));
        let rate = Percent(totals.corruption_rate().value);
        pen.put(theme.ink(Ink::Corrupt), format_args!("{mark} {count} CORRUPT ({rate})"));
    } else {
        let mark = glyphs.good;
        pen.put(theme.ink(Ink::Good), format_args!("{mark} 0 corrupt"));
    }
    pen.skip(2);
    let count = Grouped(totals.diverged_sessions);
    if totals.diverged_sessions > 0 {
        let mark = glyphs.diverged;
        pen.put(theme.ink(Ink::Diverged), format_args!("{mark} {count} diverged"));
    } else {
        pen.text(dim, "0 diverged");
    }
    pen.skip(2);
}

fn running(state: &State) -> u64 {
    let running = state
        .sessions
        .values()
        .filter(|session| !matches!(session.phase, SessionPhase::Waiting | SessionPhase::Finished));
    running.count() as u64
}

fn draw_mode(pen: &mut Pen<'_>, scene: Scene<'_>, toggles: &TogglesView) {
    let (state, theme) = (scene.state, scene.theme);
    let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
    let words = [(ToggleName::Overlap, ["overlap off", "overlap on"]), (ToggleName::Eager, ["captured", "eager"])];
    for (name, words) in words {
        let word = |value| words[usize::from(value == ToggleValue::Choice(1))];
        let Some(value) = state.toggles.get(&name).copied() else {
            continue;
        };
        match toggles.pending.get(&name) {
            Some(wanted) => {
                pen.put(theme.ink(Ink::Pending), format_args!("{} {} pending", theme.glyphs.arrow, word(*wanted)))
            }
            None => pen.text(text, word(value)),
        };
        pen.text(dim, "  ");
    }
}

fn draw_pace(pen: &mut Pen<'_>, scene: Scene<'_>, marks: Marks) {
    if let Some(pace) = marks.pace {
        pen.put(scene.theme.ink(Ink::Dim), format_args!("{pace} steps/s  "));
    }
}

/// Target, model and device at the right end, as far as there is room.
fn draw_identity(pen: &mut Pen<'_>, scene: Scene<'_>) {
    let theme = scene.theme;
    let Some(hello) = &scene.state.hello else {
        return;
    };
    let dot = theme.glyphs.dot;
    let parts: [&Sanitized; 3] = [&hello.target, &hello.model, &hello.device];
    let widths = parts.map(|part| Span::raw(part.as_str()).width() as u16);
    let whole = widths[0] + widths[1] + widths[2] + 6;
    let room = pen.room().saturating_sub(1);
    // At the right end when it all fits, else cut off there.
    pen.skip(room.saturating_sub(whole));
    let dim = theme.ink(Ink::Dim);
    for (index, (part, width)) in parts.into_iter().zip(widths).enumerate() {
        if index > 0 && pen.room() > 4 {
            pen.put(theme.ink(Ink::Rule), format_args!(" {dot} "));
        }
        let room = pen.room().saturating_sub(1);
        pen.clip(dim, part, width.min(room), theme.glyphs.ellipsis);
    }
}

/// Draws the titles of all panes, the focused one marked.
pub(super) fn draw_tabs(theme: Theme, focus: PaneId, area: Rect, buffer: &mut Buffer) {
    for (pane, start, _) in tabs() {
        let ink = if pane == focus { Ink::Focus } else { Ink::Dim };
        let style = theme.ink(ink);
        let style = if pane == focus { style.reversed() } else { style };
        Pen::new(buffer, area, 0).to(start).put(style, format_args!("{} {}", pane.number(), pane.title()));
    }
}

/// The pane whose tab is at a place.
pub(super) fn tab_at(area: Rect, at: Position) -> Option<PaneId> {
    let column = at.x.checked_sub(area.x).filter(|_| area.contains(at))?;
    tabs().find(|(_, start, end)| (*start..*end).contains(&column)).map(|(pane, ..)| pane)
}

/// Each tab with its first column and the one after its last.
fn tabs() -> impl Iterator<Item = (PaneId, u16, u16)> {
    let mut next = 1;
    PaneId::ALL.into_iter().map(move |pane| {
        let start = next;
        let end = start + 2 + pane.title().len() as u16;
        next = end + 1;
        (pane, start, end)
    })
}

/// Draws a message in place of the key bar.
pub(super) fn draw_message(theme: Theme, message: &Message, area: Rect, buffer: &mut Buffer) {
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(1);
    let room = pen.room();
    pen.clip(theme.ink(message.ink), &message.text, room, theme.glyphs.ellipsis);
}

/// Draws the keys that are valid now, the focused pane's own first, as many as fit.
pub(super) fn draw_keys(theme: Theme, focus: PaneId, held: bool, area: Rect, buffer: &mut Buffer) {
    let valid = |command: &&ConsoleCommand| {
        let hinted = !command.hint.is_empty() && command.scope.covers(focus);
        hinted && (held || command.action != Action::SingleStep)
    };
    // Help and quit always have their place, at the end.
    let last = |command: &ConsoleCommand| matches!(command.action, Action::Help | Action::Quit);
    let width = |command: &ConsoleCommand| (first_key(command.name).len() + 1 + command.hint.len() + 2) as u16;
    let reserved: u16 = COMMANDS.iter().filter(|&command| last(command)).map(width).sum();
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(1);
    let hints = COMMANDS.iter().filter(valid);
    for command in hints {
        let spare = if last(command) { 0 } else { reserved };
        // The two spaces after the last one may be cut off.
        if pen.room() + 2 < width(command) + spare {
            continue;
        }
        let hint = match command.action {
            Action::Hold if held => "run",
            _ => command.hint,
        };
        pen.text(theme.ink(Ink::Key), first_key(command.name)).put(theme.ink(Ink::Dim), format_args!(" {hint}  "));
    }
}
