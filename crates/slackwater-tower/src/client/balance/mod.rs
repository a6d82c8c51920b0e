//! The tower service: a [`Balancer`] over discovered services.
//!
//! ```
//! use slackwater_tower::client::{Balance, Balancer, NoProber, ReplicaAddrs};
//! use std::net::SocketAddr;
//! use tower::{BoxError, ServiceExt, discover::Change, service_fn};
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
//! # runtime.expect("a runtime").block_on(async {
//!
//! // Any stream of changes works. Here: two replicas, without connections.
//! let service = |addr: SocketAddr| {
//!     service_fn(move |_: http::Request<String>| async move {
//!         Ok::<_, BoxError>(http::Response::new(format!("from {addr}")))
//!     })
//! };
//! let replicas: [SocketAddr; 2] = [([127, 0, 0, 1], 8001).into(), ([127, 0, 0, 1], 8002).into()];
//! let changes = replicas.map(|addr| Ok::<_, BoxError>(Change::Insert(addr, service(addr))));
//!
//! let balancer = Balancer::with_default_policy(NoProber);
//! let changes = futures_util::stream::iter(changes);
//! let (balance, membership) =
//!     Balance::new(balancer, changes, |&addr| ReplicaAddrs::from(addr));
//! membership.await.expect("this discovery does not fail");
//!
//! let response = balance.oneshot(http::Request::new(String::new())).await.expect("an answer");
//! assert_eq!(response.status(), 200);
//! # });
//! ```
//!
//! # Readiness
//!
//! `poll_ready` is always ready, and has nothing to do with replicas: `call` picks one, when there
//! is a query. The response future clones the chosen service, drives *that clone* to readiness and
//! calls it. So a caller that does not call reserves nothing, no clone inherits a readiness that it
//! does not have, and no replica waits for the next query to make progress. While the chosen
//! service is not ready, the query counts as in flight there. Limits, timeouts and load shedding
//! belong in layers around this one. Services must be `Clone`; wrap each that is not in a
//! [`tower::buffer`](https://docs.rs/tower/latest/tower/buffer/index.html).
//!
//! # The end of a query
//!
//! The lease ends with the response's body, or when the response future or the body is dropped. A
//! response without a body ends at once. What follows `101 Switching Protocols` is not watched.

mod body;
mod classify;
mod copies;
mod future;
mod membership;

pub use body::LeasedBody;
pub use classify::{ByStatus, Classify, is_connect_error};
pub use copies::Copies;
pub use future::ResponseFuture;
pub use membership::Membership;

use super::balancer::{Balancer, Picked};
use super::lease::Lease;
use super::replicas::{InsertError, ReplicaAddrs, ReplicaMap};
use crate::wire::HINT_BYTES_MAX;
use crate::wire::headers::write_hint;
use bytes::Bytes;
use core::fmt;
use core::task::{Context, Poll};
use future::State;
use futures_util::task::AtomicWaker;
use http::{Request, Response};
use http_body::Body;
use slackwater_core::ReplicaId;
use slackwater_core::key::KeyHash;
use slackwater_core::policy::Query;
use std::sync::{Arc, Once, PoisonError, RwLock};
use tower::discover::Discover;
use tower::{BoxError, Service};

/// Reads the query hint off a request. `[S3]`
type HintOf<B> = Box<dyn Fn(&Request<B>) -> Option<Bytes> + Send + Sync>;

/// Reads the key of a request.
type KeyOf<B> = Box<dyn Fn(&Request<B>) -> Option<KeyHash> + Send + Sync>;

/// Error: there is no replica to send a query to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no replica is known, or the request has been at all of them")]
pub struct NoReplica;

/// Balances HTTP requests over services `S`; cheap to clone.
pub struct Balance<S, B> {
    shared: Arc<Shared<S, B>>,
}

/// State that all handles share.
pub(super) struct Shared<S, B> {
    balancer: Balancer,
    /// The service of each replica that `balancer` knows. It changes together with the balancer,
    /// under this lock. Picks take the lock for reading, so every picked replica has a service.
    services: RwLock<ReplicaMap<S>>,
    classify: Arc<dyn Classify>,
    key: Option<KeyOf<B>>,
    hint: Option<HintOf<B>>,
    passes_hints_on: bool,
    /// A hint that is too long is logged once.
    hint_too_long: Once,
    membership_waker: Arc<AtomicWaker>,
}

/// A pick, with the service to call.
pub(super) struct Chosen<S> {
    lease: Lease,
    service: S,
}

impl<S, B> Balance<S, B> {
    /// Creates a service over the replicas that `discover` finds, and the future that follows it,
    /// which must be spawned. `addrs` maps a key to its addresses. From now on only this service
    /// changes the balancer's replicas. Spawn [`Balancer::drive`], too, unless
    /// [`Balancer::with_default_policy`] has done so.
    pub fn new<D, A>(balancer: Balancer, discover: D, addrs: A) -> (Self, Membership<D, A, B>)
    where
        D: Discover<Service = S>,
        A: Fn(&D::Key) -> ReplicaAddrs,
    {
        BalanceBuilder::new(balancer).build(discover, addrs)
    }

    /// Creates a service over `services`, each with its address. The set of replicas is fixed. From
    /// now on only this service changes the balancer's replicas.
    ///
    /// # Errors
    ///
    /// An address is there twice, or there are too many. The balancer then has none of them.
    pub fn over<A: Into<ReplicaAddrs>>(
        balancer: Balancer,
        services: impl IntoIterator<Item = (A, S)>,
    ) -> Result<Self, InsertError> {
        BalanceBuilder::new(balancer).build_over(services)
    }

    /// The balancer inside, for counters and snapshots.
    pub fn balancer(&self) -> &Balancer {
        &self.shared.balancer
    }
}

/// Builds a [`Balance`] with settings other than the defaults.
pub struct BalanceBuilder<B> {
    balancer: Balancer,
    classify: Arc<dyn Classify>,
    key: Option<KeyOf<B>>,
    hint: Option<HintOf<B>>,
    passes_hints_on: bool,
}

impl<B> BalanceBuilder<B> {
    /// Starts from the defaults: [`ByStatus`], no keys and no hints.
    pub fn new(balancer: Balancer) -> Self {
        Self {
            balancer,
            classify: Arc::new(ByStatus),
            key: None,
            hint: None,
            passes_hints_on: false,
        }
    }

    /// Classifies outcomes by `classify`.
    #[must_use]
    pub fn classify(mut self, classify: impl Classify) -> Self {
        self.classify = Arc::new(classify);
        self
    }

    /// Sends requests with the same key to the same replicas while these are not busy. The
    /// balancer's policy must be [`keyed`](slackwater_core::keys::keyed); others ignore keys.
    ///
    /// ```
    /// use slackwater_tower::client::balance::BalanceBuilder;
    /// use slackwater_tower::client::{Balancer, NoProber};
    /// use slackwater_tower::default_policy;
    /// use slackwater_tower::keys::{KeyConfig, KeyHasher, keyed};
    ///
    /// let policy = keyed(default_policy(), &KeyConfig::default());
    /// let keys = KeyHasher::default();
    /// let builder = BalanceBuilder::<String>::new(Balancer::new(policy, NoProber)).key(
    ///     move |request| Some(keys.hash(request.headers().get("x-user")?.as_bytes())),
    /// );
    /// ```
    #[must_use]
    pub fn key(
        mut self,
        key: impl Fn(&Request<B>) -> Option<KeyHash> + Send + Sync + 'static,
    ) -> Self {
        self.key = Some(Box::new(key));
        self
    }

    /// Whether a request carries the hint of its probes in `x-slackwater-hint`, for replicas that
    /// note the hints of what they have answered: see
    /// [`HintCache`](crate::server::HintCache). Default: no.
    #[must_use]
    pub const fn pass_hints_on(mut self, passes: bool) -> Self {
        self.passes_hints_on = passes;
        self
    }

    /// Puts into the probes for a query what `hint` reads from its request: at most
    /// [`HINT_BYTES_MAX`] bytes. A longer hint is left out, and the first such is logged. Only
    /// policies that probe for each query call it. `[S3]`
    #[must_use]
    pub fn hint(
        mut self,
        hint: impl Fn(&Request<B>) -> Option<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.hint = Some(Box::new(hint));
        self
    }

    /// As [`Balance::new`].
    pub fn build<D, A>(self, discover: D, addrs: A) -> (Balance<D::Service, B>, Membership<D, A, B>)
    where
        D: Discover,
        A: Fn(&D::Key) -> ReplicaAddrs,
    {
        let shared = self.shared(ReplicaMap::default());
        let membership = Membership::new(discover, addrs, &shared);
        (Balance { shared }, membership)
    }

    /// As [`Balance::over`].
    pub fn build_over<A: Into<ReplicaAddrs>, S>(
        self,
        services: impl IntoIterator<Item = (A, S)>,
    ) -> Result<Balance<S, B>, InsertError> {
        let mut inserted = ReplicaMap::default();
        for (addrs, service) in services {
            match self.balancer.insert(addrs) {
                Ok(replica) => {
                    inserted.insert(replica, service);
                }
                Err(error) => {
                    for replica in inserted.into_keys() {
                        self.balancer.remove(replica);
                    }
                    return Err(error);
                }
            }
        }
        let shared = self.shared(inserted);
        Ok(Balance { shared })
    }

    fn shared<S>(self, services: ReplicaMap<S>) -> Arc<Shared<S, B>> {
        Arc::new(Shared {
            balancer: self.balancer,
            services: RwLock::new(services),
            classify: self.classify,
            key: self.key,
            hint: self.hint,
            passes_hints_on: self.passes_hints_on,
            hint_too_long: Once::new(),
            membership_waker: Arc::default(),
        })
    }
}

impl<S, B> Shared<S, B> {
    /// Inserts a replica. The service comes back with the error.
    fn insert(&self, addrs: ReplicaAddrs, service: S) -> Result<ReplicaId, (InsertError, S)> {
        let mut services = self
            .services
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match self.balancer.insert(addrs) {
            Ok(replica) => {
                services.insert(replica, service);
                Ok(replica)
            }
            Err(error) => Err((error, service)),
        }
    }

    fn replace(&self, replica: ReplicaId, service: S) {
        let mut services = self
            .services
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let replaced = services.insert(replica, service);
        drop(services);
        // Not under the lock: dropping a service may run arbitrary code.
        drop(replaced);
    }

    fn remove(&self, replica: ReplicaId) {
        let mut services = self
            .services
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.balancer.remove(replica);
        let removed = services.remove(&replica);
        drop(services);
        drop(removed);
    }

    /// Picks by `choose` for one of these copies, and takes the chosen replica's service.
    fn find(
        &self,
        copies: Option<&Copies>,
        choose: impl FnOnce(Query<'_>) -> Option<Lease>,
    ) -> Option<Chosen<S>>
    where
        S: Clone,
    {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let lease = Copies::choose(copies, &self.balancer, choose)?;
        let service = services.get(&lease.replica()).cloned()?;
        Some(Chosen { lease, service })
    }

    /// The key of this request.
    fn key_of(&self, request: &Request<B>) -> Option<KeyHash> {
        self.key.as_ref().and_then(|key| key(request))
    }

    /// The hint for the probes of this request.
    fn hint_of(&self, request: &Request<B>) -> Bytes {
        let hint = self.hint.as_ref().and_then(|hint| hint(request));
        let hint = hint.unwrap_or_default();
        if hint.len() <= HINT_BYTES_MAX {
            return hint;
        }
        self.hint_too_long.call_once(|| {
            let bytes = hint.len();
            tracing::warn!(
                bytes,
                "query hint dropped: longer than {HINT_BYTES_MAX} bytes; send a hash of it"
            );
        });
        Bytes::new()
    }

    fn failed<T>(&self, lease: &mut Option<Lease>, error: BoxError) -> Result<T, BoxError> {
        if let Some(lease) = lease.take() {
            lease.finish(self.classify.error(&*error));
        }
        Err(error)
    }

    fn leased<RB: Body>(
        &self,
        response: Response<RB>,
        lease: Lease,
        asks_head_only: bool,
    ) -> Response<LeasedBody<RB>> {
        let (head, body) = response.into_parts();
        let body = LeasedBody::new(
            body,
            lease,
            &head,
            Arc::clone(&self.classify),
            asks_head_only,
        );
        Response::from_parts(head, body)
    }
}

impl<S, B> Drop for Shared<S, B> {
    fn drop(&mut self) {
        self.membership_waker.wake();
    }
}

impl<S, B, RB> Service<Request<B>> for Balance<S, B>
where
    S: Service<Request<B>, Response = Response<RB>> + Clone,
    S::Error: Into<BoxError>,
    RB: Body,
{
    type Response = Response<LeasedBody<RB>>;
    type Error = BoxError;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let mut probing = None;
        let key = self.shared.key_of(&request);
        let pick = |query: Query<'_>| match self.shared.balancer.pick(Query { key, ..query }) {
            Picked::Ready(lease) => Some(lease),
            Picked::NoReplica => None,
            Picked::Probing(round) => {
                probing = Some(round);
                None
            }
        };
        let copies = request.extensions().get::<Copies>();
        let chosen = self.shared.find(copies, pick);
        let hint = if probing.is_some() || self.shared.passes_hints_on {
            self.shared.hint_of(&request)
        } else {
            Bytes::new()
        };
        if self.shared.passes_hints_on {
            // It is not too long: `hint_of` has checked it. It replaces a forged one.
            let _ = write_hint(&hint, request.headers_mut());
        }
        let state = match probing {
            None => State::chosen(chosen, request),
            Some(mut round) => {
                round.send(&hint);
                State::Probing {
                    round: Some(round),
                    request: Some(request),
                }
            }
        };
        ResponseFuture::new(Arc::clone(&self.shared), state)
    }
}

impl<S, B> Clone for Balance<S, B> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S, B> fmt::Debug for Balance<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Balance")
            .field("balancer", &self.shared.balancer)
            .finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for BalanceBuilder<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BalanceBuilder")
            .field("balancer", &self.balancer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::NoProber;
    use crate::wire::headers::HINT;
    use core::convert::Infallible;
    use core::net::SocketAddr;
    use slackwater_core::health::HealthSettings;
    use slackwater_core::keys::{KeyConfig, KeyHasher, keyed};
    use slackwater_core::policy::{Policy, PolicySettings, Settings, policy_named};
    use tower::ServiceExt;

    /// A service over three replicas that answer with their number and the hint of the request.
    fn balance(policy: Box<dyn Policy>) -> Balance<impl Clone + Answers, String> {
        let keys = KeyHasher::default();
        let user = |request: &Request<String>| request.headers().get("x-user").cloned();
        let builder = BalanceBuilder::new(Balancer::new(policy, NoProber))
            .key(move |request| Some(keys.hash(user(request)?.as_bytes())))
            .hint(move |request| Some(Bytes::copy_from_slice(user(request)?.as_bytes())))
            .pass_hints_on(true);
        let replica = |number: u16| {
            let service = tower::service_fn(move |request: Request<String>| async move {
                let hint = request.headers().get(HINT).cloned();
                let hint = hint.map_or_else(String::new, |it| it.to_str().unwrap_or("").into());
                Ok::<_, Infallible>(Response::new(format!("{number}{hint}")))
            });
            (SocketAddr::from(([10, 0, 0, 1], number)), service)
        };
        builder
            .build_over([1, 2, 3].map(replica))
            .expect("distinct")
    }

    trait Answers: Service<Request<String>, Response = Response<String>, Error = Infallible> {}

    impl<S> Answers for S where
        S: Service<Request<String>, Response = Response<String>, Error = Infallible>
    {
    }

    fn build(name: &str) -> Box<dyn Policy> {
        let entry = policy_named(name).expect("a policy");
        let health = HealthSettings::default().validate().expect("valid");
        let policy = slackwater_core::health::build(entry, &PolicySettings::default(), &health);
        keyed(policy, &KeyConfig::default())
    }

    async fn ask<S: Answers + Clone>(balance: &Balance<S, String>, user: &str) -> String {
        let request = Request::builder()
            .header("x-user", user)
            .body(String::new());
        let response = balance.clone().oneshot(request.expect("valid")).await;
        let body = response.expect("an answer").into_body();
        let body = http_body_util::BodyExt::collect(body)
            .await
            .expect("a body");
        String::from_utf8(body.to_bytes().into()).expect("text")
    }

    #[tokio::test]
    async fn requests_with_the_same_key_go_to_the_same_replica() {
        let balance = balance(build("round_robin"));
        let mut homes = std::collections::BTreeSet::new();
        for user in 0..64 {
            let user = user.to_string();
            let home = ask(&balance, &user).await;
            assert_eq!(ask(&balance, &user).await, home);
            assert_eq!(ask(&balance, &user).await, home);
            homes.insert(home.chars().next());
        }
        assert_eq!(homes.len(), 3);
    }

    #[tokio::test]
    async fn forged_hints_are_not_passed_on() {
        for policy in ["prequal_sync", "round_robin"] {
            let request = Request::builder().header(HINT, "666f72676564");
            let request = request.body(String::new()).expect("valid");
            let response = balance(build(policy)).oneshot(request).await;
            let body = response.expect("an answer").into_body();
            let body = http_body_util::BodyExt::collect(body).await;
            assert_eq!(body.expect("a body").to_bytes().len(), 1, "{policy}");
        }
    }

    #[tokio::test]
    async fn requests_carry_the_hint_of_their_probes() {
        // The second picks without probes.
        for policy in ["prequal_sync", "round_robin"] {
            let balance = balance(build(policy));
            assert!(ask(&balance, "a").await.ends_with("61"), "{policy}");
        }
    }
}
