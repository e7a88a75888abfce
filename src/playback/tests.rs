//! That every request is answered with where it leads, in its order.

use std::sync::mpsc::{self, Receiver};

use coalmine_sessions::Event;
use coalmine_sessions::recording::RecordingWriter;
use tempfile::{TempDir, tempdir};

use super::*;

#[path = "../../sessions/tests/support/synthetic.rs"]
mod synthetic;

use synthetic::{Shape, events};

/// A replay of a made-up recording in a folder of its own.
struct Show {
    handle: ReplayHandle,
    events: Vec<Event>,
    woken: Receiver<()>,
    /// Last, as the handle's thread reads in it.
    folder: TempDir,
}

impl Show {
    fn new(shape: &Shape) -> Self {
        Self::of(events(shape))
    }

    fn of(events: Vec<Event>) -> Self {
        let folder = tempdir().unwrap();
        let path = folder.path().join("a.mcap");
        let mut writer = RecordingWriter::create(&path, Manifest { seed: 5, ..Manifest::default() }).unwrap();
        let now = Instant::now();
        for (number, event) in (0..).zip(&events) {
            writer.record(event, now + Duration::from_millis(5 * number)).unwrap();
        }
        writer.finish().unwrap();
        let (handle, recovery, manifest) = ReplayHandle::open(&path).unwrap();
        assert!(!recovery.truncated && manifest.seed == 5);
        let (waker, woken) = mpsc::channel();
        handle.set_waker(Box::new(move || {
            let _ = waker.send(());
        }));
        Self { folder, handle, events, woken }
    }

    /// The first view for which `holds` says so.
    fn wait(&self, holds: impl Fn(&ReplayView) -> bool) -> ReplayView {
        loop {
            let view = self.handle.latest();
            if holds(&view) {
                return view;
            }
            self.woken.recv().unwrap();
        }
    }

    /// Where requests lead.
    fn after(&self, requests: &[ReplayRequest]) -> ReplayView {
        requests.iter().for_each(|&request| self.handle.ask(request));
        let asked = self.handle.asked();
        self.wait(|view| view.answered == asked)
    }

    /// What the events up to the end of a step fold to.
    fn folded(&self, step: u64) -> State {
        let mut state = State::default();
        let mut at = 0;
        for event in &self.events {
            at = event.kind.belongs_to(at);
            if at <= step {
                state.apply(event);
            }
        }
        state
    }
}

fn said(view: &ReplayView) -> (u64, Option<&str>) {
    (view.step, view.message.as_deref())
}

#[test]
fn it_goes_where_it_is_asked_to_go() {
    use ReplayRequest::*;
    let show = Show::new(&Shape { steps: 400, nodes: 4, ..Shape::default() });
    assert_eq!(said(&show.handle.latest()), (0, None));
    assert_eq!((show.handle.first_step(), show.handle.last_step()), (0, 399));
    for (requests, expected) in [
        (&[Forward, Forward][..], (2, None)),
        (&[Back], (1, None)),
        (&[Back, Back], (0, Some("This is the first step."))),
        (&[Step(300), Step(20), Step(350)], (350, None)),
        (&[Step(10), Forward, Step(4_000)], (399, Some("The recording has steps 0 to 399."))),
        (&[Forward], (399, Some("This is the last step."))),
        (&[NextAnomaly], (399, Some("There is no later anomaly."))),
        (&[Play], (399, Some("This is the last step."))),
        (&[Time(0)], (0, None)),
        (&[PreviousAnomaly], (0, Some("There is no earlier anomaly."))),
        (&[Speed(f64::NAN)], (0, Some("The speed must be a number from 0.1 to 100."))),
        (&[LastWriteOf(PageRef { pool: 9, page: 1 })], (0, Some("No earlier write of page 1 of pool 9 is known."))),
    ] {
        let view = show.after(requests);
        assert_eq!(said(&view), expected, "{requests:?}");
        assert!(format!("{:?}", view.state) == format!("{:?}", show.folded(view.step)), "{requests:?}");
        assert!(!view.playing);
    }
}

#[test]
fn anomalies_corruption_and_writes_are_gone_to() {
    use ReplayRequest::*;
    let show = Show::new(&Shape { steps: 300, nodes: 2, ..Shape::default() });
    let (recording, _) = Recording::open(&show.folder.path().join("a.mcap")).unwrap();
    let anomalies = recording.anomalies();
    let corrupt = anomalies.iter().find(|anomaly| anomaly.flags > 0).unwrap().step;
    assert_eq!(said(&show.after(&[FirstCorruption])), (corrupt, None));
    let later = anomalies.iter().find(|anomaly| anomaly.step > corrupt).unwrap().step;
    assert_eq!(said(&show.after(&[NextAnomaly])), (later, None));
    assert_eq!(said(&show.after(&[PreviousAnomaly])), (corrupt, None));
    let page = PageRef { pool: 2, page: 5 };
    let written = show.folded(199).canary.last_write(page).unwrap();
    assert_eq!(said(&show.after(&[Step(200), LastWriteOf(page)])), (written, None));

    let harmless = Show::of(show.events.iter().take(9).cloned().collect());
    assert_eq!(
        harmless.after(&[FirstCorruption]).message.unwrap(),
        "No session was found to be corrupted in this recording."
    );
}

#[test]
fn it_plays_to_the_end_and_stops_where_it_is_told_to() {
    use ReplayRequest::*;
    let show = Show::new(&Shape { steps: 3_000, nodes: 60, sessions: 3, ..Shape::default() });
    show.handle.ask(Play);
    show.wait(|view| view.step > 0);
    let view = show.after(&[Forward]);
    assert!(!view.playing, "a step is looked at");
    let paused = view.step;
    assert_eq!(show.after(&[Pause]).step, paused);
    assert_eq!(show.after(&[Speed(1e9)]).speed, FASTEST);
    show.handle.ask(Play);
    let view = show.wait(|view| view.step == 2_999);
    assert!(!view.playing && view.message.is_none());
    assert!(format!("{:?}", view.state) == format!("{:?}", show.folded(2_999)));
}

#[test]
fn what_cannot_be_read_is_said_and_leaves_it_where_it_is() {
    use ReplayRequest::*;
    let show = Show::new(&Shape { steps: 300, ..Shape::default() });
    let path = show.folder.path().join("a.mcap");
    let before = show.after(&[Step(299)]).step;
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len() / 2;
    bytes[2_000..end].fill(7);
    std::fs::write(&path, bytes).unwrap();
    let view = show.after(&[Step(20)]);
    assert_eq!(view.step, before);
    assert!(view.message.unwrap().contains("is damaged at byte"));
    assert!(!view.playing);
}

#[test]
fn its_thread_ends_with_the_handle() {
    let mut show = Show::new(&Shape { steps: 20, ..Shape::default() });
    let shared = Arc::downgrade(&show.handle.shared);
    show.handle.ask(ReplayRequest::Play);
    let other = Show::new(&Shape { steps: 1, ..Shape::default() });
    // `Show` is dropped as a whole, so the handle is swapped out.
    drop(std::mem::replace(&mut show.handle, ReplayHandle::open(&other.folder.path().join("a.mcap")).unwrap().0));
    while shared.strong_count() > 0 {
        thread::yield_now();
    }
}
