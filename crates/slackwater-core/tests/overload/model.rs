//! Compares the queue with a slow, simple one over random operations.

use super::{at, config};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::overload::{
    Asks, Discipline, Priority, Queue, QueueConfig, Refused, Shed, Taken,
};
use slackwater_core::{Instant, SplitMix64};

#[derive(Clone, Copy)]
struct Waiting {
    value: u32,
    priority: Priority,
    arrived_at: Instant,
    ends_at: Instant,
    shed: Shed,
}

struct Slow {
    config: QueueConfig,
    /// In order of arrival.
    waiting: Vec<Waiting>,
    above_since: [Option<Instant>; 3],
}

impl Slow {
    fn line(&self, priority: Priority) -> Vec<Waiting> {
        let all = self.waiting.iter().copied();
        all.filter(|it| it.priority == priority).collect()
    }

    /// Updates the line by its oldest query. Returns whether it is standing.
    fn look(&mut self, now: Instant, priority: Priority) -> bool {
        let age = self
            .line(priority)
            .first()
            .map_or(Duration::ZERO, |it| now.saturating_since(it.arrived_at));
        let since = &mut self.above_since[priority.index()];
        *since = (age > self.config.target).then(|| since.unwrap_or(now));
        since.is_some_and(|since| now.saturating_since(since) >= self.config.interval)
    }

    fn is_newest_first(&mut self, now: Instant, priority: Priority) -> bool {
        self.look(now, priority) && self.config.discipline == Discipline::NewestFirst
    }

    fn remove(&mut self, value: u32) -> Option<Waiting> {
        let index = self.waiting.iter().position(|it| it.value == value)?;
        let left = self.waiting.remove(index);
        if self.line(left.priority).is_empty() {
            self.above_since[left.priority.index()] = None;
        }
        Some(left)
    }

    /// The query whose wait has ended; if several end at once, `told` if it is one of them.
    fn ended(&self, now: Instant, told: Option<u32>) -> Option<Waiting> {
        let ends_at = self.waiting.iter().map(|it| it.ends_at).min()?;
        let mut ended = self.waiting.iter().filter(|it| it.ends_at == ends_at);
        let is_told = |it: &&Waiting| told.is_none_or(|told| it.value == told);
        ended.find(is_told).copied().filter(|_| ends_at <= now)
    }

    fn lowest(&self) -> Option<Priority> {
        self.waiting.iter().map(|it| it.priority).max()
    }

    /// Whether the query is admitted, and which one is dropped: `told`, if several waits end at
    /// once.
    fn push(
        &mut self,
        now: Instant,
        asks: Asks,
        value: u32,
        told: Option<u32>,
    ) -> (bool, Option<(u32, Shed)>) {
        if asks.deadline.is_some_and(|deadline| deadline <= now) {
            return (false, Some((value, Shed::Deadline)));
        }
        let mut displaced = None;
        if self.waiting.len() >= self.config.waiting_max as usize {
            if let Some(ended) = self.ended(now, told) {
                self.remove(ended.value);
                displaced = Some((ended.value, ended.shed));
            } else {
                let full = (false, Some((value, Shed::Full)));
                let Some(lowest) = self.lowest() else {
                    return full;
                };
                let is_newest_first = self.is_newest_first(now, lowest);
                let line = self.line(lowest);
                let victim = match is_newest_first {
                    _ if lowest < asks.priority => return full,
                    true => line[0].value,
                    false if lowest == asks.priority => return full,
                    false => line[line.len() - 1].value,
                };
                self.remove(victim);
                displaced = Some((victim, Shed::Full));
            }
        }
        let over = now + self.config.wait_max;
        let (ends_at, shed) = match asks.deadline {
            Some(deadline) if deadline <= over => (deadline, Shed::Deadline),
            _ => (over, Shed::WaitOver),
        };
        self.waiting.push(Waiting {
            value,
            priority: asks.priority,
            arrived_at: now,
            ends_at,
            shed,
        });
        self.look(now, asks.priority);
        (true, displaced)
    }

    fn take(&mut self, now: Instant) -> Option<(u32, Option<Shed>)> {
        let highest = self.waiting.iter().map(|it| it.priority).min()?;
        let is_standing = self.look(now, highest);
        let line = self.line(highest);
        let taken = if is_standing && self.config.discipline == Discipline::NewestFirst {
            line[line.len() - 1]
        } else {
            line[0]
        };
        self.remove(taken.value);
        let age = now.saturating_since(taken.arrived_at);
        let is_late = is_standing
            && self.config.discipline == Discipline::ControlledDelay
            && age > self.config.target * 2;
        Some((taken.value, is_late.then_some(Shed::Overloaded)))
    }
}

fn play(discipline: Discipline, waiting_max: u32, seed: u64) {
    let config = config(|s| {
        s.waiting_max = waiting_max;
        s.wait_max = Duration::from_millis(150);
        s.discipline = discipline;
        s.interval = Duration::from_millis(30);
    });
    let mut fast = Queue::new(config.clone());
    let mut slow = Slow {
        config,
        waiting: Vec::new(),
        above_since: [None; 3],
    };
    let mut places = Vec::new();
    let mut draw = SplitMix64::new(seed);
    let mut now_ms = 0_u64;
    let mut below = |most| below(&mut draw, most);
    for value in 0..20_000 {
        now_ms += u64::from(below(4));
        let now = at(now_ms);
        match below(16) {
            0..8 => {
                let asks = Asks {
                    priority: Priority::ALL[below(3) as usize],
                    deadline: (below(3) == 0).then(|| at(now_ms + u64::from(below(120)))),
                };
                let (is_let_in, goes) = match fast.push(now, asks, value) {
                    Ok(waits) => {
                        places.push((value, waits.place));
                        (true, waits.displaced.map(|it| (it.value, it.shed)))
                    }
                    Err(it) => (false, Some((it.value, it.shed))),
                };
                let told = goes.map(|(value, _)| value);
                assert_eq!((is_let_in, goes), slow.push(now, asks, value, told));
            }
            8..13 => {
                while let Some(Refused { value, shed }) = fast.take_ended(now) {
                    let ended = slow.ended(now, Some(value)).expect("its wait is over");
                    assert_eq!(ended.shed, shed);
                    slow.remove(value);
                }
                assert!(slow.ended(now, None).is_none());
                let taken = fast.take(now).map(|taken| match taken {
                    Taken::Next(value) => (value, None),
                    Taken::Refused(it) => (it.value, Some(it.shed)),
                });
                assert_eq!(taken, slow.take(now));
            }
            _ if !places.is_empty() => {
                let most = u32::try_from(places.len()).expect("few");
                let (value, place) = places.swap_remove(below(most) as usize);
                let removed = slow.remove(value).map(|it| it.value);
                assert_eq!(fast.remove(place), removed);
            }
            _ => {}
        }
        assert_eq!(fast.len(), slow.waiting.len());
        let first = slow.waiting.iter().map(|it| it.ends_at).min();
        assert_eq!(fast.poll_timeout(), first);
    }
}

#[test]
fn queue_matches_the_reference_model() {
    for discipline in [
        Discipline::OldestFirst,
        Discipline::NewestFirst,
        Discipline::ControlledDelay,
    ] {
        for (waiting_max, seed) in [(1, 1), (4, 2), (32, 3), (200, 4)] {
            play(discipline, waiting_max, seed);
        }
    }
}
