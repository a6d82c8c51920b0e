//! The socket of an HTTP/2 connection, on either side: input goes into the connection's state
//! machine, and its output is written.

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

/// Maximum number of parts in one write.
const PARTS_MAX: usize = 16;

/// Maximum number of bytes that are read in one turn.
const TURN_BYTES: usize = 64 << 10;

/// A connection, shared by all its users. They run in one thread and borrow it for one call each.
pub(crate) type SharedConnection = Rc<RefCell<Connection>>;

/// Observer of received data.
pub(crate) trait Notes {
    /// Called when something was read, including the end.
    fn received(&self);
}

/// No observer.
impl Notes for () {
    fn received(&self) {}
}

#[derive(Debug)]
pub(crate) struct Wire<N> {
    stream: Stream,
    /// Data that was read and not processed yet; it is processed first.
    unread: Bytes,
    notes: N,
    connection: SharedConnection,
    /// Whether a turn ended before all input was processed.
    has_more: bool,
    /// Whether written data may still be buffered in the stream, as TLS does.
    is_unflushed: bool,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadOutcome {
    /// This many octets were read.
    Some(usize),
    NotYet,
    /// Nothing was read, because there is too much output.
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

    /// Whether there is, or may be, unprocessed input.
    pub(crate) const fn has_more(&self) -> bool {
        self.has_more
    }

    /// Reads available data, calls `work`, and writes the output. Ready when the connection has
    /// ended and everything is written.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>),
    ) -> Poll<()> {
        self.connection.borrow_mut().enter(cx);
        let polled = self.poll_turn(cx, work);
        self.connection.borrow_mut().leave();
        polled
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>, work: impl FnOnce(&mut Context<'_>)) -> Poll<()> {
        let read = self.read_turn(cx);
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
            // The connection ends even if the shutdown fails.
            return Pin::new(&mut self.stream).poll_shutdown(cx).map(drop);
        }
        self.has_more = match read {
            ReadOutcome::Some(_) => true,
            ReadOutcome::NotYet => false,
            ReadOutcome::Unwanted => connection.wants_more(),
        };
        if self.has_more {
            turn::end(cx);
        }
        Poll::Pending
    }

    /// Reads until there is nothing more, too much output, or enough for one turn.
    fn read_turn(&mut self, cx: &mut Context<'_>) -> ReadOutcome {
        let mut octets_read = 0;
        loop {
            match self.read(cx) {
                ReadOutcome::Some(octets) => octets_read += octets,
                ended => return ended,
            }
            if !self.unread.is_empty() || octets_read >= TURN_BYTES {
                return ReadOutcome::Some(octets_read);
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

    /// Reads and discards further input, so that the other side can read the last output. Returns
    /// `false` when the other side has ended, too.
    pub(crate) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let read = buffers::poll_read(&mut self.stream, cx);
        read.map(|read| read.is_ok_and(|octets| !octets.is_empty()))
    }
}
