//! A client of one balancer: HTTP/1.1 on connections that are kept.

use crate::KEY;
use core::cell::RefCell;
use core::net::SocketAddr;
use std::io;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The longest body that is read: those of replicas are short.
const BODY_MAX: u64 = 1 << 16;

/// A balancer, and the idle connections to it.
#[derive(Debug)]
pub(crate) struct Client {
    balancer: SocketAddr,
    idle: RefCell<Vec<BufReader<TcpStream>>>,
}

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// Whether the connection is still usable.
    is_kept: bool,
}

impl Client {
    pub(crate) const fn new(balancer: SocketAddr) -> Self {
        Self {
            balancer,
            idle: RefCell::new(Vec::new()),
        }
    }

    /// Sends a request with this key.
    ///
    /// # Errors
    ///
    /// Fails without a complete response.
    pub(crate) async fn ask(&self, key: &str) -> io::Result<Answer> {
        let reused = self.idle.borrow_mut().pop();
        let is_reused = reused.is_some();
        let connection = match reused {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        match self.exchange(connection, key).await {
            // The balancer closed the idle connection before it saw the request.
            Err(error) if is_reused && is_closed(&error) => {
                self.exchange(self.connect().await?, key).await
            }
            exchanged => exchanged,
        }
    }

    async fn connect(&self) -> io::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(self.balancer).await?;
        stream.set_nodelay(true)?;
        Ok(BufReader::new(stream))
    }

    async fn exchange(
        &self,
        mut connection: BufReader<TcpStream>,
        key: &str,
    ) -> io::Result<Answer> {
        let request = format!("GET / HTTP/1.1\r\nhost: keyed\r\n{KEY}: {key}\r\n\r\n");
        connection.write_all(request.as_bytes()).await?;
        let answer = read(&mut connection).await?;
        if answer.is_kept {
            self.idle.borrow_mut().push(connection);
        }
        Ok(answer)
    }
}

/// Whether the connection ended before the first byte of a response.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

async fn read(connection: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let mut line = String::new();
    if connection.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(wrong)?;
    let (mut length, mut is_kept) = (None, true);
    loop {
        line.clear();
        if connection.read_line(&mut line).await? == 0 {
            return Err(wrong());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse::<u64>().ok();
        } else if name.eq_ignore_ascii_case("connection") {
            is_kept = !value.eq_ignore_ascii_case("close");
        }
    }
    let mut body = String::new();
    let most = length.unwrap_or(BODY_MAX).min(BODY_MAX);
    let read = connection.take(most).read_to_string(&mut body).await?;
    match length {
        Some(length) if length != read as u64 => Err(wrong()),
        _ => Ok(Answer {
            status,
            body,
            // Without a length the body ends with the connection.
            is_kept: is_kept && length.is_some(),
        }),
    }
}
