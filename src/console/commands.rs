//! The one registry of commands: keys, help and the key bar come from it.

use coalmine_panes::{Input, PaneId};
use coalmine_sessions::{Danger, ToggleName};

/// Where a command's keys work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In every pane.
    Everywhere,
    /// While this pane is focused; such keys come before those that work everywhere.
    Pane(PaneId),
}

impl Scope {
    /// Whether the keys work while `pane` is focused.
    pub fn covers(self, pane: PaneId) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Pane(own) => own == pane,
        }
    }

    /// In one word; empty for everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Everywhere => "",
            Self::Pane(PaneId::Overview) => "overview",
            Self::Pane(PaneId::Sessions) => "sessions",
            Self::Pane(PaneId::Canary) => "canary",
            Self::Pane(PaneId::Timeline) => "timeline",
            Self::Pane(PaneId::Toggles) => "toggles",
            Self::Pane(PaneId::Log) => "log",
        }
    }
}

/// What carrying out a command means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// End the console.
    Quit,
    /// Stop the process until the shell continues it.
    Suspend,
    /// Draw every cell anew.
    Repaint,
    /// Open the help.
    Help,
    /// Focus the next pane.
    FocusNext,
    /// Focus the previous pane.
    FocusPrevious,
    /// Focus a pane.
    Focus(PaneId),
    /// Give the focused pane the whole screen, or take it back.
    Zoom,
    /// Pin the view on what is known now, or let it go on.
    Freeze,
    /// Leave what is drilled into; then the zoom.
    Back,
    /// An input of the focused pane.
    Pane(Input),
    /// Give a toggle its next value.
    Cycle(ToggleName),
    /// Hold the engine at the next step boundary, or let it run.
    Hold,
    /// Run one step while held.
    SingleStep,
    /// Next faster pace.
    Faster,
    /// Next slower pace.
    Slower,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct ConsoleCommand {
    /// Its name, the same in every version.
    pub name: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
    /// A word or two for the key bar; empty when it is not worth a place there.
    pub hint: &'static str,
    /// What carrying it out means.
    pub action: Action,
    /// What it may do to the target.
    pub danger: Danger,
    /// Where its keys work.
    pub scope: Scope,
}

const fn local(name: &'static str, hint: &'static str, action: Action, doc: &'static str) -> ConsoleCommand {
    ConsoleCommand { name, doc, hint, action, danger: Danger::Local, scope: Scope::Everywhere }
}

const fn mutates(name: &'static str, hint: &'static str, action: Action, doc: &'static str) -> ConsoleCommand {
    ConsoleCommand { danger: Danger::MutatesTarget, ..local(name, hint, action, doc) }
}

const fn within(
    pane: PaneId,
    name: &'static str,
    hint: &'static str,
    input: Input,
    doc: &'static str,
) -> ConsoleCommand {
    ConsoleCommand { scope: Scope::Pane(pane), ..local(name, hint, Action::Pane(input), doc) }
}

/// Every command, in the order of the help and of the key bar.
#[rustfmt::skip]
pub const COMMANDS: &[ConsoleCommand] = &[
    within(PaneId::Sessions, "sessions.sort", "sort", Input::Sort, "Sorts the sessions by the next column."),
    within(PaneId::Sessions, "sessions.invert", "invert", Input::SortInvert, "Turns the order of the sessions round."),
    within(PaneId::Timeline, "span.previous", "", Input::PreviousSpan, "Goes to the span before on this lane."),
    within(PaneId::Timeline, "span.next", "span", Input::NextSpan, "Goes to the next span on this lane."),
    within(PaneId::Timeline, "time.zoom-in", "zoom in", Input::ZoomIn, "Magnifies time around the cursor."),
    within(PaneId::Timeline, "time.zoom-out", "out", Input::ZoomOut, "Shows more time around the cursor."),
    within(PaneId::Timeline, "time.earlier", "", Input::PanLeft, "Moves the view to earlier times."),
    within(PaneId::Timeline, "time.later", "pan", Input::PanRight, "Moves the view to later times."),
    within(PaneId::Timeline, "time.fit", "fit", Input::Fit, "Shows the whole step."),
    within(PaneId::Timeline, "step.previous", "", Input::PreviousStep, "Picks the step before."),
    within(PaneId::Timeline, "step.next", "step", Input::NextStep, "Picks the next step."),
    within(PaneId::Timeline, "hit.previous", "", Input::PreviousHit, "Picks the last step before with a diverged row."),
    within(PaneId::Timeline, "hit.next", "diverged", Input::NextHit, "Picks the next step with a diverged row."),
    ConsoleCommand {
        danger: Danger::MutatesTarget,
        ..within(PaneId::Toggles, "toggle.next", "next value", Input::Cycle, "Gives the selected toggle its next value.")
    },
    mutates("overlap", "overlap", Action::Cycle(ToggleName::Overlap), "Turns multi-stream overlap on or off."),
    mutates("eager", "eager", Action::Cycle(ToggleName::Eager), "Decodes eagerly, or replays captured graphs again."),
    mutates("index-k", "index-k", Action::Cycle(ToggleName::IndexK), "Gives the index keys their next format, after a drain."),
    mutates("canary", "canary", Action::Cycle(ToggleName::Canary), "Arms the next kind of canary."),
    local("freeze", "freeze", Action::Freeze, "Pins the view, never the collection; again to go on."),
    mutates("hold", "hold", Action::Hold, "Holds the engine at a step boundary, or lets it run."),
    mutates("step", "one step", Action::SingleStep, "Runs one step while the engine is held."),
    mutates("faster", "faster", Action::Faster, "Raises the pace."),
    mutates("slower", "slower", Action::Slower, "Lowers the pace."),
    local("zoom", "zoom", Action::Zoom, "Gives the focused pane the whole screen, or takes it back."),
    local("focus.next", "pane", Action::FocusNext, "Focuses the next pane."),
    local("focus.previous", "", Action::FocusPrevious, "Focuses the previous pane."),
    local("focus.overview", "", Action::Focus(PaneId::Overview), "Focuses the overview."),
    local("focus.sessions", "", Action::Focus(PaneId::Sessions), "Focuses the sessions."),
    local("focus.canary", "", Action::Focus(PaneId::Canary), "Focuses the canary's heat map."),
    local("focus.timeline", "", Action::Focus(PaneId::Timeline), "Focuses the timeline."),
    local("focus.toggles", "", Action::Focus(PaneId::Toggles), "Focuses the toggles."),
    local("focus.log", "", Action::Focus(PaneId::Log), "Focuses the log."),
    local("drill", "", Action::Pane(Input::Enter), "Drills into a session, pool or span; next value of a toggle."),
    local("back", "", Action::Back, "Backs out one level."),
    local("up", "", Action::Pane(Input::Up), "Goes up."),
    local("down", "", Action::Pane(Input::Down), "Goes down."),
    local("left", "", Action::Pane(Input::Left), "Goes left; in the toggles: previous value."),
    local("right", "", Action::Pane(Input::Right), "Goes right; in the toggles: next value."),
    local("first", "", Action::Pane(Input::First), "Goes to the first."),
    local("last", "", Action::Pane(Input::Last), "Goes to the last."),
    local("page-up", "", Action::Pane(Input::PageUp), "Goes one page up."),
    local("page-down", "", Action::Pane(Input::PageDown), "Goes one page down."),
    local("half-page-up", "", Action::Pane(Input::HalfUp), "Goes half a page up."),
    local("half-page-down", "", Action::Pane(Input::HalfDown), "Goes half a page down."),
    local("repaint", "", Action::Repaint, "Draws every cell anew."),
    local("suspend", "", Action::Suspend, "Hands the terminal back to the shell until `fg`."),
    local("help", "help", Action::Help, "Shows every command; type to filter, enter runs one."),
    local("quit", "quit", Action::Quit, "Closes the help, or ends the console."),
];
