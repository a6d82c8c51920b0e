//! Frames as they come. RFC 9113 §4, §5.1, §6

use super::connection::{Connection, PREFACE, Role, State};
use super::fields::Block;
use super::frame::{self, FrameHead, HEAD_BYTES, flag, kind};
use super::reason::{Ended, Lost, Reason};
use super::settings::FRAME_BYTES_FIRST;
use super::stream::{Answer, Half, InLine, Owner};
use super::streams::Key;
use bytes::{Buf, Bytes, BytesMut};

/// Frames that bring nothing, beyond those that bring something, at most.
const EMPTY_MAX: usize = 1000;

/// Requests taken back before anybody has seen them, beyond those that were seen, at most.
const TAKEN_BACK_MAX: usize = 200;

/// Up to this, data is copied out of what was read: a share would cost as much.
const COPIED_BYTES_MAX: usize = 512;

/// A piece that is not copied keeps all of what was read from being given back, and is at least
/// such a part of it.
const KEPT_TIMES_MAX: usize = 2;

/// Work that one turn does at most: so much of what was read is looked at before others have their
/// turn. A frame is a unit, one that begins a request or lets a stream send is some more, and so
/// are the octets of header blocks.
const TURN_WORK: usize = 128;
const STREAM_WORK: usize = 4;
const BLOCK_BYTES_OF_WORK: usize = 64;

/// Frames on streams that have ended, at most, for each that has: what was under way when it ended.
/// A window of 64 KiB holds as many frames of 16 octets.
const LATE_FRAMES: usize = 4096;
const LATE_FRAMES_MAX: usize = 16 * LATE_FRAMES;

/// Reads that are longer may be parts of a buffer that is larger still, for which this must be
/// worth it.
const READ_BYTES_EXACT: usize = 8 << 10;
const SHARED_BYTES_MIN: usize = 12 << 10;

/// What has been read and is not complete.
#[derive(Debug)]
pub(super) struct Reading {
    /// What is still to come of what a client says first.
    preface: &'static [u8],
    pub(super) awaits_settings: bool,
    /// A part of a frame, but never of data.
    unread: BytesMut,
    data: Option<DataFrame>,
    pub(super) block: Option<Block>,
    empty: usize,
    taken_back: usize,
    /// Work done in this turn.
    work: usize,
    /// Frames that may still come on streams that have ended.
    late_left: usize,
}

/// A DATA frame of which not all has come.
#[derive(Clone, Copy, Debug)]
struct DataFrame {
    stream: u32,
    /// Somebody wants it.
    is_wanted: bool,
    left: usize,
    padding: usize,
    is_end: bool,
}

/// What is known of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Here(Key),
    /// It was there, or is not looked at any more.
    Closed,
    /// Nobody has begun it.
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

    /// A stream has ended, and some of it may be under way.
    pub(super) fn stream_ended(&mut self) {
        self.late_left = (self.late_left + LATE_FRAMES).min(LATE_FRAMES_MAX);
    }

    /// A frame has come on a stream that has ended.
    pub(super) fn came_late(&mut self) -> Result<(), Reason> {
        let left = self.late_left.checked_sub(1);
        self.late_left = left.ok_or(Reason::ENHANCE_YOUR_CALM)?;
        Ok(())
    }

    /// The other side has not said anything of itself.
    pub(super) const fn awaits_settings(&self) -> bool {
        self.awaits_settings
    }

    /// What is unread is a part of a frame that is read as a whole. So its octets are gathered,
    /// however they come.
    fn is_unread_part(&self) -> bool {
        FrameHead::read(&self.unread).is_none_or(|head| {
            head.kind != kind::DATA
                && head.length <= FRAME_BYTES_FIRST
                && self.unread.len() < HEAD_BYTES + head.length
        })
    }

    /// A request has been seen.
    pub(super) const fn took_one(&mut self) {
        self.taken_back = self.taken_back.saturating_sub(1);
    }

    /// A request was taken back before it was seen.
    pub(super) const fn taken_back(&mut self) -> Result<(), Reason> {
        self.taken_back += 1;
        if self.taken_back > TAKEN_BACK_MAX {
            return Err(Reason::ENHANCE_YOUR_CALM);
        }
        Ok(())
    }
}

impl Connection {
    /// Reads frames for a turn, and gives back what the next one is to begin with.
    pub(super) fn read(&mut self, mut octets: Bytes) -> Result<Bytes, Reason> {
        self.reading.work = 0;
        if !self.reading.preface.is_empty() && !self.read_preface(&mut octets) {
            return Ok(Bytes::new());
        }
        if !self.reading.unread.is_empty() {
            self.reading.unread.extend_from_slice(&octets);
            if self.reading.is_unread_part() {
                return Ok(Bytes::new());
            }
            octets = core::mem::take(&mut self.reading.unread).freeze();
        }
        // The least piece that is worth what it keeps.
        let shared_min = if octets.len() > READ_BYTES_EXACT {
            SHARED_BYTES_MIN
        } else {
            (octets.len() / KEPT_TIMES_MAX).max(COPIED_BYTES_MAX + 1)
        };
        let mut at = 0;
        loop {
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
            // A request that is taken back at once is not to be begun in between.
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

    /// `false` if it is another one.
    fn read_preface(&mut self, octets: &mut Bytes) -> bool {
        let preface = self.reading.preface;
        let length = preface.len().min(octets.len());
        if octets[..length] != preface[..length] {
            // Whoever this is would not understand a GOAWAY. RFC 9113 §3.4
            self.end(Ended::ByUs(Reason::PROTOCOL_ERROR));
            return false;
        }
        self.reading.preface = &preface[length..];
        octets.advance(length);
        true
    }

    /// What may come now. RFC 9113 §3.4, §6.10
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

    /// Any frame but DATA.
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
            // We don't let servers push, and clients can't.
            kind::PUSH_PROMISE => Err(Reason::PROTOCOL_ERROR),
            _ => Ok(()),
        }
    }

    /// What a number means.
    pub(super) fn known(&self, id: u32) -> Known {
        if let Some(key) = self.streams.find(id) {
            return Known::Here(key);
        }
        let is_ours = (id % 2 == 1) == (self.config.role == Role::Client);
        let is_closed = if id == 0 {
            // The connection is no stream.
            false
        } else if is_ours {
            id < self.next_ours
        } else {
            // Those that come when we have said which is the last one may be any. RFC 9113 §6.8
            id <= self.last_theirs || (self.state == State::Left && id % 2 == 1)
        };
        if is_closed {
            Known::Closed
        } else {
            Known::Idle
        }
    }

    /// What came on a stream is a mistake; the others may go on.
    pub(super) fn fault(&mut self, id: u32, reason: Reason) -> Result<(), Reason> {
        self.count_fault()?;
        match self.streams.find(id) {
            Some(key) => self.reset_stream(key, reason),
            None => self.write_reset(id, reason),
        }
        Ok(())
    }

    /// The head of a DATA frame has come, and what follows it at once. How many octets are done
    /// with it; `None` if there are too few. RFC 9113 §6.1
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
        if !self.receives.receive(head.length) {
            return Err(Reason::FLOW_CONTROL_ERROR);
        }
        let is_wanted = self.data_is_wanted(head, left)?;
        let is_end = head.has(flag::END_STREAM);
        if left > 0 {
            self.reading.empty = self.reading.empty.saturating_sub(1);
        } else if !is_end {
            self.reading.empty += 1;
            if self.reading.empty > EMPTY_MAX {
                return Err(Reason::ENHANCE_YOUR_CALM);
            }
        }
        // What is no data is never taken by anybody.
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

    /// Whether the stream of a DATA frame takes it.
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

    /// Takes what there is of a DATA frame at `at`, and tells how much that is. Pieces from
    /// `shared_min` octets on are not copied.
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

    /// All of a message has come.
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
                    // Settings that came before it may have made room.
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
                    // It may be a short one again, for which there is room.
                    self.give_turns();
                }
                Ok(())
            }
            Known::Closed => self.reading.came_late(),
            Known::Idle => Err(Reason::PROTOCOL_ERROR),
        }
    }
}

/// What is left of `octets` from `at` on. A short rest keeps none of the large buffer that it may
/// be a part of.
fn rest_of(octets: &Bytes, at: usize) -> Bytes {
    let rest = &octets[at..];
    if rest.len() > READ_BYTES_EXACT {
        octets.slice(at..)
    } else {
        Bytes::copy_from_slice(rest)
    }
}

/// The stream on which another one depends, by the first octets of its priority.
pub(super) fn depends_on(payload: &[u8]) -> Option<u32> {
    frame::number(payload).map(|it| it & 0x7fff_ffff)
}

/// A payload of one number.
fn one_number(payload: &[u8]) -> Result<u32, Reason> {
    let octets: [u8; 4] = payload.try_into().map_err(|_| Reason::FRAME_SIZE_ERROR)?;
    Ok(u32::from_be_bytes(octets))
}
