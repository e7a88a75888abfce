//! Sessions: one row each, the worst first; drilled in, all that is known of one.

use std::cmp::Reverse;

use coalmine_sessions::{Session, SessionId, SessionPhase, State};
use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    Grouped, Ink, Input, Pane, PaneAction, PaneId, Pen, Scene,
    chrome::{below, header},
    difference,
    overview::flag_line,
    pane::Cursor,
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
    /// Tokens held.
    Tokens,
    /// Steps in which a row of theirs diverged.
    Diverged,
    /// Step of their last change.
    Changed,
}

impl SortColumn {
    const ALL: [Self; 6] = [Self::Trouble, Self::Session, Self::Phase, Self::Tokens, Self::Diverged, Self::Changed];

    fn name(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Session => "session",
            Self::Phase => "phase",
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
            Self::Tokens => (session.tokens.into(), 0),
            Self::Diverged => (session.diverged_steps.into(), 0),
            Self::Changed => (session.step, 0),
        }
    }
}

/// View of the sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionsView {
    cursor: Cursor,
    /// Column and direction of sorting.
    pub sort: SortColumn,
    ascending: bool,
    /// The session under the cursor: the cursor stays with it when the order changes.
    selected: Option<SessionId>,
    drilled: bool,
    /// Identities in the order of the rows with what they were sorted by; kept to spare an
    /// allocation a frame.
    order: Vec<((u64, u64), SessionId)>,
}

impl SessionsView {
    fn sort_rows(&mut self, state: &State) {
        let column = self.sort;
        let rows = state.sessions.iter();
        self.order.clear();
        self.order.extend(rows.map(|(id, session)| (column.key(session), *id)));
        if self.ascending {
            self.order.sort_unstable();
        } else {
            self.order.sort_unstable_by_key(|row| Reverse(*row));
        }
        let selected = self.selected.and_then(|id| self.position(id));
        self.cursor.selected = selected.unwrap_or(self.cursor.selected);
    }

    fn position(&self, id: SessionId) -> Option<usize> {
        self.order.iter().position(|(_, other)| *other == id)
    }

    fn under_cursor(&self) -> Option<SessionId> {
        self.order.get(self.cursor.selected).map(|(_, id)| *id)
    }
}

impl Pane for SessionsView {
    fn id(&self) -> PaneId {
        PaneId::Sessions
    }

    fn draw(&mut self, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
        self.sort_rows(scene.state);
        let count = self.order.len();
        let glyphs = scene.theme.glyphs;
        let selected = self.selected.and_then(|id| Some((id, scene.state.sessions.get(&id)?)));
        if let (true, Some((id, session))) = (self.drilled, selected) {
            let note = format_args!("esc back");
            let area = header(scene, self.id(), note, area, buffer);
            return details(scene, id, session, area, buffer);
        }
        let note = format_args!(
            "{} known {} by {} {}",
            Grouped(count as u64),
            glyphs.dot,
            self.sort.name(),
            glyphs.sorted[usize::from(self.ascending)]
        );
        let area = header(scene, self.id(), note, area, buffer);
        let columns = Columns::new(area.width);
        columns.draw_titles(scene, area, buffer);
        let list = below(area, 1);
        self.cursor.settle(count, list.height as usize);
        if count == 0 {
            Pen::new(buffer, list, 0).skip(2).text(scene.theme.ink(Ink::Dim), "no session yet");
        }
        let rows = self.order.iter().enumerate().skip(self.cursor.offset);
        for (row, (index, &(_, id))) in (0..list.height).zip(rows) {
            let selected = index == self.cursor.selected && self.selected.is_some();
            let session = &scene.state.sessions[&id];
            let mut pen = Pen::new(buffer, list, row);
            columns.draw(&mut pen, scene, id, session);
            if selected {
                let mark = if scene.focused { glyphs.cursor } else { " " };
                pen.to(0).text(scene.theme.ink(Ink::Focus), mark);
                if scene.focused {
                    pen.tint_row(scene.theme.ink(Ink::Selected));
                }
            }
        }
    }

    fn handle(&mut self, state: &State, input: Input) -> Option<PaneAction> {
        match input {
            Input::Enter => {
                self.sort_rows(state);
                self.selected = self.under_cursor();
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
            _ => {
                self.sort_rows(state);
                // The first key only shows the cursor where it already is.
                let first = self.selected.is_none() && matches!(input, Input::Up | Input::Down);
                if !first && !self.cursor.handle(input, self.order.len()) {
                    return None;
                }
                self.selected = self.under_cursor();
            }
        }
        Some(PaneAction::Redraw)
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

fn details(scene: Scene<'_>, id: SessionId, session: &Session, area: Rect, buffer: &mut Buffer) {
    let theme = scene.theme;
    let (text, dim) = (theme.ink(Ink::Text), theme.ink(Ink::Dim));
    let mut row = 0;
    let mut line = |draw: &dyn Fn(&mut Pen<'_>)| {
        let mut pen = Pen::new(buffer, area, row);
        pen.skip(2);
        draw(&mut pen);
        row += 1;
    };
    line(&|pen| {
        pen.put(theme.ink(Ink::Strong), format_args!("session {id}")).put(
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
    });
    line(&|pen| {
        pen.text(dim, "last call  ").text(text, &session.call);
    });
    line(&|pen| {
        pen.text(dim, "diverged   ");
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
            pen.put(text, format_args!(", from layer {layer} on"));
        }
    });
    line(&|pen| {
        pen.text(dim, "text       ");
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
    });
    for flag in &session.flags {
        line(&|pen| flag_line(pen, scene, id, flag));
        for (label, said) in [("expected", &flag.expected), ("found", &flag.found)] {
            line(&|pen| {
                pen.skip(2).put(dim, format_args!("{label:<9}")).text(text, said);
            });
        }
    }
    let own = scene.state.divergences.iter().rev();
    for divergence in own.filter(|divergence| divergence.session == id) {
        line(&|pen| {
            pen.put(theme.ink(Ink::Diverged), format_args!("{} ", theme.glyphs.diverged))
                .put(text, format_args!("step {:<8} row {:<4}", Grouped(divergence.step), divergence.row));
            match divergence.first_layer {
                Some(layer) => pen.put(text, format_args!(" from layer {layer}")),
                None => pen.text(text, " logits only"),
            }
            .put(text, format_args!("  differs by {:.1e}", divergence.largest));
            if divergence.flipped {
                pen.text(theme.ink(Ink::Strong), "  another token chosen");
            }
        });
    }
}
