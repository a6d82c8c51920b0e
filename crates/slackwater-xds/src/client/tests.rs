//! Sequences of the protocol: what happens to the client, and what it sends and reports.

mod cluster_sequences;
mod clusters;
mod machine;
mod sequences;

use super::*;
use crate::messages::{Any, DeltaDiscoveryResponse, DiscoveryResponse};
use machine::Step::{self, Answer, Clusters, Lose, Open, Subscribe, Unsubscribe, Wait};
use machine::{BAD_PORT, Machine, assignment, delta, fleet_name, play, resource, whole};
use proptest::prelude::*;
use prost::Message;
use sequences::{INCREMENTAL, STATE_OF_THE_WORLD};

#[test]
fn state_of_the_world() {
    for sequence in STATE_OF_THE_WORLD {
        play(Mode::StateOfTheWorld, sequence);
    }
}

#[test]
fn incremental() {
    for sequence in INCREMENTAL {
        play(Mode::Incremental, sequence);
    }
}

#[test]
fn a_response_that_is_rejected_again_is_answered_later_each_time() {
    for mode in [Mode::StateOfTheWorld, Mode::Incremental] {
        let mut machine = Machine::new(mode);
        machine.step(&Subscribe("web"));
        machine.step(&Open);
        for wait in [0, 1, 2, 4, 8, 10, 10] {
            let sent = |out: Vec<String>| out.iter().any(|it| it.contains("NACK"));
            let at_once = sent(machine.step(&Answer("2", "b", &["web:0"])));
            assert_eq!(at_once, wait == 0, "{wait}");
            if wait > 0 {
                assert!(!sent(machine.step(&Wait(wait - 1))), "{wait}");
                let due = machine.client.deadline();
                assert_eq!(due, Some(machine.now + Duration::from_secs(1)));
                assert!(sent(machine.step(&Wait(1))), "{wait}");
            }
        }
        machine.step(&Answer("3", "c", &["web=3:80"]));
        assert!(
            machine
                .step(&Answer("4", "d", &["web:0"]))
                .iter()
                .any(|it| it.contains("NACK"))
        );
    }
}

/// Requests wait with the NACK, so a control plane that goes on sending must not hold them.
#[test]
fn rejections_do_not_prolong_a_wait() {
    let mut machine = Machine::new(Mode::StateOfTheWorld);
    machine.step(&Subscribe("web"));
    machine.step(&Open);
    machine.step(&Answer("2", "a", &["web:0"]));
    for nonce in ["b", "c", "d"] {
        assert!(!machine.step(&Answer("2", nonce, &["web:0"])).is_empty());
        assert_eq!(machine.client.deadline(), Some(Duration::from_secs(1001)));
        machine.now += Duration::from_millis(100);
    }
    let sent = machine.step(&Wait(1));
    let nack = format!("v nd web NACK 3: web: {BAD_PORT}");
    assert_eq!(sent, [nack], "the last one alone");
}

#[test]
fn a_new_subscription_does_not_wait_for_a_nack() {
    for mode in [Mode::StateOfTheWorld, Mode::Incremental] {
        let mut machine = Machine::new(mode);
        machine.step(&Subscribe("web"));
        machine.step(&Open);
        machine.step(&Answer("2", "a", &["web:0"]));
        machine.step(&Answer("2", "b", &["web:0"]));
        let sent = machine.step(&Subscribe("api")).concat();
        assert!(sent.contains("api") && sent.contains("NACK"), "{sent}");
        // The next NACK waits for as long as it would have.
        machine.step(&Answer("2", "c", &["web:0"]));
        let due = machine.now + 2 * NACK_WAIT;
        assert_eq!(machine.client.deadline(), Some(due));
    }
}

#[test]
fn incremental_answers_that_wait_are_few() {
    let mut machine = Machine::new(Mode::Incremental);
    machine.step(&Subscribe("web"));
    machine.step(&Open);
    machine.step(&Answer("2", "a", &["web:0"]));
    let bad: Bytes = delta(EDS_TYPE, "2", "b", &["web:0"]).into();
    for number in 0..64 {
        let received = machine.client.received(machine.now, bad.clone());
        assert_eq!(received, Ok(()), "{number}");
    }
    let why = machine.client.received(machine.now, bad).unwrap_err();
    assert!(why.starts_with("it sent more than 64 responses"), "{why}");
}

#[test]
fn what_the_control_plane_says_is_bounded() {
    let limit = "x".repeat(1024);
    for mode in [Mode::StateOfTheWorld, Mode::Incremental] {
        let mut machine = Machine::new(mode);
        machine.step(&Subscribe("web"));
        machine.step(&Open);
        let mut answer = |version: &str, nonce: &str, entry: &str| {
            let message = match mode {
                Mode::StateOfTheWorld => whole(EDS_TYPE, version, nonce, &[entry]),
                Mode::Incremental => delta(EDS_TYPE, version, nonce, &[entry]),
            };
            let received = machine.client.received(machine.now, message.into());
            received.map(|()| machine.client.poll_report())
        };
        assert!(answer(&limit, &limit, "web:80").is_ok());
        for (version, nonce, told) in [
            (format!("{limit}x"), "n", "a version has 1025 bytes"),
            (
                "v".to_owned(),
                &*format!("{limit}x"),
                "a nonce has 1025 bytes",
            ),
        ] {
            let why = answer(&version, nonce, "web:80").unwrap_err();
            assert!(why.starts_with(told), "{why}");
        }
        let long = format!("web={limit}x:80");
        assert_eq!(
            answer("v", "n", &long).is_ok(),
            mode == Mode::StateOfTheWorld
        );
    }
    let failure = Failure::of_answer(&"ä".repeat(1000));
    assert_eq!(failure.why.len(), 1024);
    assert_eq!(shown("a\nb"), "ab");
    assert_eq!(shown(&limit).len(), 300);
}

#[test]
fn a_time_to_live_is_at_most_that_of_protobuf() {
    for (ttl, is_good) in [
        ("315576000000", true),
        ("315576000001", false),
        ("9223372036854775807", false),
        ("0", false),
        ("-1", false),
    ] {
        let mut machine = Machine::new(Mode::Incremental);
        machine.step(&Subscribe("web"));
        machine.step(&Open);
        let message = delta(EDS_TYPE, "s", "a", &[&format!("web=1:80!{ttl}")]);
        let received = machine.client.received(machine.now, message.into());
        assert_eq!(received, Ok(()));
        assert_eq!(machine.client.facts().accepted == 1, is_good, "{ttl}");
    }
}

#[test]
fn a_resource_must_have_its_name_inside() {
    let mut machine = Machine::new(Mode::Incremental);
    machine.step(&Subscribe("web"));
    machine.step(&Open);
    let mut renamed = resource(EDS_TYPE, "web=1:80");
    renamed.any.as_mut().expect("there").value = assignment("api", 80).encode_to_vec().into();
    let response = DeltaDiscoveryResponse {
        resources: vec![renamed],
        type_url: EDS_TYPE.to_owned(),
        ..DeltaDiscoveryResponse::default()
    };
    let received = machine
        .client
        .received(machine.now, response.encode_to_vec().into());
    received.expect("a response");
    let rejection = machine.client.facts().rejection.clone();
    let told = "web: has the cluster_name \"api\", expected its name";
    assert_eq!(rejection.as_deref(), Some(told));
}

#[test]
fn what_is_known_is_repeated_for_a_later_reader() {
    let mut machine = Machine::new(Mode::StateOfTheWorld);
    machine.step(&Subscribe("web"));
    machine.client.repeat(&fleet_name("web"));
    machine.client.repeat(&fleet_name("api"));
    machine.step(&Open);
    machine.step(&Answer("1", "a", &["web:80"]));
    machine.client.repeat(&fleet_name("web"));
    assert_eq!(machine.step(&Wait(0)), ["web 1 [80]"]);
}

#[test]
fn a_failure_is_repeated_until_the_next_version() {
    let repeated = |machine: &mut Machine| {
        machine.client.repeat(&fleet_name("web"));
        machine.step(&Wait(0))
    };
    for mode in [Mode::StateOfTheWorld, Mode::Incremental] {
        let mut machine = Machine::new(mode);
        machine.step(&Subscribe("web"));
        assert_eq!(machine.step(&Lose), ["web failed: lost"]);
        assert_eq!(repeated(&mut machine), ["web failed: lost"]);
        machine.step(&Open);
        let missing = "web failed: the resource does not exist: no answer within 15 s";
        assert_eq!(machine.step(&Wait(15)), [missing]);
        assert_eq!(repeated(&mut machine), [missing]);
        machine.step(&Answer("1", "a", &["web=1:80!5"]));
        assert_eq!(repeated(&mut machine), ["web 1 [80]"]);
        let expired = "web failed: the resource's time to live has expired";
        assert_eq!(machine.step(&Wait(5)), [expired]);
        assert_eq!(repeated(&mut machine), ["web 1 [80]", expired]);
        machine.step(&Answer("1", "b", &["web=1!5"]));
        assert_eq!(repeated(&mut machine), ["web 1 [80]"]);
        machine.step(&Answer("2", "c", &["web=2:0"]));
        let rejected = format!("web failed: resource rejected: {BAD_PORT}");
        assert_eq!(repeated(&mut machine), ["web 1 [80]", &rejected]);
        machine.step(&Answer("3", "d", &["?web"]));
        let refused = "web failed: the control plane reports: not for you (code 7)";
        assert_eq!(repeated(&mut machine)[1..], [refused]);
        machine.step(&Lose);
        machine.step(&Open);
        // Nothing new comes, so what is known is confirmed.
        assert_eq!(machine.step(&Wait(2)), ["web 1 [80]"]);
        assert_eq!(repeated(&mut machine), ["web 1 [80]"]);
    }
}

#[test]
fn responses_of_other_types_are_counted_and_not_answered() {
    let mut machine = Machine::new(Mode::StateOfTheWorld);
    machine.step(&Subscribe("web"));
    machine.step(&Open);
    let response = DiscoveryResponse {
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(),
        nonce: "a".to_owned(),
        ..DiscoveryResponse::default()
    };
    let received = machine
        .client
        .received(machine.now, response.encode_to_vec().into());
    received.expect("a response");
    assert_eq!(machine.step(&Wait(0)), [""; 0]);
    assert_eq!(machine.client.facts().foreign, 1);
    assert_eq!(machine.client.facts().accepted, 0);
    assert!(
        machine
            .client
            .received(machine.now, Bytes::from_static(b"\xff"))
            .is_err()
    );
}

#[test]
fn numbers_and_texts_are_limited() {
    let mut machine = Machine::new(Mode::StateOfTheWorld);
    for number in 0..4096 {
        let name = FleetName::Endpoints(number.to_string());
        machine.client.subscribe(machine.now, &name).expect("few");
    }
    let more = FleetName::Endpoints("more".to_owned());
    let why = machine.client.subscribe(machine.now, &more);
    let why = why.expect_err("too many");
    assert!(why.contains("more than 4096"), "{why}");
    machine.step(&Open);
    let response = |count| DiscoveryResponse {
        resources: vec![Any::default(); count],
        type_url: EDS_TYPE.to_owned(),
        nonce: "a".to_owned(),
        ..DiscoveryResponse::default()
    };
    for (count, told) in [
        (4096, "; and 4088 more"),
        (4097, "resources has 4097 entries, expected at most 4096"),
    ] {
        let message = response(count).encode_to_vec();
        machine
            .client
            .received(machine.now, message.into())
            .expect("a response");
        let rejection = machine.client.facts().rejection.clone().expect("rejected");
        assert!(rejection.ends_with(told), "{rejection}");
        machine.now += NACK_WAIT_MAX;
        machine.client.poll(machine.now);
        assert!(machine.client.poll_transmit().is_some());
    }
    let long = joined(&["ä".repeat(4000)]);
    assert_eq!(long.len(), 4096);
}

#[test]
fn a_control_plane_counts_as_reached_after_an_answer_or_two_seconds() {
    let mut machine = Machine::new(Mode::StateOfTheWorld);
    machine.step(&Subscribe("web"));
    assert!(!machine.client.is_reached(machine.now));
    machine.step(&Open);
    assert!(!machine.client.is_reached(machine.now));
    assert!(
        machine
            .client
            .is_reached(machine.now + Duration::from_secs(2))
    );
    machine.step(&Answer("1", "a", &["web:80"]));
    assert!(machine.client.is_reached(machine.now));
    assert_eq!(machine.client.deadline(), None);
    assert!(machine.client.disconnected(machine.now, "lost"));
    assert!(!machine.client.is_reached(machine.now));
}

fn any_step() -> impl Strategy<Value = Step> {
    const ENTRIES: [&[&str]; 8] = [
        &[],
        &["web=1:80"],
        &["web=2:0", "api=2:90"],
        &["-web"],
        &["web=3:81!5", "api=1:91"],
        &["web!5"],
        &["*"],
        &["?api", "web=4:82", "web=5:83"],
    ];
    const CLUSTERS: [&[&str]; 9] = [
        &[],
        &["web=1>web"],
        &["web=2>api", "one=1>api"],
        &["-web"],
        &["web=3>web!5", "one=2>web"],
        &["web!5"],
        &["*"],
        &["?one", "web=4:82", "one=3:1"],
        &["web=5>*", "web=6>"],
    ];
    const NAMES: [&str; 4] = ["web", "api", "@web", "@one"];
    prop_oneof![
        (0..NAMES.len()).prop_map(|place| Subscribe(NAMES[place])),
        (0..NAMES.len()).prop_map(|place| Unsubscribe(NAMES[place])),
        Just(Open),
        Just(Lose),
        (0..ENTRIES.len()).prop_map(|place| Answer("v", "n", ENTRIES[place])),
        (0..CLUSTERS.len()).prop_map(|place| Clusters("v", "n", CLUSTERS[place])),
        (0_u64..20).prop_map(Wait),
    ]
}

/// Whether a response of this type must be answered.
fn must_answer(client: &Client, step: &Step) -> bool {
    match step {
        Answer(..) => client.endpoints.is_requested() && !client.endpoints.is_idle(),
        Clusters(..) => client.clusters.is_requested() && !client.clusters.is_idle(),
        _ => false,
    }
}

proptest! {
    /// Whatever happens: each response on a stream is answered exactly once while anything of its
    /// type is subscribed to, no resource is accepted that has no endpoints, no subscription is
    /// kept that nothing needs, and no deadline stays behind.
    #[test]
    fn every_response_is_answered_once(
        is_delta in any::<bool>(),
        steps in proptest::collection::vec(any_step(), 0..40)
    ) {
        let mode = if is_delta { Mode::Incremental } else { Mode::StateOfTheWorld };
        let mut machine = Machine::new(mode);
        for step in &steps {
            let must_answer = must_answer(&machine.client, step);
            let mut out = machine.step(step);
            if matches!(step, Answer(..) | Clusters(..)) {
                // A NACK may wait.
                machine.now += NACK_WAIT_MAX;
                machine.client.poll(machine.now);
                out.extend(machine.step(&Wait(0)));
            }
            let is_about_clusters = matches!(step, Clusters(..));
            let sent = out.iter().filter(|it| it.contains("nn"));
            let sent = sent.filter(|it| it.starts_with("cds ") == is_about_clusters).count();
            if must_answer {
                prop_assert_eq!(sent, 1, "{:?}", out);
            }
            prop_assert!(!out.iter().any(|it| it.contains("[]")), "{:?}", out);
            machine.client.poll(machine.now);
            let client = &machine.client;
            prop_assert!(client.deadline().is_none_or(|at| at > machine.now));
            let mut needed = client.named.clone();
            needed.extend(client.routes.values().filter_map(Route::current).map(str::to_owned));
            needed.extend(client.routes.values().filter_map(Route::end).map(str::to_owned));
            prop_assert!(client.endpoints.names().eq(&needed), "{needed:?}");
            prop_assert!(client.clusters.names().eq(client.routes.keys()));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        is_delta in any::<bool>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        let mode = if is_delta { Mode::Incremental } else { Mode::StateOfTheWorld };
        let mut machine = Machine::new(mode);
        machine.step(&Subscribe("web"));
        machine.step(&Subscribe("@web"));
        machine.step(&Open);
        let _ = machine.client.received(machine.now, bytes.into());
    }
}
