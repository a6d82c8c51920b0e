//! Counts of a client, for its status.

/// What has happened since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The nonce of the last response on the current stream; empty before.
    pub nonce: String,
    /// Requests sent, ACKs and NACKs among them.
    pub requests: u64,
    /// Responses accepted (ACK).
    pub accepted: u64,
    /// Responses rejected (NACK).
    pub rejected: u64,
    /// Responses of types that were not requested, which are ignored.
    pub foreign: u64,
    /// Text of the last NACK.
    pub rejection: Option<String>,
}
