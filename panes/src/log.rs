//! Log: what the target and the console had to say, the newest line last.

use coalmine_sessions::{LogLevel, State};
use ratatui::{buffer::Buffer, layout::Rect};

use crate::{Ink, Input, Pane, PaneAction, PaneId, Pen, Scene, chrome::header};

/// View of the log: follows the newest line until it is scrolled up.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogView {
    /// Lines between the last one in view and the newest.
    back: usize,
    page: usize,
}

impl Pane for LogView {
    fn id(&self) -> PaneId {
        PaneId::Log
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let (log, theme) = (&scene.state.log, scene.theme);
        self.back = self.back.min(log.len().saturating_sub(1));
        let area = if self.back > 0 {
            let note = format_args!("{} newer", self.back);
            header(scene, self.id(), note, area, buffer)
        } else {
            header(scene, self.id(), format_args!(""), area, buffer)
        };
        self.page = area.height as usize;
        let end = log.len() - self.back.min(log.len());
        let start = end.saturating_sub(self.page);
        if log.is_empty() {
            Pen::new(buffer, area, 0).skip(2).text(theme.ink(Ink::Dim), "nothing yet");
        }
        for (row, line) in (0..area.height).zip(log.range(start..end)) {
            let (word, ink) = match line.level {
                LogLevel::Info => ("info ", Ink::Dim),
                LogLevel::Warning => ("WARN ", Ink::Warning),
                LogLevel::Error => ("ERROR", Ink::Corrupt),
            };
            let mut pen = Pen::new(buffer, area, row);
            pen.skip(2).text(theme.ink(ink), word).skip(1);
            let room = pen.room();
            pen.clip(theme.ink(Ink::Text), &line.text, room, theme.glyphs.ellipsis);
        }
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        let page = self.page.max(1);
        let oldest = state.log.len().saturating_sub(1);
        self.back = match input {
            Input::Up => self.back + 1,
            Input::Down => self.back.saturating_sub(1),
            Input::PageUp => self.back + page,
            Input::PageDown => self.back.saturating_sub(page),
            Input::HalfUp => self.back + page.div_ceil(2),
            Input::HalfDown => self.back.saturating_sub(page.div_ceil(2)),
            Input::First => oldest,
            Input::Last => 0,
            Input::Back if self.back > 0 => 0,
            _ => return None,
        }
        .min(oldest);
        Some(PaneAction::Redraw)
    }
}
