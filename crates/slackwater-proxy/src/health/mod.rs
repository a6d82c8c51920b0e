//! Active health checks: replicas are checked periodically.
//!
//! One checker thread serves the whole process, regardless of the number of workers. Its results
//! reach the workers as one value for each service, which changes only with a verdict. What a
//! verdict means for requests is decided elsewhere. Probes detect a dead replica sooner; a check
//! can also cover things that no probe reports, such as whether a database is available.

mod check;
mod checker;
mod grpc;
mod standing;

pub(crate) use checker::{Health, ReplicaHealth};
pub(crate) use standing::Verdict;

use checker::{Checked, Checker};
use slackwater_config::tls::Client;
use slackwater_config::{HealthCheck, HealthSettings, ReplicaConfig, ReplicaProtocol};
use slackwater_discovery::Fleet;
use slackwater_http::proxy_protocol::Version;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

/// The checks of one service.
#[derive(Debug)]
pub(crate) struct ServiceChecks {
    /// Name for the log.
    pub(crate) name: String,
    pub(crate) settings: HealthSettings,
    /// Protocol of the replicas.
    pub(crate) protocol: ReplicaProtocol,
    /// Version of the PROXY header that begins connections; `None` for no header.
    pub(crate) proxy_protocol: Option<Version>,
    /// TLS client; `None` if connections are plain.
    pub(crate) tls: Option<watch::Receiver<Client>>,
    /// The replicas to check, with every change.
    pub(crate) fleets: watch::Receiver<Arc<Fleet>>,
}

/// The thread that runs checks. It starts with the first check, and ends when dropped.
#[derive(Debug, Default)]
pub(crate) struct HealthThread {
    /// Dropped to end the thread.
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// The checks of a service, and the channel for their results.
type Order = (ServiceChecks, watch::Sender<Health>);

impl HealthThread {
    /// Starts the checks of a service. They run while the receiver exists. A service without checks
    /// never has results.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot provide a thread or an event queue.
    pub(crate) fn check(&mut self, service: ServiceChecks) -> io::Result<watch::Receiver<Health>> {
        let (verdicts, found) = watch::channel(Health::new());
        if service.settings.check == HealthCheck::None {
            return Ok(found);
        }
        let orders = match &self.orders {
            Some(orders) => orders.clone(),
            None => self.start()?,
        };
        let _ = orders.send((service, verdicts));
        Ok(found)
    }

    fn start(&mut self) -> io::Result<mpsc::UnboundedSender<Order>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (orders, taken) = mpsc::unbounded_channel();
        let run = move || LocalSet::new().block_on(&runtime, take(taken));
        let thread = std::thread::Builder::new().name("health".to_owned());
        self.thread = Some(thread.spawn(run)?);
        self.orders = Some(orders.clone());
        Ok(orders)
    }
}

/// Starts the ordered checks, until the sender is dropped.
async fn take(mut orders: mpsc::UnboundedReceiver<Order>) {
    while let Some((service, verdicts)) = orders.recv().await {
        let wanted = verdicts.clone();
        let fleets = service.fleets.clone();
        let checker = Checker::new(service, verdicts);
        tokio::task::spawn_local(async move {
            let (fleet, told) = watch::channel(checked_replicas(&fleets.borrow()));
            tokio::select! {
                () = checker.run(told) => (),
                () = pass_on(fleets, fleet) => (),
                () = wanted.closed() => (),
            }
        });
    }
}

/// Passes each fleet to the checker, until there will be no more.
async fn pass_on(mut fleets: watch::Receiver<Arc<Fleet>>, checked: watch::Sender<Vec<Checked>>) {
    fleets.mark_changed();
    while fleets.changed().await.is_ok() {
        checked.send_replace(checked_replicas(&fleets.borrow_and_update()));
    }
}

fn checked_replicas(fleet: &Fleet) -> Vec<Checked> {
    let checked = |replica: &ReplicaConfig| Checked {
        name: replica.name.clone(),
        address: replica.address,
        server_name: replica.server_name.clone(),
    };
    fleet.replicas().iter().map(checked).collect()
}

impl Drop for HealthThread {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // The thread never panics, and its panic could not be reported here anyway.
            let _ = thread.join();
        }
    }
}
