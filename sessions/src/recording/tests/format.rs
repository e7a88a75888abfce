//! What other programs see of a recording.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::{record, tempdir};
use crate::recording::channel::Channel;
use crate::recording::{Manifest, RecordingWriter};
use crate::synthetic::{Shape, events};
use crate::{Event, EventKind, Gap, Step};

/// Fails unless `value` is as `schema` says, and every property of it is described.
fn check(value: &Value, schema: &Value, at: &str) {
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    };
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    assert!(kinds.iter().any(|kind| is(kind.as_str().unwrap())), "{at}: {value} is not {kinds:?}");
    if let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object()) {
        for (name, value) in object {
            let schema = properties.get(name).unwrap_or_else(|| panic!("{at}/{name} is not described"));
            check(value, schema, &format!("{at}/{name}"));
        }
    }
    for value in value.as_array().into_iter().flatten() {
        check(value, &schema["items"], at);
    }
}

#[test]
fn another_reader_reads_it_and_every_message_is_as_its_schema_says() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let events = events(&Shape { steps: 300, spans_dropped: 9, ..Shape::default() });
    record(&path, Manifest::default(), &events, Duration::from_millis(1));
    let bytes = fs::read(&path).unwrap();
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    assert_eq!(summary.channels.len(), Channel::ALL.len());
    assert_eq!((summary.metadata_indexes.len(), summary.attachment_indexes.len()), (1, 1));
    let mut seen = BTreeSet::new();
    for message in mcap::MessageStream::new(&bytes).unwrap() {
        let message = message.unwrap();
        let schema = message.channel.schema.as_ref().unwrap();
        assert_eq!((message.channel.message_encoding.as_str(), schema.encoding.as_str()), ("json", "jsonschema"));
        let schema: Value = serde_json::from_slice(&schema.data).unwrap();
        check(&serde_json::from_slice(&message.data).unwrap(), &schema, &message.channel.topic);
        seen.insert(message.channel.topic.clone());
    }
    let topics: BTreeSet<String> = Channel::ALL.map(|channel| channel.topic().to_owned()).into();
    assert_eq!(seen, topics);
}

#[test]
fn a_step_is_one_message_a_channel() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    record(&path, Manifest::default(), &events(&Shape { steps: 100, ..Shape::default() }), Duration::ZERO);
    let bytes = fs::read(&path).unwrap();
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    let counts = summary.stats.unwrap().channel_message_counts;
    for channel in [Channel::Steps, Channel::Spans, Channel::Canary] {
        assert_eq!(counts[&channel.id()], 100);
    }
    assert!(counts[&Channel::Sessions.id()] <= 100);
}

#[test]
fn messages_say_when_they_were_recorded() {
    let scratch = tempdir().unwrap();
    let path = scratch.path().join("a.mcap");
    let step = |step| EventKind::Step(Step { step, ..Step::default() });
    let mut writer = RecordingWriter::create(&path, Manifest::default()).unwrap();
    let start = Instant::now();
    for (sequence, kind) in (0..).zip([step(0), EventKind::Gap(Gap { dropped: 1 }), step(1)]) {
        let event = Event { sequence, time_ns: 5, kind };
        writer.record(&event, start + Duration::from_millis(100 * sequence)).unwrap();
    }
    writer.finish().unwrap();
    let bytes = fs::read(&path).unwrap();
    let times: Vec<_> =
        mcap::MessageStream::new(&bytes).unwrap().map(|message| message.unwrap().publish_time).collect();
    let later: Vec<_> = times.iter().map(|time| (time - times[0]) / 1_000_000).collect();
    assert_eq!(later, [0, 100, 200]);
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(times[0] / 10_u64.pow(17), since_epoch.as_nanos() as u64 / 10_u64.pow(17));
}
