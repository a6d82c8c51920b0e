//! One stream. RFC 9113 §5.1

use super::head::ResponseHead;
use super::inbox::Inbox;
use super::reason::Lost;
use super::window::{ReceiveWindow, SendWindow};
use crate::interim_count::InterimCount;
use bytes::Bytes;
use core::task::{Context, Poll, Waker};
use http::HeaderMap;
use std::collections::VecDeque;

/// A part of a message after its head.
#[derive(Debug)]
pub enum Piece {
    /// Octets of the body, at least one.
    Data(Bytes),
    /// The trailers; nothing follows them.
    Trailers(HeaderMap),
}

/// One direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Open,
    /// The end was sent, or has arrived.
    Done,
}

/// Whether a stream waits for room that all streams share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InLine {
    No,
    Waits,
    /// Its turn has come.
    Turn,
}

/// Whether an owner still uses the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Holds,
    Left,
}

/// The state of the awaited response.
#[derive(Debug)]
pub(super) enum Answer {
    /// No response is awaited.
    None,
    Awaited {
        to_head: bool,
    },
    Here(Box<ResponseHead>),
    Taken,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// The size of the request's head, if the peer sent it.
    pub(super) head_bytes: usize,
    pub(super) ours: Half,
    pub(super) theirs: Half,
    pub(super) reader: Owner,
    pub(super) writer: Owner,
    pub(super) lost: Option<Lost>,
    pub(super) answer: Answer,
    /// Interim responses that have not been taken.
    pub(super) interim: VecDeque<ResponseHead>,
    /// The count of all interim responses, including those taken.
    pub(super) interim_count: InterimCount,
    pub(super) inbox: Inbox,
    pub(super) trailers: Option<Box<HeaderMap>>,
    /// Octets still to come, if there is a `content-length`.
    pub(super) left: Option<u64>,
    pub(super) receives: ReceiveWindow,
    pub(super) sends: SendWindow,
    /// Octets sent that the peer has not returned to the window: as far as we know, its application
    /// has not read them.
    pub(super) unread: usize,
    /// Whether `unread` is more than a short body has.
    pub(super) is_unread: bool,
    /// Whether the writer waits for the stream's window.
    pub(super) is_shut: bool,
    pub(super) line: InLine,
    pub(super) read_waker: Option<Waker>,
    pub(super) write_waker: Option<Waker>,
}

impl Stream {
    pub(super) fn new(id: u32, receives: u32, sends: u32) -> Self {
        Self {
            id,
            head_bytes: 0,
            ours: Half::Open,
            theirs: Half::Open,
            reader: Owner::Holds,
            writer: Owner::Holds,
            lost: None,
            answer: Answer::None,
            interim: VecDeque::new(),
            interim_count: InterimCount::default(),
            inbox: Inbox::default(),
            trailers: None,
            left: None,
            receives: ReceiveWindow::new(receives),
            sends: SendWindow::new(sends),
            unread: 0,
            is_unread: false,
            is_shut: false,
            line: InLine::No,
            read_waker: None,
            write_waker: None,
        }
    }

    /// Whether nothing more will be sent in either direction.
    pub(super) fn is_closed(&self) -> bool {
        self.lost.is_some() || (self.ours == Half::Done && self.theirs == Half::Done)
    }

    pub(super) fn is_held(&self) -> bool {
        self.reader == Owner::Holds || self.writer == Owner::Holds
    }

    pub(super) fn wake_reader(&self) {
        if let Some(waker) = &self.read_waker {
            waker.wake_by_ref();
        }
    }

    pub(super) fn wake_writer(&self) {
        if let Some(waker) = &self.write_waker {
            waker.wake_by_ref();
        }
    }

    /// Ends the stream early, with this reason.
    pub(super) fn lose(&mut self, lost: Lost) {
        if self.lost.is_none() {
            self.lost = Some(lost);
            self.wake_reader();
            self.wake_writer();
        }
    }

    pub(super) fn poll_lost(&mut self, cx: &Context<'_>) -> Poll<Lost> {
        if let Some(lost) = self.lost {
            return Poll::Ready(lost);
        }
        note(&mut self.write_waker, cx);
        Poll::Pending
    }
}

/// Stores the waker of the current task.
pub(super) fn note(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => (),
        place => *place = Some(cx.waker().clone()),
    }
}
