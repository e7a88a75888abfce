//! Recordings that were cut off, damaged or forged.

use std::fs;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{TempDir, record, tempdir, written_out};
use crate::recording::container::{Channels, Container};
use crate::recording::export::{Table, csv, json, perfetto};
use crate::recording::keyframe::Keyframe;
use crate::recording::scan::{read_index, read_manifest, scan};
use crate::recording::{Manifest, Recording, RecordingError, RecordingWriter, Recovery, Replay};
use crate::synthetic::{Shape, events};
use crate::{Event, PageRef, State};

/// A recording of `events` as a kill leaves it: its bytes, and how many events were written out at which length.
fn killed(scratch: &TempDir, events: &[Event]) -> (Vec<u8>, Vec<(u64, usize)>) {
    let path = scratch.path().join("live.mcap");
    let mut writer = RecordingWriter::create(&path, Manifest::default()).unwrap();
    let mut now = Instant::now();
    let mut flushes = vec![(fs::metadata(&path).unwrap().len(), 0)];
    for (number, event) in events.iter().enumerate() {
        writer.record(event, now).unwrap();
        now += Duration::from_millis(7);
        let length = writer.recorded().bytes;
        if flushes.last().unwrap().0 < length {
            // What has just arrived may itself wait for the next time.
            flushes.push((length, number));
        }
    }
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, writer.recorded().bytes);
    (bytes, flushes)
}

#[test]
fn whatever_is_cut_off_the_rest_opens() {
    let scratch = tempdir().unwrap();
    let events = events(&Shape { steps: 500, ..Shape::default() });
    let (bytes, flushes) = killed(&scratch, &events);
    assert!(flushes.len() > 20);
    let path = scratch.path().join("cut.mcap");
    let start = flushes[0].0;
    let mut random = 1_u64;
    for cut in 0..240 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The first cuts fall around ends of flushes.
        let length = match flushes.get(cut / 3) {
            Some(flush) if cut < 60 => (flush.0 + cut as u64 % 3).saturating_sub(1).max(start),
            _ => start + (random >> 33) % (bytes.len() as u64 - start + 1),
        };
        fs::write(&path, &bytes[..length as usize]).unwrap();
        let (recording, recovery) = Recording::open(&path).unwrap();
        let survived = flushes.iter().rfind(|flush| flush.0 <= length).unwrap().1;
        assert!(recovery.truncated && recovery.events >= survived as u64, "{recovery:?} of {survived} at {length}");
        let left: Vec<Event> = recording.events_in(0..=u64::MAX).map(Result::unwrap).collect();
        assert_eq!(left.len() as u64, recovery.events);
        assert!(left == events[..left.len()]);
        if cut % 20 == 0 {
            let mut state = State::default();
            left.iter().for_each(|event| state.apply(event));
            assert!(written_out(&recording.state_at(u64::MAX).unwrap()) == written_out(&state));
        }
    }
}

#[test]
fn without_its_end_a_recording_is_whole_and_with_a_hole_it_ends_there() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let events = events(&Shape { steps: 300, ..Shape::default() });
    record(&path, Manifest::default(), &events, Duration::from_millis(5));
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let glance = Recording::glance(&path).unwrap();
    assert_eq!((glance.bytes, glance.contents), (bytes.len() as u64 - 1, None));
    let recovery = Recording::open(&path).unwrap().1;
    let whole = Recovery { truncated: true, events: events.len() as u64, steps: 300, lost_tail_bytes: 0 };
    assert_eq!(recovery, whole);

    fs::write(&path, &bytes).unwrap();
    let index = read_index(&Container::open(&path).unwrap()).unwrap().unwrap();
    let chunk = index.chunks[index.chunks_of(&(150..=150)).start];
    let mut holed = bytes.clone();
    holed[chunk.offset as usize + 200] ^= 1;
    // With its index, all but the damaged chunk can be read.
    fs::write(&path, &holed).unwrap();
    let (recording, recovery) = Recording::open(&path).unwrap();
    assert!(!recovery.truncated && recording.state_at(5).is_ok());
    let error = recording.state_at(200).err().unwrap();
    assert!(matches!(error, RecordingError::Damaged { .. }), "{error}");
    fs::write(&path, &holed[..bytes.len() - 1]).unwrap();
    let (recording, recovery) = Recording::open(&path).unwrap();
    assert!(recovery.truncated && recovery.events < whole.events && recovery.lost_tail_bytes > 1_000);
    let left: Vec<Event> = recording.events_in(0..=u64::MAX).map(Result::unwrap).collect();
    assert!(left == events[..left.len()]);
}

#[test]
fn what_is_cut_off_before_the_manifest_is_said_to_be_no_recording() {
    let scratch = tempdir().unwrap();
    let (bytes, flushes) = killed(&scratch, &events(&Shape { steps: 1, ..Shape::default() }));
    let path = scratch.path().join("stub.mcap");
    for length in 0..flushes[0].0 as usize {
        fs::write(&path, &bytes[..length]).unwrap();
        let Err(error) = Recording::open(&path) else { panic!("opens with {length} bytes") };
        assert!(matches!(error, RecordingError::NotARecording { .. } | RecordingError::Damaged { .. }), "{error}");
    }
}

#[test]
fn reading_through_finds_the_same_as_the_index() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    record(&path, Manifest::default(), &events(&Shape { steps: 900, ..Shape::default() }), Duration::from_millis(3));
    let container = Container::open(&path).unwrap();
    let stored = read_index(&container).unwrap().unwrap();
    let start = read_manifest(&container).unwrap().1;
    let (scanned, _) = scan(&container, start, &mut Channels::default()).unwrap();
    assert!(stored.keyframes.len() == 3 && stored.anomalies.len() > 20 && stored.chunks.len() > 5);
    assert_eq!(scanned.chunks, stored.chunks);
    assert_eq!(scanned.keyframes, stored.keyframes);
    assert_eq!(scanned.anomalies, stored.anomalies);
    assert_eq!((scanned.events, scanned.steps), (stored.events, stored.steps));
}

#[test]
fn a_file_that_is_there_is_not_written_over_and_others_are_refused() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    fs::write(&path, "something else").unwrap();
    let error = RecordingWriter::create(&path, Manifest::default()).err().unwrap();
    assert!(matches!(error, RecordingError::Exists { .. }));
    let error = Recording::open(&path).err().unwrap().to_string();
    assert!(error.ends_with("it should begin with the magic bytes of MCAP, but it begins with others."), "{error}");
    assert!(matches!(
        Recording::open(scratch.path()).err().unwrap(),
        RecordingError::NotARecording { .. } | RecordingError::Io { .. }
    ));
    assert!(matches!(Recording::open(&scratch.path().join("none")).err().unwrap(), RecordingError::Io { .. }));

    let foreign = scratch.path().join("foreign.mcap");
    mcap::Writer::new(fs::File::create(&foreign).unwrap()).unwrap().finish().unwrap();
    assert!(Recording::open(&foreign).err().unwrap().to_string().contains("metadata record `coalmine`"));

    let newer = scratch.path().join("newer.mcap");
    let mut metadata = Manifest::default().to_metadata();
    metadata.insert("format".to_owned(), "2".to_owned());
    let mut writer = mcap::Writer::new(fs::File::create(&newer).unwrap()).unwrap();
    writer.write_metadata(&mcap::records::Metadata { name: "coalmine".to_owned(), metadata }).unwrap();
    writer.finish().unwrap();
    let error = Recording::open(&newer).err().unwrap().to_string();
    assert!(error.contains("format version 2; this Coalmine reads versions 1 to 1"), "{error}");
}

#[test]
fn a_forged_keyframe_cannot_overflow_the_reducer() {
    let honest = serde_json::to_value(Keyframe::of(&State::default(), 0)).unwrap();
    let read = |value| serde_json::from_value::<Keyframe<'_>>(value).and_then(|keyframe| keyframe.into_state(0));
    read(honest.clone()).unwrap();
    for (path, value) in [
        ("/totals/steps", serde_json::json!(u64::MAX)),
        ("/since_toggle/sessions", serde_json::json!(u64::MAX)),
        ("/totals/clusters/squares", serde_json::json!(u64::MAX)),
        ("/totals/rows_per_hit_step", serde_json::json!({ "1": u64::MAX })),
        ("/totals/slots_hit", serde_json::json!([u32::MAX])),
    ] {
        let mut forged = honest.clone();
        *forged.pointer_mut(path).unwrap() = value;
        assert!(read(forged).unwrap_err().to_string().contains("absurd"), "{path}");
    }
}

/// Reads everything there is to read.
fn read_all(path: &std::path::Path) {
    let _ = Recording::glance(path);
    let Ok((recording, _)) = Recording::open(path) else { return };
    let _ = recording.events_in(0..=u64::MAX).count();
    for step in [0, 100, 300, u64::MAX] {
        let _ = recording.state_at(step).map(|state| state.summary());
        let _ = recording.last_write_of(PageRef { pool: 2, page: 5 }, step);
        let _ = recording.step_at_time(step.saturating_mul(1_000_000));
    }
    let mut sink = std::io::sink();
    let _ = json(&recording, &mut sink);
    let _ = csv(&recording, Table::Spans, &mut sink);
    let _ = perfetto(&recording, &mut sink);
    if let Ok(mut replay) = Replay::new(recording) {
        let _ = replay.next_anomaly();
        let _ = replay.goto_step(u64::MAX);
        let _ = replay.step_back();
    }
}

fn whole() -> &'static [u8] {
    static WHOLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    WHOLE.get_or_init(|| {
        let scratch = tempdir().unwrap();
        let path = scratch.path().join("a.mcap");
        let events = events(&Shape { steps: 280, nodes: 6, sessions: 4, ..Shape::default() });
        record(&path, Manifest::default(), &events, Duration::from_millis(5));
        fs::read(&path).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn damage_never_panics(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        near_end in any::<bool>(),
    ) {
        let scratch = tempdir().unwrap();
        let path = scratch.path().join("a.mcap");
        let mut bytes = whole().to_vec();
        // The summary is small and worth aiming at.
        let start = if near_end { bytes.len() - 4_000 } else { 0 };
        for (at, value) in flips {
            let at = start + at.index(bytes.len() - start);
            bytes[at] ^= value;
        }
        fs::write(&path, &bytes).unwrap();
        read_all(&path);
    }
    /// A forger gets the checksums right: what stands in messages is changed here before they are written.
    #[test]
    fn forged_messages_never_panic(
        changes in proptest::collection::vec(
            (any::<proptest::sample::Index>(), any::<proptest::sample::Index>(), proptest::sample::select(JSON)), 1..8),
    ) {
        let scratch = tempdir().unwrap();
        let path = scratch.path().join("a.mcap");
        let mut messages: Vec<_> =
            mcap::MessageStream::new(whole()).unwrap().map(Result::unwrap).collect();
        // There are few keyframes, and they are worth aiming at.
        messages.sort_by_key(|message| message.channel.topic != "/keyframes");
        for (number, (message, at, value)) in changes.into_iter().enumerate() {
            let message = if number == 0 { 0 } else { message.index(messages.len()) };
            let data = messages[message].data.to_mut();
            let at = at.index(data.len());
            data[at] = value;
        }
        messages.sort_by_key(|message| message.sequence);
        let mut writer = mcap::Writer::new(fs::File::create(&path).unwrap()).unwrap();
        let metadata = Manifest::default().to_metadata();
        writer.write_metadata(&mcap::records::Metadata { name: "coalmine".to_owned(), metadata }).unwrap();
        messages.iter().for_each(|message| writer.write(message).unwrap());
        writer.finish().unwrap();
        read_all(&path);
    }

    #[test]
    fn a_forged_index_never_panics(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), proptest::sample::select(JSON)), 0..4),
    ) {
        let scratch = tempdir().unwrap();
        let path = scratch.path().join("a.mcap");
        let mut bytes = whole().to_vec();
        let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
        let attachment = &summary.attachment_indexes[0];
        let checksum = (attachment.offset + attachment.length) as usize - 4;
        let start = checksum - attachment.data_size as usize;
        for (at, value) in changes {
            let at = start + at.index(checksum - start);
            bytes[at] = value;
        }
        let sum = crc32fast::hash(&bytes[attachment.offset as usize + 9..checksum]);
        bytes[checksum..checksum + 4].copy_from_slice(&sum.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        read_all(&path);
    }
}

/// What JSON is made of.
const JSON: &[u8] = b"0123456789[]{},:\"-.eEnul ";
