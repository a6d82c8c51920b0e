//! Shadow trials: copies of requests that are sent to replicas that are taken out, to test them. No
//! client waits for the response.
//!
//! Only requests that may be repeated are copied. A copy is sent after the request itself was
//! answered without an error, so that a request that brought down one replica does not reach
//! another. The response is read and discarded, and the policy learns from it as from any trial.

use super::Service;
use crate::forward::{
    AttemptTimeouts, COPY_BYTES_MAX, COPY_TIME_MAX, RequestBody, RequestTemplate, drain_up_to,
};
use crate::request_record::{AttemptKind, RecordHandle};
use crate::service::attempt::{Attempt, settle};
use slackwater_core::overload::Priority;
use slackwater_http::Request;
use slackwater_tower::wire::asks::set_priority;

impl Service {
    /// Makes a copy of a request that is about to be sent, if a replica waits for a trial and the
    /// request can be copied.
    pub(super) fn copy_for_trial(
        &self,
        request: &Request<RequestBody>,
    ) -> Option<Box<RequestTemplate>> {
        let is_wanted = self.sends_shadow_trials && self.balancer.wants_trial();
        is_wanted
            .then(|| RequestTemplate::of(request).map(Box::new))
            .flatten()
    }

    /// Sends a copy to a replica that still waits for a trial. It takes no permit of the service:
    /// there are at most as many at a time as replicas that are taken out.
    pub(super) fn try_out(&self, copy: &RequestTemplate, record: &RecordHandle) {
        let Some(mut request) = copy.request() else {
            return;
        };
        let Some(lease) = self.balancer.pick_trial() else {
            return;
        };
        let Some(replica) = self.fleet.find(lease.replica()) else {
            return;
        };
        let mut attempt = Box::new(Attempt::new(lease, replica, self.learning));
        if !attempt.try_acquire() {
            return attempt.cancel();
        }
        self.admission.shadow_trials.add_one();
        record.tried_out(&attempt.replica().name);
        attempt.begin(AttemptKind::Trial, record);
        set_priority(request.headers_mut(), Priority::Shadow);
        tokio::task::spawn_local(async move {
            let carried = carry(attempt, request);
            let _ = tokio::time::timeout(COPY_TIME_MAX, carried).await;
        });
    }
}

async fn carry(attempt: Box<Attempt>, request: Box<Request<RequestBody>>) {
    // The trial is not part of the client's request record.
    let record = RecordHandle::default();
    let sent = attempt.send(request, AttemptTimeouts::default(), None, &record);
    if let Ok(mut reply) = sent.await {
        let body = reply.body_mut();
        drain_up_to(body, COPY_BYTES_MAX).await;
        settle(body);
    }
}
