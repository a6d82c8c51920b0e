//! An outgoing body: from frames to the output of an HTTP/1.1 connection.

use super::out::Out;
use super::turn::FRAMES_MAX;
use bytes::Bytes;
use core::pin::Pin;
use core::task::{Context, Poll};
use http_body::Body;
use slackwater_http::http1::{Framing, LAST_CHUNK, encode_chunk_start, encode_trailers};

/// Frames a body as declared in its head.
#[derive(Debug)]
pub(crate) struct BodySender {
    form: Form,
    is_done: bool,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// No body is sent.
    Nothing,
    /// This many octets remain.
    Known(u64),
    Chunked,
    UntilClose,
}

/// Progress of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// The whole body is in the output.
    Done,
    /// The output must be written first.
    Full,
    /// The body has no data at the moment.
    Waiting,
}

/// Why a body cannot be sent.
#[derive(Debug)]
pub(crate) enum SendError<E> {
    /// The body broke off.
    Body(E),
    /// The body is shorter or longer than declared.
    Length,
}

impl BodySender {
    pub(crate) fn new(framing: Framing) -> Self {
        let form = match framing {
            Framing::Absent | Framing::Described => Form::Nothing,
            Framing::Known(length) => Form::Known(length),
            Framing::Chunked => Form::Chunked,
            Framing::UntilClose => Form::UntilClose,
        };
        Self {
            form,
            is_done: false,
        }
    }

    /// Takes frames of `body` until none is ready, `out` is full, or the limit of a round is
    /// reached.
    pub(crate) fn fill<B>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut B,
        out: &mut Out,
    ) -> Result<Fill, SendError<B::Error>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        for _ in 0..FRAMES_MAX {
            match self.take_one(cx, body, out)? {
                Some(fill) => return Ok(fill),
                None if out.is_full() => break,
                None => (),
            }
        }
        Ok(Fill::Full)
    }

    /// Takes one frame; `None` if there may be another one.
    pub(crate) fn take_one<B>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut B,
        out: &mut Out,
    ) -> Result<Option<Fill>, SendError<B::Error>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        if self.is_done || self.is_over(body) {
            return self.finish(out);
        }
        if out.is_full() {
            return Ok(Some(Fill::Full));
        }
        let frame = match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Pending => return Ok(Some(Fill::Waiting)),
            Poll::Ready(None) => return self.finish(out),
            Poll::Ready(Some(Err(error))) => return Err(SendError::Body(error)),
            Poll::Ready(Some(Ok(frame))) => frame,
        };
        match frame.into_data() {
            Ok(data) if data.is_empty() => Ok(None),
            Ok(data) => {
                self.push(data, body.is_end_stream(), out)?;
                Ok(self.is_done.then_some(Fill::Done))
            }
            Err(frame) => {
                if let (Form::Chunked, Ok(trailers)) = (self.form, frame.into_trailers()) {
                    encode_trailers(out.text(), &trailers);
                    self.is_done = true;
                    return Ok(Some(Fill::Done));
                }
                Ok(None)
            }
        }
    }

    /// Whether no more data can follow that would be sent. If the framing marks the end, the end
    /// itself is awaited.
    fn is_over<B: Body>(&self, body: &B) -> bool {
        !matches!(self.form, Form::Chunked) && body.is_end_stream()
    }

    fn push<E>(&mut self, data: Bytes, is_last: bool, out: &mut Out) -> Result<(), SendError<E>> {
        match &mut self.form {
            Form::Nothing => (),
            Form::UntilClose => out.push(data, b""),
            Form::Known(left) => {
                *left = left
                    .checked_sub(data.len() as u64)
                    .ok_or(SendError::Length)?;
                out.push(data, b"");
            }
            Form::Chunked => {
                encode_chunk_start(out.text(), data.len());
                self.is_done = is_last;
                out.push(data, if is_last { b"\r\n0\r\n\r\n" } else { b"\r\n" });
            }
        }
        Ok(())
    }

    fn finish<E>(&mut self, out: &mut Out) -> Result<Option<Fill>, SendError<E>> {
        if !self.is_done {
            match self.form {
                Form::Known(left) if left > 0 => return Err(SendError::Length),
                Form::Chunked if out.is_full() => return Ok(Some(Fill::Full)),
                Form::Chunked => out.text().extend_from_slice(LAST_CHUNK),
                Form::Nothing | Form::Known(_) | Form::UntilClose => (),
            }
            self.is_done = true;
        }
        Ok(Some(Fill::Done))
    }
}
