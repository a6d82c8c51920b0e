//! A replica's process: HTTP/1.1 with a fixed service time and room for a few requests at once, the others wait. SIGUSR1
//! makes it ten times slower, SIGUSR2 ends that.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

/// Requests at once.
pub(super) const ROOM: u64 = 2;

/// For one.
pub(super) const SERVICE_MS: u64 = 10;

const SLOWER: u32 = 10;
const BODY: &str = "served\n";

/// Serves until it is ended.
///
/// # Errors
///
/// It cannot listen.
pub(crate) fn run(port: &str) -> Result<(), String> {
    let port: u16 = port
        .parse()
        .map_err(|_| format!("{port:?} is not a port"))?;
    let describe = |error: io::Error| format!("a replica cannot serve: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(describe)?;
    runtime.block_on(serve(port)).map_err(describe)
}

async fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let replica = Arc::new(Replica {
        room: Semaphore::new(usize::try_from(ROOM).unwrap_or(1)),
        is_slow: AtomicBool::new(false),
    });
    for (kind, slow) in [
        (SignalKind::user_defined1(), true),
        (SignalKind::user_defined2(), false),
    ] {
        let (mut signals, replica) = (signal(kind)?, Arc::clone(&replica));
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                replica.is_slow.store(slow, Relaxed);
            }
        });
    }
    loop {
        let (stream, _) = listener.accept().await?;
        let replica = Arc::clone(&replica);
        // A client that leaves is no matter of ours.
        tokio::spawn(async move { replica.carry(stream).await.ok() });
    }
}

struct Replica {
    room: Semaphore,
    is_slow: AtomicBool,
}

impl Replica {
    async fn carry(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        while let Some(head) = read_head(&mut stream).await? {
            let mut body = (&mut stream).take(head.length);
            tokio::io::copy(&mut body, &mut tokio::io::sink()).await?;
            // The semaphore is never closed.
            let place = self.room.acquire().await.ok();
            let slower = if self.is_slow.load(Relaxed) {
                SLOWER
            } else {
                1
            };
            tokio::time::sleep(Duration::from_millis(SERVICE_MS) * slower).await;
            drop(place);
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{BODY}",
                BODY.len()
            );
            stream.write_all(answer.as_bytes()).await?;
            if head.is_last {
                break;
            }
        }
        Ok(())
    }
}

/// What matters of a request's head.
#[derive(Default)]
struct Head {
    /// Of the body.
    length: u64,
    /// The connection ends with the answer.
    is_last: bool,
}

/// The next head; `None` at the connection's end.
async fn read_head(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Head>> {
    let mut head = Head::default();
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                let value = value.trim().parse();
                head.length = value.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            }
            Some((name, value)) if name.eq_ignore_ascii_case("connection") => {
                head.is_last = value.trim().eq_ignore_ascii_case("close");
            }
            None if line.trim_end().is_empty() => return Ok(Some(head)),
            _ => (),
        }
    }
}
