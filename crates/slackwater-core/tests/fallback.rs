//! How many picks are random, at every fleet size and probe rate that the example prints. `[A8]`
//! `[Decision 0001]`

#[path = "../examples/fallback_share/client.rs"]
mod client;

use client::{Client, FLEETS, PROBE_MILLIONTHS, QUERIES_PER_SECOND};
use slackwater_core::SplitMix64;

#[test]
fn random_fallback_is_at_most_one_percent_from_five_replicas() {
    for replicas in FLEETS {
        for probe_millionths in PROBE_MILLIONTHS {
            for queries_per_second in QUERIES_PER_SECOND {
                let client = Client::new(replicas, probe_millionths, queries_per_second);
                let share = client.fallback_share(2_000, 10_000, &mut SplitMix64::new(2));
                // Two or three replicas do as well as the others at these rates. The promise begins
                // at five.
                assert!(
                    share <= 0.01 || replicas < 5,
                    "{share} at {replicas} replicas, {probe_millionths} millionths of a probe a query, \
                     {queries_per_second} queries a second"
                );
            }
        }
    }
}
