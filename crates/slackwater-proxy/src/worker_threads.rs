//! The threads that serve requests, and how they end: in order when stopped, or by a failure.
//!
//! A worker that is lost takes its listeners and its share of the clients with it, and the other
//! workers would continue regardless. The owner of workers must therefore race
//! [`WorkerThreads::unasked_end`] against the signals and end the process, so that its supervisor
//! restarts it as a whole.

use futures_util::future::select_all;
use slackwater_config::Fault;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use tokio::sync::oneshot;

/// Takes a worker's report that it has started.
#[derive(Debug)]
pub struct Started<T>(SyncSender<T>);

impl<T> Started<T> {
    /// Reports that the worker serves from now on.
    pub fn report(self, started: T) {
        // The capacity is one message, and this is the only one.
        let _ = self.0.send(started);
    }
}

/// Threads, each with a receiver of its result. A sender that is dropped unsent indicates a panic.
#[derive(Debug, Default)]
pub struct WorkerThreads {
    ends: Vec<oneshot::Receiver<Result<(), Fault>>>,
    threads: Vec<JoinHandle<()>>,
}

impl WorkerThreads {
    /// Runs `work` on its own thread, and waits for its report that it has started. Otherwise a
    /// process could report that it serves before it can.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot provide a thread, or if the work ends before it has started.
    pub fn spawn<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(Started<T>) -> Result<(), Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (end, mut ended) = oneshot::channel();
        let (start, started) = sync_channel(1);
        let thread = Builder::new()
            .name(format!("worker-{}", self.threads.len()))
            .spawn(move || {
                let _ = end.send(work(Started(start)));
            })
            .map_err(|error| Fault::runtime(format!("no thread for a worker: {error}")))?;
        let Ok(started) = started.recv() else {
            // Its result is there once the thread has ended.
            let _ = thread.join();
            ended.try_recv().unwrap_or_else(|_| Err(panicked()))?;
            return Err(Fault::runtime("a worker ended before it started"));
        };
        self.threads.push(thread);
        self.ends.push(ended);
        Ok(started)
    }

    /// Waits for the first worker that ends without a request to do so, and returns why.
    pub async fn unasked_end(&mut self) -> Fault {
        match self.next_end().await {
            Some(Err(fault)) => fault,
            Some(Ok(())) | None => Fault::runtime("a worker ended unexpectedly"),
        }
    }

    /// Waits until every worker has ended, or one has failed.
    pub async fn ended(&mut self) -> Result<(), Fault> {
        while let Some(end) = self.next_end().await {
            end?;
        }
        Ok(())
    }

    /// Waits for all threads, blocking this one. They must have been stopped before.
    pub fn join(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    async fn next_end(&mut self) -> Option<Result<(), Fault>> {
        if self.ends.is_empty() {
            return None;
        }
        let (end, index, _) = select_all(&mut self.ends).await;
        self.ends.remove(index);
        Some(end.unwrap_or_else(|_| Err(panicked())))
    }
}

fn panicked() -> Fault {
    Fault::runtime("a worker panicked; its message is above")
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use std::sync::mpsc;

    /// Deadline for events that must happen; far longer than they take on a busy machine.
    const PATIENCE: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn panicked_worker_is_detected_while_the_others_continue() {
        let mut workers = WorkerThreads::default();
        let (stop, stopped) = mpsc::channel::<()>();
        workers
            .spawn(move |started| {
                started.report(());
                let _ = stopped.recv();
                Ok(())
            })
            .expect("a thread");
        workers
            .spawn(|started| {
                started.report(());
                panic!("on purpose")
            })
            .expect("a thread");
        let fault = tokio::time::timeout(PATIENCE, workers.unasked_end()).await;
        let fault = fault.expect("noticed");
        assert!(matches!(fault, Fault::Runtime(_)), "exit code 1");
        assert!(
            fault.to_string().starts_with("a worker panicked"),
            "{fault}"
        );
        drop(stop);
        workers.ended().await.expect("the other one ended in order");
        workers.join();
    }

    #[tokio::test]
    async fn an_orderly_end_is_a_fault_only_if_unrequested() {
        let mut workers = WorkerThreads::default();
        for _ in 0..2 {
            workers
                .spawn(|started| {
                    started.report(());
                    Ok(())
                })
                .expect("a thread");
        }
        assert_eq!(
            workers.unasked_end().await.to_string(),
            "a worker ended unexpectedly"
        );
        workers.ended().await.expect("in order");
        workers.ended().await.expect("still so");
        workers.join();
    }

    #[tokio::test]
    async fn the_fault_of_a_worker_is_returned() {
        let mut workers = WorkerThreads::default();
        workers
            .spawn(|started| {
                started.report(());
                Err(Fault::runtime("no memory"))
            })
            .expect("a thread");
        assert_eq!(
            workers.ended().await.expect_err("told").to_string(),
            "no memory"
        );
        workers.join();
    }

    #[tokio::test]
    async fn a_worker_that_does_not_start_is_refused_with_its_fault() {
        let mut workers = WorkerThreads::default();
        let failed = workers.spawn::<()>(|_| Err(Fault::runtime("no runtime")));
        assert_eq!(failed.expect_err("it failed").to_string(), "no runtime");
        let lost = workers.spawn::<()>(|_| panic!("on purpose"));
        let fault = lost.expect_err("it panicked").to_string();
        assert!(fault.starts_with("a worker panicked"), "{fault}");
        workers.ended().await.expect("none is left");
    }
}
