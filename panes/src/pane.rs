//! What every pane is: a title, a drawing and a meaning for keys.

use coalmine_sessions::{SessionId, State, ToggleName, ToggleValue};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use crate::{Filter, Table, Theme};

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

    /// Its name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Sessions => "sessions",
            Self::Canary => "canary",
            Self::Timeline => "timeline",
            Self::Toggles => "toggles",
            Self::Log => "log",
        }
    }

    /// The pane of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pane| pane.name() == name)
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
    /// The next row or span that the filter lets through.
    NextMatch,
    /// The one before.
    PreviousMatch,
}

/// What came of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaneAction {
    /// The view changed: draw again.
    Redraw,
    /// Ask the target to give a toggle a value.
    SetToggle(ToggleName, ToggleValue),
    /// Show all that is known of a session: see [`SessionsView::open`](crate::SessionsView::open).
    OpenSession(SessionId),
}

/// A pane's view: what is selected, how far it is scrolled, which rows are looked for.
///
/// What is selected stays so while rows come, go and change their order, and while the state
/// that is shown is one of another time.
pub trait Pane {
    /// Which pane this is.
    fn id(&self) -> PaneId;

    /// Draws into `area`, header included; any size will do.
    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer);

    /// Takes an input; `None` when it means nothing here.
    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction>;

    /// Takes a click at a place of `area`, where it was drawn last; `None` when nothing is there.
    ///
    /// It selects what is under the pointer. What was selected already is drilled into.
    fn click(&mut self, state: &State, area: Rect, at: Position) -> Option<PaneAction>;

    /// Everything that can be scrolled to, in its present order, less what the filter hides.
    fn table(&mut self, state: &State) -> Table;

    /// The row under the cursor as text for the clipboard: the cells of its row in the table, a tab
    /// between two. `None` where there is no cursor.
    fn selected_row(&mut self, state: &State) -> Option<String>;

    /// Shows only what a filter lets through, or everything again.
    ///
    /// A new filter is for the list, so that it closes what is drilled into.
    fn set_filter(&mut self, filter: Option<Filter>);

    /// The filter, if there is one.
    fn filter(&self) -> Option<&Filter>;
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
            Input::Up | Input::PreviousMatch => self.selected.saturating_sub(1),
            Input::Down | Input::NextMatch => self.selected + 1,
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

    /// The row that is drawn at a place of the list, if it has one there.
    pub(crate) fn row_at(&self, list: Rect, at: Position, count: usize) -> Option<usize> {
        let row = self.offset + usize::from(at.y.checked_sub(list.y)?);
        (list.contains(at) && row < count).then_some(row)
    }
}
