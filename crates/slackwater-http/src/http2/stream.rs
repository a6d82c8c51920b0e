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

/// A part of a message behind its head.
#[derive(Debug)]
pub enum Piece {
    /// Octets of the body, at least one.
    Data(Bytes),
    /// What follows the body; nothing follows it.
    Trailers(HeaderMap),
}

/// One direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Open,
    /// Its end was sent, or has come.
    Done,
}

/// Whether a stream waits for room that all share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InLine {
    No,
    Waits,
    /// Its turn has come.
    Turn,
}

/// What an owner of the stream has let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Holds,
    Left,
}

/// What comes next of the response, for who has asked.
#[derive(Debug)]
pub(super) enum Answer {
    /// Nobody asked.
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
    pub(super) ours: Half,
    pub(super) theirs: Half,
    pub(super) reader: Owner,
    pub(super) writer: Owner,
    pub(super) lost: Option<Lost>,
    pub(super) answer: Answer,
    /// Responses that came before the final one, and nobody has taken.
    pub(super) interim: VecDeque<ResponseHead>,
    /// These and all others that came before the final one.
    pub(super) interim_count: InterimCount,
    pub(super) inbox: Inbox,
    pub(super) trailers: Option<Box<HeaderMap>>,
    /// Octets to come, if a `content-length` says so.
    pub(super) left: Option<u64>,
    pub(super) receives: ReceiveWindow,
    pub(super) sends: SendWindow,
    /// Octets sent that the other side has not given back: what its application has not read, as
    /// far as we know.
    pub(super) unread: usize,
    /// That is more than of a short body.
    pub(super) is_unread: bool,
    /// Something waits for its window.
    pub(super) is_shut: bool,
    pub(super) line: InLine,
    pub(super) read_waker: Option<Waker>,
    pub(super) write_waker: Option<Waker>,
}

impl Stream {
    pub(super) fn new(id: u32, receives: u32, sends: u32) -> Self {
        Self {
            id,
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

    /// Nothing more will be sent on it, in either direction.
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

    /// It has ended before its end.
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

/// Notes who is to be woken.
pub(super) fn note(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => (),
        place => *place = Some(cx.waker().clone()),
    }
}
