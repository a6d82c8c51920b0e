//! Preparation of a client's request for any replica: its head is cleaned (`head`), and an upgrade
//! is allowed only if the replica's protocol supports it.

use super::RequestBody;
use crate::forward::head::Origin;
use crate::forward::head::{Refusal, hygiene, not_implemented};
use slackwater_config::{Connect, ReplicaProtocol};
use slackwater_http::Request;

/// Prepares a client's request for a replica.
pub fn prepare_request(
    request: &mut Request<RequestBody>,
    protocol: ReplicaProtocol,
    connect: Connect,
    origin: &Origin,
) -> Result<(), Refusal> {
    check_upgrade(request.body(), protocol)?;
    hygiene::prepare_request(request, protocol, connect, origin)
}

/// Rejects an allowed upgrade if the replica speaks HTTP/2, over which a connection cannot switch
/// its protocol.
fn check_upgrade(body: &RequestBody, protocol: ReplicaProtocol) -> Result<(), Refusal> {
    if protocol == ReplicaProtocol::Http1 || body.upgrade().is_none() {
        return Ok(());
    }
    Err(not_implemented(
        "the replicas speak HTTP/2 here, over which the protocol cannot change",
    ))
}
