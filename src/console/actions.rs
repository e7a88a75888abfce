//! What the commands do.

use std::path::{Path, PathBuf};

use coalmine_panes::{Filter, Input, PaneId, TableForm, ThemeName, next_value};
use coalmine_sessions::{
    CommandKind, Danger, ToggleAssignment,
    macros::{Line, Macro, MacroErrors, MacroLine, MacroRecorder, SHIPPED_PREFIX, parse},
};

use super::{
    App,
    app::Request,
    command::Action,
    commands::{command_named, known_commands},
    jobs::Done,
    layout::{Resize, Shape},
    overlay::{MenuOverlay, Overlay, PromptKind, PromptOverlay},
    source::{Answered, Move, NO_CHANGE, Source},
};
use crate::{
    macro_run::load_macro,
    paths::expand_home,
    playback::ReplayRequest,
    recorder::{Recorder, manifest_of},
};

/// Paces that keys step through, decode steps a second; beyond the last, as fast as it goes.
const PACES: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0];
/// Speeds of a recording that keys step through, times the target's own.
const SPEEDS: [f64; 10] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

// Lines, from keys, menus, the command line and macros.
impl App {
    /// Carries out a line that was typed; one that cannot be read stays where it can be mended.
    pub(super) fn run_typed(&mut self, line: &str) {
        match parse("line", line, &known_commands()) {
            Err(errors) => {
                let error = errors.0.into_iter().next();
                let sentence = error.map_or_else(String::new, |error| error.message.to_string());
                match &mut self.overlay {
                    Some(Overlay::Prompt(prompt)) => prompt.reject(sentence),
                    _ => {
                        self.overlay = None;
                        self.warn(sentence);
                    }
                }
            }
            Ok(script) => {
                self.overlay = None;
                self.run_lines(&script.lines);
            }
        }
    }

    /// Carries out lines: at once if they need not wait for anything, otherwise as a macro.
    pub(super) fn run_lines(&mut self, lines: &[MacroLine]) {
        let waits = |line: &MacroLine| match line.line {
            Line::Wait { .. } | Line::Expect(_) => true,
            Line::Step(count) => count > 1,
            // Among others these end before the next begins.
            Line::Play(_) | Line::Snapshot(_) => lines.len() > 1,
            _ => false,
        };
        if let [only] = lines
            && matches!(only.line, Line::Step(_))
            && self.source.live().is_some_and(|live| !live.holding())
        {
            return self.warn(self.hold_first());
        }
        if lines.iter().any(waits) {
            lines.iter().for_each(|line| self.note(&line.line));
            let name = lines.first().map_or_else(|| "line".into(), |line| line.file.clone());
            return self.start_macro(Macro { name, lines: lines.to_vec() });
        }
        for line in lines {
            if let Err(sentence) = self.execute(line) {
                return self.warn(sentence);
            }
        }
    }

    /// Carries out one line that waits for nothing; an error is a full sentence.
    pub(super) fn execute(&mut self, line: &MacroLine) -> Result<(), String> {
        match &line.line {
            Line::Set(ToggleAssignment { name, value }) => self.ask_target(CommandKind::SetToggle(*name, *value)),
            Line::Toggle(name) => {
                let value = self.views.toggles.wanted(self.source.now(), *name);
                self.ask_target(CommandKind::SetToggle(*name, next_value(*name, value, true)))
            }
            Line::Hold => self.ask_target(CommandKind::Hold(true)),
            Line::Run => self.ask_target(CommandKind::Hold(false)),
            Line::Step(_) if self.source.live().is_none() => self.go(Move::Forward),
            Line::Step(_) if self.source.live().is_some_and(|live| !live.holding()) => Err(self.hold_first()),
            Line::Step(_) => self.ask_target(CommandKind::SingleStep),
            Line::Pace(pace) => self.ask_target(CommandKind::Pace(*pace)),
            Line::Mark(name) => {
                let step = self.source.step().ok_or("There is no step to mark yet.")?;
                self.marks.set(name, step);
                self.note(&line.line);
                self.inform(format!("`{name}` marks step {step}."));
                Ok(())
            }
            Line::Snapshot(file) => {
                let path = expand_home(file);
                let known = path.extension().is_some_and(|extension| extension == "svg" || extension == "txt");
                if !known {
                    return Err(format!("A snapshot is an .svg or a .txt file, and `{file}` is neither."));
                }
                self.snapshot = Some(path);
                self.note(&line.line);
                Ok(())
            }
            Line::Keys(chords) => {
                chords.iter().for_each(|chord| self.chord(*chord));
                Ok(())
            }
            Line::Play(file) => {
                let path = expand_home(file);
                // A macro finds others beside itself, and the one that is recorded will lie elsewhere.
                let absolute = std::path::absolute(&path).ok().filter(|_| !file.starts_with(SHIPPED_PREFIX));
                self.note(&Line::Play(absolute.as_ref().unwrap_or(&path).display().to_string()));
                self.load(path.display().to_string());
                Ok(())
            }
            Line::Wait { .. } | Line::Expect(_) => Err("This line has to wait: it works in a macro.".to_owned()),
            Line::Command { name, arguments } => {
                let command = command_named(name).ok_or_else(|| format!("There is no command `{name}`."))?;
                let values = command.parse(arguments).map_err(|error| error.sentence)?;
                let Action::Console(handler) = command.action else {
                    return Err(format!("`{name}` is no command of the console."));
                };
                if !command.scope.covers(self.arrangement.focus) {
                    let pane = command.scope.name();
                    return Err(format!("`{name}` works in the {pane} pane: `focus {pane}` first."));
                }
                let opened = self.overlay.is_some();
                let noted = self.recording_macro.as_ref().map(|recorder| recorder.lines().len());
                handler(self, &values)?;
                // What changed the target was noted as what it did, and what opened something is noted as what comes of it.
                let effect = noted != self.recording_macro.as_ref().map(|recorder| recorder.lines().len());
                if !effect && opened == self.overlay.is_some() && !name.starts_with("macro.") {
                    self.note(&line.line);
                }
                Ok(())
            }
        }
    }

    fn hold_first(&self) -> String {
        format!("Hold the engine first ({}).", self.options.keymap.keys_of("hold.switch"))
    }

    /// Adds a line to the macro that is being recorded.
    fn note(&mut self, line: &Line) {
        if self.playing.is_some() {
            return;
        }
        if let Some(recorder) = &mut self.recording_macro
            && let Err(errors) = recorder.line(line)
        {
            let sentence = errors.0.first().map_or_else(String::new, |error| error.message.to_string());
            self.warn(sentence);
        }
    }
}

// The target.
impl App {
    /// Asks the target, for a person.
    pub(super) fn ask_target(&mut self, kind: CommandKind) -> Result<(), String> {
        if let Some(playing) = &self.playing {
            if !self.feeding {
                return Err("A macro is playing and has the target to itself; esc ends it.".to_owned());
            }
            // What a pane makes of a key is not seen in a macro's text.
            if !playing.may_change && self.source.live().is_some_and(|live| live.ask_first) {
                return Err("This macro was not asked about, as its lines change nothing, and so may not.".to_owned());
            }
        }
        self.source.ask(kind.clone())?;
        tracing::info!(?kind, "asked of the target");
        self.show_pending();
        match kind {
            CommandKind::SetToggle(name, value) => self.note(&Line::Set(ToggleAssignment { name, value })),
            CommandKind::Hold(true) => self.note(&Line::Hold),
            CommandKind::Hold(false) => self.note(&Line::Run),
            CommandKind::SingleStep => self.note(&Line::Step(1)),
            CommandKind::Pace(pace) => self.note(&Line::Pace(pace)),
            CommandKind::Stop => {}
        }
        Ok(())
    }

    /// Tells the toggles pane which values are asked for and not yet acknowledged.
    pub(super) fn show_pending(&mut self) {
        let pending = &mut self.views.toggles.pending;
        pending.clear();
        if let Source::Live(live) = &self.source {
            pending.extend(live.pending());
        }
    }

    /// Says what the target answered, if a person wants to know.
    pub(super) fn tell(&mut self, answered: &Answered) {
        match (&answered.ack.outcome, &answered.kind) {
            (Err(reason), kind) => self.warn(format!("Refused: {}: {reason}", describe(kind))),
            (Ok(step), kind @ CommandKind::SetToggle(..)) => {
                self.inform(format!("{} from step {step} on", describe(kind)));
            }
            (Ok(_), kind @ CommandKind::Pace(_)) => self.inform(describe(kind)),
            (Ok(_), CommandKind::Hold(_) | CommandKind::SingleStep | CommandKind::Stop) => {}
        }
    }

    pub(super) fn switch_hold(&mut self) -> Result<(), String> {
        let live = self.source.live().ok_or(NO_CHANGE)?;
        let hold = !live.holding();
        self.ask_target(CommandKind::Hold(hold))
    }

    /// Steps to the next pace; of a recording, to the next speed.
    pub(super) fn change_pace(&mut self, faster: bool) -> Result<(), String> {
        match &self.source {
            Source::Live(live) => {
                let pace = match (live.asked_pace(), faster) {
                    (None, true) => None,
                    (None, false) => PACES.last().copied(),
                    (Some(pace), true) => PACES.into_iter().find(|other| *other > pace),
                    (Some(pace), false) => Some(step_down(&PACES, pace)),
                };
                self.ask_target(CommandKind::Pace(pace))
            }
            Source::Replay(replay) => {
                let speed = replay.asked_speed();
                let next = match faster {
                    true => SPEEDS.into_iter().find(|other| *other > speed).unwrap_or(speed),
                    false => step_down(&SPEEDS, speed),
                };
                self.set_speed(next)
            }
        }
    }
}

/// The next smaller of some values, or the value itself when there is none.
fn step_down(values: &[f64], value: f64) -> f64 {
    values.iter().rev().copied().find(|other| *other < value).unwrap_or(value)
}

fn describe(kind: &CommandKind) -> String {
    match kind {
        CommandKind::SetToggle(name, value) => {
            let spec = name.spec();
            format!("{} = {}", spec.short(), spec.show(*value))
        }
        CommandKind::Hold(true) => "hold".to_owned(),
        CommandKind::Hold(false) => "run".to_owned(),
        CommandKind::SingleStep => "one step".to_owned(),
        CommandKind::Pace(None) => "pace: as fast as it goes".to_owned(),
        CommandKind::Pace(Some(pace)) => format!("pace: {pace} steps/s"),
        CommandKind::Stop => "stop".to_owned(),
    }
}

// Time.
impl App {
    pub(super) fn go(&mut self, to: Move) -> Result<(), String> {
        self.source.go(to)
    }

    /// Pins a live view or lets it go on; plays a recording or pauses it.
    pub(super) fn freeze(&mut self) -> Result<(), String> {
        match &mut self.source {
            Source::Live(live) => live.freeze(),
            Source::Replay(replay) => replay.switch(),
        }
        Ok(())
    }

    pub(super) fn set_speed(&mut self, speed: f64) -> Result<(), String> {
        match &mut self.source {
            Source::Live(_) => Err("A live target has a pace and no speed: use `pace`.".to_owned()),
            Source::Replay(replay) => {
                replay.ask(ReplayRequest::Speed(speed));
                Ok(())
            }
        }
    }

    pub(super) fn goto_mark(&mut self, name: &str) -> Result<(), String> {
        let step = self.marks.get(name).ok_or_else(|| format!("There is no mark `{name}`."))?;
        self.go(Move::To(super::command::Place::Step(step)))
    }

    pub(super) fn list_marks(&mut self) -> Result<(), String> {
        let menu = MenuOverlay::marks(self.marks.iter());
        self.overlay = Some(Overlay::Menu(Box::new(menu)));
        Ok(())
    }

    pub(super) fn last_write(&mut self) -> Result<(), String> {
        let page = self.views.canary.page(self.source.shown());
        let page = page.ok_or("No page is selected: drill into a pool with enter first.")?;
        self.go(Move::LastWrite(page))
    }
}

// The focused pane's rows.
impl App {
    /// Opens the line on which a filter is typed.
    pub(super) fn open_filter(&mut self) {
        let filter = self.views.pane(self.arrangement.focus).filter().map(Filter::text);
        let prompt = PromptOverlay::new(PromptKind::Filter, filter.unwrap_or_default());
        self.overlay = Some(Overlay::Prompt(Box::new(prompt)));
    }

    /// Filters the focused pane's rows, for good: as it was typed to the end.
    pub(super) fn filter(&mut self, text: &str) {
        self.set_filter(text);
        let arguments = if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
        self.note(&Line::Command { name: "filter".to_owned(), arguments });
    }

    pub(super) fn set_filter(&mut self, text: &str) {
        let filter = (!text.is_empty()).then(|| Filter::new(text));
        self.views.pane(self.arrangement.focus).set_filter(filter);
    }

    pub(super) fn copy(&mut self) -> Result<(), String> {
        let focus = self.arrangement.focus;
        let state = self.source.of(focus);
        let row =
            self.views.pane(focus).selected_row(state).ok_or("No row is selected: pick one with j or k first.")?;
        self.ask(Request::Copy(row));
        self.inform("The row is in the clipboard, if the terminal takes OSC 52.".to_owned());
        Ok(())
    }

    /// Writes the focused pane's rows; without a name, asks for one.
    pub(super) fn export(&mut self, file: Option<&str>) -> Result<(), String> {
        let focus = self.arrangement.focus;
        let Some(file) = file else {
            self.open_prompt_with(&format!("export {}.csv", focus.name()));
            return Ok(());
        };
        let path = &expand_home(file);
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let form = TableForm::from_extension(extension)
            .ok_or_else(|| format!("An export is a .csv, .json or .txt file, and `{file}` is none."))?;
        let state = self.source.of(focus);
        let table = self.views.pane(focus).table(state);
        self.jobs.write(path, move || {
            let mut bytes = Vec::new();
            // Writing to memory cannot fail.
            let _ = table.write(form, &mut bytes);
            bytes
        });
        Ok(())
    }
}

// Panes and screen.
impl App {
    pub(super) fn set_focus(&mut self, pane: PaneId) {
        self.arrangement.focus = pane;
    }

    pub(super) fn focus_neighbour(&mut self, distance: usize) {
        self.set_focus(PaneId::ALL[(self.arrangement.focus as usize + distance) % PaneId::ALL.len()]);
    }

    pub(super) fn focus_towards(&mut self, direction: &str) {
        let focus = self.arrangement.focus;
        let tiled = self.layout.filter(|layout| layout.panes.iter().flatten().count() > 1);
        match (tiled, direction) {
            (Some(layout), _) => self.set_focus(layout.towards(focus, direction).unwrap_or(focus)),
            // One at a time, they stand side by side as their tabs do.
            (None, "left" | "up") => self.focus_neighbour(PaneId::ALL.len() - 1),
            (None, _) => self.focus_neighbour(1),
        }
    }

    pub(super) fn zoom(&mut self) {
        self.arrangement.zoomed = !self.arrangement.zoomed;
    }

    pub(super) fn resize(&mut self, how: Resize) {
        let focus = self.arrangement.focus;
        self.reshape(|shape| shape.resize(focus, how));
    }

    /// Changes the shape, unless that changes nothing on the screen: what is not seen would have to be undone unseen.
    pub(super) fn reshape(&mut self, change: impl FnOnce(&mut Shape)) {
        let mut shape = self.arrangement.shape;
        change(&mut shape);
        let seen = self.lay_out(self.screen, shape) != self.lay_out(self.screen, self.arrangement.shape);
        if seen || shape == Shape::default() {
            self.arrangement.shape = shape;
        }
    }

    pub(super) fn set_theme(&mut self, name: ThemeName) {
        self.options.theme = name;
    }

    /// Leaves what is drilled into; then the filter, the zoom, and what the view is pinned on.
    pub(super) fn back(&mut self) {
        let pane = self.views.pane(self.arrangement.focus);
        if pane.handle(self.source.shown(), Input::Back).is_some() {
            return;
        }
        if pane.filter().is_some() {
            pane.set_filter(None);
        } else if self.arrangement.zoomed {
            self.arrangement.zoomed = false;
        } else if let Some(live) = self.source.live_mut()
            && live.pinned().is_some()
        {
            live.freeze();
        }
    }

    pub(super) fn open_prompt(&mut self) {
        self.open_prompt_with("");
    }

    pub(super) fn open_prompt_with(&mut self, text: &str) {
        self.history.begin();
        // Files may have come since they were listed.
        self.files = None;
        self.overlay = Some(Overlay::Prompt(Box::new(PromptOverlay::new(PromptKind::Command, text))));
        self.complete();
    }

    pub(super) fn open_palette(&mut self) {
        let menu = MenuOverlay::commands(false, &self.options.keymap, |_| true);
        self.overlay = Some(Overlay::Menu(Box::new(menu)));
    }

    pub(super) fn open_help(&mut self) {
        let focus = self.arrangement.focus;
        let menu = MenuOverlay::commands(true, &self.options.keymap, |command| command.scope.covers(focus));
        self.overlay = Some(Overlay::Menu(Box::new(menu)));
    }
}

// Recordings and macros.
impl App {
    /// Begins a recording at `--record FILE` as soon as it is known what the target is.
    pub(super) fn record_from_start(&mut self) {
        if self.options.record.is_some()
            && self.source.now().hello.is_some()
            && let Some(path) = self.options.record.take()
            && let Err(sentence) = self.record_to(&path)
        {
            self.warn(sentence);
        }
    }

    /// Begins a recording; without a name, in the directory of recordings by the time of day.
    pub(super) fn record(&mut self, file: Option<&str>) -> Result<(), String> {
        let path = match file {
            Some(file) => expand_home(file),
            None => {
                let now = jiff::ZonedDateTime::now().strftime("%Y-%m-%d-%H%M%S");
                // If it cannot be made, beginning the recording says why.
                let _ = std::fs::create_dir_all(&self.options.recordings);
                self.options.recordings.join(format!("{now}.mcap"))
            }
        };
        self.record_to(&path)?;
        self.inform(format!("Recording to {}.", path.display()));
        Ok(())
    }

    fn record_to(&mut self, path: &Path) -> Result<(), String> {
        let (command_line, redaction) = (self.options.command_line.clone(), self.options.redaction);
        let live = self.source.live_mut().ok_or("A recording is not recorded again; copy its file.")?;
        if let Some(recorder) = &live.recorder {
            return Err(format!("A recording to {} goes on; `record.stop` ends it.", recorder.status().path.display()));
        }
        let hello = live.state.hello.as_ref().ok_or("The target has not said yet what it is.")?;
        let manifest = manifest_of(&command_line, hello, redaction);
        let recorder = Recorder::start(path, manifest, &live.state).map_err(|error| error.to_string())?;
        live.recorder = Some(recorder);
        tracing::info!(path = %path.display(), "a recording begins");
        Ok(())
    }

    pub(super) fn stop_recording(&mut self) -> Result<(), String> {
        let recorder = self.source.live_mut().and_then(|live| live.recorder.take());
        let recorder = recorder.ok_or("Nothing is being recorded.")?;
        // The last chunk may take a slow disk its time.
        self.jobs.finish(move || {
            let path = recorder.status().path;
            let recorded = recorder.finish().map_err(|error| error.to_string())?;
            let (steps, bytes) = (recorded.steps, recorded.bytes);
            Ok(Done::Said(format!("{} holds {steps} steps in {bytes} bytes.", path.display())))
        });
        Ok(())
    }

    /// Begins to record commands, or ends it and saves them.
    pub(super) fn record_macro(&mut self) -> Result<(), String> {
        let Some(recorder) = self.recording_macro.take() else {
            self.recording_macro = Some(MacroRecorder::default());
            let keys = self.options.keymap.keys_of("macro.record");
            self.inform(format!("Commands are recorded as a macro; {keys} ends it."));
            return Ok(());
        };
        if recorder.lines().is_empty() {
            return Err("Nothing was done, so there is no macro.".to_owned());
        }
        let text = recorder.text().to_owned();
        self.recorded_macro = Some(text.clone());
        let path = self.options.recorded_macro.clone();
        self.write_macro(path, text);
        Ok(())
    }

    fn write_macro(&mut self, path: PathBuf, text: String) {
        let directory = path.parent().map(Path::to_owned);
        self.jobs.write(&path, move || {
            // If it cannot be made, writing says why.
            let _ = directory.map(std::fs::create_dir_all);
            text.into_bytes()
        });
    }

    pub(super) fn save_macro(&mut self, file: &str) -> Result<(), String> {
        let text = self.recorded_macro.clone().ok_or("No macro was recorded yet.")?;
        self.write_macro(expand_home(file), text);
        Ok(())
    }

    pub(super) fn play_recorded_macro(&mut self) -> Result<(), String> {
        if self.recording_macro.is_some() {
            return Err("A macro that plays itself would not end: end the recording first.".to_owned());
        }
        // As it stands in the file: it may have been edited since.
        self.load(self.options.recorded_macro.display().to_string());
        Ok(())
    }

    /// Reads a macro, and plays it when it is read.
    fn load(&mut self, file: String) {
        self.jobs.read(move || match load_macro(&file) {
            Ok(script) => Ok(Done::Macro(Box::new(script))),
            Err(MacroErrors(errors)) => {
                let more = errors.len().saturating_sub(1);
                let first = errors.into_iter().next();
                let first = first.map_or_else(String::new, |error| match error.line {
                    0 => format!("{}: {}", error.file, error.message),
                    line => format!("{}:{line}:{}: {}", error.file, error.column, error.message),
                });
                Err(if more > 0 { format!("{first} ({more} more)") } else { first })
            }
        });
    }

    /// Plays a macro, if need be after asking.
    pub(super) fn play_loaded(&mut self, script: Macro) {
        let asks = self.source.live().is_some_and(|live| live.ask_first);
        if asks && script.danger() == Danger::MutatesTarget {
            self.overlay = Some(Overlay::Confirm(Box::new(script)));
        } else {
            self.start_macro(script);
        }
    }
}
