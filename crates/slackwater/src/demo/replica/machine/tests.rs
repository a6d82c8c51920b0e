//! The machine on paused time: durations of queries to the millisecond, cancellation, rejection.

use futures_util::future::{join, join3};

use super::*;
use crate::demo::replica::neighbours::{Hobbles, Neighbourhood};

const MS: Duration = Duration::from_millis(1);

fn quiet(milli: u32) -> Neighbourhood {
    Neighbourhood {
        capacity_mean: Cores::from_milli(milli),
        allocation_share: 1.0,
        hobbles: None,
        ..Neighbourhood::default()
    }
}

fn machine(hood: &Neighbourhood, jobs_max: usize) -> Machine {
    let costs = Costs::new(1, Costs::MEAN_BEFORE_CLIP);
    Machine::new(
        0,
        jobs_max,
        Neighbours::new(hood, 1, 0, 1),
        costs,
        Instant::now(),
    )
}

/// Runs `machine` beside `queries`, on paused time.
async fn beside<T>(machine: &Machine, queries: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        () = machine.run() => panic!("the machine stopped"),
        output = queries => output,
    }
}

/// The duration of a query of `work_ms` that is sent after `start_ms`.
async fn timed(machine: &Machine, start_ms: u32, work_ms: u32) -> Duration {
    tokio::time::sleep(MS * start_ms).await;
    let sent = Instant::now();
    machine.serve(MS * work_ms).await.expect("served");
    sent.elapsed()
}

#[tokio::test(start_paused = true)]
async fn single_query_takes_exactly_its_work() {
    let machine = machine(&quiet(1_000), 8);
    assert_eq!(beside(&machine, timed(&machine, 3, 25)).await, 25 * MS);
    let expected = Figures {
        jobs: 0,
        capacity: Cores::ONE,
        hobbled: false,
        trouble: Trouble::default(),
        served: 1,
        refused: 0,
        cancelled: 0,
    };
    assert_eq!(machine.figures(), expected);
}

#[tokio::test(start_paused = true)]
async fn queries_share_the_core_and_speed_up_when_one_ends() {
    let machine = machine(&quiet(1_000), 8);
    let both = join(timed(&machine, 0, 10), timed(&machine, 0, 30));
    assert_eq!(beside(&machine, both).await, (20 * MS, 40 * MS));
}

#[tokio::test(start_paused = true)]
async fn a_tenth_of_the_capacity_takes_ten_times_as_long() {
    let machine = machine(&quiet(100), 8);
    assert_eq!(beside(&machine, timed(&machine, 0, 10)).await, 100 * MS);
}

#[tokio::test(start_paused = true)]
async fn capacity_change_affects_queries_in_service() {
    let at = |ms| (Duration::from_millis(ms), Duration::from_millis(ms));
    let hobbles = Hobbles {
        share: 0.1,
        first: at(50),
        length: at(200),
        pause: at(60_000),
    };
    let hood = Neighbourhood {
        hobbles: Some(hobbles),
        ..quiet(1_000)
    };
    let machine = machine(&hood, 8);
    // 50 ms at full speed, 200 ms at a tenth, 30 ms at full speed.
    assert_eq!(beside(&machine, timed(&machine, 0, 100)).await, 280 * MS);
}

#[tokio::test(start_paused = true)]
async fn dropped_query_returns_its_share_and_is_counted() {
    let machine = machine(&quiet(1_000), 8);
    let impatient = tokio::time::timeout(20 * MS, machine.serve(1_000 * MS));
    let (kept, gone) = beside(&machine, join(timed(&machine, 0, 20), impatient)).await;
    assert_eq!(kept, 30 * MS);
    assert!(gone.is_err());
    let figures = machine.figures();
    assert_eq!((figures.jobs, figures.served, figures.cancelled), (0, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn query_beyond_the_limit_is_refused_immediately() {
    let machine = machine(&quiet(1_000), 2);
    let queries = join3(
        machine.serve(10 * MS),
        machine.serve(10 * MS),
        machine.serve(10 * MS),
    );
    assert_eq!(
        beside(&machine, queries).await,
        (Ok(()), Ok(()), Err(Refusal::Full))
    );
    assert_eq!(machine.figures().refused, 1);
}

#[tokio::test(start_paused = true)]
async fn stop_ends_the_machine_and_its_queries() {
    let machine = machine(&quiet(1_000), 8);
    let stop = async {
        tokio::time::sleep(5 * MS).await;
        machine.stop();
    };
    let ((), outcome, ()) = join3(machine.run(), machine.serve(1_000 * MS), stop).await;
    assert_eq!(outcome, Err(Refusal::Stopped));
    assert_eq!(machine.serve(MS).await, Err(Refusal::Stopped));
    assert_eq!(machine.figures().jobs, 0);
}

#[tokio::test(start_paused = true)]
async fn noisy_neighbour_slows_queries_in_service() {
    let machine = machine(&quiet(1_000), 8);
    let turn = async {
        tokio::time::sleep(10 * MS).await;
        machine.set_taken(75);
        assert_eq!(machine.figures().capacity, Cores::from_milli(250));
        // 10 of the 20 ms of work were left.
        tokio::time::sleep(40 * MS).await;
        machine.set_taken(0);
    };
    let (took, ()) = beside(&machine, join(timed(&machine, 0, 20), turn)).await;
    assert_eq!(took, 50 * MS);
    machine.set_taken(100);
    assert_eq!(machine.figures().trouble.taken_percent, 95);
    assert_eq!(machine.figures().capacity, Cores::from_milli(50));
}

#[tokio::test(start_paused = true)]
async fn stalled_machine_stops_and_then_resumes() {
    let machine = machine(&quiet(1_000), 1);
    let turn = async {
        tokio::time::sleep(10 * MS).await;
        machine.set_fault(Fault::Stalled);
        assert_eq!(machine.figures().capacity, Cores::from_milli(0));
        tokio::time::sleep(500 * MS).await;
        assert_eq!((machine.figures().jobs, machine.figures().refused), (1, 0));
        machine.set_fault(Fault::None);
    };
    // The second query arrives while the machine is stalled, and waits although there is room for
    // one only.
    let queries = join3(timed(&machine, 0, 30), turn, async {
        tokio::time::sleep(100 * MS).await;
        machine.serve(MS).await
    });
    let (first, (), second) = beside(&machine, queries).await;
    assert_eq!(first, 530 * MS);
    assert_eq!(
        second,
        Err(Refusal::Full),
        "when it goes on, the first is still there"
    );
}

#[tokio::test(start_paused = true)]
async fn failing_machine_fails_its_share_immediately() {
    let machine = machine(&quiet(1_000), 8);
    machine.set_fault(Fault::Failing { percent: 30 });
    let serve = async {
        let mut failed = 0;
        for _ in 0..100 {
            let sent = Instant::now();
            match machine.serve(MS).await {
                Err(refusal) => {
                    assert_eq!(
                        (refusal, sent.elapsed()),
                        (Refusal::Failing, Duration::ZERO)
                    );
                    failed += 1;
                }
                Ok(()) => assert_eq!(sent.elapsed(), MS),
            }
        }
        failed
    };
    assert_eq!(beside(&machine, serve).await, 30);
    machine.set_fault(Fault::None);
    assert!(beside(&machine, machine.serve(MS)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn no_replica_is_slowed_without_noisy_neighbours() {
    let seconds = Duration::from_secs;
    let hood = Neighbourhood {
        hobbles: Some(Hobbles {
            share: 0.1,
            first: (seconds(1), seconds(1)),
            length: (seconds(10), seconds(10)),
            pause: (seconds(1), seconds(1)),
        }),
        ..quiet(1_000)
    };
    let machine = machine(&hood, 8);
    let watch = async {
        tokio::time::sleep(seconds(2)).await;
        assert!(machine.figures().hobbled);
        machine.set_weather(false);
        assert_eq!(
            (machine.figures().hobbled, machine.figures().capacity),
            (false, Cores::ONE)
        );
        machine.set_weather(true);
        assert!(machine.figures().hobbled && machine.figures().capacity < Cores::ONE);
    };
    beside(&machine, watch).await;
}
