//! The queue between the engine's thread and a reader, which may be slow, stuck or gone.
//!
//! The sender never waits for the reader: sending takes a lock that the reader holds only while it
//! takes the queue away. Memory is bounded whatever the reader does, by what an event bears on:
//!
//! - *Telemetry* (spans, metrics, info lines, canary reports without violations) is dropped oldest
//!   first beyond the bound given to [`event_queue`].
//! - *Steps* are state and kept, up to [`STEP_BACKLOG`].
//! - *Other state* is kept up to [`STATE_BACKLOG`]. Beyond that it is collapsed to what the reducer needs to end
//!   up right: the last change of each session and every change that carries a flag, the last two changes of
//!   each toggle (two, so that a toggle which went and came back is still seen to have changed), the last
//!   capture of each graph, the last hello. What one session, toggle or graph said before is superseded, not
//!   lost. Only if that is still too much (the reader must have been stuck for
//!   thousands of sessions) the oldest go: log lines, divergences, canary reports and changes without a flag
//!   first, and anything but the hello only when none of these is left.
//!
//! Every event that is dropped is counted, and the count is surfaced as one [`EventKind::Gap`] in the next
//! drain, in the place and with the sequence number of the last event dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Event, EventKind, Gap, LogLevel, SessionChange};

/// A telemetry bound that suits a reader of the embedded engine.
pub const TELEMETRY_BACKLOG: usize = 1_024;
/// Steps that are kept for a reader that does not read.
pub const STEP_BACKLOG: usize = 65_536;
/// Other events bearing on state that are kept for a reader that does not read.
pub const STATE_BACKLOG: usize = 65_536;

/// Opens a queue that holds at most `telemetry_bound` events of telemetry.
///
/// ```
/// use coalmine_sessions::{EventKind, Metric, Step, event_queue};
///
/// let (sender, receiver) = event_queue(1);
/// sender.send(EventKind::Step(Step::default()), 0);
/// for value in [1.0, 2.0, 3.0] {
///     sender.send(EventKind::Metric(Metric { name: "tokens_per_second".into(), value }), 0);
/// }
/// let mut events = Vec::new();
/// receiver.drain(&mut events);
/// let [step, gap, metric] = &events[..] else { unreachable!() };
/// assert!(matches!(&step.kind, EventKind::Step(_)));
/// assert!(matches!(&gap.kind, EventKind::Gap(gap) if gap.dropped == 2));
/// assert_eq!((step.sequence, gap.sequence, metric.sequence), (0, 2, 3));
/// ```
pub fn event_queue(telemetry_bound: usize) -> (EventSender, EventReceiver) {
    let shared =
        Arc::new(Shared { queue: Mutex::new(Queue { telemetry_bound, ..Queue::default() }), waker: Mutex::new(None) });
    (EventSender { shared: Arc::clone(&shared) }, EventReceiver { shared })
}

/// The engine's end. Dropping it ends the stream.
pub struct EventSender {
    shared: Arc<Shared>,
}

/// The reader's end. Once it is dropped, what is sent is discarded.
pub struct EventReceiver {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Apart from the queue, so that a waker may drain.
    waker: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code that could leave the queue half changed panics while holding the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker();
        }
    }
}

impl EventSender {
    /// Numbers an event and queues it. Never waits for the reader.
    pub fn send(&self, kind: EventKind, time_ns: u64) {
        let mut queue = self.shared.queue();
        if queue.reader_gone {
            return;
        }
        let was_empty = queue.is_empty();
        queue.push(kind, time_ns);
        drop(queue);
        if was_empty {
            self.shared.wake();
        }
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        self.shared.queue().sender_gone = true;
        self.shared.wake();
    }
}

impl EventReceiver {
    /// Appends everything queued to `events`, in order.
    pub fn drain(&self, events: &mut Vec<Event>) {
        let mut queue = self.shared.queue();
        let lists = [mem::take(&mut queue.steps), mem::take(&mut queue.state), mem::take(&mut queue.telemetry)];
        let gap = queue.gap.take();
        drop(queue);

        events.reserve(lists.iter().map(VecDeque::len).sum::<usize>() + 1);
        let start = events.len();
        events.extend(lists.into_iter().flatten().chain(gap));
        // The lists are sorted, and the sort finds such runs and merges them.
        events[start..].sort_by_key(|event| event.sequence);
    }

    /// Calls `waker` whenever the queue goes from empty to non-empty and when the sender ends; at
    /// once if either is so already. The waker may drain but must not set a waker, and runs on the sender's
    /// thread, so it should only notify.
    pub fn set_waker(&self, waker: Box<dyn Fn() + Send>) {
        *self.shared.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
        let queue = self.shared.queue();
        let due = !queue.is_empty() || queue.sender_gone;
        drop(queue);
        if due {
            self.shared.wake();
        }
    }

    /// Whether the sender is gone and everything it sent was drained.
    pub fn is_closed(&self) -> bool {
        let queue = self.shared.queue();
        queue.sender_gone && queue.is_empty()
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        *queue = Queue { reader_gone: true, ..Queue::default() };
    }
}

/// Three lists, each in the order of sequence numbers.
#[derive(Default)]
struct Queue {
    steps: VecDeque<Event>,
    state: VecDeque<Event>,
    telemetry: VecDeque<Event>,
    telemetry_bound: usize,
    /// What was dropped since the last drain.
    gap: Option<Event>,
    next_sequence: u64,
    sender_gone: bool,
    reader_gone: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.state.is_empty() && self.telemetry.is_empty() && self.gap.is_none()
    }

    fn push(&mut self, kind: EventKind, time_ns: u64) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let event = Event { sequence, time_ns, kind };
        if matches!(event.kind, EventKind::Step(_)) {
            self.steps.push_back(event);
            if self.steps.len() > STEP_BACKLOG {
                let oldest = self.steps.pop_front();
                self.count_dropped(oldest);
            }
        } else if event.kind.is_telemetry() {
            self.telemetry.push_back(event);
            if self.telemetry.len() > self.telemetry_bound {
                let oldest = self.telemetry.pop_front();
                self.count_dropped(oldest);
            }
        } else {
            self.state.push_back(event);
            if self.state.len() > STATE_BACKLOG {
                self.shrink_state();
            }
        }
    }

    fn count_dropped(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            let gap = self.gap.get_or_insert(Event {
                sequence: event.sequence,
                time_ns: event.time_ns,
                kind: EventKind::Gap(Gap { dropped: 0 }),
            });
            if event.sequence > gap.sequence {
                (gap.sequence, gap.time_ns) = (event.sequence, event.time_ns);
            }
            if let EventKind::Gap(Gap { dropped }) = &mut gap.kind {
                // A gap that was passed on from another queue stands for what was lost there.
                *dropped += if let EventKind::Gap(lost) = &event.kind { lost.dropped } else { 1 };
            }
        }
    }

    /// Makes room for a quarter of the bound, so that the cost per event is constant.
    fn shrink_state(&mut self) {
        collapse(&mut self.state);
        let target = STATE_BACKLOG / 4 * 3;
        let is_droppable = |kind: &EventKind| !matches!(kind, EventKind::Hello(_));
        for droppable in [is_expendable, is_droppable] {
            let mut excess = self.state.len().saturating_sub(target);
            let mut dropped = Vec::new();
            for event in mem::take(&mut self.state) {
                if excess > 0 && droppable(&event.kind) {
                    excess -= 1;
                    dropped.push(event);
                } else {
                    self.state.push_back(event);
                }
            }
            self.count_dropped(dropped);
        }
    }
}

impl EventKind {
    /// Whether it is the first to be dropped where a reader is slow, as it bears on no verdict.
    pub fn is_telemetry(&self) -> bool {
        match self {
            Self::Spans(_) | Self::Metric(_) => true,
            Self::Log(line) => line.level == LogLevel::Info,
            Self::Canary(report) => report.violations.is_empty(),
            _ => false,
        }
    }
}

fn is_expendable(kind: &EventKind) -> bool {
    match kind {
        EventKind::Log(_) | EventKind::Differential(_) | EventKind::Canary(_) => true,
        EventKind::Session(change) => change.flag.is_none(),
        _ => false,
    }
}

/// Removes what later events supersede.
fn collapse(state: &mut VecDeque<Event>) {
    let mut sessions = BTreeMap::new();
    let mut toggles = BTreeMap::new();
    let mut graphs = BTreeSet::new();
    let mut greeted = false;
    let mut kept = VecDeque::with_capacity(state.len());
    while let Some(mut event) = state.pop_back() {
        let superseded = match &mut event.kind {
            EventKind::Session(change) => match sessions.get(&change.session) {
                Some(&later) if change.flag.is_none() => {
                    supersede(&mut kept, later, change);
                    true
                }
                _ => {
                    sessions.insert(change.session, kept.len());
                    false
                }
            },
            EventKind::Toggle(change) => {
                let seen = toggles.entry(change.name).or_insert(0_u32);
                *seen += 1;
                *seen > 2
            }
            EventKind::Graph(graph) => !graphs.insert(graph.graph),
            EventKind::Hello(_) => mem::replace(&mut greeted, true),
            _ => false,
        };
        if !superseded {
            kept.push_back(event);
        }
    }
    kept.make_contiguous().reverse();
    *state = kept;
}

/// Lets the session's next kept change speak for an earlier one of the same turn, whose call it need not repeat.
fn supersede(kept: &mut VecDeque<Event>, later: usize, earlier: &mut SessionChange) {
    if let Some(Event { kind: EventKind::Session(later), .. }) = kept.get_mut(later)
        && later.turn == earlier.turn
        && later.call.is_empty()
    {
        later.call = mem::take(&mut earlier.call);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        CanaryReport, Flag, FlagKind, Log, Metric, PageRef, SessionPhase, State, Step, ToggleChange, ToggleName,
        ToggleValue,
    };

    fn metric(value: f64) -> EventKind {
        EventKind::Metric(Metric { name: "m".into(), value })
    }

    fn step(step: u64) -> EventKind {
        EventKind::Step(Step { step, rows: 1, ..Step::default() })
    }

    fn change(session: u64, turn: u32, wrong: bool) -> SessionChange {
        let flag = Flag { kind: FlagKind::WrongArgument, turn, step: 0, expected: "a".into(), found: "b".into() };
        SessionChange {
            session,
            turn,
            phase: SessionPhase::Thinking,
            call: "call".into(),
            flag: wrong.then_some(flag),
            ..SessionChange::default()
        }
    }

    fn overlap(value: u8, step: u64) -> EventKind {
        EventKind::Toggle(ToggleChange { name: ToggleName::Overlap, value: ToggleValue::Choice(value), step })
    }

    fn drained(receiver: &EventReceiver) -> Vec<Event> {
        let mut events = Vec::new();
        receiver.drain(&mut events);
        events
    }

    fn folded(events: &[Event]) -> State {
        let mut state = State::default();
        events.iter().for_each(|event| state.apply(event));
        state
    }

    #[test]
    fn what_bears_on_state_is_no_telemetry() {
        let hit = CanaryReport { violations: vec![PageRef { pool: 0, page: 1 }], ..CanaryReport::default() };
        let line = |level| EventKind::Log(Log { level, text: "x".into() });
        let miss = CanaryReport::default();
        assert!(EventKind::Canary(miss).is_telemetry() && !EventKind::Canary(hit).is_telemetry());
        assert!(line(LogLevel::Info).is_telemetry() && !line(LogLevel::Warning).is_telemetry());
    }

    #[test]
    fn a_drain_empties_the_queue_and_a_gap_is_told_once() {
        let (sender, receiver) = event_queue(0);
        sender.send(metric(1.0), 7);
        sender.send(metric(2.0), 8);
        let gap = Event { sequence: 1, time_ns: 8, kind: EventKind::Gap(Gap { dropped: 2 }) };
        assert_eq!(drained(&receiver), [gap]);
        assert_eq!(drained(&receiver), []);
    }

    #[test]
    fn a_gap_that_is_dropped_still_counts() {
        let mut queue = Queue::default();
        let lost = |sequence, dropped| Event { sequence, time_ns: 0, kind: EventKind::Gap(Gap { dropped }) };
        queue.count_dropped([lost(4, 10), lost(2, 5)]);
        assert_eq!(queue.gap, Some(lost(4, 15)));
    }

    #[test]
    fn steps_beyond_the_backlog_leave_a_gap() {
        let (sender, receiver) = event_queue(1);
        (0..STEP_BACKLOG as u64 + 3).for_each(|number| sender.send(step(number), 0));
        let events = drained(&receiver);
        assert_eq!(events.len(), STEP_BACKLOG + 1);
        assert_eq!(events[0], Event { sequence: 2, time_ns: 0, kind: EventKind::Gap(Gap { dropped: 3 }) });
    }

    #[test]
    fn a_reader_that_never_reads_loses_no_flag_toggle_or_session() {
        let (sender, receiver) = event_queue(1);
        sender.send(overlap(1, 0), 0);
        let sessions = 80;
        for round in 0..3_000_u32 {
            for session in 0..sessions {
                sender.send(EventKind::Session(change(session, round, round == 50 && session % 8 == 0)), 0);
            }
            if round % 1_000 == 999 {
                sender.send(overlap(0, u64::from(round)), 0);
                sender.send(overlap(1, u64::from(round) + 1), 0);
            }
        }
        let events = drained(&receiver);
        assert!(events.len() <= STATE_BACKLOG);
        assert!(events.is_sorted_by(|left, right| left.sequence < right.sequence));
        let state = folded(&events);
        assert_eq!((state.totals.sessions, state.totals.corrupted, state.dropped), (sessions, 10, 0));
        assert_eq!(state.totals.calls, sessions * 3_000);
        assert_eq!(state.toggle_step, 3_000);
    }

    #[test]
    fn memory_is_bounded_even_if_every_session_is_another_and_expendable_events_go_first() {
        let (sender, receiver) = event_queue(1);
        sender.send(EventKind::Hello(Box::default()), 0);
        let count = 2 * STATE_BACKLOG as u64;
        for session in 0..count {
            sender.send(EventKind::Session(change(session, 0, session % 4 == 0)), 0);
        }
        let events = drained(&receiver);
        assert!(events.len() <= STATE_BACKLOG + 1);
        assert!(matches!(events[0].kind, EventKind::Hello(_)));
        let flags = |event: &&Event| matches!(&event.kind, EventKind::Session(change) if change.flag.is_some());
        assert_eq!(events.iter().filter(flags).count() as u64, count / 4);
        let dropped = folded(&events).dropped;
        assert_eq!(dropped + events.len() as u64 - 1, count + 1);

        (0..count).for_each(|session| sender.send(EventKind::Session(change(session, 0, true)), 0));
        assert!(drained(&receiver).len() <= STATE_BACKLOG + 1, "flags too, in the end");
    }

    #[test]
    fn a_superseded_call_is_kept_for_its_turn_only() {
        let event = |sequence, change| Event { sequence, time_ns: 0, kind: EventKind::Session(change) };
        let silent = |session, turn| SessionChange { call: "".into(), ..change(session, turn, false) };
        let mut state: VecDeque<_> = [
            event(0, change(1, 0, false)),
            event(1, change(2, 0, false)),
            event(2, silent(1, 0)),
            event(3, silent(2, 1)),
        ]
        .into();
        collapse(&mut state);
        assert_eq!(state, [event(2, change(1, 0, false)), event(3, silent(2, 1))]);
    }

    #[test]
    fn the_waker_is_called_when_the_queue_stops_being_empty_and_at_the_end() {
        let (sender, receiver) = event_queue(9);
        sender.send(step(0), 0);
        let calls = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&calls);
        receiver.set_waker(Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let calls = || calls.load(Ordering::Relaxed);
        assert_eq!(calls(), 1, "it was not empty");
        sender.send(step(1), 0);
        assert_eq!(calls(), 1);
        drained(&receiver);
        sender.send(step(2), 0);
        sender.send(step(3), 0);
        assert_eq!(calls(), 2);
        drop(sender);
        assert_eq!(calls(), 3);
        assert!(!receiver.is_closed());
        drained(&receiver);
        assert!(receiver.is_closed());
    }

    #[test]
    fn a_reader_that_is_gone_keeps_nothing() {
        let (sender, receiver) = event_queue(9);
        drop(receiver);
        sender.send(step(0), 0);
        assert!(sender.shared.queue().is_empty());
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let (sender, receiver) = event_queue(9);
        let engine = thread::spawn(move || (0..20_000).for_each(|number| sender.send(step(number), number)));
        let mut events = Vec::new();
        while !receiver.is_closed() {
            receiver.drain(&mut events);
        }
        engine.join().unwrap();
        assert!(events.iter().map(|event| event.sequence).eq(0..20_000));
    }

    proptest! {
        #[test]
        fn whenever_it_is_drained_the_state_is_the_same_and_every_event_is_accounted_for(
            choices in proptest::collection::vec((0_u8..6, 0_u64..5, any::<bool>()), 0..80),
            bound in 0_usize..5,
        ) {
            let (sender, receiver) = event_queue(bound);
            let mut all = Vec::new();
            let mut seen = Vec::new();
            for (sequence, (kind, number, drains)) in (0..).zip(choices) {
                let kind = match kind {
                    0 => metric(number as f64),
                    1 => EventKind::Spans(Default::default()),
                    2 => step(number),
                    3 => overlap(u8::from(number > 2), number),
                    _ => EventKind::Session(change(number, 0, kind == 4)),
                };
                all.push(Event { sequence, time_ns: 0, kind: kind.clone() });
                sender.send(kind, 0);
                if drains {
                    receiver.drain(&mut seen);
                }
            }
            receiver.drain(&mut seen);
            prop_assert!(seen.is_sorted_by(|left, right| left.sequence < right.sequence));
            let (seen_state, all_state) = (folded(&seen), folded(&all));
            prop_assert_eq!(seen_state.summary(), all_state.summary());
            let gaps = seen.iter().filter(|event| matches!(event.kind, EventKind::Gap(_))).count();
            prop_assert_eq!(seen.len() - gaps + seen_state.dropped as usize, all.len());
        }
    }
}
