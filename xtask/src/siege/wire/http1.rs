//! An honest HTTP/1.1 client: one request, and its complete response within a time limit.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// Longest response that is read.
const RESPONSE_MAX: usize = 16 << 20;

/// A complete response.
#[derive(Debug)]
pub(in crate::siege) struct Response {
    pub(in crate::siege) status: u16,
    pub(in crate::siege) body: Vec<u8>,
}

/// A connection for sequential requests.
#[derive(Debug)]
pub(in crate::siege) struct Connection {
    stream: TcpStream,
    /// Bytes after the last response.
    rest: Vec<u8>,
}

impl Connection {
    pub(in crate::siege) fn open(address: SocketAddr, limit: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(limit))?;
        Ok(Self {
            stream,
            rest: Vec::new(),
        })
    }

    /// Sends `request` unchanged, and reads the response within `limit`.
    pub(in crate::siege) fn ask(
        &mut self,
        request: &[u8],
        limit: Duration,
    ) -> io::Result<Response> {
        let until = Instant::now() + limit;
        self.stream.write_all(request)?;
        loop {
            let (status, length, coding) = self.read_head(until)?;
            // Informational responses precede the final one.
            if (100..200).contains(&status) {
                continue;
            }
            let body = if coding {
                self.read_chunks(until)?
            } else if let Some(length) = length {
                self.read_exactly(length, until)?
            } else {
                while self.fill(until)? > 0 {}
                core::mem::take(&mut self.rest)
            };
            return Ok(Response { status, body });
        }
    }

    /// Status, `content-length`, and whether the body is chunked.
    fn read_head(&mut self, until: Instant) -> io::Result<(u16, Option<usize>, bool)> {
        let end = self.find(b"\r\n\r\n", until)?;
        let head: Vec<u8> = self.rest.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status = status.and_then(|status| status.parse().ok());
        let mut values = lines.filter_map(|line| line.split_once(':'));
        let length = values.find(|(name, _)| *name == "content-length");
        let length = length.and_then(|(_, value)| value.trim().parse().ok());
        let coding = head.contains("\r\ntransfer-encoding: chunked\r\n");
        let status = status.ok_or_else(|| invalid("no status"))?;
        Ok((status, length, coding))
    }

    fn read_chunks(&mut self, until: Instant) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = self.find(b"\r\n", until)?;
            let line: Vec<u8> = self.rest.drain(..end + 2).collect();
            let line = String::from_utf8_lossy(&line[..end]);
            let size = usize::from_str_radix(line.trim(), 16)
                .map_err(|_| invalid("a chunk without a size"))?;
            if size == 0 {
                while self.find(b"\r\n", until)? > 0 {
                    let end = self.find(b"\r\n", until)?;
                    self.rest.drain(..end + 2);
                }
                self.rest.drain(..2);
                return Ok(body);
            }
            body.extend(self.read_exactly(size, until)?);
            self.read_exactly(2, until)?;
        }
    }

    fn read_exactly(&mut self, length: usize, until: Instant) -> io::Result<Vec<u8>> {
        while self.rest.len() < length {
            if self.fill(until)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.rest.drain(..length).collect())
    }

    /// Reads until `mark` has arrived.
    fn find(&mut self, mark: &[u8], until: Instant) -> io::Result<usize> {
        loop {
            if let Some(at) = self.rest.windows(mark.len()).position(|part| part == mark) {
                return Ok(at);
            }
            if self.fill(until)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn fill(&mut self, until: Instant) -> io::Result<usize> {
        if self.rest.len() > RESPONSE_MAX {
            return Err(invalid("a response without end"));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 16_384];
        let read = self.stream.read(&mut piece)?;
        self.rest.extend_from_slice(&piece[..read]);
        Ok(read)
    }
}

/// Sends one request on its own connection.
pub(in crate::siege) fn ask(
    address: SocketAddr,
    request: &[u8],
    limit: Duration,
) -> io::Result<Response> {
    Connection::open(address, limit)?.ask(request, limit)
}

/// The bytes of a GET.
pub(in crate::siege) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: siege.test\r\n\r\n").into_bytes()
}

/// The bytes of a POST with a body of `length` bytes.
pub(in crate::siege) fn post(path: &str, length: usize) -> Vec<u8> {
    let mut bytes =
        format!("POST {path} HTTP/1.1\r\nhost: siege.test\r\ncontent-length: {length}\r\n\r\n")
            .into_bytes();
    bytes.resize(bytes.len() + length, b'x');
    bytes
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
