//! Received frames. RFC 9113 §4, §5.1, §6

use super::connection::{Connection, PREFACE, Role, State};
use super::fields::Block;
use super::frame::{self, FrameHead, HEAD_BYTES, flag, kind};
use super::reason::{Ended, Lost, Reason};
use super::settings::FRAME_BYTES_FIRST;
use super::stream::{Answer, Half, InLine, Owner};
use super::streams::Key;
use bytes::{Buf, Bytes, BytesMut};

/// The most empty frames, beyond the number of frames with content.
const EMPTY_MAX: usize = 1000;

/// The most requests that are cancelled before they are taken, beyond the number of those that were
/// taken.
const TAKEN_BACK_MAX: usize = 200;

/// Up to this size, data is copied out of the read buffer: short reads may be parts of a larger
/// one.
const COPIED_BYTES_MAX: usize = 1 << 10;

/// A piece that is not copied keeps the whole read buffer alive, so it must be at least this part
/// of it: the buffer's size divided by this.
const KEPT_TIMES_MAX: usize = 2;

/// The work that one turn may do: then other tasks get their turn. A frame is one unit. A frame
/// that starts a request or opens a window counts more, and so do the octets of header blocks.
const TURN_WORK: usize = 128;
const STREAM_WORK: usize = 4;
const BLOCK_BYTES_OF_WORK: usize = 64;

/// The number of late frames that each ended stream permits: those that were under way at its end.
/// A window of 64 KiB holds this many frames of 16 octets.
const LATE_FRAMES: usize = 4096;
const LATE_FRAMES_MAX: usize = 16 * LATE_FRAMES;

/// Reads longer than the first may be parts of an even larger buffer. Their pieces are shared only
/// from the second size on.
const READ_BYTES_EXACT: usize = 8 << 10;
const SHARED_BYTES_MIN: usize = 12 << 10;

/// State of reading, and input that is not complete.
#[derive(Debug)]
pub(super) struct Reading {
    /// The rest of the client's preface that is still to come.
    preface: &'static [u8],
    pub(super) awaits_settings: bool,
    /// A part of a frame, but never of its data.
    unread: BytesMut,
    data: Option<DataFrame>,
    pub(super) block: Option<Block>,
    empty: usize,
    taken_back: usize,
    /// Work done in this turn.
    work: usize,
    /// The number of frames that may still arrive on ended streams.
    late_left: usize,
}

/// A DATA frame that is not complete.
#[derive(Clone, Copy, Debug)]
struct DataFrame {
    stream: u32,
    /// Whether the stream accepts the data.
    is_wanted: bool,
    left: usize,
    padding: usize,
    is_end: bool,
}

/// The state of a stream's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Here(Key),
    /// The stream has ended, or is ignored.
    Closed,
    /// The stream has not been started.
    Idle,
}

impl Reading {
    pub(super) fn new(role: Role) -> Self {
        Self {
            preface: match role {
                Role::Server => PREFACE,
                Role::Client => &[],
            },
            awaits_settings: true,
            unread: BytesMut::new(),
            data: None,
            block: None,
            empty: 0,
            taken_back: 0,
            work: 0,
            late_left: LATE_FRAMES,
        }
    }

    /// Records that a stream has ended: frames for it may still be under way.
    pub(super) fn stream_ended(&mut self) {
        self.late_left = (self.late_left + LATE_FRAMES).min(LATE_FRAMES_MAX);
    }

    /// Counts a frame on an ended stream.
    pub(super) fn came_late(&mut self) -> Result<(), Reason> {
        let left = self.late_left.checked_sub(1);
        self.late_left = left.ok_or(Reason::ENHANCE_YOUR_CALM)?;
        Ok(())
    }

    /// Whether the peer's settings have not arrived yet.
    pub(super) const fn awaits_settings(&self) -> bool {
        self.awaits_settings
    }

    /// Whether the unread octets are part of a frame that must be read as a whole. They are then
    /// collected, however they are split.
    fn is_unread_part(&self) -> bool {
        FrameHead::read(&self.unread).is_none_or(|head| {
            head.kind != kind::DATA
                && head.length <= FRAME_BYTES_FIRST
                && self.unread.len() < HEAD_BYTES + head.length
        })
    }

    /// Records that a request was taken.
    pub(super) const fn took_one(&mut self) {
        self.taken_back = self.taken_back.saturating_sub(1);
    }

    /// Counts a request that was cancelled before it was taken.
    pub(super) const fn taken_back(&mut self) -> Result<(), Reason> {
        self.taken_back += 1;
        if self.taken_back > TAKEN_BACK_MAX {
            return Err(Reason::ENHANCE_YOUR_CALM);
        }
        Ok(())
    }
}

impl Connection {
    /// Reads frames for one turn, and returns the octets with which the next turn must start.
    pub(super) fn read(&mut self, mut octets: Bytes) -> Result<Bytes, Reason> {
        self.reading.work = 0;
        if !self.reading.preface.is_empty() && !self.read_preface(&mut octets) {
            return Ok(Bytes::new());
        }
        // A frame that the last read cut off is completed first.
        if !self.reading.unread.is_empty() {
            self.reading.unread.extend_from_slice(&octets);
            if self.reading.is_unread_part() {
                return Ok(Bytes::new());
            }
            octets = core::mem::take(&mut self.reading.unread).freeze();
        }
        // The smallest piece that is worth keeping the buffer for.
        let shared_min = if octets.len() > READ_BYTES_EXACT {
            SHARED_BYTES_MIN
        } else {
            (octets.len() / KEPT_TIMES_MAX).max(COPIED_BYTES_MAX + 1)
        };
        let mut at = 0;
        loop {
            // Data is passed on as it arrives. All other frames are handled whole.
            if self.reading.data.is_some() {
                at += self.read_data(&octets, at, shared_min)?;
                if self.reading.data.is_some() {
                    return Ok(Bytes::new());
                }
            }
            let rest = &octets[at..];
            let Some(head) = FrameHead::read(rest) else {
                break;
            };
            // A RST_STREAM is still handled: a request that is cancelled at once must not be
            // started in between.
            if self.reading.work >= TURN_WORK && head.kind != kind::RST_STREAM {
                return Ok(rest_of(&octets, at));
            }
            let rest = &rest[HEAD_BYTES..];
            if head.length > FRAME_BYTES_FIRST {
                return Err(Reason::FRAME_SIZE_ERROR);
            }
            self.check_order(head)?;
            self.reading.work += match head.kind {
                kind::HEADERS => STREAM_WORK + head.length / BLOCK_BYTES_OF_WORK,
                kind::CONTINUATION => 1 + head.length / BLOCK_BYTES_OF_WORK,
                kind::WINDOW_UPDATE => STREAM_WORK,
                _ => 1,
            };
            if head.kind == kind::DATA {
                let Some(padding) = self.begin_data(head, rest.first().copied())? else {
                    break;
                };
                at += HEAD_BYTES + padding;
                continue;
            }
            let Some(payload) = rest.get(..head.length) else {
                break;
            };
            at += HEAD_BYTES + head.length;
            self.frame(head, payload)?;
        }
        self.reading.unread.extend_from_slice(&octets[at..]);
        Ok(Bytes::new())
    }

    /// Compares the preface; `false` if it is different.
    fn read_preface(&mut self, octets: &mut Bytes) -> bool {
        let preface = self.reading.preface;
        let length = preface.len().min(octets.len());
        if octets[..length] != preface[..length] {
            // Such a client would not understand a GOAWAY. RFC 9113 §3.4
            self.end(Ended::ByUs(Reason::PROTOCOL_ERROR));
            return false;
        }
        self.reading.preface = &preface[length..];
        octets.advance(length);
        true
    }

    /// Checks whether a frame is allowed at this point. RFC 9113 §3.4, §6.10
    fn check_order(&mut self, head: FrameHead) -> Result<(), Reason> {
        if self.reading.awaits_settings && (head.kind != kind::SETTINGS || head.has(flag::ACK)) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let continued = self.reading.block.as_ref().map(|block| block.stream);
        let is_continuation = head.kind == kind::CONTINUATION;
        if is_continuation != continued.is_some()
            || continued.is_some_and(|stream| stream != head.stream)
        {
            return Err(Reason::PROTOCOL_ERROR);
        }
        Ok(())
    }

    /// Handles any frame except DATA.
    fn frame(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Reason> {
        match head.kind {
            kind::HEADERS => self.headers(head, payload),
            kind::CONTINUATION => self.continuation(head, payload),
            kind::PRIORITY => self.priority(head, payload),
            kind::RST_STREAM => self.rst_stream(head, payload),
            kind::SETTINGS => self.settings(head, payload),
            kind::PING => self.ping(head, payload),
            kind::GOAWAY => self.goaway(head, payload),
            kind::WINDOW_UPDATE => self.window_update(head, payload),
            // We forbid servers to push, and clients cannot.
            kind::PUSH_PROMISE => Err(Reason::PROTOCOL_ERROR),
            _ => Ok(()),
        }
    }

    /// Returns the state of a stream's number.
    pub(super) fn known(&self, id: u32) -> Known {
        if let Some(key) = self.streams.find(id) {
            return Known::Here(key);
        }
        let is_ours = (id % 2 == 1) == (self.config.role == Role::Client);
        let is_closed = if id == 0 {
            // Number 0 is the connection, not a stream.
            false
        } else if is_ours {
            id < self.next_ours
        } else {
            // After our GOAWAY, which names the last stream, the peer may use any number. RFC 9113
            // §6.8
            id <= self.last_theirs || (self.state == State::Left && id % 2 == 1)
        };
        if is_closed {
            Known::Closed
        } else {
            Known::Idle
        }
    }

    /// Handles an error on a stream. The other streams may continue.
    pub(super) fn fault(&mut self, id: u32, reason: Reason) -> Result<(), Reason> {
        self.count_fault()?;
        match self.streams.find(id) {
            Some(key) => self.reset_stream(key, reason),
            None => self.write_reset(id, reason),
        }
        Ok(())
    }

    /// Starts a DATA frame with its head and the octet after it. Returns how many octets after the
    /// head are consumed; `None` if more are needed. RFC 9113 §6.1
    fn begin_data(&mut self, head: FrameHead, next: Option<u8>) -> Result<Option<usize>, Reason> {
        let (padding, overhead) = if head.has(flag::PADDED) {
            if head.length == 0 {
                return Err(Reason::FRAME_SIZE_ERROR);
            }
            let Some(padding) = next.map(usize::from) else {
                return Ok(None);
            };
            (padding, 1)
        } else {
            (0, 0)
        };
        let left = (head.length - overhead).checked_sub(padding);
        let left = left.ok_or(Reason::PROTOCOL_ERROR)?;
        // Padding counts for flow control, too. RFC 9113 §6.1
        if !self.receives.receive(head.length) {
            return Err(Reason::FLOW_CONTROL_ERROR);
        }
        let is_wanted = self.data_is_wanted(head, left)?;
        let is_end = head.has(flag::END_STREAM);
        // Empty frames need no window, so their number is limited separately.
        if left > 0 {
            self.reading.empty = self.reading.empty.saturating_sub(1);
        } else if !is_end {
            self.reading.empty += 1;
            if self.reading.empty > EMPTY_MAX {
                return Err(Reason::ENHANCE_YOUR_CALM);
            }
        }
        // Padding is never taken by a reader, so it is released here.
        let no_data = overhead + padding;
        if no_data > 0 {
            self.release(no_data);
            if is_wanted
                && let Known::Here(key) = self.known(head.stream)
                && let Some(more) = self.streams[key].receives.release(no_data)
            {
                frame::write_number(self.out.text(), kind::WINDOW_UPDATE, head.stream, more);
            }
        }
        self.reading.data = Some(DataFrame {
            stream: head.stream,
            is_wanted,
            left,
            padding,
            is_end,
        });
        Ok(Some(overhead))
    }

    /// Whether the stream of a DATA frame accepts it.
    fn data_is_wanted(&mut self, head: FrameHead, length: usize) -> Result<bool, Reason> {
        let key = match self.known(head.stream) {
            Known::Here(key) => key,
            Known::Closed => {
                self.reading.came_late()?;
                let is_under_way =
                    self.state == State::Left || self.streams.may_be_reset(head.stream);
                if !is_under_way {
                    self.fault(head.stream, Reason::STREAM_CLOSED)?;
                }
                return Ok(false);
            }
            Known::Idle => return Err(Reason::PROTOCOL_ERROR),
        };
        let stream = &mut self.streams[key];
        let length = length as u64;
        let wrong = if stream.theirs == Half::Done {
            Some(Reason::STREAM_CLOSED)
        } else if !stream.receives.receive(head.length) {
            Some(Reason::FLOW_CONTROL_ERROR)
        } else if matches!(stream.answer, Answer::Awaited { .. })
            || stream.left.is_some_and(|left| left < length)
        {
            Some(Reason::PROTOCOL_ERROR)
        } else {
            None
        };
        if let Some(reason) = wrong {
            self.fault(head.stream, reason)?;
            return Ok(false);
        }
        stream.left = stream.left.map(|left| left - length);
        Ok(true)
    }

    /// Handles the part of a DATA frame at `at`, and returns its length. Pieces of at least
    /// `shared_min` octets are not copied.
    fn read_data(&mut self, octets: &Bytes, at: usize, shared_min: usize) -> Result<usize, Reason> {
        let Some(mut data) = self.reading.data.take() else {
            return Ok(0);
        };
        let there = octets.len() - at;
        let length = data.left.min(there);
        let padding = data.padding.min(there - length);
        data.left -= length;
        data.padding -= padding;
        let key = match self.known(data.stream) {
            Known::Here(key) if data.is_wanted => Some(key),
            _ => None,
        };
        let range = at..at + length;
        match key.map(|key| &mut self.streams[key]) {
            Some(stream) if stream.reader == Owner::Holds => {
                if length > 0 {
                    let piece = &octets[range.clone()];
                    stream.inbox.push(piece, || {
                        if length < shared_min {
                            Bytes::copy_from_slice(piece)
                        } else {
                            octets.slice(range)
                        }
                    });
                    if stream.inbox.is_flooded() {
                        return Err(Reason::ENHANCE_YOUR_CALM);
                    }
                    stream.wake_reader();
                }
            }
            // Without a reader the octets return to the connection's window at once.
            _ => self.release(length),
        }
        if data.left > 0 || data.padding > 0 {
            self.reading.data = Some(data);
        } else if data.is_end
            && let Some(key) = key
        {
            self.end_theirs(key)?;
        }
        Ok(length + padding)
    }

    /// Ends the peer's direction: its message is complete.
    pub(super) fn end_theirs(&mut self, key: Key) -> Result<(), Reason> {
        let stream = &mut self.streams[key];
        if stream.left.is_some_and(|left| left > 0) {
            let id = stream.id;
            return self.fault(id, Reason::PROTOCOL_ERROR);
        }
        stream.theirs = Half::Done;
        stream.wake_reader();
        self.settle(key);
        Ok(())
    }

    fn priority(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Reason> {
        if head.stream == 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if payload.len() != 5 {
            return self.fault(head.stream, Reason::FRAME_SIZE_ERROR);
        }
        if depends_on(payload) == Some(head.stream) {
            return self.fault(head.stream, Reason::PROTOCOL_ERROR);
        }
        Ok(())
    }

    fn rst_stream(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Reason> {
        let reason = Reason(one_number(payload)?);
        match self.known(head.stream) {
            Known::Here(key) => {
                self.streams[key].lose(Lost::Reset(reason));
                self.settle(key);
                Ok(())
            }
            Known::Closed => self.reading.came_late(),
            Known::Idle => Err(Reason::PROTOCOL_ERROR),
        }
    }

    fn window_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Reason> {
        let more = one_number(payload)? & 0x7fff_ffff;
        if head.stream == 0 {
            if more == 0 {
                return Err(Reason::PROTOCOL_ERROR);
            }
            let grown = self.sends.grow(i64::from(more));
            grown.map_err(|_| Reason::FLOW_CONTROL_ERROR)?;
            self.give_turns();
            return Ok(());
        }
        match self.known(head.stream) {
            Known::Here(_) if more == 0 => self.fault(head.stream, Reason::PROTOCOL_ERROR),
            Known::Here(key) => {
                if self.streams[key].sends.grow(i64::from(more)).is_err() {
                    // Earlier settings that have not been applied yet may have made room.
                    self.apply_window_of_streams()?;
                    if self.streams[key].sends.grow(i64::from(more)).is_err() {
                        return self.fault(head.stream, Reason::FLOW_CONTROL_ERROR);
                    }
                }
                let of_short = self.kept().of_stream;
                let stream = &mut self.streams[key];
                stream.unread = stream.unread.saturating_sub(more as usize);
                if stream.unread <= of_short && core::mem::take(&mut stream.is_unread) {
                    self.unread_streams -= 1;
                }
                if core::mem::take(&mut stream.is_shut) {
                    stream.wake_writer();
                }
                if stream.line == InLine::Waits {
                    // It may count as short again, for which there is room.
                    self.give_turns();
                }
                Ok(())
            }
            Known::Closed => self.reading.came_late(),
            Known::Idle => Err(Reason::PROTOCOL_ERROR),
        }
    }
}

/// Returns the rest of `octets` from `at` on. A short rest is copied, so that it does not keep a
/// large buffer alive.
fn rest_of(octets: &Bytes, at: usize) -> Bytes {
    let rest = &octets[at..];
    if rest.len() > READ_BYTES_EXACT {
        octets.slice(at..)
    } else {
        Bytes::copy_from_slice(rest)
    }
}

/// The stream on which another one depends, from the first octets of its priority.
pub(super) fn depends_on(payload: &[u8]) -> Option<u32> {
    frame::number(payload).map(|it| it & 0x7fff_ffff)
}

/// Reads a payload of one number.
fn one_number(payload: &[u8]) -> Result<u32, Reason> {
    let octets: [u8; 4] = payload.try_into().map_err(|_| Reason::FRAME_SIZE_ERROR)?;
    Ok(u32::from_be_bytes(octets))
}
