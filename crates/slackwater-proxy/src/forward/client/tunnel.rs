//! A connection that has switched to another protocol: bytes are copied both ways until either side
//! ends, or until both are silent for too long.

use crate::forward::replica::http1::Connection;
use crate::forward::response::{End, ResponseBody, Watch};
use crate::forward::session::{Inbound, LINGER};
use crate::forward::wire::Out;
use crate::forward::wire::turn::{self, ROUNDS_MAX};
use core::future::poll_fn;
use core::task::{Context, Poll, ready};
use std::io;

/// Copies bytes between a client and the replica's connection of `body`, after writing `to_client`.
/// Data that one side sent before it ended still reaches the other. If the other has more to send,
/// that is discarded. Returns how the tunnel ended, and whether it ended in order. If one side ends
/// in order, the other side is ended in order, too. Otherwise both are reset, because the end of
/// the connection may be the only mark of the end of the data.
pub(super) async fn relay<W: Watch>(
    inbound: &Inbound,
    mut to_client: Out,
    body: &mut ResponseBody<W>,
) -> (End, bool) {
    // The idle time counts from here, and for both sides.
    inbound.session.moved();
    end_in_order(inbound, body, false);
    let mut refusals = Refusals::default();
    let ended = poll_fn(|cx| {
        let Some(replica) = body.tunnel() else {
            return Poll::Ready((End::Complete, false));
        };
        // Both are polled, so that either can wake this task.
        let down = poll_down(cx, inbound, &mut to_client, replica, &mut refusals);
        let up = poll_up(cx, inbound, replica, &mut refusals);
        match (down, up) {
            (Poll::Pending, Poll::Pending) => body
                .poll_tunnel_idle(&inbound.session, cx)
                .map(|()| (End::TunnelIdle, false)),
            (Poll::Ready(ended), _) | (_, Poll::Ready(ended)) => {
                Poll::Ready((End::Complete, ended.is_ok()))
            }
        }
    });
    let (end, is_in_order) = ended.await;
    end_in_order(inbound, body, is_in_order);
    (end, is_in_order)
}

/// The sides that take no more data, although they may still have sent some.
#[derive(Debug, Default)]
struct Refusals {
    client: bool,
    replica: bool,
}

/// Records in `is_refused` that a side that has ended takes no more data. Any other error is
/// returned: after it the system reports an end in order, though that side was reset.
fn note_refusal(flushed: io::Result<()>, is_refused: &mut bool) -> io::Result<()> {
    match flushed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            *is_refused = true;
            Ok(())
        }
        flushed => flushed,
    }
}

/// Ends the replica's side of a tunnel that has ended in order. What the replica still sends is
/// discarded: as unread data it would turn the end into a reset, by which the replica may lose what
/// was sent to it.
pub(super) async fn end_replica_side(mut replica: Box<Connection>) {
    let discarded = poll_fn(|cx| {
        replica.shut(cx);
        while let Ok(true) = ready!(replica.poll_read(cx)) {
            replica.unread.clear();
        }
        Poll::Ready(())
    });
    let _ = tokio::time::timeout(LINGER, discarded).await;
}

fn end_in_order<W: Watch>(inbound: &Inbound, body: &mut ResponseBody<W>, in_order: bool) {
    inbound.stream.borrow().end_in_order(in_order);
    if let Some(replica) = body.tunnel() {
        replica.end_in_order(in_order);
    }
}

/// Copies from the replica to the client. Ready when the replica has ended and everything is
/// written, or discarded because the client takes no more.
fn poll_down(
    cx: &mut Context<'_>,
    inbound: &Inbound,
    to_client: &mut Out,
    replica: &mut Connection,
    refusals: &mut Refusals,
) -> Poll<io::Result<()>> {
    for _ in 0..ROUNDS_MAX {
        if !refusals.client {
            let flushed = ready!(inbound.poll_flush(to_client, cx));
            note_refusal(flushed, &mut refusals.client)?;
        }
        if replica.unread.is_empty() && !ready!(replica.poll_read(cx))? {
            return Poll::Ready(Ok(()));
        }
        let more = core::mem::take(&mut replica.unread);
        if !refusals.client {
            to_client.push(more, b"");
        }
    }
    turn::end(cx);
    Poll::Pending
}

/// Copies from the client to the replica. Ready when the client has ended and everything is
/// written, or discarded because the replica takes no more.
fn poll_up(
    cx: &mut Context<'_>,
    inbound: &Inbound,
    replica: &mut Connection,
    refusals: &mut Refusals,
) -> Poll<io::Result<()>> {
    for _ in 0..ROUNDS_MAX {
        if !refusals.replica {
            let flushed = ready!(replica.poll_flush(cx));
            note_refusal(flushed, &mut refusals.replica)?;
        }
        if inbound.unread.borrow().is_empty() && !ready!(inbound.poll_read_more(cx))? {
            return Poll::Ready(Ok(()));
        }
        let more = inbound.unread.take();
        if !refusals.replica {
            inbound.session.moved();
            replica.out.push(more, b"");
        }
    }
    turn::end(cx);
    Poll::Pending
}
