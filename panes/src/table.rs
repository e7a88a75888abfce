//! What a pane shows as a table: for files and for the clipboard.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use coalmine_sessions::{Sanitized, csv};

use crate::pen::text_width;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Nothing to say.
    Empty,
    /// A count, an identity or a time in whole units.
    Integer(u64),
    /// Any other number.
    Number(f64),
    /// A text.
    Text(Cow<'a, str>),
}

impl Cell<'_> {
    /// As it reads in a file, whoever made it: without a character that a terminal would obey or hide.
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Empty => "".into(),
            Self::Integer(value) => value.to_string().into(),
            Self::Number(value) if value.is_finite() => value.to_string().into(),
            Self::Number(_) => "".into(),
            Self::Text(text) if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) => text.as_ref().into(),
            Self::Text(text) => Sanitized::new(text).to_string().into(),
        }
    }

    fn into_owned(self) -> Cell<'static> {
        match self {
            Self::Empty => Cell::Empty,
            Self::Integer(value) => Cell::Integer(value),
            Self::Number(value) => Cell::Number(value),
            Self::Text(text) => Cell::Text(text.into_owned().into()),
        }
    }
}

impl From<u64> for Cell<'_> {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<u32> for Cell<'_> {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u16> for Cell<'_> {
    fn from(value: u16) -> Self {
        Self::Integer(value.into())
    }
}

impl From<f64> for Cell<'_> {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<&'a Sanitized> for Cell<'a> {
    fn from(text: &'a Sanitized) -> Self {
        Self::Text(text.as_str().into())
    }
}

impl<'a> From<Cow<'a, str>> for Cell<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl From<String> for Cell<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'a, T: Into<Self>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableForm {
    /// For spreadsheets: a line of names, then a line a row.
    Csv,
    /// An array of objects.
    Json,
    /// Aligned columns, to be read.
    Text,
}

impl TableForm {
    /// All forms.
    pub const ALL: [Self; 3] = [Self::Csv, Self::Json, Self::Text];

    /// How the names of its files end.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Text => "txt",
        }
    }

    /// The form of files whose names end so.
    pub fn from_extension(extension: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.extension().eq_ignore_ascii_case(extension))
    }
}

/// Rows with the same columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it lists, in one word.
    pub name: &'static str,
    /// The names of its columns.
    pub columns: Vec<&'static str>,
    /// Its rows, each with a cell a column.
    pub rows: Vec<Vec<Cell<'static>>>,
}

impl Table {
    /// A table without rows.
    pub fn new(name: &'static str, columns: &[&'static str]) -> Self {
        Self { name, columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn push<'a>(&mut self, cells: impl IntoIterator<Item = Cell<'a>>) {
        self.rows.push(cells.into_iter().map(Cell::into_owned).collect());
    }

    /// Writes it.
    ///
    /// Whatever a cell holds, what is written has no control character but line feeds, and no
    /// character that reorders or hides others.
    pub fn write(&self, form: TableForm, out: impl Write) -> io::Result<()> {
        match form {
            TableForm::Csv => self.write_csv(out),
            TableForm::Json => self.write_json(out),
            TableForm::Text => self.write_text(out),
        }
    }

    fn write_csv(&self, mut out: impl Write) -> io::Result<()> {
        csv::write_line(&mut out, &self.columns)?;
        for row in &self.rows {
            csv::write_line(&mut out, row.iter().map(Cell::text))?;
        }
        Ok(())
    }

    fn write_json(&self, mut out: impl Write) -> io::Result<()> {
        out.write_all(b"[")?;
        for (index, row) in self.rows.iter().enumerate() {
            out.write_all(if index == 0 { b"\n  {" } else { b",\n  {" })?;
            for (index, (name, cell)) in self.columns.iter().zip(row).enumerate() {
                let comma = if index == 0 { "" } else { ", " };
                write!(out, "{comma}\"{name}\": ")?;
                match cell {
                    Cell::Integer(value) => write!(out, "{value}")?,
                    Cell::Number(value) if value.is_finite() => write!(out, "{value}")?,
                    Cell::Empty | Cell::Number(_) => out.write_all(b"null")?,
                    Cell::Text(_) => serde_json::to_writer(&mut out, &cell.text())?,
                }
            }
            out.write_all(b"}")?;
        }
        out.write_all(if self.rows.is_empty() { b"]\n" } else { b"\n]\n" })
    }

    fn write_text(&self, mut out: impl Write) -> io::Result<()> {
        let texts: Vec<Vec<Cow<'_, str>>> = self.rows.iter().map(|row| row.iter().map(Cell::text).collect()).collect();
        let columns: Vec<(usize, bool)> = (0..self.columns.len()).map(|column| self.column(column, &texts)).collect();
        let mut line = String::new();
        let names = self.columns.iter().map(|name| Cow::from(*name)).collect();
        for row in std::iter::once(&names).chain(&texts) {
            line.clear();
            for (text, &(width, right)) in row.iter().zip(&columns) {
                let gap = " ".repeat(width.saturating_sub(text_width(text).into()));
                let (before, after) = if right { (gap.as_str(), "") } else { ("", gap.as_str()) };
                line.extend([before, text, after, "  "]);
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// How wide a column is, and whether it holds numbers alone.
    fn column(&self, column: usize, texts: &[Vec<Cow<'_, str>>]) -> (usize, bool) {
        let texts = texts.iter().filter_map(|row| row.get(column)).map(|text| text_width(text));
        let width = texts.chain([text_width(self.columns[column])]).max().unwrap_or(0);
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        (width.into(), !cells.any(|cell| matches!(cell, Cell::Text(_))))
    }
}

/// A row as the clipboard gets it: cells with tabs between them, as a spreadsheet takes them.
pub(crate) fn tabbed<'a>(cells: impl IntoIterator<Item = Cell<'a>>) -> String {
    let texts: Vec<String> = cells.into_iter().map(|cell| cell.text().into_owned()).collect();
    texts.join("\t")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(table: &Table, form: TableForm) -> String {
        let mut out = Vec::new();
        table.write(form, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn three_forms() {
        let mut table = Table::new("example", &["step", "name", "share"]);
        table.push([9u64.into(), "a,b".into(), 0.25.into()]);
        table.push([10u64.into(), "=1+1".into(), Cell::Empty]);
        table.push([Cell::Empty, "\u{65e5}\u{672c}".into(), f64::NAN.into()]);
        assert_eq!(written(&table, TableForm::Csv), "step,name,share\n9,\"a,b\",0.25\n10,'=1+1,\n,\u{65e5}\u{672c},\n");
        assert_eq!(
            written(&table, TableForm::Json),
            "[\n  {\"step\": 9, \"name\": \"a,b\", \"share\": 0.25},\n  \
             {\"step\": 10, \"name\": \"=1+1\", \"share\": null},\n  \
             {\"step\": null, \"name\": \"\u{65e5}\u{672c}\", \"share\": null}\n]\n"
        );
        assert_eq!(
            written(&table, TableForm::Text),
            "step  name  share\n   9  a,b    0.25\n  10  =1+1\n      \u{65e5}\u{672c}\n"
        );
        assert_eq!(written(&Table::new("none", &["a"]), TableForm::Json), "[]\n");
    }

    #[test]
    fn extensions_are_read_back() {
        for form in TableForm::ALL {
            assert_eq!(TableForm::from_extension(&form.extension().to_uppercase()), Some(form));
        }
        assert_eq!(TableForm::from_extension("svg"), None);
    }

    fn cell() -> impl Strategy<Value = Cell<'static>> {
        let character = prop_oneof![any::<char>(), proptest::char::range('\u{200b}', '\u{2069}')];
        let text = proptest::collection::vec(character, 0..12);
        prop_oneof![
            Just(Cell::Empty),
            any::<u64>().prop_map(Cell::from),
            any::<f64>().prop_map(Cell::from),
            text.prop_map(|text| text.into_iter().collect::<String>().into()),
        ]
    }

    proptest! {
        /// Even a table that somebody else made of raw text.
        #[test]
        fn nothing_that_a_terminal_obeys_or_hides_is_written(
            rows in proptest::collection::vec(proptest::collection::vec(cell(), 3), 0..5),
        ) {
            let table = Table { name: "any", columns: vec!["a", "b", "c"], rows };
            for form in TableForm::ALL {
                for line in written(&table, form).lines() {
                    prop_assert!(Sanitized::new(line).as_str() == line, "{}", line);
                }
            }
            let json: serde_json::Value = serde_json::from_str(&written(&table, TableForm::Json)).unwrap();
            prop_assert_eq!(json.as_array().unwrap().len(), table.rows.len());
            for row in table.rows {
                let line = tabbed(row);
                prop_assert_eq!(line.matches('\t').count(), 2);
            }
        }
    }
}
