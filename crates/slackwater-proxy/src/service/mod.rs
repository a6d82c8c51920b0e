//! A service as one worker has it: its fleet, the balancer that chooses from it, and connections.
//!
//! A request waits at the `gate` until there is room for it; its `attempts` are each a `flight` to one replica, and
//! `retries` says whether there may be another one. A service is made from its configuration alone and shares nothing with others, so
//! that one can be put in another's place between requests; those that run keep the one that they began with.

mod absent;
mod account;
mod attempts;
mod availability;
mod budgets;
mod copying;
mod counts;
mod fleet;
mod flight;
mod gate;
mod hedging;
mod learning;
mod line;
pub mod orders;
mod prober;
mod race;
mod retries;
mod room;
mod seek;
mod shadow_trials;
mod sticky;
mod tiers;
mod tying;
mod weights;

use crate::discovery::Fleet;
use crate::forward::{Deadlines, Origin, ReplicaCounts, ReplicaEnds, ReplicaOptions, RequestBody};
use crate::health::Health;
use crate::record::Recorder;
use crate::request_record::{Directory, Record, Story};
use crate::seed::draw_seed;
use account::{Book, ServiceLatency};
use availability::Availability;
use budgets::Budgets;
use bytes::Bytes;
use core::future::poll_fn;
use core::net::IpAddr;
use core::time::Duration;
use counts::ServiceCounts;
use fleet::{Members, Roster};
use gate::Gate;
use hedging::Hedging;
use http::{HeaderMap, Request};
use orders::Orders;
use retries::Retries;
use room::Rooms;
use slackwater_config::Fault;
use slackwater_config::tls::Client;
use slackwater_config::{Limits, ReplicaProtocol, ServiceConfig};
use slackwater_core::health::build;
use slackwater_core::policy::{Carried, Explanation, Query};
use slackwater_core::{Instant as CoreInstant, ReplicaId};
use slackwater_recording::Stream;
use slackwater_telemetry::exemplars::Reference;
use slackwater_telemetry::facts::WorkerFacts;
use slackwater_telemetry::latency_histogram::Latencies;
use slackwater_tower::client::{Balancer, DriveGuard, Lease, Picked, Round};
use std::rc::Rc;
use std::sync::Arc;
use sticky::Sticky;
use tiers::TierInUse;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tying::Tying;

pub(crate) use attempts::Tries;
pub(crate) use flight::Flight;

/// What the admin server may look at of one worker's part of a service.
#[derive(Clone, Debug)]
pub(crate) struct ServiceView {
    pub(crate) balancer: Balancer,
    roster: Roster,
    tier: Arc<TierInUse>,
    admission: Arc<ServiceCounts>,
    budgets: Budgets,
    ends: Arc<ReplicaEnds>,
    latency: Arc<ServiceLatency>,
    /// Not everybody may come in.
    has_line: bool,
}

impl ServiceView {
    /// What the worker knows, in the order of `fleet`. It may not have heard of all of them yet.
    pub(crate) fn facts(&self, fleet: &Fleet) -> WorkerFacts {
        let overview = self.balancer.overview();
        // The worker wants it only when its fleet changes.
        let roster = fleet::lock(&self.roster);
        let seats = fleet.replicas().iter();
        let seats: Vec<_> = seats.map(|replica| roster.get(&replica.address)).collect();
        let requests = |counts: &Arc<ReplicaCounts>| counts.read();
        WorkerFacts {
            ids: (seats.iter())
                .map(|seat| seat.map_or_else(Vec::new, |seat| seat.ids.clone()))
                .collect(),
            requests: (seats.iter())
                .map(|seat| seat.map_or_else(Default::default, |seat| requests(&seat.counts)))
                .collect(),
            tier: self.tier.read(),
            admission: self.admission.read(),
            line: self.has_line.then(|| self.admission.line()),
            waits: self.admission.waits.read(),
            budgets: self.budgets.facts(&self.admission),
            replica_ends: self.ends.read(),
            exemplars: self.latency.exemplars(),
            latency: Box::new(self.latency.read()),
            heads: (seats.iter())
                .map(|seat| seat.map_or_else(Latencies::default, |seat| seat.counts.heads.read()))
                .collect(),
            reported: overview.reported,
            counters: overview.counters,
            snapshot: overview.snapshot,
        }
    }
}

/// Which of how many workers this is, counted from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerPlace {
    pub(crate) index: u16,
    pub(crate) workers: u16,
}

/// What a worker's part of a service follows while it is there.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) fleets: watch::Receiver<Arc<Fleet>>,
    /// What checks of its replicas found.
    pub(crate) health: watch::Receiver<Health>,
    /// What its operator wants of them.
    pub(crate) orders: watch::Receiver<Arc<Orders>>,
}

/// What a service and its replicas are called.
#[derive(Debug)]
pub(crate) struct Names {
    policy: &'static str,
    members: Rc<Members>,
    latency: Arc<ServiceLatency>,
}

impl Directory for Names {
    fn policy(&self) -> &'static str {
        self.policy
    }

    fn name(&self, part: ReplicaId) -> Option<Box<str>> {
        let member = self.members.find(part)?;
        Some(member.config.name.as_str().into())
    }

    fn part(&self, part: ReplicaId) -> Option<(usize, usize)> {
        let member = self.members.find(part)?;
        let place = member.parts.iter().position(|&other| other == part)?;
        (member.parts.len() > 1).then_some((place + 1, member.parts.len()))
    }

    fn recording(&self) -> Option<&Stream> {
        self.members.recording()
    }

    fn exemplify(&self, record: &Record, reference: Reference) {
        self.latency.exemplify(record, reference);
    }
}

/// A worker's part of a service.
#[derive(Debug)]
pub(crate) struct Service {
    name: Rc<str>,
    balancer: Balancer,
    members: Rc<Members>,
    /// For those who tell of its requests.
    directory: Rc<Names>,
    protocol: ReplicaProtocol,
    /// Replicas hear by a PROXY header whose connection a request came by.
    tells_ends: bool,
    /// Absent: there is room for everybody.
    gate: Option<Rc<Gate>>,
    /// Absent: there is room for everybody at each replica.
    rooms: Option<Rc<Rooms>>,
    retries: Retries,
    /// Absent: no request is watched for being late.
    hedging: Option<Hedging>,
    /// Absent: no request is tied.
    tying: Option<Tying>,
    /// The policy learns from what responses say of their replicas' load.
    learning: Carried,
    /// Replicas that are out are tried with copies of requests.
    sends_shadow_trials: bool,
    /// Absent: each request stands for itself.
    sticky: Option<Rc<Sticky>>,
    admission: Arc<ServiceCounts>,
    budgets: Budgets,
    ends: Arc<ReplicaEnds>,
    book: Rc<Book>,
    /// From a request's dispatch to the head of its response, all tries together.
    first_byte: Duration,
    /// Takes replicas that are down out of the choice.
    _availability: Availability,
    /// Sends probes as long as it is there.
    _drive: DriveGuard,
    following: JoinHandle<()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl Service {
    /// A service at work, on the current runtime; its fleet is always the newest of `fleets`.
    ///
    /// # Errors
    ///
    /// The system gives no socket for probes, or the probes' key cannot be used.
    pub(crate) fn start(
        config: &ServiceConfig,
        limits: &Limits,
        deadlines: &Rc<Deadlines>,
        tls: Option<watch::Receiver<Client>>,
        worker: WorkerPlace,
        followed: Followed,
        recorder: Option<&Recorder>,
    ) -> Result<Self, Fault> {
        let Followed {
            mut fleets,
            health,
            mut orders,
        } = followed;
        let mut policy = build(
            config.policy,
            &config.policy_settings,
            &config.passive_health,
        );
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
        let connections_max = (config.replica.connections_max)
            .map(|max| gate::share(max, worker.index, worker.workers));
        if let Some(max) = connections_max {
            options.connections_max = max as usize;
        }
        // Over HTTP/2 a connection takes many requests.
        let rooms = connections_max.filter(|_| config.replica.protocol == ReplicaProtocol::Http1);
        let rooms = rooms.map(|max| Rooms::new(max, config.timeouts.connect, &admission));
        let members = Rc::new(Members::new(
            balancer.clone(),
            options,
            deadlines,
            (health.clone(), orders.clone()),
            tls,
            rooms.clone(),
            recording,
        ));
        // To begin with, all are equally new.
        orders.mark_unchanged();
        members.become_fleet(&fleets.borrow_and_update());
        members.set_warm_up(config.clock_warm_up());
        let sticky = Sticky::new(&config.sticky, members.homes()).map(Rc::new);
        let following = follow((fleets, orders), Rc::clone(&members), sticky.clone());
        let (homes, homeless) = (Rc::clone(&members), sticky.clone());
        let tier_changed = move || {
            if let Some(sticky) = &homeless {
                sticky.set_homes(homes.homes());
            }
        };
        let book = Book::new(balancer.clock());
        Ok(Self {
            name: config.name.as_str().into(),
            directory: Rc::new(Names {
                policy: config.policy.name,
                members: Rc::clone(&members),
                latency: Arc::clone(&book.latency),
            }),
            learning: config.policy.carried,
            sends_shadow_trials: config.passive_health.shadow_trials,
            sticky,
            protocol: config.replica.protocol,
            rooms,
            tells_ends: config.replica.proxy_protocol.is_some(),
            gate: Gate::new(&config.queue, worker, &admission),
            hedging: Hedging::new(&config.hedge, &admission),
            tying: Tying::new(&config.tie, &admission),
            retries: Retries::new(&config.retries, draw_seed(), &admission),
            admission,
            budgets: Budgets::new(config),
            ends,
            book,
            first_byte: config.timeouts.first_byte,
            _availability: Availability::follow(health, Rc::clone(&members), tier_changed),
            _drive: balancer.spawn_drive(),
            following: tokio::task::spawn_local(following),
            balancer,
            members,
        })
    }

    /// For the admin server.
    pub(crate) fn view(&self) -> ServiceView {
        ServiceView {
            balancer: self.balancer.clone(),
            roster: self.members.roster(),
            tier: self.members.tier(),
            admission: Arc::clone(&self.admission),
            budgets: self.budgets.clone(),
            ends: Arc::clone(&self.ends),
            latency: Arc::clone(&self.book.latency),
            has_line: self.gate.is_some(),
        }
    }

    /// What the configuration calls it.
    pub(crate) const fn name(&self) -> &Rc<str> {
        &self.name
    }

    /// For those who tell of its requests.
    pub(crate) const fn directory(&self) -> &Rc<Names> {
        &self.directory
    }

    /// What happened to its requests before a replica had them.
    pub(crate) fn counts(&self) -> &ServiceCounts {
        &self.admission
    }

    /// What its replicas speak.
    pub(crate) const fn protocol(&self) -> ReplicaProtocol {
        self.protocol
    }

    /// Whom a request comes from, where that decides who gets it. To be asked before the request is made fit.
    pub(crate) fn client(&self, headers: &HeaderMap, origin: &Origin) -> Option<IpAddr> {
        let asks = self.sticky.as_ref().is_some_and(|it| it.is_by_address());
        asks.then(|| origin.client(headers))
    }

    /// Makes known to replicas whose connection a request came by, where they are told.
    pub(crate) fn tell_ends(&self, request: &mut Request<RequestBody>, origin: &Origin) {
        if self.tells_ends
            && let Some(ends) = origin.ends()
        {
            request.extensions_mut().insert(Arc::clone(ends));
        }
    }

    /// Replicas that join from now on warm up by the clock for so long.
    pub(crate) fn set_warm_up(&self, span: Duration) {
        self.members.set_warm_up(span);
    }

    /// The routes by which requests come are others.
    pub(crate) fn routes_changed(&self) {
        if let Some(hedging) = &self.hedging {
            hedging.begin_anew();
        }
    }

    /// Another one has taken its place: what still runs ends, and keeps no connection.
    pub(crate) fn retire(&self) {
        self.members.retire();
    }

    /// Closes connections to replicas that have been idle for too long.
    pub(crate) fn sweep(&self) {
        self.members.sweep();
    }

    async fn pick(&self, query: Query<'_>, story: &Story) -> Option<Box<Flight>> {
        self.pick_at(self.balancer.now(), query, story).await
    }

    /// The same, at a moment that has just been read.
    async fn pick_at(
        &self,
        now: CoreInstant,
        query: Query<'_>,
        story: &Story,
    ) -> Option<Box<Flight>> {
        let flight = self.pick_any(now, query, story).await?;
        if self.members.is_drained(&flight.member().config) {
            flight.cancel();
            return Box::pin(self.pick_undrained(query, story)).await;
        }
        Some(flight)
    }

    async fn pick_any(
        &self,
        now: CoreInstant,
        query: Query<'_>,
        story: &Story,
    ) -> Option<Box<Flight>> {
        let mut explanation = story.explanation();
        let explained = explanation.as_deref_mut();
        let lease = match self.balancer.pick_explained(now, query, explained) {
            Picked::Ready(lease) => lease,
            Picked::NoReplica => return None,
            // In a box, so that the others do not carry its size around.
            Picked::Probing(round) => {
                Box::pin(ask(round, query, explanation.as_deref_mut())).await?
            }
        };
        let member = self.members.find(lease.replica())?;
        let mut flight = Box::new(Flight::new(lease, member, self.learning));
        if let Some(told) = &mut explanation {
            self.members.tell_absent(told);
        }
        flight.explanation = explanation;
        Some(flight)
    }

    /// Somebody who is not drained. A policy that finds nobody who may be chosen chooses from all, since somebody may be up
    /// that seems not to be; whom the operator has drained is none of them. `[A8]`
    async fn pick_undrained(&self, query: Query<'_>, story: &Story) -> Option<Box<Flight>> {
        let mut avoid = query.avoid.to_vec();
        avoid.extend(self.members.drained_parts());
        let now = self.balancer.now();
        let flight = self.pick_any(now, Query::retry(&avoid), story).await?;
        if self.members.is_drained(&flight.member().config) {
            flight.cancel();
            return None;
        }
        Some(flight)
    }
}

/// Takes each fleet that comes, and what is wanted of it, until there will be no more.
async fn follow(
    (mut fleets, mut orders): (watch::Receiver<Arc<Fleet>>, watch::Receiver<Arc<Orders>>),
    members: Rc<Members>,
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
        let fleet = Arc::clone(&fleets.borrow_and_update());
        members.become_fleet(&fleet);
        if let Some(sticky) = &sticky {
            sticky.set_homes(members.homes());
        }
    }
}

/// Waits for the answers of a synchronous round.
async fn ask(
    mut round: Round,
    query: Query<'_>,
    explanation: Option<&mut Explanation>,
) -> Option<Lease> {
    round.send(&Bytes::new());
    poll_fn(|cx| round.poll_ready(cx)).await;
    round.finish_explained(query, explanation)
}
