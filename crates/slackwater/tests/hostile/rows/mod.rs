//! The table. Each row has a unique name, the client's actions, the answer, and what the replica
//! has received afterwards.
//!
//! Answers are listed in order: statuses, resets of the stream (HTTP/2), GOAWAY, `closed`. Over
//! HTTP/2 a good request follows on the same connection; it is answered unless the row says that
//! the connection is closed.

#![expect(clippy::too_many_lines, reason = "tables are as long as they are")]

mod chunks;
mod http2_floods;
mod http2_frames;
mod http2_heads;
mod lengths;
mod lines;
mod sizes;
mod slow;
mod targets;
pub(crate) mod tls;

use core::net::SocketAddr;
use core::pin::Pin;

pub(crate) type Act = fn(SocketAddr, SocketAddr) -> Pin<Box<dyn Future<Output = String> + Send>>;

/// The actions of a hostile client.
pub(crate) enum Does {
    /// Sends bytes at once, on a new connection.
    Http1(Vec<u8>),
    /// Sends the first bytes at once, and the rest one by one.
    Slowly(&'static [u8], Vec<u8>),
    /// Sends HTTP/2's preface, these frames, and a good request.
    Http2(Vec<u8>),
    /// Sends bytes whose answer is in HTTP/2.
    Bytes(Vec<u8>),
    /// Any other action, with the proxy's and the replica's address; returns the answer.
    Act(Act),
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) does: Does,
    pub(crate) answer: &'static str,
    pub(crate) seen: &'static [&'static str],
}

pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// All groups, in the order of the page.
pub(crate) fn groups() -> Vec<Group> {
    vec![
        lengths::group(),
        chunks::group(),
        lines::group(),
        targets::group(),
        sizes::group(),
        slow::group(),
        tls::group(),
        http2_heads::group(),
        http2_frames::group(),
        http2_floods::group(),
    ]
}

/// An HTTP/1.1 request that is rejected before the replica receives any of it.
fn refused(name: &'static str, answer: &'static str, bytes: impl Into<Vec<u8>>) -> Row {
    Row {
        name,
        does: Does::Http1(bytes.into()),
        answer,
        seen: &[],
    }
}

/// An HTTP/1.1 request of which the replica receives something.
fn passed(
    name: &'static str,
    answer: &'static str,
    seen: &'static [&'static str],
    bytes: impl Into<Vec<u8>>,
) -> Row {
    Row {
        name,
        does: Does::Http1(bytes.into()),
        answer,
        seen,
    }
}

/// HTTP/2 frames of which the replica receives nothing.
fn frames(name: &'static str, answer: &'static str, frames: Vec<u8>) -> Row {
    Row {
        name,
        does: Does::Http2(frames),
        answer,
        seen: &[],
    }
}
