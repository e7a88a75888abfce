//! The status line, the tabs, and the key bar with what is said in its place and above it.

use coalmine_panes::{Grouped, Ink, PaneId, Pen, Percent, Scene, Theme, TogglesView, wrap};
use coalmine_sessions::{Sanitized, SessionPhase, State, ToggleName, ToggleValue};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::Style,
    text::Span,
};

use super::{
    app::Message,
    keymap::{BINDINGS, Binding, Keymap, Match, show},
    macro_player::Playing,
    source::Source,
};
use coalmine_sessions::{Danger, macros::Chord};

/// Draws the status on one line, or on two.
pub(super) fn draw_status(
    scene: Scene<'_>,
    toggles: &TogglesView,
    source: &Source,
    (recording_macro, zoomed): (bool, bool),
    area: Rect,
    buffer: &mut Buffer,
) {
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(1);
    draw_marks(&mut pen, scene, source, recording_macro, zoomed);
    if area.height > 1 {
        draw_counts(&mut pen, scene);
        let mut pen = Pen::new(buffer, area, 1);
        pen.skip(1);
        draw_mode(&mut pen, scene, toggles);
        draw_pace(&mut pen, scene, source);
        draw_identity(&mut pen, scene);
    } else {
        draw_counts(&mut pen, scene);
        draw_mode(&mut pen, scene, toggles);
        draw_pace(&mut pen, scene, source);
        draw_identity(&mut pen, scene);
    }
}

fn draw_marks(pen: &mut Pen<'_>, scene: Scene<'_>, source: &Source, recording_macro: bool, zoomed: bool) {
    let banner = scene.theme.ink(Ink::Banner);
    let warning = scene.theme.ink(Ink::Warning);
    match source {
        Source::Replay(replay) => {
            let (view, last) = (replay.view(), Grouped(replay.handle().last_step()));
            let moving = if view.playing { "PLAYING" } else { "REPLAY" };
            let (step, speed) = (Grouped(view.step), view.speed);
            pen.put(banner, format_args!(" {moving} step {step}/{last} x{speed} ")).skip(1);
        }
        Source::Live(live) => {
            if let Some(behind) = live.steps_behind() {
                let steps = if behind == 1 { "step" } else { "steps" };
                let (step, behind) = (Grouped(live.step().unwrap_or(0)), Grouped(behind));
                pen.put(banner, format_args!(" FROZEN at {step}, {behind} {steps} behind ")).skip(1);
            }
            if live.held {
                pen.text(banner, " HELD ").skip(1);
            }
            if live.gone {
                pen.text(banner, " TARGET ENDED ").skip(1);
            }
            if let Some(recorder) = &live.recorder {
                let status = recorder.status();
                match status.error {
                    Some(_) => pen.text(banner, " RECORDING FAILED ").skip(1),
                    None => pen.put(warning, format_args!("REC {} MB", Tenths(status.bytes))).skip(2),
                };
            }
        }
    }
    if zoomed {
        pen.text(scene.theme.ink(Ink::Pending), "ZOOM").skip(2);
    }
    if recording_macro {
        pen.text(warning, "REC MACRO").skip(2);
    }
    let dropped = scene.state.dropped;
    if dropped > 0 {
        pen.put(warning, format_args!("GAP {}", Grouped(dropped))).skip(2);
    }
}

/// Megabytes with one digit after the point.
struct Tenths(u64);

impl std::fmt::Display for Tenths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = self.0 / 100_000;
        write!(f, "{}.{}", tenths / 10, tenths % 10)
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

fn draw_pace(pen: &mut Pen<'_>, scene: Scene<'_>, source: &Source) {
    let pace = source.live().and_then(|live| live.asked_pace());
    if let Some(pace) = pace {
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
        if index > 0 {
            if pen.room() < 8 {
                return;
            }
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

/// Draws a message in place of the key bar, and over what is above it as far as it takes more rows.
pub(super) fn draw_message(theme: Theme, message: &Message, keys: Rect, screen: Rect, buffer: &mut Buffer) {
    let height = sentence_rows(&message.text, screen);
    let area = Rect { y: keys.bottom().saturating_sub(height), height, ..keys };
    draw_sentence(theme, message.ink, &message.text, area, buffer);
}

/// Rows that a sentence takes: of a screen at most a third.
pub(super) fn sentence_rows(text: &str, screen: Rect) -> u16 {
    let rows = wrap::lines(text, sentence_width(screen)).count();
    u16::try_from(rows).unwrap_or(u16::MAX).clamp(1, (screen.height / 3).max(1))
}

/// Cells of a row that a sentence is written in: not the first and the last.
fn sentence_width(area: Rect) -> u16 {
    area.width.saturating_sub(2)
}

/// Draws a text on the rows of `area`, over whatever was there; an ellipsis says that it goes on.
pub(super) fn draw_sentence(theme: Theme, ink: Ink, text: &str, area: Rect, buffer: &mut Buffer) {
    let mut lines = wrap::lines(text, sentence_width(area));
    for (row, line) in (0..area.height).zip(&mut lines) {
        let mut pen = Pen::new(buffer, area, row);
        pen.repeat(Style::reset(), " ", area.width).to(1).text(theme.ink(ink), line);
    }
    if lines.next().is_some() {
        let end = area.width.saturating_sub(1);
        Pen::new(buffer, area, area.height.saturating_sub(1)).to(end).text(theme.ink(ink), theme.glyphs.ellipsis);
    }
}

/// How a macro is stopped.
const END: &str = "esc ends it";

/// Draws the line that a macro is at.
pub(super) fn draw_playing(theme: Theme, playing: &Playing, keys: Rect, buffer: &mut Buffer) {
    let mut pen = Pen::new(buffer, keys, 0);
    pen.text(theme.ink(Ink::Banner), " MACRO ").skip(1);
    if let Some(line) = playing.line() {
        let room = pen.room().saturating_sub(2 + END.len() as u16);
        pen.clip(theme.ink(Ink::Text), &line, room, theme.glyphs.ellipsis).skip(2);
    }
    let (key, what) = END.split_at("esc".len());
    pen.text(theme.ink(Ink::Key), key).text(theme.ink(Ink::Dim), what);
}

/// Draws how a sequence of keys can go on.
pub(super) fn draw_continuations<'a>(
    theme: Theme,
    pressed: &[Chord],
    next: impl Iterator<Item = (String, &'a str)>,
    area: Rect,
    buffer: &mut Buffer,
) {
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(1).text(theme.ink(Ink::Pending), &show(pressed)).skip(2);
    for (keys, line) in next {
        pen.text(theme.ink(Ink::Key), &keys).put(theme.ink(Ink::Dim), format_args!(" {line}  "));
    }
}

/// Draws the keys that are valid now, the focused pane's own first, as many as fit.
pub(super) fn draw_keys(
    theme: Theme,
    keymap: &Keymap,
    focus: PaneId,
    source: &Source,
    area: Rect,
    buffer: &mut Buffer,
) {
    let held = source.live().is_some_and(|live| live.held);
    let hinted = BINDINGS.iter().filter(|(_, _, hint)| !hint.is_empty());
    let hints = hinted.filter_map(|&(_, line, hint)| {
        // Not by keys that a pane has taken over for something else.
        let stands = |binding: &&Binding| match keymap.find(&binding.chords, focus) {
            Match::Bound(bound) => std::ptr::eq(bound, &binding.bound),
            _ => false,
        };
        let binding = keymap.of(line).find(stands)?;
        let mutates = binding.bound.command().is_some_and(|command| command.danger == Danger::MutatesTarget);
        let hint = match (line, source) {
            ("faster", Source::Replay(_)) => "faster",
            ("freeze", Source::Replay(replay)) if replay.view().playing => "pause",
            ("freeze", Source::Replay(_)) => "play",
            (_, Source::Replay(_)) if mutates => return None,
            ("step", _) if !held => return None,
            ("hold.switch", _) if held => "run",
            _ => hint,
        };
        Some((line, binding.keys.as_str(), hint))
    });
    let mut hints: Vec<_> = hints.collect();
    // Whoever sees the target held looks for how it goes on.
    hints.sort_by_key(|(line, ..)| !(held && matches!(*line, "hold.switch" | "step")));
    // Help and quit always have their place, at the end.
    let last = |line: &str| matches!(line, "help" | "quit");
    let width = |keys: &str, hint: &str| (keys.len() + 1 + hint.len() + 2) as u16;
    let reserved: u16 = hints.iter().filter(|(line, ..)| last(line)).map(|(_, keys, hint)| width(keys, hint)).sum();
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(1);
    for (line, keys, hint) in &hints {
        let spare = if last(line) { 0 } else { reserved };
        // The two spaces after the last one may be cut off.
        if pen.room() + 2 < width(keys, hint) + spare {
            continue;
        }
        pen.text(theme.ink(Ink::Key), keys).put(theme.ink(Ink::Dim), format_args!(" {hint}  "));
    }
}
