//! A hand-written HTTP/2 connection: it sends any bytes, and reads frame by frame.

use super::frames;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// A received frame.
#[derive(Debug)]
pub(in crate::siege) struct Frame {
    pub(in crate::siege) kind: u8,
    pub(in crate::siege) flags: u8,
    pub(in crate::siege) stream: u32,
    pub(in crate::siege) payload: Vec<u8>,
}

impl Frame {
    /// Whether it ends the stream on the sender's side.
    pub(in crate::siege) fn ends(&self) -> bool {
        match self.kind {
            frames::DATA | frames::HEADERS => self.flags & frames::END_STREAM != 0,
            frames::RST_STREAM => true,
            _ => false,
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(in crate::siege) struct Connection {
    pub(in crate::siege) stream: TcpStream,
    rest: Vec<u8>,
}

impl Connection {
    /// Connects and sends the preface; `window` is the initial window of each response.
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

    /// Writes any bytes.
    pub(in crate::siege) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Closes it for all handles.
    pub(in crate::siege) fn close(self) {
        // It may have ended already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// A second handle, for a reading thread.
    pub(in crate::siege) fn reader(&self) -> io::Result<Self> {
        self.stream.try_clone().map(Self::from)
    }

    /// Reads the next frame; `None` at the end of the connection, or after an error.
    ///
    /// # Errors
    ///
    /// Fails if nothing arrived in time.
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
}

impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Self {
        Self {
            stream,
            rest: Vec::new(),
        }
    }
}
