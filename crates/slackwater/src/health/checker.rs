//! All checks of one service: a loop for each replica, and one place where their verdicts are.

use super::check::check;
use super::standing::{Standing, Verdict};
use crate::config::{HealthSettings, ReplicaProtocol};
use crate::forward::{ReplicaAddress, Target};
use crate::proxy_protocol::Version;
use crate::seed::draw_seed;
use crate::tls::{Client, Connector};
use core::net::SocketAddr;
use core::time::Duration;
use rustls::pki_types::ServerName;
use slackwater_core::draw::{SplitMix64, below};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// Checks at once, of all services.
pub(super) const CHECKS_MAX: usize = 256;

/// A replica that is to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// What the log calls it.
    pub(crate) name: String,
    /// What requests go to, by which its verdict is found.
    pub(crate) address: SocketAddr,
    /// The name that its certificate must be for, where TLS is spoken.
    pub(crate) server_name: ServerName<'static>,
}

/// What has been found out about one replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaHealth {
    pub(crate) verdict: Verdict,
    pub(crate) checks_passed: u64,
    pub(crate) checks_failed: u64,
    /// Why the last check failed that did.
    pub(crate) last_failure: Option<String>,
}

/// What has been found out about a service's replicas, by their addresses.
pub(crate) type Health = BTreeMap<SocketAddr, ReplicaHealth>;

/// The checks of one service.
#[derive(Debug)]
pub(super) struct Checker {
    pub(super) service: String,
    pub(super) settings: HealthSettings,
    pub(super) protocol: ReplicaProtocol,
    pub(super) proxy_protocol: Option<Version>,
    pub(super) tls: Option<watch::Receiver<Client>>,
    pub(super) places: Rc<Semaphore>,
    pub(super) verdicts: watch::Sender<Health>,
}

impl Checker {
    /// Checks whoever is in `fleet`, until its sender is gone.
    pub(super) async fn run(self, mut fleet: watch::Receiver<Vec<Checked>>) {
        let this = Rc::new(self);
        let mut loops: BTreeMap<SocketAddr, Loop> = BTreeMap::new();
        loop {
            let now = fleet.borrow_and_update().clone();
            loops.retain(|address, _| now.iter().any(|replica| replica.address == *address));
            this.verdicts.send_if_modified(|health| {
                let before = health.len();
                health.retain(|address, _| loops.contains_key(address));
                health.len() != before
            });
            for replica in now {
                let this = &this;
                loops.entry(replica.address).or_insert_with(|| {
                    Loop(tokio::task::spawn_local(Rc::clone(this).watch(replica)))
                });
            }
            if fleet.changed().await.is_err() {
                return;
            }
        }
    }

    /// Checks one replica again and again.
    async fn watch(self: Rc<Self>, replica: Checked) {
        let mut standing = Standing::default();
        let mut draw = SplitMix64::new(draw_seed());
        let mut address = replica.address;
        if let Some(port) = self.settings.port {
            address.set_port(port.get());
        }
        let connector = self.tls.clone().map(|client| {
            Connector::new(client, replica.server_name.clone(), self.protocol.alpn())
        });
        // What answers at a port of its own is not what requests go to.
        let proxy_protocol = self.proxy_protocol.filter(|_| address == replica.address);
        let target = Target::new(ReplicaAddress::Tcp(address), connector)
            .with_proxy_protocol(proxy_protocol);
        loop {
            let checked = {
                // Nobody closes it.
                let _place = self.places.acquire().await;
                check(&self.settings, self.protocol, address, &target).await
            };
            let has_changed = standing.note(checked.is_ok(), self.settings.thresholds);
            self.note(
                &replica,
                standing.verdict(),
                checked.as_ref().err(),
                has_changed,
            );
            tokio::time::sleep(jittered(self.settings.interval, &mut draw)).await;
        }
    }

    fn note(
        &self,
        replica: &Checked,
        verdict: Verdict,
        failure: Option<&String>,
        has_changed: bool,
    ) {
        self.verdicts.send_if_modified(|health| {
            let own = health.entry(replica.address).or_default();
            own.verdict = verdict;
            match failure {
                None => own.checks_passed += 1,
                Some(why) => {
                    own.checks_failed += 1;
                    own.last_failure = Some(why.clone());
                }
            }
            has_changed
        });
        if has_changed {
            self.tell(replica, verdict, failure);
        }
    }

    fn tell(&self, replica: &Checked, verdict: Verdict, failure: Option<&String>) {
        let (service, name) = (&self.service, &replica.name);
        if verdict == Verdict::Up {
            tracing::info!(service, replica = name, "is up by its health checks");
            return;
        }
        let why = failure.map_or("", String::as_str);
        tracing::warn!(service, replica = name, why, "is down by its health checks");
        let is_down = |health: &ReplicaHealth| health.verdict == Verdict::Down;
        if self.verdicts.borrow().values().all(is_down) {
            tracing::warn!(
                service,
                "all replicas are down by their health checks; requests go to any of them"
            );
        }
    }
}

/// A replica's loop; ends when dropped.
#[derive(Debug)]
struct Loop(JoinHandle<()>);

impl Drop for Loop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// From nine to eleven tenths of `interval`, so that many processes do not check at the same moments for ever.
fn jittered(interval: Duration, draw: &mut SplitMix64) -> Duration {
    interval * (900 + below(draw, 201)) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_a_tenth_shorter_or_longer_at_most() {
        let mut draw = SplitMix64::new(5);
        let waits: Vec<_> = (0..2000)
            .map(|_| jittered(Duration::from_secs(10), &mut draw))
            .collect();
        let [shortest, longest] = [waits.iter().min(), waits.iter().max()];
        assert_eq!(shortest, Some(&Duration::from_secs(9)));
        assert_eq!(longest, Some(&Duration::from_secs(11)));
    }
}
