//! Every pane at several sizes, and at any size without a panic.

use std::sync::OnceLock;

use coalmine_sessions::{Log, LogLevel, Sanitized, State};
use proptest::prelude::*;
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::Style,
};

use crate::{
    CanaryView, Candidate, Filter, Input, LogView, Menu, MenuEntry, MenuView, OverviewView, Pane, PaneAction, PaneId,
    Prompt, Scene, SessionsView, SortColumn, TableForm, Theme, ThemeName, TimelineView, TogglesView, draw_prompt,
    synthetic::Synthetic, table::tabbed,
};

/// What the smallest terminal leaves to a pane, a usual one, a large one.
const SIZES: [(u16, u16); 3] = [(60, 11), (80, 24), (200, 60)];

/// A state with some corruption in it.
fn state() -> &'static State {
    static STATE: OnceLock<State> = OnceLock::new();
    STATE.get_or_init(|| {
        let mut state = Synthetic::state_after(700);
        let text = "The 1 hazard of bucket 80 was seen: q_b wrote 4,096 bytes of what index top-k of layer 1 was \
                    still reading, and the rows of 3 sessions diverged in the same step.";
        state.log.push_back(Log { level: LogLevel::Warning, text: text.into() });
        state
    })
}

/// The same target after overlap was turned off, with undeclared changes of pages.
fn flipped() -> State {
    use coalmine_sessions::{Event, EventKind, ToggleChange, ToggleName, ToggleValue};
    let mut target = Synthetic::new(7);
    let mut state = State::default();
    let mut fold = |events: Vec<Event>| events.iter().for_each(|event| state.apply(event));
    fold(target.start());
    target.stray_writes = true;
    for _ in 0..400 {
        fold(target.next_step());
    }
    target.overlap = false;
    fold(vec![Event {
        sequence: 0,
        time_ns: 0,
        kind: EventKind::Toggle(ToggleChange { name: ToggleName::Overlap, value: ToggleValue::Choice(0), step: 400 }),
    }]);
    for _ in 0..120 {
        fold(target.next_step());
    }
    state
}

fn panes() -> [Box<dyn Pane>; 6] {
    [
        Box::new(OverviewView::default()),
        Box::new(SessionsView::default()),
        Box::new(CanaryView::default()),
        Box::new(TimelineView::default()),
        Box::new(TogglesView::default()),
        Box::new(LogView::default()),
    ]
}

fn pane(id: PaneId) -> Box<dyn Pane> {
    let [overview, sessions, canary, timeline, toggles, log] = panes();
    match id {
        PaneId::Overview => overview,
        PaneId::Sessions => sessions,
        PaneId::Canary => canary,
        PaneId::Timeline => timeline,
        PaneId::Toggles => toggles,
        PaneId::Log => log,
    }
}

fn draw(pane: &mut dyn Pane, state: &State, theme: Theme, size: (u16, u16)) -> Buffer {
    let area = Rect::new(0, 0, size.0, size.1);
    let mut buffer = Buffer::empty(area);
    let scene = Scene { state, theme, focused: true };
    pane.draw(scene, area, &mut buffer);
    buffer
}

fn text_of(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(width.max(1));
    rows.map(|row| {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    })
    .collect()
}

/// One snapshot with a drawing a size.
fn snapshot(name: &str, state: &State, prepare: impl Fn(&mut dyn Pane), id: PaneId) {
    let mut drawings = String::new();
    for size in SIZES {
        let mut pane = pane(id);
        // Drawn once before, as keys move by what was last on screen.
        draw(pane.as_mut(), state, Theme::default(), size);
        prepare(pane.as_mut());
        let buffer = draw(pane.as_mut(), state, Theme::default(), size);
        drawings += &format!("{}x{}\n{}\n", size.0, size.1, text_of(&buffer));
    }
    insta::assert_snapshot!(name, drawings);
}

fn press(state: &'static State, inputs: &'static [Input]) -> impl Fn(&mut dyn Pane) {
    move |pane| {
        for input in inputs {
            pane.handle(state, *input);
        }
    }
}

fn filter(text: &'static str) -> impl Fn(&mut dyn Pane) {
    move |pane| pane.set_filter(Some(Filter::new(text)))
}

#[test]
fn overview() {
    snapshot("overview", state(), |_| {}, PaneId::Overview);
}

#[test]
fn overview_after_a_flip() {
    snapshot("overview_flipped", &flipped(), |_| {}, PaneId::Overview);
}

#[test]
fn overview_before_the_first_event() {
    snapshot("overview_starting", &State::default(), |_| {}, PaneId::Overview);
}

#[test]
fn overview_scrolled_to_a_finding() {
    let inputs = &[Input::Last, Input::NextMatch, Input::NextMatch];
    snapshot("overview_finding", state(), press(state(), inputs), PaneId::Overview);
}

#[test]
fn sessions() {
    let inputs = &[Input::Down, Input::Down];
    snapshot("sessions", state(), press(state(), inputs), PaneId::Sessions);
}

#[test]
fn sessions_with_a_filter() {
    snapshot("sessions_filtered", state(), filter("wrong-argument"), PaneId::Sessions);
}

#[test]
fn one_session() {
    let inputs = &[Input::Down, Input::Enter];
    snapshot("session", state(), press(state(), inputs), PaneId::Sessions);
}

#[test]
fn canary() {
    let inputs = &[Input::Down, Input::Right, Input::Right, Input::Right];
    snapshot("canary", state(), press(state(), inputs), PaneId::Canary);
}

#[test]
fn canary_with_undeclared_changes() {
    snapshot("canary_violated", &flipped(), |_| {}, PaneId::Canary);
}

#[test]
fn canary_drilled_into_a_pool() {
    let state = flipped();
    let prepare = |pane: &mut dyn Pane| {
        pane.set_filter(Some(Filter::new("swa-kv l2")));
        for input in [Input::Enter, Input::NextMatch, Input::NextMatch] {
            pane.handle(&state, input);
        }
    };
    snapshot("canary_pool", &state, prepare, PaneId::Canary);
}

#[test]
fn timeline() {
    snapshot("timeline", state(), |_| {}, PaneId::Timeline);
}

#[test]
fn timeline_zoomed_on_a_span() {
    let inputs = &[
        Input::Enter,
        Input::NextSpan,
        Input::NextSpan,
        Input::Down,
        Input::Down,
        Input::Down,
        Input::NextSpan,
        Input::NextSpan,
        Input::Enter,
        Input::ZoomOut,
    ];
    snapshot("timeline_zoomed", state(), press(state(), inputs), PaneId::Timeline);
}

#[test]
fn timeline_with_a_filter() {
    let prepare = |pane: &mut dyn Pane| {
        filter("top-k")(pane);
        press(state(), &[Input::NextMatch, Input::Enter, Input::ZoomOut, Input::ZoomOut])(pane);
    };
    snapshot("timeline_filtered", state(), prepare, PaneId::Timeline);
}

#[test]
fn timeline_drilled_into_a_span() {
    let prepare = |pane: &mut dyn Pane| {
        filter("compress gemm")(pane);
        press(state(), &[Input::NextMatch, Input::Enter, Input::Enter])(pane);
    };
    snapshot("timeline_span", state(), prepare, PaneId::Timeline);
}

#[test]
fn toggles() {
    snapshot("toggles", state(), press(state(), &[Input::Down, Input::Down]), PaneId::Toggles);
}

#[test]
fn log() {
    snapshot("log", state(), press(state(), &[Input::Up]), PaneId::Log);
}

#[test]
fn one_line_of_the_log() {
    snapshot("log_line", state(), press(state(), &[Input::Enter]), PaneId::Log);
}

/// Every pane one below the other.
fn all_panes(theme: Theme) -> Vec<Buffer> {
    let state = flipped();
    let mut buffers = Vec::new();
    for mut pane in panes() {
        draw(pane.as_mut(), &state, theme, SIZES[1]);
        pane.handle(&state, Input::Down);
        pane.handle(&state, Input::NextMatch);
        buffers.push(draw(pane.as_mut(), &state, theme, SIZES[1]));
    }
    buffers
}

#[test]
fn styles_by_theme() {
    for name in ThemeName::ALL {
        let mut legend = String::new();
        for (pane, buffer) in PaneId::ALL.into_iter().zip(all_panes(Theme::new(name, false))) {
            legend += &format!("{}\n{}\n", pane.title(), styles(&buffer));
        }
        insta::assert_snapshot!(format!("styles_{}", name.name()), legend);
    }
}

/// Each style of a drawing with the first text that has it.
fn styles(buffer: &Buffer) -> String {
    let mut seen: Vec<(Style, String)> = Vec::new();
    for row in buffer.content.chunks(buffer.area.width.into()) {
        for run in row.chunk_by(|left, right| left.style() == right.style()) {
            let words: String = run.iter().map(|cell| cell.symbol()).collect();
            let known = seen.iter().any(|(style, _)| *style == run[0].style());
            if !known && (!words.trim().is_empty() || run[0].style() != Style::reset()) {
                seen.push((run[0].style(), words));
            }
        }
    }
    let describe = |(style, words): (Style, String)| {
        let colour = |colour: Option<_>| colour.map_or_else(String::new, |colour| format!("{colour}"));
        format!("  {:>6} on {:<6} {:?}: {}\n", colour(style.fg), colour(style.bg), style.add_modifier, words.trim())
    };
    seen.into_iter().map(describe).collect()
}

#[test]
fn everything_is_readable_without_colour_or_unicode() {
    let mut drawings = String::new();
    for buffer in all_panes(Theme::new(ThemeName::Mono, true)) {
        use ratatui::style::Color;
        assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
        drawings += &text_of(&buffer);
    }
    let theme = Theme::new(ThemeName::Mono, true);
    let area = Rect::new(0, 0, 60, 15);
    let mut buffer = Buffer::empty(area);
    let menu = Menu { title: "Help", query: "", entries: &menu_entries(), shown: &[0, 1, 4], hint: "esc closes" };
    MenuView::default().draw(menu, theme, area, &mut buffer);
    drawings += &text_of(&buffer);
    assert!(drawings.is_ascii(), "{drawings}");
    assert!(drawings.contains("CORRUPT"), "{drawings}");
    insta::assert_snapshot!("ascii", drawings);
}

#[test]
fn a_filter_that_matches_nothing_says_so() {
    for mut pane in panes() {
        pane.set_filter(Some(Filter::new("xyzzy")));
        let drawing = text_of(&draw(pane.as_mut(), state(), Theme::default(), SIZES[0]));
        assert!(drawing.contains("0 of ") && drawing.contains("/xyzzy"), "{drawing}");
        // The overview says it where the findings would be.
        let said = drawing.contains("nothing matches /xyzzy") || pane.id() == PaneId::Overview;
        assert!(said, "{drawing}");
        assert_eq!(pane.filter().map(Filter::text), Some("xyzzy"));
    }
}

#[test]
fn an_inverted_filter_shows_the_rest() {
    for mut pane in panes() {
        let mut count = |filter: Option<&str>| {
            pane.set_filter(filter.map(Filter::new));
            pane.table(state()).rows.len()
        };
        // The totals of the overview are there whatever is looked for.
        let always = count(Some("xyzzy"));
        let (all, with, without) = (count(None), count(Some("in")), count(Some("!in")));
        assert_eq!(all - always, (with - always) + (without - always));
    }
}

#[test]
fn tables() {
    let state = flipped();
    let mut tables = String::new();
    for mut pane in panes() {
        let mut table = pane.table(&state);
        let rows = table.rows.len();
        table.rows.truncate(40);
        let mut out = Vec::new();
        table.write(TableForm::Text, &mut out).unwrap();
        tables += &format!("{}: {rows} rows\n{}\n", table.name, String::from_utf8(out).unwrap());
    }
    insta::assert_snapshot!("tables", tables);
}

/// Clicks on the first place at which a drawing has a text.
#[track_caller]
fn click(pane: &mut dyn Pane, state: &State, wanted: &str) -> Option<PaneAction> {
    let size = SIZES[1];
    let drawing = text_of(&draw(pane, state, Theme::default(), size));
    let found = drawing.lines().enumerate().find_map(|(row, line)| Some((row, line.find(wanted)?, line)));
    let (row, at, line) = found.unwrap_or_else(|| panic!("no {wanted} in\n{drawing}"));
    let column = line[..at].chars().count();
    pane.click(state, Rect::new(0, 0, size.0, size.1), Position::new(column as u16, row as u16))
}

#[test]
fn clicks_select_and_then_drill_in() {
    let state = flipped();
    let redraw = Some(PaneAction::Redraw);

    let mut sessions = SessionsView::default();
    assert_eq!(click(&mut sessions, &state, "tokens"), redraw);
    assert_eq!(sessions.sort, SortColumn::Tokens);
    assert_eq!(click(&mut sessions, &state, "session"), redraw);
    assert_eq!(sessions.sort, SortColumn::Session);
    assert_eq!(click(&mut sessions, &state, "s236"), redraw);
    assert!(sessions.selected_row(&state).unwrap().starts_with("236\t"));
    assert_eq!(click(&mut sessions, &state, "s236"), redraw);
    assert_eq!(sessions.table(&state).name, "session");

    let mut overview = OverviewView::default();
    assert_eq!(click(&mut overview, &state, "s98 "), redraw);
    assert!(overview.selected_row(&state).unwrap().contains("\t98\t"));
    assert_eq!(click(&mut overview, &state, "s98 "), Some(PaneAction::OpenSession(98)));

    let mut canary = CanaryView::default();
    assert_eq!(click(&mut canary, &state, "c128-kv"), redraw);
    assert_eq!(canary.page(&state), None);
    assert_eq!(click(&mut canary, &state, "c128-kv"), redraw);
    let pool = canary.page(&state).unwrap().pool;
    assert_eq!(state.hello.as_ref().unwrap().pools[usize::from(pool)].family.as_str(), "c128-kv");

    let mut timeline = TimelineView::default();
    assert_eq!(click(&mut timeline, &state, "\u{258f}"), redraw);
    let first = timeline.selected_row(&state);
    assert!(first.is_some());
    assert_eq!(click(&mut timeline, &state, "\u{2500}\u{2500}"), None);

    let mut toggles = TogglesView::default();
    assert_eq!(click(&mut toggles, &state, "padding"), redraw);
    assert!(toggles.selected_row(&state).unwrap().starts_with("padding\t"));

    let mut log = LogView::default();
    assert_eq!(click(&mut log, &state, "Captured"), redraw);
    assert_eq!(log.selected_row(&state).unwrap(), "info\tCaptured 8 buckets with 2 variants each.");
}

#[test]
fn the_cursor_stays_with_its_session() {
    let mut view = SessionsView::default();
    view.open(98);
    let row = |view: &mut SessionsView, state: &State| view.selected_row(state).unwrap_or_default();
    let (before, after) = (Synthetic::state_after(300), state());
    assert!(row(&mut view, &before).starts_with("98\t"));
    assert!(row(&mut view, after).starts_with("98\t"));
    view.handle(after, Input::Back);
    for input in [Input::Sort, Input::Sort, Input::SortInvert] {
        view.handle(after, input);
        assert!(row(&mut view, after).starts_with("98\t"));
    }
    // Hidden by a filter, and shown again.
    view.set_filter(Some(Filter::new("s12")));
    assert!(row(&mut view, after).starts_with("12"));
    view.set_filter(None);
    assert!(row(&mut view, after).starts_with("98\t"));
    // Before it arrived, the row at its place is under the cursor.
    view.open(250);
    assert_eq!(view.table(&before).name, "sessions");
    assert_eq!(view.table(after).name, "session");
}

#[test]
fn a_session_s_table_has_its_flags_and_divergences() {
    let mut view = SessionsView::default();
    view.open(214);
    let table = view.table(state());
    let session = &state().sessions[&214];
    let flags = table.rows.iter().filter(|row| row[0] == "flag".into()).count();
    assert_eq!((flags, table.rows.len()), (session.flags.len(), session.flags.len() + 1));
}

#[test]
fn a_drilled_pool_goes_from_one_undeclared_change_to_the_next() {
    let state = flipped();
    let mut view = CanaryView::default();
    view.set_filter(Some(Filter::new("swa-kv l2")));
    assert_eq!(view.page(&state), None);
    view.handle(&state, Input::Enter);
    let pages = |view: &mut CanaryView, input| {
        view.handle(&state, input);
        view.page(&state).unwrap()
    };
    let first = pages(&mut view, Input::NextMatch);
    let second = pages(&mut view, Input::NextMatch);
    assert!(first < second);
    for page in [first, second] {
        assert!(state.canary.violations.iter().any(|(_, at)| *at == page));
    }
    let row = view.selected_row(&state).unwrap();
    assert!(row.starts_with(&format!("swa-kv\t2\t{}\t", second.page)) && !row.ends_with('\t'), "{row}");
    assert_eq!(pages(&mut view, Input::PreviousMatch), first);
    // Only this pool is in the table, and it stays drilled into without the filter.
    view.set_filter(None);
    let pool = &state.hello.as_ref().unwrap().pools[usize::from(first.pool)];
    assert!(view.table(&state).rows.len() < pool.pages as usize);
    assert_eq!(view.page(&state), Some(first));
}

#[test]
fn the_next_match_goes_round() {
    let mut view = TimelineView::default();
    view.set_filter(Some(Filter::new("L1 index top-k")));
    view.handle(state(), Input::NextMatch);
    let only = view.selected_row(state()).unwrap();
    assert!(only.contains("\tL1 index top-k\tindexer\t"), "{only}");
    view.handle(state(), Input::NextMatch);
    assert_eq!(view.selected_row(state()), Some(only));
    view.set_filter(Some(Filter::new("index top-k")));
    view.handle(state(), Input::PreviousMatch);
    assert!(view.selected_row(state()).unwrap().contains("\tL3 index top-k\t"));
    // The same node of another step.
    assert!(view.selected_row(&flipped()).unwrap().contains("\tL3 index top-k\t"));
}

#[test]
fn a_step_without_spans_is_said_to_have_none() {
    let mut state = Synthetic::state_after(9);
    state.spans.pop_back();
    let drawing = text_of(&draw(&mut TimelineView::default(), &state, Theme::default(), SIZES[0]));
    assert!(drawing.contains("step 7 \u{b7} step 8 has no spans"), "{drawing}");
    state.spans.clear();
    let drawing = text_of(&draw(&mut TimelineView::default(), &state, Theme::default(), SIZES[0]));
    assert!(drawing.contains("no step has been timed yet"), "{drawing}");
}

#[test]
fn all_of_the_overview_can_be_scrolled_to() {
    let state = flipped();
    let mut pane = OverviewView::default();
    let mut seen = String::new();
    for _ in 0..60 {
        seen += &text_of(&draw(&mut pane, &state, Theme::default(), (60, 6)));
        pane.handle(&state, Input::Down);
    }
    for words in ["finished", "of 80 rows", "canary hash", "corrupted", "a bar", "last wrong texts"] {
        assert!(seen.contains(words), "{words}");
    }
    let last = pane.table(&state).rows.pop().unwrap();
    assert_eq!(pane.selected_row(&state), Some(tabbed(last)));
}

fn menu_entries() -> Vec<MenuEntry> {
    let entry = |keys: &str, name: &str, note: &'static str, doc: &str| MenuEntry {
        keys: keys.to_owned(),
        name: name.to_owned(),
        note: note.into(),
        doc: doc.to_owned(),
        mutates: name == "overlap",
    };
    let mut entries = vec![
        entry("q or ctrl-c", "quit", "", "Closes the help, or ends the console."),
        entry("o", "overlap", "", "Turns multi-stream overlap on or off."),
        entry("space", "freeze", "", "Pins the view, never the collection; again to go on."),
        entry("f", "time.fit", "timeline", "Shows the whole step."),
        entry(
            "",
            "export",
            "",
            "Writes what the focused pane shows as a table: to a file whose name ends in .csv, .json or .txt.",
        ),
    ];
    let more = (0..20).map(|number| entry("", &format!("mark.{number}"), "", "Goes back to a mark."));
    entries.extend(more);
    entries
}

#[test]
fn menu() {
    let entries = menu_entries();
    let mut drawings = String::new();
    for (size, query, shown) in [
        ((60, 15), "", (0..entries.len()).collect::<Vec<_>>()),
        ((60, 15), "o", vec![4, 1, 3]),
        ((80, 24), "fi", vec![3, 4]),
        ((80, 24), "xyzzy", vec![]),
        ((200, 60), "", (0..entries.len()).collect()),
    ] {
        let area = Rect::new(0, 0, size.0, size.1);
        let mut buffer = Buffer::empty(area);
        let mut view = MenuView::default();
        view.handle(shown.len(), Input::Down);
        let hint = "enter runs   esc closes";
        let menu = Menu { title: "Commands", query, entries: &entries, shown: &shown, hint };
        view.draw(menu, Theme::default(), area, &mut buffer);
        assert_eq!(view.selected(), 1.min(shown.len().saturating_sub(1)));
        drawings += &format!("{}x{}\n{}\n", size.0, size.1, text_of(&buffer));
    }
    insta::assert_snapshot!("menu", drawings);
}

#[test]
fn prompt() {
    let candidate = |text: &str, note: &str| Candidate { text: text.to_owned(), note: note.to_owned() };
    let candidates: Vec<Candidate> =
        std::iter::once(candidate("export", "Writes what the focused pane shows as a table."))
            .chain((0..10).map(|number| candidate(&format!("mark.{number}"), "Goes back to a mark.")))
            .collect();
    let mut drawings = String::new();
    for (size, text, error, candidates, selected) in [
        ((60, 15), "exp", None, &candidates[..1], Some(0)),
        ((60, 15), "mark.", None, &candidates[1..], Some(9)),
        (
            (80, 24),
            "exprot csv",
            Some("There is no command `exprot` (did you mean `export`?)."),
            &candidates[..0],
            None,
        ),
        ((60, 6), "m", Some("Say more, as several commands begin with m."), &candidates[1..], None),
    ] {
        let area = Rect::new(0, 0, size.0, size.1);
        let mut buffer = Buffer::empty(area);
        let prompt = Prompt { prefix: ':', text, cursor: text.len(), ghost: "<file>", error, candidates, selected };
        draw_prompt(prompt, Theme::default(), Rect { y: size.1 - 1, height: 1, ..area }, area, &mut buffer);
        drawings += &format!("{}x{}\n{}\n", size.0, size.1, text_of(&buffer));
    }
    insta::assert_snapshot!("prompt", drawings);
}

/// What no sane target says.
fn hostile() -> impl Strategy<Value = State> {
    use coalmine_sessions::*;
    let span = (any::<u32>(), any::<u8>(), any::<u64>(), any::<u32>());
    let spans = proptest::collection::vec(span, 0..12);
    let pool = (any::<u32>(), any::<u16>());
    let pools = proptest::collection::vec(pool, 0..6);
    let steps = proptest::collection::vec(any::<u64>(), 0..6);
    (spans, pools, steps, any::<u32>()).prop_map(|(spans, pools, steps, number)| {
        let mut state = State::default();
        let mut fold = |kind| {
            state.apply_owned(Event { sequence: 0, time_ns: 0, kind });
        };
        fold(EventKind::Hello(Box::new(Hello {
            pools: pools
                .into_iter()
                .map(|(pages, layer)| Pool {
                    family: "\u{65e5}\u{672c}\u{8a9e} wide".into(),
                    layer,
                    pages,
                    page_bytes: number,
                })
                .collect(),
            lanes: vec!["\u{1f4a9}".into(), "".into()],
            ..Hello::default()
        })));
        fold(EventKind::Log(Log { level: LogLevel::Error, text: "\u{65e5}\u{672c}\u{202e}".repeat(90).into() }));
        for step in steps {
            fold(EventKind::Step(Step {
                step,
                rows: number,
                start_ns: step,
                diverged_rows: vec![number, 0],
                diverged_sessions: vec![step, 0],
                ..Step::default()
            }));
            fold(EventKind::Session(SessionChange {
                session: step,
                turn: number,
                step,
                call: "\u{202e}call".into(),
                flag: Some(Flag {
                    kind: FlagKind::MalformedCall,
                    turn: number,
                    step,
                    expected: "".into(),
                    found: "\u{65e5}\u{672c}".into(),
                }),
                ..SessionChange::default()
            }));
            fold(EventKind::Canary(CanaryReport {
                step,
                pages_checked: number,
                violations: vec![PageRef { pool: 0, page: number }],
                ..CanaryReport::default()
            }));
            fold(EventKind::Spans(SpanBatch {
                step,
                graph: number,
                spans: spans
                    .iter()
                    .map(|&(node, lane, start_ns, duration_ns)| Span { node, lane, start_ns, duration_ns })
                    .collect(),
            }));
        }
        state
    })
}

fn input() -> impl Strategy<Value = Input> {
    use Input::*;
    let all = [
        Up,
        Down,
        Left,
        Right,
        First,
        Last,
        PageUp,
        PageDown,
        HalfUp,
        HalfDown,
        Enter,
        Back,
        Sort,
        SortInvert,
        Cycle,
        ZoomIn,
        ZoomOut,
        PanLeft,
        PanRight,
        PreviousSpan,
        NextSpan,
        Fit,
        NextMatch,
        PreviousMatch,
    ];
    proptest::sample::select(all.to_vec())
}

/// What can be done to a pane.
#[derive(Clone, Debug)]
enum Deed {
    Press(Input),
    Click(u16, u16),
    Look(Option<String>),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let text = proptest::option::of("[!]?[a-z0-9\u{65e5}\u{202e}-]{0,3}");
    let deed = prop_oneof![
        6 => input().prop_map(Deed::Press),
        3 => (0u16..220, 0u16..70).prop_map(|(column, row)| Deed::Click(column, row)),
        1 => text.prop_map(Deed::Look),
    ];
    proptest::collection::vec(deed, 0..40)
}

fn carry_out(pane: &mut dyn Pane, state: &State, area: Rect, deed: &Deed) {
    match deed {
        Deed::Press(input) => {
            pane.handle(state, *input);
        }
        Deed::Click(column, row) => {
            pane.click(state, area, Position::new(*column, *row));
        }
        Deed::Look(text) => pane.set_filter(text.as_deref().map(Filter::new)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// At any size, after any keys and clicks, with any filter, in any theme, with any state: no panic.
    #[test]
    fn nothing_panics(
        width in 1u16..=200,
        height in 1u16..=60,
        offset in 0u16..20,
        theme in 0usize..3,
        ascii: bool,
        focused: bool,
        full: bool,
        deeds in deeds(),
        hostile in hostile(),
    ) {
        let state = if full { state() } else { &hostile };
        let theme = Theme::new(ThemeName::ALL[theme], ascii);
        let area = Rect::new(offset, offset, width, height);
        // The buffer is smaller than what the pane is told at times, as while a terminal shrinks.
        let mut buffer = Buffer::empty(Rect::new(0, 0, 160, 50));
        for mut pane in panes() {
            for deed in &deeds {
                carry_out(pane.as_mut(), state, area, deed);
                pane.draw(Scene { state, theme, focused }, area, &mut buffer);
            }
            pane.draw(Scene { state, theme, focused }, area, &mut buffer);
        }
        OverviewView::draw_brief(Scene { state, theme, focused }, area, &mut buffer);
    }

    /// Overlays at any size, whatever is typed and shown.
    #[test]
    fn no_overlay_panics(
        width in 1u16..=200,
        height in 1u16..=60,
        offset in 0u16..20,
        ascii: bool,
        query in ".{0,30}",
        shown in proptest::collection::vec(0usize..40, 0..40),
        inputs in proptest::collection::vec(input(), 0..10),
    ) {
        let theme = Theme::new(ThemeName::Dark, ascii);
        let area = Rect::new(offset, offset, width, height);
        let mut buffer = Buffer::empty(Rect::new(0, 0, 160, 50));
        let entries = menu_entries();
        let mut view = MenuView::default();
        for input in inputs {
            view.handle(shown.len(), input);
            let menu = Menu { title: &query, query: &query, entries: &entries, shown: &shown, hint: &query };
            view.draw(menu, theme, area, &mut buffer);
            prop_assert!(view.selected() < shown.len().max(1));
        }
        let candidates: Vec<Candidate> =
            shown.iter().map(|number| Candidate { text: query.repeat(*number), note: query.clone() }).collect();
        let prompt = Prompt {
            prefix: '/',
            text: &query,
            cursor: usize::from(offset),
            ghost: &query,
            error: ascii.then_some(&query),
            candidates: &candidates,
            selected: shown.first().copied(),
        };
        let line = Rect { y: area.bottom() - 1, height: 1, ..area };
        draw_prompt(prompt, theme, line, area, &mut buffer);
    }

    /// What is copied is what stands in the table, and neither can do a terminal any harm.
    #[test]
    fn the_selected_row_is_one_of_the_table(full: bool, deeds in deeds(), hostile in hostile()) {
        let state = if full { state() } else { &hostile };
        let area = Rect::new(0, 0, 80, 24);
        for mut pane in panes() {
            draw(pane.as_mut(), state, Theme::default(), (area.width, area.height));
            for deed in &deeds {
                carry_out(pane.as_mut(), state, area, deed);
            }
            let table = pane.table(state);
            let row = pane.selected_row(state);
            if let Some(row) = &row {
                prop_assert!(row.split('\t').all(|cell| Sanitized::new(cell).as_str() == cell));
            }
            // Details have a table of their own, and a page never written is in none.
            if table.name != "session" && pane.id() != PaneId::Canary && let Some(row) = row {
                let rows = table.rows.iter().map(|cells| tabbed(cells.iter().cloned()));
                let hidden = pane.id() == PaneId::Timeline && pane.filter().is_some();
                prop_assert!(rows.into_iter().any(|other| other == row) || hidden, "{row}");
            }
            let mut out = Vec::new();
            table.write(TableForm::Csv, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            prop_assert!(text.lines().all(|line| Sanitized::new(line).as_str() == line));
        }
    }
}
