//! Going through a recording.

use std::time::Duration;

use super::{TempDir, folded, open, record, tempdir, written_out};
use crate::Event;
use crate::recording::{FASTEST, Manifest, Replay, SLOWEST};
use crate::synthetic::{Shape, events};

fn replay(shape: &Shape) -> (TempDir, Vec<Event>, Replay) {
    let scratch = tempdir().unwrap();
    let events = events(shape);
    let path = scratch.path().join("a.mcap");
    record(&path, Manifest::default(), &events, Duration::from_millis(2));
    let replay = Replay::new(open(&path)).unwrap();
    (scratch, events, replay)
}

#[test]
fn every_way_to_a_step_gives_the_same_state() {
    let (_scratch, events, mut replay) = replay(&Shape { steps: 800, nodes: 4, ..Shape::default() });
    assert_eq!(replay.step(), 0);
    let check = |replay: &Replay| {
        assert!(written_out(replay.state()) == written_out(&folded(&events, replay.step())), "at {}", replay.step());
    };
    check(&replay);
    for step in [5, 6, 200, 199, 700, 699, 300, 310, 799, 4_000, 0] {
        replay.goto_step(step).unwrap();
        assert_eq!(replay.step(), step.min(799));
        check(&replay);
    }
    for _ in 0..3 {
        replay.step_forward().unwrap();
        check(&replay);
    }
    replay.step_back().unwrap();
    assert_eq!(replay.step(), 2);
    check(&replay);
}

#[test]
fn anomalies_are_gone_to_both_ways() {
    let (_scratch, _, mut replay) = replay(&Shape { steps: 200, ..Shape::default() });
    let expected = replay.recording().anomalies().to_vec();
    let mut there = Vec::new();
    if expected[0].step == 0 {
        there.push(expected[0]);
    }
    while let Some(anomaly) = replay.next_anomaly().unwrap() {
        assert_eq!(replay.step(), anomaly.step);
        there.push(anomaly);
    }
    assert_eq!(there, expected);
    let mut back = vec![*expected.last().unwrap()];
    while let Some(anomaly) = replay.previous_anomaly().unwrap() {
        back.push(anomaly);
    }
    back.reverse();
    assert_eq!(back, expected);
}

#[test]
fn it_plays_as_fast_as_it_was_recorded_and_stops_at_the_end() {
    let (_scratch, events, mut replay) = replay(&Shape { steps: 600, ..Shape::default() });
    assert!(!replay.advance(Duration::from_secs(9)).unwrap(), "paused");
    replay.play();
    // Recorded with an event every 2 ms.
    let step_ns = 2_000_000 * events.len() as u64 / 600;
    assert!(replay.advance(Duration::from_nanos(step_ns * 10)).unwrap());
    assert!((8..=12).contains(&replay.step()), "{}", replay.step());
    assert!(written_out(replay.state()) == written_out(&folded(&events, replay.step())));
    replay.set_speed(f64::NAN);
    assert_eq!(replay.speed(), 1.0);
    replay.set_speed(1e9);
    assert_eq!(replay.speed(), FASTEST);
    // So much at once would hold up whoever draws.
    let before = replay.step();
    replay.advance(Duration::from_secs(9)).unwrap();
    assert_eq!(replay.step(), before + 256);
    assert!(replay.playing());
    for _ in 0..3 {
        replay.advance(Duration::from_secs(9)).unwrap();
    }
    assert!(replay.at_end() && !replay.playing());
    replay.play();
    assert!(!replay.playing());
    replay.set_speed(0.0);
    assert_eq!(replay.speed(), SLOWEST);
}

#[test]
fn a_time_is_gone_to() {
    let (_scratch, events, mut replay) = replay(&Shape { steps: 300, ..Shape::default() });
    let spoken = |step| {
        let at = super::steps(&events).partition_point(|&of| of < step);
        events[at].time_ns
    };
    for step in [0, 1, 17, 150, 299] {
        replay.goto_time(spoken(step)).unwrap();
        assert_eq!(replay.step(), step);
    }
    replay.goto_time(spoken(150) - 1).unwrap();
    assert_eq!(replay.step(), 149);
    replay.goto_time(u64::MAX).unwrap();
    assert_eq!(replay.step(), 299);
}
