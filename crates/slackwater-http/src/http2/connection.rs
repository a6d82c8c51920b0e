//! A connection: what both directions know together, and its end. RFC 9113 §3.4, §5.4, §6.8

use super::frame::{self, kind};
use super::head::{HeadLimits, RequestHead};
use super::hpack::{Decoder, Encoder};
use super::out::Out;
use super::reason::{Ended, Lost, Reason};
use super::receive::Reading;
use super::settings::{Ours, Settings};
use super::stream::{Half, InLine, Owner, Stream, note};
use super::streams::{Key, Streams};
use super::window::{ReceiveWindow, SendWindow, WINDOW_FIRST, WINDOW_MAX};
use bytes::Bytes;
use core::task::{Context, Waker};
use http::HeaderMap;
use std::collections::VecDeque;

/// What a client says first. RFC 9113 §3.4
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Nothing more is read before some is written, when so much is to be written: who sends and
/// doesn't read gets no more.
const OUT_BYTES_MAX: usize = 256 << 10;

/// Streams that we reset or refuse for what came on them, beyond those that ended well, at most;
/// then the connection ends. (CVE-2025-8671)
const FAULTS_MAX: usize = 1024;

/// Streams to a server of which we know nothing yet, at most.
pub(super) const STREAMS_FIRST: usize = 100;

/// Says which PING is ours, at the end.
pub(super) const LEAVING: [u8; 8] = *b"leaving.";

/// Says which PING asks whether the other side is alive.
const ALIVE: [u8; 8] = *b"alive...";

/// Which side of a connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Begins streams with requests.
    Client,
    /// Answers them.
    Server,
}

/// How a connection is set up.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Which side this one is.
    pub role: Role,
    /// Streams that the other side may have open at once.
    pub streams_max: u32,
    /// What may come on a stream before it is taken.
    pub stream_window: u32,
    /// And on all streams together; at least 65,535.
    pub connection_window: u32,
    /// How large a head or trailers of the other side may be.
    pub head: HeadLimits,
    /// Gives header maps that are empty.
    pub lend_headers: fn() -> HeaderMap,
    /// Takes those back that are not needed any more.
    pub take_headers_back: fn(HeaderMap),
}

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// The other side knows that it is to begin no more streams.
    Announced,
    /// What it begins now is not looked at.
    Left,
    Ended(Ended),
}

/// Whether whoever owns the socket knows that there is something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Outside,
    Woken,
    Inside,
}

/// A connection as a value: octets go in and out, streams are begun, read and written by their
/// keys.
///
/// Whoever owns the socket gives it what was read ([`Self::receive`]) and writes what gathers in
/// [`Self::out`]. A method that takes a [`Key`] panics if both owners of its stream, the one who
/// reads and the one who writes, have left it.
#[derive(Debug)]
pub struct Connection {
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) reading: Reading,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    pub(super) theirs: Settings,
    /// The other side's window for each stream, as it is applied to those that there are.
    pub(super) stream_window: u32,
    pub(super) sends: SendWindow,
    pub(super) receives: ReceiveWindow,
    pub(super) streams: Streams,
    /// Requests that have come and nobody has taken.
    pub(super) requests: VecDeque<(Key, RequestHead)>,
    /// Who waits for room, in the connection's window or in what is to be written.
    pub(super) line: VecDeque<Key>,
    /// The highest number of a stream that the other side has begun.
    pub(super) last_theirs: u32,
    /// The number of the next stream that we begin.
    pub(super) next_ours: u32,
    /// The other side takes no more streams.
    pub(super) goaway: Option<Reason>,
    faults: usize,
    /// Streams of which more is unread than of a short body.
    pub(super) unread_streams: usize,
    /// Octets that were written while some of a message was among them, and that were taken by
    /// those who read. Nothing else is progress.
    sent: u64,
    pub(super) taken: u64,
    /// What may come on a stream that is read, where that is more than at first.
    pub(super) wide_window: u32,
    /// Octets written, and how many they will be when the last of the messages so far is.
    written: u64,
    message_end: u64,
    pub(super) out: Out,
    task: Option<Waker>,
    turn: Turn,
}

impl Connection {
    /// A connection that begins, with what we say first in [`Self::out`].
    pub fn new(config: Config) -> Self {
        let mut out = Out::default();
        let is_client = config.role == Role::Client;
        if is_client {
            out.text().extend_from_slice(PREFACE);
        }
        let ours = Ours {
            is_client,
            streams_max: config.streams_max,
            stream_window: config.stream_window,
            head_bytes_max: u32::try_from(config.head.bytes_max).unwrap_or(u32::MAX),
        };
        ours.write(out.text());
        let connection_window = config.connection_window.clamp(WINDOW_FIRST, WINDOW_MAX);
        if connection_window > WINDOW_FIRST {
            let more = connection_window - WINDOW_FIRST;
            frame::write_number(out.text(), kind::WINDOW_UPDATE, 0, more);
        }
        Self {
            config,
            state: State::Open,
            reading: Reading::new(config.role),
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            theirs: Settings::FIRST,
            stream_window: Settings::FIRST.stream_window,
            sends: SendWindow::new(WINDOW_FIRST),
            receives: ReceiveWindow::new(connection_window),
            streams: Streams::default(),
            requests: VecDeque::new(),
            line: VecDeque::new(),
            last_theirs: 0,
            next_ours: if is_client { 1 } else { 2 },
            goaway: None,
            faults: 0,
            unread_streams: 0,
            sent: 0,
            taken: 0,
            wide_window: 0,
            written: 0,
            message_end: 0,
            out,
            task: None,
            turn: Turn::Outside,
        }
    }

    /// Takes what was read, as much as one turn may take. The rest is to be given again, in the
    /// next turn.
    #[must_use]
    pub fn receive(&mut self, octets: Bytes) -> Bytes {
        if let State::Ended(_) = self.state {
            return Bytes::new();
        }
        let read = self.read(octets).and_then(|rest| {
            self.apply_window_of_streams()?;
            Ok(rest)
        });
        let rest = read.unwrap_or_else(|reason| {
            self.fail(reason);
            Bytes::new()
        });
        self.nudge();
        rest
    }

    /// Whoever owns the socket begins its turn: until it ends, it needs not be woken for what is to
    /// be written.
    pub fn enter(&mut self, cx: &Context<'_>) {
        note(&mut self.task, cx);
        self.turn = Turn::Inside;
    }

    /// The turn is over.
    pub fn leave(&mut self) {
        self.turn = Turn::Outside;
    }

    /// Something is to be written that was not before.
    pub(super) fn nudge(&mut self) {
        if self.turn == Turn::Outside && !self.out.is_empty() {
            self.wake_task();
        }
    }

    fn wake_task(&mut self) {
        if self.turn == Turn::Outside
            && let Some(task) = &self.task
        {
            self.turn = Turn::Woken;
            task.wake_by_ref();
        }
    }

    /// What is to be written.
    pub fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    /// Some of it was written: others may go on.
    pub fn written(&mut self, octets: usize) {
        self.out.advance(octets);
        if self.written < self.message_end {
            self.sent += octets as u64;
        }
        self.written += octets as u64;
        self.give_turns();
    }

    /// Whether more is to be read now.
    pub fn wants_more(&self) -> bool {
        self.out.len() < OUT_BYTES_MAX
    }

    /// Says that we begin to leave: the other side is to begin no more streams, and those that are
    /// under way are taken.
    pub fn announce_leaving(&mut self) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Announced;
        // A round trip later it is known which streams there are. RFC 9113 §6.8
        frame::write_goaway(self.out.text(), WINDOW_MAX, Reason::NO_ERROR.0);
        frame::write_ping(self.out.text(), 0, LEAVING);
        self.nudge();
    }

    /// Takes no more streams; those that there are may end.
    pub fn leave_now(&mut self) {
        if !matches!(self.state, State::Open | State::Announced) {
            return;
        }
        self.state = State::Left;
        frame::write_goaway(self.out.text(), self.last_theirs, Reason::NO_ERROR.0);
        self.nudge();
    }

    /// Asks the other side whether it is there.
    pub fn ask_whether_alive(&mut self) {
        if self.ended().is_none() {
            frame::write_ping(self.out.text(), 0, ALIVE);
            self.nudge();
        }
    }

    /// Whether all is said and done, but for what is still to be written.
    pub fn is_over(&self) -> bool {
        match self.state {
            State::Open | State::Announced => false,
            State::Left => self.streams.is_empty() && self.requests.is_empty(),
            State::Ended(_) => true,
        }
    }

    /// A part of a message is to be written.
    pub(super) fn message_pushed(&mut self) {
        self.message_end = self.written + self.out.len() as u64;
    }

    /// Octets of messages that went either way so far: written, or taken by who reads a stream.
    /// What the other side only says of the connection, or sends and nobody takes, does not count.
    pub const fn carried(&self) -> u64 {
        self.sent + self.taken
    }

    /// Octets of data that those who read have taken so far.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Lets so many octets more come on all streams together before they are taken, and as many as
    /// `stream_window` on each that is read.
    pub fn widen_all(&mut self, octets: u32, stream_window: u32) {
        if self.ended().is_none() {
            self.wide_window = stream_window;
            self.receives.widen(octets);
            frame::write_number(self.out.text(), kind::WINDOW_UPDATE, 0, octets);
            self.nudge();
        }
    }

    /// Why it has ended; `None` if it has not.
    pub const fn ended(&self) -> Option<Ended> {
        match self.state {
            State::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// It ended without a word from us, with all that is on it.
    pub fn end(&mut self, ended: Ended) {
        if self.ended().is_none() {
            let told = self.goaway.filter(|it| *it != Reason::NO_ERROR);
            self.lose_all(told.map_or(ended, Ended::GoneAway));
            self.out.clear();
        }
    }

    /// The other side broke a rule: all ends, and it is told why.
    pub(super) fn fail(&mut self, reason: Reason) {
        if self.ended().is_none() {
            frame::write_goaway(self.out.text(), self.last_theirs, reason.0);
            self.lose_all(Ended::ByUs(reason));
        }
    }

    fn lose_all(&mut self, ended: Ended) {
        self.state = State::Ended(ended);
        for (key, _) in core::mem::take(&mut self.requests) {
            self.streams.remove(key);
        }
        self.line.clear();
        for (_, stream) in self.streams.iter_mut() {
            stream.lose(Lost::Connection(ended));
        }
        self.wake_task();
    }

    /// One more stream that we have to reset or refuse for what came on it.
    pub(super) fn count_fault(&mut self) -> Result<(), Reason> {
        self.faults += 1;
        if self.faults > FAULTS_MAX {
            return Err(Reason::ENHANCE_YOUR_CALM);
        }
        Ok(())
    }

    /// Ends a stream that is not closed.
    pub(super) fn reset_stream(&mut self, key: Key, reason: Reason) {
        let stream = &mut self.streams[key];
        let id = stream.id;
        stream.lose(Lost::ByUs(reason));
        if self.ended().is_none() {
            self.write_reset(id, reason);
        }
        self.settle(key);
    }

    pub(super) fn write_reset(&mut self, id: u32, reason: Reason) {
        self.streams.note_reset(id);
        frame::write_number(self.out.text(), kind::RST_STREAM, id, reason.0);
    }

    /// To be called when a stream may have closed, or its owners may have left.
    pub(super) fn settle(&mut self, key: Key) {
        let stream = &mut self.streams[key];
        if !stream.is_closed() {
            return;
        }
        if stream.lost.is_none() {
            self.faults = self.faults.saturating_sub(1);
        }
        let (id, is_held) = (stream.id, stream.is_held());
        let line = core::mem::replace(&mut stream.line, InLine::No);
        if core::mem::take(&mut stream.is_unread) {
            self.unread_streams -= 1;
        }
        self.streams.close(id);
        self.reading.stream_ended();
        if line == InLine::Waits {
            self.line.retain(|other| *other != key);
        }
        if !is_held {
            self.streams.remove(key);
        }
        if line == InLine::Turn {
            self.give_turns();
        }
    }

    /// So much of what came is taken, or will not be.
    pub(super) fn release(&mut self, octets: usize) {
        if let Some(more) = self.receives.release(octets)
            && self.ended().is_none()
        {
            frame::write_number(self.out.text(), kind::WINDOW_UPDATE, 0, more);
        }
    }

    /// Whoever reads a stream needs no more of it. What was kept is given back, to be dropped when
    /// nothing is borrowed.
    pub fn leave_reading(&mut self, key: Key) -> Option<Waker> {
        let stream = &mut self.streams[key];
        stream.reader = Owner::Left;
        stream.trailers = None;
        let waker = stream.read_waker.take();
        let unread = stream.inbox.clear();
        if unread > 0 {
            self.release(unread);
        }
        self.left(key);
        waker
    }

    /// Whoever writes a stream has ended, or gives up.
    pub fn leave_writing(&mut self, key: Key) -> Option<Waker> {
        let stream = &mut self.streams[key];
        stream.writer = Owner::Left;
        let waker = stream.write_waker.take();
        self.left(key);
        waker
    }

    fn left(&mut self, key: Key) {
        let stream = &self.streams[key];
        if !stream.is_held() {
            if stream.is_closed() {
                self.streams.remove(key);
            } else {
                // A response that was sent to its end needs no more of the request. RFC 9113 §8.1
                let is_answered = self.config.role == Role::Server && stream.ours == Half::Done;
                self.reset_stream(
                    key,
                    if is_answered {
                        Reason::NO_ERROR
                    } else {
                        Reason::CANCEL
                    },
                );
            }
        }
        if self.state == State::Left && self.streams.is_empty() {
            self.wake_task();
        }
        self.nudge();
    }

    pub(super) fn new_stream(&self, id: u32) -> Stream {
        Stream::new(id, self.config.stream_window, self.stream_window)
    }
}
