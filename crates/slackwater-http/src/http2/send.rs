//! Operations of the owners of streams.

use super::connection::{Connection, Role, STREAMS_FIRST};
use super::frame::{self, FrameHead, HEAD_BYTES, flag, kind};
use super::head::{RequestHead, ResponseHead, encode_request, encode_response, encode_trailers};
use super::hpack::Encoder;
use super::reason::{Lost, Reason};
use super::settings::FRAME_BYTES_FIRST;
use super::stream::{Answer, Half, InLine, Piece, note};
use super::streams::Key;
use super::window::Kept;
use crate::fields::Fields;
use bytes::{Bytes, BytesMut};
use core::task::{Context, Poll};
use http::uri::Scheme;
use http::{HeaderMap, Method, StatusCode, Uri};

/// No data is added to the output beyond this size.
const ROOM_BYTES: usize = 128 << 10;

/// The highest number of a stream.
const STREAM_MAX: u32 = (1 << 31) - 1;

/// The most frames that a stream may send in a row while others wait.
const TURN_FRAMES: usize = 2;

impl Connection {
    /// Returns the next request that has arrived. Its stream is read and written by the key, until
    /// both owners have left it.
    pub fn next_request(&mut self) -> Option<(Key, RequestHead)> {
        loop {
            let (key, head) = self.requests.pop_front()?;
            if self.streams[key].lost.is_none() {
                self.reading.took_one();
                return Some((key, head));
            }
            let unread = (self.streams.remove(key)).map_or(0, |mut stream| stream.inbox.clear());
            self.release(unread);
            (self.config.stock.take_headers_back)(head.headers);
            if let Err(reason) = self.reading.taken_back() {
                self.fail(reason);
            }
        }
    }

    /// Whether another request can be started; if not, the error is the reason.
    pub fn check(&self) -> Result<(), Lost> {
        if let Some(ended) = self.ended() {
            return Err(Lost::Connection(ended));
        }
        if self.goaway.is_some() || self.is_over() || self.next_ours > STREAM_MAX {
            return Err(Lost::TurnedAway);
        }
        Ok(())
    }

    /// The number of streams that the peer allows.
    pub fn streams_max(&self) -> usize {
        if self.reading.awaits_settings() {
            return STREAMS_FIRST;
        }
        let theirs = self.theirs.streams_max;
        theirs.map_or(usize::MAX, |it| it as usize)
    }

    /// Whether the peer allows another stream now.
    pub fn has_room(&self) -> bool {
        self.streams.open() < self.streams_max()
    }

    /// Sends the head of a request; the target's scheme is not used. Call it only if
    /// [`Self::check`] succeeds and [`Self::has_room`] is true.
    pub fn begin(&mut self, method: &Method, uri: &Uri, headers: &Fields, is_end: bool) -> Key {
        let id = self.next_ours;
        self.next_ours += 2;
        let mut stream = self.new_stream(id);
        stream.answer = Answer::Awaited {
            to_head: *method == Method::HEAD,
        };
        if is_end {
            stream.ours = Half::Done;
        }
        let key = self.streams.insert(stream);
        self.streams.begin(id, key);
        let scheme = if self.config.is_secure {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        };
        self.write_block(id, is_end, |encoder, text| {
            encode_request(encoder, text, method, (&scheme, uri), headers);
        });
        self.nudge();
        key
    }

    /// Sends an interim response, if the final one has not been sent and there is room. 100 needs
    /// none: it comes once, and the client may send nothing before.
    pub fn send_interim(&mut self, key: Key, status: StatusCode, headers: &Fields) {
        let stream = &self.streams[key];
        let is_awaited = matches!(stream.answer, Answer::None) && !stream.is_closed();
        if is_awaited && (status == StatusCode::CONTINUE || self.out.len() < ROOM_BYTES) {
            let id = stream.id;
            self.write_block(id, false, |encoder, text| {
                encode_response(encoder, text, status, headers);
            });
            self.nudge();
        }
    }

    /// Sends the head of a response; `is_end` if nothing follows it.
    pub fn respond(
        &mut self,
        key: Key,
        status: StatusCode,
        headers: &Fields,
        is_end: bool,
    ) -> Result<(), Lost> {
        let stream = &mut self.streams[key];
        if let Some(lost) = stream.lost {
            return Err(lost);
        }
        stream.answer = Answer::Taken;
        let id = stream.id;
        self.write_block(id, is_end, |encoder, text| {
            encode_response(encoder, text, status, headers);
        });
        self.message_pushed();
        if is_end {
            self.end_ours(key);
        }
        self.nudge();
        Ok(())
    }

    fn end_ours(&mut self, key: Key) {
        self.streams[key].ours = Half::Done;
        self.settle(key);
    }

    /// Sends as much of `piece` as there is room for. Ready when all of it is sent. `is_last`:
    /// nothing follows it.
    pub fn poll_send(
        &mut self,
        key: Key,
        piece: &mut Bytes,
        is_last: bool,
        cx: &Context<'_>,
    ) -> Poll<Result<(), Lost>> {
        let mut frames = 0;
        while !piece.is_empty() {
            let is_crowded = !self.line.is_empty();
            let (room, short_room) = (self.room(), self.short_room());
            let of_short = self.kept().of_stream;
            let stream = &mut self.streams[key];
            if let Some(lost) = stream.lost {
                return Poll::Ready(Err(lost));
            }
            let window = stream.sends.room();
            if window == 0 {
                stream.is_shut = true;
                note(&mut stream.write_waker, cx);
                self.pass_on(key);
                // Have the earlier frames written: the peer may open the window for them.
                self.nudge();
                return Poll::Pending;
            }
            // While streams wait for the connection's window, each sends only in its turn.
            let has_turn = !is_crowded || (stream.line == InLine::Turn && frames < TURN_FRAMES);
            let room = if has_turn { room } else { 0 };
            // A short body does not wait for long ones.
            let room = room.max(short_room.min(of_short.saturating_sub(stream.unread)));
            if room == 0 {
                note(&mut stream.write_waker, cx);
                if core::mem::replace(&mut stream.line, InLine::Waits) != InLine::Waits {
                    self.line.push_back(key);
                }
                self.give_turns();
                self.nudge();
                return Poll::Pending;
            }
            let frame_bytes_max = self.theirs.frame_bytes_max.min(ROOM_BYTES);
            let length = piece.len().min(window).min(room).min(frame_bytes_max);
            stream.sends.take(length);
            stream.unread += length;
            if stream.unread > of_short && !core::mem::replace(&mut stream.is_unread, true) {
                self.unread_streams += 1;
            }
            self.sends.take(length);
            let is_end = is_last && length == piece.len();
            let head = FrameHead {
                length,
                kind: kind::DATA,
                flags: if is_end { flag::END_STREAM } else { 0 },
                stream: stream.id,
            };
            let data = if length == piece.len() {
                core::mem::take(piece)
            } else {
                piece.split_to(length)
            };
            self.out.push(head, data);
            self.message_pushed();
            frames += 1;
            if is_end {
                self.end_ours(key);
                self.pass_on(key);
                self.nudge();
                return Poll::Ready(Ok(()));
            }
        }
        if is_last {
            return Poll::Ready(self.send_end(key));
        }
        self.pass_on(key);
        self.nudge();
        Poll::Ready(Ok(()))
    }

    /// Ends a message whose data has all been sent.
    fn send_end(&mut self, key: Key) -> Result<(), Lost> {
        let stream = &mut self.streams[key];
        if let Some(lost) = stream.lost {
            return Err(lost);
        }
        let head = FrameHead {
            length: 0,
            kind: kind::DATA,
            flags: flag::END_STREAM,
            stream: stream.id,
        };
        head.write(self.out.text());
        self.end_ours(key);
        self.pass_on(key);
        self.nudge();
        Ok(())
    }

    /// Ends a message with trailers.
    pub fn send_trailers(&mut self, key: Key, trailers: &HeaderMap) -> Result<(), Lost> {
        let stream = &self.streams[key];
        if let Some(lost) = stream.lost {
            return Err(lost);
        }
        let id = stream.id;
        self.write_block(id, true, |encoder, text| {
            encode_trailers(encoder, text, trailers);
        });
        self.message_pushed();
        self.end_ours(key);
        self.pass_on(key);
        self.nudge();
        Ok(())
    }

    /// Enlarges a stream's window by `octets`.
    pub fn widen(&mut self, key: Key, octets: u32) {
        let stream = &mut self.streams[key];
        if stream.theirs == Half::Open && stream.lost.is_none() {
            stream.receives.widen(octets);
            let id = stream.id;
            frame::write_number(self.out.text(), kind::WINDOW_UPDATE, id, octets);
            self.nudge();
        }
    }

    /// Resets a stream.
    pub fn reset(&mut self, key: Key, reason: Reason) {
        if !self.streams[key].is_closed() {
            self.reset_stream(key, reason);
            self.nudge();
        }
    }

    /// Ready when the stream is lost.
    pub fn poll_lost(&mut self, key: Key, cx: &Context<'_>) -> Poll<Lost> {
        self.streams[key].poll_lost(cx)
    }

    /// Returns the next interim response.
    pub fn next_interim(&mut self, key: Key) -> Option<ResponseHead> {
        self.streams[key].interim.pop_front()
    }

    /// Waits for the head of the final response.
    pub fn poll_response(
        &mut self,
        key: Key,
        cx: &Context<'_>,
    ) -> Poll<Result<ResponseHead, Lost>> {
        let stream = &mut self.streams[key];
        match core::mem::replace(&mut stream.answer, Answer::Taken) {
            Answer::Here(head) => return Poll::Ready(Ok(*head)),
            awaited => stream.answer = awaited,
        }
        if let Some(lost) = stream.lost {
            return Poll::Ready(Err(lost));
        }
        note(&mut stream.read_waker, cx);
        Poll::Pending
    }

    /// Returns the next part after the head; `None` at its end.
    pub fn poll_piece(&mut self, key: Key, cx: &Context<'_>) -> Poll<Option<Result<Piece, Lost>>> {
        let stream = &mut self.streams[key];
        if let Some(data) = stream.inbox.pop() {
            self.taken += data.len() as u64;
            let id = stream.id;
            if stream.theirs == Half::Open
                && stream.lost.is_none()
                && let Some(more) = stream.receives.release(data.len())
            {
                let wider = stream.receives.widen_to(self.wide_window);
                frame::write_number(self.out.text(), kind::WINDOW_UPDATE, id, more + wider);
            }
            self.release(data.len());
            self.nudge();
            return Poll::Ready(Some(Ok(Piece::Data(data))));
        }
        if let Some(trailers) = stream.trailers.take() {
            return Poll::Ready(Some(Ok(Piece::Trailers(*trailers))));
        }
        if stream.theirs == Half::Done {
            return Poll::Ready(None);
        }
        if let Some(lost) = stream.lost {
            return Poll::Ready(Some(Err(lost)));
        }
        note(&mut stream.read_waker, cx);
        Poll::Pending
    }

    /// Whether everything has arrived and been taken.
    pub fn is_read(&self, key: Key) -> bool {
        let stream = &self.streams[key];
        stream.theirs == Half::Done && stream.inbox.is_empty() && stream.trailers.is_none()
    }

    /// Octets of data that all streams may send now, without the part of the window that is
    /// reserved for short bodies.
    fn room(&self) -> usize {
        if self.out.len() >= ROOM_BYTES {
            return 0;
        }
        self.sends.room().saturating_sub(self.kept().room)
    }

    /// Octets of data that short bodies may send now.
    fn short_room(&self) -> usize {
        if self.config.role == Role::Server || self.out.len() >= ROOM_BYTES {
            return 0;
        }
        self.sends.room()
    }

    pub(super) fn kept(&self) -> Kept {
        match self.config.role {
            Role::Server => Kept::NOTHING,
            Role::Client => Kept::of(self.sends.largest()),
        }
    }

    /// Whether only short bodies have room, because too much data is unread at the peer.
    pub fn is_short_of_window(&self) -> bool {
        self.sends.room() <= self.kept().room
    }

    /// Whether any stream has more unread data at the peer, as far as we know, than a short body
    /// has, and half of the connection's window is in use. Peers seldom send updates for the
    /// windows of streams that have ended on our side.
    pub fn has_unread(&self) -> bool {
        self.unread_streams > 0 && self.sends.room() < self.sends.largest() / 2
    }

    /// Gives up a stream's turn, or its place in the queue.
    fn pass_on(&mut self, key: Key) {
        if !self.line.is_empty()
            && let Some(stream) = self.streams.get_mut(key)
        {
            let before = core::mem::replace(&mut stream.line, InLine::No);
            if before == InLine::Waits {
                self.line.retain(|other| *other != key);
            } else if before == InLine::Turn {
                self.give_turns();
            }
        }
    }

    /// Wakes as many waiting streams as there is room for. If only the reserved room is left, it
    /// wakes those with short bodies.
    pub(super) fn give_turns(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let mut room = self.room();
        if room == 0 && self.short_room() > 0 {
            let of_stream = self.kept().of_stream;
            let streams = &mut self.streams;
            self.line.retain(|&key| {
                let stream = &mut streams[key];
                let is_short = stream.unread < of_stream;
                if is_short {
                    stream.line = InLine::No;
                    stream.wake_writer();
                }
                !is_short
            });
        }
        while room > 0
            && let Some(key) = self.line.pop_front()
        {
            let stream = &mut self.streams[key];
            stream.line = InLine::Turn;
            stream.wake_writer();
            room = room.saturating_sub(TURN_FRAMES * FRAME_BYTES_FIRST);
        }
    }

    /// Writes a header block in one frame, or in several if it is too long.
    fn write_block(
        &mut self,
        id: u32,
        is_end: bool,
        encode: impl FnOnce(&mut Encoder, &mut BytesMut),
    ) {
        let text = self.out.text();
        let start = text.len();
        text.extend_from_slice(&[0; HEAD_BYTES]);
        encode(&mut self.encoder, text);
        let length = text.len() - start - HEAD_BYTES;
        let length_max = self.theirs.frame_bytes_max;
        let mut head = FrameHead {
            length: length.min(length_max),
            kind: kind::HEADERS,
            flags: if is_end { flag::END_STREAM } else { 0 },
            stream: id,
        };
        if length <= length_max {
            head.flags |= flag::END_HEADERS;
            text[start..start + HEAD_BYTES].copy_from_slice(&head.octets());
            return;
        }
        let block = text.split_off(start + HEAD_BYTES);
        text.truncate(start);
        let mut parts = block.chunks(length_max).peekable();
        while let Some(part) = parts.next() {
            head.length = part.len();
            if parts.peek().is_none() {
                head.flags |= flag::END_HEADERS;
            }
            head.write(text);
            text.extend_from_slice(part);
            head.kind = kind::CONTINUATION;
            head.flags = 0;
        }
    }

    /// Answers a request that is not processed, and whose stream has no owner.
    pub(super) fn refuse_with(&mut self, id: u32, status: StatusCode) {
        debug_assert!(
            self.config.role == Role::Server,
            "only requests are answered"
        );
        self.write_block(id, true, |encoder, text| {
            encode_response(encoder, text, status, &Fields::new());
        });
    }
}
