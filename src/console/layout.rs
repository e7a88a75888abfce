//! Where everything stands at a given size.

use coalmine_panes::PaneId;
use ratatui::layout::{Position, Rect};
use serde::{Deserialize, Serialize};

/// Smallest terminal that is drawn on.
pub(super) const SMALLEST: (u16, u16) = (60, 15);
/// Sizes from which all panes stand side by side.
const TILED: (u16, u16) = (120, 28);
/// Height from which counts stand above a pane that has the screen to itself.
const BRIEF: u16 = 20;

/// Fewest rows and columns that resizing leaves a tiled pane.
const LEAST: (u16, u16) = (30, 3);
/// Cells by which one key resizes.
const RESIZE: i16 = 2;
/// Cells by which a tiled pane can be made larger or smaller in all.
const FURTHEST: i16 = 200;

/// What a person has made larger or smaller, in cells beyond what the layout would do by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shape {
    /// Width of the left column.
    pub left: i16,
    /// Height of the timeline.
    pub timeline: i16,
    /// Height of the toggles.
    pub toggles: i16,
    /// Height of the sessions, at the canary's cost.
    pub sessions: i16,
    /// Height of the log.
    pub log: i16,
}

/// A way to resize the focused pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resize {
    Wider,
    Narrower,
    Taller,
    Shorter,
    Reset,
}

impl Shape {
    /// Makes `pane` larger or smaller.
    pub(super) fn resize(&mut self, pane: PaneId, how: Resize) {
        let left = matches!(pane, PaneId::Overview | PaneId::Toggles);
        let (columns, rows) = match how {
            Resize::Wider => (RESIZE, 0),
            Resize::Narrower => (-RESIZE, 0),
            Resize::Taller => (0, 1),
            Resize::Shorter => (0, -1),
            Resize::Reset => return *self = Self::default(),
        };
        self.grow(pane, if left { columns } else { -columns }, rows);
    }

    /// Moves the right edge of the left column, and `pane`'s height at the cost of the one beside it.
    fn grow(&mut self, pane: PaneId, columns: i16, rows: i16) {
        let add = |value: &mut i16, more: i16| *value = value.saturating_add(more).clamp(-FURTHEST, FURTHEST);
        add(&mut self.left, columns);
        match pane {
            PaneId::Overview => add(&mut self.toggles, -rows),
            PaneId::Toggles => add(&mut self.toggles, rows),
            PaneId::Sessions => add(&mut self.sessions, rows),
            PaneId::Canary => add(&mut self.sessions, -rows),
            PaneId::Timeline => add(&mut self.timeline, rows),
            PaneId::Log => add(&mut self.log, rows),
        }
    }

    /// Follows a pointer that drags the rule above `pane` by so many rows down.
    pub(super) fn drag_rule(&mut self, pane: PaneId, rows: i32) {
        match pane {
            // Nothing stands above these two.
            PaneId::Overview | PaneId::Sessions => {}
            PaneId::Toggles | PaneId::Canary | PaneId::Timeline | PaneId::Log => {
                self.grow(pane, 0, -cells(rows));
            }
        }
    }

    /// Follows a pointer that drags the gap between the columns.
    pub(super) fn drag_gap(&mut self, columns: i32) {
        self.grow(PaneId::Overview, cells(columns), 0);
    }
}

/// Cells of a drag: a terminal can report any.
fn cells(dragged: i32) -> i16 {
    dragged.clamp(-i32::from(FURTHEST), i32::from(FURTHEST)) as i16
}

/// A value moved by so many cells, between `least` and whatever leaves `least` of `whole`.
fn moved(value: u16, by: i16, least: u16, whole: u16) -> u16 {
    let most = whole.saturating_sub(least).max(least.min(whole));
    value.saturating_add_signed(by).clamp(least.min(most), most)
}

/// Where everything stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) status: Rect,
    /// Pane titles, where one pane is shown at a time.
    pub(super) tabs: Option<Rect>,
    /// The overview's counts, above another pane.
    pub(super) brief: Option<Rect>,
    /// Each pane's place by its number, if it is shown.
    pub(super) panes: [Option<Rect>; PaneId::ALL.len()],
    /// What a macro says, above the keys; without rows when it says nothing.
    pub(super) caption: Rect,
    pub(super) keys: Rect,
}

impl Layout {
    /// The layout for a screen, or `None` when that is too small.
    ///
    /// `lanes` is how many the timeline has to show, `caption` how many rows a macro has to say, of the screen's at most a
    /// third. They are the panes', but which panes are shown does not hang on them.
    pub(super) fn new(
        screen: Rect,
        focus: PaneId,
        zoomed: bool,
        lanes: u16,
        caption: u16,
        shape: Shape,
    ) -> Option<Self> {
        if screen.width < SMALLEST.0 || screen.height < SMALLEST.1 {
            return None;
        }
        let wide = screen.width >= TILED.0;
        let (status, rest) = split_top(screen, if wide { 1 } else { 2 });
        let (body, keys) = split_top(rest, rest.height - 1);
        let (body, caption) = split_top(body, body.height - caption.min(screen.height / 3));
        let mut layout = Self { status, tabs: None, brief: None, panes: [None; PaneId::ALL.len()], caption, keys };
        if wide && screen.height >= TILED.1 && !zoomed {
            layout.tile(body, lanes, shape);
            if layout.panes[focus as usize].is_some() {
                return Some(layout);
            }
            layout.panes = Default::default();
        }
        let mut body = body;
        if !zoomed {
            let (tabs, rest) = split_top(body, 1);
            layout.tabs = Some(tabs);
            body = rest;
            if screen.height >= BRIEF && focus != PaneId::Overview {
                let (brief, rest) = split_top(body, 3);
                layout.brief = Some(brief);
                body = rest;
            }
        }
        layout.panes[focus as usize] = Some(body);
        Some(layout)
    }

    /// Overview and toggles on the left, sessions, canary and log on the right, the
    /// timeline below in full width.
    fn tile(&mut self, body: Rect, lanes: u16, shape: Shape) {
        let (columns, rows) = LEAST;
        // Its other rows, and up to three for each lane, but no more than two fifths of the whole.
        let most = body.height * 2 / 5;
        let heights = (1..=3).rev().map(|rows| 6 + lanes.min(32) * rows);
        let mut fitting = heights.filter(|height| *height <= most);
        let timeline = moved(fitting.next().unwrap_or(most), shape.timeline, rows, body.height - 3 * rows);
        let (upper, timeline) = split_top(body, body.height - timeline);
        let left = moved((upper.width * 2 / 5).clamp(62, 96), shape.left, columns, upper.width);
        let (left, right) = split_left(upper, left);
        let right = Rect { x: right.x + 1, width: right.width - 1, ..right };
        let toggles = match upper.height {
            0..30 => 9,
            30..40 => 10,
            _ => 14,
        };
        let toggles = moved(toggles, shape.toggles, rows, left.height);
        let (overview, toggles) = split_top(left, left.height - toggles);
        let log = if upper.height >= 30 { moved(4, shape.log, 2, right.height - 2 * rows) } else { 0 };
        let (right, log) = split_top(right, right.height - log);
        let (sessions, canary) = split_top(right, moved(right.height / 2, shape.sessions, rows, right.height));
        let places = [
            (PaneId::Overview, overview),
            (PaneId::Sessions, sessions),
            (PaneId::Canary, canary),
            (PaneId::Timeline, timeline),
            (PaneId::Toggles, toggles),
            (PaneId::Log, log),
        ];
        for (pane, place) in places {
            self.panes[pane as usize] = (place.height > 0).then_some(place);
        }
    }
}

impl Layout {
    /// The pane under a place.
    pub(super) fn pane_at(&self, at: Position) -> Option<PaneId> {
        PaneId::ALL.into_iter().find(|pane| self.panes[*pane as usize].is_some_and(|place| place.contains(at)))
    }

    /// The pane next to `from` in a direction: of those that stand there the nearest to its middle.
    pub(super) fn towards(&self, from: PaneId, direction: &str) -> Option<PaneId> {
        let middle = |place: Rect| {
            (i32::from(place.x) * 2 + i32::from(place.width), i32::from(place.y) * 2 + i32::from(place.height))
        };
        let own = self.panes[from as usize]?;
        let (x, y) = middle(own);
        let others = PaneId::ALL.into_iter().filter(|other| *other != from);
        let there = others.filter_map(|other| {
            let place = self.panes[other as usize]?;
            let beside = match direction {
                "left" => place.right() <= own.x,
                "right" => place.x >= own.right(),
                "up" => place.bottom() <= own.y,
                _ => place.y >= own.bottom(),
            };
            let (other_x, other_y) = middle(place);
            // A cell is about twice as high as it is wide.
            beside.then_some(((other_x - x).abs() + 2 * (other_y - y).abs(), other))
        });
        there.min().map(|(_, pane)| pane)
    }
}

fn split_top(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    let top = Rect { height, ..area };
    let rest = Rect { y: area.y + height, height: area.height - height, ..area };
    (top, rest)
}

fn split_left(area: Rect, width: u16) -> (Rect, Rect) {
    let width = width.min(area.width);
    let left = Rect { width, ..area };
    let rest = Rect { x: area.x + width, width: area.width - width, ..area };
    (left, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_nothing_sticks_out() {
        for width in (60..320).step_by(7) {
            for height in 15..110 {
                for focus in PaneId::ALL {
                    for (zoomed, caption) in [(false, 0), (true, 0), (false, 2), (true, u16::MAX)] {
                        let screen = Rect::new(0, 0, width, height);
                        let shape = shape_of(width, height);
                        let layout = Layout::new(screen, focus, zoomed, height % 11, caption, shape).unwrap();
                        let panes = layout.panes.into_iter().flatten();
                        let rest = [Some(layout.status), Some(layout.keys)];
                        let bars = rest.into_iter().chain([layout.tabs, layout.brief]);
                        let places: Vec<Rect> = panes.chain(bars.flatten()).collect();
                        assert!(layout.panes[focus as usize].is_some());
                        for (index, place) in places.iter().enumerate() {
                            assert_eq!(place.intersection(screen), *place);
                            assert!(place.height > 0, "{width}x{height} {focus:?}");
                            for other in &places[index + 1..] {
                                let apart = place.intersection(*other).is_empty();
                                assert!(apart, "{width}x{height}: {place} and {other}");
                            }
                        }
                    }
                }
            }
        }
    }

    /// One of many shapes, the usual one among them.
    fn shape_of(width: u16, height: u16) -> Shape {
        let by = |prime: u16| ((width * 7 + height * prime) % 401) as i16 - 200;
        match height % 3 {
            0 => Shape::default(),
            _ => Shape { left: by(11), timeline: by(13), toggles: by(17), sessions: by(19), log: by(23) },
        }
    }

    #[test]
    fn what_a_macro_says_changes_no_more_than_how_high_panes_are() {
        for (width, height) in [(60, 15), (80, 20), (120, 28), (120, 29), (200, 60)] {
            let layout = |caption| {
                let screen = Rect::new(0, 0, width, height);
                Layout::new(screen, PaneId::Timeline, false, 6, caption, Shape::default()).unwrap()
            };
            let shown = |layout: Layout| (layout.panes.map(|place| place.is_some()), layout.brief, layout.keys);
            for rows in 1..=3 {
                assert_eq!(layout(rows).caption.height, rows);
                assert_eq!(shown(layout(rows)), shown(layout(0)), "{width}x{height}");
            }
        }
    }

    #[test]
    fn resizing_moves_an_edge_and_back() {
        let screen = Rect::new(0, 0, 160, 60);
        let place = |shape: Shape, pane: PaneId| {
            Layout::new(screen, pane, false, 6, 0, shape).unwrap().panes[pane as usize].unwrap()
        };
        for pane in PaneId::ALL {
            let before = place(Shape::default(), pane);
            let mut shape = Shape::default();
            shape.resize(pane, Resize::Taller);
            assert_eq!(place(shape, pane).height, before.height + 1, "{pane:?}");
            shape.resize(pane, Resize::Shorter);
            assert_eq!(shape, Shape::default());
            if before.width < 160 {
                shape.resize(pane, Resize::Wider);
                assert_eq!(place(shape, pane).width, before.width + 2, "{pane:?}");
            }
        }
    }

    #[test]
    fn directions_lead_to_neighbours() {
        let layout = Layout::new(Rect::new(0, 0, 160, 48), PaneId::Overview, false, 6, 0, Shape::default()).unwrap();
        assert_eq!(layout.towards(PaneId::Overview, "right"), Some(PaneId::Sessions));
        assert_eq!(layout.towards(PaneId::Overview, "down"), Some(PaneId::Toggles));
        assert_eq!(layout.towards(PaneId::Timeline, "up"), Some(PaneId::Canary));
        assert_eq!(layout.towards(PaneId::Sessions, "left"), Some(PaneId::Overview));
        assert_eq!(layout.towards(PaneId::Overview, "left"), None);
    }

    #[test]
    fn a_screen_too_small_has_no_layout() {
        for (width, height) in [(59, 15), (60, 14), (1, 1)] {
            let screen = Rect::new(0, 0, width, height);
            assert_eq!(Layout::new(screen, PaneId::Overview, false, 8, 0, Shape::default()), None);
        }
    }
}
