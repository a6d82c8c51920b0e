//! What a control plane may send about endpoints, clusters and policies: nothing panics, every
//! response on a stream is answered once, and what comes out is within its bounds.
//!
//! The first byte chooses the variant of the protocol, and whether a cluster is followed as well.
//! Then each message has a byte for what happens before it, two bytes for its length, and its
//! content.

#![no_main]

use core::time::Duration;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use slackwater_xds::assignment::{ENDPOINTS_MAX, TIER_MAX, WEIGHT_MAX, ZONE_BYTES_MAX};
use slackwater_xds::client::NACK_WAIT_MAX;
use slackwater_xds::frame::{Frames, framed};
use slackwater_xds::policy::{DEPTH_MAX, FIELDS_MAX, TEXT_BYTES_MAX};
use slackwater_xds::{
    Assignment, Client, Cluster, ClusterEndpoints, FleetName, Mode, Node, PolicyConfig,
    PolicyMistake, Report,
};
use std::collections::BTreeSet;

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, mut rest)) = bytes.split_first() else {
        return;
    };
    if let Ok(assignment) = Assignment::read(rest.to_vec().into()) {
        check(&assignment);
    }
    if let Ok(cluster) = Cluster::read(rest.to_vec().into()) {
        if let Some(policy) = &cluster.policy {
            check_policy(&policy.config);
        }
        match cluster.endpoints {
            ClusterEndpoints::Inline(assignment) => check(&assignment),
            ClusterEndpoints::Resource(name) => {
                assert!((1..=FleetName::BYTES_MAX).contains(&name.len()) && name != "*");
            }
        }
    }
    let [a, b] = ["a", "b"].map(|name| FleetName::Endpoints(name.to_owned()));
    let [c, d] = ["a", "c"].map(|name| FleetName::Cluster(name.to_owned()));
    let has_cluster = mode & 2 == 2;
    let mode = if mode & 1 == 0 {
        Mode::StateOfTheWorld
    } else {
        Mode::Incremental
    };
    let mut client = Client::new(Node::default(), mode).with_check(refuse_odd);
    let mut now = Duration::from_secs(1);
    client.subscribe(now, &a).expect("few");
    if has_cluster {
        client.subscribe(now, &c).expect("few");
    }
    client.connected(now);
    drain(&mut client);
    while let Some((&[step, high, low], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low])).min(after.len());
        let (message, after) = after.split_at(length);
        rest = after;
        match step % 8 {
            0 => client.subscribe(now, &b).expect("few"),
            1 => client.unsubscribe(&b),
            2 => {
                client.disconnected(now, "lost");
                client.connected(now);
            }
            3 => now += Duration::from_secs(u64::from(step)),
            4 if has_cluster => client.subscribe(now, &d).expect("few"),
            5 => client.unsubscribe(&d),
            _ => (),
        }
        client.poll(now);
        drain(&mut client);
        let before = (client.facts().accepted, client.facts().rejected);
        let received = client.received(now, message.to_vec().into());
        let after = (client.facts().accepted, client.facts().rejected);
        let answers = after.0 - before.0 + after.1 - before.1;
        assert!(answers <= u64::from(received.is_ok()));
        // A NACK may wait.
        now += NACK_WAIT_MAX;
        client.poll(now);
        let sent = drain(&mut client);
        assert!(
            sent as u64 >= answers,
            "{sent} requests for {answers} answers"
        );
    }
    assert_eq!(frames(&framed(bytes)), [bytes.to_vec()]);
    let _ = frames(bytes);
});

/// Reads the messages of a stream that comes byte by byte, until it is wrong.
fn frames(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Frames::default();
    let mut found = Vec::new();
    for byte in stream {
        frames.push(&[*byte]);
        match frames.message() {
            Ok(Some(message)) => found.push(message.to_vec()),
            Ok(None) => (),
            Err(_) => break,
        }
    }
    found
}

/// Takes what the client wants to send, and checks what it reports.
fn drain(client: &mut Client) -> usize {
    while let Some(report) = client.poll_report() {
        if let Report::Accepted {
            assignment, policy, ..
        } = report
        {
            check(&assignment);
            if let Some(policy) = policy {
                check_policy(&policy);
                assert!(refuse_odd(&policy).is_ok());
            }
        }
    }
    core::iter::from_fn(|| client.poll_transmit()).count()
}

fn check(assignment: &Assignment) {
    assert!(assignment.endpoints.len() <= ENDPOINTS_MAX);
    let mut addresses = BTreeSet::new();
    for endpoint in &assignment.endpoints {
        assert!((1..=WEIGHT_MAX).contains(&endpoint.weight));
        assert!(endpoint.tier <= TIER_MAX);
        assert!(endpoint.zone.len() <= ZONE_BYTES_MAX);
        assert!(endpoint.address.port() > 0);
        assert!(addresses.insert(endpoint.address), "{}", endpoint.address);
    }
}

/// Some configurations must be wrong, so that clusters are rejected for them.
fn refuse_odd(config: &PolicyConfig) -> Result<(), PolicyMistake> {
    match config.fields().keys().find(|name| name.len() % 2 == 1) {
        None => Ok(()),
        Some(name) => Err(PolicyMistake {
            field: name.clone(),
            message: "is odd".to_owned(),
        }),
    }
}

fn check_policy(config: &PolicyConfig) {
    let mut values = vec![(1, Value::Object(config.fields().clone()))];
    let mut count = 0;
    while let Some((depth, value)) = values.pop() {
        match value {
            Value::Object(fields) => {
                assert!(depth <= DEPTH_MAX);
                count += fields.len();
                assert!(fields.keys().all(|name| name.len() <= TEXT_BYTES_MAX));
                values.extend(fields.into_iter().map(|(_, value)| (depth + 1, value)));
            }
            Value::Array(list) => {
                assert!(depth <= DEPTH_MAX);
                count += list.len();
                values.extend(list.into_iter().map(|value| (depth + 1, value)));
            }
            Value::String(text) => assert!(text.len() <= TEXT_BYTES_MAX),
            Value::Null | Value::Bool(_) | Value::Number(_) => (),
        }
    }
    assert!(count <= FIELDS_MAX);
}
