//! Sessions: one row each, the worst first; drilled in, all that is known of one.

use std::cmp::Reverse;

use coalmine_sessions::{Divergence, Session, SessionId, SessionPhase, State};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use crate::{
    Cell, Filter, Grouped, Ink, Input, Pane, PaneAction, PaneId, Pen, Scene, Table,
    chrome::{below, header, no_match},
    difference,
    filter::Matches,
    pane::Cursor,
    sheet::{Scroll, Sheet},
    table::tabbed,
};

/// What the sessions are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortColumn {
    /// Corrupt ones first, the last found on top; then those that diverged.
    #[default]
    Trouble,
    /// Identity: order of arrival.
    Session,
    /// Where they are in their life.
    Phase,
    /// Turns begun.
    Turn,
    /// Batch slot.
    Slot,
    /// Tokens held.
    Tokens,
    /// Steps in which a row of theirs diverged.
    Diverged,
    /// Step of their last change.
    Changed,
}

impl SortColumn {
    const ALL: [Self; 8] = [
        Self::Trouble,
        Self::Session,
        Self::Phase,
        Self::Turn,
        Self::Slot,
        Self::Tokens,
        Self::Diverged,
        Self::Changed,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Session => "session",
            Self::Phase => "phase",
            Self::Turn => "turn",
            Self::Slot => "slot",
            Self::Tokens => "tokens",
            Self::Diverged => "diverged",
            Self::Changed => "last change",
        }
    }

    /// What is compared; the larger comes first.
    fn key(self, session: &Session) -> (u64, u64) {
        match self {
            Self::Trouble => {
                let flagged = session.flags.last().map_or(0, |flag| flag.step.saturating_add(1));
                (flagged, session.diverged_steps.into())
            }
            Self::Session => (0, 0),
            Self::Phase => (phase_rank(session.phase), 0),
            Self::Turn => (session.turn.into(), 0),
            Self::Slot => (session.slot.map_or(0, |slot| u64::from(slot) + 1), 0),
            Self::Tokens => (session.tokens.into(), 0),
            Self::Diverged => (session.diverged_steps.into(), 0),
            Self::Changed => (session.step, 0),
        }
    }
}

const COLUMNS: [&str; 17] = [
    "session",
    "phase",
    "slot",
    "turn",
    "turns",
    "tokens",
    "text",
    "flags",
    "diverged_steps",
    "first_diverged_step",
    "first_layer",
    "last_call",
    "flag",
    "flag_turn",
    "flag_step",
    "expected",
    "found",
];

/// A session's row, with the last of its flags.
fn cells(id: SessionId, session: &Session) -> [Cell<'_>; COLUMNS.len()] {
    let flag = session.flags.last();
    [
        id.into(),
        phase_name(session.phase).into(),
        session.slot.into(),
        turn_of(session).into(),
        session.turns.into(),
        session.tokens.into(),
        if session.corrupt() { "CORRUPT" } else { "right" }.into(),
        (session.flags.len() as u64).into(),
        session.diverged_steps.into(),
        session.first_diverged.into(),
        session.first_layer.into(),
        (&session.call).into(),
        flag.map(|flag| flag.kind.name()).into(),
        flag.map(|flag| u64::from(flag.turn) + 1).into(),
        flag.map(|flag| flag.step).into(),
        flag.map(|flag| &flag.expected).into(),
        flag.map(|flag| &flag.found).into(),
    ]
}

/// Whether a session's row is to be shown; `s214` finds it as well as `214`.
fn accepts(filter: &Filter, id: SessionId, session: &Session) -> bool {
    let name = Cell::from(format!("s{id}"));
    filter.accepts(cells(id, session).iter().chain([&name]))
}

const DETAILS: [&str; 10] =
    ["what", "step", "turn", "row", "first_layer", "kind", "expected", "found", "largest_difference", "another_token"];

/// What a drilled-into session has: flags, then divergences, the newest of these first.
fn details_table(state: &State, id: SessionId, session: &Session) -> Table {
    let mut table = Table::new("session", &DETAILS);
    for flag in &session.flags {
        table.push([
            "flag".into(),
            flag.step.into(),
            (u64::from(flag.turn) + 1).into(),
            Cell::Empty,
            Cell::Empty,
            flag.kind.name().into(),
            (&flag.expected).into(),
            (&flag.found).into(),
            Cell::Empty,
            Cell::Empty,
        ]);
    }
    for divergence in divergences(state, id) {
        table.push([
            "divergence".into(),
            divergence.step.into(),
            Cell::Empty,
            divergence.row.into(),
            divergence.first_layer.into(),
            Cell::Empty,
            Cell::Empty,
            Cell::Empty,
            f64::from(divergence.largest).into(),
            if divergence.flipped { "yes" } else { "no" }.into(),
        ]);
    }
    table
}

fn divergences(state: &State, id: SessionId) -> impl Iterator<Item = &Divergence> {
    state.divergences.iter().rev().filter(move |divergence| divergence.session == id)
}

/// View of the sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionsView {
    cursor: Cursor,
    /// Column and direction of sorting.
    pub sort: SortColumn,
    ascending: bool,
    filter: Option<Filter>,
    /// The session under the cursor: the cursor stays with it when the order changes.
    selected: Option<SessionId>,
    drilled: bool,
    scroll: Scroll,
    /// Identities in the order of the rows with what they were sorted by; kept to spare an
    /// allocation a frame.
    order: Vec<((u64, u64), SessionId)>,
}

impl SessionsView {
    /// Shows all that is known of a session, once it is known.
    pub fn open(&mut self, session: SessionId) {
        self.selected = Some(session);
        self.drilled = true;
        self.scroll.reset();
    }

    fn sort_rows(&mut self, state: &State) {
        let (column, filter) = (self.sort, self.filter.as_ref());
        let rows = state.sessions.iter();
        let rows = rows.filter(|(id, session)| filter.is_none_or(|filter| accepts(filter, **id, session)));
        self.order.clear();
        self.order.extend(rows.map(|(id, session)| (column.key(session), *id)));
        if self.ascending {
            self.order.sort_unstable();
        } else {
            self.order.sort_unstable_by_key(|row| Reverse(*row));
        }
        let selected = self.selected.and_then(|id| self.order.iter().position(|(_, other)| *other == id));
        let last = self.order.len().saturating_sub(1);
        self.cursor.selected = selected.unwrap_or(self.cursor.selected).min(last);
    }

    fn sort_by(&mut self, column: SortColumn) {
        self.ascending = self.sort == column && !self.ascending;
        self.sort = column;
    }

    /// The session in the row of the cursor: another one than the selected where that is not shown.
    fn under_cursor(&self) -> Option<SessionId> {
        self.order.get(self.cursor.selected).map(|(_, id)| *id)
    }

    fn select(&mut self, id: Option<SessionId>) {
        self.selected = id;
        self.scroll.reset();
    }

    /// The session that is drilled into, if it is known.
    fn opened<'s>(&self, state: &'s State) -> Option<(SessionId, &'s Session)> {
        let id = self.selected.filter(|_| self.drilled)?;
        Some((id, state.sessions.get(&id)?))
    }

    fn draw_details(
        &mut self,
        scene: Scene<'_>,
        (id, session): (SessionId, &Session),
        area: Rect,
        buffer: &mut Buffer,
    ) {
        self.scroll.show(below(area, 1), buffer, |sheet| {
            details(sheet, scene, id, session);
            None
        });
        header(scene, self.id(), format_args!("{}esc back", self.scroll.note(scene.theme)), area, buffer);
    }

    fn draw_header(&self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) -> Rect {
        let glyphs = scene.theme.glyphs;
        let (dot, sort, direction) = (glyphs.dot, self.sort.name(), glyphs.sorted[usize::from(self.ascending)]);
        let all = scene.state.sessions.len();
        if let Some(filter) = &self.filter {
            let matches = Matches { filter, shown: self.order.len(), all, dot };
            header(scene, self.id(), format_args!("{matches} {dot} by {sort} {direction}"), area, buffer)
        } else {
            let all = Grouped(all as u64);
            header(scene, self.id(), format_args!("{all} known {dot} by {sort} {direction}"), area, buffer)
        }
    }
}

impl Pane for SessionsView {
    fn id(&self) -> PaneId {
        PaneId::Sessions
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        if let Some(opened) = self.opened(scene.state) {
            return self.draw_details(scene, opened, area, buffer);
        }
        self.sort_rows(scene.state);
        let count = self.order.len();
        let area = self.draw_header(scene, area, buffer);
        let columns = Columns::new(area.width);
        columns.draw_titles(scene, area, buffer);
        let list = below(area, 1);
        self.cursor.settle(count, list.height as usize);
        match &self.filter {
            Some(filter) if count == 0 => no_match(scene, filter, list, buffer),
            _ if count == 0 => {
                Pen::new(buffer, list, 0).skip(2).text(scene.theme.ink(Ink::Dim), "no session yet");
            }
            _ => {}
        }
        let rows = self.order.iter().enumerate().skip(self.cursor.offset);
        for (row, (index, &(_, id))) in (0..list.height).zip(rows) {
            let selected = index == self.cursor.selected && self.selected.is_some();
            let session = &scene.state.sessions[&id];
            let mut pen = Pen::new(buffer, list, row);
            columns.draw(&mut pen, scene, id, session);
            if selected {
                let mark = if scene.focused { scene.theme.glyphs.cursor } else { " " };
                pen.to(0).text(scene.theme.ink(Ink::Focus), mark);
                if scene.focused {
                    pen.tint_row(scene.theme.ink(Ink::Selected));
                }
            }
        }
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        let drilled = self.opened(state).is_some();
        self.sort_rows(state);
        match input {
            Input::Enter if drilled => {}
            Input::Enter => {
                self.select(self.under_cursor());
                self.drilled = self.selected.is_some();
            }
            Input::Back if self.drilled => self.drilled = false,
            // Without a selection the list shows its head, whatever comes to stand there.
            Input::Back if self.selected.is_some() => {
                self.selected = None;
                self.cursor.selected = 0;
            }
            Input::Sort => {
                let next = (self.sort as usize + 1) % SortColumn::ALL.len();
                self.sort = SortColumn::ALL[next];
            }
            Input::SortInvert => self.ascending = !self.ascending,
            Input::NextMatch | Input::PreviousMatch if drilled => {
                self.cursor.handle(input, self.order.len());
                self.select(self.under_cursor());
            }
            _ if drilled => return self.scroll.handle(input).then_some(PaneAction::Redraw),
            _ => {
                // The first key only shows the cursor where it already is.
                let first = self.selected.is_none() && matches!(input, Input::Up | Input::Down);
                if !first && !self.cursor.handle(input, self.order.len()) {
                    return None;
                }
                self.select(self.under_cursor());
            }
        }
        Some(PaneAction::Redraw)
    }

    fn click(&mut self, state: &State, area: Rect, at: Position) -> Option<PaneAction> {
        if self.opened(state).is_some() {
            return None;
        }
        self.sort_rows(state);
        let area = below(area, 1);
        if at.y == area.y && area.contains(at) {
            self.sort_by(Columns::new(area.width).sort_at(at.x - area.x));
        } else {
            let row = self.cursor.row_at(below(area, 1), at, self.order.len())?;
            let (_, id) = self.order[row];
            self.drilled = self.selected == Some(id);
            self.select(Some(id));
        }
        Some(PaneAction::Redraw)
    }

    /// One row a session; drilled in, its flags and divergences.
    fn table(&mut self, state: &State) -> Table {
        if let Some((id, session)) = self.opened(state) {
            return details_table(state, id, session);
        }
        self.sort_rows(state);
        let mut table = Table::new(self.id().name(), &COLUMNS);
        self.order.iter().for_each(|(_, id)| table.push(cells(*id, &state.sessions[id])));
        table
    }

    /// The session's row, drilled in or not.
    fn selected_row(&mut self, state: &State) -> Option<String> {
        self.sort_rows(state);
        let id = match self.opened(state) {
            Some((id, _)) => id,
            None => self.selected.and_then(|_| self.under_cursor())?,
        };
        Some(tabbed(cells(id, state.sessions.get(&id)?)))
    }

    fn set_filter(&mut self, filter: Option<Filter>) {
        self.drilled &= filter.is_none();
        self.filter = filter;
    }

    fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }
}

fn phase_rank(phase: SessionPhase) -> u64 {
    match phase {
        SessionPhase::Decoding => 5,
        SessionPhase::Thinking => 4,
        SessionPhase::Transfer => 3,
        SessionPhase::Prefill => 2,
        SessionPhase::Waiting => 1,
        SessionPhase::Finished => 0,
    }
}

fn phase_name(phase: SessionPhase) -> &'static str {
    match phase {
        SessionPhase::Decoding => "decoding",
        SessionPhase::Thinking => "thinking",
        SessionPhase::Transfer => "transfer",
        SessionPhase::Prefill => "prefill",
        SessionPhase::Waiting => "waiting",
        SessionPhase::Finished => "finished",
    }
}

/// Where each column begins; `None` where the pane is too narrow for it.
struct Columns {
    slot: Option<u16>,
    tokens: Option<u16>,
    text: u16,
    diverged: u16,
    call: Option<u16>,
}

const SESSION: u16 = 2;
const PHASE: u16 = 9;
const TURN: u16 = 19;

impl Columns {
    fn new(width: u16) -> Self {
        let mut next = 26;
        let mut take = |cells: u16, from: u16| {
            (width >= from).then(|| {
                next += cells;
                next - cells
            })
        };
        let slot = take(6, 76);
        let tokens = take(8, 64);
        // The verdicts are never left out.
        let text = take(11, 0).unwrap_or(26);
        let diverged = take(13, 0).unwrap_or(37);
        let call = take(0, 64);
        Self { slot, tokens, text, diverged, call }
    }

    /// What the title at a column of the pane sorts by.
    fn sort_at(&self, column: u16) -> SortColumn {
        let titles = [
            (Some(PHASE), SortColumn::Phase),
            (Some(TURN), SortColumn::Turn),
            (self.slot, SortColumn::Slot),
            (self.tokens, SortColumn::Tokens),
            (Some(self.text), SortColumn::Trouble),
            (Some(self.diverged), SortColumn::Diverged),
            (self.call, SortColumn::Changed),
        ];
        let mut left = titles.into_iter().filter(|(start, _)| start.is_some_and(|start| start <= column));
        left.next_back().map_or(SortColumn::Session, |(_, sort)| sort)
    }

    fn draw_titles(&self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        let style = scene.theme.ink(Ink::Dim);
        let mut pen = Pen::new(buffer, area, 0);
        pen.to(SESSION).text(style, "session").to(PHASE).text(style, " phase").to(TURN).text(style, " turn");
        if let Some(slot) = self.slot {
            pen.to(slot).text(style, "slot");
        }
        if let Some(tokens) = self.tokens {
            pen.to(tokens).text(style, "tokens");
        }
        pen.to(self.text).text(style, "text");
        pen.to(self.diverged).text(style, "diverged");
        if let Some(call) = self.call {
            pen.to(call).text(style, "last call");
        }
    }

    fn draw(&self, pen: &mut Pen<'_>, scene: Scene<'_>, id: SessionId, session: &Session) {
        let theme = scene.theme;
        let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
        let body = if session.phase == SessionPhase::Finished { dim } else { text };
        pen.to(SESSION)
            .put(body, format_args!("s{id}"))
            .to(PHASE)
            .put(body, format_args!(" {:<9}", phase_name(session.phase)))
            .to(TURN)
            .put(body, format_args!("{:>2}/{:<2}", turn_of(session), session.turns));
        if let (Some(column), Some(slot)) = (self.slot, session.slot) {
            pen.to(column).put(body, format_args!("{slot:>4}"));
        }
        if let Some(column) = self.tokens {
            pen.to(column).put(body, format_args!("{:>6}", Grouped(session.tokens.into())));
        }
        pen.to(self.text);
        if session.corrupt() {
            pen.put(theme.ink(Ink::Corrupt), format_args!("{} CORRUPT", theme.glyphs.corrupt));
        } else {
            pen.text(dim, "right");
        }
        pen.to(self.diverged);
        if session.diverged_steps > 0 {
            pen.put(
                theme.ink(Ink::Diverged),
                format_args!(
                    "{} {} {}",
                    theme.glyphs.diverged,
                    Grouped(session.diverged_steps.into()),
                    plural(session.diverged_steps, "step", "steps")
                ),
            );
        } else {
            pen.text(dim, "no");
        }
        if let Some(column) = self.call {
            pen.to(column);
            match session.flags.last() {
                Some(flag) => {
                    difference::draw(pen, scene, flag);
                    // The call that it is about, where it can be made out.
                    if pen.skip(2).room() >= 24 {
                        let room = pen.room();
                        pen.clip(dim, &flag.found, room, theme.glyphs.ellipsis);
                    }
                }
                None => {
                    let room = pen.room();
                    pen.clip(body, &session.call, room, theme.glyphs.ellipsis);
                }
            }
        }
    }
}

/// The turn as people count.
fn turn_of(session: &Session) -> u64 {
    u64::from(session.turn) + 1
}

fn plural(count: u32, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// Column of the values in the details.
const VALUES: u16 = 13;

/// All that is known of a session, every text in full.
fn details(sheet: &mut Sheet<'_>, scene: Scene<'_>, id: SessionId, session: &Session) {
    let theme = scene.theme;
    let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
    let mut pen = sheet.line();
    pen.skip(2).put(theme.ink(Ink::Strong), format_args!("session {id}")).put(
        text,
        format_args!(
            "  {}, turn {} of {}, {} tokens",
            phase_name(session.phase),
            turn_of(session),
            session.turns,
            Grouped(session.tokens.into())
        ),
    );
    if let Some(slot) = session.slot {
        pen.put(text, format_args!(", slot {slot}"));
    }
    sheet.text(text, VALUES, &session.call, |pen| {
        pen.skip(2).text(dim, "last call");
    });
    let mut pen = sheet.line();
    pen.skip(2).text(dim, "diverged").to(VALUES);
    match session.first_diverged {
        None => pen.text(text, "in no step"),
        Some(first) => pen.put(
            theme.ink(Ink::Diverged),
            format_args!(
                "{} in {} {}, first in step {}",
                theme.glyphs.diverged,
                session.diverged_steps,
                plural(session.diverged_steps, "step", "steps"),
                Grouped(first)
            ),
        ),
    };
    if let Some(layer) = session.first_layer {
        sheet.line().to(VALUES).put(text, format_args!("from layer {layer} on"));
    }
    let mut pen = sheet.line();
    pen.skip(2).text(dim, "text").to(VALUES);
    if session.corrupt() {
        pen.put(
            theme.ink(Ink::Corrupt),
            format_args!(
                "{} CORRUPT in {} {}",
                theme.glyphs.corrupt,
                session.flags.len(),
                plural(session.flags.len() as u32, "call", "calls")
            ),
        );
    } else {
        pen.text(theme.ink(Ink::Good), "every call so far is right");
    }
    for flag in &session.flags {
        let mut pen = sheet.line();
        pen.skip(2)
            .text(theme.ink(Ink::Corrupt), theme.glyphs.corrupt)
            .put(text, format_args!(" turn {} step {:<7} ", u64::from(flag.turn) + 1, Grouped(flag.step)))
            .put(text, format_args!("{:<15}", flag.kind.name()));
        difference::draw(&mut pen, scene, flag);
        for (label, said) in [("expected", &flag.expected), ("found", &flag.found)] {
            sheet.text(text, VALUES, said, |pen| {
                pen.skip(4).text(dim, label);
            });
        }
    }
    let wide = sheet.width() >= 76;
    for divergence in divergences(scene.state, id) {
        let mut pen = sheet.line();
        pen.skip(2)
            .put(theme.ink(Ink::Diverged), format_args!("{} ", theme.glyphs.diverged))
            .put(text, format_args!("step {:<8} row {:<4}", Grouped(divergence.step), divergence.row));
        match divergence.first_layer {
            Some(layer) => pen.put(text, format_args!(" layer {layer}")),
            None => pen.text(text, " logits only"),
        }
        .text(text, if wide { "  differs by" } else { "  by" })
        .put(text, format_args!(" {:.1e}", divergence.largest));
        if divergence.flipped {
            pen.text(theme.ink(Ink::Strong), if wide { "  another token chosen" } else { "  flipped" });
        }
    }
}
