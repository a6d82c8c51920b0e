//! The socket of an HTTP/2 connection, on either side: what is read goes into the connection's
//! value, and what gathers there is written.

use super::buffers;
use super::stream::Stream;
use super::turn;
use bytes::Bytes;
use core::cell::RefCell;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use slackwater_http::http2::{Connection, Ended};
use std::io::{self, IoSlice};
use std::rc::Rc;
use tokio::io::AsyncWrite;

/// Parts in one write, at most.
const PARTS_MAX: usize = 16;

/// Read in one turn, at most, before others have theirs.
const TURN_BYTES: usize = 64 << 10;

/// A connection as all share it who have to do with it; they are all in one thread, and borrow it
/// for a call each.
pub(crate) type SharedConnection = Rc<RefCell<Connection>>;

/// Who is told when octets come.
pub(crate) trait Notes {
    /// Something was read, be it the end.
    fn received(&self);
}

/// Nobody.
impl Notes for () {
    fn received(&self) {}
}

#[derive(Debug)]
pub(crate) struct Wire<N> {
    stream: Stream,
    /// What was read and not looked at yet; it comes first.
    unread: Bytes,
    notes: N,
    connection: SharedConnection,
    /// A turn has ended before all that has come was looked at.
    has_more: bool,
    /// Something is written that the stream may still keep, as TLS does.
    is_unflushed: bool,
}

/// What came of an attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadOutcome {
    /// So many octets.
    Some(usize),
    NotYet,
    /// There is too much to be written.
    Unwanted,
}

impl<N: Notes> Wire<N> {
    pub(crate) fn new(
        stream: Stream,
        unread: Bytes,
        notes: N,
        connection: &SharedConnection,
    ) -> Self {
        Self {
            stream,
            unread,
            notes,
            connection: Rc::clone(connection),
            has_more: false,
            is_unflushed: false,
        }
    }

    /// Whether more has come, or may have, than was looked at.
    pub(crate) const fn has_more(&self) -> bool {
        self.has_more
    }

    /// Reads what is there, does the `work` that it brings, and writes what came of it. Ready when
    /// the connection has ended and all is written.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnMut(&mut Context<'_>),
    ) -> Poll<()> {
        self.connection.borrow_mut().enter(cx);
        let polled = self.poll_turns(cx, work);
        self.connection.borrow_mut().leave();
        polled
    }

    fn poll_turns(
        &mut self,
        cx: &mut Context<'_>,
        mut work: impl FnMut(&mut Context<'_>),
    ) -> Poll<()> {
        let mut looked_at = 0;
        self.has_more = false;
        loop {
            let read = self.read(cx);
            work(cx);
            let is_written = match self.poll_write(cx) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(error)) => {
                    let ended = Ended::Failed(error.kind());
                    self.connection.borrow_mut().end(ended);
                    return Poll::Ready(());
                }
                Poll::Pending => false,
            };
            let connection = self.connection.borrow();
            if connection.is_over() && is_written {
                drop(connection);
                // Whether it comes to that or not, this is the end.
                return Pin::new(&mut self.stream).poll_shutdown(cx).map(drop);
            }
            match read {
                ReadOutcome::Some(octets) => looked_at += octets,
                ReadOutcome::Unwanted if connection.wants_more() => (),
                ReadOutcome::NotYet | ReadOutcome::Unwanted => return Poll::Pending,
            }
            if !self.unread.is_empty() || looked_at >= TURN_BYTES {
                self.has_more = true;
                turn::end(cx);
                return Poll::Pending;
            }
        }
    }

    fn read(&mut self, cx: &mut Context<'_>) -> ReadOutcome {
        if !self.connection.borrow().wants_more() {
            return ReadOutcome::Unwanted;
        }
        if !self.unread.is_empty() {
            let unread = core::mem::take(&mut self.unread);
            return self.receive(unread);
        }
        let Poll::Ready(read) = buffers::poll_read(&mut self.stream, cx) else {
            return ReadOutcome::NotYet;
        };
        self.notes.received();
        let ended = match read {
            Ok(octets) if octets.is_empty() => Ended::Closed,
            Ok(octets) => return self.receive(octets),
            Err(error) => Ended::Failed(error.kind()),
        };
        self.connection.borrow_mut().end(ended);
        ReadOutcome::NotYet
    }

    fn receive(&mut self, octets: Bytes) -> ReadOutcome {
        let length = octets.len();
        self.unread = self.connection.borrow_mut().receive(octets);
        ReadOutcome::Some(length - self.unread.len())
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut connection = self.connection.borrow_mut();
        while !connection.out().is_empty() {
            let stream = Pin::new(&mut self.stream);
            let written = if let Some(text) = connection.out().one_part() {
                ready!(stream.poll_write(cx, text))?
            } else {
                let mut parts = [IoSlice::new(&[]); PARTS_MAX];
                let count = connection.out().slices(&mut parts);
                ready!(stream.poll_write_vectored(cx, &parts[..count]))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.is_unflushed = true;
            connection.written(written);
        }
        if self.is_unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what still comes and throws it away, so that the other side gets to read what it was
    /// told last. Ready when it has ended, too.
    pub(crate) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match ready!(buffers::poll_read(&mut self.stream, cx)) {
                Ok(octets) if !octets.is_empty() => (),
                _ => return Poll::Ready(()),
            }
        }
    }
}
