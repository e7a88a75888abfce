//! Toggles: every switch of the target, its value, and what it would do.

use std::collections::BTreeMap;

use coalmine_sessions::{State, TOGGLES, TakesEffect, ToggleName, ToggleSpec, ToggleValue};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use crate::{
    Cell, Filter, Ink, Input, Pane, PaneAction, PaneId, Pen, Scene, Table,
    chrome::{below, header, no_match},
    filter::Shown,
    pane::Cursor,
    pen::text_width,
    sheet::Sheet,
    table::tabbed,
    wrap,
};

const COLUMNS: [&str; 7] = ["name", "short_name", "value", "pending", "default", "takes_effect", "doc"];

/// Delays that a nudge cycles through, ns.
const NUDGES: [u32; 7] = [0, 300, 1_000, 3_000, 10_000, 30_000, 100_000];

/// Width from which the list says when a change takes effect, and the column where it does.
const WIDE: u16 = 57;
const WHEN: u16 = 45;

/// Rows that the list keeps beside the selected toggle's doc.
const LIST_ROWS: u16 = 3;

/// View of the toggles.
#[derive(Clone, Debug, Default)]
pub struct TogglesView {
    toggles: Shown,
    cursor: Cursor,
    /// The toggle under the cursor, by its place among all.
    selected: usize,
    /// Values asked for and not yet acknowledged; the console keeps it.
    pub pending: BTreeMap<ToggleName, ToggleValue>,
    /// Whether what stands beside it is of an earlier step, which it says; the console keeps it.
    pub ahead: bool,
}

/// A toggle's value now.
pub(crate) fn current(state: &State, name: ToggleName) -> ToggleValue {
    state.toggles.get(&name).copied().unwrap_or(name.spec().default)
}

/// The value after (or before) `value` in the order that keys cycle through.
pub fn next_value(name: ToggleName, value: ToggleValue, forward: bool) -> ToggleValue {
    let step = |index: usize, count: usize| {
        if forward { (index + 1) % count } else { (index + count - 1) % count }
    };
    match value {
        ToggleValue::Choice(index) => {
            let count = name.spec().values.len().max(1);
            ToggleValue::Choice(step(usize::from(index) % count, count) as u8)
        }
        ToggleValue::Nanoseconds(delay) => {
            // A delay set by hand lies between two presets: go on from the lower one.
            let index = NUDGES.iter().rposition(|&preset| preset <= delay);
            ToggleValue::Nanoseconds(NUDGES[step(index.unwrap_or(0), NUDGES.len())])
        }
    }
}

impl TogglesView {
    fn ask(&self, state: &State, forward: bool) -> Option<PaneAction> {
        let name = self.under_cursor()?.name;
        Some(PaneAction::SetToggle(name, next_value(name, self.wanted(state, name), forward)))
    }

    /// The value a toggle will have once every request is acknowledged.
    pub fn wanted(&self, state: &State, name: ToggleName) -> ToggleValue {
        self.pending.get(&name).copied().unwrap_or_else(|| current(state, name))
    }

    fn settle(&mut self, state: &State) {
        let pending = &self.pending;
        self.toggles.sift(TOGGLES.len(), |filter, row| filter.accepts(&cells(state, &TOGGLES[row], pending)));
        self.cursor.selected = self.toggles.position(self.selected);
    }

    fn under_cursor(&self) -> Option<&'static ToggleSpec> {
        TOGGLES.get(self.toggles.get(self.cursor.selected)?)
    }

    fn draw_list(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let theme = scene.theme;
        self.cursor.settle(self.toggles.len(), area.height.into());
        let positions = self.cursor.offset..self.toggles.len();
        for (row, position) in (0..area.height).zip(positions) {
            let Some(spec) = self.toggles.get(position).and_then(|index| TOGGLES.get(index)) else {
                break;
            };
            let selected = position == self.cursor.selected;
            let mut pen = Pen::new(buffer, area, row);
            if selected && scene.focused {
                pen.text(theme.ink(Ink::Focus), theme.glyphs.cursor);
            }
            pen.to(2).clip(
                theme.ink(if selected { Ink::Strong } else { Ink::Text }),
                spec.short(),
                15,
                theme.glyphs.ellipsis,
            );
            pen.to(18);
            values(&mut pen, scene, spec, self.pending.get(&spec.name).copied());
            if area.width >= WIDE {
                pen.to(WHEN).text(theme.ink(Ink::Dim), when(spec));
            }
        }
    }
}

/// Name, effect and doc of a toggle in full.
fn draw_doc(scene: Scene<'_>, spec: &ToggleSpec, area: Rect, buffer: &mut Buffer) {
    let (dim, dot) = (scene.theme.ink(Ink::Dim), scene.theme.glyphs.dot);
    let effect = spec.takes_effect.describe();
    let mut sheet = Sheet::new(buffer, area, 0);
    sheet.text(dim, 2, spec.long, |_| {});
    if shares_line(spec, area.width) {
        sheet.same_line().to(2 + text_width(spec.long)).put(dim, format_args!(" {dot} {effect}"));
    } else {
        sheet.text(dim, 2, effect, |_| {});
    }
    sheet.text(scene.theme.ink(Ink::Text), 2, spec.doc, |_| {});
}

/// Whether a toggle's name and effect fit on one line.
fn shares_line(spec: &ToggleSpec, width: u16) -> bool {
    2 + text_width(spec.long) + 3 + text_width(spec.takes_effect.describe()) < width
}

/// Rows that a toggle's name, effect and doc take.
fn doc_rows(spec: &ToggleSpec, width: u16) -> u16 {
    let rows = |text| wrap::lines(text, width.saturating_sub(3)).count() as u16;
    let heading = if shares_line(spec, width) { 1 } else { rows(spec.long) + rows(spec.takes_effect.describe()) };
    heading + rows(spec.doc)
}

impl Pane for TogglesView {
    fn id(&self) -> PaneId {
        PaneId::Toggles
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        self.settle(scene.state);
        let area = match self.toggles.matches(scene.theme.glyphs.dot) {
            Some(matches) => header(scene, self.id(), format_args!("{matches}"), area, buffer),
            None if !self.pending.is_empty() => {
                header(scene, self.id(), format_args!("waiting for the target"), area, buffer)
            }
            None => {
                header(scene, self.id(), format_args!("{}", if self.ahead { "as of now" } else { "" }), area, buffer)
            }
        };
        let count = TOGGLES.len() as u16;
        // The selected toggle's doc stands below the list, which makes room for it while focused.
        let longest = TOGGLES.iter().map(|spec| doc_rows(spec, area.width)).max().unwrap_or(0);
        // So that the list keeps its height while the cursor moves, as far as half of the pane allows.
        let wanted = self.under_cursor().map_or(0, |spec| doc_rows(spec, area.width));
        let wanted = wanted.max(longest.min(area.height / 2));
        let roomy = area.height >= count + longest;
        let doc = if roomy || scene.focused { wanted.min(area.height.saturating_sub(LIST_ROWS)) } else { 0 };
        let list = Rect { height: (area.height - doc).min(count), ..area };
        self.draw_list(scene, list, buffer);
        if let (Some(filter), 0) = (&self.toggles.filter, self.toggles.len()) {
            no_match(scene, filter, area, buffer);
        }
        if let (Some(spec), 1..) = (self.under_cursor(), doc) {
            let spare = area.height - list.height - doc;
            draw_doc(scene, spec, below(area, list.height + spare.min(1)), buffer);
        }
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        self.settle(state);
        match input {
            Input::Enter | Input::Cycle | Input::Right => return self.ask(state, true),
            Input::Left => return self.ask(state, false),
            _ if !self.cursor.handle(input, self.toggles.len()) => return None,
            _ => {}
        }
        self.selected = self.toggles.get(self.cursor.selected).unwrap_or(self.selected);
        Some(PaneAction::Redraw)
    }

    /// A click only selects: a change of the target takes a key.
    fn click(&mut self, state: &State, area: Rect, at: Position) -> Option<PaneAction> {
        self.settle(state);
        let list = Rect { height: self.cursor.page as u16, ..below(area, 1) };
        let row = self.cursor.row_at(list, at, self.toggles.len())?;
        self.selected = self.toggles.get(row)?;
        Some(PaneAction::Redraw)
    }

    fn table(&mut self, state: &State) -> Table {
        self.settle(state);
        let mut table = Table::new(self.id().name(), &COLUMNS);
        self.toggles.iter().for_each(|index| table.push(cells(state, &TOGGLES[index], &self.pending)));
        table
    }

    fn selected_row(&mut self, state: &State) -> Option<String> {
        self.settle(state);
        Some(tabbed(cells(state, self.under_cursor()?, &self.pending)))
    }

    fn set_filter(&mut self, filter: Option<Filter>) {
        self.toggles.filter = filter;
    }

    fn filter(&self) -> Option<&Filter> {
        self.toggles.filter.as_ref()
    }
}

fn cells(
    state: &State,
    spec: &ToggleSpec,
    pending: &BTreeMap<ToggleName, ToggleValue>,
) -> [Cell<'static>; COLUMNS.len()] {
    [
        spec.long.into(),
        spec.short().into(),
        spec.show(current(state, spec.name)).into(),
        pending.get(&spec.name).map(|value| spec.show(*value)).into(),
        spec.show(spec.default).into(),
        spec.takes_effect.describe().into(),
        spec.doc.into(),
    ]
}

fn when(spec: &ToggleSpec) -> &'static str {
    match spec.takes_effect {
        TakesEffect::NextStep => "next step",
        TakesEffect::AfterDrain => "after drain",
    }
}

/// All values with the current one marked; a change that is on its way as `old → new`.
fn values(pen: &mut Pen<'_>, scene: Scene<'_>, spec: &ToggleSpec, pending: Option<ToggleValue>) {
    let theme = scene.theme;
    let value = current(scene.state, spec.name);
    if let Some(wanted) = pending {
        pen.put(theme.ink(Ink::Text), format_args!("{} ", spec.show(value)))
            .put(theme.ink(Ink::Pending), format_args!("{} {} pending", theme.glyphs.arrow, spec.show(wanted)));
        return;
    }
    if spec.values.is_empty() {
        let strong = value != spec.default;
        let ink = if strong { Ink::Strong } else { Ink::Text };
        pen.put(theme.ink(ink), format_args!("[{}]", spec.show(value)));
        return;
    }
    for (index, word) in (0u8..).zip(spec.values) {
        if value == ToggleValue::Choice(index) {
            pen.put(theme.ink(Ink::Strong), format_args!("[{word}]"));
        } else {
            pen.put(theme.ink(Ink::Dim), format_args!(" {word} "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cycle_both_ways() {
        let overlap = ToggleName::Overlap;
        let on = ToggleValue::Choice(1);
        let off = next_value(overlap, on, true);
        assert_eq!(off, ToggleValue::Choice(0));
        assert_eq!(next_value(overlap, off, false), on);
        let nudge = ToggleName::NudgeMain;
        let by_hand = ToggleValue::Nanoseconds(2_000);
        assert_eq!(next_value(nudge, by_hand, true), ToggleValue::Nanoseconds(3_000));
        assert_eq!(next_value(nudge, ToggleValue::Nanoseconds(0), false), ToggleValue::Nanoseconds(100_000));
    }

    #[test]
    fn keys_ask_for_the_next_value_after_the_pending_one() {
        let state = State::default();
        let mut view = TogglesView::default();
        view.handle(&state, Input::Down);
        view.handle(&state, Input::Down);
        let index_k = ToggleName::IndexK;
        let ask = |value| Some(PaneAction::SetToggle(index_k, ToggleValue::Choice(value)));
        assert_eq!(view.handle(&state, Input::Enter), ask(1));
        view.pending.insert(index_k, ToggleValue::Choice(1));
        assert_eq!(view.handle(&state, Input::Cycle), ask(2));
        assert_eq!(view.handle(&state, Input::Left), ask(0));
    }
}
