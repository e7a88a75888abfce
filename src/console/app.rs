//! The console without a terminal: events and keys in, a drawing out.

use std::{
    collections::VecDeque,
    sync::mpsc,
    time::{Duration, Instant},
};

use coalmine_panes::{
    CanaryView, HelpEntry, HelpView, Ink, Input, LogView, OverviewView, Pane, PaneAction, PaneId, Pen, Scene,
    SessionsView, Theme, TimelineView, TogglesView, next_value,
};
use coalmine_sessions::{Ack, Command, CommandId, CommandKind, Danger, Event, EventKind, LogLevel, State, ToggleName};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use super::{
    ConsoleOptions, Exit,
    bars::{self, Marks},
    commands::{Action, COMMANDS, ConsoleCommand},
    keymap::{Chord, Keymap, Match, keys_of},
    layout::{Layout, SMALLEST},
};

/// How long a message stays, unless a key takes it away.
const MESSAGE: Duration = Duration::from_secs(12);
/// Longest stretch of folding events before keys get their turn.
const FOLDING: Duration = Duration::from_millis(4);
/// Lanes that the layout makes room for at most, and until the target has named its own.
const LANES: u16 = 8;
/// Paces that keys step through, decode steps a second; beyond the last, as fast as it goes.
const PACES: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0];

/// What the loop around the app has to do for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// End.
    Exit(Exit),
    /// Hand the terminal to the shell until it continues this process.
    Suspend,
    /// Draw every cell anew.
    Repaint,
}

/// A line that stands in for the key bar for a while.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) ink: Ink,
    until: Instant,
}

#[derive(Default)]
struct Views {
    overview: OverviewView,
    sessions: SessionsView,
    canary: CanaryView,
    timeline: TimelineView,
    toggles: TogglesView,
    log: LogView,
}

impl Views {
    fn pane(&mut self, id: PaneId) -> &mut dyn Pane {
        match id {
            PaneId::Overview => &mut self.overview,
            PaneId::Sessions => &mut self.sessions,
            PaneId::Canary => &mut self.canary,
            PaneId::Timeline => &mut self.timeline,
            PaneId::Toggles => &mut self.toggles,
            PaneId::Log => &mut self.log,
        }
    }
}

/// The help while it is open: all commands, those that work in the focused pane first.
struct Help {
    view: HelpView,
    entries: Vec<HelpEntry>,
    commands: Vec<&'static ConsoleCommand>,
}

impl Help {
    fn new(focus: PaneId) -> Self {
        type Commands = Vec<&'static ConsoleCommand>;
        let (mut commands, others): (Commands, Commands) =
            COMMANDS.iter().partition(|command| command.scope.covers(focus));
        commands.extend(others);
        let entries = commands.iter().map(|command| HelpEntry {
            keys: keys_of(command.name),
            name: command.name,
            scope: command.scope.name(),
            doc: command.doc,
            mutates: command.danger == Danger::MutatesTarget,
        });
        Self { view: HelpView::default(), entries: entries.collect(), commands }
    }
}

/// The console: state, views and what is pending.
pub struct App {
    theme: Theme,
    state: State,
    /// What the view is frozen on.
    pinned: Option<Box<State>>,
    views: Views,
    focus: PaneId,
    zoomed: bool,
    help: Option<Help>,
    keymap: Keymap,
    /// Keys of an unfinished sequence.
    pressed: Vec<Chord>,
    commands: mpsc::Sender<Command>,
    next_command: CommandId,
    /// Commands sent and not yet answered, oldest first.
    unanswered: Vec<Command>,
    held: bool,
    pace: Option<f64>,
    target_gone: bool,
    message: Option<Message>,
    /// Events taken from the target and not yet folded.
    backlog: VecDeque<Event>,
    layout: Option<Layout>,
    request: Option<Request>,
    dirty: bool,
}

impl App {
    /// A console that sends its commands to `commands`.
    pub fn new(commands: mpsc::Sender<Command>, options: &ConsoleOptions) -> Self {
        Self {
            theme: options.theme(),
            state: State::default(),
            pinned: None,
            views: Views::default(),
            focus: PaneId::Overview,
            zoomed: false,
            help: None,
            keymap: Keymap::default(),
            pressed: Vec::new(),
            commands,
            next_command: 1,
            unanswered: Vec::new(),
            held: false,
            pace: options.pace,
            target_gone: false,
            message: None,
            backlog: VecDeque::new(),
            layout: None,
            request: None,
            dirty: true,
        }
    }

    /// Takes events to fold when there is time.
    pub fn receive(&mut self, events: impl IntoIterator<Item = Event>) {
        self.backlog.extend(events);
    }

    /// Folds received events for a few milliseconds; `false` when none are left.
    pub fn fold(&mut self) -> bool {
        let until = Instant::now() + FOLDING;
        // The clock is read once for many events: an event may take well under a microsecond.
        while !self.backlog.is_empty() && Instant::now() < until {
            for event in self.backlog.drain(..self.backlog.len().min(64)) {
                if let EventKind::Ack(ack) = &event.kind {
                    let answered = answer(ack, &mut self.unanswered, &mut self.held);
                    self.message = answered.or(self.message.take());
                }
                self.state.apply_owned(event);
            }
            self.dirty = true;
        }
        self.show_pending();
        !self.backlog.is_empty()
    }

    /// The target has ended: nothing more will come.
    pub fn target_ended(&mut self) {
        if self.target_gone {
            return;
        }
        self.target_gone = true;
        self.dirty = true;
        // A panic that is on screen says why already; else its last words may.
        if self.message.is_some() {
            return;
        }
        let last = self.state.log.back();
        let why = last.filter(|line| line.level == LogLevel::Error);
        let text = match why {
            Some(line) => line.text.as_str(),
            None => "The target has ended; what it said stays.",
        };
        self.say(Ink::Warning, text.to_owned());
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) {
        // Terminals with the kitty protocol also report repeats and releases.
        if key.kind != KeyEventKind::Press {
            return;
        }
        self.dirty = true;
        self.message = None;
        if self.help.is_some() && self.help_key(key) {
            return;
        }
        self.pressed.push(key.into());
        match self.keymap.find(&self.pressed, self.focus) {
            Match::Prefix => {}
            Match::Command(command) => {
                self.pressed.clear();
                self.carry_out(command);
            }
            Match::Nothing => {
                let sequence = self.pressed.len() > 1;
                self.pressed.clear();
                // The key that broke a sequence may mean something by itself.
                if sequence {
                    self.key(key);
                }
            }
        }
    }

    /// Takes a click or a turn of the wheel.
    pub fn mouse(&mut self, mouse: MouseEvent) {
        if self.help.is_some() {
            return;
        }
        let at = Position::new(mouse.column, mouse.row);
        let Some(layout) = self.layout else { return };
        let places = PaneId::ALL.into_iter();
        let under = places.clone().find(|pane| layout.panes[*pane as usize].is_some_and(|place| place.contains(at)));
        let timeline = under == Some(PaneId::Timeline);
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => {
                let tab = layout.tabs.and_then(|tabs| bars::tab_at(tabs, at));
                let Some(pane) = tab.or(under) else { return };
                self.focus = pane;
            }
            MouseEventKind::ScrollUp if timeline => self.input(PaneId::Timeline, Input::ZoomIn),
            MouseEventKind::ScrollDown if timeline => self.input(PaneId::Timeline, Input::ZoomOut),
            MouseEventKind::ScrollUp => self.scroll(under, Input::Up),
            MouseEventKind::ScrollDown => self.scroll(under, Input::Down),
            _ => return,
        }
        self.dirty = true;
    }

    /// The screen changed its size, or has to be drawn again for another reason.
    pub fn resized(&mut self) {
        self.dirty = true;
    }

    /// Shows a warning that arose outside of the target.
    pub fn warn(&mut self, text: String) {
        self.say(Ink::Warning, text);
    }

    /// What the loop has to do; asked once.
    pub fn take_request(&mut self) -> Option<Request> {
        self.request.take()
    }

    /// Whether the screen is out of date.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// When the message on screen ends, if there is one.
    pub fn message_ends(&self) -> Option<Instant> {
        self.message.as_ref().map(|message| message.until)
    }

    /// Takes a message off the screen when its time is over.
    pub fn expire_message(&mut self) {
        if self.message_ends().is_some_and(|end| end <= Instant::now()) {
            self.message = None;
            self.dirty = true;
        }
    }

    /// What is known of the target now, whatever the view is frozen on.
    pub fn state(&self) -> &State {
        &self.state
    }

    fn say(&mut self, ink: Ink, text: String) {
        self.message = Some(message(ink, text));
        self.dirty = true;
    }

    /// Keys while the help is open; `false` for those that mean the same everywhere.
    fn help_key(&mut self, key: KeyEvent) -> bool {
        let Some(Help { view, entries, commands }) = &mut self.help else {
            return false;
        };
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let filtering = !view.filter().is_empty();
        let input = match key.code {
            KeyCode::Char('u') if control => Input::HalfUp,
            KeyCode::Char('d') if control => Input::HalfDown,
            _ if control => return false,
            KeyCode::Esc if view.clear() => return true,
            KeyCode::Esc => {
                self.help = None;
                return true;
            }
            KeyCode::Char('q' | '?') | KeyCode::F(1) if !filtering => {
                self.help = None;
                return true;
            }
            KeyCode::Enter => {
                let chosen = view.selected(entries).map(|index| commands[index]);
                self.help = None;
                if let Some(command) = chosen {
                    self.carry_out(command);
                }
                return true;
            }
            KeyCode::Backspace => {
                view.pop();
                return true;
            }
            KeyCode::Char(character) => {
                view.push(character);
                return true;
            }
            KeyCode::Up | KeyCode::BackTab => Input::Up,
            KeyCode::Down | KeyCode::Tab => Input::Down,
            KeyCode::PageUp => Input::PageUp,
            KeyCode::PageDown => Input::PageDown,
            KeyCode::Home => Input::First,
            KeyCode::End => Input::Last,
            _ => return true,
        };
        view.handle(entries, input);
        true
    }

    fn carry_out(&mut self, command: &ConsoleCommand) {
        self.dirty = true;
        match command.action {
            Action::Quit => self.request = Some(Request::Exit(Exit::Quit)),
            Action::Suspend => self.request = Some(Request::Suspend),
            Action::Repaint => self.request = Some(Request::Repaint),
            Action::Help => self.help = Some(Help::new(self.focus)),
            Action::FocusNext => self.focus = neighbour(self.focus, 1),
            Action::FocusPrevious => self.focus = neighbour(self.focus, PaneId::ALL.len() - 1),
            Action::Focus(pane) => self.focus = pane,
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::Freeze => {
                self.pinned = match self.pinned.take() {
                    Some(_) => None,
                    None => Some(Box::new(self.state.clone())),
                }
            }
            Action::Back => {
                let state = self.pinned.as_deref().unwrap_or(&self.state);
                if self.views.pane(self.focus).handle(state, Input::Back).is_none() {
                    self.zoomed = false;
                }
            }
            Action::Pane(input) => self.input(self.focus, input),
            Action::Cycle(name) => {
                let value = self.views.toggles.wanted(&self.state, name);
                self.send(CommandKind::SetToggle(name, next_value(name, value, true)));
            }
            Action::Hold => self.send(CommandKind::Hold(!self.holding())),
            Action::SingleStep if self.held => self.send(CommandKind::SingleStep),
            Action::SingleStep => {
                self.say(Ink::Warning, "Hold the engine first (p).".to_owned());
            }
            Action::Faster => self.change_pace(true),
            Action::Slower => self.change_pace(false),
        }
    }

    /// Whether the engine will be held once every request is answered.
    fn holding(&self) -> bool {
        let asked = self.unanswered.iter().rev();
        let mut asked = asked.filter_map(|command| match command.kind {
            CommandKind::Hold(hold) => Some(hold),
            _ => None,
        });
        asked.next().unwrap_or(self.held)
    }

    fn change_pace(&mut self, faster: bool) {
        let pace = match (self.pace, faster) {
            (None, true) => None,
            (None, false) => PACES.last().copied(),
            (Some(pace), true) => PACES.into_iter().find(|other| *other > pace),
            (Some(pace), false) => {
                let slower = PACES.into_iter().rev().find(|other| *other < pace);
                Some(slower.unwrap_or(pace))
            }
        };
        self.pace = pace;
        self.send(CommandKind::Pace(pace));
    }

    fn send(&mut self, kind: CommandKind) {
        let command = Command { id: self.next_command, kind };
        self.next_command += 1;
        if self.commands.send(command.clone()).is_err() {
            self.say(Ink::Warning, "The target has ended and takes no commands.".to_owned());
            return;
        }
        self.unanswered.push(command);
        self.show_pending();
    }

    /// Tells the toggles pane which values are asked for and not yet acknowledged.
    fn show_pending(&mut self) {
        let pending = &mut self.views.toggles.pending;
        pending.clear();
        // The last request for a toggle stands.
        for command in &self.unanswered {
            if let CommandKind::SetToggle(name, value) = command.kind {
                pending.insert(name, value);
            }
        }
    }

    fn input(&mut self, pane: PaneId, input: Input) {
        // The toggles are controls: they always show, and act on, what is so now.
        let state = match &self.pinned {
            Some(pinned) if pane != PaneId::Toggles => pinned,
            _ => &self.state,
        };
        match self.views.pane(pane).handle(state, input) {
            Some(PaneAction::SetToggle(name, value)) => {
                self.send(CommandKind::SetToggle(name, value));
            }
            Some(PaneAction::Redraw) | None => {}
        }
    }

    fn scroll(&mut self, pane: Option<PaneId>, input: Input) {
        if let Some(pane) = pane {
            for _ in 0..3 {
                self.input(pane, input);
            }
        }
    }

    /// Draws everything.
    pub fn draw(&mut self, area: Rect, buffer: &mut Buffer) {
        self.dirty = false;
        let hello = self.state.hello.as_ref();
        let lanes = hello.map_or(LANES, |hello| hello.lanes.len().min(LANES.into()) as u16);
        self.layout = Layout::new(area, self.focus, self.zoomed, lanes);
        let Some(layout) = self.layout else {
            let (width, height) = SMALLEST;
            let middle = Rect { y: area.y + area.height / 2, height: area.height.min(1), ..area };
            Pen::new(buffer, middle, 0).put(
                self.theme.ink(Ink::Text),
                format_args!("coalmine needs {width}x{height}, this is {}x{}", area.width, area.height),
            );
            return;
        };
        let state = self.pinned.as_deref().unwrap_or(&self.state);
        let theme = self.theme;
        let behind = self.pinned.as_deref().map(|pinned| {
            let step = |state: &State| state.steps.back().map_or(0, |step| step.step);
            step(&self.state).saturating_sub(step(pinned))
        });
        let marks = Marks { frozen: behind, held: self.held, target_gone: self.target_gone, pace: self.pace };
        let scene = |pane: PaneId| Scene {
            state: if pane == PaneId::Toggles { &self.state } else { state },
            theme,
            focused: pane == self.focus,
        };
        let toggles = &self.views.toggles;
        bars::draw_status(scene(PaneId::Overview), toggles, marks, layout.status, buffer);
        if let Some(tabs) = layout.tabs {
            bars::draw_tabs(theme, self.focus, tabs, buffer);
        }
        if let Some(brief) = layout.brief {
            OverviewView::draw_brief(scene(PaneId::Overview), brief, buffer);
        }
        for pane in PaneId::ALL {
            if let Some(place) = layout.panes[pane as usize] {
                self.views.pane(pane).draw(scene(pane), place, buffer);
            }
        }
        match &self.message {
            Some(message) => bars::draw_message(theme, message, layout.keys, buffer),
            None => bars::draw_keys(theme, self.focus, self.held, layout.keys, buffer),
        }
        if let Some(help) = &mut self.help {
            help.view.draw(&help.entries, theme, area, buffer);
        }
    }
}

fn neighbour(pane: PaneId, distance: usize) -> PaneId {
    PaneId::ALL[(pane as usize + distance) % PaneId::ALL.len()]
}

fn message(ink: Ink, text: String) -> Message {
    Message { text, ink, until: Instant::now() + MESSAGE }
}

/// Strikes an answered command off, and says what came of it if a person wants to know.
fn answer(ack: &Ack, unanswered: &mut Vec<Command>, held: &mut bool) -> Option<Message> {
    let at = unanswered.iter().position(|command| command.id == ack.command)?;
    let command = unanswered.remove(at);
    match (&ack.outcome, command.kind) {
        (Err(reason), kind) => Some(message(Ink::Warning, format!("Refused: {}: {reason}", describe(&kind)))),
        (Ok(step), kind @ CommandKind::SetToggle(..)) => {
            Some(message(Ink::Good, format!("{} from step {step} on", describe(&kind))))
        }
        (Ok(_), CommandKind::Hold(hold)) => {
            *held = hold;
            None
        }
        // One step, then hold.
        (Ok(_), CommandKind::SingleStep) => {
            *held = true;
            None
        }
        (Ok(_), kind @ CommandKind::Pace(_)) => Some(message(Ink::Good, describe(&kind))),
        (Ok(_), CommandKind::Stop) => None,
    }
}

fn describe(kind: &CommandKind) -> String {
    match kind {
        CommandKind::SetToggle(name, value) => {
            format!("{} = {}", toggle_name(*name), name.spec().show(*value))
        }
        CommandKind::Hold(true) => "hold".to_owned(),
        CommandKind::Hold(false) => "run".to_owned(),
        CommandKind::SingleStep => "one step".to_owned(),
        CommandKind::Pace(None) => "pace: as fast as it goes".to_owned(),
        CommandKind::Pace(Some(pace)) => format!("pace: {pace} steps/s"),
        CommandKind::Stop => "stop".to_owned(),
    }
}

/// The name that fits into a line.
fn toggle_name(name: ToggleName) -> &'static str {
    let spec = name.spec();
    match spec.aliases.first() {
        Some(alias) if alias.len() < spec.long.len() => alias,
        _ => spec.long,
    }
}
