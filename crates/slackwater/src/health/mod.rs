//! Active health checks: replicas are asked from time to time whether they serve.
//!
//! One checker for the process, on a thread of its own, whatever the number of workers; what it finds reaches them as one
//! value for each service, which changes only with a verdict. Who gets no requests because of it is not decided here.
//! Probes tell a dead replica from a living one sooner; a check can ask what no probe knows, such as whether a database is
//! there.

mod check;
mod checker;
mod grpc;
mod standing;

pub(crate) use checker::{Checked, Health, ReplicaHealth};
pub(crate) use standing::{Thresholds, Verdict};

use crate::config::{HealthCheck, HealthSettings, ReplicaProtocol};
use crate::tls::Client;
use checker::{CHECKS_MAX, Checker};
use std::io;
use std::rc::Rc;
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};
use tokio::task::LocalSet;

/// What is to be checked of one service.
#[derive(Debug)]
pub(crate) struct ServiceChecks {
    /// What the log calls it.
    pub(crate) name: String,
    pub(crate) settings: HealthSettings,
    /// What the replicas speak.
    pub(crate) protocol: ReplicaProtocol,
    /// What TLS is spoken to them by; `None`: they are spoken to in the clear.
    pub(crate) tls: Option<watch::Receiver<Client>>,
    /// Whom to check, whenever that changes.
    pub(crate) fleet: watch::Receiver<Vec<Checked>>,
}

/// The thread that checks; ends when dropped.
#[derive(Debug)]
pub(crate) struct HealthThread {
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HealthThread {
    /// Starts the checks. What they find comes back in the order of `services`; of a service that is not to be checked
    /// nothing is ever found.
    ///
    /// # Errors
    ///
    /// The system gives no thread, or nothing to wait with.
    pub(crate) fn spawn(
        services: Vec<ServiceChecks>,
    ) -> io::Result<(Self, Vec<watch::Receiver<Health>>)> {
        let mut found = Vec::new();
        let mut checkers = Vec::new();
        for service in services {
            let (verdicts, receiver) = watch::channel(Health::new());
            found.push(receiver);
            if service.settings.check != HealthCheck::None {
                checkers.push((service, verdicts));
            }
        }
        let mut this = Self {
            stop: None,
            thread: None,
        };
        if checkers.is_empty() {
            return Ok((this, found));
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, mut stopped) = watch::channel(());
        let check = async move || {
            let places = Rc::new(Semaphore::new(CHECKS_MAX));
            for (service, verdicts) in checkers {
                let checker = Checker {
                    service: service.name,
                    settings: service.settings,
                    protocol: service.protocol,
                    tls: service.tls,
                    places: Rc::clone(&places),
                    verdicts,
                };
                tokio::task::spawn_local(checker.run(service.fleet));
            }
            // Ends with an error when the sender is dropped; nothing is ever sent.
            let _ = stopped.changed().await;
        };
        let run = move || LocalSet::new().block_on(&runtime, check());
        let thread = std::thread::Builder::new().name("health".to_owned());
        this.thread = Some(thread.spawn(run)?);
        this.stop = Some(stop);
        Ok((this, found))
    }
}

impl Drop for HealthThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It panics never; and if it did, there would be nobody to tell.
            let _ = thread.join();
        }
    }
}
