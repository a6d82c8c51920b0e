//! The fleet's replicas: a future that follows service discovery.
//!
//! Discovery may insert a successor at an address before it removes the predecessor. Such a key
//! waits, and joins when the address is free.

use super::Shared;
use crate::client::replicas::{InsertError, ReplicaAddrs};
use core::future::Future;
use core::hash::Hash;
use core::pin::Pin;
use core::task::{Context, Poll};
use futures_util::task::AtomicWaker;
use pin_project_lite::pin_project;
use slackwater_core::ReplicaId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use tower::discover::{Change, Discover};

/// Changes that are made before other tasks get their turn.
const CHANGES_AT_ONCE: usize = 128;
/// The most keys that may wait to join; more are dropped.
const LEFT_OUT_MAX: usize = 1024;

pin_project! {
    /// Applies the changes that `D` discovers to a [`Balance`](super::Balance). Spawn it, so that
    /// replicas change at once, not when the next query happens to arrive.
    ///
    /// It ends when `D` ends, which leaves the replicas as they are; with the error of a `D` that
    /// fails; or when the last handle of the service is gone.
    #[must_use = "futures do nothing unless polled"]
    pub struct Membership<D: Discover, A, B> {
        #[pin]
        discover: D,
        addrs: A,
        members: Members<D::Key, D::Service>,
        balance: Weak<Shared<D::Service, B>>,
        waker: Arc<AtomicWaker>,
    }
}

impl<D: Discover, A, B> Membership<D, A, B> {
    pub(super) fn new(discover: D, addrs: A, balance: &Arc<Shared<D::Service, B>>) -> Self {
        Self {
            discover,
            addrs,
            members: Members {
                placed: HashMap::new(),
                left_out: VecDeque::new(),
            },
            balance: Arc::downgrade(balance),
            waker: Arc::clone(&balance.membership_waker),
        }
    }
}

impl<D, A, B> Future for Membership<D, A, B>
where
    D: Discover,
    D::Key: Hash,
    A: Fn(&D::Key) -> ReplicaAddrs,
{
    type Output = Result<(), D::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        this.waker.register(cx.waker());
        for _ in 0..CHANGES_AT_ONCE {
            let Some(balance) = this.balance.upgrade() else {
                return Poll::Ready(Ok(()));
            };
            match this.discover.as_mut().poll_discover(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(Some(Ok(Change::Insert(key, service)))) => {
                    let addrs = (this.addrs)(&key);
                    this.members.insert(&balance, key, addrs, service);
                }
                Poll::Ready(Some(Ok(Change::Remove(key)))) => {
                    this.members.remove(&balance, &key);
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The replicas of the fleet, and the keys that wait to join.
struct Members<K, S> {
    placed: HashMap<K, (ReplicaId, ReplicaAddrs)>,
    /// The longest wait first; at most [`LEFT_OUT_MAX`].
    left_out: VecDeque<LeftOut<K, S>>,
}

/// A key that joins as soon as the obstacle is gone.
struct LeftOut<K, S> {
    key: K,
    addrs: ReplicaAddrs,
    service: S,
    error: InsertError,
}

impl<K: Hash + Eq, S> Members<K, S> {
    /// Inserts a key. A known key gets the new service; it stays the same replica if its addresses
    /// are the same.
    fn insert<B>(&mut self, balance: &Shared<S, B>, key: K, addrs: ReplicaAddrs, service: S) {
        self.left_out.retain(|left_out| left_out.key != key);
        let before = self.placed.remove(&key);
        if let Some((replica, at)) = before
            && at == addrs
        {
            balance.replace(replica, service);
            self.placed.insert(key, (replica, addrs));
            return;
        }
        // Insert the new replica before the old one is removed, so that the fleet always has one of
        // them. If the old one is in its way, insert it afterwards.
        let mut joined = balance.insert(addrs, service);
        if let Some((replica, _)) = before {
            balance.remove(replica);
            if let Err((_, service)) = joined {
                joined = balance.insert(addrs, service);
            }
        }
        match joined {
            Ok(replica) => {
                self.placed.insert(key, (replica, addrs));
            }
            Err((error, service)) => self.leave_out(LeftOut {
                key,
                addrs,
                service,
                error,
            }),
        }
        if let Some((_, at)) = before {
            self.fill(balance, at);
        }
    }

    fn remove<B>(&mut self, balance: &Shared<S, B>, key: &K) {
        self.left_out.retain(|left_out| left_out.key != *key);
        if let Some((replica, at)) = self.placed.remove(key) {
            balance.remove(replica);
            self.fill(balance, at);
        }
    }

    fn leave_out(&mut self, left_out: LeftOut<K, S>) {
        let error = left_out.error;
        if self.left_out.len() < LEFT_OUT_MAX {
            tracing::warn!(%error, "discovered replica waits to join");
            self.left_out.push_back(left_out);
        } else {
            tracing::warn!(%error, "discovered replica dropped: {LEFT_OUT_MAX} wait to join already");
        }
    }

    /// Inserts the waiting keys that nothing keeps out any more, after a replica left `at`.
    fn fill<B>(&mut self, balance: &Shared<S, B>, at: ReplicaAddrs) {
        // One round over the queue, so that the keys that stay keep their order.
        for _ in 0..self.left_out.len() {
            let Some(waiting) = self.left_out.pop_front() else {
                return;
            };
            let may_join = match waiting.error {
                InsertError::Duplicate { addr, .. } => addr == at.query,
                InsertError::Full => true,
            };
            if !may_join {
                self.left_out.push_back(waiting);
                continue;
            }
            let LeftOut {
                key,
                addrs,
                service,
                ..
            } = waiting;
            match balance.insert(addrs, service) {
                Ok(replica) => {
                    self.placed.insert(key, (replica, addrs));
                }
                Err((error, service)) => self.left_out.push_back(LeftOut {
                    key,
                    addrs,
                    service,
                    error,
                }),
            }
        }
    }
}

impl<D: Discover, A, B> core::fmt::Debug for Membership<D, A, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Membership")
            .field("members", &self.members.placed.len())
            .field("left_out", &self.members.left_out.len())
            .finish_non_exhaustive()
    }
}
