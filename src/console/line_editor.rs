//! One line of text that is typed and edited.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Bytes of a line.
const LONGEST: usize = 4_096;
/// Lines that are remembered.
const REMEMBERED: usize = 100;

/// A line with a cursor.
#[derive(Clone, Debug, Default)]
pub(super) struct LineEditor {
    text: String,
    /// In bytes, between two characters.
    cursor: usize,
}

impl LineEditor {
    /// A line with this text and the cursor at its end.
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), cursor: text.len() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Puts `text` in place of what stands between byte `from` and the cursor.
    pub(super) fn replace(&mut self, from: usize, text: &str) {
        self.text.replace_range(from..self.cursor, text);
        self.cursor = from + text.len();
    }

    /// Inserts text at the cursor as if it was typed, without its control characters.
    pub(super) fn insert(&mut self, text: &str) {
        for character in text.chars().filter(|character| !character.is_control()) {
            if self.text.len() + character.len_utf8() <= LONGEST {
                self.text.insert(self.cursor, character);
                self.cursor += character.len_utf8();
            }
        }
    }

    /// Takes a key; `false` when it edits nothing.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let left = self.text[..self.cursor].chars().next_back().map_or(self.cursor, |c| self.cursor - c.len_utf8());
        let right = self.text[self.cursor..].chars().next().map_or(self.cursor, |c| self.cursor + c.len_utf8());
        match key.code {
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.text.len(),
            KeyCode::Char('u') if control => self.replace(0, ""),
            KeyCode::Char('k') if control => self.text.truncate(self.cursor),
            KeyCode::Char('w') if control => {
                let before = self.text[..self.cursor].trim_end();
                let from = before.rfind(' ').map_or(0, |space| space + 1);
                self.replace(from, "");
            }
            KeyCode::Char('h') if control => self.replace(left, ""),
            KeyCode::Char(character) if !control => self.insert(character.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace => self.replace(left, ""),
            KeyCode::Delete => self.text.replace_range(self.cursor..right, ""),
            KeyCode::Left => self.cursor = left,
            KeyCode::Right => self.cursor = right,
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => return false,
        }
        true
    }
}

/// Lines entered before, newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct LineHistory {
    lines: Vec<String>,
    /// Lines back from the newest, while one of them is shown.
    back: usize,
}

impl LineHistory {
    /// Begins a new line.
    pub(super) fn begin(&mut self) {
        self.back = 0;
    }

    /// Remembers a line and forgets where it was looked.
    pub(super) fn remember(&mut self, line: &str) {
        self.back = 0;
        if !line.is_empty() && self.lines.last().is_none_or(|last| last != line) {
            if self.lines.len() == REMEMBERED {
                self.lines.remove(0);
            }
            self.lines.push(line.to_owned());
        }
    }

    /// The line before, or after, the one that was shown last.
    pub(super) fn recall(&mut self, earlier: bool) -> Option<&str> {
        self.back = if earlier { (self.back + 1).min(self.lines.len()) } else { self.back.saturating_sub(1) };
        match self.back {
            0 => (!earlier).then_some(""),
            back => self.lines.get(self.lines.len() - back).map(String::as_str),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn press(editor: &mut LineEditor, code: KeyCode, modifiers: KeyModifiers) {
        editor.key(KeyEvent::new(code, modifiers));
    }

    #[test]
    fn editing_keys_do_what_shells_do() {
        let mut editor = LineEditor::new("set overlap off");
        press(&mut editor, KeyCode::Char('w'), KeyModifiers::CONTROL);
        assert_eq!(editor.text(), "set overlap ");
        press(&mut editor, KeyCode::Char('a'), KeyModifiers::CONTROL);
        press(&mut editor, KeyCode::Delete, KeyModifiers::NONE);
        press(&mut editor, KeyCode::Char('S'), KeyModifiers::SHIFT);
        assert_eq!((editor.text(), editor.cursor()), ("Set overlap ", 1));
        press(&mut editor, KeyCode::Char('k'), KeyModifiers::CONTROL);
        assert_eq!(editor.text(), "S");
    }

    #[test]
    fn earlier_lines_come_back() {
        let mut history = LineHistory::default();
        assert_eq!(history.recall(true), None);
        ["a", "b", "b"].into_iter().for_each(|line| history.remember(line));
        assert_eq!(history.recall(true), Some("b"));
        assert_eq!(history.recall(true), Some("a"));
        assert_eq!(history.recall(true), Some("a"));
        assert_eq!(history.recall(false), Some("b"));
        assert_eq!(history.recall(false), Some(""));
    }

    proptest! {
        #[test]
        fn any_keys_leave_the_cursor_between_characters(keys in prop::collection::vec(
            (prop_oneof![
                any::<char>().prop_map(KeyCode::Char),
                Just(KeyCode::Backspace), Just(KeyCode::Delete), Just(KeyCode::Left), Just(KeyCode::Right),
                Just(KeyCode::Home), Just(KeyCode::End),
            ], any::<bool>()), 0..80)) {
            let mut editor = LineEditor::default();
            for (code, control) in keys {
                press(&mut editor, code, if control { KeyModifiers::CONTROL } else { KeyModifiers::NONE });
                prop_assert!(editor.text().is_char_boundary(editor.cursor()));
                prop_assert!(editor.text().len() <= LONGEST);
                prop_assert!(!editor.text().contains(char::is_control));
            }
        }
    }
}
