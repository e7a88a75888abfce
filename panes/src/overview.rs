//! Overview: how many, how often, since when, and the last findings.

use std::{cmp::Reverse, fmt};

use coalmine_sessions::{Flag, LogLevel, SessionId, SessionPhase, State, ToggleName, Totals, WINDOW_STEPS};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::{Modifier, Style},
};

use crate::{
    Cell, Filter, Grouped, Ink, Input, Nanoseconds, Pane, PaneAction, PaneId, Pen, Percent, Scene, Table,
    chrome::{below, header},
    difference,
    filter::Matches,
    pen::width_of,
    sheet::{Scroll, Sheet},
    table::tabbed,
    toggles::current,
};

/// Width from which totals since the start and since the last change stand side by side.
const TWO_COLUMNS: u16 = 60;
/// Column where values begin, wide and narrow.
const VALUES: u16 = 16;
const NARROW_VALUES: u16 = 12;
/// Widest that the first column of totals gets.
const SECOND: u16 = 44;
/// Steps over which the length of a step is averaged.
const SPEED_STEPS: usize = 32;

/// What a witness is.
const WITNESS: &str = "virtual GPU's own record";

const COLUMNS: [&str; 11] =
    ["name", "since", "value", "low", "high", "unit", "session", "turn", "step", "expected", "found"];

/// View of the overview: how far it is scrolled, and which finding is selected.
#[derive(Clone, Debug, Default)]
pub struct OverviewView {
    scroll: Scroll,
    filter: Option<Filter>,
    /// The finding under the cursor.
    selected: Option<Finding>,
    /// The findings that are shown, the newest first; kept to spare an allocation a frame.
    findings: Vec<Finding>,
    /// All that are known.
    known: usize,
    /// The row of the first finding when last drawn.
    first_row: usize,
}

/// A wrong text, by its place among the flags of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    step: u64,
    session: SessionId,
    flag: usize,
}

impl Finding {
    fn flag(self, state: &State) -> Option<&Flag> {
        state.sessions.get(&self.session)?.flags.get(self.flag)
    }
}

fn cells(id: SessionId, flag: &Flag) -> [Cell<'_>; COLUMNS.len()] {
    [
        flag.kind.name().into(),
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
        id.into(),
        (u64::from(flag.turn) + 1).into(),
        flag.step.into(),
        (&flag.expected).into(),
        (&flag.found).into(),
    ]
}

/// Whether a finding is to be shown; `s214` finds those of a session as well as `214`.
fn accepts(filter: &Filter, id: SessionId, flag: &Flag) -> bool {
    filter.accepts(cells(id, flag).iter().chain([&Cell::from(format!("s{id}"))]))
}

impl OverviewView {
    /// Draws the counts alone, without a header, to stand above another pane.
    pub fn draw_brief(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let mut sheet = Sheet::new(buffer, area, 0);
        let mut page = Page::new(scene, &mut sheet);
        page.brief = true;
        if page.started() {
            page.brief();
        } else {
            page.starting();
        }
    }

    fn gather(&mut self, state: &State) {
        self.known = 0;
        self.findings.clear();
        for (&session, known) in &state.sessions {
            self.known += known.flags.len();
            for (at, flag) in known.flags.iter().enumerate() {
                if self.filter.as_ref().is_none_or(|filter| accepts(filter, session, flag)) {
                    self.findings.push(Finding { step: flag.step, session, flag: at });
                }
            }
        }
        self.findings.sort_unstable_by_key(|finding| Reverse(*finding));
    }

    /// Where the selected finding is shown, if it is.
    fn position(&self) -> Option<usize> {
        let selected = self.selected?;
        self.findings.binary_search_by_key(&Reverse(selected), |finding| Reverse(*finding)).ok()
    }

    fn select(&mut self, position: usize) {
        self.selected = self.findings.get(position).copied().or(self.selected);
    }

    /// One finding on; the first one once the rows above it are scrolled through.
    fn down(&mut self) {
        match self.position() {
            Some(position) if position + 1 < self.findings.len() => self.select(position + 1),
            Some(_) => {}
            None if self.findings.is_empty() || !self.scroll.shows(self.first_row) => {
                self.scroll.handle(Input::Down);
            }
            None => self.select(0),
        }
    }

    fn up(&mut self) {
        match self.position() {
            Some(0) => self.selected = None,
            Some(position) => self.select(position - 1),
            None => {
                self.scroll.handle(Input::Up);
            }
        }
    }
}

impl Pane for OverviewView {
    fn id(&self) -> PaneId {
        PaneId::Overview
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        self.gather(scene.state);
        let selected = self.position();
        let Self { scroll, filter, findings, first_row, .. } = self;
        scroll.show(below(area, 1), buffer, |sheet| {
            let mut page = Page::new(scene, sheet);
            if !page.started() {
                page.starting();
                return None;
            }
            if page.sheet.width() >= TWO_COLUMNS {
                page.wide();
            } else {
                page.narrow();
            }
            *first_row = page.findings(findings, selected, filter.as_ref());
            Some(*first_row + selected?)
        });
        let dot = scene.theme.glyphs.dot;
        let rows = self.scroll.note(scene.theme);
        if let Some(filter) = &self.filter {
            let matches = Matches { filter, shown: self.findings.len(), all: self.known, dot };
            header(scene, self.id(), format_args!("{rows}{matches}"), area, buffer);
        } else if let Some(hello) = &scene.state.hello {
            header(scene, self.id(), format_args!("{rows}seed {}", hello.seed), area, buffer);
        } else {
            header(scene, self.id(), format_args!(""), area, buffer);
        }
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        self.gather(state);
        match input {
            Input::Enter => {
                let finding = self.position().map(|position| self.findings[position]);
                return finding.map(|finding| PaneAction::OpenSession(finding.session));
            }
            Input::Down => self.down(),
            Input::Up => self.up(),
            Input::NextMatch => self.select(self.position().map_or(0, |position| position + 1)),
            Input::PreviousMatch => self.select(self.position().map_or(0, |position| position.saturating_sub(1))),
            Input::Back => {
                self.selected.take()?;
            }
            _ if self.scroll.handle(input) => self.selected = None,
            _ => return None,
        }
        Some(PaneAction::Redraw)
    }

    fn click(&mut self, state: &State, area: Rect, at: Position) -> Option<PaneAction> {
        let content = below(area, 1);
        self.gather(state);
        let row = self.scroll.row_at(at.y.checked_sub(content.y).filter(|_| content.contains(at))?);
        let finding = *self.findings.get(row.checked_sub(self.first_row)?)?;
        if self.selected == Some(finding) {
            return Some(PaneAction::OpenSession(finding.session));
        }
        self.selected = Some(finding);
        Some(PaneAction::Redraw)
    }

    /// Totals and what is so now; then the findings, which alone are filtered.
    fn table(&mut self, state: &State) -> Table {
        self.gather(state);
        let mut table = Table::new(self.id().name(), &COLUMNS);
        totals(&mut table, "start", &state.totals);
        if state.toggle_step > 0 {
            totals(&mut table, "flip", &state.since_toggle);
            number(&mut table, "flip_step", "now", state.toggle_step, "step");
        }
        now(&mut table, state);
        for finding in &self.findings {
            if let Some(flag) = finding.flag(state) {
                table.push(cells(finding.session, flag));
            }
        }
        table
    }

    fn selected_row(&mut self, state: &State) -> Option<String> {
        self.gather(state);
        let finding = self.findings[self.position()?];
        Some(tabbed(cells(finding.session, finding.flag(state)?)))
    }

    fn set_filter(&mut self, filter: Option<Filter>) {
        self.filter = filter;
    }

    fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }
}

fn number<'a>(table: &mut Table, name: &'a str, since: &'a str, value: impl Into<Cell<'a>>, unit: &'a str) {
    let empty = std::iter::repeat_n(Cell::Empty, COLUMNS.len() - 6);
    let cells = [name.into(), since.into(), value.into(), Cell::Empty, Cell::Empty, unit.into()];
    table.push(cells.into_iter().chain(empty));
}

/// What is counted since the start or the last flip.
fn totals(table: &mut Table, since: &str, totals: &Totals) {
    number(table, "corrupt_sessions", since, totals.corrupted, "sessions");
    number(table, "sessions_at_risk", since, at_risk(totals), "sessions");
    number(table, "damaged_before", since, totals.carried_over, "sessions");
    if at_risk(totals) > 0 {
        let rate = totals.corruption_rate();
        number(table, "corruption_rate", since, rate.value, "share, 95% interval");
        if let Some(row) = table.rows.last_mut() {
            (row[3], row[4]) = (rate.low.into(), rate.high.into());
        }
    }
    let (median, most) = rows_per_hit_step(totals).unzip();
    for (name, value, unit) in [
        ("diverged_sessions", Some(totals.diverged_sessions), "sessions"),
        ("hit_steps", Some(totals.hit_steps), "steps"),
        ("steps", Some(totals.steps), "steps"),
        ("rows_per_hit_median", median, "rows"),
        ("rows_per_hit_most", most, "rows"),
        ("witnesses", Some(totals.witnesses), "races"),
        ("hit_steps_without_witness", Some(totals.diverged_without_witness), "steps"),
    ] {
        number(table, name, since, value, unit);
    }
}

/// What is so at the last step.
fn now(table: &mut Table, state: &State) {
    for (word, count) in phases(state) {
        number(table, word, "now", count, "sessions");
    }
    for (name, value) in &state.metrics {
        number(table, name, "now", *value, "");
    }
    if let Some(mean) = mean_step(state) {
        number(table, "step_mean", "now", mean, "ns");
    }
    if let Some(step) = state.steps.back() {
        number(table, "rows", "now", step.rows, "rows");
        number(table, "bucket", "now", step.bucket, "rows");
        number(table, "overlap", "now", if step.overlapped { "on" } else { "off" }, "");
        number(table, "launch", "now", if step.captured { "captured" } else { "eager" }, "");
    }
    for (name, label) in SHOWN_TOGGLES {
        number(table, label, "now", name.spec().show(current(state, name)), "");
    }
}

/// The toggles whose values are part of the mode.
const SHOWN_TOGGLES: [(ToggleName, &str); 2] = [(ToggleName::IndexK, "index-k"), (ToggleName::Canary, "canary")];

/// Sessions by where they are.
fn phases(state: &State) -> [(&'static str, u64); 5] {
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
    let [decoding, thinking, prefill, waiting] = counts;
    [
        ("decoding", decoding),
        ("thinking", thinking),
        ("in prefill", prefill),
        ("waiting", waiting),
        ("finished", state.totals.finished),
    ]
}

/// Mean length of the last steps, ns.
fn mean_step(state: &State) -> Option<u64> {
    let recent = state.steps.iter().rev().take(SPEED_STEPS);
    let (count, time) = recent.fold((0u64, 0u64), |(count, time), step| {
        let length = step.end_ns.saturating_sub(step.start_ns);
        (count + 1, time.saturating_add(length))
    });
    time.checked_div(count)
}

/// Median and most of the rows that a hit step hit.
fn rows_per_hit_step(totals: &Totals) -> Option<(u64, u64)> {
    let counts = &totals.rows_per_hit_step;
    let (&most, _) = counts.last_key_value()?;
    let hits: u64 = counts.values().sum();
    let mut seen = 0;
    let middle = counts.iter().find(|(_, count)| {
        seen += **count;
        2 * seen >= hits
    });
    Some((middle.map_or(most, |(rows, _)| *rows).into(), most.into()))
}

/// What is written on the sheet.
struct Page<'s, 'b> {
    scene: Scene<'s>,
    sheet: &'s mut Sheet<'b>,
    /// Column where values begin.
    values: u16,
    /// Whether there are only so many rows, so that what does not fit in one is left out.
    brief: bool,
}

impl<'s, 'b> Page<'s, 'b> {
    fn new(scene: Scene<'s>, sheet: &'s mut Sheet<'b>) -> Self {
        let wide = sheet.width() >= TWO_COLUMNS;
        Self { scene, sheet, values: if wide { VALUES } else { NARROW_VALUES }, brief: false }
    }

    /// A line with its label, at the column of the values.
    fn line(&mut self, ink: Ink, label: &str) -> Pen<'_> {
        let style = self.scene.theme.ink(ink);
        let mut pen = self.sheet.line();
        pen.skip(1).text(style, label);
        if pen.column() < self.values {
            pen.to(self.values);
        }
        pen
    }

    /// An empty row, where it pushes none of `needed` more rows out of view.
    fn space(&mut self, needed: usize) {
        if self.sheet.room() > needed {
            self.sheet.space();
        }
    }

    fn started(&self) -> bool {
        self.scene.state.hello.is_some() || !self.scene.state.steps.is_empty()
    }

    fn starting(&mut self) {
        let theme = self.scene.theme;
        self.space(4);
        let last = self.scene.state.log.back();
        if let Some(line) = last.filter(|line| line.level == LogLevel::Error) {
            return self.sheet.text(theme.ink(Ink::Corrupt), 1, &line.text, |_| {});
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
        let second = VALUES + ((self.sheet.width() - VALUES) / 2).min(SECOND);
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
            let mut pen = self.line(ink, label);
            if !flipped {
                cell(&mut pen, scene, &state.totals);
                continue;
            }
            cell(pen.stop_at(second - 1), scene, &state.totals);
            cell(self.sheet.same_line().to(second), scene, &state.since_toggle);
        }
        let narrow = usize::from(second - VALUES) < WITNESS.len() + 8;
        if flipped && narrow {
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
    }

    fn sessions(&mut self) {
        let state = self.scene.state;
        let mut items = Items::new(self, "sessions");
        for (word, count) in phases(state) {
            if count > 0 || word == "decoding" {
                items.add(format_args!("{}", Grouped(count)), word);
            }
        }
    }

    fn speed(&mut self) {
        let state = self.scene.state;
        let mut items = Items::new(self, "speed");
        if let Some(rate) = state.metrics.get("tokens_per_second") {
            items.add(format_args!("{}", Grouped(*rate as u64)), "tokens/s");
        }
        if let (Some(step), Some(mean)) = (state.steps.back(), mean_step(state)) {
            items.add(format_args!("{}", Nanoseconds(mean)), "a step");
            items.add(format_args!("{} of {}", step.rows, step.bucket), "rows");
        }
    }

    fn mode(&mut self) {
        let state = self.scene.state;
        let mut items = Items::new(self, "mode");
        let Some(step) = state.steps.back() else {
            return;
        };
        let lanes = if step.overlapped { "on" } else { "off" };
        let launch = if step.captured { "captured" } else { "eager" };
        items.add(format_args!("overlap {lanes}"), "");
        items.add(format_args!("{launch}"), "");
        for (name, label) in SHOWN_TOGGLES {
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
        let room = self.sheet.width().saturating_sub(self.values + 1);
        let width = room.min(WINDOW_STEPS as u16);
        if width == 0 {
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
        let note = format_args!("last {} steps, {per_cell} a bar", Grouped(steps));
        let end = self.values + width;
        let mut pen = self.line(Ink::Dim, "");
        pen.to(end.saturating_sub(width_of(note))).put(theme.ink(Ink::Dim), note);
    }

    /// The findings, a row each; gives the row of the first.
    fn findings(&mut self, findings: &[Finding], selected: Option<usize>, filter: Option<&Filter>) -> usize {
        let (scene, state, theme) = (self.scene, self.scene.state, self.scene.theme);
        self.space(5);
        match filter {
            Some(filter) if findings.is_empty() => {
                let style = theme.ink(Ink::Warning);
                self.line(Ink::Warning, "no wrong text matches /").text(style, filter.text());
            }
            None if state.totals.corrupted == 0 => {
                self.line(Ink::Dim, "no wrong text yet");
            }
            _ => {
                self.line(Ink::Dim, "last wrong texts");
            }
        }
        let first = self.sheet.row();
        self.sheet.list(findings.len(), |pen, row| {
            let finding = findings[row];
            let Some(flag) = finding.flag(state) else {
                return;
            };
            flag_line(pen.to(1), scene, finding.session, flag);
            if selected == Some(row) && scene.focused {
                pen.to(0).text(theme.ink(Ink::Focus), theme.glyphs.cursor).to(0).tint_row(theme.ink(Ink::Selected));
            }
        });
        first
    }
}

/// One wrong text: session, turn, step, kind, expected against found.
fn flag_line(pen: &mut Pen<'_>, scene: Scene<'_>, id: SessionId, flag: &Flag) {
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

/// Values with their words, a dot between two, on as many rows as they take.
struct Items<'p, 's, 'b> {
    page: &'p mut Page<'s, 'b>,
    /// Where the next one begins; at the column of the values when it is the first of its row.
    column: u16,
}

impl<'p, 's, 'b> Items<'p, 's, 'b> {
    fn new(page: &'p mut Page<'s, 'b>, label: &str) -> Self {
        page.line(Ink::Dim, label);
        let column = page.values;
        Self { page, column }
    }

    fn add(&mut self, value: fmt::Arguments<'_>, word: &str) {
        let (theme, values) = (self.page.scene.theme, self.page.values);
        let width = width_of(value) + word.len() as u16 + u16::from(!word.is_empty());
        let mut first = self.column == values;
        if !first && self.column + 3 + width > self.page.sheet.width() {
            if self.page.brief {
                return;
            }
            self.page.line(Ink::Dim, "");
            (first, self.column) = (true, values);
        }
        let mut pen = self.page.sheet.same_line();
        pen.to(self.column);
        if !first {
            let dot = theme.glyphs.dot;
            pen.put(theme.ink(Ink::Rule), format_args!(" {dot} "));
        }
        pen.put(theme.ink(Ink::Text), value);
        if !word.is_empty() {
            pen.put(theme.ink(Ink::Dim), format_args!(" {word}"));
        }
        self.column = self.column.saturating_add(width + if first { 0 } else { 3 });
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
    pen.put(theme.ink(Ink::Text), format_args!("{hit}")).put(theme.ink(Ink::Dim), format_args!(" of {all}"));
    if pen.room() >= 6 {
        pen.text(theme.ink(Ink::Dim), " steps");
    }
}

fn rows_per_hit(pen: &mut Pen<'_>, scene: Scene<'_>, totals: &Totals) {
    let theme = scene.theme;
    let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
    let Some((median, most)) = rows_per_hit_step(totals) else {
        pen.text(dim, "none");
        return;
    };
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
