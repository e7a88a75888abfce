//! The console without a terminal: events and keys in, a drawing out.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use coalmine_panes::{
    CanaryView, Ink, Input, LogView, OverviewView, Pane, PaneAction, PaneId, Pen, Scene, SessionsView, TimelineView,
    TogglesView, picture,
};
use coalmine_sessions::{
    CommandKind, LogLevel, Sanitized, State,
    macros::{Chord, Key, MacroRecorder},
};
use crossterm::event::{KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use super::{
    ConsoleOptions, Exit, Target,
    arrangement::Arrangement,
    bars,
    command::Scope,
    completion::Files,
    jobs::{Done, Jobs, Waker},
    keymap::{Bound, Match, chord_of, event_of},
    layout::{Layout, SMALLEST, Shape},
    line_editor::LineHistory,
    macro_player::Playing,
    marks::Marks,
    overlay::{Effect, Overlay},
    source::{Answered, Live, Replayed, Source},
};
use coalmine_sessions::recording::RecordingError;

use crate::playback::ReplayRequest;

/// How long a message stays, unless a key takes it away.
const MESSAGE: Duration = Duration::from_secs(12);
/// How often what moves by itself is looked at: the size of a recording.
const REFRESH: Duration = Duration::from_secs(1);
/// Lanes that the layout makes room for at most, and until the target has named its own.
const LANES: u16 = 8;
/// How deep keys of macros may stand for other keys.
const KEY_DEPTH: usize = 8;
/// Keys that one key may stand for in all.
const KEYS: usize = 1_000;

/// What the loop around the app has to do for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// End.
    Exit(Exit),
    /// Hand the terminal to the shell until it continues this process.
    Suspend,
    /// Draw every cell anew.
    Repaint,
    /// Put text into the terminal's clipboard.
    Copy(String),
}

/// A line that stands in for the key bar for a while.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: Sanitized,
    pub(super) ink: Ink,
    until: Instant,
}

#[derive(Default)]
pub(super) struct Views {
    overview: OverviewView,
    sessions: SessionsView,
    pub(super) canary: CanaryView,
    timeline: TimelineView,
    pub(super) toggles: TogglesView,
    log: LogView,
}

impl Views {
    pub(super) fn pane(&mut self, id: PaneId) -> &mut dyn Pane {
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

/// What the pointer drags.
#[derive(Clone, Copy)]
enum Drag {
    /// The rule above a pane, from this row.
    Rule(PaneId, u16),
    /// The gap between the columns, from this column.
    Gap(u16),
}

/// The console: what it looks at, how, and what is pending.
pub struct App {
    pub(super) options: ConsoleOptions,
    pub(super) source: Source,
    pub(super) views: Views,
    pub(super) arrangement: Arrangement,
    pub(super) overlay: Option<Overlay>,
    pub(super) history: LineHistory,
    /// The files of the directory that the line that is typed says.
    pub(super) files: Option<Files>,
    /// Keys of an unfinished sequence.
    pressed: Vec<Chord>,
    message: Option<Message>,
    /// The screen as it was drawn last, and where everything stood.
    pub(super) screen: Rect,
    pub(super) layout: Option<Layout>,
    drag: Option<Drag>,
    pub(super) marks: Marks,
    pub(super) playing: Option<Playing>,
    /// Whether keys and lines come from the macro that plays and not from a person.
    pub(super) feeding: bool,
    /// How deep keys stand for keys just now.
    key_depth: usize,
    /// Keys that it may still stand for.
    keys_left: usize,
    /// The macro that is being recorded.
    pub(super) recording_macro: Option<MacroRecorder>,
    /// The macro that was recorded last, as text.
    pub(super) recorded_macro: Option<String>,
    pub(super) jobs: Jobs,
    /// What the last job that failed had to say, for a macro that waits for it.
    pub(super) job_error: Option<String>,
    /// Where the next frame is to be written.
    pub(super) snapshot: Option<PathBuf>,
    /// Whether the focused pane is to panic when it is drawn.
    panics: bool,
    request: Option<Request>,
    pub(super) dirty: bool,
    answered: Vec<Answered>,
}

impl App {
    /// A console that looks at a target.
    pub fn new(target: Target, options: ConsoleOptions) -> Self {
        let source = match target {
            Target::Live { events, commands, ask_first } => {
                let ask_first = ask_first && !options.allow_mutations;
                Source::Live(Box::new(Live::new(events, commands, options.pace, ask_first)))
            }
            Target::Replay(handle) => Source::Replay(Replayed::new(handle)),
        };
        let mut app = Self {
            source,
            views: Views::default(),
            arrangement: options.arrangement,
            overlay: None,
            history: LineHistory::default(),
            files: None,
            pressed: Vec::new(),
            message: None,
            screen: Rect::ZERO,
            layout: None,
            drag: None,
            marks: Marks::default(),
            playing: None,
            feeding: false,
            key_depth: 0,
            keys_left: 0,
            recording_macro: None,
            recorded_macro: None,
            jobs: Jobs::default(),
            job_error: None,
            snapshot: None,
            panics: false,
            request: None,
            dirty: true,
            answered: Vec::new(),
            options,
        };
        if let Some(notice) = app.options.notice.take() {
            app.warn(notice);
        }
        if let Some(script) = app.options.play.take() {
            app.play_loaded(script);
        }
        app
    }

    /// What to call when something may have happened that [`Self::fold`] will see.
    pub fn set_waker(&mut self, waker: Waker) {
        let then = Waker::clone(&waker);
        match &self.source {
            Source::Live(live) => live.set_waker(Box::new(move || then())),
            Source::Replay(replay) => replay.handle().set_waker(Box::new(move || then())),
        }
        self.jobs.set_waker(waker);
    }

    /// Takes in for a few milliseconds what has happened outside; `false` when nothing is left.
    pub fn fold(&mut self) -> bool {
        let mut answered = std::mem::take(&mut self.answered);
        match &mut self.source {
            Source::Live(live) => self.dirty |= live.fold(&mut answered),
            Source::Replay(replay) => {
                let (changed, message) = replay.poll();
                self.dirty |= changed;
                if let Some(text) = message {
                    self.say(Ink::Warning, text);
                }
            }
        }
        for answered in answered.drain(..) {
            self.macro_answered(&answered);
            self.tell(&answered);
        }
        self.answered = answered;
        self.show_pending();
        self.record_from_start();
        while let Some(ended) = self.jobs.take_ended() {
            match ended {
                Ok(Done::Said(text)) => self.inform(text),
                Ok(Done::Macro(script)) => self.play_loaded(*script),
                Ok(Done::Files(files))
                    if self.files.as_ref().is_some_and(|asked| asked.directory == files.directory) =>
                {
                    self.files = Some(files);
                    self.complete();
                    self.dirty = true;
                }
                // Of a directory that was typed past.
                Ok(Done::Files(_)) => {}
                Err(text) => {
                    self.warn(text.clone());
                    self.job_error = Some(text);
                }
            }
        }
        if self.source.live().is_some_and(Live::has_ended) {
            self.target_ended();
        }
        self.source.live().is_some_and(Live::behind)
    }

    /// Whether nothing that was asked for is still to come.
    pub fn settled(&self) -> bool {
        match &self.source {
            Source::Live(live) => live.is_answered() || live.gone,
            Source::Replay(replay) => replay.is_answered(),
        }
    }

    /// Asks for something of a recording; of a live target that means nothing.
    pub fn ask_replay(&mut self, request: ReplayRequest) {
        if let Source::Replay(replay) = &mut self.source {
            replay.ask(request);
        }
    }

    /// Whether a macro plays or a file is read or written.
    pub fn is_busy(&self) -> bool {
        self.playing.is_some() || self.jobs.busy()
    }

    /// The target has ended: nothing more will come.
    fn target_ended(&mut self) {
        let Source::Live(live) = &mut self.source else { return };
        if std::mem::replace(&mut live.gone, true) {
            return;
        }
        self.dirty = true;
        // A panic that is on screen says why already; else its last words may.
        if self.message.is_some() {
            return;
        }
        let why = live.state.log.back().filter(|line| line.level == LogLevel::Error);
        let text = match why {
            Some(line) => line.text.to_string(),
            None => "The target has ended; what it said stays.".to_owned(),
        };
        self.say(Ink::Warning, text);
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) {
        // Terminals with the kitty protocol also report repeats and releases.
        if key.kind != KeyEventKind::Press {
            return;
        }
        self.dirty = true;
        self.message = None;
        if let Some(overlay) = &mut self.overlay {
            let effect = overlay.key(key, &mut self.history);
            if !self.overlay_effect(effect) {
                return;
            }
        }
        let Some(chord) = chord_of(key) else { return };
        if self.playing.is_some() && !self.feeding && chord.key == Key::Escape {
            self.pressed.clear();
            return self.abort_macro("It was stopped with esc.");
        }
        // In the middle of a sequence escape only ends that.
        if !self.pressed.is_empty() && chord.key == Key::Escape {
            return self.pressed.clear();
        }
        self.pressed.push(chord);
        match self.options.keymap.find(&self.pressed, self.arrangement.focus) {
            Match::Prefix => {}
            Match::Bound(bound) => {
                let bound = bound.clone();
                self.pressed.clear();
                self.run_bound(&bound);
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

    /// Takes a key that another key or a macro stands for.
    pub(super) fn chord(&mut self, chord: Chord) {
        if self.key_depth == 0 {
            self.keys_left = KEYS;
        }
        if self.key_depth == KEY_DEPTH || self.keys_left == 0 {
            // The whole of it ends.
            self.keys_left = 0;
            self.warn(format!("Keys that stand for keys end after {KEY_DEPTH} times, or {KEYS} keys in all."));
            return;
        }
        self.key_depth += 1;
        self.keys_left -= 1;
        self.key(event_of(chord));
        self.key_depth -= 1;
    }

    /// Does what an overlay says; `true` when the key is to mean what it means everywhere.
    fn overlay_effect(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Stay => {}
            Effect::Pass => return true,
            Effect::Close => self.overlay = None,
            Effect::Run(bound) => {
                self.overlay = None;
                // What works in one pane only is picked for that pane.
                if let Scope::Pane(pane) = bound.scope() {
                    self.set_focus(pane);
                }
                self.run_bound(&bound);
            }
            Effect::Line(line) => self.run_typed(&line),
            Effect::Filter(text) => self.set_filter(&text),
            Effect::Filtered(text) => {
                self.overlay = None;
                self.filter(&text);
            }
            Effect::Play(script) => {
                self.overlay = None;
                self.start_macro(script);
            }
        }
        self.complete();
        false
    }

    /// Takes text that was pasted: only a line that is being typed wants it.
    pub fn paste(&mut self, text: &str) {
        if let Some(Overlay::Prompt(prompt)) = &mut self.overlay {
            prompt.paste(text);
            self.complete();
            self.dirty = true;
        }
    }

    /// Works out what can come next on the line that is typed. Names of files come when their directory was read.
    pub(super) fn complete(&mut self) {
        let Some(Overlay::Prompt(prompt)) = &mut self.overlay else { return };
        if let Some(directory) = prompt.directory()
            && self.files.as_ref().is_none_or(|files| files.directory != directory)
        {
            self.files = Some(Files::unread(directory));
            let directory = directory.to_owned();
            self.jobs.look(move || Ok(Done::Files(Files::read(directory))));
        }
        let none = Files::default();
        prompt.complete(self.marks.names(), self.files.as_ref().unwrap_or(&none));
    }

    fn run_bound(&mut self, bound: &Bound) {
        match bound {
            Bound::Letter(command) => self.overlay = Some(Overlay::Letter(command)),
            Bound::Fill(command) => self.open_prompt_with(&format!("{} ", command.name)),
            Bound::Lines(lines) => self.run_lines(lines),
        }
    }

    /// Takes a click, a drag or a turn of the wheel.
    pub fn mouse(&mut self, mouse: MouseEvent) {
        if self.overlay.is_some() {
            return;
        }
        let at = Position::new(mouse.column, mouse.row);
        let Some(layout) = self.layout else { return };
        let under = layout.pane_at(at);
        let timeline = under == Some(PaneId::Timeline);
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => self.press(layout, under, at),
            MouseEventKind::Drag(MouseButton::Left) => match &mut self.drag {
                Some(Drag::Rule(pane, row)) => {
                    let (pane, rows) = (*pane, i32::from(mouse.row) - i32::from(*row));
                    *row = mouse.row;
                    self.reshape(|shape| shape.drag_rule(pane, rows));
                }
                Some(Drag::Gap(column)) => {
                    let columns = i32::from(mouse.column) - i32::from(*column);
                    *column = mouse.column;
                    self.reshape(|shape| shape.drag_gap(columns));
                }
                None => return,
            },
            MouseEventKind::Up(MouseButton::Left) => self.drag = None,
            MouseEventKind::ScrollUp if timeline => self.input_of(PaneId::Timeline, Input::ZoomIn),
            MouseEventKind::ScrollDown if timeline => self.input_of(PaneId::Timeline, Input::ZoomOut),
            MouseEventKind::ScrollUp => self.scroll(under, Input::Up),
            MouseEventKind::ScrollDown => self.scroll(under, Input::Down),
            _ => return,
        }
        self.dirty = true;
    }

    fn press(&mut self, layout: Layout, under: Option<PaneId>, at: Position) {
        if let Some(pane) = layout.tabs.and_then(|tabs| bars::tab_at(tabs, at)) {
            self.set_focus(pane);
            return;
        }
        // Side by side, panes are divided by their rules and by the gap between the columns.
        let tiled = layout.panes.iter().flatten().count() > 1;
        let Some(pane) = under else {
            let between = at.y > layout.status.y && at.y < layout.caption.y;
            self.drag = (tiled && between).then_some(Drag::Gap(at.x));
            return;
        };
        self.set_focus(pane);
        let Some(place) = layout.panes[pane as usize] else { return };
        if at.y == place.y {
            self.drag = tiled.then_some(Drag::Rule(pane, at.y));
        }
        let state = self.source.of(pane);
        let action = self.views.pane(pane).click(state, place, at);
        self.pane_action(action);
    }

    fn scroll(&mut self, pane: Option<PaneId>, input: Input) {
        if let Some(pane) = pane {
            for _ in 0..3 {
                self.input_of(pane, input);
            }
        }
    }

    /// Hands an input to the focused pane.
    pub(super) fn input(&mut self, input: Input) {
        self.input_of(self.arrangement.focus, input);
    }

    fn input_of(&mut self, pane: PaneId, input: Input) {
        let state = self.source.of(pane);
        let action = self.views.pane(pane).handle(state, input);
        self.pane_action(action);
    }

    fn pane_action(&mut self, action: Option<PaneAction>) {
        match action {
            Some(PaneAction::SetToggle(name, value)) => {
                if let Err(sentence) = self.ask_target(CommandKind::SetToggle(name, value)) {
                    self.warn(sentence);
                }
            }
            Some(PaneAction::OpenSession(session)) => {
                self.views.sessions.open(session);
                self.set_focus(PaneId::Sessions);
            }
            Some(PaneAction::Redraw) | None => {}
        }
    }

    /// The screen changed its size, or has to be drawn again for another reason.
    pub fn resized(&mut self) {
        self.dirty = true;
    }

    /// Shows a warning.
    pub fn warn(&mut self, text: String) {
        self.say(Ink::Warning, text);
    }

    /// Shows what went well.
    pub(super) fn inform(&mut self, text: String) {
        self.say(Ink::Good, text);
    }

    pub(super) fn say(&mut self, ink: Ink, text: String) {
        // It may quote a file that is damaged on purpose, or a name.
        let text = Sanitized::new(&text);
        match ink {
            Ink::Warning => tracing::warn!(message = text.as_str()),
            _ => tracing::info!(message = text.as_str()),
        }
        // What went well need not be read to its end.
        let shown = if ink == Ink::Warning { MESSAGE } else { MESSAGE / 2 };
        self.message = Some(Message { text, ink, until: Instant::now() + shown });
        self.dirty = true;
    }

    /// Asks something of the loop around the app.
    pub(super) fn ask(&mut self, request: Request) {
        self.request = Some(request);
    }

    /// What the loop has to do; asked once.
    pub fn take_request(&mut self) -> Option<Request> {
        self.request.take()
    }

    /// Whether the screen is out of date.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// When something on screen changes although nothing happens: a message ends, a recording has grown.
    pub fn next_change(&self) -> Option<Instant> {
        let message = self.message.as_ref().map(|message| message.until);
        let recording = self.source.live().is_some_and(|live| live.recorder.is_some());
        let refresh = recording.then(|| Instant::now() + REFRESH);
        message.into_iter().chain(refresh).min()
    }

    /// Makes such a change.
    pub fn tick(&mut self) {
        if self.message.as_ref().is_some_and(|message| message.until <= Instant::now()) {
            self.message = None;
        }
        self.dirty = true;
    }

    /// Ends the recording that goes on, if one does.
    ///
    /// # Errors
    /// When it could not be written whole.
    pub fn finish_recording(&mut self) -> Result<(), RecordingError> {
        let recorder = self.source.live_mut().and_then(|live| live.recorder.take());
        recorder.map_or(Ok(()), |recorder| recorder.finish().map(drop))
    }

    /// What is known of the target now, whatever the view is pinned on.
    pub fn state(&self) -> &State {
        self.source.now()
    }

    /// How the panes stand.
    pub fn arrangement(&self) -> Arrangement {
        self.arrangement
    }

    /// Makes the focused pane panic when it is drawn next.
    pub(super) fn panic_on_draw(&mut self) {
        self.panics = true;
    }

    /// Where everything would stand.
    pub(super) fn lay_out(&self, area: Rect, shape: Shape) -> Option<Layout> {
        let hello = self.source.now().hello.as_ref();
        let lanes = hello.map_or(LANES, |hello| hello.lanes.len().min(LANES.into()) as u16);
        let caption = self.caption().map_or(0, |caption| bars::sentence_rows(caption, area));
        Layout::new(area, self.arrangement.focus, self.arrangement.zoomed, lanes, caption, shape)
    }

    /// Draws everything.
    pub fn draw(&mut self, area: Rect, buffer: &mut Buffer) {
        self.dirty = false;
        let focus = self.arrangement.focus;
        self.screen = area;
        self.layout = self.lay_out(area, self.arrangement.shape);
        let Some(layout) = self.layout else {
            let (width, height) = SMALLEST;
            let middle = Rect { y: area.y + area.height / 2, height: area.height.min(1), ..area };
            Pen::new(buffer, middle, 0).put(
                self.options.theme().ink(Ink::Text),
                format_args!("coalmine needs {width}x{height}, this is {}x{}", area.width, area.height),
            );
            return self.draw_picture(buffer);
        };
        self.views.toggles.ahead = self.source.live().is_some_and(|live| live.pinned().is_some());
        let theme = self.options.theme();
        let scene = |pane: PaneId| Scene { state: self.source.of(pane), theme, focused: pane == focus };
        let toggles = &self.views.toggles;
        let marked = (self.recording_macro.is_some(), self.arrangement.zoomed);
        bars::draw_status(scene(PaneId::Overview), toggles, &self.source, marked, layout.status, buffer);
        if let Some(tabs) = layout.tabs {
            bars::draw_tabs(theme, focus, tabs, buffer);
        }
        if let Some(brief) = layout.brief {
            OverviewView::draw_brief(scene(PaneId::Overview), brief, buffer);
        }
        for pane in PaneId::ALL {
            if let Some(place) = layout.panes[pane as usize] {
                self.views.pane(pane).draw(scene(pane), place, buffer);
                assert!(!(self.panics && pane == focus), "`debug.panic` was asked for");
            }
        }
        if let Some(caption) = self.caption() {
            bars::draw_sentence(theme, Ink::Strong, caption, layout.caption, buffer);
        }
        match (&self.message, &self.playing) {
            // What the target answers to a macro says less than the line that asked; a warning says more.
            (message, Some(playing))
                if self.snapshot.is_none() && message.as_ref().is_none_or(|message| message.ink != Ink::Warning) =>
            {
                bars::draw_playing(theme, playing, layout.keys, buffer);
            }
            (Some(message), _) => bars::draw_message(theme, message, layout.keys, area, buffer),
            (None, _) if !self.pressed.is_empty() => {
                let next = self.options.keymap.continuations(&self.pressed, focus);
                bars::draw_continuations(theme, &self.pressed, next, layout.keys, buffer);
            }
            // While a menu is open it says itself what keys do.
            (None, _) if matches!(self.overlay, Some(Overlay::Menu(_))) => {}
            (None, _) => bars::draw_keys(theme, &self.options.keymap, focus, &self.source, layout.keys, buffer),
        }
        if let Some(overlay) = &mut self.overlay {
            overlay.draw(theme, layout.keys, area, buffer);
        }
        self.draw_picture(buffer);
    }

    /// What the macro that plays has to say; no picture of the screen shows it.
    fn caption(&self) -> Option<&str> {
        let playing = self.playing.as_ref().filter(|_| self.snapshot.is_none())?;
        playing.caption.as_ref().map(Sanitized::as_str)
    }

    /// Writes the frame to a file if it was asked for.
    fn draw_picture(&mut self, buffer: &Buffer) {
        let Some(path) = self.snapshot.take() else { return };
        let (buffer, theme) = (buffer.clone(), self.options.theme);
        let svg = path.extension().is_some_and(|extension| extension == "svg");
        self.jobs.write(&path, move || {
            let text = if svg { picture::svg(&buffer, theme, "coalmine") } else { picture::text(&buffer) };
            text.into_bytes()
        });
    }
}
