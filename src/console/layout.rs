//! Where everything stands at a given size.

use coalmine_panes::PaneId;
use ratatui::layout::Rect;

/// Smallest terminal that is drawn on.
pub(super) const SMALLEST: (u16, u16) = (60, 15);
/// Sizes from which all panes stand side by side.
const TILED: (u16, u16) = (120, 28);
/// Height from which counts stand above a pane that has the screen to itself.
const BRIEF: u16 = 20;

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
    pub(super) keys: Rect,
}

impl Layout {
    /// The layout for a screen, or `None` when that is too small.
    ///
    /// `lanes` is how many the timeline has to show.
    pub(super) fn new(screen: Rect, focus: PaneId, zoomed: bool, lanes: u16) -> Option<Self> {
        if screen.width < SMALLEST.0 || screen.height < SMALLEST.1 {
            return None;
        }
        let wide = screen.width >= TILED.0;
        let (status, rest) = split_top(screen, if wide { 1 } else { 2 });
        let (body, keys) = split_top(rest, rest.height - 1);
        let mut layout = Self { status, tabs: None, brief: None, panes: [None; PaneId::ALL.len()], keys };
        if wide && screen.height >= TILED.1 && !zoomed {
            layout.tile(body, lanes);
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
    fn tile(&mut self, body: Rect, lanes: u16) {
        // Its other rows, and up to three for each lane, but no more than two fifths of the whole.
        let most = body.height * 2 / 5;
        let heights = (1..=3).rev().map(|rows| 6 + lanes.min(32) * rows);
        let mut fitting = heights.filter(|height| *height <= most);
        let timeline = fitting.next().unwrap_or(most);
        let (upper, timeline) = split_top(body, body.height - timeline);
        let left = (upper.width * 2 / 5).clamp(62, 96);
        let (left, right) = split_left(upper, left);
        let right = Rect { x: right.x + 1, width: right.width - 1, ..right };
        let toggles = match upper.height {
            0..30 => 9,
            30..40 => 10,
            _ => 14,
        };
        let (overview, toggles) = split_top(left, left.height - toggles);
        let log = if upper.height >= 30 { 4 } else { 0 };
        let (right, log) = split_top(right, right.height - log);
        let (sessions, canary) = split_top(right, right.height / 2);
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
                    for zoomed in [false, true] {
                        let screen = Rect::new(0, 0, width, height);
                        let layout = Layout::new(screen, focus, zoomed, height % 11).unwrap();
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

    #[test]
    fn a_screen_too_small_has_no_layout() {
        for (width, height) in [(59, 15), (60, 14), (1, 1)] {
            let screen = Rect::new(0, 0, width, height);
            assert_eq!(Layout::new(screen, PaneId::Overview, false, 8), None);
        }
    }
}
