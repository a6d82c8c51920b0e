//! Dispatch of a service's requests: attempts one after another, or two at once, until there is a
//! response.
//!
//! | | file |
//! |---|---|
//! | a request's attempts, one after another | `attempts` |
//! | a replica with a free permit, in place of one that is full | `free_replica` |
//! | two copies of a request at once: when, and which wins | `second_copy`, `hedged_pair` |
//! | late requests; tied requests | `hedging`; `tying` |
//! | copies for replicas that are taken out | `shadow_trials` |

mod attempts;
mod free_replica;
mod hedged_pair;
mod hedging;
mod second_copy;
mod shadow_trials;
mod tying;

pub(crate) use attempts::DispatchOptions;

use crate::forward::{Deadlines, Origin, ReplicaCounts, ReplicaEnds, ReplicaOptions, RequestBody};
use crate::health::Health;
use crate::record::Recorder;
use crate::request_record::{Directory, RecordHandle, RequestRecord};
use crate::seed::draw_seed;
use crate::service::admission::{
    Budgets, Limiter, ReplicaLimiters, ServiceCounts, WorkerIndex, share,
};
use crate::service::attempt::{Attempt, LatencyMeter, Retries, ServiceLatency};
use crate::service::fleet::orders::Orders;
use crate::service::fleet::{
    InFlightCounts, Roster, Sticky, TierInUse, WorkerFleet, availability, lock, prober,
};
use crate::service::keys::{KeyRule, RequestKey};
use bytes::Bytes;
use core::future::poll_fn;
use core::time::Duration;
use hedging::Hedging;
use slackwater_config::Fault;
use slackwater_config::tls::Client;
use slackwater_config::{Limits, ReplicaProtocol, ServiceConfig};
use slackwater_core::health::build;
use slackwater_core::keys::keyed;
use slackwater_core::policy::{Carried, Explanation, Query};
use slackwater_core::{Instant as CoreInstant, ReplicaId};
use slackwater_discovery::Fleet;
use slackwater_http::Request;
use slackwater_recording::Stream;
use slackwater_telemetry::exemplars::Reference;
use slackwater_telemetry::facts::WorkerFacts;
use slackwater_telemetry::latency_histogram::Latencies;
use slackwater_tower::client::{Balancer, DriveGuard, Lease, Picked, Round};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tying::Tying;

/// Read access of the admin server to one worker's part of a service.
#[derive(Clone, Debug)]
pub(crate) struct ServiceView {
    pub(crate) balancer: Balancer,
    roster: Roster,
    tier: Arc<TierInUse>,
    admission: Arc<ServiceCounts>,
    budgets: Budgets,
    ends: Arc<ReplicaEnds>,
    latency: Arc<ServiceLatency>,
    /// Whether requests in flight are limited.
    has_queue: bool,
}

impl ServiceView {
    /// Returns the worker's data in the order of `fleet`. The worker may not have all of its
    /// replicas yet.
    pub(crate) fn facts(&self, fleet: &Fleet) -> WorkerFacts {
        let overview = self.balancer.overview();
        // The worker takes this lock only when its fleet changes.
        let roster = lock(&self.roster);
        let entries = fleet.replicas().iter();
        let entries: Vec<_> = entries
            .map(|replica| roster.get(&replica.address))
            .collect();
        let requests = |counts: &Arc<ReplicaCounts>| counts.read();
        let now = self.balancer.now();
        WorkerFacts {
            ids: (entries.iter())
                .map(|entry| entry.map_or_else(Vec::new, |entry| entry.ids.clone()))
                .collect(),
            requests: (entries.iter())
                .map(|entry| entry.map_or_else(Default::default, |entry| requests(&entry.counts)))
                .collect(),
            in_flight: (entries.iter())
                .map(|entry| entry.map_or(0, |entry| entry.counts.in_flight.read()))
                .collect(),
            evidence: (entries.iter())
                .map(|entry| entry.map_or_else(Default::default, |it| it.counts.evidence.read(now)))
                .collect(),
            tier: self.tier.read(),
            admission: self.admission.read(),
            line: self.has_queue.then(|| self.admission.queue()),
            waits: self.admission.waits.read(),
            budgets: self.budgets.facts(&self.admission),
            replica_ends: self.ends.read(),
            exemplars: self.latency.exemplars(),
            latency: Box::new(self.latency.read()),
            heads: (entries.iter())
                .map(|entry| {
                    entry.map_or_else(Latencies::default, |entry| entry.counts.heads.read())
                })
                .collect(),
            reported: overview.reported,
            counters: overview.counters,
            snapshot: overview.snapshot,
        }
    }
}

/// Updates that a worker's part of a service follows.
#[derive(Debug)]
pub(crate) struct ServiceUpdates {
    pub(crate) fleets: watch::Receiver<Arc<Fleet>>,
    /// Results of health checks.
    pub(crate) health: watch::Receiver<Health>,
    /// The operator's orders.
    pub(crate) orders: watch::Receiver<Arc<Orders>>,
}

/// Names of a service and its replicas, for records.
#[derive(Debug)]
pub(crate) struct ServiceDirectory {
    policy: &'static str,
    fleet: Rc<WorkerFleet>,
    latency: Arc<ServiceLatency>,
}

impl Directory for ServiceDirectory {
    fn policy(&self) -> &'static str {
        self.policy
    }

    fn name(&self, part: ReplicaId) -> Option<Box<str>> {
        let replica = self.fleet.find(part)?;
        Some(replica.config.name.as_str().into())
    }

    fn part(&self, part: ReplicaId) -> Option<(usize, usize)> {
        let replica = self.fleet.find(part)?;
        let place = replica.parts.iter().position(|&other| other == part)?;
        (replica.parts.len() > 1).then_some((place + 1, replica.parts.len()))
    }

    fn recording(&self) -> Option<&Stream> {
        self.fleet.recording()
    }

    fn exemplify(&self, record: &RequestRecord, reference: Reference) {
        self.latency.exemplify(record, reference);
    }
}

/// A worker's part of a service.
#[derive(Debug)]
pub(crate) struct Service {
    name: Rc<str>,
    balancer: Balancer,
    fleet: Rc<WorkerFleet>,
    /// For the consumers of its request records.
    directory: Rc<ServiceDirectory>,
    protocol: ReplicaProtocol,
    /// Whether a PROXY header forwards the ends of the client's connection to replicas.
    forwards_ends: bool,
    /// `None` if requests in flight are not limited.
    limiter: Option<Rc<Limiter>>,
    /// `None` if requests in flight at single replicas are not limited.
    replica_limiters: Option<Rc<ReplicaLimiters>>,
    retries: Retries,
    /// `None` if hedging is disabled.
    hedging: Option<Hedging>,
    /// `None` if tied requests are disabled.
    tying: Option<Tying>,
    /// The form of load reports in responses that the policy learns from.
    learning: Carried,
    /// Whether replicas that are taken out are tried with copies of requests.
    sends_shadow_trials: bool,
    /// `None` if requests are not sticky.
    sticky: Option<Rc<Sticky>>,
    /// `None` if requests have neither keys nor hints.
    keys: Option<KeyRule>,
    admission: Arc<ServiceCounts>,
    budgets: Budgets,
    ends: Arc<ReplicaEnds>,
    latency_meter: Rc<LatencyMeter>,
    /// Time from a request's dispatch to the response head, for all attempts together.
    first_byte: Duration,
    /// Excludes replicas that are down from the picks.
    _availability: AbortOnDropHandle<()>,
    /// Sends probes while it exists.
    _drive: DriveGuard,
    _following: AbortOnDropHandle<()>,
}

impl Service {
    /// Starts a service on the current runtime. It follows the fleets in `fleets`.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot provide a socket for probes, or if the probe key is invalid.
    pub(crate) fn start(
        config: &ServiceConfig,
        limits: &Limits,
        (deadlines, in_flight): (&Rc<Deadlines>, InFlightCounts),
        tls: Option<watch::Receiver<Client>>,
        worker: WorkerIndex,
        followed: ServiceUpdates,
        recorder: Option<&Recorder>,
    ) -> Result<Self, Fault> {
        let ServiceUpdates {
            mut fleets,
            health,
            mut orders,
        } = followed;
        let mut policy = build(
            config.policy,
            &config.policy_settings,
            &config.passive_health,
        );
        if config.key.is_on() {
            policy = keyed(policy, &config.key.rule);
        }
        let mut recording = None;
        if let Some(recorder) = recorder {
            let stream;
            (policy, stream) = recorder.record(policy, config, worker.index);
            recording = Some(stream);
        }
        let balancer = Balancer::new(policy, prober::new(config, tls.as_ref(), &fleets)?);
        let admission = Arc::<ServiceCounts>::default();
        let mut options = ReplicaOptions::new(&config.replica, &config.timeouts, limits);
        let ends = Arc::clone(&options.ends);
        let connections_max =
            (config.replica.connections_max).map(|max| share(max, worker.index, worker.workers));
        if let Some(max) = connections_max {
            options.connections_max = max as usize;
        }
        // An HTTP/2 connection carries many requests, so limiting connections does not limit
        // requests.
        let replica_limiters =
            connections_max.filter(|_| config.replica.protocol == ReplicaProtocol::Http1);
        let replica_limiters =
            replica_limiters.map(|max| ReplicaLimiters::new(max, config.timeouts.connect));
        let fleet = WorkerFleet::new(
            balancer.clone(),
            options,
            deadlines,
            (health.clone(), orders.clone()),
            tls,
            replica_limiters.clone(),
            recording,
        );
        let fleet = fleet.in_zone(&config.zone, &admission);
        let fleet = Rc::new(fleet.counting_in_flight(in_flight));
        // The first replicas do not warm up, because all are equally new.
        orders.mark_unchanged();
        fleet.apply(&fleets.borrow_and_update());
        fleet.set_warm_up(config.clock_warm_up());
        let sticky = Sticky::new(&config.sticky, fleet.homes()).map(Rc::new);
        let following = follow((fleets, orders), Rc::clone(&fleet), sticky.clone());
        let (homes, homeless) = (Rc::clone(&fleet), sticky.clone());
        let tier_changed = move || {
            if let Some(sticky) = &homeless {
                sticky.set_homes(homes.homes());
            }
        };
        let latency_meter = LatencyMeter::new(balancer.clock());
        Ok(Self {
            name: config.name.as_str().into(),
            directory: Rc::new(ServiceDirectory {
                policy: config.policy.name,
                fleet: Rc::clone(&fleet),
                latency: Arc::clone(&latency_meter.latency),
            }),
            learning: config.policy.carried,
            sends_shadow_trials: config.passive_health.shadow_trials,
            sticky,
            keys: KeyRule::new(config),
            protocol: config.replica.protocol,
            replica_limiters,
            forwards_ends: config.replica.proxy_protocol.is_some(),
            limiter: Limiter::new(&config.queue, worker, &admission),
            hedging: Hedging::new(&config.hedge, &admission),
            tying: Tying::new(&config.tie, &admission),
            retries: Retries::new(&config.retries, draw_seed(), &admission),
            admission,
            budgets: Budgets::new(config),
            ends,
            latency_meter,
            first_byte: config.timeouts.first_byte,
            _availability: availability::follow(health, Rc::clone(&fleet), tier_changed),
            _drive: balancer.spawn_drive(),
            _following: AbortOnDropHandle::new(tokio::task::spawn_local(following)),
            balancer,
            fleet,
        })
    }

    /// Returns the view for the admin server.
    pub(crate) fn view(&self) -> ServiceView {
        ServiceView {
            balancer: self.balancer.clone(),
            roster: self.fleet.roster(),
            tier: self.fleet.tier(),
            admission: Arc::clone(&self.admission),
            budgets: self.budgets.clone(),
            ends: Arc::clone(&self.ends),
            latency: Arc::clone(&self.latency_meter.latency),
            has_queue: self.limiter.is_some(),
        }
    }

    /// Name in the configuration.
    pub(crate) const fn name(&self) -> &Rc<str> {
        &self.name
    }

    /// For the consumers of its request records.
    pub(crate) const fn directory(&self) -> &Rc<ServiceDirectory> {
        &self.directory
    }

    /// Counts of its requests before they reach a replica.
    pub(crate) fn counts(&self) -> &ServiceCounts {
        &self.admission
    }

    /// Protocol of its replicas.
    pub(crate) const fn protocol(&self) -> ReplicaProtocol {
        self.protocol
    }

    /// The replica that the request sticks to, if this service's requests do; call before
    /// `prepare_request` and before the request is rewritten.
    pub(crate) fn pinned(
        &self,
        request: &Request<RequestBody>,
        origin: &Origin,
    ) -> Option<ReplicaId> {
        let sticky = self.sticky.as_ref()?;
        sticky.find(request, || origin.client(request.headers()))
    }

    /// The request's key and hint, if this service uses them; call before `prepare_request` and
    /// before the request is rewritten.
    pub(crate) fn key(
        &self,
        request: &Request<RequestBody>,
        origin: &Origin,
    ) -> Option<RequestKey> {
        self.keys.as_ref().map(|keys| keys.of(request, origin))
    }

    /// Attaches the ends of the client's connection to the request, if they are forwarded to
    /// replicas.
    pub(crate) fn forward_ends(&self, request: &mut Request<RequestBody>, origin: &Origin) {
        if self.forwards_ends
            && let Some(ends) = origin.ends()
        {
            request.extensions_mut().insert(Arc::clone(ends));
        }
    }

    /// Sets the warm-up time of replicas that join from now on.
    pub(crate) fn set_warm_up(&self, span: Duration) {
        self.fleet.set_warm_up(span);
    }

    /// Handles a change of the routes.
    pub(crate) fn routes_changed(&self) {
        if let Some(hedging) = &self.hedging {
            hedging.begin_anew();
        }
    }

    /// Retires a service that was replaced: its requests run to their end, and no connection is
    /// kept.
    pub(crate) fn retire(&self) {
        self.fleet.retire();
    }

    /// Closes connections to replicas that have been idle for too long.
    pub(crate) fn sweep(&self) {
        self.fleet.sweep();
    }

    async fn pick(&self, query: Query<'_>, picked_for: PickedFor<'_>) -> Option<Box<Attempt>> {
        self.pick_at(self.balancer.now(), query, picked_for).await
    }

    /// Picks at a time that has just been read.
    async fn pick_at(
        &self,
        now: CoreInstant,
        query: Query<'_>,
        picked_for: PickedFor<'_>,
    ) -> Option<Box<Attempt>> {
        let attempt = self.pick_any(now, query, picked_for).await?;
        if self.fleet.is_drained(&attempt.replica().config) {
            attempt.cancel();
            return Box::pin(self.pick_undrained(query, picked_for)).await;
        }
        Some(attempt)
    }

    async fn pick_any(
        &self,
        now: CoreInstant,
        query: Query<'_>,
        picked_for: PickedFor<'_>,
    ) -> Option<Box<Attempt>> {
        let query = picked_for.with_key(query);
        let mut explanation = picked_for.record.explanation();
        let explained = explanation.as_deref_mut();
        let lease = match self.balancer.pick_explained(now, query, explained) {
            Picked::Ready(lease) => lease,
            Picked::NoReplica => return None,
            // Boxed, so that other picks do not carry its size.
            Picked::Probing(round) => {
                let hint = picked_for.key.map(|key| &key.hint);
                Box::pin(ask(round, query, hint, explanation.as_deref_mut())).await?
            }
        };
        let replica = self.fleet.find(lease.replica())?;
        let mut attempt = Box::new(Attempt::new(lease, replica, self.learning));
        if let Some(explanation) = &mut explanation {
            self.fleet.explain_absent(explanation);
        }
        attempt.explanation = explanation;
        Some(attempt)
    }

    /// Picks a replica that is not drained. If no replica is available, a policy picks from all,
    /// because one may be up that seems to be down; but drained replicas must stay excluded. `[A8]`
    async fn pick_undrained(
        &self,
        query: Query<'_>,
        picked_for: PickedFor<'_>,
    ) -> Option<Box<Attempt>> {
        let mut avoid = query.avoid.to_vec();
        avoid.extend(self.fleet.drained_parts());
        let now = self.balancer.now();
        let query = Query::retry(&avoid);
        let attempt = self.pick_any(now, query, picked_for).await?;
        if self.fleet.is_drained(&attempt.replica().config) {
            attempt.cancel();
            return None;
        }
        Some(attempt)
    }
}

/// Applies each fleet and each change of the orders, until there will be no more.
async fn follow(
    (mut fleets, mut orders): (watch::Receiver<Arc<Fleet>>, watch::Receiver<Arc<Orders>>),
    fleet: Rc<WorkerFleet>,
    sticky: Option<Rc<Sticky>>,
) {
    loop {
        let heard = tokio::select! {
            heard = fleets.changed() => heard,
            heard = orders.changed() => heard,
        };
        if heard.is_err() {
            return;
        }
        let next = Arc::clone(&fleets.borrow_and_update());
        fleet.apply(&next);
        if let Some(sticky) = &sticky {
            sticky.set_homes(fleet.homes());
        }
    }
}

/// What a pick is for, besides its query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickedFor<'r> {
    pub(crate) record: &'r RecordHandle,
    /// `None` if the service uses no keys.
    pub(crate) key: Option<&'r RequestKey>,
}

impl PickedFor<'_> {
    fn with_key<'q>(&self, query: Query<'q>) -> Query<'q> {
        let key = self.key.and_then(|key| key.hash);
        Query { key, ..query }
    }
}

/// Waits for the replies of a synchronous round of probes, which carry `hint`.
async fn ask(
    mut round: Round,
    query: Query<'_>,
    hint: Option<&Bytes>,
    explanation: Option<&mut Explanation>,
) -> Option<Lease> {
    round.send(hint.unwrap_or(&Bytes::new()));
    poll_fn(|cx| round.poll_ready(cx)).await;
    round.finish_explained(query, explanation)
}
