//! Partitions: where keys fall, memory, and means in flight.

use super::*;
use core::time::Duration;

#[test]
fn keys_are_spread_over_partitions_by_their_high_bits() {
    let of = |partitions, bits| {
        let settings = KeySettings {
            partitions,
            ..KeySettings::default()
        };
        Partitions::new(&settings).of(KeyHash::from_bits(bits))
    };
    assert_eq!(of(0, 7), None);
    assert_eq!(of(1, u64::MAX), Some(0));
    assert_eq!(of(16_384, u64::MAX), Some(16_383));
    assert_eq!(of(10, 0), Some(0));
    assert_eq!(of(10, u64::MAX / 2), Some(4));
}

#[test]
fn memory_is_bounded_by_the_settings() {
    let most = KeySettings {
        partitions: KeySettings::PARTITIONS_MAX,
        set: 16,
        replicate_max: 16,
        ..KeySettings::default()
    };
    let partitions = Partitions::new(&most);
    assert_eq!(partitions.list.len(), 16_384);
    assert_eq!(partitions.servers.len(), 16_384 * 16);
    assert!(size_of::<Partition>() <= 80, "{}", size_of::<Partition>());
    // Partitions that do not exist are ignored.
    let mut none = Partitions::new(&KeySettings::default());
    let order = Order::default();
    none.sent(Instant::EPOCH, Some(3), &order);
    none.done(Instant::EPOCH, Some(3), &order);
    assert_eq!(none.first(3, &order).as_slice(), []);
    assert_eq!(none.homes(3), 1);
}

#[test]
fn mean_in_flight_follows_within_about_a_second() {
    let mut busy = Busy {
        in_flight: 4,
        ..Busy::default()
    };
    let mut means = Vec::new();
    for ms in 1..=5_000 {
        busy.update(Instant::EPOCH + Duration::from_millis(ms));
        if ms.is_multiple_of(1_000) {
            means.push(busy.mean * 100 / FINE);
        }
    }
    // 4 × (1 − e^−t)
    for (mean, expected) in means.iter().zip([253_u64, 346, 380, 393, 397]) {
        assert!(mean.abs_diff(expected) <= 2, "{means:?}");
    }
    // However long it takes, and if the clock steps back.
    busy.update(Instant::EPOCH);
    busy.in_flight = u32::MAX;
    busy.update(Instant::END);
    assert!(busy.mean <= u64::from(u32::MAX) * FINE);
}

/// One query at a time, for a tenth of the time, and events at other times.
#[test]
fn mean_in_flight_of_short_queries_is_their_share_of_the_time() {
    let mut busy = Busy::default();
    for us in 0..5_000_000_u64 {
        let now = Instant::from_nanos(us * 1_000);
        if us.is_multiple_of(200) || us % 200 == 20 || us % 200 == 77 {
            busy.update(now);
            busy.in_flight = u32::from(us.is_multiple_of(200));
        }
    }
    let thousandths = busy.mean * 1_000 / FINE;
    assert!((96..=101).contains(&thousandths), "{thousandths}");
}

#[test]
fn busiest_partitions_are_those_of_now() {
    let settings = KeySettings {
        partitions: 64,
        ..KeySettings::default()
    };
    let (mut partitions, order) = (Partitions::new(&settings), Order::default());
    let at = |ms| Instant::EPOCH + Duration::from_millis(ms);
    let count = u16::try_from(KeyView::PARTITIONS_MAX).expect("few");
    for partition in 0..count {
        (0..5).for_each(|_| partitions.sent(at(0), Some(partition), &order));
        (0..5).for_each(|_| partitions.done(at(2_000), Some(partition), &order));
    }
    let hour = 3_600_000;
    for ms in 0..1_000 {
        partitions.sent(at(hour + ms), Some(count), &order);
        partitions.done(at(hour + ms + 1), Some(count), &order);
    }
    let view = partitions.view(at(hour + 1_000), &order);
    assert_eq!(view.partitions.first().map(|it| it.partition), Some(count));
}
