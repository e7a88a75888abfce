use proptest::collection::vec;
use proptest::prelude::*;

use super::chord::chords;
use super::*;
use crate::{CommandKind, Danger, Event, EventKind, FlagKind, State, Step, ToggleChange, ToggleName, ToggleValue};

const COMMANDS: [KnownCommand<'static>; 3] = [
    KnownCommand { name: "focus.timeline", danger: Danger::Local, check: &any_arguments },
    KnownCommand { name: "overlap", danger: Danger::MutatesTarget, check: &any_arguments },
    KnownCommand { name: "filter", danger: Danger::Local, check: &any_arguments },
];

fn parsed(text: &str) -> Macro {
    parse("test.macro", text, &COMMANDS).unwrap_or_else(|errors| panic!("{errors}"))
}

fn only(text: &str) -> Line {
    let [line] = <[_; 1]>::try_from(parsed(text).lines).unwrap();
    line.line
}

fn error(text: &str) -> String {
    parse("test.macro", text, &COMMANDS).expect_err(text).to_string()
}

fn condition(text: &str) -> Condition {
    let Line::Expect(condition) = only(&format!("expect {text}")) else { panic!("{text}") };
    condition
}

fn state(step: u64) -> State {
    let mut state = State::default();
    fold(
        &mut state,
        EventKind::Toggle(ToggleChange { name: ToggleName::Overlap, value: ToggleValue::Choice(1), step: 0 }),
    );
    (0..=step).for_each(|step| take_step(&mut state, step));
    state
}

fn fold(state: &mut State, kind: EventKind) {
    let time_ns = state.time_ns + 10_000_000;
    state.apply_owned(Event { sequence: 0, time_ns, kind });
}

fn take_step(state: &mut State, step: u64) {
    let step = Step {
        step,
        rows: 2,
        diverged_rows: if step % 2 == 1 { vec![0, 1] } else { vec![] },
        diverged_sessions: if step % 2 == 1 { vec![7, 8] } else { vec![] },
        witnesses: u32::from(step % 2 == 1),
        ..Step::default()
    };
    fold(state, EventKind::Step(step));
}

#[test]
fn every_kind_of_line_is_read_and_written_back() {
    let text = "\
wait step >= 400
wait step >= 400 and not (canary_hits == 0 or tokens < 3) 200 steps
wait corrupted > 0 10s
wait corrupted > 0 1500ms
expect toggle overlap != 0
expect since_toggle.corrupted == since_toggle.carried_over
mark \"the incident\"
snapshot shot.svg
keys <C-u>gg<#>a<esc><space><A-C-x>
set overlap 0
set nudge-main 3us
toggle eager
hold
run
step
step 20
pace max
pace 0.5
play other.macro
focus.timeline
filter \"wrong \\\"argument\\\"\" \"#\" a#b
";
    let expected = text.replace("<A-C-x>", "<C-A-x>");
    assert_eq!(parsed(text).to_string(), expected);
}

#[test]
fn comments_and_blank_lines_do_nothing_and_lines_keep_their_numbers() {
    let parsed = parsed("\u{feff}# one\r\n\n  \t\n hold # why\r\nexpect step == 0 # so\nkeys gg # ends\n#");
    let numbers: Vec<_> = parsed.lines.iter().map(|line| line.number).collect();
    assert_eq!(numbers, [4, 5, 6]);
    assert_eq!(parsed.to_string(), "hold\nexpect step == 0\nkeys gg\n");
}

#[test]
fn synonyms_mean_the_same() {
    assert_eq!(only("set SGLANG_OPT_USE_MULTI_STREAM_OVERLAP off"), only("set overlap 0"));
    assert_eq!(only("expect toggle --disable-cuda-graph==on"), only("expect toggle eager == 1"));
    assert_eq!(only("wait step>=4 2 s"), only("wait step >= 4 2000ms"));
    assert_eq!(only("keys <ret><c-U><S-g> <ctrl-minus>"), only("keys <CR><C-U>G<C-->"));
    assert_eq!(condition("step > 1 and (step > 2 or step > 3)").describe(), "step > 1 and (step > 2 or step > 3)");
    assert_eq!(condition("(step > 1 and step > 2) or step > 3").describe(), "step > 1 and step > 2 or step > 3");
}

#[test]
fn keys_are_chords_with_names() {
    let chords = chords("<C-u>g<S-tab><f5>", 0).unwrap();
    let expected = [
        Chord { control: true, ..Chord::plain(Key::Character('u')) },
        Chord::plain(Key::Character('g')),
        Chord { shift: true, ..Chord::plain(Key::Tab) },
        Chord::plain(Key::Function(5)),
    ];
    assert_eq!(chords, expected);
}

#[test]
fn errors_show_file_line_column_and_what_is_wrong() {
    assert_eq!(
        error("hold\n  wait corupted > 3"),
        "test.macro:2:8: There is no number `corupted` (did you mean `corrupted`?).
 2 |   wait corupted > 3
   |        ^^^^^^^^"
    );
    for (text, position, words) in [
        ("focus.timelin", "1:1", "`focus.timelin` (did you mean `focus.timeline`?)"),
        ("expct step > 1", "1:1", "(did you mean `expect`?)"),
        ("expect since_toggle.corupted > 1", "1:8", "(did you mean `since_toggle.corrupted`?)"),
        ("expect since_toggle.step > 1", "1:8", "fact of now"),
        ("expect zzzzzz > 1", "1:8", "The numbers are step, running,"),
        ("expect flags.wrong-arguments > 1", "1:8", "(did you mean `flags.wrong-argument`?)"),
        ("expect step = 1", "1:13", "`==`"),
        ("expect step", "1:12", "comparison"),
        ("expect step >", "1:14", "missing"),
        ("expect", "1:7", "missing"),
        ("expect !step > 1", "1:8", "`not`"),
        ("expect (step > 1", "1:8", "not closed"),
        ("expect step > 1)", "1:16", "and"),
        ("expect step > 1 200 steps", "1:17", "Nothing more"),
        ("wait step > 1 200", "1:15", "bound"),
        ("wait step > 1 0 steps", "1:15", "bound"),
        ("wait step > 1 10s 10s", "1:19", "after the bound"),
        ("wait step > 1e9", "1:13", "no number"),
        ("wait step > nan", "1:13", "no number"),
        ("wait toggle overlapp == 0", "1:13", "did you mean `overlap`?"),
        ("wait toggle overlap == 2", "1:24", "0, 1"),
        ("wait toggle overlap < 1", "1:21", "`==` or `!=`"),
        ("set overlap", "1:1", "`set` takes"),
        ("set overlap 0 1", "1:15", "`set` takes"),
        ("set index-k fp16", "1:13", "did you mean `bf16`?"),
        ("toggle nudge-main", "1:8", "use `set`"),
        ("hold on", "1:6", "nothing"),
        ("step 0", "1:6", "from 1"),
        ("pace fast", "1:6", "`max`"),
        ("pace inf", "1:6", "`max`"),
        ("keys", "1:1", "needs keys"),
        ("keys # comment", "1:1", "needs keys"),
        ("keys g<C-u", "1:7", "not closed"),
        ("keys <entr>", "1:6", "did you mean `enter`?"),
        ("keys <X-a>", "1:6", "`X`"),
        ("keys <S-1>", "1:6", "Shift"),
        ("mark", "1:1", "a name"),
        ("mark \"a", "1:6", "not closed"),
        ("mark \"a\"b", "1:9", "space"),
        ("mark \"\\q\"", "1:7", "backslash"),
        ("mark \"\\u{d800}\"", "1:7", "u{1F600}"),
        ("mark a\u{1b}b", "1:7", "u{1B}"),
    ] {
        let error = error(text);
        assert!(error.starts_with(&format!("test.macro:{position}: ")), "{text}: {error}");
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn a_commands_arguments_are_checked_before_anything_runs() {
    let panes = ["overview".to_owned(), "timeline".to_owned()];
    let check = |_: &str, arguments: &[String]| match arguments {
        [pane] if panes.contains(pane) => Ok(()),
        [] => Err(ArgumentProblem { index: 0, sentence: "`focus` takes a pane.".to_owned() }),
        [pane] => Err(ArgumentProblem { index: 0, sentence: format!("There is no pane `{pane}`.") }),
        _ => Err(ArgumentProblem { index: 1, sentence: "`focus` takes one pane.".to_owned() }),
    };
    let known = [KnownCommand { name: "focus", danger: Danger::Local, check: &check }];
    let parsed = parse("a.macro", "focus overview\nfocus \"timeline\" # comment", &known).unwrap();
    let line = |pane: &str| Line::Command { name: "focus".to_owned(), arguments: vec![pane.to_owned()] };
    assert_eq!(
        parsed.lines.iter().map(|line| line.line.clone()).collect::<Vec<_>>(),
        [line("overview"), line("timeline")]
    );

    // Also in what is played.
    let played = Source { name: "b.macro".to_owned(), text: "focus\n focus \"é\"\nfocus overview é more".to_owned() };
    let main = Source { name: "a.macro".to_owned(), text: "focus overview\nplay b.macro".to_owned() };
    let errors = load(&main, &known, &mut |_, _| Ok(played.clone())).unwrap_err();
    let told: Vec<String> = errors.0.iter().map(|error| error.to_string().lines().next().unwrap().to_owned()).collect();
    assert_eq!(
        told,
        [
            "b.macro:1:1: `focus` takes a pane.",
            "b.macro:2:8: There is no pane `é`.",
            "b.macro:3:16: `focus` takes one pane."
        ]
    );
    assert!(errors.to_string().contains(" 2 |  focus \"é\"\n   |        ^^^"), "{errors}");
}

#[test]
fn all_errors_of_a_file_are_told_up_to_a_limit() {
    let errors = parse("test.macro", "a\nhold\nexpect\nset\n", &COMMANDS).unwrap_err();
    assert_eq!(errors.0.iter().map(|error| error.line).collect::<Vec<_>>(), [1, 3, 4]);
    let errors = parse("test.macro", &"a\n".repeat(5_000), &COMMANDS).unwrap_err();
    assert_eq!(errors.0.len(), ERRORS + 1);
    assert!(errors.0[ERRORS].to_string().contains("more errors"));
}

#[test]
fn what_is_too_large_is_refused() {
    assert!(error(&"#".repeat(MACRO_BYTES + 1)).contains("at most 1048576 bytes"));
    assert!(error(&"\n".repeat(MACRO_LINES + 1)).contains("at most 10000 lines"));
    let long = error(&format!("mark {}", "é".repeat(LINE_BYTES)));
    assert!(long.contains("at most 4096 bytes") && long.len() < 1_000, "{long}");
    assert!(error(&format!("expect {}step > 1", "not ".repeat(40))).contains("at most 32 deep"));
    assert!(error(&format!("expect {}", "(".repeat(4_000))).contains("at most 32 deep"));
    assert!(error(&format!("expect step > 1{}", " or step > 1".repeat(32))).contains("at most 32 comparisons"));
    assert!(error(&format!("keys {}", "g".repeat(257))).contains("at most 256 keys"));
}

#[test]
fn what_errors_show_is_harmless() {
    let error = error("mark a\u{202e}b \u{1b}[31m");
    assert!(!error.contains(['\u{1b}', '\u{202e}']), "{error:?}");
}

#[test]
fn conditions_say_what_they_saw() {
    let state = state(3);
    let cases = [
        ("step == 3 and steps == 4 and tokens == 8", true, "step was 3; steps was 4; tokens was 8"),
        ("rows_per_hit_step < 2", false, "rows_per_hit_step was 2, expected < 2"),
        (
            "since_toggle.hit_steps != diverged_sessions",
            false,
            "since_toggle.hit_steps was 2, expected != diverged_sessions (2)",
        ),
        ("step > 9 or witnesses >= 2", true, "step was 3; witnesses was 2"),
        ("not step == 3", false, "step was 3, expected not == 3"),
        ("not (step == 4 or step == 5)", true, "step was 3"),
        ("toggle overlap == on", true, "overlap was 1"),
        ("toggle overlap == off", false, "overlap was 1, expected == 0"),
        ("toggle canary != off", false, "canary was not told yet, expected != off"),
        ("0.5 < corruption_rate", false, "0.5 was 0.5, expected < corruption_rate (0)"),
    ];
    for (text, holds, seen) in cases {
        let condition = condition(text);
        let evaluation = condition.evaluate(&state);
        assert_eq!((evaluation.holds, evaluation.to_string().as_str()), (holds, seen), "{text}");
        assert_eq!(condition.holds(&state), holds, "{text}");
    }
    let empty = condition("rows_per_hit_step <= 4").evaluate(&State::default());
    assert_eq!(empty.to_string(), "rows_per_hit_step had no value, expected <= 4");
}

#[test]
fn every_flag_kind_and_every_name_is_a_quantity() {
    for kind in FlagKind::ALL {
        assert!(Quantity::parse(&format!("flags.{}", kind.name())).is_ok());
    }
    for (index, spec) in QUANTITIES.iter().enumerate() {
        assert_eq!(QUANTITIES.iter().position(|other| other.name == spec.name), Some(index));
        assert_eq!(Quantity::parse(spec.name).unwrap().to_string(), spec.name);
        assert!(spec.doc.ends_with('.'), "{}", spec.name);
    }
}

#[test]
fn danger_is_that_of_the_worst_line() {
    let danger = |text: &str| parsed(text).danger();
    assert_eq!(danger(""), Danger::Read);
    assert_eq!(danger("expect step > 1\nmark a"), Danger::Read);
    assert_eq!(danger("expect step > 1\nfocus.timeline"), Danger::Local);
    for line in ["overlap", "set overlap 0", "keys o", "hold", "step", "pace 3"] {
        assert_eq!(danger(&format!("focus.timeline\n{line}\nmark a")), Danger::MutatesTarget, "{line}");
    }
}

/// A library of macros in memory.
fn library(files: &[(&str, &str)]) -> Result<Macro, MacroErrors> {
    let find = |name: &str| files.iter().find(|(known, _)| *known == name);
    let source = |(name, text): &(&str, &str)| Source { name: (*name).to_owned(), text: (*text).to_owned() };
    load(&source(&files[0]), &COMMANDS, &mut |_, path| {
        find(path).map(source).ok_or_else(|| format!("There is no `{path}`."))
    })
}

#[test]
fn what_is_played_stands_in_place() {
    let whole = library(&[("a", "mark 1\nplay b\nmark 3\nplay b"), ("b", "mark 2")]).unwrap();
    let lines: Vec<_> = whole.lines.iter().map(|line| (&*line.file, line.number, line.line.to_string())).collect();
    let expected = [("a", 1, "mark 1"), ("b", 1, "mark 2"), ("a", 3, "mark 3"), ("b", 1, "mark 2")];
    assert_eq!(lines, expected.map(|(file, number, text)| (file, number, text.to_owned())));
}

#[test]
fn what_plays_too_much_is_refused() {
    let errors = library(&[("a", "play b\nplay c\nplay b"), ("b", "hols")]).unwrap_err().to_string();
    assert_eq!(errors.matches("b:1:1: There is no command `hols`").count(), 1, "{errors}");
    assert!(errors.contains("a:2:1: There is no `c`."), "{errors}");
    let errors = library(&[("a", "mark 1\nplay a")]).unwrap_err().to_string();
    assert!(errors.starts_with("a:2:1: Macros play macros at most 8 deep."), "{errors}");
    let hundred = "play b\n".repeat(100);
    let errors = library(&[("a", &hundred), ("b", &"play c\n".repeat(100)), ("c", "")]).unwrap_err().to_string();
    assert!(errors.contains("at most 10000 lines"), "{errors}");
}

#[test]
fn a_player_asks_for_what_each_line_needs() {
    let mut player =
        Player::new(parsed("wait step >= 1\ntoggle overlap\nfocus.timeline\nstep 2\nexpect step == 9\nmark end"));
    let mut state = state(0);
    assert_eq!(player.poll(&state), Request::Advance);
    assert_eq!(player.poll(&state), Request::Advance);
    take_step(&mut state, 1);
    player.advanced();
    assert_eq!(
        player.poll(&state),
        Request::Target(CommandKind::SetToggle(ToggleName::Overlap, ToggleValue::Choice(0)))
    );
    assert_eq!(player.poll(&state), Request::Answer);
    player.answered(Ok(2), &state);
    let Request::Console(line) = player.poll(&state) else { panic!() };
    assert_eq!(line.line.to_string(), "focus.timeline");
    player.done(ConsoleOutcome::Skipped("no console".to_owned()), &state);
    for step in 2..4 {
        assert_eq!(player.poll(&state), Request::Advance);
        take_step(&mut state, step);
        player.advanced();
    }
    // An `expect` that does not hold ends nothing.
    assert_eq!(player.poll(&state), Request::Finished);
    let report = player.report();
    assert_eq!((report.passed, report.steps, report.not_run, report.failures()), (false, 3, 0, 1));
    let lines: Vec<_> = report.outcomes.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "✓ test.macro:1 wait step >= 1  [step was 1]  step 1 (+1)",
            "✓ test.macro:2 toggle overlap  [from step 2 on]  step 1",
            "- test.macro:3 focus.timeline  [no console]  step 1",
            "✓ test.macro:4 step 2  step 3 (+2)",
            "✗ test.macro:5 expect step == 9  [step was 3, expected == 9]  step 3",
            "✓ test.macro:6 mark end  step 3",
        ]
    );
}

/// Plays with a target that only steps.
fn play_steps(text: &str) -> MacroReport {
    let mut player = Player::new(parsed(text));
    let mut state = state(0);
    let mut step = 0;
    while player.poll(&state) == Request::Advance {
        step += 1;
        take_step(&mut state, step);
        player.advanced();
    }
    assert_eq!(player.poll(&state), Request::Finished);
    player.report()
}

#[test]
fn a_wait_that_runs_out_ends_the_macro() {
    for (bound, steps) in [("", WAIT_STEPS), ("7 steps", 7), ("1s", 100)] {
        let report = play_steps(&format!("wait corrupted > 0 {bound}\nmark never"));
        assert_eq!((report.passed, report.steps, report.not_run), (false, steps, 1), "{bound}");
        let detail = report.outcomes[0].detail.as_str();
        assert!(detail.ends_with("corrupted was 0, expected > 0."), "{detail}");
    }
}

#[test]
fn an_aborted_macro_says_why() {
    let mut player = Player::new(parsed("hold\nmark never"));
    let state = state(0);
    assert_eq!(player.poll(&state), Request::Target(CommandKind::Hold(true)));
    player.abort("Esc.", &state);
    assert_eq!(player.poll(&state), Request::Finished);
    let report = player.report();
    assert_eq!((report.passed, report.not_run, report.outcomes[0].detail.as_str()), (false, 1, "Esc."));
}

#[test]
fn a_refused_request_ends_the_macro() {
    let mut player = Player::new(parsed("set index-k fp8\nmark never"));
    let state = state(0);
    assert!(matches!(player.poll(&state), Request::Target(_)));
    // It takes effect after a drain, for which the target must go on.
    assert_eq!(player.poll(&state), Request::Advance);
    player.advanced();
    player.answered(Err("no"), &state);
    assert_eq!(player.poll(&state), Request::Finished);
    assert_eq!(player.report().outcomes[0].detail.as_str(), "no");
}

#[test]
fn junit_is_escaped() {
    let mut player = Player::new(parsed("mark \"<a> & 'b' \\\"c\\\" \\u{ffff}\"\nexpect step > 1\nfilter x"));
    let state = state(0);
    player.poll(&state);
    player.done(ConsoleOutcome::Skipped("a < b".to_owned()), &state);
    let xml = player.report().junit();
    assert!(
        xml.contains("name=\"1: mark &quot;&lt;a&gt; &amp; &apos;b&apos; \\&quot;c\\&quot; \u{fffd}&quot;\""),
        "{xml}"
    );
    assert!(xml.contains("<failure message=\"step was 0, expected &gt; 1\">at step 0</failure>"), "{xml}");
    assert!(xml.contains("<skipped message=\"a &lt; b\"/>"), "{xml}");
    assert!(
        xml.contains("<testsuite name=\"test.macro\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\">"),
        "{xml}"
    );
}

#[test]
fn a_recorder_refuses_what_no_line_can_say() {
    let mut recorder = MacroRecorder::default();
    for name in ["", "two words", "#comment", "a\u{7}", "set", "wait"] {
        assert!(recorder.command(name, &[]).is_err(), "{name}");
    }
    assert!(recorder.command("hold", &["on"]).is_err());
    assert_eq!(recorder.text(), "");
    recorder.command("hold", &[]).unwrap();
    assert_eq!(recorder.lines(), [Line::Hold]);
}

/// Text that is often nearly a macro.
fn nearly() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "wait ", "expect ", "not ", "and ", "or ", "(", ")", "toggle ", "overlap ", "== ", "!= ", "<= ", "> ", "= ", "step ",
            "since_toggle.", "corrupted ", "1", "200 steps", "10s", "0.5 ", "keys ", "<C-u>", "<", "g", "mark ", "\"", "\\", "\\u{", "}",
            "set ", "nudge-main ", "3us", "pace ", "max", "play ", "filter ", "#", " #", "\n", "\r\n", "\t", "é", "\u{202e}",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// One line of any kind, as written.
fn line_text() -> impl Strategy<Value = String> {
    let quantity = (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(index, since)| {
        let name = QUANTITIES[index.index(QUANTITIES.len())].name;
        let since_name = format!("since_toggle.{name}");
        if since && Quantity::parse(&since_name).is_ok() { since_name } else { name.to_owned() }
    });
    let number = (-999_999_999_999_999i64..=999_999_999_999_999, 0u32..10).prop_map(|(number, places)| {
        let digits = format!("{:015}", number.abs());
        let (whole, rest) = digits.split_at(digits.len() - places as usize);
        format!("{}{whole}.{rest}", if number < 0 { "-" } else { "" })
    });
    let operand = prop_oneof![quantity, number];
    let leaf = prop_oneof![
        (operand.clone(), prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]), operand)
            .prop_map(|(left, comparison, right)| format!("{left}{comparison}{right}")),
        (any::<bool>(), 0u32..=1_000_000)
            .prop_map(|(equal, time)| format!("toggle nudge-main {} {time}", if equal { "==" } else { "!=" })),
    ];
    let condition = leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("not ({inner})")),
            vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(") and ("))),
            vec(inner, 2..4).prop_map(|parts| parts.join(" or ")),
        ]
    });
    let bound = prop_oneof![
        Just(String::new()),
        (1..=MACRO_STEPS).prop_map(|steps| format!(" {steps} steps")),
        (1u64..=86_400_000).prop_map(|time| format!(" {time} ms")),
    ];
    prop_oneof![
        (condition.clone(), bound).prop_map(|(condition, bound)| format!("wait {condition}{bound}")),
        condition.prop_map(|condition| format!("expect {condition}")),
        (0.01..1e6).prop_map(|pace| format!("pace {pace}")),
        "keys [ -~é]{1,20}",
        "filter [ -~é]{0,20}",
    ]
}

proptest! {
    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        let _ = parse("test.macro", &text, &COMMANDS);
    }

    #[test]
    fn nearly_any_text_is_answered_and_what_reads_is_stable(text in nearly()) {
        match parse("test.macro", &text, &COMMANDS) {
            Ok(read) => {
                let written = read.to_string();
                prop_assert_eq!(parsed(&written).to_string(), written);
            }
            Err(errors) => {
                prop_assert!(!errors.0.is_empty());
                prop_assert!(errors.to_string().len() < errors.0.len() * 4_096);
            }
        }
    }

    #[test]
    fn what_reads_is_written_so_that_it_reads_the_same(text in line_text()) {
        if let Ok(read) = parse("test.macro", &text, &COMMANDS) {
            let written = read.to_string();
            let again = parsed(&written);
            prop_assert_eq!(&again.to_string(), &written);
            let lines = |of: &Macro| of.lines.iter().map(|line| line.line.clone()).collect::<Vec<_>>();
            prop_assert_eq!(lines(&again), lines(&read));
        }
    }

    #[test]
    fn a_shipped_macro_changed_at_random_is_answered(
        index in 0..SHIPPED.len(),
        changes in vec((any::<prop::sample::Index>(), any::<char>()), 1..20),
    ) {
        let mut text: Vec<char> = SHIPPED[index].1.chars().collect();
        for (at, character) in changes {
            let at = at.index(text.len());
            text[at] = character;
        }
        let _ = parse("test.macro", &text.into_iter().collect::<String>(), &COMMANDS);
    }

    #[test]
    fn what_is_recorded_reads_back_the_same(
        commands in vec(("[a-z]{1,8}(\\.[a-z-]{1,8})?", vec(any::<String>(), 0..4)), 0..20),
    ) {
        let mut recorder = MacroRecorder::default();
        let mut recorded = Vec::new();
        for (name, arguments) in &commands {
            if recorder.command(name, &arguments.iter().map(String::as_str).collect::<Vec<_>>()).is_ok() {
                recorded.push(Line::Command { name: name.clone(), arguments: arguments.clone() });
            } else {
                prop_assert!(["wait", "expect", "mark", "snapshot", "keys", "set", "toggle", "hold", "run", "step", "pace", "play"]
                    .contains(&name.as_str()));
            }
        }
        let known: Vec<_> = commands.iter().map(|(name, _)| KnownCommand { name, danger: Danger::Read, check: &any_arguments }).collect();
        let read = parse("recording", recorder.text(), &known).unwrap();
        let read: Vec<_> = read.lines.into_iter().map(|line| line.line).collect();
        prop_assert_eq!(recorder.lines(), &read[..]);
        if recorded.iter().all(|line| matches!(line, Line::Command { name, .. } if !matches!(name.as_str(), "hold" | "run" | "step"))) {
            prop_assert_eq!(read, recorded);
        }
    }

    #[test]
    fn a_condition_that_does_not_hold_says_why(text in line_text(), steps in 0u64..5) {
        if let Ok(read) = parse("test.macro", &text, &COMMANDS)
            && let Some(Line::Expect(condition)) = read.lines.first().map(|line| &line.line)
        {
            let evaluation = condition.evaluate(&state(steps));
            prop_assert!(evaluation.holds || evaluation.to_string().contains(", expected "), "{}", evaluation);
        }
    }
}
