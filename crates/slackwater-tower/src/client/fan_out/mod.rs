//! One request to every shard of a service, and the results.
//!
//! A request that needs all of a hundred servers is as slow as the slowest of them, and one that
//! brings servers down brings down all of them. [`FanOut`] limits both effects with the methods of
//! "The Tail at Scale" (Dean and Barroso, 2013). `[H3]`
//!
//! - **Canary requests.** One or two leaves get the request first, and the others when one of these
//!   has succeeded. If none does, the others get nothing, and the error is a [`CanaryError`]. The
//!   cost is the time of one more answer.
//! - **Good enough.** The result is returned when a share of the leaves has answered, or when the
//!   time is over, whichever comes first. It lists the result of each leaf ([`Gathered`]):
//!   answered, failed, not awaited, not sent.
//! - **Hedged leaves** ([`FanOut::with_hedging`]). A leaf that is late gets a second request,
//!   within a budget. The shard's own service decides where that copy goes; a `Balance` sends it to
//!   another replica ([`FanOut::call_http`]).
//! - **Cancellation.** Everything runs within the one future, and nothing is spawned. Requests that
//!   are no longer awaited are dropped with it, and dropping the future cancels all of them.
//!
//! A shard is a tower `Service` that can be cloned, such as a [`Balance`](super::Balance) over the
//! shard's replicas, or a future that a closure makes from the shard's number. `Ok` counts as a
//! success. The leaf must turn any other result (a response with status 500) into an `Err`, and
//! must read a body that belongs to the result.
//!
//! ```
//! use core::time::Duration;
//! use slackwater_tower::Quantile;
//! use slackwater_tower::policy::Settings;
//! use slackwater_tower::tail::HedgeSettings;
//! use slackwater_tower::client::fan_out::{FanOut, FanOutSettings};
//! use tower::{BoxError, service_fn};
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
//! # runtime.expect("a runtime").block_on(async {
//!
//! // Three shards. In production each would be a `Balance`.
//! let shard = |number: usize| {
//!     service_fn(move |query: String| async move {
//!         Ok::<_, BoxError>(format!("{query} of shard {number}"))
//!     })
//! };
//! let shards = [shard(0), shard(1), shard(2)];
//!
//! let mut settings = FanOutSettings::default();
//! settings.enough = Quantile::from_millionths(950_000).expect("at most 1");
//! settings.enough_after = Duration::from_millis(50);
//! settings.deadline = Some(Duration::from_millis(200));
//! let hedging = HedgeSettings::for_fan_out().validate().expect("they are valid");
//! let fan_out = FanOut::new(settings.validate().expect("they are valid")).with_hedging(hedging);
//!
//! let gathered = fan_out.call(&shards, |_shard| "results".to_owned()).await;
//! let gathered = gathered.expect("a canary answers");
//! assert!(gathered.is_complete());
//! for (shard, answer) in gathered.into_answers() {
//!     assert_eq!(answer, format!("results of shard {shard}"));
//! }
//! # });
//! ```

mod gathered;
mod hedging;
mod settings;

pub use gathered::{CanaryError, Gathered, Leaf};
pub use settings::{FanOutConfig, FanOutSettings};

use super::balance::Copies;
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hedging::Hedging;
use http::Request;
use slackwater_core::tail::{HedgeConfig, HedgeCounters};
use tokio::time::{Instant, sleep_until};
use tower_service::Service;

/// Longer than any fan-out, and within the range of any clock.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// Sends requests to many shards. Use one for all requests of a kind, shared by reference.
#[derive(Debug)]
pub struct FanOut {
    config: FanOutConfig,
    hedging: Option<Hedging>,
    /// The shard at which the next fan-out starts.
    turn: AtomicUsize,
}

impl FanOut {
    /// Creates a fan-out without hedges.
    pub const fn new(config: FanOutConfig) -> Self {
        Self {
            config,
            hedging: None,
            turn: AtomicUsize::new(0),
        }
    }

    /// Hedges leaves that are late, other than canaries. Lateness is measured against recent leaf
    /// latencies over all shards. The budget counts a fan-out's own leaves as queries.
    /// [`HedgeSettings::for_fan_out`](slackwater_core::tail::HedgeSettings::for_fan_out) has
    /// suitable settings: among a hundred leaves it is likely that both copies of one get stuck,
    /// which a single query hardly ever sees. `[H1]`
    #[must_use]
    pub fn with_hedging(mut self, config: HedgeConfig) -> Self {
        self.hedging = Some(Hedging::new(config));
        self
    }

    /// Counts of hedges; `None` without hedging.
    pub fn hedge_counters(&self) -> Option<HedgeCounters> {
        self.hedging.as_ref().map(Hedging::counters)
    }

    /// Sends each of these shards the request that `request` makes for its number, and makes one
    /// more for each hedge. A service is cloned for each call, and the clone is driven to
    /// readiness.
    pub async fn call<S, R>(
        &self,
        shards: &[S],
        request: impl Fn(usize) -> R,
    ) -> Result<Gathered<S::Response, S::Error>, CanaryError<S::Error>>
    where
        S: Service<R> + Clone,
    {
        let ask = |shard: usize| call(shards[shard].clone(), request(shard));
        self.run(shards.len(), ask).await
    }

    /// As [`FanOut::call`]. If a shard is a [`Balance`](super::Balance), each copy goes to a
    /// different replica: [`Copies`] are put into the extensions of all copies. A hedge that fails
    /// because no replica is left costs no budget, unless the first copy is still waiting for its
    /// probes.
    pub async fn call_http<S, B>(
        &self,
        shards: &[S],
        request: impl Fn(usize) -> Request<B>,
    ) -> Result<Gathered<S::Response, S::Error>, CanaryError<S::Error>>
    where
        S: Service<Request<B>> + Clone,
    {
        let copies: Vec<Copies> = shards.iter().map(|_| Copies::new()).collect();
        let ask = |shard: usize| {
            let mut request = request(shard);
            request.extensions_mut().insert(copies[shard].clone());
            call(shards[shard].clone(), request)
        };
        self.run_copies(shards.len(), ask, &copies).await
    }

    /// Runs `shards` leaves by the futures that `ask` makes for each number from 0 on, and makes
    /// one more for each hedge. Each fan-out starts one shard after the previous one. So all shards
    /// take turns as canaries, and as those that wait when there are more than may be in flight at
    /// once.
    pub async fn run<T, E, F>(
        &self,
        shards: usize,
        ask: impl Fn(usize) -> F,
    ) -> Result<Gathered<T, E>, CanaryError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        self.run_copies(shards, ask, &[]).await
    }

    /// As [`FanOut::run`]. `copies` shows for each shard where its requests went, if that is known.
    async fn run_copies<T, E, F>(
        &self,
        shards: usize,
        ask: impl Fn(usize) -> F,
        copies: &[Copies],
    ) -> Result<Gathered<T, E>, CanaryError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let config = &self.config;
        let began = Instant::now();
        let deadline = began + config.deadline.unwrap_or(NEVER);
        let enough = share_of(config.enough.millionths(), shards);
        let mut gathered = Gathered::new(shards, enough);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut order = (0..shards).map(|place| (turn % shards + place) % shards);
        let mut in_flight = FuturesUnordered::new();

        // Until one canary succeeds, no other shard gets the request. A second canary may still be
        // in flight then, and counts like any other leaf.
        if shards > config.canaries && config.canaries > 0 {
            let canaries = config.canaries.min(config.concurrency_max);
            for shard in order.by_ref().take(canaries) {
                gathered.asked(shard);
                in_flight.push(leaf(shard, &ask, copies, None));
            }
            let patience = deadline.min(began + config.canary_timeout);
            let mut patience = pin!(sleep_until(patience));
            loop {
                let ended = tokio::select! {
                    biased;
                    ended = in_flight.next() => ended,
                    () = &mut patience => None,
                };
                let Some((shard, result)) = ended else {
                    return Err(CanaryError::new(gathered));
                };
                if gathered.ended(shard, result) {
                    break;
                }
            }
        }

        let enough_at = began + config.enough_after;
        let mut deadline = pin!(sleep_until(deadline));
        let mut enough_from = pin!(sleep_until(enough_at));
        let mut is_early = Instant::now() < enough_at;
        // Before `enough_after`, only the deadline and the last leaf end the fan-out.
        while is_early || !gathered.is_enough() {
            let room = config.concurrency_max.saturating_sub(in_flight.len());
            for shard in order.by_ref().take(room) {
                gathered.asked(shard);
                in_flight.push(leaf(shard, &ask, copies, self.hedging.as_ref()));
            }
            tokio::select! {
                biased;
                ended = in_flight.next() => match ended {
                    Some((shard, result)) => {
                        gathered.ended(shard, result);
                    }
                    None => break,
                },
                () = &mut enough_from, if is_early => is_early = false,
                () = &mut deadline => break,
            }
        }
        Ok(gathered)
    }
}

/// Calls a service when it is ready.
async fn call<S: Service<R>, R>(mut service: S, request: R) -> Result<S::Response, S::Error> {
    core::future::poll_fn(|cx| service.poll_ready(cx)).await?;
    service.call(request).await
}

/// Runs one leaf; returns its shard and result.
async fn leaf<T, E, F>(
    shard: usize,
    ask: &impl Fn(usize) -> F,
    copies: &[Copies],
    hedging: Option<&Hedging>,
) -> (usize, Result<T, E>)
where
    F: Future<Output = Result<T, E>>,
{
    let result = match hedging {
        Some(hedging) => hedging.ask(|| ask(shard), copies.get(shard)).await,
        None => ask(shard).await,
    };
    (shard, result)
}

/// Returns `count` × `millionths` / 1,000,000, rounded up.
fn share_of(millionths: u32, count: usize) -> usize {
    let share = (count as u128 * u128::from(millionths)).div_ceil(1_000_000);
    usize::try_from(share).unwrap_or(count)
}
