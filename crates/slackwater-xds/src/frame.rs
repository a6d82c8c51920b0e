//! Messages of gRPC on a stream: a byte for compression, the length in four bytes, the message.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The largest message that is accepted, in bytes: 16 MiB.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

const PREFIX_BYTES: usize = 5;

/// Why the stream cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A message is compressed, which the client has not offered.
    #[error("a message is compressed, and the client offers no compression")]
    Compressed,
    /// A message is longer than [`MESSAGE_BYTES_MAX`].
    #[error("a message has {0} bytes, more than {MESSAGE_BYTES_MAX}")]
    TooLong(u32),
}

/// Returns a message with its prefix.
pub fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// Finds messages in what arrives, however it was split.
#[derive(Debug, Default)]
pub struct Frames {
    unread: BytesMut,
}

impl Frames {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// Returns the next whole message; `None` if it has not arrived yet. At most one message and
    /// its successor's first bytes are kept, if this is called after each [`push`](Self::push).
    ///
    /// # Errors
    ///
    /// Fails if a message is compressed or too long.
    pub fn message(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some((&[compression, a, b, c, d], _)) = self.unread.split_first_chunk() else {
            return Ok(None);
        };
        if compression != 0 {
            return Err(FrameError::Compressed);
        }
        let length = u32::from_be_bytes([a, b, c, d]);
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        if bytes > MESSAGE_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        if self.unread.len() < PREFIX_BYTES + bytes {
            return Ok(None);
        }
        self.unread.advance(PREFIX_BYTES);
        Ok(Some(self.unread.split_to(bytes).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_they_are_split() {
        let stream = [framed(b"one"), framed(b""), framed(b"three")].concat();
        for step in 1..=stream.len() {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for piece in stream.chunks(step) {
                frames.push(piece);
                while let Some(message) = frames.message().expect("valid") {
                    found.push(message);
                }
            }
            assert_eq!(found, [&b"one"[..], b"", b"three"], "by {step}");
        }
    }

    #[test]
    fn a_message_may_have_16_mib_and_no_compression() {
        let prefix = |length: usize| {
            let mut frames = Frames::default();
            let length = u32::try_from(length).expect("short");
            frames.push(&[&[0][..], &length.to_be_bytes()].concat());
            frames.message()
        };
        assert_eq!(prefix(16 << 20), Ok(None));
        assert_eq!(prefix((16 << 20) + 1), Err(FrameError::TooLong(16_777_217)));
        let mut frames = Frames::default();
        frames.push(&[1, 0, 0, 0, 0]);
        assert_eq!(frames.message(), Err(FrameError::Compressed));
    }
}
