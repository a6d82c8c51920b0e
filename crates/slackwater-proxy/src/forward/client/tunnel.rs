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
/// Data that one side sent before it ended still reaches the other, even if the other has more to
/// send, which is then discarded. Returns how the tunnel ended, and whether it ended in order. If one side ends in order, the other side is ended in order, too.
/// Otherwise both are reset, because the end of the connection may be the only mark of the end of
/// the data.
pub(super) async fn relay<W: Watch>(
    inbound: &Inbound,
    mut to_client: Out,
    body: &mut ResponseBody<W>,
) -> (End, bool) {
    // The idle time counts from here, and for both sides.
    inbound.session.moved();
    end_in_order(inbound, body, false);
    let mut is_refused = false;
    let ended = poll_fn(|cx| {
        let Some(replica) = body.tunnel() else {
            return Poll::Ready((End::Complete, false));
        };
        // Both are polled, so that either can wake this task.
        let down = poll_down(cx, inbound, &mut to_client, replica);
        let up = poll_up(cx, inbound, replica, &mut is_refused);
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
    if is_in_order && let Some(replica) = body.tunnel() {
        poll_fn(|cx| {
            replica.shut(cx);
            Poll::Ready(())
        })
        .await;
        // Unread data would turn the end into a reset, by which the replica may lose what was sent.
        let discarded = poll_fn(|cx| {
            while let Ok(true) = ready!(replica.poll_read(cx)) {
                replica.unread.clear();
            }
            Poll::Ready(())
        });
        let _ = tokio::time::timeout(LINGER, discarded).await;
    }
    (end, is_in_order)
}

fn end_in_order<W: Watch>(inbound: &Inbound, body: &mut ResponseBody<W>, in_order: bool) {
    inbound.stream.borrow().end_in_order(in_order);
    if let Some(replica) = body.tunnel() {
        replica.end_in_order(in_order);
    }
}

/// Copies from the replica to the client. Ready when the replica has ended and everything is
/// written.
fn poll_down(
    cx: &mut Context<'_>,
    inbound: &Inbound,
    to_client: &mut Out,
    replica: &mut Connection,
) -> Poll<io::Result<()>> {
    for _ in 0..ROUNDS_MAX {
        ready!(inbound.poll_flush(to_client, cx))?;
        if replica.unread.is_empty() && !ready!(replica.poll_read(cx))? {
            return Poll::Ready(Ok(()));
        }
        to_client.push(core::mem::take(&mut replica.unread), b"");
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
    is_refused: &mut bool,
) -> Poll<io::Result<()>> {
    for _ in 0..ROUNDS_MAX {
        if *is_refused || ready!(replica.poll_flush(cx)).is_err() {
            *is_refused = true;
            replica.out = Out::default();
        }
        if inbound.unread.borrow().is_empty() && !ready!(inbound.poll_read_more(cx))? {
            return Poll::Ready(Ok(()));
        }
        inbound.session.moved();
        replica.out.push(inbound.unread.take(), b"");
    }
    turn::end(cx);
    Poll::Pending
}
