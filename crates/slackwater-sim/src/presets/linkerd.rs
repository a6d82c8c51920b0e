//! Linkerd's experiment: eleven replicas that replay a latency, and one of them slow for half of
//! the minute. `[Beyond Round Robin, "Experiment setup"]`

use super::{middle, one_replica};
use crate::Scenario;
use crate::scenario::{Arrivals, Cost, Group, Hobble, Load, Service};
use core::time::Duration;

/// Latency of the slow replica.
const FROZEN_LATENCY: Duration = Duration::from_secs(2);

/// Returns eleven replicas with latencies of 167 ms (median) and 5 ms (standard deviation), and one
/// client at 1,000 queries a second, for 60 s from the start, without a warm-up.
///
/// The article replays latencies that were captured in production, "with no significant peaks".
/// Ours are drawn from the normal distribution with the same median and deviation. A replica's
/// latency does not depend on how busy it is, and includes the network.
pub fn linkerd() -> Scenario {
    Scenario::plain(
        Load {
            arrivals: Arrivals::Regular,
            ..Load::even(1_000.0, 1)
        },
        Cost::ClippedNormal {
            mean: Duration::from_millis(167),
            deviation: Duration::from_millis(5),
        },
        vec![Group::healthy(11, Service::Latency)],
    )
}

/// Makes one replica's latency 2 s in the middle half of the measured span: from 15 s to 45 s of
/// the article's minute.
#[must_use]
pub fn frozen(scenario: Scenario) -> Scenario {
    let (from, until) = middle(&scenario, 2);
    one_replica(scenario, |replica| {
        replica.hobble = Some(Hobble {
            from,
            until,
            capacity: 1.0,
            latency: Some(FROZEN_LATENCY),
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_eleven_replicas_is_frozen_from_15_s_to_45_s() {
        let scenario = frozen(linkerd());
        assert_eq!(scenario.replicas(), 11);
        assert_eq!(scenario.fleet[0].count, 1);
        let spell = scenario.fleet[0].hobble.expect("it is frozen");
        assert_eq!(
            (spell.from, spell.until),
            (Duration::from_secs(15), Duration::from_secs(45))
        );
        assert_eq!(spell.latency, Some(Duration::from_secs(2)));
    }
}
