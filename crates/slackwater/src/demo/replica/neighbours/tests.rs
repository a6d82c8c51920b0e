//! The neighbours' schedule: the fleet's strength, its inequality, the slow episodes, and the
//! agreement of both fleets.

use super::*;

const TEN_MINUTES: Duration = Duration::from_mins(10);

/// The fleet's unhobbled capacity at each tick, replica by replica, and how long each was hobbled.
fn watch(seed: u64, replicas: usize) -> Vec<(Vec<f64>, Duration)> {
    let hood = Neighbourhood::default();
    let watch_one = |index| {
        let mut neighbours = Neighbours::new(&hood, seed, index, replicas);
        let (mut capacities, mut hobbled, mut since) = (Vec::new(), Duration::ZERO, Duration::ZERO);
        loop {
            let at = neighbours.next_change();
            if neighbours.is_hobbled() {
                hobbled += at.saturating_sub(since);
            } else {
                capacities.push(neighbours.capacity().as_f64());
            }
            since = at;
            if at > TEN_MINUTES {
                return (capacities, hobbled);
            }
            assert_eq!(neighbours.poll_change(at), Some(at));
        }
    };
    (0..replicas).map(watch_one).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn the_fleet_has_the_mean_capacity_and_its_replicas_are_unequal() {
    for seed in 0..5 {
        let means: Vec<f64> = watch(seed, 10).iter().map(|(seen, _)| mean(seen)).collect();
        let fleet = mean(&means);
        assert!((1.3..1.5).contains(&fleet), "seed {seed}: {fleet} cores");
        let weakest = means.iter().copied().fold(f64::INFINITY, f64::min);
        let strongest = means.iter().copied().fold(0.0, f64::max);
        assert!(strongest / weakest > 1.5, "seed {seed}: {means:?}");
    }
}

#[test]
fn capacity_varies_above_the_constant_allocation() {
    for (seen, _) in watch(3, 10) {
        let least = seen.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least >= 0.65 * 1.4, "{least}");
        let moves = seen
            .windows(2)
            .filter(|pair| (pair[0] - pair[1]).abs() > 0.000_5)
            .count();
        assert!(moves > seen.len() / 2, "{moves} of {}", seen.len());
    }
}

#[test]
fn each_replica_is_slowed_in_turn_a_fifth_of_the_time_overall() {
    let hobbled: Vec<Duration> = watch(1, 10).iter().map(|(_, hobbled)| *hobbled).collect();
    let share = hobbled
        .iter()
        .sum::<Duration>()
        .div_duration_f64(TEN_MINUTES);
    assert!((0.15..0.25).contains(&share), "{share}");
    assert!(
        hobbled.iter().filter(|span| !span.is_zero()).count() >= 8,
        "{hobbled:?}"
    );
}

#[test]
fn slowed_replica_has_a_tenth_of_its_capacity_and_recovers() {
    let steady = Neighbourhood {
        allocation_share: 1.0,
        ..Neighbourhood::default()
    };
    let mut neighbours = Neighbours::new(&steady, 5, 0, 1);
    let mut capacities = Vec::new();
    while neighbours.poll_change(Duration::from_secs(30)).is_some() {
        capacities.push((neighbours.is_hobbled(), neighbours.capacity()));
    }
    capacities.dedup();
    let (free, slow) = (
        (false, Cores::from_milli(1_400)),
        (true, Cores::from_milli(140)),
    );
    assert_eq!(capacities[..4], [free, slow, free, slow]);
}

#[test]
fn each_half_minute_has_three_or_four_slow_episodes() {
    for seed in 0..200 {
        let mut neighbours = Neighbours::new(&Neighbourhood::default(), seed, 0, 1);
        let (mut episodes, mut before) = (0, false);
        while neighbours.poll_change(Duration::from_secs(30)).is_some() {
            episodes += usize::from(neighbours.is_hobbled() && !before);
            before = neighbours.is_hobbled();
        }
        assert!((3..=4).contains(&episodes), "seed {seed}: {episodes}");
    }
}

#[test]
fn neighbours_do_not_depend_on_how_often_they_are_polled() {
    let hood = Neighbourhood::default();
    let (mut often, mut rarely) = (
        Neighbours::new(&hood, 9, 4, 10),
        Neighbours::new(&hood, 9, 4, 10),
    );
    let mut history = Vec::new();
    for ms in 0..20_000 {
        while let Some(at) = often.poll_change(Duration::from_millis(ms)) {
            history.push((at, often.capacity(), often.is_hobbled()));
        }
    }
    for expected in history {
        let at = rarely
            .poll_change(Duration::from_secs(20))
            .expect("as many changes");
        assert_eq!((at, rarely.capacity(), rarely.is_hobbled()), expected);
    }
    let other = Neighbours::new(&hood, 10, 4, 10);
    assert_ne!(
        other.capacity(),
        Neighbours::new(&hood, 9, 4, 10).capacity()
    );
}

#[test]
fn quiet_neighbours_and_an_empty_fleet_are_handled() {
    let quiet = Neighbourhood {
        drift: 0.0,
        burst: 0.0,
        hobbles: None,
        ..Neighbourhood::default()
    };
    let mut neighbours = Neighbours::new(&quiet, 1, 0, 1);
    let first = neighbours.capacity();
    assert_eq!(first, Cores::from_milli(1_400));
    while neighbours.poll_change(Duration::from_secs(5)).is_some() {
        assert_eq!(neighbours.capacity(), first);
    }
    let mut nobody = Neighbours::new(&Neighbourhood::default(), 1, 0, 0);
    while nobody.poll_change(TEN_MINUTES).is_some() {}
}
