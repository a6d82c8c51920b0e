//! Tests of the status and the overrides as text.

use super::*;
use slackwater_admin::{PolicyRefused, SettingChosen, SettingOverridden};

fn drained(address: &str, weight: Option<u16>) -> ReplicaOverridden {
    ReplicaOverridden {
        service: "web".to_owned(),
        replica: "a".to_owned(),
        address: address.to_owned(),
        drained: true,
        weight,
        since_ms: Some(1_500),
    }
}

#[test]
fn replica_is_shown_with_its_address_if_its_name_differs() {
    assert_eq!(
        replica(&drained("10.0.0.1:80", Some(1_500))),
        "web, a at 10.0.0.1:80: drained, weight 1,500\n"
    );
    let plain = ReplicaOverridden {
        drained: false,
        ..drained("a", None)
    };
    assert_eq!(
        replica(&plain),
        "web, a: takes requests, weight as its fleet says\n"
    );
}

#[test]
fn start_of_a_state_is_shown_as_its_age() {
    let told = |seconds: u64| {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        since(Some((1_000_000 - seconds) * 1_000), now)
    };
    let ages = [0, 59, 60, 3_599, 3_600, 86_399, 86_400].map(told);
    assert_eq!(
        ages,
        [
            "0 s ago",
            "59 s ago",
            "1 min ago",
            "59 min ago",
            "1 h ago",
            "23 h ago",
            "1 d ago"
        ]
    );
    assert_eq!(since(None, UNIX_EPOCH), NOTHING);
}

#[test]
fn answer_has_the_date_of_the_server() {
    let answer = Response::builder().header(DATE, "Thu, 01 Jan 1970 00:16:40 GMT");
    let answer = answer.body(Bytes::new()).expect("an answer");
    let date = UNIX_EPOCH + Duration::from_secs(1_000);
    assert_eq!(sent_at(&answer), date);
    let before = SystemTime::now();
    assert!(
        sent_at(&Response::new(Bytes::new())) >= before,
        "without a date"
    );
}

#[test]
fn overrides_are_shown_as_tables_if_there_are_any() {
    assert_eq!(overrides(&Overrides::default()), None);
    let told = Overrides {
        settings: vec![SettingOverridden {
            service: "web".to_owned(),
            key: "policy".to_owned(),
            value: "\"random\"".to_owned(),
            instead_of: None,
            since_ms: 0,
        }],
        replicas: vec![drained("10.0.0.1:80", None)],
        control_plane: vec![SettingChosen {
            service: "web".to_owned(),
            key: "policy".to_owned(),
            value: "\"prequal\"".to_owned(),
            cluster: "web-1".to_owned(),
            server: "http://xds:1/".to_owned(),
            since_ms: 0,
        }],
        control_plane_refused: vec![PolicyRefused {
            service: "api".to_owned(),
            cluster: "api-1".to_owned(),
            why: "needs probes".to_owned(),
            since_ms: 0,
        }],
    };
    assert_eq!(
        overrides(&told).expect("four tables"),
        "SERVICE  KEY     VALUE     INSTEAD OF  SINCE\n\
         web      policy  \"random\"  –           1970-01-01T00:00:00.000000Z\n\n\
         SERVICE  REPLICA  ADDRESS      DRAINED  WEIGHT             SINCE\n\
         web      a        10.0.0.1:80  yes      as its fleet says  1970-01-01T00:00:01.500000Z\n\n\
         SERVICE  KEY     BY THE CONTROL PLANE  SINCE\n\
         web      policy  \"prequal\"             1970-01-01T00:00:00.000000Z\n\n\
         SERVICE  CLUSTER  POLICY NOT APPLIED  SINCE\n\
         api      api-1    needs probes        1970-01-01T00:00:00.000000Z\n"
    );
}

#[test]
fn control_characters_in_remote_text_are_removed() {
    let nasty = "\u{1b}[2J\u{9b}".to_owned();
    let status_of = Status {
        version: nasty.clone(),
        role: nasty.clone(),
        process: 1,
        phase: nasty.clone(),
        uptime_ms: 61_000,
        problems: vec![Problem {
            service: Some(nasty.clone()),
            what: nasty.clone(),
            remedy: nasty.clone(),
            ..Problem::default()
        }],
        overrides: None,
        reloads: Some(Reloads {
            failure: Some(nasty.clone() + "\n" + &nasty),
        }),
        services: vec![Service {
            name: nasty.clone(),
            policy: nasty.clone(),
            recent: None,
        }],
        replicas: vec![Replica {
            service: nasty.clone(),
            name: nasty.clone(),
            address: nasty.clone(),
            weight: 1,
            state: Some(nasty.clone()),
            since_ms: Some(1_500),
            why: Some(nasty.clone()),
            share_percent: Some(12),
            failure: None,
            in_flight: 3,
            requests: Requests::default(),
        }],
    };
    let meaning = Meaning {
        services_started: vec![nasty.clone()],
        remarks: vec![nasty.clone()],
        ..Meaning::default()
    };
    let of_settings = settings(&SettingsChanged {
        dry_run: true,
        changed: vec![slackwater_admin::Changed {
            key: nasty.clone(),
            from: None,
            to: Some(nasty),
        }],
        meaning,
    });
    for text in [status(&status_of, "x:1", UNIX_EPOCH), of_settings] {
        let is_unsafe = |letter: &char| letter.is_control() && *letter != '\n';
        assert_eq!(text.chars().find(is_unsafe), None, "{text}");
    }
}

#[test]
fn a_state_has_the_share_unless_it_is_ejected() {
    let state = |state: &str, share_percent| {
        Replica {
            service: String::new(),
            name: String::new(),
            address: String::new(),
            weight: 1,
            state: Some(state.to_owned()),
            since_ms: None,
            why: None,
            share_percent,
            failure: None,
            in_flight: 0,
            requests: Requests::default(),
        }
        .state()
    };
    assert_eq!(state("limited", Some(30)), "limited 30 %");
    assert_eq!(state("ejected", Some(50)), "ejected");
    assert_eq!(state("warming_up", Some(100)), "warming_up");
    assert_eq!(state("unreachable", None), "unreachable");
}

#[test]
fn a_service_shows_its_rate_and_its_errors_by_kind() {
    let quiet = RecentFacts {
        span_ms: 10_000,
        requests: 25,
        ..RecentFacts::default()
    };
    assert_eq!(
        recent(&quiet),
        ", 2.5 requests/s, none failed in the last 10 s"
    );
    let failing = RecentFacts {
        failed: 5,
        responses_5xx: 4,
        broken: 1,
        attempts_unconnected: 12,
        ..quiet
    };
    assert_eq!(
        recent(&failing),
        ", 2.5 requests/s, 20 % failed in the last 10 s: 4 answered 5xx, 1 broken off; \
         attempts: 12 without a connection"
    );
    let over = RecentFacts {
        failed_newest: Some(0),
        ..failing
    };
    assert!(recent(&over).contains("in the last 10 s, none in the last 2 s: 4 answered"));
}
