//! One attempt at a request: a place taken at a replica, which is given back exactly once, at the end of the response's
//! body, with an error, or by being dropped when the client leaves.

use crate::forward::{
    Cause, End, Failure, Replica, ReplicaCounts, RequestBody, ResponseBody, Watch,
};
use http::{Request, Response, StatusCode};
use slackwater_core::ReplicaId;
use slackwater_core::policy::Outcome;
use slackwater_tower::client::Lease;
use std::rc::Rc;
use std::sync::Arc;

/// A replica to this worker.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: ReplicaId,
    pub(super) name: String,
    pub(super) replica: Rc<Replica>,
    pub(super) counts: Arc<ReplicaCounts>,
}

impl Member {
    pub(super) fn counts(&self) -> &ReplicaCounts {
        &self.counts
    }
}

/// One attempt at a request.
#[derive(Debug)]
pub(in crate::serve) struct Flight {
    /// There until it ends.
    lease: Option<Lease>,
    member: Rc<Member>,
    is_server_error: bool,
}

impl Flight {
    pub(super) const fn new(lease: Lease, member: Rc<Member>) -> Self {
        Self {
            lease: Some(lease),
            member,
            is_server_error: false,
        }
    }

    pub(super) fn member(&self) -> &Member {
        &self.member
    }

    pub(super) async fn send(
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
