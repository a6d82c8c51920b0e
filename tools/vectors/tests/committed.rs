//! The committed vectors are what the core does, and they reach all of it.

use slackwater_core::policy::{HealthState, PickReason};
use slackwater_vectors::{Amount, counter_names, files};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The text of a file; none if it is not there, so that it differs from its first line on.
fn committed(path: &str) -> String {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    fs::read_to_string(vectors.join(path)).unwrap_or_default()
}

/// How often each pattern is in the vectors of the policies.
fn occurrences(patterns: &[String]) -> BTreeMap<&str, usize> {
    let mut found = BTreeMap::new();
    for file in files(Amount::COMMITTED) {
        // So that each line of a canonical text follows a line end.
        let text = committed(&file.path()).replace("\"text\":\"", "\\n");
        for pattern in patterns {
            *found.entry(pattern.as_str()).or_default() += text.matches(pattern).count();
        }
    }
    found
}

#[track_caller]
fn all_occur(patterns: &[String]) {
    for (pattern, count) in occurrences(patterns) {
        assert!(count > 0, "{pattern} is not in the vectors");
    }
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
fn difference_names_the_first_line_that_differs() {
    let file = files(Amount::COMMITTED).remove(0);
    let text = committed(&file.path());
    let line = text.lines().nth(6).expect("seven lines");
    let found = file.difference(&text.replacen(line, "{}", 1));
    let found = found.expect("a difference");
    assert_eq!(found.line, 7);
    assert_eq!(found.committed.as_deref(), Some("{}"));
    assert_eq!(found.now.as_deref(), Some(line));

    let longer = file.difference(&format!("{text}{{}}\n"));
    let longer = longer.expect("a difference");
    assert_eq!(longer.line, text.lines().count() + 1);
    assert_eq!(longer.now, None);
}

#[test]
fn committed_vectors_reach_every_reason_of_their_policies() {
    use PickReason::{KeyHome, KeySet, KeySpill, LowestCost, LowestRif, Turn, Weighted};
    // Four are the rules of policies that have no vectors, three those of keys.
    let reasons = PickReason::ALL.into_iter().filter(|it| {
        let is_policys = matches!(it, Turn | LowestCost | LowestRif | Weighted);
        !is_policys && !matches!(it, KeyHome | KeySet | KeySpill)
    });
    all_occur(
        &reasons
            .map(|it| format!("\"reason\":\"{it}\""))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn committed_vectors_reach_every_health_state() {
    all_occur(&HealthState::ALL.map(|state| format!(" {state} share=")));
}

#[test]
fn committed_vectors_reach_every_counter() {
    let of_others = ["turn", "lowest_cost", "lowest_rif", "weighted"];
    let names = counter_names().into_iter();
    let names = names.filter(|it| {
        !it.starts_with("picks.key_") && !of_others.iter().any(|other| it.ends_with(other))
    });
    all_occur(&names.map(|it| format!("\\n{it} ")).collect::<Vec<_>>());
}

#[test]
fn scenarios_of_another_seed_differ() {
    let mut amount = Amount::COMMITTED;
    amount.first_seed = Some(1_000_000);
    for (ours, others) in files(Amount::COMMITTED).iter().zip(files(amount)) {
        assert_ne!(ours.texts().next(), others.texts().next());
    }
}
