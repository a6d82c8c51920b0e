//! Order, capacity, deadlines and disciplines of the queue.

use super::{BATCH, INTERACTIVE, SHADOW, at, config, ms, of};
use core::time::Duration;
use slackwater_core::Instant;
use slackwater_core::overload::{Asks, Discipline, Queue, QueueSettings, Refused, Shed, Taken};
use slackwater_core::policy::Settings;

/// All queries that leave at `now`: the next ones as they are, shed ones with the reason.
fn drain(queue: &mut Queue<u32>, now: Instant) -> Vec<(u32, Option<Shed>)> {
    let taken = core::iter::from_fn(|| queue.take(now));
    taken
        .map(|taken| match taken {
            Taken::Next(value) => (value, None),
            Taken::Refused(refused) => (refused.value, Some(refused.shed)),
        })
        .collect()
}

fn next(values: &[u32]) -> Vec<(u32, Option<Shed>)> {
    values.iter().map(|&value| (value, None)).collect()
}

fn push(queue: &mut Queue<u32>, now: Instant, asks: Asks, value: u32) {
    let waits = queue.push(now, asks, value).expect("room");
    assert_eq!(waits.displaced, None);
}

#[test]
fn highest_priority_then_oldest_is_served_first() {
    let mut queue = Queue::new(config(|_| ()));
    for (value, asks) in [
        (1, SHADOW),
        (2, BATCH),
        (3, INTERACTIVE),
        (4, BATCH),
        (5, INTERACTIVE),
    ] {
        push(&mut queue, at(0), asks, value);
    }
    assert_eq!(queue.len_by_priority(), [2, 2, 1]);
    assert_eq!(drain(&mut queue, at(1)), next(&[3, 5, 2, 4, 1]));
    assert!(queue.is_empty());
}

#[test]
fn full_queue_displaces_the_query_served_last() {
    let mut queue = Queue::new(config(|s| s.waiting_max = 3));
    for (value, asks) in [(1, SHADOW), (2, BATCH), (3, SHADOW)] {
        push(&mut queue, at(0), asks, value);
    }
    let displaced = |value| {
        Some(Refused {
            value,
            shed: Shed::Full,
        })
    };
    let mut come = |asks, value| match queue.push(at(1), asks, value) {
        Ok(waits) => waits.displaced,
        Err(refused) => Some(refused),
    };
    assert_eq!(come(SHADOW, 4), displaced(4), "itself, of its own line");
    assert_eq!(come(BATCH, 5), displaced(3), "the newest of the lowest");
    assert_eq!(come(INTERACTIVE, 6), displaced(1));
    assert_eq!(come(SHADOW, 7), displaced(7), "of a lower one than all");
    assert_eq!(come(INTERACTIVE, 8), displaced(5));
    assert_eq!(come(INTERACTIVE, 9), displaced(2));
    assert_eq!(come(BATCH, 10), displaced(10));
    assert_eq!(drain(&mut queue, at(2)), next(&[6, 8, 9]));
}

#[test]
fn queue_of_size_0_admits_no_query() {
    let mut queue = Queue::new(config(|s| s.waiting_max = 0));
    let refused = queue.push(at(0), INTERACTIVE, 1).expect_err("no room");
    assert_eq!(refused.shed, Shed::Full);
    assert_eq!(queue.take(at(0)), None);
}

#[test]
fn expired_query_is_never_served() {
    let mut queue = Queue::new(config(|s| s.wait_max = ms(100)));
    let until = |ms| Asks {
        deadline: Some(at(ms)),
        ..INTERACTIVE
    };
    let waits = queue.push(at(0), until(50), 1).expect("room");
    assert_eq!(waits.ends_at, at(50));
    push(&mut queue, at(0), INTERACTIVE, 2);
    push(&mut queue, at(0), until(20), 3);
    push(&mut queue, at(0), until(100), 4);
    let waits = queue.push(at(0), until(101), 5).expect("room");
    assert_eq!(waits.ends_at, at(100));
    let passed = queue.push(at(10), until(10), 6).expect_err("too late");
    assert_eq!(passed.shed, Shed::Deadline);
    assert_eq!(queue.poll_timeout(), Some(at(20)));
    let just_before = at(20).as_nanos() - 1;
    assert_eq!(queue.take_ended(Instant::from_nanos(just_before)), None);
    let ended = queue.take_ended(at(20)).expect("its time is over");
    assert_eq!((ended.value, ended.shed), (3, Shed::Deadline));
    assert_eq!(queue.poll_timeout(), Some(at(50)));
    assert_eq!(queue.take(at(49)), Some(Taken::Next(1)));
    let left = drain(&mut queue, at(100));
    let deadline = Some(Shed::Deadline);
    let over = Some(Shed::WaitOver);
    assert_eq!(left, [(2, over), (4, deadline), (5, over)].map(|it| it));
    assert_eq!(queue.poll_timeout(), None);
}

#[test]
fn expired_query_is_displaced_first() {
    let mut queue = Queue::new(config(|s| {
        s.waiting_max = 2;
        s.wait_max = ms(100);
    }));
    push(&mut queue, at(0), INTERACTIVE, 1);
    push(&mut queue, at(50), SHADOW, 2);
    let waits = queue.push(at(100), BATCH, 3).expect("room");
    let shed = Shed::WaitOver;
    assert_eq!(waits.displaced, Some(Refused { value: 1, shed }));
    assert_eq!(drain(&mut queue, at(100)), next(&[3, 2]));
}

#[test]
fn handle_of_removed_query_is_invalid() {
    let mut queue = Queue::new(config(|s| s.waiting_max = 3));
    let place = |waits: slackwater_core::overload::Waits<u32>| waits.place;
    let first = place(queue.push(at(0), BATCH, 1).expect("room"));
    let second = place(queue.push(at(0), BATCH, 2).expect("room"));
    let third = place(queue.push(at(0), BATCH, 3).expect("room"));
    assert_eq!(queue.remove(second), Some(2));
    assert_eq!(queue.remove(second), None, "once");
    let fourth = place(queue.push(at(1), BATCH, 4).expect("room"));
    assert_eq!(queue.remove(second), None, "the room is another's now");
    assert_eq!(queue.remove(first), Some(1));
    assert_eq!(queue.age(at(5)), ms(5), "the third's");
    assert_eq!(queue.remove(third), Some(3));
    assert_eq!(queue.age(at(5)), ms(4));
    assert_eq!(queue.remove(fourth), Some(4));
    assert_eq!((queue.len(), queue.poll_timeout()), (0, None));
}

/// A queue whose oldest query has been above the target from 10 ms to 110 ms: at 115 ms it is
/// standing.
fn standing(discipline: Discipline) -> Queue<u32> {
    let mut queue = Queue::new(of(discipline));
    for value in 1..=4 {
        push(&mut queue, at(0), INTERACTIVE, value);
    }
    assert_eq!(queue.take(at(10)), Some(Taken::Next(1)));
    assert!(!queue.is_standing());
    push(&mut queue, at(108), INTERACTIVE, 5);
    queue
}

#[test]
fn newest_first_serves_a_standing_queue_from_its_end() {
    let mut queue = standing(Discipline::NewestFirst);
    assert_eq!(
        queue.take(at(109)),
        Some(Taken::Next(2)),
        "not for long enough"
    );
    assert_eq!(queue.take(at(110)), Some(Taken::Next(5)));
    assert!(queue.is_standing());
    assert_eq!(queue.take(at(111)), Some(Taken::Next(4)));
    assert_eq!(queue.take(at(112)), Some(Taken::Next(3)));
    assert!(!queue.is_standing());
    // The line was empty, so its state is reset.
    push(&mut queue, at(112), INTERACTIVE, 6);
    push(&mut queue, at(112), INTERACTIVE, 7);
    assert_eq!(drain(&mut queue, at(200)), next(&[6, 7]));
}

#[test]
fn newest_first_displaces_the_oldest_of_its_priority() {
    let full = config(|s| {
        s.waiting_max = 2;
        s.discipline = Discipline::NewestFirst;
    });
    let mut queue = Queue::new(full);
    push(&mut queue, at(0), BATCH, 1);
    push(&mut queue, at(0), BATCH, 2);
    assert_eq!(queue.push(at(10), BATCH, 3).expect_err("full").value, 3);
    let waits = queue.push(at(110), BATCH, 4).expect("it is first now");
    assert_eq!(waits.displaced.map(|it| it.value), Some(1));
    // Another line's state does not matter: the whole batch is dropped before this one.
    let waits = queue.push(at(110), INTERACTIVE, 5).expect("higher");
    assert_eq!(waits.displaced.map(|it| it.value), Some(2));
    assert_eq!(drain(&mut queue, at(111)), next(&[5, 4]));
}

#[test]
fn standing_queue_sheds_queries_after_twice_the_target() {
    let mut queue = standing(Discipline::ControlledDelay);
    push(&mut queue, at(115), INTERACTIVE, 6);
    let overloaded = Some(Shed::Overloaded);
    // The fifth has waited for 10 ms, which is exactly twice the target.
    let left = drain(&mut queue, at(118));
    assert_eq!(
        left,
        [
            (2, overloaded),
            (3, overloaded),
            (4, overloaded),
            (5, None),
            (6, None)
        ]
    );
    let mut queue = standing(Discipline::ControlledDelay);
    let left = drain(&mut queue, at(118) + Duration::from_nanos(1));
    assert_eq!(left.last(), Some(&(5, overloaded)));
}

#[test]
fn oldest_first_serves_a_standing_queue_in_order() {
    let mut queue = standing(Discipline::OldestFirst);
    assert_eq!(drain(&mut queue, at(500)), next(&[2, 3, 4, 5]));
}

#[test]
fn settings_out_of_range_are_rejected() {
    type Spoil = (&'static str, fn(&mut QueueSettings));
    assert_eq!(QueueSettings::default().check(), Ok(()));
    let spoils: [Spoil; 5] = [
        ("waiting_max", |s| s.waiting_max = 65_537),
        ("wait_max", |s| s.wait_max = ms(0)),
        ("wait_max", |s| s.wait_max = ms(3_600_001)),
        ("target", |s| s.target = ms(0)),
        ("interval", |s| s.interval = ms(0)),
    ];
    for (field, spoil) in spoils {
        let mut settings = QueueSettings::default();
        spoil(&mut settings);
        assert_eq!(settings.check().expect_err(field).field, field);
    }
}
