//! One request to every shard of a service, and what came of it.
//!
//! A request that needs all of a hundred servers is as slow as the slowest of them, and one that
//! brings servers down brings down all of them. [`FanOut`] asks many and bounds both, by the means
//! of "The Tail at Scale" (Dean and Barroso, 2013). `[H3]`
//!
//! - **Canary requests.** One or two leaves are asked first, and the rest when one of these has
//!   answered well. If none does, the rest is not asked at all, and the error says so
//!   ([`CanaryError`]). The price is the time of one more answer.
//! - **Good enough.** The result is there when a share of the leaves has answered, or when the time
//!   is over, whichever comes first. It tells what came of each leaf ([`Gathered`]): answered,
//!   failed, not waited for, not even asked.
//! - **Hedged leaves** ([`FanOut::with_hedging`]). A leaf that is late is asked again, for a
//!   budget. The shard's own service decides where the further copy goes; a `Balance` sends it to
//!   another replica ([`FanOut::call_http`]).
//! - **Cancellation of the rest.** Everything runs within the one future, and nothing is spawned:
//!   what is no longer waited for is dropped with it, and whoever drops the future takes all of it
//!   back.
//!
//! A shard is a tower `Service` that can be cloned, such as a [`Balance`](super::Balance) over the
//! shard's replicas, or whatever a closure makes of its number. `Ok` is a good answer: what else is
//! none (a response that says 500) the leaf has to make an `Err` of, as it has to read a body that
//! is to be a part of the result.
//!
//! ```
//! use core::time::Duration;
//! use slackwater_tower::Quantile;
//! use slackwater_tower::policy::Settings;
//! use slackwater_tower::tail::HedgeSettings;
//! use slackwater_tower::client::fan_out::{FanOut, FanOutSettings};
//! use tower::{BoxError, service_fn};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(async {
//!
//! // Three shards; in earnest each would be a `Balance`.
//! let shard = |number: usize| {
//!     service_fn(move |query: String| async move { Ok::<_, BoxError>(format!("{query} of shard {number}")) })
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
//! let gathered = fan_out.call(&shards, |_shard| "results".to_owned()).await.expect("the canaries live");
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

/// Far enough to be never, and near enough for any clock.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// Asks many shards. One for all requests of a kind, shared by reference.
#[derive(Debug)]
pub struct FanOut {
    config: FanOutConfig,
    hedging: Option<Hedging>,
    /// Where the next fan-out begins.
    turn: AtomicUsize,
}

impl FanOut {
    /// A fan-out without further copies.
    pub const fn new(config: FanOutConfig) -> Self {
        Self {
            config,
            hedging: None,
            turn: AtomicUsize::new(0),
        }
    }

    /// Leaves other than canaries are asked again when they are late, which is told by how long
    /// leaves took lately, all shards together. A fan-out's own leaves count as queries of the
    /// budget. [`HedgeSettings::for_fan_out`](slackwater_core::tail::HedgeSettings::for_fan_out)
    /// are settings for it: who waits for a hundred leaves meets both copies of one stuck where a
    /// single query hardly ever does. `[H1]`
    #[must_use]
    pub fn with_hedging(mut self, config: HedgeConfig) -> Self {
        self.hedging = Some(Hedging::new(config));
        self
    }

    /// What has come of further copies so far; `None` without hedging.
    pub fn hedge_counters(&self) -> Option<HedgeCounters> {
        self.hedging.as_ref().map(Hedging::counters)
    }

    /// Asks each of these shards what `request` makes for its number; again for each further copy.
    /// A service is cloned for each call, and it is the clone that gets ready.
    pub async fn call<S, R>(
        &self,
        shards: &[S],
        request: impl Fn(usize) -> R,
    ) -> Result<Gathered<S::Response, S::Error>, CanaryError<S::Error>>
    where
        S: Service<R> + Clone,
    {
        let ask = |shard: usize| {
            let mut service = shards[shard].clone();
            let request = request(shard);
            async move {
                core::future::poll_fn(|cx| service.poll_ready(cx)).await?;
                service.call(request).await
            }
        };
        self.run(shards.len(), ask).await
    }

    /// As [`FanOut::call`], and each copy goes to another replica than those before it where a
    /// shard is a [`Balance`](super::Balance), by way of the [`Copies`] that are put among the
    /// extensions of all.
    pub async fn call_http<S, B>(
        &self,
        shards: &[S],
        request: impl Fn(usize) -> Request<B>,
    ) -> Result<Gathered<S::Response, S::Error>, CanaryError<S::Error>>
    where
        S: Service<Request<B>> + Clone,
    {
        let copies: Vec<Copies> = shards.iter().map(|_| Copies::new()).collect();
        let request = |shard: usize| {
            let mut request = request(shard);
            request.extensions_mut().insert(copies[shard].clone());
            request
        };
        self.call(shards, request).await
    }

    /// Asks so many shards, by the future that `ask` makes for each one's number, from 0 on; again
    /// for each further copy. Each fan-out begins one shard further on than the one before: all
    /// take turns as canaries, and in having to wait where there are more than may be asked at a
    /// time.
    pub async fn run<T, E, F>(
        &self,
        shards: usize,
        ask: impl Fn(usize) -> F,
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

        if shards > config.canaries && config.canaries > 0 {
            let canaries = config.canaries.min(config.concurrency_max);
            for shard in order.by_ref().take(canaries) {
                gathered.asked(shard);
                in_flight.push(leaf(shard, &ask, None));
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
        while is_early || !gathered.is_enough() {
            let room = config.concurrency_max.saturating_sub(in_flight.len());
            for shard in order.by_ref().take(room) {
                gathered.asked(shard);
                in_flight.push(leaf(shard, &ask, self.hedging.as_ref()));
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

/// One leaf, with its shard.
async fn leaf<T, E, F>(
    shard: usize,
    ask: &impl Fn(usize) -> F,
    hedging: Option<&Hedging>,
) -> (usize, Result<T, E>)
where
    F: Future<Output = Result<T, E>>,
{
    let result = match hedging {
        Some(hedging) => hedging.ask(|| ask(shard)).await,
        None => ask(shard).await,
    };
    (shard, result)
}

/// So many millionths of `count`, rounded up.
fn share_of(millionths: u32, count: usize) -> usize {
    let share = (count as u128 * u128::from(millionths)).div_ceil(1_000_000);
    usize::try_from(share).unwrap_or(count)
}
