//! Timeline: the nodes of one step in time, a row a lane; drilled in, what runs beside one node.
//!
//! It shows the last step whose spans are known. Every node is drawn alike: which of them race is
//! for the reader to see, and for the hazard analysis to say.

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use coalmine_sessions::{Sanitized, Span, SpanBatch, State, Step};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::Modifier,
};

use crate::{
    Cell, Filter, Grouped, Ink, Input, Nanoseconds, Pane, PaneAction, PaneId, Pen, Scene, Table,
    chrome::{below, header, no_match},
    filter::Matches,
    pen::{text_width, width_of},
    sheet::{Scroll, Sheet},
    table::tabbed,
};

const COLUMNS: [&str; 7] = ["step", "node", "name", "lane", "start_ns", "duration_ns", "lanes_beside"];
/// A lane is a `u8` in a span.
const LANES: usize = 256;
/// Shortest stretch of time that fills the pane, ns.
const SHORTEST_VIEW: u64 = 50;
/// Tallest a lane is drawn.
const LANE_ROWS: u16 = 3;
/// Cells that lane names take at most.
const LABEL: u16 = 20;

/// View of the timeline.
#[derive(Clone, Debug, Default)]
pub struct TimelineView {
    filter: Option<Filter>,
    /// The node under the cursor: it stays when the step changes.
    node: Option<u32>,
    /// The stretch in view, ns from the step's start; all of it when there is none.
    window: Option<Window>,
    lane_offset: u16,
    /// Lanes that run in each cell, one bit a lane; kept to spare an allocation a frame.
    busy: Vec<u64>,
    /// Whether the node under the cursor is shown alone, with what runs beside it.
    drilled: bool,
    scroll: Scroll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    start: u64,
    length: u64,
}

/// One step's spans with what the pane needs to place them.
struct Frame<'a> {
    batch: &'a SpanBatch,
    step: Option<&'a Step>,
    /// Target time at which the step began.
    origin: u64,
    /// From there to the end of its last span.
    length: u64,
}

impl<'a> Frame<'a> {
    fn of(state: &'a State) -> Option<Self> {
        Some(Self::new(state, state.spans.back()?))
    }

    fn new(state: &'a State, batch: &'a SpanBatch) -> Self {
        let step = find_step(state, batch.step);
        let first = batch.spans.iter().map(|span| span.start_ns).min();
        let first = first.unwrap_or(0);
        let origin = step.map_or(first, |step| step.start_ns.min(first));
        let last = batch.spans.iter().map(end_of).max().unwrap_or(origin);
        Self { batch, step, origin, length: last.saturating_sub(origin).max(1) }
    }

    fn span(&self, node: Option<u32>) -> Option<&'a Span> {
        let node = node?;
        self.batch.spans.iter().find(|span| span.node == node)
    }

    fn start(&self, span: &Span) -> u64 {
        span.start_ns.saturating_sub(self.origin)
    }

    /// What runs on other lanes while a span runs.
    fn beside<'s>(&'s self, span: &'s Span) -> impl Iterator<Item = &'a Span> + 's {
        let spans = self.batch.spans.iter();
        spans.filter(|other| other.lane != span.lane && shared(span, other) > 0)
    }
}

fn end_of(span: &Span) -> u64 {
    span.start_ns.saturating_add(u64::from(span.duration_ns))
}

/// Nanoseconds for which two spans ran at the same time.
fn shared(left: &Span, right: &Span) -> u64 {
    let start = left.start_ns.max(right.start_ns);
    end_of(left).min(end_of(right)).saturating_sub(start)
}

fn find_step(state: &State, step: u64) -> Option<&Step> {
    let at = state.steps.binary_search_by_key(&step, |step| step.step);
    state.steps.get(at.ok()?)
}

fn node_name<'a>(state: &'a State, batch: &SpanBatch, node: u32) -> &'a str {
    let graph = state.graphs.get(&batch.graph);
    graph.and_then(|graph| graph.nodes.get(node as usize)).map_or("?", Sanitized::as_str)
}

/// A node's name, without its layer where that would not leave room for the rest.
fn fitting(name: &str, room: u16) -> &str {
    if text_width(name) <= room {
        return name;
    }
    name.split_once(' ').map_or(name, |(_, rest)| rest)
}

fn lane_name(state: &State, lane: u8) -> &str {
    let lanes = state.hello.as_ref().map(|hello| &hello.lanes);
    lanes.and_then(|lanes| lanes.get(usize::from(lane))).map_or("?", Sanitized::as_str)
}

/// Rows of each part of the pane; what matters least is the first to go.
struct Rows {
    info: u16,
    lanes: u16,
    busy: u16,
    axis: u16,
    lane: u16,
}

impl Rows {
    fn new(height: u16, lanes: u16) -> Self {
        let mut left = height.saturating_sub(lanes.max(1));
        let mut take = |rows: u16| {
            let taken = if left >= rows { rows } else { 0 };
            left -= taken;
            taken
        };
        let details = take(1);
        let axis = take(1);
        let info = take(1);
        let busy = take(1);
        let details = details + take(1);
        let lane = (1 + left / lanes.max(1)).min(LANE_ROWS);
        let others = details + axis + info + busy;
        Self { info, busy, axis, lane, lanes: (lanes * lane).min(height.saturating_sub(others)) }
    }
}

/// Where the parts of the pane are.
struct Places {
    info: Rect,
    labels: Rect,
    chart: Rect,
    /// Rows of a lane.
    lane: u16,
    /// Lanes in view.
    lanes: u16,
    busy: Rect,
    axis: Rect,
    details: Rect,
}

impl Places {
    fn new(state: &State, lanes: u16, area: Rect) -> Self {
        let rows = Rows::new(area.height, lanes);
        let names = state.hello.as_ref().map(|hello| &hello.lanes);
        let longest = names.and_then(|names| names.iter().map(|name| text_width(name)).max());
        let label = longest.unwrap_or(1).saturating_add(4).min(LABEL).min(area.width / 4);
        let beside = |area: Rect| Rect { x: area.x + label, width: area.width.saturating_sub(label + 1), ..area };
        let mut left = area;
        let mut take = |rows: u16| {
            let taken = Rect { height: rows.min(left.height), ..left };
            left = below(left, rows);
            taken
        };
        let (info, labels, busy, axis) = (take(rows.info), take(rows.lanes), take(rows.busy), take(rows.axis));
        let lanes = (rows.lanes / rows.lane.max(1)).max(1);
        let labels = Rect { width: label, ..labels };
        let chart = beside(Rect { width: area.width, ..labels });
        Self { info, labels, chart, lane: rows.lane, lanes, busy, axis: beside(axis), details: left }
    }
}

/// The stretch of time that each cell of the chart stands for.
#[derive(Clone, Copy)]
struct Scale {
    window: Window,
    width: u16,
}

impl Scale {
    /// The first cell of a stretch of time and the one after its last, if it is in view.
    fn cells(self, start: u64, end: u64) -> Option<(u16, u16)> {
        let Window { start: first, length } = self.window;
        if self.width == 0 || end < first || start >= first.saturating_add(length) {
            return None;
        }
        let cell = |time: u64| {
            let into = time.saturating_sub(first).min(length);
            (u128::from(into) * u128::from(self.width) / u128::from(length.max(1))) as u16
        };
        let left = cell(start).min(self.width - 1);
        Some((left, cell(end).max(left + 1)))
    }
}

impl Pane for TimelineView {
    fn id(&self) -> PaneId {
        PaneId::Timeline
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        let (state, theme) = (scene.state, scene.theme);
        let Some(frame) = Frame::of(state) else {
            let style = theme.ink(Ink::Dim);
            let area = header(scene, self.id(), format_args!(""), area, buffer);
            Pen::new(buffer, area, 0).skip(2).text(style, "no step has been timed yet");
            return;
        };
        // A cursor that this step has no node for is kept, and not shown.
        let selected = frame.span(self.node);
        if let (true, Some(span)) = (self.drilled, selected) {
            self.scroll.show(below(area, 1), buffer, |sheet| {
                draw_span(sheet, scene, &frame, span);
                None
            });
            header(scene, self.id(), format_args!("{}esc back", self.scroll.note(theme)), area, buffer);
            return;
        }
        let spans = frame.batch.spans.iter();
        let matching = spans.filter(|span| self.accepts(state, &frame, span)).count();
        self.draw_header(scene, &frame, matching, area, buffer);
        let lanes = lane_count(state, frame.batch);
        let places = Places::new(state, lanes, below(area, 1));
        if let Some(span) = selected {
            let lane = u16::from(span.lane);
            self.lane_offset = self.lane_offset.min(lane).max((lane + 1).saturating_sub(places.lanes));
        }
        self.lane_offset = self.lane_offset.min(lanes.saturating_sub(places.lanes));
        match &self.filter {
            Some(filter) if matching == 0 => no_match(scene, filter, places.info, buffer),
            _ => draw_info(scene, &frame, places.info, buffer),
        }
        self.draw_labels(scene, selected, &places, buffer);
        self.draw_spans(scene, &frame, selected, &places, buffer);
        if places.busy.height > 0 {
            let (style, room) = (theme.ink(Ink::Dim), places.labels.width.saturating_sub(3));
            Pen::new(buffer, places.busy, 0).skip(2).clip(style, "lanes busy", room, theme.glyphs.ellipsis);
            self.draw_busy(scene, Rect { y: places.busy.y, height: 1, ..places.chart }, buffer);
        }
        draw_axis(scene, self.window(&frame), places.axis, buffer);
        match selected {
            Some(span) => draw_selected(scene, &frame, span, places.details, buffer),
            None => self.draw_hint(scene, places.details, buffer),
        }
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        let frame = Frame::of(state);
        let drilled = self.drilled && frame.as_ref().is_some_and(|frame| frame.span(self.node).is_some());
        if input == Input::Back {
            if self.drilled {
                self.drilled = false;
            } else if self.window.take().is_none() {
                self.node.take()?;
            }
            return Some(PaneAction::Redraw);
        }
        let frame = frame?;
        match input {
            Input::NextMatch => self.select_match(state, &frame, true),
            Input::PreviousMatch => self.select_match(state, &frame, false),
            _ if drilled => return self.scroll.handle(input).then_some(PaneAction::Redraw),
            Input::Fit => self.window = None,
            Input::ZoomIn => self.zoom(&frame, 0.5),
            Input::ZoomOut => self.zoom(&frame, 2.0),
            Input::PanLeft => self.pan(&frame, -1),
            Input::PanRight => self.pan(&frame, 1),
            Input::Enter => self.drill(&frame),
            Input::PreviousSpan | Input::Left => self.move_along(&frame, false),
            Input::NextSpan | Input::Right => self.move_along(&frame, true),
            Input::Up => self.move_across(&frame, false),
            Input::Down => self.move_across(&frame, true),
            Input::First => self.select(&frame, first_of(&frame, self.node, false)),
            Input::Last => self.select(&frame, first_of(&frame, self.node, true)),
            _ => return None,
        }
        Some(PaneAction::Redraw)
    }

    fn click(&mut self, state: &State, area: Rect, at: Position) -> Option<PaneAction> {
        let frame = Frame::of(state)?;
        if self.drilled && frame.span(self.node).is_some() {
            return None;
        }
        let places = Places::new(state, lane_count(state, frame.batch), below(area, 1));
        if !places.chart.contains(at) {
            return None;
        }
        let lane = self.lane_offset + (at.y - places.chart.y) / places.lane.max(1);
        let scale = self.scale(&frame, &places);
        let column = at.x - places.chart.x;
        let under = frame.batch.spans.iter().filter(|span| u16::from(span.lane) == lane).filter(|span| {
            let start = frame.start(span);
            let cells = scale.cells(start, start.saturating_add(span.duration_ns.into()));
            cells.is_some_and(|(left, right)| (left..right).contains(&column))
        });
        // Of several in one cell, the one under the cursor, else the longest.
        let span = under.max_by_key(|span| (self.node == Some(span.node), span.duration_ns))?;
        if self.node == Some(span.node) {
            self.drill(&frame);
        } else {
            self.select(&frame, Some(span));
        }
        Some(PaneAction::Redraw)
    }

    /// One row a node of the step shown, with the lanes that run beside it.
    fn table(&mut self, state: &State) -> Table {
        let mut table = Table::new(self.id().name(), &COLUMNS);
        let Some(frame) = Frame::of(state) else {
            return table;
        };
        let lanes = Lanes::new(&frame);
        for span in frame.batch.spans.iter().filter(|span| self.accepts(state, &frame, span)) {
            table.push(cells(state, &frame, &lanes, span));
        }
        table
    }

    fn selected_row(&mut self, state: &State) -> Option<String> {
        let frame = Frame::of(state)?;
        let span = frame.span(self.node)?;
        Some(tabbed(cells(state, &frame, &Lanes::new(&frame), span)))
    }

    fn set_filter(&mut self, filter: Option<Filter>) {
        self.drilled &= filter.is_none();
        self.filter = filter;
    }

    fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }
}

fn cells<'s>(state: &'s State, frame: &Frame<'_>, lanes: &Lanes, span: &Span) -> [Cell<'s>; COLUMNS.len()] {
    let beside: Vec<&str> = lanes.beside(span).map(|lane| lane_name(state, lane)).collect();
    [
        frame.batch.step.into(),
        span.node.into(),
        node_name(state, frame.batch, span.node).into(),
        lane_name(state, span.lane).into(),
        frame.start(span).into(),
        span.duration_ns.into(),
        beside.join(" ").into(),
    ]
}

/// When something runs on each lane: starts with the latest end so far, by start.
struct Lanes(BTreeMap<u8, Vec<(u64, u64)>>);

impl Lanes {
    fn new(frame: &Frame<'_>) -> Self {
        let mut lanes: BTreeMap<u8, Vec<(u64, u64)>> = BTreeMap::new();
        for span in frame.batch.spans.iter().filter(|span| span.duration_ns > 0) {
            lanes.entry(span.lane).or_default().push((span.start_ns, end_of(span)));
        }
        for spans in lanes.values_mut() {
            spans.sort_unstable();
            let mut latest = 0;
            for (_, end) in spans {
                latest = latest.max(*end);
                *end = latest;
            }
        }
        Self(lanes)
    }

    /// The other lanes on which something runs while a span does.
    fn beside(&self, span: &Span) -> impl Iterator<Item = u8> {
        let (own, start, end) = (span.lane, span.start_ns, end_of(span));
        let running = move |spans: &[(u64, u64)]| {
            let begun = spans.partition_point(|(other, _)| *other < end);
            begun > 0 && spans[begun - 1].1 > start
        };
        let lanes = self.0.iter().filter(move |(lane, spans)| start < end && **lane != own && running(spans));
        lanes.map(|(lane, _)| *lane)
    }
}

/// Lanes that the target named, or more if a span is on one beyond them.
fn lane_count(state: &State, batch: &SpanBatch) -> u16 {
    let named = state.hello.as_ref().map_or(0, |hello| hello.lanes.len());
    let used = batch.spans.iter().map(|span| u16::from(span.lane) + 1).max();
    used.unwrap_or(1).max(named.min(LANES) as u16)
}

/// The first (or last) span of the lane that `node` is on, or of the whole step.
fn first_of<'a>(frame: &Frame<'a>, node: Option<u32>, last: bool) -> Option<&'a Span> {
    let lane = frame.span(node).map(|span| span.lane);
    let spans = frame.batch.spans.iter();
    let spans = spans.filter(|span| lane.is_none_or(|lane| span.lane == lane));
    if last { spans.max_by_key(|span| span.start_ns) } else { spans.min_by_key(|span| span.start_ns) }
}

impl TimelineView {
    /// Whether the filter lets a node through: it is looked for by name and lane.
    fn accepts(&self, state: &State, frame: &Frame<'_>, span: &Span) -> bool {
        self.filter.as_ref().is_none_or(|filter| {
            let (name, lane) = (node_name(state, frame.batch, span.node), lane_name(state, span.lane));
            filter.accepts(&[Cell::from(name), Cell::from(lane)])
        })
    }

    /// The next span in time that the filter lets through; after the last one, the first.
    fn select_match(&mut self, state: &State, frame: &Frame<'_>, forward: bool) {
        let key = |span: &&Span| (span.start_ns, span.node);
        let current = frame.span(self.node).map(|span| key(&span));
        let matching = || frame.batch.spans.iter().filter(|span| self.accepts(state, frame, span));
        let (beyond, around) = if forward {
            let beyond = matching().filter(|span| current.is_none_or(|current| key(span) > current));
            (beyond.min_by_key(key), matching().min_by_key(key))
        } else {
            let beyond = matching().filter(|span| current.is_none_or(|current| key(span) < current));
            (beyond.max_by_key(key), matching().max_by_key(key))
        };
        self.scroll.reset();
        self.select(frame, beyond.or(around));
    }

    fn scale(&self, frame: &Frame<'_>, places: &Places) -> Scale {
        Scale { window: self.window(frame), width: places.chart.width }
    }

    fn window(&self, frame: &Frame<'_>) -> Window {
        self.window.unwrap_or(Window { start: 0, length: frame.length })
    }

    fn set_window(&mut self, frame: &Frame<'_>, start: u64, length: u64) {
        if length >= frame.length {
            self.window = None;
            return;
        }
        let length = length.max(SHORTEST_VIEW);
        let start = start.min(frame.length.saturating_sub(length));
        self.window = Some(Window { start, length });
    }

    fn zoom(&mut self, frame: &Frame<'_>, factor: f64) {
        let window = self.window(frame);
        let middle = window.start + window.length / 2;
        let selected =
            frame.span(self.node).map(|span| frame.start(span).saturating_add(u64::from(span.duration_ns) / 2));
        let end = window.start + window.length;
        let centre = selected.filter(|at| (window.start..=end).contains(at)).unwrap_or(middle);
        let length = (window.length as f64 * factor) as u64;
        self.set_window(frame, centre.saturating_sub(length / 2), length);
    }

    fn pan(&mut self, frame: &Frame<'_>, direction: i64) {
        let window = self.window(frame);
        let distance = (window.length / 4).max(1);
        let start =
            if direction < 0 { window.start.saturating_sub(distance) } else { window.start.saturating_add(distance) };
        self.set_window(frame, start, window.length);
    }

    /// To a first span; then to the stretch around it; then to what runs beside it.
    fn drill(&mut self, frame: &Frame<'_>) {
        let Some(span) = frame.span(self.node) else {
            return self.select(frame, first_of(frame, None, false));
        };
        // Four times the span, so that its neighbours and what overlaps it are seen.
        let length = u64::from(span.duration_ns).max(1) * 4;
        let start = frame.start(span).saturating_sub(length * 3 / 8);
        let before = self.window;
        self.set_window(frame, start, length);
        if self.window == before {
            self.drilled = true;
            self.scroll.reset();
        }
    }

    fn move_along(&mut self, frame: &Frame<'_>, forward: bool) {
        let Some(current) = frame.span(self.node) else {
            return self.select(frame, first_of(frame, None, false));
        };
        let key = |span: &Span| (span.start_ns, span.node);
        let others = frame.batch.spans.iter();
        let others = others.filter(|span| span.lane == current.lane);
        let next = if forward {
            others.filter(|span| key(span) > key(current)).min_by_key(|span| key(span))
        } else {
            others.filter(|span| key(span) < key(current)).max_by_key(|span| key(span))
        };
        self.select(frame, next.or(Some(current)));
    }

    fn move_across(&mut self, frame: &Frame<'_>, down: bool) {
        let Some(current) = frame.span(self.node) else {
            return self.select(frame, first_of(frame, None, false));
        };
        let others = || frame.batch.spans.iter();
        let lane = if down {
            others().map(|span| span.lane).filter(|lane| *lane > current.lane).min()
        } else {
            others().map(|span| span.lane).filter(|lane| *lane < current.lane).max()
        };
        let Some(lane) = lane else { return };
        let next = others().filter(|span| span.lane == lane).max_by_key(|span| {
            let apart = current.start_ns.abs_diff(span.start_ns);
            (shared(current, span), Reverse(apart))
        });
        self.select(frame, next);
    }

    /// Puts the cursor on a span and brings it into view.
    fn select(&mut self, frame: &Frame<'_>, span: Option<&Span>) {
        let Some(span) = span else { return };
        self.node = Some(span.node);
        if let Some(window) = self.window {
            let (start, end) = (frame.start(span), end_of(span).saturating_sub(frame.origin));
            if start < window.start || end > window.start + window.length {
                let middle = start.saturating_add(u64::from(span.duration_ns) / 2);
                let start = middle.saturating_sub(window.length / 2);
                self.set_window(frame, start, window.length);
            }
        }
    }

    fn draw_header(&self, scene: Scene<'_>, frame: &Frame<'_>, matching: usize, area: Rect, buffer: &mut Buffer) {
        let (state, dot) = (scene.state, scene.theme.glyphs.dot);
        let step = frame.batch.step;
        let last = state.steps.back().map(|last| last.step).filter(|last| *last != step);
        let step = fmt::from_fn(|formatter| {
            write!(formatter, "step {}", Grouped(step))?;
            last.map_or(Ok(()), |last| write!(formatter, " {dot} step {} has no spans", Grouped(last)))
        });
        if let Some(filter) = &self.filter {
            let matches = Matches { filter, shown: matching, all: frame.batch.spans.len(), dot };
            header(scene, self.id(), format_args!("{step} {dot} {matches}"), area, buffer);
        } else {
            header(scene, self.id(), format_args!("{step}"), area, buffer);
        }
    }

    fn draw_labels(&self, scene: Scene<'_>, selected: Option<&Span>, places: &Places, buffer: &mut Buffer) {
        let (theme, area) = (scene.theme, places.labels);
        for (index, row) in (0..area.height).step_by(places.lane.into()).enumerate() {
            let lane = self.lane_offset + index as u16;
            let Ok(lane) = u8::try_from(lane) else { break };
            let current = scene.focused && selected.is_some_and(|span| span.lane == lane);
            let ink = if current { Ink::Strong } else { Ink::Text };
            let middle = (row + places.lane / 2).min(area.height - 1);
            let mut pen = Pen::new(buffer, area, middle);
            if current {
                pen.text(theme.ink(Ink::Focus), theme.glyphs.cursor);
            }
            let room = area.width.saturating_sub(3);
            pen.to(2).clip(theme.ink(ink), lane_name(scene.state, lane), room, theme.glyphs.ellipsis);
        }
    }

    fn draw_spans(
        &mut self,
        scene: Scene<'_>,
        frame: &Frame<'_>,
        selected: Option<&Span>,
        places: &Places,
        buffer: &mut Buffer,
    ) {
        let (theme, chart) = (scene.theme, places.chart);
        self.busy.clear();
        self.busy.resize(usize::from(chart.width), 0);
        if chart.width == 0 {
            return;
        }
        for row in (0..chart.height).step_by(places.lane.into()) {
            let middle = (row + places.lane / 2).min(chart.height - 1);
            let style = theme.ink(Ink::Rule);
            Pen::new(buffer, chart, middle).repeat(style, theme.glyphs.idle, chart.width);
        }
        // What the filter does not let through lies below what it does.
        if self.filter.is_some() {
            self.draw_layer(scene, frame, selected, places, false, buffer);
        }
        self.draw_layer(scene, frame, selected, places, true, buffer);
    }

    /// Draws the spans that the filter lets through, or the others, in the ink of a lane at rest.
    fn draw_layer(
        &mut self,
        scene: Scene<'_>,
        frame: &Frame<'_>,
        selected: Option<&Span>,
        places: &Places,
        matching: bool,
        buffer: &mut Buffer,
    ) {
        let (state, theme, chart) = (scene.state, scene.theme, places.chart);
        let scale = self.scale(frame, places);
        // The end of what is drawn on each lane, and whether the last span there was odd.
        let mut drawn = [(0u16, false); LANES];
        for span in &frame.batch.spans {
            let start = frame.start(span);
            let end = start.saturating_add(u64::from(span.duration_ns));
            let Some((left, right)) = scale.cells(start, end) else {
                continue;
            };
            if self.accepts(state, frame, span) != matching {
                continue;
            }
            for cell in &mut self.busy[usize::from(left)..usize::from(right)] {
                *cell |= 1 << span.lane.min(63);
            }
            let (taken, odd) = &mut drawn[usize::from(span.lane)];
            let crowded = left < *taken;
            let free = left.max(*taken);
            *odd = !*odd;
            let mut style = if matching { theme.span(usize::from(span.lane), *odd) } else { theme.ink(Ink::Rule) };
            if let Some(selected) = selected {
                if selected.node == span.node {
                    style = theme.selected_span();
                } else if shared(selected, span) > 0 && selected.lane != span.lane {
                    style = style.add_modifier(Modifier::UNDERLINED | Modifier::BOLD);
                }
            }
            *taken = right.max(*taken);
            let Some(row) = u16::from(span.lane).checked_sub(self.lane_offset) else {
                continue;
            };
            let first = row.saturating_mul(places.lane);
            for row in first..first.saturating_add(places.lane).min(chart.height) {
                let mut pen = Pen::new(buffer, chart, row);
                if crowded {
                    pen.to(left).text(style, theme.glyphs.dense);
                }
                let cells = right.saturating_sub(free);
                if cells == 0 {
                    continue;
                }
                let edge = if start < scale.window.start { " " } else { theme.glyphs.span_edge };
                pen.to(free).text(style, edge);
                let room = cells - 1;
                if row == first + places.lane / 2 && room >= 3 {
                    let name = fitting(node_name(state, frame.batch, span.node), room);
                    pen.clip(style, name, room, theme.glyphs.ellipsis);
                }
                let rest = (free + cells).saturating_sub(pen.column());
                pen.repeat(style, " ", rest);
            }
        }
    }

    /// How many lanes run in each cell, where it is more than one.
    fn draw_busy(&self, scene: Scene<'_>, row: Rect, buffer: &mut Buffer) {
        const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let theme = scene.theme;
        let mut pen = Pen::new(buffer, row, 0);
        for lanes in &self.busy {
            match lanes.count_ones() {
                0 => pen.skip(1),
                1 => pen.text(theme.ink(Ink::Rule), "1"),
                count => pen.text(theme.ink(Ink::Strong), DIGITS[count.min(9) as usize]),
            };
        }
    }

    fn draw_hint(&self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        if scene.focused {
            let keys = match &self.filter {
                Some(_) => "n N pick a match   w s zoom   a d pan   f fit",
                None => ", . pick a span   w s zoom   a d pan   f fit",
            };
            Pen::new(buffer, area, 0).skip(2).text(scene.theme.ink(Ink::Dim), keys);
        }
    }
}

fn draw_info(scene: Scene<'_>, frame: &Frame<'_>, area: Rect, buffer: &mut Buffer) {
    let theme = scene.theme;
    let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(2)
        .put(text, format_args!("{}", Nanoseconds(frame.length)))
        .put(text, format_args!("  {}", frame.batch.spans.len()))
        .text(dim, " nodes");
    if let Some(step) = frame.step {
        pen.put(text, format_args!("  {} of {}", step.rows, step.bucket)).text(dim, " rows");
        if !step.diverged_rows.is_empty() {
            pen.text(text, "  ").put(
                theme.ink(Ink::Diverged),
                format_args!("{} {} diverged", theme.glyphs.diverged, step.diverged_rows.len()),
            );
        }
    }
    if let Some(graph) = scene.state.graphs.get(&frame.batch.graph) {
        pen.skip(2);
        let room = pen.room();
        pen.clip(dim, &graph.label, room, theme.glyphs.ellipsis);
    }
}

fn draw_axis(scene: Scene<'_>, window: Window, area: Rect, buffer: &mut Buffer) {
    let theme = scene.theme;
    let width = u64::from(area.width);
    if width == 0 {
        return;
    }
    let mut tick = 1u64;
    // 1, 2, 5, 10, 20, 50, ...: the first that leaves 14 cells for a label.
    for factor in [2, 5, 10].into_iter().cycle() {
        let cells = u128::from(tick) * u128::from(width) / u128::from(window.length.max(1));
        if cells >= 14 || tick > window.length {
            break;
        }
        let decade = 10u64.saturating_pow(tick.ilog10());
        tick = decade.saturating_mul(factor);
    }
    let mut time = window.start.div_ceil(tick).saturating_mul(tick);
    while time < window.start + window.length {
        let into = u128::from(time - window.start) * u128::from(width);
        let column = (into / u128::from(window.length.max(1))) as u16;
        let mut pen = Pen::new(buffer, area, 0);
        pen.to(column).text(theme.ink(Ink::Rule), theme.glyphs.tick);
        let label = format_args!("{}", Tick(time));
        if pen.room() >= width_of(label) {
            pen.put(theme.ink(Ink::Dim), label);
        }
        time = time.saturating_add(tick);
    }
}

/// A round time without needless decimals: `0`, `20 us`, `1.5 ms`.
struct Tick(u64);

impl fmt::Display for Tick {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => formatter.write_str("0"),
            1..1_000 => write!(formatter, "{} ns", self.0),
            1_000..1_000_000 => write!(formatter, "{} us", self.0 as f64 / 1e3),
            _ => write!(formatter, "{} ms", self.0 as f64 / 1e6),
        }
    }
}

fn draw_selected(scene: Scene<'_>, frame: &Frame<'_>, span: &Span, area: Rect, buffer: &mut Buffer) {
    let (state, theme) = (scene.state, scene.theme);
    let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(2)
        .text(theme.ink(Ink::Strong), node_name(state, frame.batch, span.node))
        .put(dim, format_args!(" on {}", lane_name(state, span.lane)))
        .text(dim, "  starts ")
        .put(text, format_args!("{}", Nanoseconds(frame.start(span))))
        .text(dim, "  takes ")
        .put(text, format_args!("{}", Nanoseconds(span.duration_ns.into())));
    let count = frame.beside(span).count();
    if area.height > 1 {
        pen = Pen::new(buffer, area, 1);
    }
    pen.skip(2);
    if count == 0 {
        pen.text(dim, "nothing runs beside it");
        return;
    }
    pen.put(dim, format_args!("beside it {count}:"));
    if usize::from(area.height) >= count + 2 {
        for (row, other) in (2..area.height).zip(frame.beside(span)) {
            draw_beside(Pen::new(buffer, area, row), scene, frame, span, other);
        }
        return;
    }
    for other in frame.beside(span) {
        let item = format_args!(
            " {} ({}, {})",
            node_name(state, frame.batch, other.node),
            lane_name(state, other.lane),
            Nanoseconds(shared(span, other))
        );
        if pen.room() < width_of(item) {
            pen.put(dim, format_args!(" {}", theme.glyphs.ellipsis));
            break;
        }
        pen.put(text, item);
    }
}

/// A span that runs beside another, and for how long.
fn draw_beside(mut pen: Pen<'_>, scene: Scene<'_>, frame: &Frame<'_>, span: &Span, other: &Span) {
    let (text, dim) = (scene.theme.ink(Ink::Text), scene.theme.ink(Ink::Dim));
    pen.skip(4)
        .put(text, format_args!("{:>8}  ", Nanoseconds(shared(span, other))))
        .text(text, node_name(scene.state, frame.batch, other.node))
        .put(dim, format_args!(" on {}", lane_name(scene.state, other.lane)));
}

/// A span alone: its name in full, and all that runs beside it.
fn draw_span(sheet: &mut Sheet<'_>, scene: Scene<'_>, frame: &Frame<'_>, span: &Span) {
    let (state, theme) = (scene.state, scene.theme);
    let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
    sheet.text(theme.ink(Ink::Strong), 2, node_name(state, frame.batch, span.node), |_| {});
    sheet.text(text, 12, lane_name(state, span.lane), |pen| {
        pen.skip(2).text(dim, "lane");
    });
    let (starts, takes) = (Nanoseconds(frame.start(span)), Nanoseconds(span.duration_ns.into()));
    sheet.line().skip(2).text(dim, "starts").to(12).put(text, format_args!("{starts}"));
    sheet.line().skip(2).text(dim, "takes").to(12).put(text, format_args!("{takes}"));
    if let Some(graph) = state.graphs.get(&frame.batch.graph) {
        sheet.text(text, 12, &graph.label, |pen| {
            pen.skip(2).text(dim, "graph");
        });
    }
    let count = frame.beside(span).count();
    if count == 0 {
        sheet.line().skip(2).text(dim, "nothing runs beside it");
    } else {
        sheet.line().skip(2).put(dim, format_args!("beside it {count}:"));
    }
    for other in frame.beside(span) {
        draw_beside(sheet.line(), scene, frame, span, other);
    }
}
