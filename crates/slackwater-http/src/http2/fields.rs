//! Received header blocks: assembling them, and their meaning for their stream. RFC 9113 §6.2,
//! §6.10, §8.1

use super::connection::{Connection, Role, State};
use super::frame::{FrameHead, flag, without_padding};
use super::head::{
    BadHead, HeadLimits, ResponseHead, decode_request, decode_response, decode_trailers, skip_block,
};
use super::reason::{Lost, Reason};
use super::receive::{Known, depends_on};
use super::stream::{Answer, Half, Owner};
use super::streams::Key;
use bytes::BytesMut;
use http::StatusCode;

/// The largest block, in multiples of the largest head. Up to this it is read, so that a head that
/// is too large can be answered. The block may have one frame per KiB of this, and a few more.
const BLOCK_TIMES_MAX: usize = 4;
const FRAMES_FREE: usize = 8;

/// The heads of all requests of a connection that are open, or still held, may have this size on
/// average, if it has as many streams as it may have. A head may refer to fields that were sent
/// once, so a client can send it in far fewer octets than we store.
const HEAD_BYTES_OF_STREAM: usize = 8 << 10;

/// The most interim responses that are kept until they are taken. Further ones are dropped.
const INTERIM_KEPT_MAX: usize = 8;

/// A header block that is not complete.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    is_end: bool,
    depends_on_itself: bool,
    octets: BytesMut,
    frames: usize,
}

impl Block {
    fn push(&mut self, part: &[u8], limits: HeadLimits) -> Result<(), Reason> {
        let bytes_max = limits.bytes_max.saturating_mul(BLOCK_TIMES_MAX);
        self.frames += 1;
        if self.octets.len() + part.len() > bytes_max
            || self.frames > FRAMES_FREE + (bytes_max >> 10)
        {
            return Err(Reason::ENHANCE_YOUR_CALM);
        }
        self.octets.extend_from_slice(part);
        Ok(())
    }
}

impl Connection {
    pub(super) fn headers(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Reason> {
        if head.stream == 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let mut part = without_padding(head, payload).ok_or(Reason::PROTOCOL_ERROR)?;
        let mut depends_on_itself = false;
        if head.has(flag::PRIORITY) {
            depends_on_itself = depends_on(part) == Some(head.stream);
            part = part.get(5..).ok_or(Reason::FRAME_SIZE_ERROR)?;
        }
        let mut block = Block {
            stream: head.stream,
            is_end: head.has(flag::END_STREAM),
            depends_on_itself,
            octets: BytesMut::new(),
            frames: 0,
        };
        if head.has(flag::END_HEADERS) {
            return self.block(&block, part);
        }
        block.push(part, self.config.head)?;
        self.reading.block = Some(block);
        Ok(())
    }

    pub(super) fn continuation(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Reason> {
        let mut block = self.reading.block.take().ok_or(Reason::PROTOCOL_ERROR)?;
        block.push(payload, self.config.head)?;
        if head.has(flag::END_HEADERS) {
            let octets = core::mem::take(&mut block.octets);
            return self.block(&block, &octets);
        }
        self.reading.block = Some(block);
        Ok(())
    }

    /// Handles a complete block.
    fn block(&mut self, block: &Block, octets: &[u8]) -> Result<(), Reason> {
        let id = block.stream;
        let known = self.known(id);
        let may_begin = self.config.role == Role::Server && id % 2 == 1;
        if known == Known::Idle && !may_begin {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if block.depends_on_itself {
            self.skip(octets)?;
            if known == Known::Idle {
                self.last_theirs = id;
            }
            return self.fault(id, Reason::PROTOCOL_ERROR);
        }
        match known {
            Known::Here(key) if self.streams[key].theirs == Half::Done => {
                self.skip(octets)?;
                self.fault(id, Reason::STREAM_CLOSED)
            }
            Known::Here(key) => match self.streams[key].answer {
                Answer::Awaited { to_head } => self.response(key, to_head, block.is_end, octets),
                _ => self.trailers(key, block.is_end, octets),
            },
            Known::Closed => {
                self.reading.came_late()?;
                self.skip(octets)?;
                if self.state == State::Left || self.streams.may_be_reset(id) {
                    return Ok(());
                }
                Err(Reason::STREAM_CLOSED)
            }
            Known::Idle => self.request(id, block.is_end, octets),
        }
    }

    /// Decodes a block that is not needed, because the following blocks depend on it.
    fn skip(&mut self, octets: &[u8]) -> Result<(), Reason> {
        match skip_block(&mut self.decoder, octets, self.config.head) {
            Err(BadHead::Compression(_)) => Err(Reason::COMPRESSION_ERROR),
            Err(BadHead::FarTooLarge) => Err(Reason::ENHANCE_YOUR_CALM),
            _ => Ok(()),
        }
    }

    /// Handles a request on a new stream. RFC 9113 §5.1.1, §5.1.2
    fn request(&mut self, id: u32, is_end: bool, octets: &[u8]) -> Result<(), Reason> {
        self.last_theirs = id;
        if self.streams.open() >= self.config.streams_max as usize {
            self.skip(octets)?;
            return self.fault(id, Reason::REFUSED_STREAM);
        }
        let headers = (self.config.stock.lend_headers)();
        let head = match decode_request(&mut self.decoder, octets, self.config.head, headers) {
            Ok(head) => head,
            Err(BadHead::TooLarge) => {
                // It is answered like others, but costs more to read than to send.
                self.count_fault()?;
                let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                self.refuse_with(id, status);
                if !is_end {
                    self.write_reset(id, Reason::NO_ERROR);
                }
                return Ok(());
            }
            Err(bad) => return self.bad(id, bad),
        };
        // One more may have any size, so that one alone is never refused.
        let heads_max = HEAD_BYTES_OF_STREAM
            .saturating_mul(self.config.streams_max as usize)
            .saturating_add(self.config.head.bytes_max);
        if self.streams.head_bytes() + head.bytes > heads_max {
            (self.config.stock.take_headers_back)(head.headers);
            return self.fault(id, Reason::REFUSED_STREAM);
        }
        let mut stream = self.new_stream(id);
        stream.head_bytes = head.bytes;
        if is_end {
            if head.length.is_some_and(|length| length > 0) {
                (self.config.stock.take_headers_back)(head.headers);
                return self.fault(id, Reason::PROTOCOL_ERROR);
            }
            stream.theirs = Half::Done;
        } else {
            stream.left = head.length;
        }
        let key = self.streams.insert(stream);
        self.streams.begin(id, key);
        self.requests.push_back((key, head));
        Ok(())
    }

    fn response(
        &mut self,
        key: Key,
        to_head: bool,
        is_end: bool,
        octets: &[u8],
    ) -> Result<(), Reason> {
        let id = self.streams[key].id;
        let headers = (self.config.stock.lend_headers)();
        let head = match decode_response(&mut self.decoder, octets, self.config.head, headers) {
            Ok(head) => head,
            Err(bad) => {
                // Stored first, so that the reset below does not replace this reason.
                if bad == BadHead::TooLarge {
                    self.streams[key].lose(Lost::HeadTooLarge);
                }
                return self.bad(id, bad);
            }
        };
        let stream = &mut self.streams[key];
        if head.status.is_informational() {
            if !stream.interim_count.add_one() {
                (self.config.stock.take_headers_back)(head.headers);
                return self.fault(id, Reason::ENHANCE_YOUR_CALM);
            }
            if stream.interim.len() < INTERIM_KEPT_MAX && stream.reader == Owner::Holds {
                stream.interim.push_back(head);
                stream.wake_reader();
            } else {
                (self.config.stock.take_headers_back)(head.headers);
            }
            // An interim response does not end the stream. RFC 9113 §8.1
            return if is_end {
                self.fault(id, Reason::PROTOCOL_ERROR)
            } else {
                Ok(())
            };
        }
        stream.left = length_of_body(&head, to_head);
        stream.answer = Answer::Here(Box::new(head));
        if is_end {
            return self.end_theirs(key);
        }
        stream.wake_reader();
        Ok(())
    }

    fn trailers(&mut self, key: Key, is_end: bool, octets: &[u8]) -> Result<(), Reason> {
        let id = self.streams[key].id;
        let trailers = match decode_trailers(&mut self.decoder, octets, self.config.head) {
            Ok(trailers) => trailers,
            Err(bad) => return self.bad(id, bad),
        };
        if !is_end {
            return self.fault(id, Reason::PROTOCOL_ERROR);
        }
        let stream = &mut self.streams[key];
        // Passed on, they would end a message that is too short as if it were complete.
        let is_short = stream.left.is_some_and(|left| left > 0);
        if stream.reader == Owner::Holds && !is_short {
            stream.trailers = Some(Box::new(trailers));
        }
        self.end_theirs(key)
    }

    /// Maps an invalid head to the error of its stream or connection.
    fn bad(&mut self, id: u32, bad: BadHead) -> Result<(), Reason> {
        match bad {
            BadHead::Compression(_) => Err(Reason::COMPRESSION_ERROR),
            BadHead::FarTooLarge => Err(Reason::ENHANCE_YOUR_CALM),
            // A client that sends these is malicious. A server's other streams must not suffer from
            // it.
            BadHead::Octets(_) if self.config.role == Role::Server => Err(Reason::PROTOCOL_ERROR),
            BadHead::Octets(_) | BadHead::Malformed(_) | BadHead::TooLarge => {
                self.fault(id, Reason::PROTOCOL_ERROR)
            }
        }
    }
}

/// Returns the length of the body after a response's head, if known. RFC 9110 §6.4.1, §8.6
fn length_of_body(head: &ResponseHead, to_head: bool) -> Option<u64> {
    let is_bare = matches!(
        head.status,
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    if to_head || is_bare {
        Some(0)
    } else {
        head.length
    }
}
