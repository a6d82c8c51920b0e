//! The client's side of an aggregated stream as a value: subscriptions, versions, nonces, ACK and
//! NACK, deadlines.
//!
//! The owner connects while the client [has subscriptions](Client::is_idle), reports what happens
//! to the stream, and calls [`poll`](Client::poll) at the [deadline](Client::deadline). After each
//! call it sends what [`poll_transmit`](Client::poll_transmit) returns, before it reads the next
//! message, so no queue grows; and it handles what [`poll_report`](Client::poll_report) returns.
//!
//! Rules, with their sources: every response is answered once, by an ACK with its version or by a
//! NACK with the last accepted one (xDS protocol). Good resources of a rejected response are used
//! (gRFC A46). A resource that is not there 15 s after the request does not exist (gRFC A57). In
//! the state of the world, an EDS resource that a response leaves out is unchanged, and a cluster
//! is removed. A new stream begins with the versions that are known. A stream that was lost changes
//! no resource.
//!
//! A fleet is named by its EDS resource, or by a cluster, which leads to one or has its endpoints
//! inside. If a cluster leads to another EDS resource, the one before is followed until the
//! endpoints of the new one are there. The policy that a cluster chooses is reported with its
//! endpoints; a cluster that is removed leaves the last one as it is.

mod facts;
mod flow;
mod requests;
mod route;
mod subscription;

pub use facts::Facts;

use crate::assignment::Assignment;
use crate::cluster::{Cluster, ClusterEndpoints};
use crate::content::shown;
use crate::fleet_name::FleetName;
use crate::node::Node;
use crate::policy_config::{PolicyCheck, PolicyConfig};
use crate::response::type_of;
use crate::{CDS_TYPE, EDS_TYPE, messages};
use bytes::Bytes;
use core::time::Duration;
use flow::Flow;
use route::Route;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use subscription::{Event, Failure};

/// How long a resource may be missing on a stream until it counts as not existing.
pub const MISSING_AFTER: Duration = Duration::from_secs(15);

/// How long a new stream must last until the resources that are known count as confirmed. A control
/// plane sends nothing if the client's versions are current.
pub const CONFIRMED_AFTER: Duration = Duration::from_secs(2);

/// How long the second NACK in a row waits. Some control planes send a rejected response again at
/// once, for as long as it is rejected.
pub const NACK_WAIT: Duration = Duration::from_secs(1);

/// The longest wait of a NACK. Each one waits twice as long as the one before.
pub const NACK_WAIT_MAX: Duration = Duration::from_secs(10);

/// The longest text of a NACK, in bytes.
const NACK_BYTES_MAX: usize = 4096;

/// The longest reason of a failure, in bytes: parts of it may be the control plane's own.
const WHY_BYTES_MAX: usize = 1024;

/// The most mistakes that a NACK names.
const MISTAKES_NAMED_MAX: usize = 8;

/// The variant of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each request names all resources, and each response has one version.
    StateOfTheWorld,
    /// Requests and responses name what changes, and each resource has its own version (delta).
    Incremental,
}

/// What the owner must know about a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A version of the fleet was accepted, perhaps the one that was known already.
    Accepted {
        /// The fleet.
        name: FleetName,
        /// The version of the resource with the endpoints.
        version: String,
        /// Its endpoints, with remarks about the cluster, too.
        assignment: Arc<Assignment>,
        /// The policy that its cluster chooses; `None` if it chooses none.
        policy: Option<Arc<PolicyConfig>>,
    },
    /// There is no good new version, for this reason. The last one, if there is any, is still the
    /// best that is known.
    Failed {
        /// The fleet.
        name: FleetName,
        /// The reason.
        why: String,
        /// Whether the control plane was reached: the failure is about its answer, or about the
        /// lack of one on an open stream.
        has_answered: bool,
    },
}

/// The client.
#[derive(Debug)]
pub struct Client {
    node: Node,
    mode: Mode,
    check: PolicyCheck,
    clusters: Flow<Cluster>,
    endpoints: Flow<Assignment>,
    /// Where each cluster that is subscribed to leads.
    routes: BTreeMap<String, Route>,
    /// The EDS resources that are subscribed to by their own name.
    named: BTreeSet<String>,
    /// `None` while there is no stream.
    stream: Option<Stream>,
    reports: VecDeque<Report>,
    facts: Facts,
}

/// State of one stream.
#[derive(Debug)]
struct Stream {
    began: Duration,
    /// Whether a response has come.
    has_answered: bool,
    /// For the first request.
    node: Option<messages::Node>,
}

impl Client {
    /// A client without subscriptions and without a stream.
    pub fn new(node: Node, mode: Mode) -> Self {
        Self {
            node,
            mode,
            check: |_| Ok(()),
            clusters: Flow::default(),
            endpoints: Flow::default(),
            routes: BTreeMap::new(),
            named: BTreeSet::new(),
            stream: None,
            reports: VecDeque::new(),
            facts: Facts::default(),
        }
    }

    /// Rejects clusters whose policy does not pass this check. Without it, every configuration is
    /// accepted.
    #[must_use]
    pub fn with_check(self, check: PolicyCheck) -> Self {
        Self { check, ..self }
    }

    /// The variant of the protocol.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether there is nothing to subscribe to, so that no stream is needed.
    pub fn is_idle(&self) -> bool {
        self.clusters.is_idle() && self.endpoints.is_idle()
    }

    /// Names of the fleets that are subscribed to.
    pub fn names(&self) -> Vec<FleetName> {
        let clusters = self.clusters.names().cloned().map(FleetName::Cluster);
        let named = self.named.iter().cloned().map(FleetName::Endpoints);
        clusters.chain(named).collect()
    }

    /// Counts of what has happened so far.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Subscribes to a fleet. `now` is the time since any fixed moment, here and below. Subscribing
    /// again has no effect.
    ///
    /// # Errors
    ///
    /// Fails if there are 4,096 subscriptions of its kind already.
    pub fn subscribe(&mut self, now: Duration, name: &FleetName) -> Result<(), String> {
        match name {
            FleetName::Cluster(cluster) => {
                self.clusters.subscribe(now, cluster)?;
                self.routes.entry(cluster.clone()).or_default();
            }
            FleetName::Endpoints(resource) => {
                self.endpoints.subscribe(now, resource)?;
                if self.named.insert(resource.clone()) {
                    // A cluster may have led to it before.
                    self.repeat(name);
                }
            }
        }
        Ok(())
    }

    /// Reports again what is known about a fleet, for a reader that has begun later.
    pub fn repeat(&mut self, name: &FleetName) {
        let (fleet, failure) = match name {
            FleetName::Cluster(cluster) => {
                let failure = self.clusters.failure(cluster).cloned();
                let failure = failure.or_else(|| self.failure_of_endpoints(cluster));
                (self.fleet_of(cluster), failure)
            }
            FleetName::Endpoints(resource) => {
                let known = self.endpoints.known(resource);
                let fleet = known.map(|known| (known.version.clone(), Arc::clone(&known.content)));
                (fleet, self.endpoints.failure(resource).cloned())
            }
        };
        self.report(name.clone(), fleet, failure);
    }

    /// Ends a subscription. What was known about the fleet is forgotten.
    pub fn unsubscribe(&mut self, name: &FleetName) {
        match name {
            FleetName::Cluster(cluster) => {
                self.clusters.unsubscribe(cluster);
                let route = self.routes.remove(cluster).unwrap_or_default();
                self.release(route.into_resources());
            }
            FleetName::Endpoints(resource) => {
                self.named.remove(resource);
                self.release([resource.clone()]);
            }
        }
    }

    /// Ends the subscriptions to EDS resources that are not needed any more.
    fn release(&mut self, resources: impl IntoIterator<Item = String>) {
        for resource in resources {
            let mut routes = self.routes.values();
            if !self.named.contains(&resource) && !routes.any(|route| route.uses(&resource)) {
                self.endpoints.unsubscribe(&resource);
            }
        }
    }

    /// A stream was opened.
    pub fn connected(&mut self, now: Duration) {
        self.clusters.connected(now);
        self.endpoints.connected(now);
        self.stream = Some(Stream {
            began: now,
            has_answered: false,
            node: Some(self.node.message()),
        });
    }

    /// The stream has ended, or could not be opened, for this reason. Returns whether the control
    /// plane [had been reached](Self::is_reached): then the loss is an ordinary one, and fleets
    /// that are known are reported only if the next stream fails, too.
    pub fn disconnected(&mut self, now: Duration, why: &str) -> bool {
        let was_reached = self.is_reached(now);
        self.stream = None;
        self.facts.nonce.clear();
        self.clusters.disconnected(was_reached, why);
        self.endpoints.disconnected(was_reached, why);
        self.settle(now);
        was_reached
    }

    /// A message has arrived.
    ///
    /// # Errors
    ///
    /// Fails if it is no response, or one too many before answers: then the owner ends the stream.
    pub fn received(&mut self, now: Duration, message: Bytes) -> Result<(), String> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let answer = match type_of(&message)?.as_str() {
            CDS_TYPE if self.clusters.is_requested() => self
                .clusters
                .received(now, self.mode, message, self.check)?,
            EDS_TYPE if self.endpoints.is_requested() => self
                .endpoints
                .received(now, self.mode, message, self.check)?,
            // Nothing of another type was requested, so nothing is answered.
            _ => {
                self.facts.foreign += 1;
                return Ok(());
            }
        };
        stream.has_answered = true;
        self.facts.nonce = answer.nonce;
        if answer.rejection.is_none() {
            self.facts.accepted += 1;
        } else {
            self.facts.rejected += 1;
            self.facts.rejection = answer.rejection;
        }
        self.settle(now);
        Ok(())
    }

    /// Turns what has happened to resources into reports about fleets. Clusters come first: the
    /// failure of one is the cause of those of its endpoints.
    fn settle(&mut self, now: Duration) {
        while let Some((name, event)) = self.clusters.poll_event() {
            match event {
                Event::Accepted(version, cluster) => self.lead(now, name, version, &cluster),
                Event::Failed(failure) => self.fail(FleetName::Cluster(name), failure),
            }
        }
        while let Some((resource, event)) = self.endpoints.poll_event() {
            match event {
                Event::Accepted(version, assignment) => {
                    self.arrive(&resource, &version, &assignment);
                }
                Event::Failed(failure) => self.pass_on(&resource, &failure),
            }
        }
    }

    /// A version of a cluster was accepted: it leads to an EDS resource, or has its endpoints
    /// inside.
    fn lead(&mut self, now: Duration, name: String, version: String, cluster: &Cluster) {
        let Some(route) = self.routes.get_mut(&name) else {
            return;
        };
        let policy = cluster.policy.as_ref();
        let policy = policy.map(|policy| Arc::clone(&policy.config));
        match &cluster.endpoints {
            ClusterEndpoints::Inline(assignment) => {
                route.policy = policy;
                let released = route.end_at_cluster();
                self.release(released);
                let assignment = cluster.remark_on(assignment);
                self.accept(FleetName::Cluster(name), version, assignment);
            }
            ClusterEndpoints::Resource(resource) => {
                if let Err(why) = self.endpoints.subscribe(now, resource) {
                    self.clusters.refuse(&name, &why);
                    return;
                }
                // A refused version changes nothing, so its policy is not in use either.
                route.policy = policy;
                let is_known = self.endpoints.known(resource).is_some();
                let released = route.lead_to(resource, is_known);
                let has_arrived = route.has_arrived();
                self.release(released);
                let fleet = self.fleet_of(&name).filter(|_| has_arrived);
                let failure = self.failure_of_answer(&name);
                self.report(FleetName::Cluster(name), fleet, failure);
            }
        }
    }

    /// A version of an EDS resource was accepted.
    fn arrive(&mut self, resource: &str, version: &str, assignment: &Arc<Assignment>) {
        if self.named.contains(resource) {
            let name = FleetName::Endpoints(resource.to_owned());
            self.accept(name, version.to_owned(), Arc::clone(assignment));
        }
        for cluster in self.clusters_at(resource) {
            let route = self.routes.get_mut(&cluster);
            let released = route.and_then(|route| route.arrive(resource));
            self.release(released);
            let fleet = (version.to_owned(), self.remark_on(&cluster, assignment));
            // A cluster that has failed itself, or leads elsewhere by now, has not recovered.
            let failure = self.clusters.failure(&cluster).cloned();
            let failure = failure.or_else(|| self.failure_of_answer(&cluster));
            self.report(FleetName::Cluster(cluster), Some(fleet), failure);
        }
    }

    /// There is no good new version of an EDS resource.
    fn pass_on(&mut self, resource: &str, failure: &Failure) {
        if self.named.contains(resource) {
            let name = FleetName::Endpoints(resource.to_owned());
            self.fail(name, failure.clone());
        }
        for cluster in self.clusters_at(resource) {
            let end = self.routes.get(&cluster).and_then(Route::end);
            if end == Some(resource) && self.clusters.failure(&cluster).is_none() {
                let failure = of_endpoints(resource, failure);
                self.fail(FleetName::Cluster(cluster), failure);
            }
        }
    }

    /// Names of the clusters that need an EDS resource.
    fn clusters_at(&self, resource: &str) -> Vec<String> {
        let routes = self.routes.iter();
        let routes = routes.filter(|(_, route)| route.uses(resource));
        routes.map(|(name, _)| name.clone()).collect()
    }

    /// The last good version of a cluster's endpoints.
    fn fleet_of(&self, name: &str) -> Option<(String, Arc<Assignment>)> {
        let Some(resource) = self.routes.get(name).and_then(Route::current) else {
            let known = self.clusters.known(name)?;
            let ClusterEndpoints::Inline(assignment) = &known.content.endpoints else {
                return None;
            };
            return Some((known.version.clone(), known.content.remark_on(assignment)));
        };
        let known = self.endpoints.known(resource)?;
        Some((known.version.clone(), self.remark_on(name, &known.content)))
    }

    /// Endpoints with the remarks about the cluster that leads to them.
    fn remark_on(&self, cluster: &str, assignment: &Arc<Assignment>) -> Arc<Assignment> {
        let known = self.clusters.known(cluster);
        known.map_or_else(
            || Arc::clone(assignment),
            |known| known.content.remark_on(assignment),
        )
    }

    /// The failure of the EDS resource that a cluster leads to.
    fn failure_of_endpoints(&self, cluster: &str) -> Option<Failure> {
        let resource = self.routes.get(cluster)?.end()?;
        let failure = self.endpoints.failure(resource)?;
        Some(of_endpoints(resource, failure))
    }

    /// The failure of the EDS resource that a cluster leads to, unless it was about a stream: the
    /// next stream is open by now.
    fn failure_of_answer(&self, cluster: &str) -> Option<Failure> {
        let failure = self.failure_of_endpoints(cluster);
        failure.filter(|failure| failure.has_answered)
    }

    /// Reports the last good version of a fleet, and why there is no newer one.
    fn report(
        &mut self,
        name: FleetName,
        fleet: Option<(String, Arc<Assignment>)>,
        failure: Option<Failure>,
    ) {
        if let Some((version, assignment)) = fleet {
            self.accept(name.clone(), version, assignment);
        }
        if let Some(failure) = failure {
            self.fail(name, failure);
        }
    }

    fn accept(&mut self, name: FleetName, version: String, assignment: Arc<Assignment>) {
        let policy = match &name {
            FleetName::Cluster(cluster) => {
                self.routes.get(cluster).and_then(|it| it.policy.clone())
            }
            FleetName::Endpoints(_) => None,
        };
        self.reports.push_back(Report::Accepted {
            name,
            version,
            assignment,
            policy,
        });
    }

    fn fail(&mut self, name: FleetName, Failure { why, has_answered }: Failure) {
        self.reports.push_back(Report::Failed {
            name,
            why,
            has_answered,
        });
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines = [self.clusters.deadline(), self.endpoints.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Handles deadlines that have passed.
    pub fn poll(&mut self, now: Duration) {
        self.clusters.poll(now);
        self.endpoints.poll(now);
        self.settle(now);
    }

    /// Returns the next message to send on the stream: about clusters first, since endpoints depend
    /// on them.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        let node = &mut self.stream.as_mut()?.node;
        let message = self.clusters.poll_transmit(self.mode, node);
        let message = message.or_else(|| self.endpoints.poll_transmit(self.mode, node));
        self.facts.requests += u64::from(message.is_some());
        message
    }

    /// Returns the next report.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Whether the stream has lasted long enough, or has brought an answer, so that the control
    /// plane counts as reached.
    pub fn is_reached(&self, now: Duration) -> bool {
        self.stream.as_ref().is_some_and(|stream| {
            stream.has_answered || now >= stream.began.saturating_add(CONFIRMED_AFTER)
        })
    }
}

/// The failure of an EDS resource as one of a cluster that leads to it.
fn of_endpoints(resource: &str, failure: &Failure) -> Failure {
    // A failure of the stream is about all resources.
    if !failure.has_answered {
        return failure.clone();
    }
    let resource = shown(resource);
    Failure::of_answer(&format!("EDS resource {resource:?}: {}", failure.why))
}

/// Joins mistakes into the text of a NACK.
fn joined(mistakes: &[String]) -> String {
    let named = mistakes.iter().take(MISTAKES_NAMED_MAX).cloned();
    let mut text = named.collect::<Vec<_>>().join("; ");
    let more = mistakes.len().saturating_sub(MISTAKES_NAMED_MAX);
    if more > 0 {
        text = format!("{text}; and {more} more");
    }
    text.truncate(text.floor_char_boundary(NACK_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests;
