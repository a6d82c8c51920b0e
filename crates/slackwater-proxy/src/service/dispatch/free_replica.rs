//! Picks a replica with a free permit in place of one that is full.
//!
//! A policy sees how busy replicas are, but not how many connections may be opened to them. It
//! therefore picks again, a few times, for another replica. A replica that cannot be picked does
//! not replace a full one.

use super::{PickedFor, Service};
use crate::service::attempt::Attempt;
use slackwater_core::ReplicaId;
use slackwater_core::policy::Query;
use tokio::time::Instant;

/// Why a replica was passed over: all of its allowed connections are in use.
const FULL: &str = "full";

/// Maximum number of further picks.
const ASKED_MAX: usize = 8;

impl Service {
    /// Picks a replica with a free permit for a request that was already sent to `tried`, if there
    /// is one now.
    pub(super) async fn pick_free(
        &self,
        tried: &[ReplicaId],
        picked_for: PickedFor<'_>,
    ) -> Option<Box<Attempt>> {
        let mut next = self.pick(Query::retry(tried), picked_for).await?;
        if next.try_acquire() {
            return Some(next);
        }
        self.pick_another(next, tried, picked_for).await
    }

    /// Picks a replica with a free permit in place of a full one, now or as soon as there is one.
    /// Returns `None` if there is none in time, or before the request's deadline `wanted`.
    pub(super) async fn wait_for_replica(
        &self,
        full: Box<Attempt>,
        picked_for: PickedFor<'_>,
        wanted: Option<Instant>,
    ) -> Option<Box<Attempt>> {
        if let Some(other) = self.pick_another(full, &[], picked_for).await {
            return Some(other);
        }
        let replica_limiters = self.replica_limiters.as_ref()?;
        let deadline = replica_limiters.deadline(wanted);
        loop {
            let replica_permit = replica_limiters.wait(deadline).await?;
            let part = self.fleet.part_at(replica_permit.address());
            let query = part.map_or(Query::retry(&[]), Query::with_room);
            let Some(mut attempt) = self.pick(query, picked_for).await else {
                replica_permit.forget();
                return None;
            };
            if attempt.replica().config.address == replica_permit.address() {
                attempt.hold_replica_permit(replica_permit);
                // It can be picked, though requests before this one may have found otherwise.
                if let Some(limiter) = &attempt.replica().replica_limiter {
                    limiter.grant_waiting();
                }
                return Some(attempt);
            }
            // The replica with the free permit cannot be picked.
            replica_permit.forget();
            if attempt.try_acquire() {
                return Some(attempt);
            }
            attempt.cancel();
        }
    }

    async fn pick_another(
        &self,
        full: Box<Attempt>,
        tried: &[ReplicaId],
        picked_for: PickedFor<'_>,
    ) -> Option<Box<Attempt>> {
        let mut avoid = tried.to_vec();
        let mut last = full;
        for _ in 0..ASKED_MAX {
            avoid.extend(&last.replica().parts);
            last.cancel();
            let mut next = self.pick(Query::retry(&avoid), picked_for).await?;
            if !self.fleet.may_choose(next.replica()) {
                last = next;
                break;
            }
            if next.try_acquire() {
                if let Some(explanation) = &mut next.explanation {
                    let full = avoid[tried.len()..].iter();
                    full.for_each(|&part| explanation.pass_over(part, FULL));
                }
                return Some(next);
            }
            last = next;
        }
        last.cancel();
        None
    }
}
