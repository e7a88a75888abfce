//! That what is recorded is what was said, and that a slow or broken disk holds nobody up.

use coalmine_sessions::recording::Recording;
use coalmine_sessions::{Log, LogLevel, SessionChange, SpanBatch, Step};

use tempfile::tempdir;

use super::*;

fn step(step: u64) -> EventKind {
    EventKind::Step(Step { step, rows: 2, ..Step::default() })
}

fn hello(seed: u64) -> EventKind {
    EventKind::Hello(Box::new(Hello { target: "a server".into(), model: "demo".into(), seed, ..Hello::default() }))
}

fn numbered_events(kinds: impl IntoIterator<Item = EventKind>) -> Vec<Arc<Event>> {
    let event = |(sequence, kind)| Arc::new(Event { sequence, time_ns: sequence * 10, kind });
    (0..).zip(kinds).map(event).collect()
}

fn read(path: &Path) -> (Recording, Vec<Arc<Event>>) {
    let (recording, recovery) = Recording::open(path).unwrap();
    assert!(!recovery.truncated);
    let events = recording.events_in(0..=u64::MAX).map(|event| Arc::new(event.unwrap())).collect();
    (recording, events)
}

#[test]
fn what_is_said_is_recorded_from_the_middle_of_a_run_on() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let events = numbered_events(std::iter::once(hello(1)).chain((0..900).map(step)));
    let mut state = State::default();
    events[..400].iter().for_each(|event| state.apply(event));
    let recorder = Recorder::start(&path, Manifest::default(), &state).unwrap();
    events[400..].iter().for_each(|event| recorder.record(event));
    let recorded = recorder.finish().unwrap();
    assert_eq!((recorded.events, recorded.steps), (501, 501));
    let (recording, read) = read(&path);
    assert!(read == events[400..]);
    assert_eq!((recording.first_step(), recording.last_step()), (398, 899));
    assert_eq!(recording.state_at(899).unwrap().totals.steps, 900);
    assert_eq!(recorded.bytes, std::fs::metadata(&path).unwrap().len());
}

#[test]
fn a_recorder_that_is_dropped_finishes_its_file_even_in_a_panic() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let recorder = Recorder::start(&path, Manifest::default(), &State::default()).unwrap();
    let events = numbered_events((0..20).map(step));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let recorder = recorder;
        events.iter().for_each(|event| recorder.record(event));
        std::panic::resume_unwind(Box::new("a panic"));
    }));
    assert!(ended.is_err());
    assert!(read(&path).1 == events);
}

#[test]
fn what_was_said_is_written_out_when_nothing_more_is_said() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let recorder = Recorder::start(&path, Manifest::default(), &State::default()).unwrap();
    recorder.record(&numbered_events([step(0)])[0]);
    while Recording::open(&path).map_or(0, |(_, recovery)| recovery.events) == 0 {
        thread::sleep(TICK);
    }
    let status = recorder.status();
    assert_eq!((status.events, status.steps, status.dropped, status.error), (1, 1, 0, None));
    assert_eq!(status.path, path);
}

#[test]
fn another_target_goes_to_another_file_and_no_file_is_written_over() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    std::fs::write(scratch.path().join("a-2.mcap"), "somebody's").unwrap();
    let kinds = [hello(1), step(70), hello(1), step(71), hello(2), step(0), step(1), hello(1), step(0)];
    let events = numbered_events(kinds);
    let manifest = manifest_of("coalmine", &Hello::default(), Redaction::None);
    let recorder = Recorder::start(&path, manifest, &State::default()).unwrap();
    events.iter().for_each(|event| recorder.record(event));
    let recorded = recorder.finish().unwrap();
    assert_eq!((recorded.events, recorded.steps), (9, 5));
    for (name, part, seed, steps) in [("a", 0..4, 0, (0, 71)), ("a-3", 4..7, 2, (0, 1)), ("a-4", 7..9, 1, (0, 0))] {
        let (recording, read) = read(&scratch.path().join(format!("{name}.mcap")));
        assert!(read == events[part], "{name}");
        assert_eq!((recording.first_step(), recording.last_step()), steps);
        assert_eq!((recording.manifest().seed, recording.manifest().command_line.as_str()), (seed, "coalmine"));
    }
    assert_eq!(std::fs::read_to_string(scratch.path().join("a-2.mcap")).unwrap(), "somebody's");
}

#[test]
fn a_file_that_exists_is_refused_at_once() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    std::fs::write(&path, "").unwrap();
    let error = Recorder::start(&path, Manifest::default(), &State::default()).err().unwrap();
    assert!(matches!(error, RecordingError::Exists { .. }));
}

#[test]
fn after_an_error_it_says_so_and_goes_on_taking_events() {
    let scratch = tempdir().unwrap();
    let folder = scratch.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let recorder = Recorder::start(&folder.join("a.mcap"), Manifest::default(), &State::default()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let events = numbered_events([hello(1), hello(2), step(0)]);
    events.iter().for_each(|event| recorder.record(event));
    while recorder.status().error.is_none() {
        thread::yield_now();
    }
    let before = recorder.status();
    assert!(before.error.unwrap().contains("Could not create"));
    recorder.record(&events[2]);
    assert_eq!(recorder.status().dropped, before.dropped + 1);
    assert!(matches!(recorder.finish(), Err(RecordingError::Io { .. })));
}

#[test]
fn what_does_not_fit_leaves_a_gap_and_telemetry_goes_first() {
    let mut queue = Queue::new(8, usize::MAX);
    let spans = |step| EventKind::Spans(SpanBatch { step, ..SpanBatch::default() });
    let kinds = (0..8).flat_map(|number| [step(number), spans(number)]);
    let events = numbered_events(kinds.chain([EventKind::Gap(Gap { dropped: 5 })]));
    events.iter().for_each(|event| queue.push(event, Instant::now()));
    let gap =
        |sequence, dropped| Arc::new(Event { sequence, time_ns: sequence * 10, kind: EventKind::Gap(Gap { dropped }) });
    let taken = queue.take();
    let held: Vec<Arc<Event>> = taken.iter().map(|waiting| Arc::clone(&waiting.event)).collect();
    let mut expected = events[..6].to_vec();
    // Spans of step 3, then those of step 4 and all after.
    expected.extend([Arc::clone(&events[6]), gap(7, 1), Arc::clone(&events[8]), gap(16, 12)]);
    assert_eq!(held, expected);
    assert_eq!(queue.status.dropped, 13);
    // What is being written still counts.
    queue.push(&events[0], Instant::now());
    assert_eq!(queue.take().len(), 1);
    queue.written(&taken);
    assert_eq!((queue.events, queue.bytes), (0, 0));
}

#[test]
fn the_bytes_that_wait_are_bounded() {
    let mut queue = Queue::new(usize::MAX, 100_000);
    let text = "x".repeat(1_000);
    let warning = || EventKind::Log(Log { level: LogLevel::Warning, text: Sanitized::new(&text) });
    for event in numbered_events((0..200).map(|_| warning())) {
        queue.push(&event, Instant::now());
    }
    assert!(queue.bytes <= 100_000 && queue.bytes > 90_000);
    assert_eq!(queue.events as u64 + queue.status.dropped, 200);
}

#[test]
fn a_manifest_says_when_and_from_what_it_was_made() {
    let target = Hello { target: "embedded engine".into(), model: "demo".into(), seed: 3, ..Hello::default() };
    let manifest = manifest_of("coalmine --record a\u{1b}.mcap", &target, Redaction::Hashes);
    assert_eq!(manifest.target.as_str(), "embedded engine, demo");
    assert_eq!((manifest.seed, manifest.redaction), (3, Redaction::Hashes));
    assert_eq!(manifest.command_line.as_str(), "coalmine --record a.mcap");
    let created: jiff::Timestamp = manifest.created.parse().unwrap();
    assert!(manifest.created.ends_with('Z') && created.subsec_nanosecond() == 0);
    assert_eq!(manifest.coalmine.as_str(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn redacted_text_is_not_in_the_file() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let mut state = State::default();
    let said = SessionChange { session: 4, call: "a secret".into(), ..SessionChange::default() };
    state.apply(&Event { sequence: 0, time_ns: 0, kind: EventKind::Session(said) });
    let manifest = Manifest { redaction: Redaction::Hashes, ..Manifest::default() };
    Recorder::start(&path, manifest, &state).unwrap().finish().unwrap();
    let call = read(&path).0.state_at(0).unwrap().sessions[&4].call.clone();
    assert!(call.starts_with('#'));
}
