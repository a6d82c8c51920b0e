//! Who is in the fleet: a future that follows service discovery.

use super::Shared;
use crate::client::replicas::ReplicaAddrs;
use core::future::Future;
use core::hash::Hash;
use core::pin::Pin;
use core::task::{Context, Poll};
use futures_util::task::AtomicWaker;
use pin_project_lite::pin_project;
use slackwater_core::ReplicaId;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tower::discover::{Change, Discover};

/// So many changes are made before other tasks get their turn.
const CHANGES_AT_ONCE: usize = 128;

pin_project! {
    /// Applies the changes that `D` discovers to a [`Balance`](super::Balance). Spawn it: members change when they change,
    /// not when the next query happens to come.
    ///
    /// It ends when `D` ends, which leaves the members as they are, with the error of a `D` that fails, or when the last
    /// handle of the service is gone.
    #[must_use = "futures do nothing unless polled"]
    pub struct Membership<D: Discover, A, B> {
        #[pin]
        discover: D,
        addrs: A,
        members: HashMap<D::Key, (ReplicaId, ReplicaAddrs)>,
        balance: Weak<Shared<D::Service, B>>,
        waker: Arc<AtomicWaker>,
    }
}

impl<D: Discover, A, B> Membership<D, A, B> {
    pub(super) fn new(discover: D, addrs: A, balance: &Arc<Shared<D::Service, B>>) -> Self {
        Self {
            discover,
            addrs,
            members: HashMap::new(),
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
                    insert(&balance, this.members, key, addrs, service);
                }
                Poll::Ready(Some(Ok(Change::Remove(key)))) => {
                    if let Some((replica, _)) = this.members.remove(&key) {
                        balance.remove(replica);
                    }
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A key that is inserted again gets the new service; as the same replica, if it is still at the same place.
fn insert<K: Hash + Eq, S, B>(
    balance: &Shared<S, B>,
    members: &mut HashMap<K, (ReplicaId, ReplicaAddrs)>,
    key: K,
    addrs: ReplicaAddrs,
    service: S,
) {
    match members.get(&key) {
        Some(&(replica, before)) if before == addrs => {
            balance.replace(replica, service);
            return;
        }
        Some(&(replica, _)) => {
            balance.remove(replica);
        }
        None => {}
    }
    match balance.insert(addrs, service) {
        Ok(replica) => {
            members.insert(key, (replica, addrs));
        }
        Err(error) => {
            members.remove(&key);
            tracing::warn!(%error, "a discovered replica was left out");
        }
    }
}

impl<D: Discover, A, B> core::fmt::Debug for Membership<D, A, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Membership")
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}
