//! Active health checks: replicas are asked from time to time whether they serve.
//!
//! One checker for the process, on a thread of its own, whatever the number of workers; what it
//! finds reaches them as one value for each service, which changes only with a verdict. Who gets no
//! requests because of it is not decided here. Probes tell a dead replica from a living one sooner;
//! a check can ask what no probe knows, such as whether a database is there.

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

/// What is to be checked of one service.
#[derive(Debug)]
pub(crate) struct ServiceChecks {
    /// What the log calls it.
    pub(crate) name: String,
    pub(crate) settings: HealthSettings,
    /// What the replicas speak.
    pub(crate) protocol: ReplicaProtocol,
    /// The form of the PROXY header that connections begin with; `None`: there is none.
    pub(crate) proxy_protocol: Option<Version>,
    /// What TLS is spoken to them by; `None`: they are spoken to in the clear.
    pub(crate) tls: Option<watch::Receiver<Client>>,
    /// Whom to check, whenever that changes.
    pub(crate) fleets: watch::Receiver<Arc<Fleet>>,
}

/// The thread that checks, once there is something to check; ends when dropped.
#[derive(Debug, Default)]
pub(crate) struct HealthThread {
    /// Gone when it is to end.
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// What is to be checked, and where it is told what was found.
type Order = (ServiceChecks, watch::Sender<Health>);

impl HealthThread {
    /// Starts the checks of a service, for as long as anybody looks at what they find; of a service
    /// that is not to be checked nothing is ever found.
    ///
    /// # Errors
    ///
    /// The system gives no thread, or nothing to wait with.
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

/// Begins what is ordered, until nobody orders any more.
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

/// Tells the checker of each fleet, until there will be no more.
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
            // It panics never; and if it did, there would be nobody to tell.
            let _ = thread.join();
        }
    }
}
