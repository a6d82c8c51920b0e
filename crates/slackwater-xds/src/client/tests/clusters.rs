//! Fleets by the names of clusters: sequences of both variants, and what clusters and endpoints
//! share of a stream.

use super::cluster_sequences::{INCREMENTAL, STATE_OF_THE_WORLD};
use super::machine::cluster;
use super::*;
use crate::policy_config::PolicyMistake;

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

fn has_nack(sent: &[String]) -> bool {
    sent.iter().any(|it| it.contains("NACK"))
}

/// The waits of NACKs are those of endpoints, and each type has its own.
#[test]
fn a_nack_that_waits_delays_its_own_type_alone() {
    for mode in [Mode::StateOfTheWorld, Mode::Incremental] {
        let mut machine = Machine::new(mode);
        machine.step(&Subscribe("@web"));
        machine.step(&Subscribe("eds"));
        machine.step(&Open);
        for wait in [0, 1, 2, 4, 8, 10, 10] {
            let at_once = has_nack(&machine.step(&Clusters("2", "b", &["web=2:1"])));
            assert_eq!(at_once, wait == 0, "{wait}");
            if wait > 0 {
                let sent = machine.step(&Answer("1", "c", &["eds=1:80"])).concat();
                assert!(sent.contains("nc"), "{sent}");
                let sent = has_nack(&machine.step(&Answer("1", "d", &["eds=1:0"])));
                assert!(sent, "the first in a row");
                assert!(!has_nack(&machine.step(&Wait(wait - 1))), "{wait}");
                let due = machine.client.deadline();
                assert_eq!(due, Some(machine.now + Duration::from_secs(1)));
                assert!(has_nack(&machine.step(&Wait(1))), "{wait}");
            }
        }
    }
}

#[test]
fn incremental_answers_about_clusters_that_wait_are_few() {
    let mut machine = Machine::new(Mode::Incremental);
    machine.step(&Subscribe("@web"));
    machine.step(&Open);
    machine.step(&Clusters("2", "a", &["web:1"]));
    let bad: Bytes = delta(CDS_TYPE, "2", "b", &["web:1"]).into();
    for number in 0..64 {
        let received = machine.client.received(machine.now, bad.clone());
        assert_eq!(received, Ok(()), "{number}");
    }
    let why = machine.client.received(machine.now, bad).unwrap_err();
    assert!(why.starts_with("it sent more than 64 responses"), "{why}");
}

#[test]
fn a_fleet_by_its_cluster_is_repeated_for_a_later_reader() {
    for mode in [Mode::StateOfTheWorld, Mode::Incremental] {
        let mut machine = Machine::new(mode);
        let repeated = |machine: &mut Machine| {
            machine.client.repeat(&fleet_name("@web"));
            machine.step(&Wait(0))
        };
        machine.step(&Subscribe("@web"));
        assert_eq!(machine.step(&Lose), ["cluster web failed: lost"]);
        assert_eq!(repeated(&mut machine), ["cluster web failed: lost"]);
        machine.step(&Open);
        machine.step(&Clusters("1", "a", &["web=1:80"]));
        assert_eq!(repeated(&mut machine), ["cluster web 1 [80]"]);
        machine.step(&Clusters("2", "b", &["web=2>eds"]));
        machine.step(&Answer("7", "c", &["eds=7:81"]));
        assert_eq!(repeated(&mut machine), ["cluster web 7 [81]"]);
        machine.step(&Answer("8", "d", &["?eds"]));
        let refused = "the control plane reports: not for you (code 7)";
        let of_endpoints = format!("cluster web failed: EDS resource \"eds\": {refused}");
        let both = ["cluster web 7 [81]", &of_endpoints];
        assert_eq!(repeated(&mut machine), both);
        machine.step(&Clusters("3", "e", &["?web"]));
        let of_cluster = format!("cluster web failed: {refused}");
        assert_eq!(repeated(&mut machine), ["cluster web 7 [81]", &*of_cluster]);
        // A reader that begins before there are endpoints finds why there are none.
        machine.step(&Lose);
        machine.step(&Subscribe("@api"));
        machine.step(&Open);
        machine.step(&Clusters("4", "f", &["api=1>x", "web=3>eds"]));
        machine.step(&Lose);
        machine.client.repeat(&fleet_name("@api"));
        assert_eq!(machine.step(&Wait(0)), ["cluster api failed: lost"]);
    }
}

#[test]
fn clusters_are_limited_and_so_are_their_endpoints() {
    let mut machine = Machine::new(Mode::Incremental);
    let name = |number: usize| FleetName::Cluster(number.to_string());
    for number in 0..4096 {
        let subscribed = machine.client.subscribe(machine.now, &name(number));
        subscribed.expect("few");
    }
    let why = machine.client.subscribe(machine.now, &name(4096));
    assert_eq!(why.unwrap_err(), "found more than 4096 clusters");
    assert_eq!(machine.client.names().len(), 4096);
    machine.step(&Subscribe("eds"));
    machine.step(&Open);
    let entries: Vec<_> = (0..4096).map(|number| format!("{number}=1>")).collect();
    let entries: Vec<_> = entries.iter().map(String::as_str).collect();
    machine.answer(CDS_TYPE, "s", "a", &entries);
    let out = machine.step(&Wait(0));
    let failed = "cluster 4095 failed: found more than 4096 resources";
    let failures = out.iter().filter(|it| it.contains("failed"));
    assert_eq!(failures.collect::<Vec<_>>(), [failed]);
    // A cluster whose new version is refused keeps its endpoints and its policy.
    machine.step(&Unsubscribe("@2"));
    machine.step(&Clusters("t", "c", &["1=3>1+random"]));
    let fleet = |out: Vec<String>| out.into_iter().find(|it| it.starts_with("cluster 1 "));
    let first = fleet(machine.step(&Answer("7", "d", &["1=7:80"])));
    assert_eq!(first.as_deref(), Some("cluster 1 7 [80] by \"random\""));
    machine.step(&Subscribe("2"));
    let refused = fleet(machine.step(&Clusters("u", "e", &["1=4>new+prequal"])));
    assert_eq!(
        refused.as_deref(),
        Some("cluster 1 failed: found more than 4096 resources")
    );
    let kept = fleet(machine.step(&Answer("8", "f", &["1=8:81"])));
    assert_eq!(kept.as_deref(), Some("cluster 1 8 [81] by \"random\""));
    // Once there is room for it, a new version of the cluster leads there.
    machine.step(&Unsubscribe("@1"));
    let sent = machine.step(&Clusters("t", "b", &["4095=2>"]));
    assert_eq!(sent, ["cds nb", "+4095"]);
}

#[test]
fn a_cluster_must_have_its_name_inside() {
    let mut machine = Machine::new(Mode::Incremental);
    machine.step(&Subscribe("@web"));
    machine.step(&Open);
    let mut renamed = resource(CDS_TYPE, "web=1:80");
    renamed.any.as_mut().expect("there").value = cluster("api", ":80").encode_to_vec().into();
    let response = DeltaDiscoveryResponse {
        resources: vec![renamed],
        type_url: CDS_TYPE.to_owned(),
        ..DeltaDiscoveryResponse::default()
    };
    let message = response.encode_to_vec().into();
    machine.client.received(machine.now, message).expect("read");
    let rejection = machine.client.facts().rejection.clone();
    let told = "web: has the name \"api\", expected its name";
    assert_eq!(rejection.as_deref(), Some(told));
}

/// The policy comes with the endpoints, changes without them, and outlives its cluster.
#[test]
fn a_policy_is_reported_with_the_endpoints_of_its_cluster() {
    for mode in [Mode::StateOfTheWorld, Mode::Incremental] {
        let mut machine = Machine::new(mode);
        let fleet = |out: Vec<String>| {
            let reports = out.into_iter().filter(|it| it.starts_with("cluster web "));
            reports.collect::<Vec<_>>().join(", ")
        };
        machine.step(&Subscribe("@web"));
        machine.step(&Open);
        assert_eq!(
            fleet(machine.step(&Clusters("1", "a", &["web=1>eds+random"]))),
            ""
        );
        let first = fleet(machine.step(&Answer("7", "b", &["eds=7:80"])));
        assert_eq!(first, "cluster web 7 [80] by \"random\"");
        let other = fleet(machine.step(&Clusters("2", "c", &["web=2>eds+prequal"])));
        assert_eq!(other, "cluster web 7 [80] by \"prequal\"");
        let inside = fleet(machine.step(&Clusters("3", "d", &["web=3:81+random"])));
        assert_eq!(inside, "cluster web 3 [81] by \"random\"");
        let none = fleet(machine.step(&Clusters("4", "e", &["web=4:81"])));
        assert_eq!(none, "cluster web 4 [81]");
        machine.step(&Clusters("5", "f", &["web=5>eds+prequal"]));
        machine.step(&Answer("8", "g", &["eds=8:82"]));
        machine.step(&Clusters("6", "h", &["?web"]));
        let outlived = fleet(machine.step(&Answer("9", "i", &["eds=9:83"])));
        assert!(
            outlived.starts_with("cluster web 9 [83] by \"prequal\""),
            "{outlived}"
        );
    }
}

#[test]
fn a_policy_that_the_owner_refuses_is_rejected_with_its_field() {
    let check = |config: &PolicyConfig| {
        if config.fields()["policy"] == "random" {
            return Ok(());
        }
        Err(PolicyMistake {
            field: "policy".to_owned(),
            message: "is unknown".to_owned(),
        })
    };
    for mode in [Mode::StateOfTheWorld, Mode::Incremental] {
        let mut machine = Machine::new(mode);
        machine.client = machine.client.with_check(check);
        machine.step(&Subscribe("@web"));
        machine.step(&Open);
        machine.step(&Clusters("1", "a", &["web=1:80+random"]));
        let out = machine
            .step(&Clusters("2", "b", &["web=2:81+odd"]))
            .concat();
        let told = "load_balancing_policy.policies[0].typed_extension_config.typed_config.value.\
                    policy is unknown";
        assert!(out.contains(&format!("NACK 3: web: {told}")), "{out}");
        let failed = format!("cluster web failed: cluster rejected: {told}");
        assert!(out.ends_with(&failed), "{out}");
    }
}
