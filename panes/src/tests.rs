//! Every pane at several sizes, and at any size without a panic.

use std::sync::OnceLock;

use coalmine_sessions::State;
use proptest::prelude::*;
use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    CanaryView, HelpEntry, HelpView, Input, LogView, OverviewView, Pane, PaneId, Scene, SessionsView, Theme, ThemeName,
    TimelineView, TogglesView, synthetic::Synthetic,
};

const SIZES: [(u16, u16); 3] = [(80, 24), (160, 48), (40, 10)];

/// A state with some corruption in it.
fn state() -> &'static State {
    static STATE: OnceLock<State> = OnceLock::new();
    STATE.get_or_init(|| Synthetic::state_after(700))
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

fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(width.max(1));
    rows.map(|row| {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    })
    .collect()
}

fn snapshot(name: &str, state: &State, prepare: impl Fn(&mut dyn Pane), id: PaneId) {
    for size in SIZES {
        let mut pane = pane(id);
        // Drawn once before, as keys move by what was last on screen.
        draw(pane.as_mut(), state, Theme::default(), size);
        prepare(pane.as_mut());
        let buffer = draw(pane.as_mut(), state, Theme::default(), size);
        insta::assert_snapshot!(format!("{name}_{}x{}", size.0, size.1), text(&buffer));
    }
}

fn press(state: &'static State, inputs: &'static [Input]) -> impl Fn(&mut dyn Pane) {
    move |pane| {
        for input in inputs {
            pane.handle(state, *input);
        }
    }
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
fn sessions() {
    let inputs = &[Input::Down, Input::Down];
    snapshot("sessions", state(), press(state(), inputs), PaneId::Sessions);
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
fn toggles() {
    let prepare = |pane: &mut dyn Pane| {
        pane.handle(state(), Input::Down);
    };
    snapshot("toggles", state(), prepare, PaneId::Toggles);
}

#[test]
fn log() {
    snapshot("log", state(), |_| {}, PaneId::Log);
}

#[test]
fn overview_with_styles() {
    let mut pane = OverviewView::default();
    let buffer = draw(&mut pane, state(), Theme::default(), (62, 14));
    insta::assert_debug_snapshot!("overview_styles_62x14", buffer);
}

#[test]
fn corruption_is_readable_without_colour_or_unicode() {
    let theme = Theme::new(ThemeName::Mono, true);
    let buffer = draw(&mut OverviewView::default(), state(), theme, (80, 24));
    let text = text(&buffer);
    assert!(text.is_ascii(), "{text}");
    assert!(text.contains("CORRUPT"), "{text}");
    assert!(buffer.content.iter().all(|cell| {
        use ratatui::style::Color;
        cell.fg == Color::Reset && cell.bg == Color::Reset
    }));
}

#[test]
fn help_filters_by_what_is_typed() {
    let entry =
        |keys: &str, name, doc| HelpEntry { keys: keys.to_owned(), name, scope: "", doc, mutates: name == "overlap" };
    let entries = [
        entry("q", "quit", "Ends the console."),
        entry("o", "overlap", "Turns multi-stream overlap on or off."),
        entry("space", "freeze", "Freezes the view."),
    ];
    let mut view = HelpView::default();
    for size in SIZES {
        let area = Rect::new(0, 0, size.0, size.1);
        let mut buffer = Buffer::empty(area);
        view.draw(&entries, Theme::default(), area, &mut buffer);
        insta::assert_snapshot!(format!("help_{}x{}", size.0, size.1), text(&buffer));
    }
    for character in "OVER".chars() {
        view.push(character);
    }
    assert_eq!(view.selected(&entries), Some(1));
    assert!(view.clear());
    assert_eq!(view.selected(&entries), Some(0));
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

fn inputs() -> impl Strategy<Value = Vec<Input>> {
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
        PreviousStep,
        NextStep,
        PreviousHit,
        NextHit,
    ];
    proptest::collection::vec(proptest::sample::select(all.to_vec()), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// At any size, after any keys, in any theme, with any state: no panic.
    #[test]
    fn nothing_panics(
        width in 1u16..130,
        height in 1u16..60,
        offset in 0u16..20,
        theme in 0usize..3,
        ascii: bool,
        focused: bool,
        full: bool,
        inputs in inputs(),
        hostile in hostile(),
    ) {
        let state = if full { state() } else { &hostile };
        let theme = Theme::new(ThemeName::ALL[theme], ascii);
        let area = Rect::new(offset, offset, width, height);
        // The buffer is smaller than what the pane is told at times, as while a terminal shrinks.
        let mut buffer = Buffer::empty(Rect::new(0, 0, 100, 50));
        for mut pane in panes() {
            for input in &inputs {
                pane.handle(state, *input);
                pane.draw(Scene { state, theme, focused }, area, &mut buffer);
            }
            pane.draw(Scene { state, theme, focused }, area, &mut buffer);
        }
        OverviewView::draw_brief(Scene { state, theme, focused }, area, &mut buffer);
        HelpView::default().draw(&[], theme, area, &mut buffer);
    }
}
