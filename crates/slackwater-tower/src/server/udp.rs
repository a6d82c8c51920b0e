//! Answers probes over UDP, and receives messages about tied queries from other replicas.
//!
//! The loop has no queue of its own: it answers what the socket holds, a batch at a time. Replies
//! that cannot be sent at once are dropped, because a late report is worth less than none. Nothing
//! that arrives can end the loop. Refused datagrams are only counted: see "Rules" in
//! `docs/reference/probe-protocol.md`.

use super::Load;
use super::admission::Admission;
use super::counts::{add, add_one};
use crate::datagrams::{BATCH, Datagrams, Incoming, Outgoing, is_drained};
use crate::wire::ProbeKey;
use crate::wire::datagram::{
    DATAGRAM_BYTES_MAX, Malformed, ProbeReply, decode_begun, decode_request, encode_reply,
};
use core::time::Duration;
use std::io::{Error, ErrorKind};
use tokio::net::UdpSocket;

/// Datagrams answered before other tasks of the thread get their turn; about 0.1 ms. An error
/// counts as one.
const TURN_DATAGRAMS: usize = 32;

/// The pause after a turn of nothing but errors, such as those of a network that is down.
const FAILING_PAUSE: Duration = Duration::from_millis(10);

/// Errors in a row, with no datagram between them, after which the socket counts as broken.
const ERRORS_IN_A_ROW_MAX: usize = 64;

/// As [`respond_udp`], and passes other replicas' messages about tied queries to `admission`. These
/// are never answered.
pub async fn respond_udp_tied(
    socket: UdpSocket,
    load: Load,
    key: Option<ProbeKey>,
    admission: Admission,
) -> Error {
    respond(socket, load, key, Some(admission)).await
}

/// Answers every probe that reaches `socket` with the current load, for as long as it is polled.
/// Drop it to stop. With a `key`, only datagrams made with that key are answered; without, only
/// those that have no tag.
///
/// Returns only if the socket is certainly broken, or if the runtime shuts down. On a host with
/// several addresses, bind the socket to the one that clients use. A reply from a wildcard socket
/// leaves by the address that routing chooses, and clients ignore replies from addresses that they
/// did not probe.
///
/// ```no_run
/// # async fn example(load: slackwater_tower::server::Load) -> std::io::Result<()> {
/// let socket = tokio::net::UdpSocket::bind("127.0.0.1:8081").await?;
/// tokio::spawn(slackwater_tower::server::respond_udp(socket, load, None));
/// # Ok(())
/// # }
/// ```
pub async fn respond_udp(socket: UdpSocket, load: Load, key: Option<ProbeKey>) -> Error {
    respond(socket, load, key, None).await
}

async fn respond(
    socket: UdpSocket,
    load: Load,
    key: Option<ProbeKey>,
    admission: Option<Admission>,
) -> Error {
    let at = match socket.local_addr() {
        Ok(at) => at,
        Err(error) => return error,
    };
    let mut responder = Responder {
        load,
        key,
        admission,
        probes: Incoming::new(at),
        replies: Outgoing::new(),
        errors_in_a_row: 0,
    };
    loop {
        if let Err(error) = socket.readable().await {
            return error;
        }
        match responder.answer_turn(&socket) {
            Turn::Drained => {}
            Turn::More => tokio::task::yield_now().await,
            Turn::Failing => tokio::time::sleep(FAILING_PAUSE).await,
            Turn::Broken(error) => return error,
        }
    }
}

struct Responder {
    load: Load,
    key: Option<ProbeKey>,
    /// `None`: messages about tied queries are not expected.
    admission: Option<Admission>,
    probes: Incoming,
    replies: Outgoing,
    /// Errors since the last datagram.
    errors_in_a_row: usize,
}

enum Turn {
    /// Nothing is left to receive.
    Drained,
    /// The turn is over, and datagrams may be left.
    More,
    /// There were only errors, and none of them means that the socket is broken.
    Failing,
    Broken(Error),
}

impl Responder {
    /// Answers what has arrived, at most [`TURN_DATAGRAMS`].
    fn answer_turn(&mut self, socket: &impl Datagrams) -> Turn {
        let mut turn = Turn::Failing;
        let mut left = TURN_DATAGRAMS;
        while left > 0 {
            let most = left.min(BATCH);
            let got = match socket.receive_batch(&mut self.probes, most) {
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Turn::Drained,
                Err(error) if is_too_long(&error) => {
                    let counts = &self.load.live_counts().probes;
                    counts.udp_refuse(Malformed::TooLong);
                    left -= 1;
                    continue;
                }
                Err(error) => {
                    add_one(&self.load.live_counts().probes.udp_receive_errors);
                    self.errors_in_a_row += usize::from(!is_about_an_earlier_reply(&error));
                    if self.errors_in_a_row >= ERRORS_IN_A_ROW_MAX {
                        return Turn::Broken(error);
                    }
                    left -= 1;
                    continue;
                }
            };
            self.errors_in_a_row = 0;
            left -= got;
            turn = Turn::More;
            self.answer_batch(got);
            self.send(socket);
            if is_drained(got, most) {
                return Turn::Drained;
            }
        }
        turn
    }

    /// Writes the replies to the first `got` probes of the batch.
    fn answer_batch(&mut self, got: usize) {
        self.replies.clear();
        for (datagram, from) in self.probes.first(got) {
            let write = |into: &mut _| answer(datagram, &self.load, self.key.as_ref(), into);
            let refused = match (self.replies.add(from, write), &self.admission) {
                (Err(Malformed::Kind), Some(admission)) => {
                    let begun = decode_begun(datagram, self.key.as_ref());
                    begun.map(|name| admission.tied_copy_started(from.ip(), name))
                }
                (answered, _) => answered,
            };
            if let Err(malformed) = refused {
                self.load.live_counts().probes.udp_refuse(malformed);
            }
        }
    }

    /// Sends the replies of the batch. A reply that cannot be sent does not affect the others. If
    /// the socket is full, the rest is dropped.
    fn send(&self, socket: &impl Datagrams) {
        let counts = &self.load.live_counts().probes;
        let mut first = 0;
        while first < self.replies.len() {
            match socket.send_batch(&self.replies, first) {
                Ok(sent) => {
                    add(&counts.udp_answered, sent);
                    first += sent;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    add(&counts.udp_unsent, self.replies.len() - first);
                    return;
                }
                Err(_) => {
                    add_one(&counts.udp_unsent);
                    first += 1;
                }
            }
        }
    }
}

/// Writes the reply to one datagram; returns its size.
fn answer(
    datagram: &[u8],
    load: &Load,
    key: Option<&ProbeKey>,
    into: &mut [u8; DATAGRAM_BYTES_MAX],
) -> Result<usize, Malformed> {
    let request = decode_request(datagram, key)?;
    let reply = ProbeReply {
        nonce: request.nonce,
        report: load.report(Some(request.hint)),
    };
    let bytes = encode_reply(&reply, key, into);
    debug_assert!(bytes <= datagram.len(), "a reply never amplifies");
    Ok(bytes)
}

/// Windows reports a datagram that does not fit as an error; elsewhere it is cut.
fn is_too_long(error: &Error) -> bool {
    const WSAEMSGSIZE: i32 = 10040;
    cfg!(windows) && error.raw_os_error() == Some(WSAEMSGSIZE)
}

/// Whether the error is the network's report (ICMP) that an earlier reply was not delivered.
fn is_about_an_earlier_reply(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::Interrupted
    )
}
