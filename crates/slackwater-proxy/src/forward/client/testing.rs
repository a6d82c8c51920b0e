//! A handler for tests of clients' connections.

use super::Handler;
use crate::forward::answer::refuse;
use crate::forward::head::{Origin, Refusal};
use crate::forward::request::RequestBody;
use crate::forward::response::{Answer, Unwatched};
use http::StatusCode;
use slackwater_http::Request;
use std::rc::Rc;

/// Answers each request at once.
pub(super) struct Refuser;

impl Handler for Refuser {
    type Watch = Unwatched;

    async fn handle(
        &self,
        _request: Box<Request<RequestBody>>,
        _origin: &Rc<Origin>,
    ) -> Answer<Unwatched> {
        refuse(Refusal {
            status: StatusCode::NOT_FOUND,
            reason: "there is nothing",
        })
    }
}
