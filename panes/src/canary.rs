//! Canary: a heat map of the watched pages by pool and layer.
//!
//! A cell's glyph says when its page was last written, and an undeclared change is
//! drawn over it. Where there are more pages than cells, a cell stands for a group, but
//! never while one pool is drilled into.

use std::collections::BTreeMap;

use coalmine_sessions::{LastWrites, PageRef, Pool, State};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::Style,
};

use crate::{
    Cell, Filter, Grouped, Ink, Input, Pane, PaneAction, PaneId, Pen, Scene, Table,
    chrome::{below, header, no_match},
    filter::Shown,
    pen::{text_width, width_of},
    table::tabbed,
};

/// Oldest age in steps of each level of heat, hottest first; what is older is the coldest but one.
const AGES: [(usize, u64); 3] = [(4, 1), (3, 8), (2, 128)];
/// Rows from which the map leaves three to the legend and the selected page.
const ROOMY: u16 = 9;
/// Mark of an undeclared change, the same in every theme.
const VIOLATION: &str = "!";

const COLUMNS: [&str; 5] = ["family", "layer", "page", "last_written_step", "violation_step"];

/// View of the canary.
#[derive(Clone, Debug, Default)]
pub struct CanaryView {
    pools: Shown,
    pool: usize,
    page: u32,
    /// Whether only the selected pool is shown.
    drilled: bool,
    /// First row in view.
    offset: u64,
    map: Map,
}

/// How pages lie on the pane.
#[derive(Clone, Debug, Default)]
struct Map {
    /// Cells a row.
    width: u32,
    /// Rows in view.
    height: u32,
    /// Pages a cell.
    group: u32,
    /// The pools shown, one below the other; kept to spare an allocation a frame.
    bands: Vec<Band>,
}

/// The rows of one pool.
#[derive(Clone, Copy, Debug)]
struct Band {
    pool: usize,
    first: u64,
    rows: u64,
}

impl Map {
    /// Lays pools out; `whole` where a cell may not stand for more than one page.
    fn arrange(&mut self, pools: &[Pool], shown: impl Iterator<Item = usize> + Clone, whole: bool) {
        self.group = 1;
        self.width = self.width.max(1);
        loop {
            let mut next = 0;
            self.bands.clear();
            self.bands.extend(shown.clone().map(|pool| {
                let rows = pools[pool].pages.div_ceil(self.group).div_ceil(self.width).max(1).into();
                next += rows;
                Band { pool, first: next - rows, rows }
            }));
            // A group so large that each pool takes one row cannot save any more rows.
            if whole || next <= self.height.into() || self.bands.iter().all(|band| band.rows == 1) {
                return;
            }
            self.group = self.group.saturating_mul(2);
        }
    }

    fn rows(&self) -> u64 {
        self.bands.last().map_or(0, |band| band.first + band.rows)
    }

    fn band(&self, pool: usize) -> Option<&Band> {
        self.bands.binary_search_by_key(&pool, |band| band.pool).ok().map(|at| &self.bands[at])
    }

    /// The band that a row belongs to.
    fn band_at(&self, row: u64) -> Option<&Band> {
        let after = self.bands.partition_point(|band| band.first <= row);
        self.bands[..after].last().filter(|band| row < band.first + band.rows)
    }

    /// Row and column of a page, if its pool is shown.
    fn cell(&self, pool: usize, page: u32) -> Option<(u64, u32)> {
        let cell = page / self.group;
        let row = self.band(pool)?.first + u64::from(cell / self.width);
        Some((row, cell % self.width))
    }

    /// Pages of a row.
    fn row_pages(&self) -> u32 {
        self.group.saturating_mul(self.width).max(1)
    }
}

/// Where the parts of the pane are.
struct Places {
    summary: Rect,
    labels: Rect,
    map: Rect,
    footer: Rect,
}

impl Places {
    fn new(pools: &[Pool], area: Rect) -> Self {
        let summary = below(area, 1);
        let area = below(summary, 1);
        // The map comes before the selected page and the legend.
        let footer = if area.height < ROOMY { area.height.saturating_sub(3).min(2) } else { 3 };
        let family = pools.iter().map(|pool| text_width(&pool.family)).max();
        let label = family.unwrap_or(0).saturating_add(8).min(area.width / 3);
        let map = Rect { height: area.height - footer, ..area };
        Self {
            summary,
            labels: Rect { width: label.saturating_sub(1), ..map },
            map: Rect { x: map.x + label, width: map.width.saturating_sub(label + 1), ..map },
            footer: below(area, map.height),
        }
    }
}

fn pools(state: &State) -> &[Pool] {
    state.hello.as_ref().map_or(&[], |hello| &hello.pools)
}

/// The last write among `pages` of a pool.
fn last_write(state: &State, pool: usize, first: u32, count: u32) -> Option<u64> {
    state.canary.last_written.get(pool)?.latest(first..first.saturating_add(count))
}

fn heat_level(written: Option<u64>, now: u64) -> usize {
    let Some(step) = written else { return 0 };
    let age = now.saturating_sub(step);
    AGES.iter().find(|(_, oldest)| age <= *oldest).map_or(1, |(level, _)| *level)
}

fn now(state: &State) -> u64 {
    let canary = state.canary.last.as_ref().map_or(0, |report| report.step);
    state.steps.back().map_or(canary, |step| step.step)
}

/// Whether a pool is to be shown; it is found by what stands before its pages.
fn accepts(filter: &Filter, pool: &Pool) -> bool {
    filter.accepts(&[Cell::from(format!("{} {}", pool.family, Layer(pool.layer)))])
}

fn cells(pool: &Pool, page: u32, written: Option<u64>, violated: Option<u64>) -> [Cell<'_>; COLUMNS.len()] {
    [(&pool.family).into(), pool.layer.into(), page.into(), written.into(), violated.into()]
}

/// The steps in which pages of a pool changed undeclared, the last one first.
fn violations(state: &State, pool: usize, first: u32, last: u32) -> impl Iterator<Item = (u64, u32)> {
    let found = state.canary.violations.iter().rev().map(|(step, at)| (*step, usize::from(at.pool), at.page));
    found
        .filter(move |(_, other, page)| *other == pool && (first..=last).contains(page))
        .map(|(step, _, page)| (step, page))
}

impl CanaryView {
    /// The page under the cursor, while one pool is drilled into.
    pub fn page(&self, state: &State) -> Option<PageRef> {
        let pool = pools(state).get(self.pool).filter(|pool| self.drilled && pool.pages > 0)?;
        Some(PageRef { pool: u16::try_from(self.pool).ok()?, page: self.page.min(pool.pages - 1) })
    }

    /// Lays out what is shown, as large as when last drawn.
    fn arrange(&mut self, pools: &[Pool]) {
        self.pools.sift(pools.len(), |filter, pool| accepts(filter, &pools[pool]));
        if self.drilled && self.pool < pools.len() {
            self.map.arrange(pools, std::iter::once(self.pool), true);
        } else {
            let shown = &self.pools;
            self.map.arrange(pools, (0..shown.len()).filter_map(|position| shown.get(position)), false);
        }
    }

    /// Pool and page of the cursor, which is elsewhere where the selected pool is not shown.
    fn place(&self, pools: &[Pool]) -> Option<(usize, u32)> {
        let bands = &self.map.bands;
        let at = bands.partition_point(|band| band.pool < self.pool).min(bands.len().checked_sub(1)?);
        let pool = bands[at].pool;
        Some((pool, self.page.min(pools[pool].pages.saturating_sub(1))))
    }

    /// Pool and page `rows` further down, or up; in the same column where there is one.
    fn moved(&self, pools: &[Pool], (pool, page): (usize, u32), rows: i64) -> Option<(usize, u32)> {
        let (row, _) = self.map.cell(pool, page)?;
        let column = page % self.map.row_pages();
        let row = row.saturating_add_signed(rows).min(self.map.rows().saturating_sub(1));
        let band = self.map.band_at(row)?;
        let page = (row - band.first) as u32;
        let page = page.saturating_mul(self.map.row_pages()).saturating_add(column);
        Some((band.pool, page.min(pools[band.pool].pages.saturating_sub(1))))
    }

    /// The next pool, or the next page of the drilled pool that changed undeclared.
    fn next_match(&self, state: &State, (pool, page): (usize, u32), forward: bool) -> Option<(usize, u32)> {
        if self.drilled {
            let all = violations(state, pool, 0, u32::MAX).map(|(_, page)| page);
            let next = if forward { all.filter(|at| *at > page).min() } else { all.filter(|at| *at < page).max() };
            return next.map(|page| (pool, page));
        }
        let at = self.map.bands.binary_search_by_key(&pool, |band| band.pool).ok()?;
        let next = if forward { at + 1 } else { at.checked_sub(1)? };
        self.map.bands.get(next).map(|band| (band.pool, page))
    }

    fn draw_header(&self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let dot = scene.theme.glyphs.dot;
        match (self.drilled, self.map.group, self.pools.matches(dot)) {
            (true, ..) => header(scene, self.id(), format_args!("esc back"), area, buffer),
            (_, group @ 2.., Some(matches)) => {
                header(scene, self.id(), format_args!("{matches} {dot} {group} pages a cell"), area, buffer)
            }
            (_, _, Some(matches)) => header(scene, self.id(), format_args!("{matches}"), area, buffer),
            (_, group @ 2.., None) => header(scene, self.id(), format_args!("{group} pages a cell"), area, buffer),
            _ => header(scene, self.id(), format_args!(""), area, buffer),
        };
    }

    fn draw_labels(&self, scene: Scene<'_>, selected: usize, area: Rect, buffer: &mut Buffer) {
        let theme = scene.theme;
        for row in 0..area.height {
            let at = self.offset + u64::from(row);
            // A pool whose first row is scrolled away keeps its label on the first row in view.
            let Some(band) = self.map.band_at(at).filter(|band| band.first == at || row == 0) else {
                continue;
            };
            let pool = &pools(scene.state)[band.pool];
            let selected = scene.focused && band.pool == selected;
            let ink = if selected { Ink::Strong } else { Ink::Text };
            let mut pen = Pen::new(buffer, area, row);
            if selected {
                pen.text(theme.ink(Ink::Focus), theme.glyphs.cursor);
            }
            pen.to(2)
                .clip(theme.ink(ink), &pool.family, area.width.saturating_sub(7), theme.glyphs.ellipsis)
                .to(area.width.saturating_sub(4))
                .put(theme.ink(Ink::Dim), format_args!("{}", Layer(pool.layer)));
        }
    }

    fn draw_pages(&self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let (state, theme) = (scene.state, scene.theme);
        let now = now(state);
        let group = self.map.group;
        for row in 0..area.height {
            let at = self.offset + u64::from(row);
            let Some(band) = self.map.band_at(at) else {
                return;
            };
            let cells = pools(state)[band.pool].pages.div_ceil(group);
            let first = ((at - band.first) as u32).saturating_mul(self.map.width);
            let mut pen = Pen::new(buffer, area, row);
            for cell in first..first.saturating_add(self.map.width).min(cells) {
                let level = heat_level(last_write(state, band.pool, cell * group, group), now);
                pen.text(theme.heat(level), theme.glyphs.heat[level]);
            }
        }
    }

    fn draw_violations(&self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let pools = pools(scene.state);
        for (_, at) in &scene.state.canary.violations {
            let pool = usize::from(at.pool);
            if pools.get(pool).is_none_or(|known| at.page >= known.pages) {
                continue;
            }
            if let Some((row, column)) = self.map.cell(pool, at.page)
                && let Some(row) = row.checked_sub(self.offset)
            {
                let row = row.min(u16::MAX.into()) as u16;
                Pen::new(buffer, area, row).to(column as u16).text(loud(scene), VIOLATION);
            }
        }
    }

    /// The cell of the cursor.
    fn draw_cursor(&self, scene: Scene<'_>, (row, column): (u64, u32), area: Rect, buffer: &mut Buffer) {
        let Some(row) = row.checked_sub(self.offset).filter(|row| *row < area.height.into()) else {
            return;
        };
        let cell = Rect { x: area.x + (column as u16).min(area.width), y: area.y + row as u16, width: 1, height: 1 };
        buffer.set_style(cell.intersection(area).intersection(buffer.area), scene.theme.cursor());
    }

    /// The page of the cursor, or the pages of its cell: when they were written, and whether they should have been.
    fn draw_selected(&self, scene: Scene<'_>, (index, page): (usize, u32), area: Rect, buffer: &mut Buffer) {
        let (state, theme) = (scene.state, scene.theme);
        let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
        let pool = &pools(state)[index];
        let group = self.map.group.max(1);
        let first = page / group * group;
        let last = (first + (group - 1)).min(pool.pages.saturating_sub(1));
        let mut pen = Pen::new(buffer, area, 0);
        let family = area.width.saturating_sub(58).max(16);
        pen.skip(2).clip(theme.ink(Ink::Strong), &pool.family, family, theme.glyphs.ellipsis);
        pen.put(theme.ink(Ink::Strong), format_args!(" {}", Layer(pool.layer)));
        if first == last {
            pen.put(text, format_args!(" page {first}"));
        } else {
            let range = theme.glyphs.range;
            pen.put(text, format_args!(" pages {first}{range}{last}"));
        }
        pen.put(dim, format_args!(" of {}  ", Grouped(pool.pages.into())));
        let mut found = violations(state, index, first, last);
        let violation = found.next();
        // On a single row, an undeclared change comes before the last write.
        if area.height > 1 || violation.is_none() {
            match last_write(state, index, first, group) {
                None => pen.text(dim, "never written"),
                Some(step) => pen
                    .put(text, format_args!("written in step {}", Grouped(step)))
                    .put(dim, format_args!(", {} ago", Grouped(now(state).saturating_sub(step)))),
            };
        }
        let mut pen = match area.height {
            2.. => Pen::new(buffer, below(area, 1), 0),
            _ => pen,
        };
        match violation {
            None if area.height > 1 => {
                pen.skip(2).text(dim, "no undeclared change");
            }
            None => {}
            Some((step, page)) => {
                let step = Grouped(step);
                pen.skip(if area.height > 1 { 2 } else { 0 })
                    .put(loud(scene), format_args!("{VIOLATION} page {page} changed undeclared in step {step}"));
                match found.count() {
                    0 => {}
                    1 => {
                        pen.text(text, ", and once before");
                    }
                    more => {
                        pen.put(text, format_args!(", and {} times before", Grouped(more as u64)));
                    }
                }
            }
        }
    }
}

impl Pane for CanaryView {
    fn id(&self) -> PaneId {
        PaneId::Canary
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let pools = pools(scene.state);
        let area = area.intersection(buffer.area);
        let places = Places::new(pools, area);
        (self.map.width, self.map.height) = (places.map.width.into(), places.map.height.into());
        self.arrange(pools);
        self.draw_header(scene, area, buffer);
        summary(scene, places.summary, buffer);
        let Some((pool, page)) = self.place(pools) else {
            let area = below(places.summary, 1);
            return match &self.pools.filter {
                Some(filter) if !pools.is_empty() => no_match(scene, filter, area, buffer),
                _ => {
                    Pen::new(buffer, area, 0).skip(2).text(scene.theme.ink(Ink::Dim), "no pools known yet");
                }
            };
        };
        let cursor = self.map.cell(pool, page).unwrap_or_default();
        let height = u64::from(self.map.height);
        self.offset = self
            .offset
            .min(cursor.0)
            .max((cursor.0 + 1).saturating_sub(height))
            .min(self.map.rows().saturating_sub(height));
        self.draw_labels(scene, pool, places.labels, buffer);
        self.draw_pages(scene, places.map, buffer);
        self.draw_violations(scene, places.map, buffer);
        if scene.focused {
            self.draw_cursor(scene, cursor, places.map, buffer);
        }
        // What is drilled into has no row less for the legend.
        let legend = places.footer.height > if self.drilled { 2 } else { 1 };
        if legend {
            draw_legend(scene, places.footer, buffer);
        }
        if places.footer.height > 0 {
            self.draw_selected(scene, (pool, page), below(places.footer, legend.into()), buffer);
        }
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        let pools = pools(state);
        self.arrange(pools);
        let place @ (pool, page) = self.place(pools)?;
        let group = self.map.group;
        let last_page = |pool: usize| pools[pool].pages.saturating_sub(1);
        let page_rows = i64::from(self.map.height.max(1));
        let down = |rows| self.moved(pools, place, rows);
        let next = match input {
            Input::Left => Some((pool, page.saturating_sub(group))),
            Input::Right => Some((pool, page.saturating_add(group).min(last_page(pool)))),
            Input::Up => down(-1),
            Input::Down => down(1),
            Input::PageUp => down(-page_rows),
            Input::PageDown => down(page_rows),
            Input::HalfUp => down(-(page_rows / 2).max(1)),
            Input::HalfDown => down((page_rows / 2).max(1)),
            Input::First => self.map.bands.first().map(|band| (band.pool, 0)),
            Input::Last => self.map.bands.last().map(|band| (band.pool, last_page(band.pool))),
            Input::NextMatch => self.next_match(state, place, true),
            Input::PreviousMatch => self.next_match(state, place, false),
            Input::Enter => {
                self.drilled = true;
                Some(place)
            }
            Input::Back if self.drilled => {
                self.drilled = false;
                Some(place)
            }
            _ => return None,
        };
        // At an edge a move is understood, and does nothing.
        (self.pool, self.page) = next.unwrap_or(place);
        Some(PaneAction::Redraw)
    }

    fn click(&mut self, state: &State, area: Rect, at: Position) -> Option<PaneAction> {
        let pools = pools(state);
        self.arrange(pools);
        let places = Places::new(pools, area);
        let before = self.place(pools)?;
        let row = self.offset + u64::from(at.y.checked_sub(places.map.y)?);
        let band = *self.map.band_at(row)?;
        let place = if places.map.contains(at) {
            let cell = (row - band.first) as u32;
            let cell = cell.saturating_mul(self.map.width).saturating_add(u32::from(at.x - places.map.x));
            let page = cell.saturating_mul(self.map.group);
            (page < pools[band.pool].pages).then_some((band.pool, page))?
        } else if places.labels.contains(at) {
            let page = if before.0 == band.pool { before.1 } else { 0 };
            (band.pool, page)
        } else {
            return None;
        };
        if self.map.cell(place.0, place.1) == self.map.cell(before.0, before.1) {
            // The cursor's own page, where its cell stands for several.
            (self.pool, self.page) = before;
            self.drilled = true;
        } else {
            (self.pool, self.page) = place;
        }
        Some(PaneAction::Redraw)
    }

    /// One row a page that was ever seen written, or that changed undeclared.
    fn table(&mut self, state: &State) -> Table {
        let pools = pools(state);
        self.arrange(pools);
        let mut last = BTreeMap::new();
        for (step, at) in &state.canary.violations {
            last.insert((usize::from(at.pool), at.page), *step);
        }
        let mut table = Table::new(self.id().name(), &COLUMNS);
        for band in &self.map.bands {
            let (index, pool) = (band.pool, &pools[band.pool]);
            let none = LastWrites::default();
            let written = state.canary.last_written.get(index).unwrap_or(&none);
            for (page, written) in (0..pool.pages).zip(written.iter()) {
                let violated = last.get(&(index, page)).copied();
                if written.is_some() || violated.is_some() {
                    table.push(cells(pool, page, written, violated));
                }
            }
            // Of a pool too large for its writes to be kept, the violations are.
            let unwritten = (index, written.len() as u32)..(index, pool.pages.max(written.len() as u32));
            for ((_, page), step) in last.range(unwritten) {
                table.push(cells(pool, *page, None, Some(*step)));
            }
        }
        table
    }

    fn selected_row(&mut self, state: &State) -> Option<String> {
        let pools = pools(state);
        self.arrange(pools);
        let (index, page) = self.place(pools)?;
        let violated = violations(state, index, page, page).next().map(|(step, _)| step);
        Some(tabbed(cells(&pools[index], page, last_write(state, index, page, 1), violated)))
    }

    fn set_filter(&mut self, filter: Option<Filter>) {
        self.drilled &= filter.is_none();
        self.pools.filter = filter;
    }

    fn filter(&self) -> Option<&Filter> {
        self.pools.filter.as_ref()
    }
}

fn draw_legend(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let theme = scene.theme;
    let dim = theme.ink(Ink::Dim);
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(2);
    let (last, undeclared) = match area.width {
        72.. => ("last step", " undeclared change"),
        _ => ("last", " undeclared"),
    };
    let words = ["never", "older", "in 128", "in 8", last];
    for (level, word) in words.into_iter().enumerate().rev() {
        pen.text(theme.heat(level), theme.glyphs.heat[level]).put(dim, format_args!(" {word}  "));
    }
    pen.text(loud(scene), VIOLATION).text(dim, undeclared);
}

/// Violations are as loud as corrupt text.
fn loud(scene: Scene<'_>) -> Style {
    scene.theme.ink(Ink::Corrupt).reversed()
}

/// One line: whether any page changed undeclared.
fn summary(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let (state, theme) = (scene.state, scene.theme);
    let totals = &state.totals;
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(2);
    if totals.canary_hits > 0 {
        pen.put(loud(scene), format_args!(" {VIOLATION} {} UNDECLARED CHANGES ", Grouped(totals.canary_hits)));
        let last = state.canary.violations.back();
        let pool = last.and_then(|(_, at)| pools(state).get(usize::from(at.pool)));
        if let (Some((step, at)), Some(pool)) = (last, pool) {
            let place = format_args!("{} {} page {}", pool.family, Layer(pool.layer), at.page);
            let long = format_args!("  last: {place} in step {}", Grouped(*step));
            if width_of(long) <= pen.room() {
                pen.put(theme.ink(Ink::Text), long);
            } else {
                pen.put(theme.ink(Ink::Text), format_args!("  {place}, step {}", Grouped(*step)));
            }
        }
        return;
    }
    if totals.pages_checked == 0 {
        pen.text(theme.ink(Ink::Dim), "no page checked yet");
        return;
    }
    pen.put(theme.ink(Ink::Good), format_args!("{} pristine", theme.glyphs.good)).put(
        theme.ink(Ink::Dim),
        format_args!("  no undeclared change in {} page checks", Grouped(totals.pages_checked)),
    );
}

/// A layer as its short name, `L3`.
struct Layer(u16);

impl std::fmt::Display for Layer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "L{}", self.0)
    }
}
