//! Log: what the target and the console had to say, the newest line last; drilled in, one line in full.

use std::collections::VecDeque;

use coalmine_sessions::{Log, LogLevel, State};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use crate::{
    Cell, Filter, Ink, Input, Pane, PaneAction, PaneId, Pen, Scene, Table,
    chrome::{below, header, no_match},
    filter::Shown,
    pane::Cursor,
    sheet::Scroll,
    table::tabbed,
};

const COLUMNS: [&str; 2] = ["level", "text"];

/// View of the log: follows the newest line until a line is selected.
#[derive(Clone, Debug, Default)]
pub struct LogView {
    lines: Shown,
    cursor: Cursor,
    /// The line under the cursor and where it was last. The log has room for so many lines and no
    /// numbers, so that a line is found again by what it says.
    selected: Option<(usize, Log)>,
    drilled: bool,
    scroll: Scroll,
}

fn cells(line: &Log) -> [Cell<'_>; COLUMNS.len()] {
    [level(line.level).into(), (&line.text).into()]
}

fn level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Info => "info",
        LogLevel::Warning => "WARN",
        LogLevel::Error => "ERROR",
    }
}

fn level_ink(level: LogLevel) -> Ink {
    match level {
        LogLevel::Info => Ink::Dim,
        LogLevel::Warning => Ink::Warning,
        LogLevel::Error => Ink::Corrupt,
    }
}

impl LogView {
    /// Looks through the log and for the selected line.
    fn settle(&mut self, log: &VecDeque<Log>) {
        self.lines.sift(log.len(), |filter, row| filter.accepts(&cells(&log[row])));
        self.cursor.selected = match &mut self.selected {
            None => self.lines.len().saturating_sub(1),
            Some((index, line)) => {
                // As old lines fall out at the front, it has moved towards it, except at an earlier time.
                let end = log.len().min(*index + 1);
                let before = log.range(..end).rposition(|other| other == line);
                let found = before.or_else(|| Some(end + log.range(end..).position(|other| other == line)?));
                *index = found.unwrap_or(*index);
                self.lines.position(*index)
            }
        };
    }

    fn under_cursor<'s>(&self, log: &'s VecDeque<Log>) -> Option<(usize, &'s Log)> {
        let index = self.lines.get(self.cursor.selected)?;
        self.selected.is_some().then(|| (index, &log[index]))
    }

    fn select(&mut self, log: &VecDeque<Log>) {
        let index = self.lines.get(self.cursor.selected);
        self.selected = index.map(|index| (index, log[index].clone()));
        self.scroll.reset();
    }

    fn draw_line(&mut self, scene: Scene<'_>, line: &Log, area: Rect, buffer: &mut Buffer) {
        let theme = scene.theme;
        self.scroll.show(below(area, 1), buffer, |sheet| {
            sheet.text(theme.ink(Ink::Text), 8, &line.text, |pen| {
                pen.skip(2).text(theme.ink(level_ink(line.level)), level(line.level));
            });
            None
        });
        header(scene, self.id(), format_args!("{}esc back", self.scroll.note(theme)), area, buffer);
    }
}

impl Pane for LogView {
    fn id(&self) -> PaneId {
        PaneId::Log
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let (log, theme) = (&scene.state.log, scene.theme);
        self.settle(log);
        let selected = self.under_cursor(log);
        if let (true, Some((_, line))) = (self.drilled, selected) {
            return self.draw_line(scene, line, area, buffer);
        }
        let count = self.lines.len();
        let newer = count.saturating_sub(self.cursor.selected + 1);
        let area = if let Some(matches) = self.lines.matches(theme.glyphs.dot) {
            header(scene, self.id(), format_args!("{matches}"), area, buffer)
        } else if newer > 0 {
            header(scene, self.id(), format_args!("{newer} newer"), area, buffer)
        } else {
            header(scene, self.id(), format_args!(""), area, buffer)
        };
        self.cursor.settle(count, area.height.into());
        match &self.lines.filter {
            Some(filter) if count == 0 => no_match(scene, filter, area, buffer),
            _ if count == 0 => {
                Pen::new(buffer, area, 0).skip(2).text(theme.ink(Ink::Dim), "nothing yet");
            }
            _ => {}
        }
        for (row, position) in (0..area.height).zip(self.cursor.offset..count) {
            let Some(line) = self.lines.get(position).map(|index| &log[index]) else {
                break;
            };
            let current = scene.focused && selected.is_some() && position == self.cursor.selected;
            let mut pen = Pen::new(buffer, area, row);
            if current {
                pen.text(theme.ink(Ink::Focus), theme.glyphs.cursor);
            }
            pen.to(2).text(theme.ink(level_ink(line.level)), level(line.level)).to(8);
            let room = pen.room();
            pen.clip(theme.ink(Ink::Text), &line.text, room, theme.glyphs.ellipsis);
            if current {
                pen.tint_row(theme.ink(Ink::Selected));
            }
        }
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        let log = &state.log;
        self.settle(log);
        match input {
            Input::Enter => {
                if self.selected.is_none() {
                    self.select(log);
                }
                self.drilled = self.selected.is_some();
            }
            Input::Back if self.drilled => self.drilled = false,
            Input::Back if self.selected.is_some() => self.selected = None,
            // The last line is the newest one, which is followed.
            Input::Last if !self.drilled => self.selected = None,
            Input::NextMatch | Input::PreviousMatch if self.drilled => {
                self.cursor.handle(input, self.lines.len());
                self.select(log);
            }
            _ if self.drilled => return self.scroll.handle(input).then_some(PaneAction::Redraw),
            _ => {
                // The first key only shows the cursor where it already is.
                let first = self.selected.is_none() && matches!(input, Input::Up | Input::Down);
                if !first && !self.cursor.handle(input, self.lines.len()) {
                    return None;
                }
                self.select(log);
            }
        }
        Some(PaneAction::Redraw)
    }

    fn click(&mut self, state: &State, area: Rect, at: Position) -> Option<PaneAction> {
        if self.drilled {
            return None;
        }
        self.settle(&state.log);
        let row = self.cursor.row_at(below(area, 1), at, self.lines.len())?;
        self.drilled = self.selected.is_some() && row == self.cursor.selected;
        self.cursor.selected = row;
        self.select(&state.log);
        Some(PaneAction::Redraw)
    }

    fn table(&mut self, state: &State) -> Table {
        self.settle(&state.log);
        let mut table = Table::new(self.id().name(), &COLUMNS);
        self.lines.iter().for_each(|index| table.push(cells(&state.log[index])));
        table
    }

    fn selected_row(&mut self, state: &State) -> Option<String> {
        self.settle(&state.log);
        self.under_cursor(&state.log).map(|(_, line)| tabbed(cells(line)))
    }

    fn set_filter(&mut self, filter: Option<Filter>) {
        self.drilled &= filter.is_none();
        self.lines.filter = filter;
    }

    fn filter(&self) -> Option<&Filter> {
        self.lines.filter.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(lines: std::ops::Range<usize>) -> State {
        let line = |number| Log { level: LogLevel::Info, text: format!("Line {number}.").into() };
        State { log: lines.map(line).collect(), ..State::default() }
    }

    #[test]
    fn the_cursor_stays_with_its_line_while_lines_come_and_go() {
        let mut view = LogView::default();
        let selected = |view: &mut LogView, state: &State| view.selected_row(state);
        let now = state(0..10);
        assert_eq!(selected(&mut view, &now), None);
        view.handle(&now, Input::Up);
        view.handle(&now, Input::Up);
        let line = Some("info\tLine 8.".to_owned());
        assert_eq!(selected(&mut view, &now), line);
        // More lines, then some that fell out, then an earlier time, at which it had not been said.
        assert_eq!(selected(&mut view, &state(0..20)), line);
        assert_eq!(selected(&mut view, &state(5..25)), line);
        assert_eq!(selected(&mut view, &state(0..3)), Some("info\tLine 2.".to_owned()));
        assert_eq!(selected(&mut view, &state(2..9)), line);
        view.handle(&now, Input::Last);
        assert_eq!(selected(&mut view, &now), None);
    }

    #[test]
    fn the_cursor_moves_over_matching_lines_only() {
        let now = state(0..30);
        let mut view = LogView::default();
        view.set_filter(Some(Filter::new("line 1")));
        assert_eq!(view.table(&now).rows.len(), 11);
        view.handle(&now, Input::First);
        view.handle(&now, Input::NextMatch);
        assert_eq!(view.selected_row(&now), Some("info\tLine 10.".to_owned()));
        // The line stays selected when the others come back.
        view.set_filter(None);
        assert_eq!(view.selected_row(&now), Some("info\tLine 10.".to_owned()));
    }
}
