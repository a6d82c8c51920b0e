//! `sim replay`: a demo of a second, recorded and played again.

use crate::rig::{Scratch, sim, stderr, stdout};
use slackwater_sim::policy::Clairvoyant;
use std::fs;
use std::process::{Command, Stdio};

/// Records both sides of a short demo; the winner does not matter.
pub(crate) fn record(scratch: &Scratch, arguments: &[&str]) -> String {
    let file = scratch.path("demo.rec");
    let fixed = ["demo", "--seconds", "1.5", "--admin", "127.0.0.1:0"];
    let record = ["--no-table", "--replicas", "4", "--rate", "240", "--record"];
    let output = Command::new(env!("CARGO_BIN_EXE_slackwater"))
        .args(fixed)
        .args(record)
        .arg(&file)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    file
}

#[test]
fn replayed_demo_makes_the_same_picks_on_both_sides() {
    let scratch = Scratch::new("replay-same");
    let file = record(&scratch, &["--versus", "prequal_sync"]);
    let output = sim(&["replay", &file]);
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(shown.matches(" picks, all the same").count(), 2, "{shown}");
    for told in [
        "\nprequal: policy prequal",
        "\nprequal_sync: policy prequal_sync",
        "because the process ended",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    assert_eq!(
        shown.matches("    replica 3: ").count(),
        2,
        "they go by their names: {shown}"
    );

    let one = sim(&["replay", &file, "--service", "prequal"]);
    assert_eq!(stdout(&one).matches(" picks, all the same").count(), 1);

    // The service's own policy is played exactly, and needs no model.
    let own = sim(&[
        "replay",
        &file,
        "--service",
        "prequal",
        "--policy",
        "prequal",
    ]);
    let told = "\nprequal under prequal: that was its own policy, and is played exactly above\n";
    assert_eq!(stdout(&own), stdout(&one) + told);
}

#[test]
fn replay_with_another_policy_reports_the_model_error() {
    let scratch = Scratch::new("replay-other");
    let file = record(&scratch, &["--versus", "prequal"]);
    let json = scratch.path("replay.json");
    let arguments = ["replay", &file, "--policy", "peak_ewma", "--seeds", "2"];
    let output = sim(&[&arguments[..], &["--json", &json]].concat());
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for told in [
        "prequal under peak_ewma in place of prequal",
        "prequal_2 under peak_ewma",
        "taken for granted",
        "model's error",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    let text = fs::read_to_string(&json).expect("it was written");
    let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let services = figures["services"].as_array().expect("a list");
    assert_eq!(services.len(), 2);
    assert!(services[0]["difference"].is_null());
    let changed = &figures["changed"][0];
    assert_eq!(
        (&changed["policy"], &changed["recorded_policy"]),
        (&"peak_ewma".into(), &"prequal".into())
    );
    let p99 = &changed["figures"][2];
    assert_eq!(p99["figure"], "p99");
    for figure in ["recorded_ms", "modelled_ms", "modelled_other_ms", "change"] {
        assert!(
            p99[figure].as_f64().is_some_and(|it| it > 0.0),
            "{figure}: {p99}"
        );
    }
    // A second has too few queries for a meaningful tail.
    assert_eq!(p99["verdict"], "too few queries");
    assert!(
        p99["queries_beyond"].as_u64().is_some_and(|it| it < 10),
        "{p99}"
    );
    assert!(shown.contains("p99: only ") && shown.contains(" which is too few to say anything\n"));
    assert_ne!(changed["figures"][0]["verdict"], "too few queries");

    let again = sim(&arguments);
    assert_eq!(stdout(&again), shown, "the same seeds say the same");
}

#[test]
fn recorded_request_fields_are_shown() {
    let scratch = Scratch::new("replay-requests");
    let fields = [
        "--record-header",
        "x-demo-request",
        "--record-header",
        "x-none",
    ];
    let file = record(&scratch, &fields);
    let output = sim(&["replay", &file, "--show"]);
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for told in [
        "recorded by slackwater ",
        " requests: GET 100.0 %; 2xx 100.0 %; bytes of bodies (p50, p99) 0, 0 in and ",
        "    by x-none: 1 value\n      none: ",
        "  worker 0: policy prequal, from ",
        "  picks by rule: ",
        "    [prequal]",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    // Each request of the demo has a unique number, and only a few of them are listed.
    let numbers = shown.matches("    by x-demo-request: ").count();
    assert_eq!(
        (numbers, shown.matches("\n      \"").count()),
        (2, 16),
        "{shown}"
    );
    assert!(
        !shown.contains("all the same"),
        "nothing was played: {shown}"
    );

    // Recorded fields change no pick, and the replay reports them as well.
    let json = scratch.path("replay.json");
    let output = sim(&["replay", &file, "--json", &json]);
    assert_eq!(stdout(&output).matches(" picks, all the same").count(), 2);
    let text = fs::read_to_string(&json).expect("it was written");
    let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let service = &figures["services"][0];
    let requests = &service["requests"];
    assert_eq!(requests["by_method"]["GET"], requests["count"]);
    assert_eq!(
        requests["by_field"]["x-none"][0]["value"],
        serde_json::Value::Null
    );
    assert_eq!(
        requests["count"], service["queries_sent"],
        "each has its record"
    );
}

#[test]
fn fields_that_hold_secrets_are_not_recorded() {
    let output = Command::new(env!("CARGO_BIN_EXE_slackwater"))
        .args([
            "demo",
            "--record",
            "never.rec",
            "--record-header",
            "Authorization",
        ])
        .output()
        .expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("it holds secrets, which are never recorded"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn invalid_recordings_are_reported() {
    let scratch = Scratch::new("replay-wrong");
    let file = record(&scratch, &[]);
    let bytes = fs::read(&file).expect("it was written");
    let written = |name: &str, bytes: &[u8]| {
        fs::write(scratch.path(name), bytes).expect("a file for the test");
        scratch.path(name)
    };
    let other = written("other.rec", b"[load]\nrate = 3\n");
    let torn = written("torn.rec", &bytes[..bytes.len() / 2]);

    let told = |arguments: &[&str], code| {
        let output = sim(&[&["replay"], arguments].concat());
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            stderr(&output)
        );
        format!("{}{}", stdout(&output), stderr(&output))
    };
    assert!(told(&["not-there.rec"], 2).contains("not-there.rec: cannot be read"));
    assert!(told(&[&other], 2).contains("is no recording of slackwater's"));
    let service = told(&[&file, "--service", "web"], 2);
    assert!(
        service.contains("--service web: is not in the recording, which has prequal, round_robin"),
        "{service}"
    );
    assert!(told(&[&file, "--policy", "peek_ewma"], 2).contains("did you mean peak_ewma?"));
    for clairvoyant in Clairvoyant::ALL {
        let told = told(&[&file, "--policy", clairvoyant.name()], 2);
        assert!(told.contains("sees the replicas themselves"), "{told}");
    }
    let torn = told(&[&torn], 0);
    assert!(
        torn.contains("it is torn: after byte ") && torn.contains("all the same"),
        "{torn}"
    );
}

#[test]
fn altered_recording_replays_differently() {
    // The seed of the first stream: 2 blocks in, after number, time and worker.
    let scratch = Scratch::new("replay-seed");
    let file = record(&scratch, &["--policy", "random"]);
    let mut bytes = fs::read(&file).expect("it was written");
    let settings = bytes
        .windows(6)
        .position(|window| window == b"random")
        .expect("its name");
    // Service and policy have the same name; the eight bytes before the service's length are the
    // seed.
    bytes[settings - 2] ^= 0x55;
    let length_at = bytes[8..].windows(1).next().map(|_| 8).expect("a block");
    let head =
        u32::from_le_bytes(bytes[length_at..length_at + 4].try_into().expect("four")) as usize;
    let stream_at = length_at + 8 + head;
    let length =
        u32::from_le_bytes(bytes[stream_at..stream_at + 4].try_into().expect("four")) as usize;
    let content = &bytes[stream_at + 8..stream_at + 8 + length];
    let checksum = crc32c(content).to_le_bytes();
    bytes[stream_at + 4..stream_at + 8].copy_from_slice(&checksum);
    fs::write(&file, &bytes).expect("it can be written");
    let output = sim(&["replay", &file]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let shown = stdout(&output);
    assert!(shown.contains("NOT the same, worker 0: event "), "{shown}");
    assert!(stderr(&output).contains("random: the replay differs from what was recorded"));
}

/// Bit by bit, unlike the command's own implementation.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}
