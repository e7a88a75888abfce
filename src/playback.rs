//! Replays a recording on a thread of its own, so that no file is read where keys are answered and frames are drawn.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use coalmine_sessions::recording::{FASTEST, Manifest, Recording, RecordingError, Recovery, Replay, SLOWEST};
use coalmine_sessions::{PageRef, State};

/// Time between two views while it plays.
const FRAME: Duration = Duration::from_millis(33);

/// What a replay can be asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplayRequest {
    /// Go to the next step, and stay there.
    Forward,
    /// Go to the step before, and stay there.
    Back,
    /// Go to a step, or to the first or last when there is none so early or late.
    Step(u64),
    /// Go to the last step that had begun at a time on the target's clock, ns.
    Time(u64),
    /// Go to the first step after which a client would see wrong text, and stay there.
    FirstCorruption,
    /// Go to the next step in which something was wrong, and stay there.
    NextAnomaly,
    /// Go to the step before in which something was wrong, and stay there.
    PreviousAnomaly,
    /// Go to the last step before this one in which a page changed, declared or not, and stay there.
    LastWriteOf(PageRef),
    /// Move with the target's clock.
    Play,
    /// Stay.
    Pause,
    /// Play so many times faster than the target; between [`SLOWEST`] and [`FASTEST`].
    Speed(f64),
}

/// Where a replay stands.
#[derive(Clone, Debug)]
pub struct ReplayView {
    /// The state after `step`.
    pub state: Arc<State>,
    /// The step.
    pub step: u64,
    /// Whether it moves by itself.
    pub playing: bool,
    /// How many times faster than the target it plays.
    pub speed: f64,
    /// Requests carried out so far.
    pub answered: u64,
    /// Why the last of them found nothing or failed, or why it plays no further, as a full sentence.
    pub message: Option<String>,
}

/// A recording being replayed. Its thread ends when this is dropped.
pub struct ReplayHandle {
    shared: Arc<Shared>,
    first_step: u64,
    last_step: u64,
}

impl ReplayHandle {
    /// Opens a recording and stands at its first step, paused. Reads the file on the caller's thread, so that what is
    /// wrong with it can be said before a screen is taken.
    ///
    /// # Errors
    /// As [`Recording::open`] and [`Replay::new`], and when the operating system gives no thread.
    pub fn open(path: &Path) -> Result<(Self, Recovery, Manifest), RecordingError> {
        let (recording, recovery) = Recording::open(path)?;
        let manifest = recording.manifest().clone();
        let (first_step, last_step) = (recording.first_step(), recording.last_step());
        let replay = Replay::new(recording)?;
        let latest = ReplayView {
            state: Arc::new(replay.state().clone()),
            step: replay.step(),
            playing: replay.playing(),
            speed: replay.speed(),
            answered: 0,
            message: None,
        };
        let desk = Desk { requests: VecDeque::new(), asked: 0, latest: latest.clone(), gone: false };
        let shared = Arc::new(Shared { desk: Mutex::new(desk), asked: Condvar::new(), waker: Mutex::new(None) });
        let projector = Projector { replay, view: latest, moved: Instant::now() };
        let spawned = {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("replay".to_owned()).spawn(move || projector.run(&shared))
        };
        spawned.map_err(|source| RecordingError::Io {
            path: path.to_owned(),
            action: "start a thread to read",
            source,
        })?;
        Ok((Self { shared, first_step, last_step }, recovery, manifest))
    }

    /// Asks for something. Never waits; requests are carried out in their order, but of several steps to go to in a row
    /// only the last is gone to.
    pub fn ask(&self, request: ReplayRequest) {
        let mut desk = self.shared.desk();
        desk.requests.push_back(request);
        desk.asked += 1;
        drop(desk);
        self.shared.asked.notify_one();
    }

    /// Requests made so far: all are carried out when [`ReplayView::answered`] is as many.
    pub fn asked(&self) -> u64 {
        self.shared.desk().asked
    }

    /// The latest view.
    pub fn latest(&self) -> ReplayView {
        self.shared.desk().latest.clone()
    }

    /// Calls `waker` at once and whenever there is a new view: after requests, and at most 30 times a second while it
    /// plays. It runs on the replay's thread and must not set a waker, so it should only notify.
    pub fn set_waker(&self, waker: Box<dyn Fn() + Send>) {
        waker();
        *self.shared.waker() = Some(waker);
    }

    /// The first step.
    pub fn first_step(&self) -> u64 {
        self.first_step
    }

    /// The last step.
    pub fn last_step(&self) -> u64 {
        self.last_step
    }
}

impl Drop for ReplayHandle {
    fn drop(&mut self) {
        self.shared.desk().gone = true;
        *self.shared.waker() = None;
        self.shared.asked.notify_one();
    }
}

struct Shared {
    desk: Mutex<Desk>,
    /// That a request has come, or that none will.
    asked: Condvar,
    /// Apart from the desk, so that a waker may look at the view.
    waker: Mutex<Option<Box<dyn Fn() + Send>>>,
}

struct Desk {
    requests: VecDeque<ReplayRequest>,
    asked: u64,
    latest: ReplayView,
    /// Whether the handle was dropped.
    gone: bool,
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        // No code that could leave the desk half changed panics while holding the lock.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waker(&self) -> MutexGuard<'_, Option<Box<dyn Fn() + Send>>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side.
struct Projector {
    replay: Replay,
    view: ReplayView,
    /// When it last moved by itself.
    moved: Instant,
}

impl Projector {
    fn run(mut self, shared: &Shared) {
        while let Some(requests) = self.wait(shared) {
            let failure = self.play();
            let asked = !requests.is_empty();
            let message = self.carry_out(requests);
            if self.show(asked, message, failure) {
                shared.desk().latest = self.view.clone();
                if let Some(waker) = &*shared.waker() {
                    waker();
                }
            }
        }
    }

    /// Waits for requests or, while it plays, until it is time to move. Nothing when the handle is gone.
    fn wait(&self, shared: &Shared) -> Option<VecDeque<ReplayRequest>> {
        let mut desk = shared.desk();
        while !desk.gone && desk.requests.is_empty() {
            if self.replay.playing() {
                let left = FRAME.saturating_sub(self.moved.elapsed());
                if left.is_zero() {
                    break;
                }
                desk = shared.asked.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0;
            } else {
                desk = shared.asked.wait(desk).unwrap_or_else(PoisonError::into_inner);
            }
        }
        (!desk.gone).then(|| std::mem::take(&mut desk.requests))
    }

    /// Moves by itself, if it plays; gives what went wrong.
    fn play(&mut self) -> Option<RecordingError> {
        let elapsed = self.moved.elapsed();
        self.moved = Instant::now();
        self.replay.advance(elapsed).err()
    }

    /// Carries out requests, and gives what there is to say about the last.
    fn carry_out(&mut self, mut requests: VecDeque<ReplayRequest>) -> Option<String> {
        let mut message = None;
        while let Some(request) = requests.pop_front() {
            self.view.answered += 1;
            let superseded =
                matches!((request, requests.front()), (ReplayRequest::Step(_), Some(ReplayRequest::Step(_))));
            if !superseded {
                message = self.answer(request).unwrap_or_else(|error| Some(error.to_string()));
            }
        }
        message
    }

    fn answer(&mut self, request: ReplayRequest) -> Result<Option<String>, RecordingError> {
        let replay = &mut self.replay;
        let before = replay.step();
        let (first, last) = (replay.recording().first_step(), replay.recording().last_step());
        let stays = !matches!(
            request,
            ReplayRequest::Step(_) | ReplayRequest::Time(_) | ReplayRequest::Play | ReplayRequest::Speed(_)
        );
        if stays {
            replay.pause();
        }
        let message = match request {
            ReplayRequest::Forward => {
                replay.step_forward()?;
                (replay.step() == before).then(|| "This is the last step.".to_owned())
            }
            ReplayRequest::Back => {
                replay.step_back()?;
                (replay.step() == before).then(|| "This is the first step.".to_owned())
            }
            ReplayRequest::Step(step) => {
                replay.goto_step(step)?;
                (step < first || step > last).then(|| format!("The recording has steps {first} to {last}."))
            }
            ReplayRequest::Time(time_ns) => {
                replay.goto_time(time_ns)?;
                None
            }
            ReplayRequest::FirstCorruption => match replay.recording().first_corruption() {
                Some(step) => {
                    replay.goto_step(step)?;
                    None
                }
                None => Some("No session was found to be corrupted in this recording.".to_owned()),
            },
            ReplayRequest::NextAnomaly => {
                let found = replay.next_anomaly()?;
                found.is_none().then(|| "There is no later anomaly.".to_owned())
            }
            ReplayRequest::PreviousAnomaly => {
                let found = replay.previous_anomaly()?;
                found.is_none().then(|| "There is no earlier anomaly.".to_owned())
            }
            ReplayRequest::LastWriteOf(page) => {
                let PageRef { pool, page: number } = page;
                match replay.recording().last_write_of(page, before)? {
                    Some(step) if step >= first => {
                        replay.goto_step(step)?;
                        None
                    }
                    Some(step) => Some(format!(
                        "Page {number} of pool {pool} was last written in step {step}, before the recording begins."
                    )),
                    None => Some(format!("No earlier write of page {number} of pool {pool} is known.")),
                }
            }
            ReplayRequest::Play => {
                replay.play();
                (!replay.playing()).then(|| "This is the last step.".to_owned())
            }
            ReplayRequest::Pause => None,
            ReplayRequest::Speed(speed) => {
                replay.set_speed(speed);
                (!(SLOWEST..=FASTEST).contains(&speed))
                    .then(|| format!("The speed must be a number from {SLOWEST} to {FASTEST}."))
            }
        };
        Ok(message)
    }

    /// Brings the view up to date; says whether there is anything new.
    fn show(&mut self, asked: bool, message: Option<String>, failure: Option<RecordingError>) -> bool {
        let (replay, view) = (&self.replay, &mut self.view);
        let failed = failure.is_some();
        if replay.step() != view.step || failed {
            view.state = Arc::new(replay.state().clone());
        }
        let changed = replay.step() != view.step || replay.playing() != view.playing;
        view.step = replay.step();
        view.playing = replay.playing();
        view.speed = replay.speed();
        if asked || failed {
            view.message = message.or_else(|| failure.map(|failure| failure.to_string()));
        }
        changed || asked || failed
    }
}

#[cfg(test)]
mod tests;
