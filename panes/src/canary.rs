//! Canary: a heat map of the watched pages by pool and layer.
//!
//! A cell's glyph says when its page was last written, and an undeclared change is
//! drawn over it. Where there are more pages than cells, a cell stands for a group.

use coalmine_sessions::{PageRef, Pool, State};
use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use crate::{
    Grouped, Ink, Input, Pane, PaneAction, PaneId, Pen, Scene,
    chrome::{below, header},
    pen::text_width,
};

/// Oldest age in steps of each level of heat, hottest first; what is older is the coldest but one.
const AGES: [(usize, u64); 3] = [(4, 1), (3, 8), (2, 128)];
/// Mark of an undeclared change, the same in every theme.
const VIOLATION: &str = "!";

/// View of the canary.
#[derive(Clone, Copy, Debug, Default)]
pub struct CanaryView {
    pool: usize,
    page: u32,
    /// Whether only the selected pool is shown.
    drilled: bool,
    /// First row in view.
    offset: u32,
    map: Map,
}

/// How pages lie on the pane when last drawn.
#[derive(Clone, Copy, Debug, Default)]
struct Map {
    /// Cells a row.
    width: u32,
    /// Pages a cell.
    group: u32,
    /// The only pool shown, if one is.
    only: Option<usize>,
}

impl Map {
    fn new(pools: &[Pool], only: Option<usize>, width: u16, height: u16) -> Self {
        let mut map = Self { width: u32::from(width).max(1), group: 1, only };
        // A group so large that each pool takes one row cannot save any more rows.
        while map.rows_before(pools, pools.len()) > u32::from(height)
            && map.shown(pools).any(|(_, pool)| map.rows(pool) > 1)
        {
            map.group = map.group.saturating_mul(2);
        }
        map
    }

    fn shown<'p>(&self, pools: &'p [Pool]) -> impl Iterator<Item = (usize, &'p Pool)> + use<'p> {
        let only = self.only;
        pools.iter().enumerate().filter(move |(index, _)| only.is_none_or(|only| only == *index))
    }

    fn rows(&self, pool: &Pool) -> u32 {
        pool.pages.div_ceil(self.group).div_ceil(self.width).max(1)
    }

    fn rows_before(&self, pools: &[Pool], index: usize) -> u32 {
        self.shown(pools)
            .take_while(|(other, _)| *other < index)
            .fold(0, |rows, (_, pool)| rows.saturating_add(self.rows(pool)))
    }

    /// Row and column of a page.
    fn cell(&self, pools: &[Pool], pool: usize, page: u32) -> (u32, u32) {
        let cell = page / self.group;
        let row = self.rows_before(pools, pool) + cell / self.width;
        (row, cell % self.width)
    }
}

fn pools(state: &State) -> &[Pool] {
    state.hello.as_ref().map_or(&[], |hello| &hello.pools)
}

/// The last write among `pages` of a pool.
fn last_write(state: &State, pool: usize, first: u32, count: u32) -> Option<u64> {
    let written = state.canary.last_written.get(pool)?;
    let end = (first.saturating_add(count) as usize).min(written.len());
    let pages = written.get(first as usize..end)?;
    pages.iter().flatten().max().copied()
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

impl Pane for CanaryView {
    fn id(&self) -> PaneId {
        PaneId::Canary
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let pools = pools(scene.state);
        let area = match (self.drilled, self.map.group) {
            (true, _) => header(scene, self.id(), format_args!("esc back"), area, buffer),
            (false, group @ 2..) => {
                let note = format_args!("{group} pages a cell");
                header(scene, self.id(), note, area, buffer)
            }
            _ => header(scene, self.id(), format_args!(""), area, buffer),
        };
        summary(scene, area, buffer);
        let area = below(area, 1);
        if pools.is_empty() {
            Pen::new(buffer, area, 0).skip(2).text(scene.theme.ink(Ink::Dim), "no pools known yet");
            return;
        }
        self.pool = self.pool.min(pools.len() - 1);
        self.page = self.page.min(pools[self.pool].pages.saturating_sub(1));
        // The legend and the selected page keep their two rows while the map keeps three.
        let footer = area.height.saturating_sub(3).min(2);
        let family = pools.iter().map(|pool| text_width(&pool.family)).max();
        let label = (family.unwrap_or(0) + 8).min(area.width / 3);
        let map_area = Rect {
            x: area.x + label,
            width: area.width.saturating_sub(label + 1),
            height: area.height - footer,
            ..area
        };
        let only = self.drilled.then_some(self.pool);
        self.map = Map::new(pools, only, map_area.width, map_area.height);
        let total = self.map.rows_before(pools, pools.len());
        let (selected_row, selected_column) = self.map.cell(pools, self.pool, self.page);
        let height = u32::from(map_area.height);
        self.offset = self
            .offset
            .min(selected_row)
            .max((selected_row + 1).saturating_sub(height))
            .min(total.saturating_sub(height));
        self.draw_labels(scene, area, label, footer, buffer);
        self.draw_pages(scene, map_area, buffer);
        self.draw_violations(scene, map_area, buffer);
        if scene.focused
            && let Some(row) = selected_row.checked_sub(self.offset)
            && row < height
        {
            let cell = Rect {
                x: map_area.x + (selected_column as u16).min(map_area.width),
                y: map_area.y + row as u16,
                width: 1,
                height: 1,
            };
            buffer.set_style(cell.intersection(map_area).intersection(buffer.area), scene.theme.cursor());
        }
        if footer > 1 {
            self.draw_legend(scene, area, area.height - 2, buffer);
        }
        if footer > 0 {
            self.draw_selected(scene, area, area.height - 1, buffer);
        }
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        let pools = pools(state);
        let last_pool = pools.len().checked_sub(1)?;
        let pool = self.pool.min(last_pool);
        let last_page = pools[pool].pages.saturating_sub(1);
        let group = self.map.group.max(1);
        let row = group.saturating_mul(self.map.width.max(1));
        match input {
            Input::Left => self.page = self.page.saturating_sub(group),
            Input::Right => self.page = self.page.saturating_add(group).min(last_page),
            Input::Up if self.page >= row => self.page -= row,
            Input::Down if last_page / row > self.page / row => {
                self.page = self.page.saturating_add(row).min(last_page);
            }
            Input::Up | Input::PageUp | Input::HalfUp if !self.drilled && pool > 0 => {
                self.pool = pool - 1;
                let pages = pools[self.pool].pages;
                // Into the last row of the pool above, in the same column.
                let last_row = pages.saturating_sub(1) / row * row;
                let page = last_row.saturating_add(self.page % row);
                self.page = page.min(pages.saturating_sub(1));
            }
            Input::Down | Input::PageDown | Input::HalfDown if !self.drilled && pool < last_pool => {
                self.pool = pool + 1;
                let pages = pools[self.pool].pages;
                self.page = (self.page % row).min(pages.saturating_sub(1));
            }
            Input::First => (self.pool, self.page) = (if self.drilled { pool } else { 0 }, 0),
            Input::Last => {
                self.pool = if self.drilled { pool } else { last_pool };
                self.page = pools[self.pool].pages.saturating_sub(1);
            }
            Input::Enter => self.drilled = true,
            Input::Back if self.drilled => self.drilled = false,
            // At an edge a move is understood, and does nothing.
            Input::Up | Input::Down | Input::PageUp | Input::PageDown | Input::HalfUp | Input::HalfDown => {}
            _ => return None,
        }
        Some(PaneAction::Redraw)
    }
}

impl CanaryView {
    fn draw_labels(&self, scene: Scene<'_>, area: Rect, label: u16, footer: u16, buffer: &mut Buffer) {
        let theme = scene.theme;
        let pools = pools(scene.state);
        let labels = Rect { width: label.saturating_sub(1), height: area.height - footer, ..area };
        for (index, pool) in self.map.shown(pools) {
            let first = self.map.rows_before(pools, index);
            // A pool whose first row is scrolled away keeps its label on the first row in view.
            let end = first + self.map.rows(pool);
            let row = first.max(self.offset.min(end - 1));
            let Some(row) = row.checked_sub(self.offset) else {
                continue;
            };
            let selected = scene.focused && index == self.pool;
            let ink = if selected { Ink::Strong } else { Ink::Text };
            let mut pen = Pen::new(buffer, labels, row.min(u32::from(u16::MAX)) as u16);
            if selected {
                pen.text(theme.ink(Ink::Focus), theme.glyphs.cursor);
            }
            pen.to(2)
                .clip(theme.ink(ink), &pool.family, labels.width.saturating_sub(7), theme.glyphs.ellipsis)
                .to(labels.width.saturating_sub(4))
                .put(theme.ink(Ink::Dim), format_args!("{}", Layer(pool.layer)));
        }
    }

    fn draw_pages(&self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let (state, theme) = (scene.state, scene.theme);
        let pools = pools(state);
        let now = now(state);
        let group = self.map.group;
        for (index, pool) in self.map.shown(pools) {
            let first_row = self.map.rows_before(pools, index);
            for row in 0..self.map.rows(pool) {
                let Some(y) = (first_row + row).checked_sub(self.offset) else {
                    continue;
                };
                if y >= u32::from(area.height) {
                    return;
                }
                let mut pen = Pen::new(buffer, area, y as u16);
                let cells = pool.pages.div_ceil(group);
                let first = row.saturating_mul(self.map.width);
                for cell in first..first.saturating_add(self.map.width).min(cells) {
                    let written = last_write(state, index, cell * group, group);
                    let level = heat_level(written, now);
                    pen.text(theme.heat(level), theme.glyphs.heat[level]);
                }
            }
        }
    }

    fn draw_violations(&self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let pools = pools(scene.state);
        let style = loud(scene);
        for (_, at) in &scene.state.canary.violations {
            let pool = usize::from(at.pool);
            let shown = self.map.only.is_none_or(|only| only == pool);
            if !shown || pools.get(pool).is_none_or(|known| at.page >= known.pages) {
                continue;
            }
            let (row, column) = self.map.cell(pools, pool, at.page);
            if let Some(row) = row.checked_sub(self.offset) {
                Pen::new(buffer, area, row.min(u32::from(u16::MAX)) as u16).to(column as u16).text(style, VIOLATION);
            }
        }
    }

    fn draw_legend(&self, scene: Scene<'_>, area: Rect, row: u16, buffer: &mut Buffer) {
        let theme = scene.theme;
        let dim = theme.ink(Ink::Dim);
        let mut pen = Pen::new(buffer, area, row);
        pen.skip(2);
        let words = ["never", "older", "in 128", "in 8", "last step"];
        for (level, word) in words.into_iter().enumerate().rev() {
            pen.text(theme.heat(level), theme.glyphs.heat[level]).put(dim, format_args!(" {word}  "));
        }
        pen.text(loud(scene), VIOLATION).text(dim, " undeclared change");
    }

    fn draw_selected(&self, scene: Scene<'_>, area: Rect, row: u16, buffer: &mut Buffer) {
        let (state, theme) = (scene.state, scene.theme);
        let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
        let Some(pool) = pools(state).get(self.pool) else {
            return;
        };
        let group = self.map.group.max(1);
        let first = self.page / group * group;
        let last = (first + (group - 1)).min(pool.pages.saturating_sub(1));
        let mut pen = Pen::new(buffer, area, row);
        pen.skip(2).put(theme.ink(Ink::Strong), format_args!("{} {}", pool.family, Layer(pool.layer)));
        if first == last {
            pen.put(text, format_args!(" page {first}"));
        } else {
            let range = theme.glyphs.range;
            pen.put(text, format_args!(" pages {first}{range}{last}"));
        }
        pen.put(dim, format_args!(" of {}  ", Grouped(pool.pages.into())));
        match last_write(state, self.pool, first, group) {
            None => pen.text(dim, "never written"),
            Some(step) => pen
                .put(text, format_args!("written in step {}", Grouped(step)))
                .put(dim, format_args!(", {} ago", Grouped(now(state).saturating_sub(step)))),
        };
        let here = |at: &PageRef| usize::from(at.pool) == self.pool && (first..=last).contains(&at.page);
        let violations = &state.canary.violations;
        if let Some((step, at)) = violations.iter().rev().find(|(_, at)| here(at)) {
            pen.text(dim, "  ").put(
                loud(scene),
                format_args!("{VIOLATION} page {} changed undeclared in step {}", at.page, Grouped(*step)),
            );
        }
    }
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
        if let Some((step, at)) = state.canary.violations.back() {
            let pool = pools(state).get(usize::from(at.pool));
            pen.text(theme.ink(Ink::Text), "  last: ");
            if let Some(pool) = pool {
                pen.put(theme.ink(Ink::Text), format_args!("{} {} ", pool.family, Layer(pool.layer)));
            }
            pen.put(theme.ink(Ink::Text), format_args!("page {} in step {}", at.page, Grouped(*step)));
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
