//! One request to every shard: canaries, good enough, hedges, and that nothing is left behind.

mod balanced;

use crate::common::Gauge;
use core::convert::Infallible;
use core::time::Duration;
use futures_util::FutureExt;
use slackwater_core::Quantile;
use slackwater_core::policy::Settings;
use slackwater_core::tail::{HedgeConfig, HedgeSettings};
use slackwater_tower::client::fan_out::{CanaryError, FanOut, FanOutSettings, Gathered, Leaf};
use std::sync::Mutex;
use tokio::time::Instant;
use tower::service_fn;

/// How long a leaf takes, in milliseconds, and how it ends.
type Course = (u64, Result<(), &'static str>);

const HANGS: u64 = 1_000_000;

/// Shards that follow a script, and the requests that they received.
struct Shards {
    count: usize,
    /// The course of a shard's nth request, from 0 on.
    course: Box<dyn Fn(usize, usize) -> Course>,
    began: Instant,
    /// The shards that got a request, each with the time in milliseconds.
    asked: Mutex<Vec<(usize, u128)>>,
    in_flight: Gauge,
}

impl Shards {
    fn new(count: usize, course: impl Fn(usize, usize) -> Course + 'static) -> Self {
        Self {
            count,
            course: Box::new(course),
            began: Instant::now(),
            asked: Mutex::default(),
            in_flight: Gauge::default(),
        }
    }

    /// Shards that each answer after their number of milliseconds, whenever they get a request.
    fn taking(courses: &'static [u64]) -> Self {
        Self::new(courses.len(), |shard, _| (courses[shard], Ok(())))
    }

    async fn ask(&self, shard: usize) -> Result<usize, &'static str> {
        let nth = {
            let mut asked = self.asked.lock().expect("not poisoned");
            let nth = asked.iter().filter(|it| it.0 == shard).count();
            asked.push((shard, self.ms()));
            nth
        };
        let _in_flight = self.in_flight.begin();
        let (ms, end) = (self.course)(shard, nth);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        end.map(|()| shard)
    }

    async fn run(
        &self,
        fan_out: &FanOut,
    ) -> Result<Gathered<usize, &'static str>, CanaryError<&'static str>> {
        let gathered = fan_out.run(self.count, |shard| self.ask(shard)).await;
        assert_eq!(self.in_flight(), 0, "nothing is left behind");
        gathered
    }

    fn ms(&self) -> u128 {
        self.began.elapsed().as_millis()
    }

    fn asked(&self) -> Vec<(usize, u128)> {
        self.asked.lock().expect("not poisoned").clone()
    }

    fn in_flight(&self) -> usize {
        self.in_flight.now()
    }
}

fn fan_out(change: impl FnOnce(&mut FanOutSettings)) -> FanOut {
    let mut settings = FanOutSettings::default();
    change(&mut settings);
    FanOut::new(settings.validate().expect("they make sense"))
}

fn share(millionths: u32) -> Quantile {
    Quantile::from_millionths(millionths).expect("at most 1")
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test(start_paused = true)]
async fn other_shards_are_queried_after_a_canary_succeeds() {
    let shards = Shards::taking(&[10, 30, 5, 5, 5]);
    let gathered = shards.run(&fan_out(|_| ())).await.expect("canaries live");
    assert_eq!(
        shards.asked(),
        [(0, 0), (1, 0), (2, 10), (3, 10), (4, 10)],
        "the other canary is a leaf like others then"
    );
    assert_eq!(shards.ms(), 30);
    assert!(gathered.is_complete());
    let answers: Vec<_> = gathered.into_answers().collect();
    assert_eq!(answers, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
}

#[tokio::test(start_paused = true)]
async fn one_failed_canary_of_two_is_a_failed_leaf() {
    let shards = Shards::new(4, |shard, _| match shard {
        0 => (10, Err("down")),
        _ => (30, Ok(())),
    });
    let gathered = shards.run(&fan_out(|_| ())).await.expect("one is well");
    assert_eq!(shards.asked(), [(0, 0), (1, 0), (2, 30), (3, 30)]);
    assert_eq!(gathered.leaves()[0], Leaf::Failed("down"));
    assert_eq!((gathered.answered(), gathered.is_complete()), (3, false));
    assert!(!gathered.is_enough());
}

#[tokio::test(start_paused = true)]
async fn no_other_shard_is_queried_if_all_canaries_fail() {
    let shards = Shards::new(100, |shard, _| (10 * shard as u64, Err("down")));
    let error = shards.run(&fan_out(|_| ())).await.expect_err("all failed");
    assert_eq!((shards.asked().len(), shards.ms()), (2, 10));
    assert_eq!(
        error.canaries,
        [(0, Some("down")), (1, Some("down"))],
        "each is listed"
    );
    assert_eq!(error.spared, 98);
}

#[tokio::test(start_paused = true)]
async fn canaries_have_a_timeout() {
    let course = |shard, _| match shard {
        0 => (10, Err("down")),
        1 => (HANGS, Ok(())),
        _ => (1, Ok(())),
    };
    let shards = Shards::new(3, course);
    let error = shards
        .run(&fan_out(|it| it.canary_timeout = ms(70)))
        .await
        .expect_err("one failed, one hangs");
    assert_eq!((shards.asked().len(), shards.ms()), (2, 70));
    assert_eq!(
        error.to_string(),
        "no canary succeeded, so 1 other shards got no request; check the request before sending it again: \
         shard 0 failed (down), shard 1 did not answer in time"
    );
    // The overall deadline comes first.
    let shards = Shards::new(3, course);
    let error = shards
        .run(&fan_out(|it| it.deadline = Some(ms(50))))
        .await
        .expect_err("one failed, one hangs");
    assert_eq!((shards.ms(), error.spared), (50, 1));
}

#[tokio::test(start_paused = true)]
async fn without_other_shards_there_are_no_canaries() {
    for (canaries, count) in [(0, 3), (3, 3), (9, 3)] {
        let shards = Shards::new(count, |_, _| (10, Err("down")));
        let fan_out = fan_out(|it| it.canaries = canaries);
        let gathered = shards.run(&fan_out).await.expect("no canary failed");
        assert_eq!(shards.asked(), [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(gathered.answered(), 0);
    }
    let nobody = Shards::taking(&[]);
    let gathered = nobody
        .run(&fan_out(|_| ()))
        .await
        .expect("no canary failed");
    assert!(gathered.is_complete() && gathered.leaves().is_empty());
    assert_eq!(nobody.ms(), 0);
}

#[tokio::test(start_paused = true)]
async fn all_shards_take_turns_as_canaries() {
    let fan_out = fan_out(|it| it.canaries = 1);
    for first in [0, 1, 2, 0] {
        let shards = Shards::taking(&[10, 10, 10]);
        let gathered = shards.run(&fan_out).await.expect("canaries live");
        assert!(gathered.is_complete());
        let order: Vec<_> = shards.asked().iter().map(|it| it.0).collect();
        assert_eq!(order, [first, (first + 1) % 3, (first + 2) % 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn fan_out_ends_at_the_good_enough_fraction() {
    // A share in thirds, rounded up: 4 of 5.
    let courses = &[10, 20, 30, 40, 50];
    let shards = Shards::taking(courses);
    let some = fan_out(|it| {
        it.canaries = 0;
        it.enough = share(666_667);
    });
    let gathered = shards.run(&some).await.expect("no canaries");
    assert_eq!((shards.ms(), gathered.answered()), (40, 4));
    assert!(gathered.is_enough() && !gathered.is_complete());
    assert_eq!(gathered.leaves()[4], Leaf::NotAwaited);

    // Not before its time. Answers that arrive until then are included.
    for (after, ended) in [(0, 40), (15, 40), (45, 45), (50, 50), (1000, 50)] {
        let shards = Shards::taking(courses);
        let patient = fan_out(|it| {
            it.canaries = 0;
            it.enough = share(666_667);
            it.enough_after = ms(after);
        });
        let gathered = shards.run(&patient).await.expect("no canaries");
        assert_eq!(shards.ms(), ended, "{after}");
        assert_eq!(
            gathered.answered(),
            usize::try_from(ended).expect("few") / 10
        );
    }
}

#[tokio::test(start_paused = true)]
async fn all_answers_are_gathered_if_the_fraction_is_out_of_reach() {
    let shards = Shards::new(4, |shard, _| match shard {
        0 | 1 => (10, Err("down")),
        _ => (50, Ok(())),
    });
    let most = fan_out(|it| {
        it.canaries = 0;
        it.enough = share(750_000);
    });
    let gathered = shards.run(&most).await.expect("no canaries");
    assert_eq!((shards.ms(), gathered.answered()), (50, 2));
    assert!(!gathered.is_enough());
    let answers: Vec<_> = gathered.answers().collect();
    assert_eq!(answers, [(2, &2), (3, &3)]);
}

#[tokio::test(start_paused = true)]
async fn fan_out_ends_at_the_deadline_with_partial_answers() {
    let shards = Shards::new(6, |shard, _| match shard {
        0 => (10, Ok(())),
        1 => (20, Err("down")),
        _ => (HANGS, Ok(())),
    });
    let hasty = fan_out(|it| {
        it.deadline = Some(ms(100));
        it.concurrency_max = 3;
    });
    let gathered = shards.run(&hasty).await.expect("a canary lives");
    assert_eq!(shards.ms(), 100);
    assert_eq!(
        gathered.into_leaves(),
        [
            Leaf::Answered(0),
            Leaf::Failed("down"),
            Leaf::NotAwaited,
            Leaf::NotAwaited,
            Leaf::NotAwaited,
            Leaf::NotAsked
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_never_exceed_the_limit() {
    for (canaries, concurrency_max, took, most) in [
        (0, 3, 40, 3),
        (2, 1, 100, 1),
        (2, 3, 40, 3),
        (2, 100, 20, 8),
        (0, 100, 10, 10),
    ] {
        let shards = Shards::new(10, |_, _| (10, Ok(())));
        let bounded = fan_out(|it| {
            it.canaries = canaries;
            it.concurrency_max = concurrency_max;
        });
        let gathered = shards.run(&bounded).await.expect("canaries live");
        assert!(gathered.is_complete());
        let found = shards.in_flight.most();
        assert_eq!((shards.ms(), found), (took, most));
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_fan_out_cancels_all_of_it() {
    let shards = Shards::new(5, |_, _| (HANGS, Ok(())));
    let all = fan_out(|it| it.canaries = 0).with_hedging(hedging(|_| ()));
    let running = all.run(5, |shard| shards.ask(shard));
    assert!(running.boxed_local().now_or_never().is_none());
    assert_eq!((shards.asked().len(), shards.in_flight()), (5, 0));
}

fn hedging(change: impl FnOnce(&mut HedgeSettings)) -> HedgeConfig {
    let mut settings = HedgeSettings::default();
    settings.samples_min = 20;
    change(&mut settings);
    settings.validate().expect("they make sense")
}

/// A fan-out without canaries that has seen a hundred leaves of 10 ms each.
async fn hedged(change: impl FnOnce(&mut HedgeSettings)) -> FanOut {
    let all = fan_out(|it| it.canaries = 0).with_hedging(hedging(change));
    for _ in 0..10 {
        let shards = Shards::new(10, |_, _| (10, Ok(())));
        shards.run(&all).await.expect("no canaries");
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_late_leaf_is_hedged_and_the_first_answer_is_taken() {
    let all = hedged(|it| it.budget = share(500_000)).await;
    // The courses of its two copies, then the time and result of its end. Between the copies there
    // are 10 ms, and the width of a bucket.
    let slow = |first: Course, second: Course| {
        move |shard, nth| match (shard, nth) {
            (3, 0) => first,
            (3, _) => second,
            _ => (10, Ok(())),
        }
    };
    for (first, second, ends_at, end, won) in [
        ((HANGS, Ok(())), (10, Ok(())), 20..=22, Ok(3), true),
        ((15, Ok(())), (10, Ok(())), 15..=15, Ok(3), false),
        ((15, Err("first")), (10, Ok(())), 20..=22, Ok(3), true),
        ((50, Ok(())), (10, Err("second")), 50..=50, Ok(3), false),
        (
            (15, Err("first")),
            (10, Err("second")),
            20..=22,
            Err("first"),
            false,
        ),
        (
            (50, Err("first")),
            (10, Err("second")),
            50..=50,
            Err("first"),
            false,
        ),
    ] {
        let before = all.hedge_counters().expect("it hedges");
        let shards = Shards::new(10, slow(first, second));
        let gathered = shards.run(&all).await.expect("no canaries");
        assert_eq!(shards.asked().len(), 11, "{first:?} {second:?}");
        assert!(
            ends_at.contains(&shards.ms()),
            "{first:?} {second:?}: {}",
            shards.ms()
        );
        let leaf = match end {
            Ok(answer) => Leaf::Answered(answer),
            Err(error) => Leaf::Failed(error),
        };
        assert_eq!(gathered.leaves()[3], leaf);
        let counters = all.hedge_counters().expect("it hedges");
        assert_eq!(counters.queries - before.queries, 10);
        let ends = [counters.won - before.won, counters.wasted - before.wasted];
        assert_eq!(
            ends,
            [u64::from(won), u64::from(!won)],
            "{first:?} {second:?}"
        );
    }
}

/// If only the third copy of a leaf answers, copies are sent at 10, 20 and 40 ms, each rounded up
/// to the end of a bucket plus a millisecond.
#[tokio::test(start_paused = true)]
async fn a_leaf_whose_hedge_is_late_too_gets_a_third_copy() {
    let third = |fails: bool| {
        move |shard, nth| match (shard, nth) {
            (3, 1) if fails => (3, Err("second")),
            (3, 0 | 1) => (HANGS, Ok(())),
            _ => (10, Ok(())),
        }
    };
    for fails in [false, true] {
        let all = hedged(|it| {
            it.budget = share(500_000);
            it.copies_max = 3;
        })
        .await;
        let before = all.hedge_counters().expect("it hedges");
        let shards = Shards::new(10, third(fails));
        let gathered = shards.run(&all).await.expect("no canaries");
        assert!(gathered.is_complete());
        assert!((30..=34).contains(&shards.ms()), "{}", shards.ms());
        assert_eq!((shards.asked().len(), shards.in_flight()), (12, 0));
        let counters = all.hedge_counters().expect("it hedges");
        let ends = [counters.won - before.won, counters.wasted - before.wasted];
        assert_eq!(ends, [1, 1]);
    }
}

/// If the budget is empty at the first check, the second one can pay.
#[tokio::test(start_paused = true)]
async fn late_leaf_denied_a_hedge_is_checked_again() {
    let all = hedged(|it| {
        it.budget = share(10_000);
        it.burst = 1;
    })
    .await;
    let hangs = |stuck: &'static [usize]| {
        move |shard, nth| match nth {
            0 if stuck.contains(&shard) => (HANGS, Ok(())),
            _ => (10, Ok(())),
        }
    };
    // The budget allows one hedge for two leaves that hang. Requests that pay for the other one
    // start while it waits.
    let shards = Shards::new(10, hangs(&[3, 4]));
    let others = async {
        tokio::time::sleep(Duration::from_millis(12)).await;
        let shards = Shards::new(100, |_, _| (1, Ok(())));
        shards.run(&all).await.expect("no canaries");
    };
    let (gathered, ()) = tokio::join!(shards.run(&all), others);
    assert!(gathered.expect("no canaries").is_complete());
    let counters = all.hedge_counters().expect("it hedges");
    assert_eq!((counters.issued, counters.withheld_budget), (2, 1));
    assert!((30..=34).contains(&shards.ms()), "{}", shards.ms());
}

#[tokio::test(start_paused = true)]
async fn no_hedge_without_lateness_budget_or_history() {
    let late = |shard, nth| match (shard, nth) {
        (3, 0) => (40, Ok(())),
        _ => (10, Ok(())),
    };
    let broke = hedged(|it| it.budget = Quantile::ZERO).await;
    let ignorant = hedged(|it| it.samples_min = 1000).await;
    for all in [&broke, &ignorant] {
        let shards = Shards::new(10, late);
        shards.run(all).await.expect("no canaries");
        assert_eq!((shards.asked().len(), shards.ms()), (10, 40));
    }
    let counters = broke.hedge_counters().expect("it hedges");
    let withheld = (counters.issued, counters.withheld_budget);
    assert_eq!(withheld, (0, 2), "looked at after 10 and after 20 ms");
    let counters = ignorant.hedge_counters().expect("it hedges");
    assert_eq!((counters.issued, counters.unknown), (0, counters.queries));

    let fast = hedged(|_| ()).await;
    let shards = Shards::new(10, |_, _| (9, Err("down")));
    shards.run(&fast).await.expect("no canaries");
    assert_eq!(shards.asked().len(), 10, "a failure is no reason");
    assert_eq!(fan_out(|_| ()).hedge_counters(), None);
}

#[tokio::test(start_paused = true)]
async fn a_canary_is_not_hedged() {
    let all = fan_out(|_| ()).with_hedging(hedging(|_| ()));
    for _ in 0..10 {
        let shards = Shards::new(10, |_, _| (10, Ok(())));
        shards.run(&all).await.expect("canaries live");
    }
    let shards = Shards::new(10, |_, _| (200, Ok(())));
    let _ = shards.run(&all).await.expect("canaries live");
    let asked = shards.asked();
    let first: Vec<_> = asked.iter().take_while(|it| it.1 < 200).collect();
    assert_eq!(first, [&(0, 0), &(1, 0)]);
    let counters = all.hedge_counters().expect("it hedges");
    assert_eq!(counters.queries, 11 * 8, "leaves other than canaries");
}

#[tokio::test(start_paused = true)]
async fn cancelled_leaf_with_a_hedge_counts_as_wasted() {
    let all = hedged(|_| ()).await;
    let shards = Shards::new(10, |shard, _| match shard {
        3 => (HANGS, Ok(())),
        _ => (10, Ok(())),
    });
    let running = all.run(10, |shard| shards.ask(shard));
    let given_up = tokio::time::timeout(ms(100), running).await;
    assert!(given_up.is_err());
    assert_eq!((shards.asked().len(), shards.in_flight()), (11, 0));
    let counters = all.hedge_counters().expect("it hedges");
    assert_eq!((counters.issued, counters.wasted), (1, 1));
}

#[tokio::test]
async fn services_are_called_when_ready_each_with_its_own_request() {
    let limited = |name: &'static str| {
        let service = service_fn(move |question: usize| async move {
            Ok::<_, Infallible>(format!("{name} {question}"))
        });
        tower::util::BoxCloneService::new(service)
    };
    let shards = [limited("a"), limited("b"), limited("c")];
    let gathered = fan_out(|_| ()).call(&shards, |shard| shard * 10).await;
    let answers = gathered.expect("canaries live").into_answers();
    let answers: Vec<_> = answers.map(|(_, answer)| answer).collect();
    assert_eq!(answers, ["a 0", "b 10", "c 20"]);
}
