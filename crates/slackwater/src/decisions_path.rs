//! The path at which the admin server reports why replicas were picked: `GET /decisions`.

use futures_util::FutureExt;
use http::StatusCode;
use slackwater_admin::{AdminServer, in_pieces, refusal};
use slackwater_proxy::decisions::{Archive, answer};
use std::sync::Arc;

/// Adds the path to the server. It reports the decisions in `archives`.
pub(crate) fn add(server: AdminServer, archives: Vec<Arc<Archive>>) -> AdminServer {
    server.get("/decisions", move |asked| {
        let reply = match answer(&archives, asked.query.pairs()) {
            Ok(told) => in_pieces(told.content_type, told.pieces),
            Err(mistake) => refusal(StatusCode::BAD_REQUEST, mistake),
        };
        core::future::ready(reply).boxed()
    })
}
