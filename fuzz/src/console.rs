//! The console on a screen that is a piece of memory.

use std::sync::mpsc;

use coalmine::console::{App, Arrangement, ConsoleOptions, Target};
use coalmine_sessions::{Command, EventKind, EventSender, event_queue};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{buffer::Buffer, layout::Rect};

use super::scratch::with_directory;

/// A console with both ends of its target.
pub(super) struct Bench {
    pub(super) app: App,
    events: EventSender,
    /// Keeps what is asked from being refused.
    _asked: mpsc::Receiver<Command>,
}

impl Bench {
    pub(super) fn new(arrangement: Arrangement) -> Self {
        let (commands, asked) = mpsc::channel();
        let (sender, events) = event_queue(1_024);
        let options = with_directory(|directory| ConsoleOptions {
            recordings: directory.to_owned(),
            recorded_macro: directory.join("recorded.macro"),
            arrangement,
            ..ConsoleOptions::default()
        });
        let app = App::new(Target::Live { events, commands, ask_first: false }, options);
        Self { app, events: sender, _asked: asked }
    }

    pub(super) fn say(&mut self, kind: EventKind, time_ns: u64) {
        self.events.send(kind, time_ns);
    }

    pub(super) fn fold(&mut self) {
        while self.app.fold() {}
    }

    pub(super) fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        self.app.key(KeyEvent::new(code, modifiers));
    }

    pub(super) fn draw(&mut self, width: u16, height: u16) {
        let area = Rect::new(0, 0, width, height);
        self.app.draw(area, &mut Buffer::empty(area));
    }
}

/// What is typed or pasted after `:`, with everything that completes it. It is never entered: some lines write files.
pub fn line(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut bench = Bench::new(Arrangement::default());
    bench.key(KeyCode::Char(':'), KeyModifiers::NONE);
    bench.app.paste(&text);
    bench.draw(100, 30);
    for code in [KeyCode::Tab, KeyCode::Tab, KeyCode::BackTab, KeyCode::Left, KeyCode::Char('\u{301}'), KeyCode::Tab] {
        bench.key(code, KeyModifiers::NONE);
    }
    bench.draw(60, 15);
    bench.key(KeyCode::Esc, KeyModifiers::NONE);
    bench.key(KeyCode::Char('/'), KeyModifiers::NONE);
    text.chars().take(64).for_each(|character| bench.key(KeyCode::Char(character), KeyModifiers::NONE));
    bench.draw(120, 30);
}

/// Panes of any size on screens of several.
pub(super) fn draw_arranged(arrangement: Arrangement) {
    let mut bench = Bench::new(arrangement);
    for (width, height) in [(60, 15), (120, 28), (160, 48), (500, 120)] {
        bench.draw(width, height);
        bench.key(KeyCode::Right, KeyModifiers::CONTROL);
        bench.key(KeyCode::Up, KeyModifiers::CONTROL);
    }
}
