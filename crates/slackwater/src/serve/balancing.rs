//! One worker's decisions: which replica gets a request, and whether another one gets it after that.
//!
//! A request is tried on a second replica only when it certainly never reached the first one's application; whatever may
//! have had an effect is not done twice. Each attempt is a [`Flight`], which ends exactly once: at the end of the
//! response's body, with an error, or by being dropped when the client leaves.

use crate::config::{Config, ReplicaProtocol};
use crate::forward::{
    Cause, Deadlines, End, Failure, Handler, Origin, Replica, ReplicaCounts, ReplicaOptions,
    RequestBody, ResponseBody, Target, Watch, answer, prepare_request, refuse,
};
use bytes::Bytes;
use core::future::poll_fn;
use http::{Request, Response, StatusCode};
use slackwater_core::ReplicaId;
use slackwater_core::policy::{Outcome, Query};
use slackwater_tower::client::{Balancer, InsertError, Lease, Picked, ReplicaAddrs, Round};
use std::rc::Rc;
use std::sync::Arc;

/// A replica to this worker.
#[derive(Debug)]
struct Member {
    id: ReplicaId,
    name: String,
    replica: Replica,
    counts: Arc<[ReplicaCounts]>,
    /// Its place in `counts`.
    index: usize,
}

impl Member {
    fn counts(&self) -> &ReplicaCounts {
        &self.counts[self.index]
    }
}

/// A worker's fleet and its balancer.
#[derive(Debug)]
pub(super) struct Balancing {
    balancer: Balancer,
    /// By `id`, lowest first, which is also the order of the configuration.
    members: Vec<Rc<Member>>,
    protocol: ReplicaProtocol,
}

impl Balancing {
    /// Puts the configured replicas into the balancer.
    pub(super) fn new(
        config: &Config,
        options: &Rc<ReplicaOptions>,
        balancer: Balancer,
        deadlines: &Rc<Deadlines>,
        counts: &Arc<[ReplicaCounts]>,
    ) -> Result<Self, InsertError> {
        let mut members = Vec::with_capacity(config.replicas.len());
        for (index, replica) in config.replicas.iter().enumerate() {
            let id = balancer.insert(ReplicaAddrs {
                query: replica.address,
                probe: replica.probe_address,
            })?;
            members.push(Rc::new(Member {
                id,
                name: replica.name.clone(),
                replica: Replica::new(Target::Tcp(replica.address), options, deadlines),
                counts: Arc::clone(counts),
                index,
            }));
        }
        members.sort_by_key(|member| member.id);
        Ok(Self {
            balancer,
            members,
            protocol: options.protocol,
        })
    }

    /// What the policy calls each replica, in the order of the configuration.
    pub(super) fn ids(&self) -> Vec<ReplicaId> {
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_by_key(|member| member.index);
        members.into_iter().map(|member| member.id).collect()
    }

    /// Closes connections to replicas that have been idle for too long.
    pub(super) fn sweep(&self) {
        for member in &self.members {
            member.replica.sweep();
        }
    }

    async fn pick(&self, query: Query<'_>) -> Option<Box<Flight>> {
        let lease = match self.balancer.pick(query) {
            Picked::Ready(lease) => lease,
            Picked::NoReplica => return None,
            // In a box, so that the others do not carry its size around.
            Picked::Probing(round) => Box::pin(ask(round, query)).await?,
        };
        let replica = lease.replica();
        let place = self
            .members
            .binary_search_by_key(&replica, |member| member.id);
        let member = Rc::clone(self.members.get(place.ok()?)?);
        Some(Box::new(Flight {
            lease: Some(lease),
            member,
            is_server_error: false,
        }))
    }
}

/// Waits for the answers of a synchronous round.
async fn ask(mut round: Round, query: Query<'_>) -> Option<Lease> {
    round.send(&Bytes::new());
    poll_fn(|cx| round.poll_ready(cx)).await;
    round.finish(query)
}

/// One attempt at a request.
#[derive(Debug)]
pub(super) struct Flight {
    /// There until it ends.
    lease: Option<Lease>,
    member: Rc<Member>,
    is_server_error: bool,
}

impl Flight {
    async fn send(
        mut self: Box<Self>,
        request: Box<Request<RequestBody>>,
    ) -> Result<Response<ResponseBody<Box<Self>>>, Failure> {
        self.member.counts().sent.add_one();
        match self.member.replica.exchange(request).await {
            Ok(reply) => {
                let status = reply.status();
                self.is_server_error = status.is_server_error();
                if let Some(lease) = &mut self.lease {
                    lease.head_ready(if self.is_server_error {
                        Outcome::Failed
                    } else {
                        Outcome::Success
                    });
                }
                self.member.counts().count_response(status);
                Ok(reply.into_response(self))
            }
            Err(failure) => {
                self.fail(&failure);
                Err(failure)
            }
        }
    }

    fn fail(&mut self, failure: &Failure) {
        let counts = self.member.counts();
        let outcome = match &failure.cause {
            Cause::Unreachable(_) => {
                counts.connect_failures.add_one();
                Outcome::Unreachable
            }
            Cause::Broken(_) if failure.unsent.is_some() => {
                counts.broken.add_one();
                Outcome::Unreachable
            }
            Cause::Withdrawn => {
                counts.count_response(StatusCode::SERVICE_UNAVAILABLE);
                Outcome::Unreachable
            }
            Cause::Broken(_) | Cause::Coding | Cause::Switched => {
                counts.broken.add_one();
                Outcome::Failed
            }
            Cause::FirstByte => {
                counts.timeouts.add_one();
                Outcome::Failed
            }
            Cause::ClientStalled | Cause::ClientBroken => {
                counts.client_gone.add_one();
                Outcome::Dropped
            }
        };
        tracing::debug!(
            replica = self.member.name,
            target = %self.member.replica.target(),
            cause = %failure.cause,
            "a request failed"
        );
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(lease) = self.lease.take() {
            lease.finish(outcome);
        }
    }
}

impl Watch for Box<Flight> {
    fn finish(mut self, end: End) {
        let outcome = match end {
            End::Complete if self.is_server_error => Outcome::Failed,
            End::Complete => Outcome::Success,
            End::Broken => {
                self.member.counts().broken.add_one();
                Outcome::Failed
            }
            End::Stalled => {
                self.member.counts().timeouts.add_one();
                Outcome::Failed
            }
        };
        self.end(outcome);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.lease.is_some() {
            self.member.counts().client_gone.add_one();
            self.end(Outcome::Dropped);
        }
    }
}

impl Handler for Balancing {
    type Watch = Box<Flight>;

    async fn handle(
        &self,
        mut request: Box<Request<RequestBody>>,
        origin: &Origin,
    ) -> Response<ResponseBody<Box<Flight>>> {
        if let Err(refusal) = prepare_request(&mut request, self.protocol, origin) {
            return refuse(refusal);
        }
        let Some(first) = self.pick(Query::first()).await else {
            return answer(None);
        };
        let tried = [first.member.id];
        match first.send(request).await {
            Ok(response) => response,
            Err(Failure {
                unsent: Some(request),
                cause,
            }) => Box::pin(self.try_another(request, &tried, &cause)).await,
            Err(Failure { cause, .. }) => answer(Some(&cause)),
        }
    }
}

impl Balancing {
    /// The second and last try; without another replica the first one's failure is the answer.
    async fn try_another(
        &self,
        request: Box<Request<RequestBody>>,
        tried: &[ReplicaId],
        first_cause: &Cause,
    ) -> Response<ResponseBody<Box<Flight>>> {
        let Some(second) = self.pick(Query::retry(tried)).await else {
            return answer(Some(first_cause));
        };
        second.member.counts().retries.add_one();
        match second.send(request).await {
            Ok(response) => response,
            Err(failure) => answer(Some(&failure.cause)),
        }
    }
}
