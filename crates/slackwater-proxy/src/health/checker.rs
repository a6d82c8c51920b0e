//! All checks of one service: a loop for each replica, and one channel with all verdicts.

use super::ServiceChecks;
use super::check::{check, scheme, spoken};
use super::standing::{Standing, Verdict};
use crate::forward::Target;
use crate::seed::draw_seed;
use crate::tls::Connector;
use core::cell::Cell;
use core::net::SocketAddr;
use core::time::Duration;
use rustls::pki_types::ServerName;
use slackwater_config::ReplicaAddress;
use slackwater_config::tls::Client;
use slackwater_config::{HealthSettings, ReplicaProtocol};
use slackwater_core::draw::{SplitMix64, below};
use slackwater_http::proxy_protocol::Version;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::SystemTime;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_local;
use tokio_util::task::AbortOnDropHandle;

/// Concurrent checks of one service. Other services have their own limit.
const CHECKS_MAX: usize = 256;

/// A replica to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Name for the log.
    pub(crate) name: String,
    /// Address of requests, which identifies the verdict.
    pub(crate) address: SocketAddr,
    /// Name that its certificate must be valid for, if TLS is used.
    pub(crate) server_name: ServerName<'static>,
}

/// Results of the checks of one replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaHealth {
    pub(crate) verdict: Verdict,
    pub(crate) checks_passed: u64,
    pub(crate) checks_failed: u64,
    /// How often the replica changed from up to down.
    pub(crate) went_down: u64,
    pub(crate) came_back: u64,
    /// Error of the last failed check.
    pub(crate) last_failure: Option<String>,
    /// When the last check ended.
    pub(crate) checked_at: Option<SystemTime>,
}

/// Results for a service's replicas, by address.
pub(crate) type Health = BTreeMap<SocketAddr, ReplicaHealth>;

/// The checks of one service.
#[derive(Debug)]
pub(super) struct Checker {
    service: String,
    settings: HealthSettings,
    protocol: ReplicaProtocol,
    proxy_protocol: Option<Version>,
    tls: Option<watch::Receiver<Client>>,
    verdicts: watch::Sender<Health>,
    /// Number of replicas to check.
    count: Cell<usize>,
    places: Semaphore,
}

impl Checker {
    pub(super) fn new(service: ServiceChecks, verdicts: watch::Sender<Health>) -> Self {
        Self {
            service: service.name,
            settings: service.settings,
            protocol: service.protocol,
            proxy_protocol: service.proxy_protocol,
            tls: service.tls,
            verdicts,
            count: Cell::new(0),
            places: Semaphore::new(CHECKS_MAX),
        }
    }

    /// Checks the replicas in `fleet`, until its sender is dropped.
    pub(super) async fn run(self, mut fleet: watch::Receiver<Vec<Checked>>) {
        let this = Rc::new(self);
        let mut loops: BTreeMap<SocketAddr, Loop> = BTreeMap::new();
        loop {
            let now = fleet.borrow_and_update().clone();
            let now: BTreeMap<_, _> = now.into_iter().map(|it| (it.address, it)).collect();
            // A replica whose name or certificate name changed gets a new loop; its results stay
            // valid until then.
            loops.retain(|address, it| now.get(address) == Some(&it.replica));
            this.count.set(now.len());
            this.verdicts.send_if_modified(|health| {
                let before = health.len();
                health.retain(|address, _| now.contains_key(address));
                health.len() != before
            });
            for (address, replica) in now {
                let this = &this;
                loops.entry(address).or_insert_with(|| Loop {
                    _task: AbortOnDropHandle::new(spawn_local(
                        Rc::clone(this).watch(replica.clone()),
                    )),
                    replica,
                });
            }
            if fleet.changed().await.is_err() {
                return;
            }
        }
    }

    /// Checks one replica repeatedly.
    async fn watch(self: Rc<Self>, replica: Checked) {
        let mut standing = Standing::default();
        let mut draw = SplitMix64::new(draw_seed());
        let mut address = replica.address;
        if let Some(port) = self.settings.port {
            address.set_port(port.get());
        }
        let connector = self.tls.clone().map(|client| {
            Connector::new(
                client,
                replica.server_name.clone(),
                spoken(self.settings.check, self.protocol).alpn(),
            )
        });
        // A separate port for checks expects no PROXY header.
        let proxy_protocol = self.proxy_protocol.filter(|_| address == replica.address);
        let target = Target::new(ReplicaAddress::Tcp(address), connector)
            .with_proxy_protocol(proxy_protocol);
        let at = (scheme(self.tls.is_some()), address);
        loop {
            let checked = {
                // The semaphore is never closed.
                let _place = self.places.acquire().await;
                check(&self.settings, self.protocol, at, &target).await
            };
            if let Some(checked) = checked {
                let has_changed = standing.note(checked.is_ok(), self.settings.thresholds);
                let failure = checked.as_ref().err();
                self.note(&replica, standing.verdict(), failure, has_changed);
            } else {
                tracing::debug!(%address, "no health check: this process lacks a descriptor or memory");
            }
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
            match (own.verdict, verdict) {
                (Verdict::Up, Verdict::Down) => own.went_down += 1,
                (Verdict::Down, Verdict::Up) => own.came_back += 1,
                _ => (),
            }
            own.verdict = verdict;
            own.checked_at = Some(SystemTime::now());
            match failure {
                None => own.checks_passed += 1,
                Some(why) => {
                    own.checks_failed += 1;
                    own.last_failure = Some(why.clone());
                }
            }
            has_changed
        });
        if has_changed && verdict == Verdict::Down {
            self.warn_if_all_are_down();
        }
    }

    /// A single replica that is down is logged as a change of its state.
    fn warn_if_all_are_down(&self) {
        let is_down = |health: &ReplicaHealth| health.verdict == Verdict::Down;
        let verdicts = self.verdicts.borrow();
        // Replicas that have not been checked yet count as up.
        if verdicts.len() == self.count.get() && verdicts.values().all(is_down) {
            tracing::warn!(
                service = self.service,
                "all replicas down: health checks failed; requests are still sent to them"
            );
        }
    }
}

/// A replica's check loop; ends when dropped.
#[derive(Debug)]
struct Loop {
    _task: AbortOnDropHandle<()>,
    replica: Checked,
}

/// Returns `interval` ± 10 %, so that many processes do not check at the same moments forever.
fn jittered(interval: Duration, draw: &mut SplitMix64) -> Duration {
    interval * (900 + below(draw, 201)) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_config::HealthCheck;
    use std::sync::Arc;
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::task::{LocalSet, yield_now};

    #[tokio::test]
    async fn a_service_has_at_most_256_checks_at_a_time() {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
        // One of the standard library shows at once which connections have come.
        let listener = socket.listen(1024).and_then(TcpListener::into_std);
        let listener = listener.expect("a listener");
        let address = listener.local_addr().expect("bound");
        let (verdicts, _) = watch::channel(Health::new());
        let (_, fleets) = watch::channel(Arc::default());
        let settings = HealthSettings {
            check: HealthCheck::Http,
            timeout: Duration::from_mins(1),
            ..HealthSettings::default()
        };
        let service = ServiceChecks {
            name: "web".to_owned(),
            settings,
            protocol: ReplicaProtocol::Http1,
            proxy_protocol: None,
            tls: None,
            fleets,
        };
        let checks = Rc::new(Checker::new(service, verdicts));
        let replica = Checked {
            name: "replica".to_owned(),
            address,
            server_name: ServerName::from(address.ip()),
        };
        let checking = async {
            for _ in 0..300 {
                spawn_local(Rc::clone(&checks).watch(replica.clone()));
            }
            // By then each has begun its check, or waits to.
            for _ in 0..300 {
                yield_now().await;
            }
            // None is answered.
            core::iter::from_fn(|| listener.accept().ok()).collect::<Vec<_>>()
        };
        assert_eq!(LocalSet::new().run_until(checking).await.len(), 256);
    }

    #[test]
    fn intervals_vary_by_at_most_a_tenth() {
        let mut draw = SplitMix64::new(5);
        let waits: Vec<_> = (0..2000)
            .map(|_| jittered(Duration::from_secs(10), &mut draw))
            .collect();
        let [shortest, longest] = [waits.iter().min(), waits.iter().max()];
        assert_eq!(shortest, Some(&Duration::from_secs(9)));
        assert_eq!(longest, Some(&Duration::from_secs(11)));
    }
}
