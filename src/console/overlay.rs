//! What lies over the panes and gets every key first: menus, the command line, questions.

use coalmine_panes::{Candidate, Ink, Input, Menu, MenuEntry, MenuView, Pen, Prompt, Theme, draw_prompt};
use coalmine_sessions::{
    Danger, Sanitized,
    macros::{Macro, word},
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{buffer::Buffer, layout::Rect};

use super::{
    command::ConsoleCommand,
    completion::{Completion, Files, complete, directory_of},
    fuzzy::Fuzzy,
    keymap::{Bound, Keymap, Row},
    line_editor::{LineEditor, LineHistory},
};

/// What is open.
pub(super) enum Overlay {
    /// A list to choose from.
    Menu(Box<MenuOverlay>),
    /// A line to type.
    Prompt(Box<PromptOverlay>),
    /// A macro that waits for a yes.
    Confirm(Box<Macro>),
    /// A command that waits for a letter.
    Letter(&'static ConsoleCommand),
}

/// What came of a key.
pub(super) enum Effect {
    /// It stays open.
    Stay,
    /// It closes.
    Close,
    /// The key means what it means everywhere.
    Pass,
    /// It closes, and this is carried out.
    Run(Bound),
    /// It closes, and this line is carried out; if it cannot be read it stays open.
    Line(String),
    /// The rows of the focused pane are filtered, and it stays open.
    Filter(String),
    /// It closes, and the rows are filtered so.
    Filtered(String),
    /// It closes, and the macro is played.
    Play(Macro),
}

/// A list to choose from, filtered by what is typed.
pub(super) struct MenuOverlay {
    view: MenuView,
    title: &'static str,
    query: LineEditor,
    entries: Vec<MenuEntry>,
    picks: Vec<Bound>,
    shown: Vec<usize>,
    fuzzy: Fuzzy,
    /// Whether `q` and `?` close it while nothing is typed.
    help: bool,
}

impl MenuOverlay {
    fn new(title: &'static str, rows: Vec<(MenuEntry, Bound)>, help: bool) -> Self {
        let shown = (0..rows.len()).collect();
        let (entries, picks) = rows.into_iter().unzip();
        Self {
            view: MenuView::default(),
            title,
            query: LineEditor::default(),
            entries,
            picks,
            shown,
            fuzzy: Fuzzy::default(),
            help,
        }
    }

    /// Every command with its keys: those that `first` picks come first.
    pub(super) fn commands(help: bool, keymap: &Keymap, first: impl Fn(&ConsoleCommand) -> bool) -> Self {
        // What is for those who work on Coalmine is not picked by mistake.
        let listed = keymap.rows().into_iter().filter(|row| !row.command.name.starts_with("debug."));
        let (mut rows, others): (Vec<Row<'_>>, Vec<_>) = listed.partition(|row| first(row.command));
        rows.extend(others);
        let rows = rows.into_iter().map(|Row { line, keys, bound, command }| {
            let entry = MenuEntry {
                keys: keys.join(" or "),
                name: line,
                note: command.scope.name().into(),
                doc: bound.doc(),
                mutates: command.danger == Danger::MutatesTarget,
            };
            (entry, bound)
        });
        Self::new(if help { "Help" } else { "Commands" }, rows.collect(), help)
    }

    /// The marks, with the steps they name.
    pub(super) fn marks<'a>(marks: impl Iterator<Item = (&'a str, u64)>) -> Self {
        let rows = marks.filter_map(|(name, step)| {
            let entry = MenuEntry {
                keys: String::new(),
                name: name.to_owned(),
                note: "".into(),
                doc: format!("step {step}"),
                mutates: false,
            };
            let line = coalmine_sessions::macros::Line::Command {
                name: "goto.mark".to_owned(),
                arguments: vec![name.to_owned()],
            };
            Some((entry, Bound::parse(&[&line.to_string()]).ok()?))
        });
        Self::new("Marks", rows.collect(), false)
    }

    fn rank(&mut self) {
        let texts = self.entries.iter().map(|entry| (entry.name.as_str(), entry.doc.as_str()));
        self.shown = self.fuzzy.rank(self.query.text(), texts);
        self.view.reset();
    }

    fn key(&mut self, key: KeyEvent) -> Effect {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let typed = !self.query.text().is_empty();
        let input = match key.code {
            KeyCode::Char('c' | 'z' | 'l') if control => return Effect::Pass,
            KeyCode::Esc if typed => {
                self.query = LineEditor::default();
                self.rank();
                return Effect::Stay;
            }
            KeyCode::Esc => return Effect::Close,
            KeyCode::Char('q' | '?') | KeyCode::F(1) if self.help && !typed => return Effect::Close,
            KeyCode::Enter => {
                let chosen = self.shown.get(self.view.selected()).map(|index| self.picks[*index].clone());
                return chosen.map_or(Effect::Close, Effect::Run);
            }
            KeyCode::Up | KeyCode::BackTab => Input::Up,
            KeyCode::Down | KeyCode::Tab => Input::Down,
            KeyCode::Char('p') if control => Input::Up,
            KeyCode::Char('n') if control => Input::Down,
            KeyCode::Char('d') if control => Input::HalfDown,
            KeyCode::Char('u') if control && !typed => Input::HalfUp,
            KeyCode::PageUp => Input::PageUp,
            KeyCode::PageDown => Input::PageDown,
            KeyCode::Home => Input::First,
            KeyCode::End => Input::Last,
            _ => {
                if self.query.key(key) {
                    self.rank();
                }
                return Effect::Stay;
            }
        };
        self.view.handle(self.shown.len(), input);
        Effect::Stay
    }
}

/// What a prompt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptKind {
    /// A command.
    Command,
    /// The filter of the focused pane.
    Filter,
}

/// A line to type.
pub(super) struct PromptOverlay {
    kind: PromptKind,
    line: LineEditor,
    /// What it was when it opened.
    before: String,
    completion: Completion,
    /// The candidate that tab has put in, and what was typed.
    chosen: Option<usize>,
    error: Option<String>,
}

impl PromptOverlay {
    pub(super) fn new(kind: PromptKind, text: &str) -> Self {
        let line = LineEditor::new(text);
        let completion = Completion::default();
        Self { kind, line, before: text.to_owned(), completion, chosen: None, error: None }
    }

    /// Says what is wrong with the line.
    pub(super) fn reject(&mut self, error: String) {
        self.error = Some(error);
    }

    /// Works out what can come next.
    pub(super) fn complete<'a>(&mut self, marks: impl Iterator<Item = &'a str>, files: &Files) {
        if self.completes() {
            self.completion = complete(self.before_cursor(), marks, files);
        }
    }

    /// The directory whose files that takes.
    pub(super) fn directory(&self) -> Option<&str> {
        if self.completes() { directory_of(self.before_cursor()) } else { None }
    }

    /// Whether it completes now: not while it is gone through what there was.
    fn completes(&self) -> bool {
        self.kind == PromptKind::Command && self.chosen.is_none()
    }

    fn before_cursor(&self) -> &str {
        &self.line.text()[..self.line.cursor()]
    }

    /// Text that was pasted.
    pub(super) fn paste(&mut self, text: &str) {
        self.line.insert(text);
        self.edited();
    }

    fn edited(&mut self) {
        self.error = None;
        self.chosen = None;
    }

    fn key(&mut self, key: KeyEvent, history: &mut LineHistory) -> Effect {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('z' | 'l') if control => return Effect::Pass,
            KeyCode::Char('c') if control => return self.close(),
            KeyCode::Esc => return self.close(),
            KeyCode::Enter if self.kind == PromptKind::Filter => {
                return Effect::Filtered(self.line.text().to_owned());
            }
            KeyCode::Enter => {
                let line = self.line.text().trim().to_owned();
                history.remember(&line);
                return if line.is_empty() { Effect::Close } else { Effect::Line(line) };
            }
            // As in a shell, an empty line has nothing to take away but itself.
            KeyCode::Backspace if self.line.text().is_empty() => return self.close(),
            KeyCode::Tab => self.choose(true),
            KeyCode::BackTab => self.choose(false),
            KeyCode::Up | KeyCode::Down if self.kind == PromptKind::Command => {
                if let Some(line) = history.recall(key.code == KeyCode::Up) {
                    self.line = LineEditor::new(line);
                    self.edited();
                }
            }
            _ => {
                if self.line.key(key) {
                    self.edited();
                    if self.kind == PromptKind::Filter {
                        return Effect::Filter(self.line.text().to_owned());
                    }
                }
            }
        }
        Effect::Stay
    }

    fn close(&self) -> Effect {
        match self.kind {
            PromptKind::Command => Effect::Close,
            PromptKind::Filter => Effect::Filtered(self.before.clone()),
        }
    }

    /// Puts the next candidate in place of the word, or the one before.
    fn choose(&mut self, forward: bool) {
        let count = self.completion.candidates.len();
        if count == 0 {
            return;
        }
        let next = match self.chosen {
            None if forward => 0,
            None => count - 1,
            Some(chosen) if forward => (chosen + 1) % count,
            Some(chosen) => (chosen + count - 1) % count,
        };
        self.line.replace(self.completion.from, &self.completion.candidates[next].text);
        // The only one there is is as good as typed.
        self.chosen = (count > 1).then_some(next);
        if count == 1 && !self.line.text()[..self.line.cursor()].ends_with('/') {
            self.line.insert(" ");
        }
        self.error = None;
    }
}

impl Overlay {
    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent, history: &mut LineHistory) -> Effect {
        match self {
            Self::Menu(menu) => menu.key(key),
            Self::Prompt(prompt) => prompt.key(key, history),
            Self::Confirm(script) => match key.code {
                KeyCode::Char('c' | 'z' | 'l') if key.modifiers.contains(KeyModifiers::CONTROL) => Effect::Pass,
                KeyCode::Char('y') | KeyCode::Enter => Effect::Play((**script).clone()),
                KeyCode::Char('n' | 'q') | KeyCode::Esc => Effect::Close,
                _ => Effect::Stay,
            },
            Self::Letter(command) => match key.code {
                KeyCode::Char('c' | 'z' | 'l') if key.modifiers.contains(KeyModifiers::CONTROL) => Effect::Pass,
                KeyCode::Char(letter) if !letter.is_whitespace() => {
                    Effect::Line(format!("{} {}", command.name, word(&letter.to_string())))
                }
                _ => Effect::Close,
            },
        }
    }

    /// Draws it over the screen.
    pub(super) fn draw(&mut self, theme: Theme, keys: Rect, screen: Rect, buffer: &mut Buffer) {
        // The question comes first: what it is about may be longer than the screen.
        let ask = |question: std::fmt::Arguments<'_>, about: &str, buffer: &mut Buffer| {
            let mut pen = Pen::new(buffer, keys, 0);
            pen.put(theme.ink(Ink::Banner), format_args!(" {question} ")).text(theme.ink(Ink::Text), " ");
            let room = pen.room();
            pen.clip(theme.ink(Ink::Text), about, room, theme.glyphs.ellipsis);
            let room = pen.room();
            pen.repeat(theme.ink(Ink::Text), " ", room);
        };
        match self {
            Self::Menu(menu) => {
                let MenuOverlay { view, title, query, entries, shown, .. } = &mut **menu;
                let hint = if query.text().is_empty() { "enter runs   esc closes" } else { "enter runs   esc clears" };
                let menu = Menu { title, query: query.text(), entries, shown, hint };
                view.draw(menu, theme, screen, buffer);
            }
            Self::Prompt(prompt) => {
                let prefix = match prompt.kind {
                    PromptKind::Command => ':',
                    PromptKind::Filter => '/',
                };
                let candidates: &[Candidate] = &prompt.completion.candidates;
                let prompt = Prompt {
                    prefix,
                    text: prompt.line.text(),
                    cursor: prompt.line.cursor(),
                    ghost: &prompt.completion.usage,
                    error: prompt.error.as_deref(),
                    candidates,
                    selected: prompt.chosen,
                };
                draw_prompt(prompt, theme, keys, screen, buffer);
            }
            Self::Confirm(script) => {
                let name = Sanitized::new(&script.name);
                ask(format_args!("This macro changes the target. Play it? y or n"), &name, buffer);
            }
            Self::Letter(command) => ask(format_args!("{}: which letter?", command.name), "", buffer),
        }
    }
}
