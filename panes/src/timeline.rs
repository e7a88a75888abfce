//! Timeline: the nodes of one step in time, a row a lane.
//!
//! It follows the latest step until a step is picked. Every node is drawn alike: which
//! of them race is for the reader to see, and for the hazard analysis to say.

use coalmine_sessions::{Sanitized, Span, SpanBatch, State, Step};
use ratatui::{buffer::Buffer, layout::Rect, style::Modifier};

use crate::{
    Grouped, Ink, Input, Nanoseconds, Pane, PaneAction, PaneId, Pen, Scene,
    chrome::{below, header},
    pen::{text_width, width_of},
};

/// A lane is a `u8` in a span.
const LANES: usize = 256;
/// Shortest stretch of time that fills the pane, ns.
const SHORTEST_VIEW: u64 = 50;
/// Tallest a lane is drawn.
const LANE_ROWS: u16 = 3;
/// Cells that lane names take at most.
const LABEL: u16 = 16;

/// View of the timeline.
#[derive(Clone, Debug, Default)]
pub struct TimelineView {
    /// The picked step; the latest one when there is none.
    step: Option<u64>,
    /// The node under the cursor: it stays when the step changes.
    node: Option<u32>,
    /// The stretch in view, ns from the step's start; all of it when there is none.
    window: Option<Window>,
    lane_offset: u16,
    /// Lanes that run in each cell, one bit a lane; kept to spare an allocation a frame.
    busy: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
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

fn find_batch(state: &State, step: Option<u64>) -> Option<&SpanBatch> {
    match step {
        None => state.spans.back(),
        Some(step) => {
            let at = state.spans.binary_search_by_key(&step, |batch| batch.step);
            state.spans.get(at.ok()?)
        }
    }
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

impl Pane for TimelineView {
    fn id(&self) -> PaneId {
        PaneId::Timeline
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let (state, theme) = (scene.state, scene.theme);
        let Some(batch) = find_batch(state, self.step) else {
            return self.draw_nothing(scene, area, buffer);
        };
        let frame = Frame::new(state, batch);
        let following = match self.step {
            None => "latest",
            Some(_) => "picked, esc follows",
        };
        let note = format_args!("step {} {} {following}", Grouped(batch.step), theme.glyphs.dot);
        let area = header(scene, self.id(), note, area, buffer);
        let lanes = lane_count(state, batch);
        let rows = Rows::new(area.height, lanes);
        if rows.info > 0 {
            draw_info(scene, &frame, area, buffer);
        }
        let area = below(area, rows.info);
        let names = state.hello.as_ref().map(|hello| &hello.lanes);
        let longest = names.and_then(|names| names.iter().map(|name| text_width(name)).max());
        let label = (longest.unwrap_or(1) + 4).min(LABEL).min(area.width / 4);
        let chart = Rect { x: area.x + label, width: area.width.saturating_sub(label + 1), height: rows.lanes, ..area };
        let window = self.window.unwrap_or(Window { start: 0, length: frame.length });
        // A cursor that this step has no node for is kept, and not shown.
        let selected = frame.span(self.node);
        let per_view = (rows.lanes / rows.lane.max(1)).max(1);
        if let Some(span) = selected {
            let lane = u16::from(span.lane);
            self.lane_offset = self.lane_offset.min(lane).max((lane + 1).saturating_sub(per_view));
        }
        self.lane_offset = self.lane_offset.min(lanes.saturating_sub(per_view));
        self.draw_labels(scene, selected, label, area, &rows, buffer);
        self.draw_spans(scene, &frame, window, selected, chart, rows.lane, buffer);
        let area = below(area, rows.lanes);
        if rows.busy > 0 {
            let style = theme.ink(Ink::Dim);
            Pen::new(buffer, area, 0).skip(2).clip(style, "lanes busy", label.saturating_sub(3), theme.glyphs.ellipsis);
            self.draw_busy(scene, chart, area.y, buffer);
        }
        let area = below(area, rows.busy);
        if rows.axis > 0 {
            let axis = Rect { y: area.y, height: area.height.min(1), ..chart };
            draw_axis(scene, window, axis, buffer);
        }
        let area = below(area, rows.axis);
        match selected {
            Some(span) => draw_selected(scene, &frame, span, area, buffer),
            None => draw_hint(scene, area, buffer),
        }
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        match input {
            Input::Back => {
                if self.step.is_none() && self.window.is_none() && self.node.is_none() {
                    return None;
                }
                if self.window.take().is_none() && self.step.take().is_none() {
                    self.node = None;
                }
            }
            Input::Fit => self.window = None,
            Input::PreviousStep | Input::NextStep | Input::PreviousHit | Input::NextHit => {
                self.pick_step(state, input);
            }
            _ => {
                let frame = Frame::new(state, find_batch(state, self.step)?);
                match input {
                    Input::ZoomIn => self.zoom(&frame, 0.5),
                    Input::ZoomOut => self.zoom(&frame, 2.0),
                    Input::PanLeft => self.pan(&frame, -1),
                    Input::PanRight => self.pan(&frame, 1),
                    Input::Enter => self.zoom_to_span(&frame),
                    Input::PreviousSpan | Input::Left => self.move_along(&frame, false),
                    Input::NextSpan | Input::Right => self.move_along(&frame, true),
                    Input::Up => self.move_across(&frame, false),
                    Input::Down => self.move_across(&frame, true),
                    Input::First => self.select(&frame, first_of(&frame, self.node, false)),
                    Input::Last => self.select(&frame, first_of(&frame, self.node, true)),
                    _ => return None,
                }
            }
        }
        Some(PaneAction::Redraw)
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
    /// The picked step, unless the latest one is followed.
    pub fn picked_step(&self) -> Option<u64> {
        self.step
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

    fn zoom_to_span(&mut self, frame: &Frame<'_>) {
        match frame.span(self.node) {
            None => self.select(frame, first_of(frame, None, false)),
            Some(span) => {
                // Four times the span, so that its neighbours and what overlaps it are seen.
                let length = u64::from(span.duration_ns).max(1) * 4;
                let start = frame.start(span).saturating_sub(length * 3 / 8);
                self.set_window(frame, start, length);
            }
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
            (shared(current, span), std::cmp::Reverse(apart))
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

    fn pick_step(&mut self, state: &State, input: Input) {
        let Some(latest) = state.spans.back() else {
            return;
        };
        let current = self.step.unwrap_or(latest.step);
        let held = || state.spans.iter().map(|batch| batch.step);
        let hit = |step: &u64| find_step(state, *step).is_some_and(|step| !step.diverged_rows.is_empty());
        let picked = match input {
            Input::PreviousStep => held().rev().find(|step| *step < current),
            Input::NextStep => held().find(|step| *step > current),
            Input::PreviousHit => held().rev().filter(|step| *step < current).find(hit),
            _ => held().filter(|step| *step > current).find(hit),
        };
        if let Some(step) = picked {
            self.step = Some(step);
        }
    }

    fn draw_nothing(&self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let style = scene.theme.ink(Ink::Dim);
        let area = header(scene, self.id(), format_args!(""), area, buffer);
        let mut pen = Pen::new(buffer, area, 0);
        pen.skip(2);
        let held = scene.state.spans.front().zip(scene.state.spans.back());
        match (self.step, held) {
            (Some(step), Some((first, last))) => pen.put(
                style,
                format_args!(
                    "step {} is no longer held; steps {} to {} are (esc follows the latest)",
                    Grouped(step),
                    Grouped(first.step),
                    Grouped(last.step)
                ),
            ),
            _ => pen.text(style, "no step has been timed yet"),
        };
    }

    fn draw_labels(
        &self,
        scene: Scene<'_>,
        selected: Option<&Span>,
        label: u16,
        area: Rect,
        rows: &Rows,
        buffer: &mut Buffer,
    ) {
        let theme = scene.theme;
        for (index, row) in (0..rows.lanes).step_by(rows.lane.into()).enumerate() {
            let lane = self.lane_offset + index as u16;
            let Ok(lane) = u8::try_from(lane) else { break };
            let current = scene.focused && selected.is_some_and(|span| span.lane == lane);
            let ink = if current { Ink::Strong } else { Ink::Text };
            let middle = (row + rows.lane / 2).min(rows.lanes - 1);
            let mut pen = Pen::new(buffer, area, middle);
            if current {
                pen.text(theme.ink(Ink::Focus), theme.glyphs.cursor);
            }
            pen.to(2).clip(
                theme.ink(ink),
                lane_name(scene.state, lane),
                label.saturating_sub(3),
                theme.glyphs.ellipsis,
            );
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call, each a different thing")]
    fn draw_spans(
        &mut self,
        scene: Scene<'_>,
        frame: &Frame<'_>,
        window: Window,
        selected: Option<&Span>,
        chart: Rect,
        lane_rows: u16,
        buffer: &mut Buffer,
    ) {
        let (state, theme) = (scene.state, scene.theme);
        let width = chart.width;
        self.busy.clear();
        self.busy.resize(usize::from(width), 0);
        if width == 0 {
            return;
        }
        for row in (0..chart.height).step_by(lane_rows.into()) {
            let middle = (row + lane_rows / 2).min(chart.height - 1);
            let style = theme.ink(Ink::Rule);
            Pen::new(buffer, chart, middle).repeat(style, theme.glyphs.idle, width);
        }
        // The end of what is drawn on each lane, and whether the last span there was odd.
        let mut drawn = [(0u16, false); LANES];
        for span in &frame.batch.spans {
            let start = frame.start(span);
            let end = start.saturating_add(u64::from(span.duration_ns));
            let view_end = window.start + window.length;
            if end < window.start || start >= view_end {
                continue;
            }
            let cell = |time: u64| {
                let into = time.saturating_sub(window.start).min(window.length);
                (into as u128 * u128::from(width) / u128::from(window.length)) as u16
            };
            let left = cell(start).min(width - 1);
            let right = cell(end).max(left + 1);
            for cell in &mut self.busy[usize::from(left)..usize::from(right)] {
                *cell |= 1 << span.lane.min(63);
            }
            let (taken, odd) = &mut drawn[usize::from(span.lane)];
            let crowded = left < *taken;
            let free = left.max(*taken);
            *odd = !*odd;
            let mut style = theme.span(usize::from(span.lane), *odd);
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
            let first = row.saturating_mul(lane_rows);
            for row in first..first.saturating_add(lane_rows).min(chart.height) {
                let mut pen = Pen::new(buffer, chart, row);
                if crowded {
                    pen.to(left).text(style, theme.glyphs.dense);
                }
                let cells = right.saturating_sub(free);
                if cells == 0 {
                    continue;
                }
                let edge = if start < window.start { " " } else { theme.glyphs.span_edge };
                pen.to(free).text(style, edge);
                let room = cells - 1;
                if row == first + lane_rows / 2 && room >= 3 {
                    let name = fitting(node_name(state, frame.batch, span.node), room);
                    pen.clip(style, name, room, theme.glyphs.ellipsis);
                }
                let rest = (free + cells).saturating_sub(pen.column());
                pen.repeat(style, " ", rest);
            }
        }
    }

    /// How many lanes run in each cell, where it is more than one.
    fn draw_busy(&self, scene: Scene<'_>, chart: Rect, y: u16, buffer: &mut Buffer) {
        const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let theme = scene.theme;
        let row = Rect { y, height: 1, ..chart };
        let mut pen = Pen::new(buffer, row, 0);
        for lanes in &self.busy {
            match lanes.count_ones() {
                0 => pen.skip(1),
                1 => pen.text(theme.ink(Ink::Rule), "1"),
                count => pen.text(theme.ink(Ink::Strong), DIGITS[count.min(9) as usize]),
            };
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

impl std::fmt::Display for Tick {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    let others = || {
        let spans = frame.batch.spans.iter();
        spans.filter(|other| other.lane != span.lane && shared(span, other) > 0)
    };
    let count = others().count();
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
        for (row, other) in (2..area.height).zip(others()) {
            Pen::new(buffer, area, row)
                .skip(4)
                .put(text, format_args!("{:>8}  ", Nanoseconds(shared(span, other))))
                .text(text, node_name(state, frame.batch, other.node))
                .put(dim, format_args!(" on {}", lane_name(state, other.lane)));
        }
        return;
    }
    for other in others() {
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

fn draw_hint(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    if scene.focused {
        Pen::new(buffer, area, 0).skip(2).text(
            scene.theme.ink(Ink::Dim),
            ", . pick a span   w s zoom   a d pan   f fit   [ ] step   { } diverged step",
        );
    }
}
