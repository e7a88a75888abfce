//! Toggles: every switch of the target, its value, and what it would do.

use std::collections::BTreeMap;

use coalmine_sessions::{State, TOGGLES, TakesEffect, ToggleName, ToggleSpec, ToggleValue};
use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    Ink, Input, Pane, PaneAction, PaneId, Pen, Scene,
    chrome::{below, header, wrapped},
    pane::Cursor,
};

/// Delays that a nudge cycles through, ns.
const NUDGES: [u32; 7] = [0, 300, 1_000, 3_000, 10_000, 30_000, 100_000];

/// Width from which the list says when a change takes effect, and the column where it does.
const WIDE: u16 = 57;
const WHEN: u16 = 45;

/// Rows of the selected toggle's doc.
const DOC_ROWS: u16 = 3;

/// View of the toggles.
#[derive(Clone, Debug, Default)]
pub struct TogglesView {
    cursor: Cursor,
    /// Values asked for and not yet acknowledged; the console keeps it.
    pub pending: BTreeMap<ToggleName, ToggleValue>,
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
        let name = TOGGLES.get(self.cursor.selected)?.name;
        Some(PaneAction::SetToggle(name, next_value(name, self.wanted(state, name), forward)))
    }

    /// The value a toggle will have once every request is acknowledged.
    pub fn wanted(&self, state: &State, name: ToggleName) -> ToggleValue {
        self.pending.get(&name).copied().unwrap_or_else(|| current(state, name))
    }
}

impl Pane for TogglesView {
    fn id(&self) -> PaneId {
        PaneId::Toggles
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let note = if self.pending.is_empty() { "" } else { "waiting for the target" };
        let area = header(scene, self.id(), format_args!("{note}"), area, buffer);
        let theme = scene.theme;
        let count = TOGGLES.len();
        // The selected toggle's doc stands below the list, which makes room for it while focused.
        let roomy = area.height >= count as u16 + DOC_ROWS;
        let doc_rows = if roomy || (scene.focused && area.height >= 6) { DOC_ROWS } else { 0 };
        let list = Rect { height: (area.height - doc_rows).min(count as u16), ..area };
        self.cursor.settle(count, list.height as usize);
        let rows = TOGGLES.iter().enumerate().skip(self.cursor.offset);
        for (row, (index, spec)) in (0..list.height).zip(rows) {
            let selected = index == self.cursor.selected;
            let mut pen = Pen::new(buffer, list, row);
            if selected && scene.focused {
                pen.text(theme.ink(Ink::Focus), theme.glyphs.cursor);
            }
            pen.to(2).clip(
                theme.ink(if selected { Ink::Strong } else { Ink::Text }),
                short_name(spec),
                15,
                theme.glyphs.ellipsis,
            );
            pen.to(18);
            values(&mut pen, scene, spec, self.pending.get(&spec.name).copied());
            if list.width >= WIDE {
                pen.to(WHEN).text(theme.ink(Ink::Dim), when(spec));
            }
        }
        let Some(spec) = TOGGLES.get(self.cursor.selected) else {
            return;
        };
        if doc_rows == 0 {
            return;
        }
        let spare = area.height - list.height - doc_rows;
        let doc = below(area, list.height + spare.min(1));
        let mut pen = Pen::new(buffer, doc, 0);
        pen.skip(2).put(theme.ink(Ink::Dim), format_args!("{} {} ", spec.long, theme.glyphs.dot));
        let room = pen.room();
        let when = spec.takes_effect.describe();
        pen.clip(theme.ink(Ink::Dim), when, room, theme.glyphs.ellipsis);
        let text = Rect { x: doc.x + 2.min(doc.width), width: doc.width.saturating_sub(3), ..below(doc, 1) };
        wrapped(buffer, text, theme.ink(Ink::Text), spec.doc);
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        match input {
            Input::Enter | Input::Cycle | Input::Right => self.ask(state, true),
            Input::Left => self.ask(state, false),
            _ => self.cursor.handle(input, TOGGLES.len()).then_some(PaneAction::Redraw),
        }
    }
}

fn when(spec: &ToggleSpec) -> &'static str {
    match spec.takes_effect {
        TakesEffect::NextStep => "next step",
        TakesEffect::AfterDrain => "after drain",
    }
}

/// The shortest name a toggle answers to.
fn short_name(spec: &ToggleSpec) -> &'static str {
    if spec.long.len() > 15 { spec.aliases.first().unwrap_or(&spec.long) } else { spec.long }
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
