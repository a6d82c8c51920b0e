//! A connection: state that both directions share, and its end. RFC 9113 §3.4, §5.4, §6.8

use super::frame::{self, kind};
use super::head::{HeadLimits, RequestHead};
use super::hpack::{Decoder, Encoder};
use super::out::Out;
use super::reason::{Ended, Lost, Reason};
use super::receive::Reading;
use super::settings::{Ours, Settings};
use super::stock::Stock;
use super::stream::{Half, InLine, Owner, Stream, note};
use super::streams::{Key, Streams};
use super::window::{ReceiveWindow, SendWindow, WINDOW_FIRST, WINDOW_MAX};
use bytes::Bytes;
use core::task::{Context, Waker};
use std::collections::VecDeque;

/// The first octets that a client sends. RFC 9113 §3.4
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// While this many octets wait to be written, nothing is read: a peer that sends and does not read
/// is no longer served.
const OUT_BYTES_MAX: usize = 256 << 10;

/// The most streams that we reset or refuse because of the peer's frames, beyond those that ended
/// well. With more, the connection ends. (CVE-2025-8671)
const FAULTS_MAX: usize = 1024;

/// The most streams to a server whose settings are not known yet.
pub(super) const STREAMS_FIRST: usize = 100;

/// Payload of the PING that we send before we close.
pub(super) const LEAVING: [u8; 8] = *b"leaving.";

/// Payload of the PING that checks whether the peer is alive.
const ALIVE: [u8; 8] = *b"alive...";

/// The role of a side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Starts streams with requests.
    Client,
    /// Answers requests.
    Server,
}

/// Settings of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The role of this side.
    pub role: Role,
    /// The most streams that the peer may have open at once.
    pub streams_max: u32,
    /// The most octets that may arrive on a stream before they are read.
    pub stream_window: u32,
    /// The most octets that may arrive on all streams together; at least 65,535.
    pub connection_window: u32,
    /// Whether the scheme of requests that this side sends is https.
    pub is_secure: bool,
    /// Limits of the peer's heads and trailers.
    pub head: HeadLimits,
    /// Where memory is borrowed.
    pub stock: Stock,
}

/// The phase of a connection's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// GOAWAY has been sent: the peer should start no more streams.
    Announced,
    /// Streams that the peer starts now are ignored.
    Left,
    Ended(Ended),
}

/// Whether the socket's owner is running, or has been woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Outside,
    Woken,
    Inside,
}

/// A connection as a value: octets go in and out; streams are started, read and written by their
/// keys.
///
/// The socket's owner passes what was read to [`Self::receive`], and writes what [`Self::out`]
/// contains. A method that takes a [`Key`] panics if both owners of its stream, the reader and the
/// writer, have left it.
#[derive(Debug)]
pub struct Connection {
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) reading: Reading,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    pub(super) theirs: Settings,
    /// The peer's initial window for each stream, as already applied to the open streams.
    pub(super) stream_window: u32,
    pub(super) sends: SendWindow,
    pub(super) receives: ReceiveWindow,
    pub(super) streams: Streams,
    /// Requests that have arrived and have not been taken.
    pub(super) requests: VecDeque<(Key, RequestHead)>,
    /// Streams that wait for space in the connection's window or in the output.
    pub(super) line: VecDeque<Key>,
    /// The highest number of a stream that the peer has started.
    pub(super) last_theirs: u32,
    /// The number of the next stream that we start.
    pub(super) next_ours: u32,
    /// The reason of the peer's GOAWAY: it accepts no more streams.
    pub(super) goaway: Option<Reason>,
    faults: usize,
    /// The number of streams with more unread data than a short body has.
    pub(super) unread_streams: usize,
    /// Octets that were written while part of a message was among them, and octets that readers
    /// have taken. Nothing else counts as progress.
    sent: u64,
    pub(super) taken: u64,
    /// The window of a stream that is read, if larger than the initial one.
    pub(super) wide_window: u32,
    /// Octets written, and their number at the end of the last message so far.
    written: u64,
    message_end: u64,
    pub(super) out: Out,
    task: Option<Waker>,
    turn: Turn,
}

impl Connection {
    /// Creates a connection, with our first frames in [`Self::out`].
    pub fn new(config: Config) -> Self {
        let mut out = Out::new(config.stock);
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
        // SETTINGS is the first frame of both sides. RFC 9113 §3.4
        ours.write(out.text());
        let connection_window = config.connection_window.clamp(WINDOW_FIRST, WINDOW_MAX);
        // SETTINGS cannot change the connection's window. RFC 9113 §6.9.2
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

    /// Handles what was read, up to the work of one turn. The returned rest must be passed again in
    /// the next turn.
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

    /// Starts a turn of the socket's owner. Until it ends, output does not wake the owner.
    pub fn enter(&mut self, cx: &Context<'_>) {
        note(&mut self.task, cx);
        self.turn = Turn::Inside;
    }

    /// Ends the turn.
    pub fn leave(&mut self) {
        self.turn = Turn::Outside;
    }

    /// Wakes the socket's owner if there is output and its turn is over.
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

    /// The octets to write.
    pub fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    /// Records that octets were written, so that other streams may continue.
    pub fn written(&mut self, octets: usize) {
        self.out.advance(octets);
        if self.written < self.message_end {
            self.sent += octets as u64;
        }
        self.written += octets as u64;
        self.give_turns();
    }

    /// Whether more should be read now.
    pub fn wants_more(&self) -> bool {
        self.out.len() < OUT_BYTES_MAX
    }

    /// Announces that we are going to close. The peer must start no more streams, but those under
    /// way are accepted.
    pub fn announce_leaving(&mut self) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Announced;
        // One round trip later all streams are known. RFC 9113 §6.8
        frame::write_goaway(self.out.text(), WINDOW_MAX, Reason::NO_ERROR.0);
        frame::write_ping(self.out.text(), 0, LEAVING);
        self.nudge();
    }

    /// Accepts no more streams. Existing ones may end.
    pub fn leave_now(&mut self) {
        if !matches!(self.state, State::Open | State::Announced) {
            return;
        }
        self.state = State::Left;
        frame::write_goaway(self.out.text(), self.last_theirs, Reason::NO_ERROR.0);
        self.nudge();
    }

    /// Sends a PING to check whether the peer is alive.
    pub fn ask_whether_alive(&mut self) {
        if self.ended().is_none() {
            frame::write_ping(self.out.text(), 0, ALIVE);
            self.nudge();
        }
    }

    /// Whether nothing is left to do, except to write the remaining output.
    pub fn is_over(&self) -> bool {
        match self.state {
            State::Open | State::Announced => false,
            State::Left => self.streams.is_empty() && self.requests.is_empty(),
            State::Ended(_) => true,
        }
    }

    /// Records that part of a message is in the output.
    pub(super) fn message_pushed(&mut self) {
        self.message_end = self.written + self.out.len() as u64;
    }

    /// Octets of messages that were transferred in either direction: written, or taken by a
    /// stream's reader. Frames about the connection, and data that no reader takes, do not count.
    pub const fn carried(&self) -> u64 {
        self.sent + self.taken
    }

    /// Octets of data that readers have taken so far.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Enlarges the connection's window by `octets`, and the window of each stream that is read to
    /// `stream_window`.
    pub fn widen_all(&mut self, octets: u32, stream_window: u32) {
        if self.ended().is_none() {
            self.wide_window = stream_window;
            self.receives.widen(octets);
            frame::write_number(self.out.text(), kind::WINDOW_UPDATE, 0, octets);
            self.nudge();
        }
    }

    /// The reason of its end; `None` if it has not ended.
    pub const fn ended(&self) -> Option<Ended> {
        match self.state {
            State::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Ends the connection and all its streams, without a GOAWAY.
    pub fn end(&mut self, ended: Ended) {
        if self.ended().is_none() {
            let told = self.goaway.filter(|it| *it != Reason::NO_ERROR);
            self.lose_all(told.map_or(ended, Ended::GoneAway));
            self.out.clear();
        }
    }

    /// Ends everything because the peer broke a rule, and sends it the reason.
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

    /// Counts a stream that we have to reset or refuse because of the peer's frames.
    pub(super) fn count_fault(&mut self) -> Result<(), Reason> {
        self.faults += 1;
        if self.faults > FAULTS_MAX {
            return Err(Reason::ENHANCE_YOUR_CALM);
        }
        Ok(())
    }

    /// Resets a stream that is not closed.
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

    /// Must be called when a stream may have closed, or its owners may have left.
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

    /// Records that received octets are taken, or will not be.
    pub(super) fn release(&mut self, octets: usize) {
        if let Some(more) = self.receives.release(octets)
            && self.ended().is_none()
        {
            frame::write_number(self.out.text(), kind::WINDOW_UPDATE, 0, more);
        }
    }

    /// Ends the interest of a stream's reader. Unread data is dropped. The returned waker must be
    /// dropped when no borrow is held.
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

    /// Ends the interest of a stream's writer: it has finished, or gives up.
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
                // A response that was sent whole needs no more of the request. RFC 9113 §8.1
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
