//! What is done to a client's request before any replica gets it: its head is made fit (`head`),
//! and its connection changes to another protocol only if the replica's can.

use super::RequestBody;
use crate::forward::head::Origin;
use crate::forward::head::{Refusal, hygiene, not_implemented};
use http::Request;
use slackwater_config::{Connect, ReplicaProtocol};

/// Makes a client's request fit for a replica.
pub fn prepare_request(
    request: &mut Request<RequestBody>,
    protocol: ReplicaProtocol,
    connect: Connect,
    origin: &Origin,
) -> Result<(), Refusal> {
    check_upgrade(request.body(), protocol)?;
    hygiene::prepare_request(request, protocol, connect, origin)
}

/// Makes sure that a protocol that the client asks for, and may have, is one that the replica can
/// be asked for: over HTTP/2 a connection does not change.
fn check_upgrade(body: &RequestBody, protocol: ReplicaProtocol) -> Result<(), Refusal> {
    if protocol == ReplicaProtocol::Http1 || body.upgrade().is_none() {
        return Ok(());
    }
    Err(not_implemented(
        "the replicas speak HTTP/2 here, over which the protocol cannot change",
    ))
}
