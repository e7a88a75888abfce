//! What every pane is: a title, a drawing and a meaning for keys.

use coalmine_sessions::{State, ToggleName, ToggleValue};
use ratatui::{buffer::Buffer, layout::Rect};

use crate::Theme;

/// The panes, in the order of their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaneId {
    /// Totals, rates and the last findings.
    #[default]
    Overview,
    /// One row a session.
    Sessions,
    /// Heat map of the watched pages.
    Canary,
    /// One step's nodes by lane.
    Timeline,
    /// The target's switches.
    Toggles,
    /// Log lines.
    Log,
}

impl PaneId {
    /// All panes.
    pub const ALL: [Self; 6] = [Self::Overview, Self::Sessions, Self::Canary, Self::Timeline, Self::Toggles, Self::Log];

    /// The number that focuses it, from 1.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Sessions => "Sessions",
            Self::Canary => "Canary",
            Self::Timeline => "Timeline",
            Self::Toggles => "Toggles",
            Self::Log => "Log",
        }
    }
}

/// What a pane draws from, beside its own view.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// Everything known of the target.
    pub state: &'a State,
    /// Colours and glyphs.
    pub theme: Theme,
    /// Whether keys go to this pane.
    pub focused: bool,
}

/// A key as a pane understands it; the console's keymap decides which key that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One column left.
    Left,
    /// One column right.
    Right,
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// Half a page up.
    HalfUp,
    /// Half a page down.
    HalfDown,
    /// Drill in, or apply.
    Enter,
    /// Back out one level.
    Back,
    /// Next sort column.
    Sort,
    /// Other direction of sorting.
    SortInvert,
    /// Next value of the selected toggle.
    Cycle,
    /// Magnify time.
    ZoomIn,
    /// Show more time.
    ZoomOut,
    /// Earlier.
    PanLeft,
    /// Later.
    PanRight,
    /// Previous span in time.
    PreviousSpan,
    /// Next span in time.
    NextSpan,
    /// Everything in view.
    Fit,
    /// Previous step of the window.
    PreviousStep,
    /// Next step of the window.
    NextStep,
    /// Previous step with a diverged row.
    PreviousHit,
    /// Next step with a diverged row.
    NextHit,
}

/// What came of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaneAction {
    /// The view changed: draw again.
    Redraw,
    /// Ask the target to give a toggle a value.
    SetToggle(ToggleName, ToggleValue),
}

/// A pane's view: what is selected, how far it is scrolled.
pub trait Pane {
    /// Which pane this is.
    fn id(&self) -> PaneId;

    /// Draws into `area`, header included; any size will do.
    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer);

    /// Takes an input; `None` when it means nothing here.
    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction>;
}

/// A selected row among `count`, and the first one in view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) selected: usize,
    pub(crate) offset: usize,
    /// Rows in view when last drawn: what a page is.
    pub(crate) page: usize,
}

impl Cursor {
    /// Moves as `input` says; `false` when it says nothing of rows.
    pub(crate) fn handle(&mut self, input: Input, count: usize) -> bool {
        let page = self.page.max(1);
        let last = count.saturating_sub(1);
        self.selected = match input {
            Input::Up => self.selected.saturating_sub(1),
            Input::Down => self.selected + 1,
            Input::First => 0,
            Input::Last => last,
            Input::PageUp => self.selected.saturating_sub(page),
            Input::PageDown => self.selected + page,
            Input::HalfUp => self.selected.saturating_sub(page.div_ceil(2)),
            Input::HalfDown => self.selected + page.div_ceil(2),
            _ => return false,
        }
        .min(last);
        true
    }

    /// Keeps the selection inside `count` rows and in view of `page` rows.
    pub(crate) fn settle(&mut self, count: usize, page: usize) {
        self.page = page;
        self.selected = self.selected.min(count.saturating_sub(1));
        self.offset = self
            .offset
            .min(self.selected)
            .max((self.selected + 1).saturating_sub(page))
            .min(count.saturating_sub(page));
    }
}
