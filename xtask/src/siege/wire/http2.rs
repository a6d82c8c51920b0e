//! An HTTP/2 connection by hand: whatever bytes are wanted go out, and what comes in is read frame by frame.

use super::frames;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// A frame that came in.
#[derive(Debug)]
pub(in crate::siege) struct Frame {
    pub(in crate::siege) kind: u8,
    pub(in crate::siege) flags: u8,
    pub(in crate::siege) stream: u32,
    pub(in crate::siege) payload: Vec<u8>,
}

impl Frame {
    /// Whether the stream is over on the sender's side.
    pub(in crate::siege) fn ends(&self) -> bool {
        match self.kind {
            frames::DATA | frames::HEADERS => self.flags & frames::END_STREAM != 0,
            frames::RST_STREAM => true,
            _ => false,
        }
    }

    /// The status of a response, if this is its head and written without a dynamic table.
    pub(in crate::siege) fn status(&self) -> Option<u16> {
        (self.kind == frames::HEADERS)
            .then(|| status(&self.payload))
            .flatten()
    }
}

/// The first field of a response's block is `:status`. [RFC 7541 §A]
fn status(block: &[u8]) -> Option<u16> {
    const STATIC: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    // Table size updates may come first.
    let start = block.iter().position(|byte| byte & 0xe0 != 0x20)?;
    let (first, rest) = block[start..].split_first()?;
    if let Some(index) = first.checked_sub(0x88) {
        return STATIC.get(usize::from(index)).copied();
    }
    let name = matches!(first, 0x08 | 0x18 | 0x48);
    let (length, text) = rest.split_first().filter(|_| name)?;
    let text = text.get(..usize::from(length & 0x7f))?;
    if length & 0x80 == 0 {
        return core::str::from_utf8(text).ok()?.parse().ok();
    }
    huffman_digits(text)
}

/// Digits in Huffman code: 0 to 2 have five bits, 3 to 9 six. [RFC 7541 §B]
fn huffman_digits(code: &[u8]) -> Option<u16> {
    let bits = code.len() * 8;
    let bit = |at: usize| u16::from(code[at / 8] >> (7 - at % 8) & 1);
    let take = |at: usize, count: usize| (at..at + count).fold(0, |sum, at| sum << 1 | bit(at));
    let (mut at, mut number) = (0, 0);
    while at + 5 <= bits {
        let five = take(at, 5);
        let digit = if five <= 2 {
            at += 5;
            five
        } else if at + 6 <= bits && (0x19..=0x1f).contains(&take(at, 6)) {
            at += 6;
            take(at - 6, 6) - 0x19 + 3
        } else {
            break;
        };
        number = number * 10 + digit;
    }
    Some(number)
}

/// A connection.
#[derive(Debug)]
pub(in crate::siege) struct Connection {
    pub(in crate::siege) stream: TcpStream,
    rest: Vec<u8>,
}

impl Connection {
    /// Connects and sends the preface; `window` is what each response may send at first.
    pub(in crate::siege) fn open(
        address: SocketAddr,
        window: u32,
        limit: Duration,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(limit))?;
        let mut connection = Self::from(stream);
        connection.send(&frames::preface(window))?;
        Ok(connection)
    }

    /// Writes whatever it is.
    pub(in crate::siege) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Ends it also for those that have a second handle.
    pub(in crate::siege) fn close(self) {
        // It may have ended already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// A second handle, for a thread that reads.
    pub(in crate::siege) fn reader(&self) -> io::Result<Self> {
        self.stream.try_clone().map(Self::from)
    }

    /// The next frame; `None` at the end of the connection, or when it has failed.
    ///
    /// # Errors
    ///
    /// Nothing came in time.
    pub(in crate::siege) fn next(&mut self, until: Instant) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.take() {
                return Ok(Some(frame));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut piece = [0; 16_384];
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(read) => self.rest.extend_from_slice(&piece[..read]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Err(ErrorKind::TimedOut.into());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Ok(None),
            }
        }
    }

    fn take(&mut self) -> Option<Frame> {
        let head = self.rest.first_chunk::<9>()?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
        let (kind, flags) = (head[3], head[4]);
        let payload = self.rest.get(9..9 + length)?.to_vec();
        self.rest.drain(..9 + length);
        Some(Frame {
            kind,
            flags,
            stream,
            payload,
        })
    }

    /// Reads until the peer closes the connection or `until` comes; whether it was closed.
    pub(in crate::siege) fn is_closed_by(&mut self, until: Instant) -> bool {
        loop {
            match self.next(until) {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Self {
        Self {
            stream,
            rest: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_in_each_form() {
        assert_eq!(status(&[0x88]), Some(200));
        assert_eq!(status(&[0x20, 0x8c, 0x40]), Some(400));
        assert_eq!(status(b"\x08\x03503"), Some(503));
        // RFC 7541 §C.6.1 and §C.6.2: "302" and "307".
        assert_eq!(status(&[0x48, 0x82, 0x64, 0x02]), Some(302));
        assert_eq!(status(&[0x48, 0x83, 0x64, 0x0e, 0xff]), Some(307));
        assert_eq!(status(&[0xbe]), None);
    }
}
