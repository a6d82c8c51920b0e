//! A scenario with another number of replicas: its total rate is fixed, and its groups keep
//! their proportions.

use slackwater_sim::Scenario;
use slackwater_sim::scenario::Event;

/// Returns the scenario with `replicas` replicas; `None` if the replica of an event is not among
/// them.
///
/// Groups get their shares by largest remainders (for equal ones, the earlier group first). A group
/// whose share is less than one replica may be left out. An event stays with the replica at the
/// same position in its group. So does a zone: further replicas have the zones of their group in
/// turn.
pub(super) fn scaled(scenario: &Scenario, replicas: usize) -> Option<Scenario> {
    let counts: Vec<_> = scenario.fleet.iter().map(|group| group.count).collect();
    let shares = apportioned(&counts, replicas);
    let events = scenario
        .events
        .iter()
        .map(|event| moved(*event, &counts, &shares));
    let mut scaled = Scenario {
        events: events.collect::<Option<_>>()?,
        ..scenario.clone()
    };
    if let Some(zones) = &mut scaled.zones {
        zones.replicas = rezoned(&zones.replicas, &counts, &shares);
    }
    for (group, share) in scaled.fleet.iter_mut().zip(shares) {
        group.count = share;
    }
    scaled.fleet.retain(|group| group.count > 0);
    Some(scaled)
}

/// Distributes `total` in the proportions of `counts`.
fn apportioned(counts: &[usize], total: usize) -> Vec<usize> {
    let sum = counts.iter().sum::<usize>().max(1);
    let mut shares: Vec<_> = counts.iter().map(|count| count * total / sum).collect();
    let mut by_remainder: Vec<_> = (0..counts.len()).collect();
    by_remainder.sort_by_key(|&group| core::cmp::Reverse(counts[group] * total % sum));
    let left = total - shares.iter().sum::<usize>();
    for group in by_remainder.into_iter().take(left) {
        shares[group] += 1;
    }
    shares
}

/// The event with its replica's new index, when groups have `now` replicas instead of `before`.
fn moved(event: Event, before: &[usize], now: &[usize]) -> Option<Event> {
    let (mut first_before, mut first_now) = (0, 0);
    for (&before, &now) in before.iter().zip(now) {
        let place = event.replica - first_before;
        if place < before {
            return (place < now).then_some(Event {
                replica: first_now + place,
                ..event
            });
        }
        first_before += before;
        first_now += now;
    }
    None
}

/// Returns the zone of each replica when groups have `now` replicas instead of `before`.
fn rezoned(zones: &[usize], before: &[usize], now: &[usize]) -> Vec<usize> {
    let (mut first, mut rezoned) = (0, Vec::new());
    for (&before, &now) in before.iter().zip(now) {
        let of_group = zones.iter().skip(first).take(before);
        rezoned.extend(of_group.cycle().take(now));
        first += before;
    }
    rezoned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proportions_are_kept_up_to_rounding() {
        for (counts, total, expected) in [
            (&[8][..], 3, &[3][..]),
            (&[7, 1], 16, &[14, 2]),
            (&[7, 1], 4, &[4, 0]),
            (&[1, 1], 3, &[2, 1]),
            (&[1, 1, 1], 1, &[1, 0, 0]),
            (&[50, 30, 20], 7, &[4, 2, 1]),
        ] {
            assert_eq!(
                apportioned(counts, total),
                expected,
                "{counts:?} to {total}"
            );
        }
    }

    #[test]
    fn zones_follow_their_groups() {
        use core::time::Duration;
        use slackwater_sim::presets::web;
        use slackwater_sim::scenario::Zones;
        let mut fleet = web(6, 4, 0.1);
        fleet.fleet = [4, 2]
            .map(|count| slackwater_sim::scenario::Group {
                count,
                ..fleet.fleet[0].clone()
            })
            .into();
        let mut zones = Zones::even(2, fleet.load.clients.len(), 0, Duration::from_millis(1));
        zones.replicas = vec![0, 0, 0, 0, 1, 1];
        fleet.zones = Some(zones);
        for replicas in 2..=16 {
            let scaled = scaled(&fleet, replicas).expect("it has no events");
            assert_eq!(scaled.mistakes(), [], "{replicas} replicas");
            let zones = &scaled.zones.as_ref().expect("it has zones").replicas;
            let of_groups = scaled.fleet.iter().zip(0..);
            let of_groups = of_groups.flat_map(|(group, zone)| vec![zone; group.count]);
            assert_eq!(*zones, of_groups.collect::<Vec<usize>>());
        }
        assert_eq!(rezoned(&[3, 4, 5], &[2, 1], &[5, 0]), [3, 4, 3, 4, 3]);
    }

    #[test]
    fn event_stays_with_its_replica_unless_the_fleet_is_too_small() {
        use core::time::Duration;
        use slackwater_sim::scenario::Change;
        let event = |replica| Event {
            at: Duration::ZERO,
            replica,
            change: Change::Restart {
                down_for: Duration::ZERO,
                cold_slowness: 1.0,
                warm_after: Duration::ZERO,
            },
        };
        let moved = |replica, now| moved(event(replica), &[4, 2], now).map(|event| event.replica);
        assert_eq!(moved(3, &[8, 4]), Some(3));
        assert_eq!(moved(4, &[8, 4]), Some(8));
        assert_eq!(moved(5, &[2, 1]), None, "the group's second is gone");
        assert_eq!(moved(1, &[2, 1]), Some(1));
    }
}
