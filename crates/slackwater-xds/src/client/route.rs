//! The way from a cluster to its endpoints.

use crate::policy_config::PolicyConfig;
use std::sync::Arc;

/// The EDS resources that a cluster's fleet comes from. A cluster that leads to another resource
/// keeps the one before until the endpoints of the new one are known.
#[derive(Debug, Default)]
pub(super) struct Route {
    /// The resource whose endpoints are in use.
    current: Option<String>,
    /// The resource whose first endpoints are awaited.
    next: Option<String>,
    /// The policy that the last good version of the cluster chooses.
    pub(super) policy: Option<Arc<PolicyConfig>>,
}

impl Route {
    /// Whether the resource is needed.
    pub(super) fn uses(&self, resource: &str) -> bool {
        [&self.current, &self.next]
            .into_iter()
            .any(|name| name.as_deref() == Some(resource))
    }

    /// The resource whose endpoints are in use.
    pub(super) fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// The resource that the cluster leads to.
    pub(super) fn end(&self) -> Option<&str> {
        self.next.as_deref().or(self.current())
    }

    /// Whether the endpoints of the resource that the cluster leads to are in use.
    pub(super) const fn has_arrived(&self) -> bool {
        self.next.is_none()
    }

    /// The cluster leads to this resource, whose endpoints may be known. Returns a resource that is
    /// no longer needed here.
    pub(super) fn lead_to(&mut self, resource: &str, is_known: bool) -> Vec<String> {
        if self.current() == Some(resource) {
            return self.next.take().into_iter().collect();
        }
        let mut released = Vec::new();
        if self.next.as_deref() != Some(resource) {
            released.extend(self.next.replace(resource.to_owned()));
        }
        if is_known {
            released.extend(self.arrive(resource));
        }
        released
    }

    /// The endpoints of a resource are known. Returns the one before if they take its place.
    pub(super) fn arrive(&mut self, resource: &str) -> Option<String> {
        let next = self.next.take_if(|next| next == resource)?;
        self.current.replace(next)
    }

    /// The cluster has its endpoints inside. Returns the resources that are no longer needed here.
    pub(super) fn end_at_cluster(&mut self) -> Vec<String> {
        let resources = [self.current.take(), self.next.take()];
        resources.into_iter().flatten().collect()
    }

    /// Ends the route. Returns its resources.
    pub(super) fn into_resources(self) -> impl Iterator<Item = String> {
        self.current.into_iter().chain(self.next)
    }
}
