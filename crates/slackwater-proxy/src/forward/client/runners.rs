//! Futures that are used again: each takes one job after the other.
//!
//! The future of a request has some kilobytes. One for each request would be allocated, moved to
//! its place, and freed each time. One for each connection would be held by idle ones, too.

use core::cell::{Cell, RefCell};
use core::convert::Infallible;
use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::rc::Rc;

/// Maximum number of futures that are kept without a job: as many as a busy worker uses at once,
/// and less than a megabyte.
const KEPT_MAX: usize = 64;

/// Futures that do jobs `J`, with results `D`.
pub(super) struct Runners<J, D> {
    start: Box<Start<J, D>>,
    idle: RefCell<Vec<Runner<J, D>>>,
}

type Start<J, D> = dyn Fn(Rc<Handover<J, D>>) -> Running;
type Running = Pin<Box<dyn Future<Output = Infallible>>>;

struct Runner<J, D> {
    handover: Rc<Handover<J, D>>,
    running: Running,
}

/// Where a future finds its next job, and leaves the result.
struct Handover<J, D> {
    job: Cell<Option<J>>,
    done: Cell<Option<D>>,
}

impl<J: 'static, D: 'static> Runners<J, D> {
    /// Each job is done by a future of `work`.
    pub(super) fn new<F>(work: impl Fn(J) -> F + Clone + 'static) -> Self
    where
        F: Future<Output = D> + 'static,
    {
        let start = move |handover: Rc<Handover<J, D>>| -> Running {
            let work = work.clone();
            Box::pin(async move {
                loop {
                    let next = || handover.job.take().map_or(Poll::Pending, Poll::Ready);
                    let job = poll_fn(|_| next()).await;
                    handover.done.set(Some(work(job).await));
                }
            })
        };
        Self {
            start: Box::new(start),
            idle: RefCell::default(),
        }
    }

    /// Does a job. What it holds is dropped before the result is there, or with the [`Run`].
    pub(super) fn run(&self, job: J) -> Run<'_, J, D> {
        let kept = self.idle.borrow_mut().pop();
        let runner = kept.unwrap_or_else(|| self.start());
        runner.handover.job.set(Some(job));
        Run {
            runners: self,
            runner: Some(runner),
        }
    }

    fn start(&self) -> Runner<J, D> {
        let handover = Rc::new(Handover {
            job: Cell::new(None),
            done: Cell::new(None),
        });
        Runner {
            running: (self.start)(Rc::clone(&handover)),
            handover,
        }
    }
}

/// A job that is being done.
pub(super) struct Run<'r, J, D> {
    runners: &'r Runners<J, D>,
    /// Present until the job is done.
    runner: Option<Runner<J, D>>,
}

impl<J, D> Future for Run<'_, J, D> {
    type Output = D;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<D> {
        let Some(mut runner) = self.runner.take() else {
            return Poll::Pending;
        };
        let Poll::Pending = runner.running.as_mut().poll(cx);
        let Some(done) = runner.handover.done.take() else {
            self.runner = Some(runner);
            return Poll::Pending;
        };
        let mut idle = self.runners.idle.borrow_mut();
        if idle.len() < KEPT_MAX {
            idle.push(runner);
        }
        Poll::Ready(done)
    }
}

impl<J, D> fmt::Debug for Runners<J, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let idle = self.idle.borrow().len();
        let mut shown = f.debug_struct("Runners");
        shown.field("idle", &idle).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::task::Waker;

    /// Runners of jobs that end when nothing else holds the token.
    fn waiting() -> Runners<Rc<()>, usize> {
        let started = Rc::new(Cell::new(0));
        Runners::new(move |token: Rc<()>| {
            let started = Rc::clone(&started);
            async move {
                started.set(started.get() + 1);
                poll_fn(|_| match Rc::strong_count(&token) {
                    1 => Poll::Ready(()),
                    _ => Poll::Pending,
                })
                .await;
                started.get()
            }
        })
    }

    fn poll(run: &mut Run<'_, Rc<()>, usize>) -> Poll<usize> {
        Pin::new(run).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_future_takes_one_job_after_the_other() {
        let runners = waiting();
        for job in 1..=3 {
            let token = Rc::new(());
            let mut run = runners.run(Rc::clone(&token));
            assert!(poll(&mut run).is_pending());
            assert_eq!(runners.idle.borrow().len(), 0, "it is in use");
            drop(token);
            assert_eq!(poll(&mut run), Poll::Ready(job));
            assert!(poll(&mut run).is_pending());
            assert_eq!(runners.idle.borrow().len(), 1, "the same one");
        }
    }

    #[test]
    fn concurrent_jobs_have_their_own_futures() {
        let runners = waiting();
        let token = Rc::new(());
        let mut runs: Vec<_> = (0..3).map(|_| runners.run(Rc::clone(&token))).collect();
        assert!(runs.iter_mut().all(|run| poll(run).is_pending()));
        drop(runs.split_off(1));
        assert_eq!(Rc::strong_count(&token), 2, "what a dropped job held");
        drop(token);
        assert!(poll(&mut runs[0]).is_ready());
        assert_eq!(
            runners.idle.borrow().len(),
            1,
            "not those that were interrupted"
        );
    }

    #[test]
    fn a_job_that_was_not_begun_is_dropped() {
        let runners = waiting();
        let token = Rc::new(());
        drop(runners.run(Rc::clone(&token)));
        assert_eq!(Rc::strong_count(&token), 1);
        assert_eq!(runners.idle.borrow().len(), 0);
    }

    #[test]
    fn few_futures_are_kept() {
        let runners = waiting();
        let mut runs: Vec<_> = (0..=KEPT_MAX).map(|_| runners.run(Rc::new(()))).collect();
        assert!(runs.iter_mut().all(|run| poll(run).is_ready()));
        assert_eq!(runners.idle.borrow().len(), KEPT_MAX);
    }
}
