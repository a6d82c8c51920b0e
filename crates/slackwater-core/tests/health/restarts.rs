//! The effects of a report's incarnation.

use crate::fleet::{Client, MS, SECOND};
use slackwater_core::health::{HealthSettings, HealthState};
use slackwater_core::{LoadReport, Rif};

/// The second of four replicas fails half of its queries and reports this incarnation in its n-th
/// report. Returns its state after half a minute.
fn failing_as(incarnation: impl Fn(u64) -> u64) -> (Client, u32) {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[1].fails = 50;
    let mut failed = 0;
    for report in 0..300 {
        let mut said = LoadReport::new(Rif::ZERO, None);
        said.incarnation = Some(incarnation(report));
        client.hear(1, &said);
        failed += client.run(100 * MS).failed;
    }
    (client, failed)
}

#[test]
fn alternating_incarnations_count_as_one_restart() {
    let (client, failed) = failing_as(|report| report % 2);
    assert_eq!(client.counters().warm_ups, 1);
    assert_eq!(client.view(1).state, HealthState::Ejected);
    assert!(failed < 60, "{failed}");
}

#[test]
fn repeated_restarts_do_not_clear_an_ejection() {
    let (client, failed) = failing_as(|report| report);
    assert!(client.counters().warm_ups <= 7);
    assert_eq!(client.view(1).state, HealthState::Ejected);
    assert!(failed < 90, "{failed}");
}
