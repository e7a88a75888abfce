//! Overview: how many, how often, since when, and the last findings.

use coalmine_sessions::{Flag, LogLevel, SessionId, SessionPhase, State, ToggleName, Totals, WINDOW_STEPS};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

use crate::{
    Grouped, Ink, Input, Nanoseconds, Pane, PaneAction, PaneId, Pen, Percent, Scene,
    chrome::{below, header, wrapped},
    difference,
    pen::width_of,
    toggles::current,
};

/// Width from which totals since the start and since the last change stand side by side.
const TWO_COLUMNS: u16 = 60;
/// Column where values begin, wide and narrow.
const VALUES: u16 = 16;
const NARROW_VALUES: u16 = 12;
/// Widest that the first column of totals gets.
const SECOND: u16 = 44;
/// Flags shown at most.
const FLAGS: usize = 16;
/// Steps over which the length of a step is averaged.
const SPEED_STEPS: usize = 32;

/// What a witness is.
const WITNESS: &str = "virtual GPU's own record";

/// View of the overview. There is nothing to select: it shows what fits.
#[derive(Clone, Copy, Debug, Default)]
pub struct OverviewView {}

impl Pane for OverviewView {
    fn id(&self) -> PaneId {
        PaneId::Overview
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let area = match &scene.state.hello {
            Some(hello) => {
                let note = format_args!("seed {}", hello.seed);
                header(scene, self.id(), note, area, buffer)
            }
            None => header(scene, self.id(), format_args!(""), area, buffer),
        };
        let mut page = Page::new(scene, area, buffer);
        if !page.started() {
            page.starting();
        } else if area.width >= TWO_COLUMNS {
            page.wide();
        } else {
            page.narrow();
        }
    }

    fn handle(&mut self, _: &State, _: Input) -> Option<PaneAction> {
        None
    }
}

impl OverviewView {
    /// Draws the counts alone, without a header, to stand above another pane.
    pub fn draw_brief(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let mut page = Page::new(scene, area, buffer);
        if page.started() {
            page.brief();
        } else {
            page.starting();
        }
    }
}

/// Rows written one after the other until the area is full.
struct Page<'a> {
    scene: Scene<'a>,
    area: Rect,
    buffer: &'a mut Buffer,
    row: u16,
    values: u16,
}

impl<'a> Page<'a> {
    fn new(scene: Scene<'a>, area: Rect, buffer: &'a mut Buffer) -> Self {
        let wide = area.width >= TWO_COLUMNS;
        Self {
            scene,
            area: area.intersection(buffer.area),
            buffer,
            row: 0,
            values: if wide { VALUES } else { NARROW_VALUES },
        }
    }

    /// A line with its label, at the column of the values.
    fn line(&mut self, ink: Ink, label: &str) -> Pen<'_> {
        let style = self.scene.theme.ink(ink);
        let mut pen = Pen::new(self.buffer, self.area, self.row);
        self.row = self.row.saturating_add(1);
        pen.skip(1).text(style, label);
        if pen.column() < self.values {
            pen.to(self.values);
        }
        pen
    }

    /// An empty row, if at least `needed` more are left.
    fn space(&mut self, needed: u16) {
        if self.room() > needed {
            self.row += 1;
        }
    }

    fn room(&self) -> u16 {
        self.area.height.saturating_sub(self.row)
    }

    fn started(&self) -> bool {
        self.scene.state.hello.is_some() || !self.scene.state.steps.is_empty()
    }

    fn starting(&mut self) {
        let theme = self.scene.theme;
        self.space(4);
        let last = self.scene.state.log.back();
        if let Some(line) = last.filter(|line| line.level == LogLevel::Error) {
            let text = below(self.area, self.row);
            let text = Rect { x: text.x + text.width.min(1), width: text.width.saturating_sub(2), ..text };
            return wrapped(self.buffer, text, theme.ink(Ink::Corrupt), &line.text);
        }
        self.line(Ink::Strong, "starting the engine").text(theme.ink(Ink::Strong), theme.glyphs.ellipsis);
        self.line(Ink::Dim, "the first steps will appear here");
    }

    fn brief(&mut self) {
        let (scene, state) = (self.scene, self.scene.state);
        let mut pen = self.line(Ink::Dim, "since start");
        counts(&mut pen, scene, &state.totals);
        if state.toggle_step > 0 {
            let mut pen = self.line(Ink::Dim, "since flip");
            counts(&mut pen, scene, &state.since_toggle);
        } else {
            self.sessions();
        }
        self.speed();
    }

    fn narrow(&mut self) {
        let (scene, state) = (self.scene, self.scene.state);
        let mut pen = self.line(Ink::Strong, "text");
        corrupt_cell(&mut pen, scene, &state.totals);
        corrupt_rate(&mut self.line(Ink::Dim, "rate, 95%"), scene, &state.totals);
        let mut pen = self.line(Ink::Strong, "logits");
        diverged_cell(&mut pen, scene, &state.totals);
        if state.toggle_step > 0 {
            let step = state.toggle_step;
            self.line(Ink::Dim, "since flip at ").put(scene.theme.ink(Ink::Dim), format_args!("{}:", Grouped(step)));
            let mut pen = self.line(Ink::Dim, "  text");
            corrupt_cell(&mut pen, scene, &state.since_toggle);
            corrupt_rate(&mut self.line(Ink::Dim, "  rate"), scene, &state.since_toggle);
            let mut pen = self.line(Ink::Dim, "  logits");
            diverged_cell(&mut pen, scene, &state.since_toggle);
        }
        self.sessions();
        self.speed();
        self.mode();
        hit_steps(&mut self.line(Ink::Dim, "hit steps"), scene, &state.totals);
        rows_per_hit(&mut self.line(Ink::Dim, "rows a hit"), scene, &state.totals);
        let mut pen = self.line(Ink::Dim, "witnesses");
        witnesses(&mut pen, scene, &state.totals);
        self.space(8);
        self.sparklines();
        self.flags();
    }

    fn wide(&mut self) {
        type Cell = for<'p> fn(&mut Pen<'p>, Scene<'_>, &Totals);
        let rows: [(Ink, &str, Cell); 6] = [
            (Ink::Strong, "text", corrupt_cell),
            (Ink::Dim, "  rate, 95%", corrupt_rate),
            (Ink::Strong, "logits", diverged_cell),
            (Ink::Dim, "  hit steps", hit_steps),
            (Ink::Dim, "  rows a hit", rows_per_hit),
            (Ink::Dim, "  witnesses", witnesses),
        ];
        let (scene, state, theme) = (self.scene, self.scene.state, self.scene.theme);
        let second = VALUES + ((self.area.width - VALUES) / 2).min(SECOND);
        let flipped = state.toggle_step > 0;
        let dim = theme.ink(Ink::Dim);
        let mut pen = self.line(Ink::Dim, "");
        pen.text(dim, "since start").to(second);
        if flipped {
            let step = Grouped(state.toggle_step);
            pen.put(dim, format_args!("since flip at {step}"));
        } else {
            pen.text(dim, "no toggle flipped yet");
        }
        for (ink, label, cell) in rows {
            let row = self.row;
            let mut pen = self.line(ink, label);
            if !flipped {
                cell(&mut pen, scene, &state.totals);
                continue;
            }
            cell(pen.stop_at(second - 1), scene, &state.totals);
            let mut pen = Pen::new(self.buffer, self.area, row);
            cell(pen.to(second), scene, &state.since_toggle);
        }
        let narrow = usize::from(second - VALUES) < WITNESS.len() + 8;
        if flipped && narrow && self.room() > 6 {
            self.line(Ink::Dim, "").text(dim, WITNESS);
        }
        if state.since_toggle.carried_over > 0 {
            let before = Grouped(state.since_toggle.carried_over);
            self.line(Ink::Dim, "  hit earlier").to(second).put(dim, format_args!("{before} damaged before"));
        }
        self.space(6);
        self.sessions();
        self.speed();
        self.mode();
        self.space(5);
        self.sparklines();
        self.flags();
    }

    fn sessions(&mut self) {
        let (scene, state) = (self.scene, self.scene.state);
        let mut counts = [0u64; 4];
        for session in state.sessions.values() {
            match session.phase {
                SessionPhase::Decoding => counts[0] += 1,
                SessionPhase::Thinking => counts[1] += 1,
                SessionPhase::Prefill | SessionPhase::Transfer => counts[2] += 1,
                SessionPhase::Waiting => counts[3] += 1,
                SessionPhase::Finished => {}
            }
        }
        let words = ["decoding", "thinking", "in prefill", "waiting"];
        let all = counts.into_iter().zip(words);
        let mut items = Items::new(self.line(Ink::Dim, "sessions"), scene);
        for (count, word) in all.chain([(state.totals.finished, "finished")]) {
            if count > 0 || word == "decoding" {
                items.add(format_args!("{}", Grouped(count)), word);
            }
        }
    }

    fn speed(&mut self) {
        let (scene, state) = (self.scene, self.scene.state);
        let mut items = Items::new(self.line(Ink::Dim, "speed"), scene);
        if let Some(rate) = state.metrics.get("tokens_per_second") {
            items.add(format_args!("{}", Grouped(*rate as u64)), "tokens/s");
        }
        let recent = state.steps.iter().rev().take(SPEED_STEPS);
        let (count, time) = recent.fold((0u64, 0u64), |(count, time), step| {
            let length = step.end_ns.saturating_sub(step.start_ns);
            (count + 1, time.saturating_add(length))
        });
        if let (Some(step), Some(mean)) = (state.steps.back(), time.checked_div(count)) {
            items.add(format_args!("{}", Nanoseconds(mean)), "a step");
            items.add(format_args!("{} of {}", step.rows, step.bucket), "rows");
        }
    }

    fn mode(&mut self) {
        let (scene, state) = (self.scene, self.scene.state);
        let mut items = Items::new(self.line(Ink::Dim, "mode"), scene);
        let Some(step) = state.steps.back() else {
            return;
        };
        let lanes = if step.overlapped { "on" } else { "off" };
        let launch = if step.captured { "captured" } else { "eager" };
        items.add(format_args!("overlap {lanes}"), "");
        items.add(format_args!("{launch}"), "");
        for (name, label) in [(ToggleName::IndexK, "index-k"), (ToggleName::Canary, "canary")] {
            let value = name.spec().show(current(state, name));
            items.add(format_args!("{label} {value}"), "");
        }
    }

    /// How many sessions turned corrupt and how many rows diverged, over the window of steps.
    fn sparklines(&mut self) {
        let (state, theme) = (self.scene.state, self.scene.theme);
        let (Some(first), Some(last)) = (state.steps.front(), state.steps.back()) else {
            return;
        };
        let room = self.area.width.saturating_sub(self.values + 1);
        let width = room.min(WINDOW_STEPS as u16);
        if self.room() < 2 || width == 0 {
            return;
        }
        let steps = last.step.saturating_sub(first.step).saturating_add(1);
        let per_cell = steps.div_ceil(u64::from(width));
        let cell_of = |step: u64| {
            let back = last.step.checked_sub(step)? / per_cell;
            (back < u64::from(width)).then(|| usize::from(width) - 1 - back as usize)
        };
        let mut corrupted = [0u32; WINDOW_STEPS];
        let mut diverged = [0u32; WINDOW_STEPS];
        for flag in state.sessions.values().flat_map(|session| &session.flags) {
            if let Some(cell) = cell_of(flag.step) {
                corrupted[cell] += 1;
            }
        }
        for step in &state.steps {
            if let Some(cell) = cell_of(step.step) {
                diverged[cell] += step.diverged_rows.len() as u32;
            }
        }
        for (label, ink, cells) in [("corrupted", Ink::Corrupt, &corrupted), ("diverged", Ink::Diverged, &diverged)] {
            let cells = &cells[..usize::from(width)];
            let most = cells.iter().copied().max().unwrap_or(0);
            // Reversed or underlined bars could not be read.
            let style = Style { add_modifier: Modifier::empty(), ..theme.ink(ink) };
            let mut pen = self.line(Ink::Dim, label);
            for &count in cells {
                let bar = (count * 8).checked_div(most).unwrap_or(0);
                let bar = bar.max(u32::from(count > 0)).min(8);
                pen.text(style, theme.glyphs.bars[bar as usize]);
            }
        }
        if self.room() > 3 {
            let note = format_args!("last {} steps, {per_cell} a bar", Grouped(steps));
            let end = self.values + width;
            let mut pen = self.line(Ink::Dim, "");
            pen.to(end.saturating_sub(width_of(note))).put(theme.ink(Ink::Dim), note);
        }
    }

    fn flags(&mut self) {
        let (scene, state) = (self.scene, self.scene.state);
        self.space(5);
        if self.room() < 2 {
            return;
        }
        let wanted = usize::from(self.room().saturating_sub(1)).min(FLAGS);
        let mut latest: [Option<(SessionId, &Flag)>; FLAGS] = [None; FLAGS];
        let latest = &mut latest[..wanted];
        for (&id, session) in &state.sessions {
            for flag in &session.flags {
                insert_latest(latest, (id, flag));
            }
        }
        if state.totals.corrupted == 0 {
            self.line(Ink::Dim, "no wrong text yet");
            return;
        }
        self.line(Ink::Dim, "last wrong texts");
        for &(id, flag) in latest.iter().flatten() {
            let mut pen = self.line(Ink::Dim, "");
            pen.to(1);
            flag_line(&mut pen, scene, id, flag);
        }
    }
}

/// Keeps the latest flags, the newest first.
fn insert_latest<'s>(latest: &mut [Option<(SessionId, &'s Flag)>], candidate: (SessionId, &'s Flag)) {
    let older = |entry: &Option<(SessionId, &Flag)>| {
        entry.is_none_or(|(id, flag)| (flag.step, id) < (candidate.1.step, candidate.0))
    };
    if let Some(at) = latest.iter().position(older) {
        latest[at..].rotate_right(1);
        latest[at] = Some(candidate);
    }
}

/// One wrong text: session, turn, step, kind, expected against found.
pub(crate) fn flag_line(pen: &mut Pen<'_>, scene: Scene<'_>, id: SessionId, flag: &Flag) {
    let theme = scene.theme;
    let dim = theme.ink(Ink::Dim);
    pen.text(theme.ink(Ink::Corrupt), theme.glyphs.corrupt)
        .put(theme.ink(Ink::Strong), format_args!(" s{id:<5}"))
        .put(dim, format_args!("turn {} ", u64::from(flag.turn) + 1))
        .put(dim, format_args!("step {:<7} ", Grouped(flag.step)));
    if pen.room() >= 44 {
        let kind = flag.kind.name();
        pen.put(theme.ink(Ink::Text), format_args!("{kind:<15}"));
    }
    difference::draw(pen, scene, flag);
}

/// Values with their words, a dot between two, as many as fit.
struct Items<'a> {
    pen: Pen<'a>,
    scene: Scene<'a>,
    first: bool,
}

impl<'a> Items<'a> {
    fn new(pen: Pen<'a>, scene: Scene<'a>) -> Self {
        Self { pen, scene, first: true }
    }

    fn add(&mut self, value: std::fmt::Arguments<'_>, word: &str) {
        let theme = self.scene.theme;
        let gap = if self.first { 0 } else { 3 };
        let width = width_of(value) + gap + word.len() as u16 + u16::from(!word.is_empty());
        if self.pen.room() < width {
            return;
        }
        if !self.first {
            let dot = theme.glyphs.dot;
            self.pen.put(theme.ink(Ink::Rule), format_args!(" {dot} "));
        }
        self.first = false;
        self.pen.put(theme.ink(Ink::Text), value);
        if !word.is_empty() {
            self.pen.put(theme.ink(Ink::Dim), format_args!(" {word}"));
        }
    }
}

/// Both counts on one line, corrupt first.
fn counts(pen: &mut Pen<'_>, scene: Scene<'_>, totals: &Totals) {
    corrupt_cell(pen, scene, totals);
    pen.skip(1);
    corrupt_rate(pen, scene, totals);
    pen.skip(2);
    diverged_cell(pen, scene, totals);
}

/// Sessions that could have got their first flag while `totals` were counted.
fn at_risk(totals: &Totals) -> u64 {
    totals.sessions.saturating_sub(totals.corrupted_before)
}

fn corrupt_cell(pen: &mut Pen<'_>, scene: Scene<'_>, totals: &Totals) {
    let theme = scene.theme;
    let dim = theme.ink(Ink::Dim);
    if totals.corrupted == 0 {
        let good = theme.glyphs.good;
        pen.put(theme.ink(Ink::Good), format_args!("{good} 0 corrupt"));
    } else {
        let (mark, count) = (theme.glyphs.corrupt, Grouped(totals.corrupted));
        pen.put(theme.ink(Ink::Corrupt), format_args!("{mark} {count} CORRUPT"));
    }
    pen.put(dim, format_args!(" of {}", Grouped(at_risk(totals))));
    if totals.carried_over > 0 {
        let earlier = format_args!(", {} damaged before", Grouped(totals.carried_over));
        if pen.room() >= width_of(earlier) {
            pen.put(dim, earlier);
        }
    }
}

fn corrupt_rate(pen: &mut Pen<'_>, scene: Scene<'_>, totals: &Totals) {
    let theme = scene.theme;
    if at_risk(totals) == 0 {
        pen.text(theme.ink(Ink::Dim), "no session yet");
        return;
    }
    let rate = totals.corruption_rate();
    let (low, high) = (Percent(rate.low), Percent(rate.high));
    let range = theme.glyphs.range;
    pen.put(theme.ink(Ink::Strong), format_args!("{}", Percent(rate.value)))
        .put(theme.ink(Ink::Dim), format_args!(" [{low} {range} {high}]"));
}

fn diverged_cell(pen: &mut Pen<'_>, scene: Scene<'_>, totals: &Totals) {
    let theme = scene.theme;
    let (ink, mark) = if totals.diverged_sessions > 0 {
        (Ink::Diverged, theme.glyphs.diverged)
    } else {
        (Ink::Good, theme.glyphs.good)
    };
    let count = Grouped(totals.diverged_sessions);
    pen.put(theme.ink(ink), format_args!("{mark} {count} diverged"));
}

fn hit_steps(pen: &mut Pen<'_>, scene: Scene<'_>, totals: &Totals) {
    let theme = scene.theme;
    let (hit, all) = (Grouped(totals.hit_steps), Grouped(totals.steps));
    pen.put(theme.ink(Ink::Text), format_args!("{hit}")).put(theme.ink(Ink::Dim), format_args!(" of {all} steps"));
}

fn rows_per_hit(pen: &mut Pen<'_>, scene: Scene<'_>, totals: &Totals) {
    let theme = scene.theme;
    let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
    let counts = &totals.rows_per_hit_step;
    let Some((&most, _)) = counts.last_key_value() else {
        pen.text(dim, "none");
        return;
    };
    let hits: u64 = counts.values().sum();
    let mut seen = 0;
    let middle = counts.iter().find(|(_, count)| {
        seen += **count;
        2 * seen >= hits
    });
    let median = middle.map_or(most, |(rows, _)| *rows);
    pen.text(dim, "median ").put(text, format_args!("{median}")).text(dim, ", most ").put(text, format_args!("{most}"));
}

fn witnesses(pen: &mut Pen<'_>, scene: Scene<'_>, totals: &Totals) {
    let theme = scene.theme;
    let count = Grouped(totals.witnesses);
    pen.put(theme.ink(Ink::Text), format_args!("{count}"));
    if totals.diverged_without_witness > 0 {
        let without = Grouped(totals.diverged_without_witness);
        pen.put(theme.ink(Ink::Warning), format_args!(" {without} hit steps without"));
    } else if usize::from(pen.room()) > WITNESS.len() {
        pen.put(theme.ink(Ink::Dim), format_args!(" {WITNESS}"));
    }
}
