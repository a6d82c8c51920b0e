//! The threads that serve requests, and how they end: in order when stopped, or by a failure.
//!
//! A worker that is lost takes its listeners and its share of the clients with it, and the other
//! workers would continue regardless. The owner of workers must therefore race
//! [`WorkerThreads::unasked_end`] against the signals and end the process, so that its supervisor
//! restarts it as a whole.

use futures_util::future::select_all;
use slackwater_config::Fault;
use std::thread::{Builder, JoinHandle};
use tokio::sync::oneshot;

/// Threads, each with a receiver of its result. A sender that is dropped unsent indicates a panic.
#[derive(Debug, Default)]
pub struct WorkerThreads {
    ends: Vec<oneshot::Receiver<Result<(), Fault>>>,
    threads: Vec<JoinHandle<()>>,
}

impl WorkerThreads {
    /// Runs `work` on its own thread.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot provide a thread.
    pub fn spawn(
        &mut self,
        work: impl FnOnce() -> Result<(), Fault> + Send + 'static,
    ) -> Result<(), Fault> {
        let (end, ended) = oneshot::channel();
        let thread = Builder::new()
            .name(format!("worker-{}", self.threads.len()))
            .spawn(move || {
                let _ = end.send(work());
            })
            .map_err(|error| Fault::runtime(format!("no thread for a worker: {error}")))?;
        self.threads.push(thread);
        self.ends.push(ended);
        Ok(())
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
        let panicked = || Fault::runtime("a worker panicked; its message is above");
        Some(end.unwrap_or_else(|_| Err(panicked())))
    }
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
            .spawn(move || {
                let _ = stopped.recv();
                Ok(())
            })
            .expect("a thread");
        workers.spawn(|| panic!("on purpose")).expect("a thread");
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
            workers.spawn(|| Ok(())).expect("a thread");
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
            .spawn(|| Err(Fault::runtime("no runtime")))
            .expect("a thread");
        assert_eq!(
            workers.ended().await.expect_err("told").to_string(),
            "no runtime"
        );
        workers.join();
    }
}
