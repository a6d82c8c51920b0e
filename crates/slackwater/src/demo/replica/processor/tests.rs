//! The processor against sojourn times that were calculated by hand, and against a slow, simple
//! simulation of the same rule.

use core::time::Duration;

use super::*;
use crate::demo::replica::draw::{Draws, Stream};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A processor of `milli` thousandths of a core.
fn processor(milli: u32) -> Processor {
    Processor::new(64, Cores::from_milli(milli))
}

/// Lets all jobs finish. Returns the time of each, in order.
fn drain(processor: &mut Processor) -> Vec<(JobId, Duration)> {
    let mut done = Vec::new();
    while let Some(at) = processor.next_completion() {
        done.push((
            processor
                .poll_completed(at)
                .expect("a completion that was announced"),
            at,
        ));
    }
    done
}

#[test]
fn single_job_uses_at_most_one_core() {
    let mut processor = processor(4_000);
    let job = processor.arrive(ms(5), ms(10)).unwrap();
    assert_eq!(processor.next_completion(), Some(ms(15)));
    assert_eq!(
        processor.poll_completed(Duration::from_nanos(14_999_999)),
        None
    );
    assert_eq!(processor.poll_completed(ms(15)), Some(job));
    assert_eq!(processor.poll_completed(ms(15)), None);
    assert_eq!(processor.next_completion(), None);
}

#[test]
fn two_jobs_share_one_core() {
    let mut processor = processor(1_000);
    let short = processor.arrive(ms(0), ms(10)).unwrap();
    let long = processor.arrive(ms(0), ms(30)).unwrap();
    // Both run at half speed until the short one has its 10 ms. Then 20 ms of the long one are
    // left, at full speed.
    assert_eq!(drain(&mut processor), [(short, ms(20)), (long, ms(40))]);
}

#[test]
fn later_arrival_slows_the_first_job_from_then_on() {
    let mut processor = processor(1_000);
    let first = processor.arrive(ms(0), ms(20)).unwrap();
    let second = processor.arrive(ms(10), ms(20)).unwrap();
    assert_eq!(drain(&mut processor), [(first, ms(30)), (second, ms(40))]);
}

#[test]
fn two_cores_serve_two_jobs_at_full_speed_and_three_at_two_thirds() {
    let mut processor = processor(2_000);
    let jobs = [20, 20, 40].map(|work| processor.arrive(ms(0), ms(work)).unwrap());
    assert_eq!(
        drain(&mut processor),
        [(jobs[0], ms(30)), (jobs[1], ms(30)), (jobs[2], ms(50))]
    );
}

#[test]
fn a_capacity_below_one_core_slows_a_lone_job() {
    let mut processor = processor(250);
    let job = processor.arrive(ms(0), ms(10)).unwrap();
    assert_eq!(drain(&mut processor), [(job, ms(40))]);
}

#[test]
fn capacity_change_takes_effect_at_its_time() {
    let mut processor = processor(1_000);
    let job = processor.arrive(ms(0), ms(20)).unwrap();
    processor.set_capacity(ms(10), Cores::from_milli(100));
    assert_eq!(processor.next_completion(), Some(ms(110)));
    processor.set_capacity(ms(60), Cores::from_milli(500));
    assert_eq!(drain(&mut processor), [(job, ms(70))]);
}

#[test]
fn jobs_pause_while_capacity_is_zero() {
    let mut processor = processor(1_000);
    let job = processor.arrive(ms(0), ms(20)).unwrap();
    processor.set_capacity(ms(5), Cores::from_milli(0));
    assert_eq!(processor.next_completion(), None);
    assert_eq!(processor.poll_completed(ms(1_000_000)), None);
    processor.set_capacity(ms(2_000_000), Cores::ONE);
    assert_eq!(drain(&mut processor), [(job, ms(2_000_015))]);
}

#[test]
fn cancelled_job_returns_its_share_and_never_completes() {
    let mut processor = processor(1_000);
    let kept = processor.arrive(ms(0), ms(20)).unwrap();
    let cancelled = processor.arrive(ms(0), ms(5_000)).unwrap();
    assert!(processor.cancel(ms(20), cancelled));
    assert!(!processor.cancel(ms(21), cancelled), "only once");
    assert_eq!(processor.jobs(), 1);
    assert_eq!(drain(&mut processor), [(kept, ms(30))]);
}

#[test]
fn a_job_that_is_done_cannot_be_cancelled_and_is_still_polled() {
    let mut processor = processor(1_000);
    let job = processor.arrive(ms(0), ms(20)).unwrap();
    assert!(!processor.cancel(ms(20), job));
    assert_eq!(processor.jobs(), 0);
    assert_eq!(processor.poll_completed(ms(20)), Some(job));
}

#[test]
fn a_job_without_work_is_done_at_once_even_without_capacity() {
    let mut processor = processor(0);
    let job = processor.arrive(ms(7), Duration::ZERO).unwrap();
    assert_eq!(drain(&mut processor), [(job, ms(7))]);
}

#[test]
fn late_polls_return_completions_in_order_at_their_true_times() {
    let mut processor = processor(1_000);
    let jobs = [10, 20, 30].map(|work| processor.arrive(ms(0), ms(work)).unwrap());
    // True completions: 30, 50, 60. If the late poll at 100 had shared the core among three until
    // then, this job would start at another attained service and not end at 105.
    let late = processor.arrive(ms(100), ms(5)).unwrap();
    assert_eq!(
        jobs.map(|_| processor.poll_completed(ms(100))),
        jobs.map(Some)
    );
    assert_eq!(drain(&mut processor), [(late, ms(105))]);
}

#[test]
fn full_processor_refuses_until_a_completed_job_is_polled() {
    let mut processor = Processor::new(2, Cores::ONE);
    let first = processor.arrive(ms(0), ms(10)).unwrap();
    processor.arrive(ms(0), ms(10)).unwrap();
    assert_eq!(processor.arrive(ms(0), ms(10)), Err(Full));
    assert_eq!(
        processor.arrive(ms(30), ms(10)),
        Err(Full),
        "done but not polled: still held"
    );
    assert_eq!(processor.poll_completed(ms(30)), Some(first));
    assert!(processor.arrive(ms(30), ms(10)).is_ok());
    assert_eq!(
        Processor::new(0, Cores::ONE).arrive(ms(0), ms(0)),
        Err(Full)
    );
}

#[test]
fn a_clock_that_steps_back_changes_nothing() {
    let mut processor = processor(1_000);
    let first = processor.arrive(ms(50), ms(10)).unwrap();
    let second = processor.arrive(ms(20), ms(10)).unwrap();
    assert_eq!(processor.poll_completed(ms(0)), None);
    assert_eq!(drain(&mut processor), [(first, ms(70)), (second, ms(70))]);
}

#[test]
fn extremes_do_not_panic() {
    let mut processor = Processor::new(3, Cores::from_milli(u32::MAX));
    processor.arrive(Duration::MAX, Duration::MAX).unwrap();
    processor.arrive(Duration::MAX, Duration::MAX).unwrap();
    processor.set_capacity(Duration::MAX, Cores::from_milli(1));
    assert!(processor.next_completion().is_some());
    let nothing = (Cores::from_f64(f64::NAN), Cores::from_f64(-1.0));
    assert_eq!(nothing, (Cores::from_milli(0), Cores::from_milli(0)));
}

/// While there are enough jobs to use the whole capacity, work = capacity × time, whatever the
/// order of events.
#[test]
fn work_is_conserved() {
    let mut draws = Draws::new(11, Stream::Test, 0);
    let mut processor = Processor::new(10_000, Cores::from_milli(2_500));
    let (mut now, mut work, mut offered) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    // Three jobs that outlast the rest keep 2.5 cores busy.
    for _ in 0..3 {
        processor.arrive(now, ms(60_000)).unwrap();
    }
    for _ in 0..2_000 {
        now += draws.exponential(ms(10));
        let job = draws.exponential(ms(20));
        processor.arrive(now, job).unwrap();
        work += job;
    }
    while processor.jobs() > 3 {
        offered = processor.next_completion().expect("jobs in service");
        processor
            .poll_completed(offered)
            .expect("a completion that was announced");
        if processor.completed.is_empty() && processor.jobs() == 3 {
            break;
        }
    }
    let attained_by_three: Duration = (0..3)
        .map(|_| {
            let job = *processor.jobs.first().expect("one of the three");
            processor.cancel(offered, job);
            let missing = (job.finish - processor.attained) >> FRACTION_BITS;
            ms(60_000).saturating_sub(Duration::from_nanos(u64::try_from(missing).unwrap()))
        })
        .sum();
    let done = work + attained_by_three;
    assert!(
        done.abs_diff(offered.mul_f64(2.5)) < Duration::from_micros(1),
        "{done:?} in {offered:?}"
    );
}

/// The rule of processor sharing, written out: each event subtracts the work done from each job.
#[derive(Default)]
struct Slow {
    now_ns: f64,
    cores: f64,
    /// Job and remaining work in ns.
    jobs: Vec<(JobId, f64)>,
    done: Vec<(JobId, f64)>,
}

impl Slow {
    fn run_until(&mut self, to_ns: f64) {
        loop {
            let rate = (self.cores / self.jobs.len() as f64).min(1.0);
            let left = self
                .jobs
                .iter()
                .map(|job| job.1)
                .fold(f64::INFINITY, f64::min);
            let step_ns = if left > 0.0 { left / rate } else { 0.0 };
            let finishes = self.now_ns + step_ns <= to_ns;
            let step_ns = if finishes {
                step_ns
            } else {
                to_ns - self.now_ns
            };
            self.now_ns += step_ns;
            for job in &mut self.jobs {
                job.1 -= step_ns * rate;
            }
            if !finishes {
                return;
            }
            let first = self
                .jobs
                .iter()
                .map(|job| job.1)
                .fold(f64::INFINITY, f64::min);
            let at = self
                .jobs
                .iter()
                .position(|job| job.1 <= first)
                .expect("the job that finishes");
            self.done.push((self.jobs.remove(at).0, self.now_ns));
        }
    }
}

#[test]
fn agrees_with_a_slow_simulation_on_random_lists_of_operations() {
    for seed in 0..50 {
        let mut draws = Draws::new(seed, Stream::Test, 1);
        let (mut fast, mut slow) = (
            processor(1_000),
            Slow {
                cores: 1.0,
                ..Slow::default()
            },
        );
        let (mut now, mut done) = (Duration::ZERO, Vec::new());
        for _ in 0..400 {
            now += draws.exponential(ms(12));
            while let Some(at) = fast.next_completion().filter(|&at| at <= now) {
                done.push((fast.poll_completed(at).expect("announced"), at));
            }
            slow.run_until(now.as_nanos() as f64);
            match draws.below(10) {
                0 => {
                    let cores = Cores::from_milli([0, 100, 700, 1_300, 3_000][draws.below(5)]);
                    fast.set_capacity(now, cores);
                    slow.cores = cores.as_f64();
                }
                1 if !slow.jobs.is_empty() => {
                    let (job, _) = slow.jobs.remove(draws.below(slow.jobs.len()));
                    assert!(fast.cancel(now, job), "seed {seed}");
                }
                _ => {
                    let work = draws.exponential(ms(12));
                    if let Ok(job) = fast.arrive(now, work) {
                        slow.jobs.push((job, work.as_nanos() as f64));
                    }
                }
            }
            assert_eq!(fast.jobs(), slow.jobs.len(), "seed {seed} at {now:?}");
        }
        assert!(done.len() > 100, "seed {seed}: the test tests something");
        for ((job, at), (slow_job, slow_at_ns)) in done.into_iter().zip(slow.done) {
            assert_eq!(job, slow_job, "seed {seed}");
            let apart_ns = (at.as_nanos() as f64 - slow_at_ns).abs();
            assert!(
                apart_ns < 1_000.0,
                "seed {seed}: {job:?} {apart_ns} ns apart"
            );
        }
    }
}

#[test]
fn cpu_used_is_bounded_by_one_core_per_job() {
    let mut processor = processor(1_500);
    processor.arrive(ms(0), ms(10)).unwrap();
    let long = processor.arrive(ms(0), ms(100)).unwrap();
    processor.set_capacity(ms(4), Cores::from_milli(1_500));
    assert_eq!(
        processor.cpu_used(),
        ms(6),
        "two jobs on one core and a half"
    );
    // The short one has its 10 ms at 13⅓ ms. Alone, the long one takes one core.
    processor.cancel(ms(20), long);
    let used_us = processor.cpu_used().as_micros();
    assert_eq!(used_us, 20_000 + 6_666, "13⅓ · 1½ + 6⅔");
    processor.set_capacity(ms(50), Cores::ONE);
    assert_eq!(
        processor.cpu_used().as_micros(),
        used_us,
        "idle uses nothing"
    );
}
