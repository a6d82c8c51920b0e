//! The hints of queries that a replica has answered lately: an estimate of what is in its caches.
//!
//! A client that probes for each query sends a hint of what the query is about, in its probes and
//! in the query itself. A replica that has answered a query with this hint probably still has its
//! data at hand. It reports a lower load to that probe, and so attracts the query. The application
//! need not know. `[S3]` `[Prequal §4 "Synchronous mode"]`
//!
//! Hints are hashed with a random seed of this process. A client can therefore neither fill the
//! memory with long hints nor find two hints with the same hash.

use crate::clock::Clock;
use core::fmt;
use core::hash::BuildHasher;
use core::num::{NonZeroU64, NonZeroUsize};
use core::time::Duration;
use lru::LruCache;
use slackwater_core::{Instant, LoadScale};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bounded memory of hints; clones share it.
#[derive(Clone)]
pub struct HintCache {
    shared: Arc<Shared>,
}

/// Settings of a [`HintCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintCacheSettings {
    /// The most hints; the one that was least recently answered is dropped. About as many as the
    /// application's cache has entries. Default: 100,000, which takes up to 10 MB.
    pub entries: NonZeroUsize,
    /// A hint is forgotten this long after it was last answered. Default: 10 minutes.
    pub age: Duration,
    /// The scale of the load that is reported to a probe whose hint is known. Default: 340/1024,
    /// a third.
    pub scale: LoadScale,
}

impl Default for HintCacheSettings {
    fn default() -> Self {
        Self {
            entries: NonZeroUsize::MIN.saturating_add(99_999),
            age: Duration::from_mins(10),
            scale: LoadScale::from_1024ths(340),
        }
    }
}

/// The hash of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HintHash(NonZeroU64);

struct Shared {
    hashes: RandomState,
    clock: Clock,
    age: Duration,
    scale: LoadScale,
    known: Mutex<Known>,
}

/// Guarded by a lock that is held for a lookup. Only queries and probes with a hint take it.
struct Known {
    answered_at: LruCache<HintHash, Instant>,
    hits: u64,
    misses: u64,
}

/// The counts of a [`HintCache`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintCounts {
    /// Hints that are in memory.
    pub entries: usize,
    /// Probes whose hint was known.
    pub hits: u64,
    /// Probes whose hint was not known.
    pub misses: u64,
}

impl HintCache {
    /// An empty memory.
    pub fn new(settings: HintCacheSettings) -> Self {
        Self {
            shared: Arc::new(Shared {
                hashes: RandomState::new(),
                clock: Clock::new(),
                age: settings.age,
                scale: settings.scale,
                known: Mutex::new(Known {
                    answered_at: LruCache::new(settings.entries),
                    hits: 0,
                    misses: 0,
                }),
            }),
        }
    }

    /// Notes that a query with this hint has been answered. An empty hint is none.
    pub fn answered(&self, hint: &[u8]) {
        if let Some(hash) = self.hash(hint) {
            self.answered_hash(hash);
        }
    }

    /// Returns the scale of the load for a probe with this hint.
    pub fn scale(&self, hint: &[u8]) -> LoadScale {
        let Some(hash) = self.hash(hint) else {
            return LoadScale::ONE;
        };
        let now = self.shared.clock.now();
        let mut known = self.lock();
        let answered_at = known.answered_at.peek(&hash).copied();
        let is_known = answered_at.is_some_and(|at| now.saturating_since(at) < self.shared.age);
        if is_known {
            known.hits += 1;
            return self.shared.scale;
        }
        if answered_at.is_some() {
            known.answered_at.pop(&hash);
        }
        known.misses += 1;
        LoadScale::ONE
    }

    /// Forgets all hints, as when the application has restarted with empty caches.
    pub fn forget_all(&self) {
        self.lock().answered_at.clear();
    }

    /// Counts since the start.
    pub fn counts(&self) -> HintCounts {
        let known = self.lock();
        HintCounts {
            entries: known.answered_at.len(),
            hits: known.hits,
            misses: known.misses,
        }
    }

    pub(super) fn hash(&self, hint: &[u8]) -> Option<HintHash> {
        let hash = self.shared.hashes.hash_one(hint);
        (!hint.is_empty()).then_some(HintHash(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN)))
    }

    pub(super) fn answered_hash(&self, hash: HintHash) {
        let now = self.shared.clock.now();
        self.lock().answered_at.put(hash, now);
    }

    /// A panic under the lock leaves it intact.
    fn lock(&self) -> MutexGuard<'_, Known> {
        let known = &self.shared.known;
        known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for HintCache {
    fn default() -> Self {
        Self::new(HintCacheSettings::default())
    }
}

impl fmt::Debug for HintCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HintCache")
            .field("age", &self.shared.age)
            .field("scale", &self.shared.scale)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Load, LoadLayer};
    use crate::wire::headers::HINT;
    use core::convert::Infallible;
    use http::{Request, Response};
    use tower::ServiceExt;
    use tower_layer::Layer;

    fn cache(entries: usize, age_ms: u64) -> HintCache {
        HintCache::new(HintCacheSettings {
            entries: NonZeroUsize::new(entries).expect("not zero"),
            age: Duration::from_millis(age_ms),
            ..HintCacheSettings::default()
        })
    }

    fn knows(cache: &HintCache, hint: &[u8]) -> bool {
        cache.scale(hint) != LoadScale::ONE
    }

    #[test]
    fn answered_hints_scale_the_load() {
        let cache = cache(10, 1000);
        assert_eq!(cache.scale(b"a"), LoadScale::ONE);
        cache.answered(b"a");
        assert_eq!(cache.scale(b"a").in_1024ths(), 340);
        assert!(!knows(&cache, b"b"));
        cache.answered(b"");
        assert!(!knows(&cache, b""), "no hint");
        let counts = cache.counts();
        assert_eq!((counts.entries, counts.hits, counts.misses), (1, 1, 2));
        cache.clone().forget_all();
        assert!(!knows(&cache, b"a"));
    }

    #[test]
    fn memory_is_bounded_and_drops_the_least_recently_answered() {
        let cache = cache(2, 1000);
        cache.answered(b"a");
        cache.answered(b"b");
        cache.answered(b"a");
        assert!(knows(&cache, b"b"), "probes do not keep a hint");
        cache.answered(&vec![b'c'; 1 << 20]);
        assert_eq!(cache.counts().entries, 2);
        assert!(knows(&cache, b"a") && !knows(&cache, b"b"));
    }

    #[tokio::test(start_paused = true)]
    async fn hints_are_forgotten_after_their_age() {
        let cache = cache(2, 1000);
        cache.answered(b"a");
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(knows(&cache, b"a"));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!knows(&cache, b"a"));
        assert_eq!(cache.counts().entries, 0, "it takes no memory either");
    }

    #[tokio::test]
    async fn layer_notes_the_hints_of_good_answers() {
        let load = Load::builder().hint_cache(HintCache::default()).build();
        let service = tower::service_fn(|request: Request<String>| async move {
            let status = if request.uri().path() == "/bad" {
                500
            } else {
                200
            };
            let response = Response::builder().status(status).body(String::new());
            Ok::<_, Infallible>(response.expect("valid"))
        });
        let service = LoadLayer::new(load.clone()).layer(service);
        let knows = |hint: &[u8]| load.report(Some(hint)).load_scale != LoadScale::ONE;
        // In hexadecimal: `a`, `b`, and no hexadecimal.
        for (path, hint) in [("/bad", "61"), ("/", "62"), ("/", "zz"), ("/", "")] {
            let request = Request::get(path).header(HINT, hint).body(String::new());
            let answered = service.clone().oneshot(request.expect("valid")).await;
            drop(answered.expect("an answer"));
        }
        assert!(!knows(b"a"), "it failed");
        assert!(knows(b"b"));
        assert_eq!(load.hint_counts().map(|counts| counts.entries), Some(1));
        load.forget_hints();
        assert!(!knows(b"b"));
    }
}
