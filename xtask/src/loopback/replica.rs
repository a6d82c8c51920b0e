//! A replica's process: HTTP/1.1 with a service time and room for a few requests at once, the
//! others wait. SIGUSR1 begins the trouble that its [`Behaviour`] says, SIGUSR2 ends it. A request
//! whose client leaves is left, wherever it stands.

use super::behaviour::{Asked, Behaviour, LONG};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

/// The chore that the process runs: its port follows, and its behaviour.
pub(crate) const CHORE: &str = "replica";

/// Where it says what it has done; not counted itself.
pub(crate) const COUNTS: &str = "/counts";

const BODY: &str = "served\n";

/// Serves until it is ended.
///
/// # Errors
///
/// It cannot listen, or the arguments are wrong.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let Some((port, behaviour)) = arguments.split_first() else {
        return Err("a replica needs a port".to_owned());
    };
    let port: u16 = port
        .parse()
        .map_err(|_| format!("{port:?} is not a port"))?;
    let behaviour = Behaviour::parse(behaviour)?;
    let describe = |error: io::Error| format!("a replica cannot serve: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(describe)?;
    runtime.block_on(serve(port, behaviour)).map_err(describe)
}

async fn serve(port: u16, behaviour: Behaviour) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let replica = Arc::new(Replica {
        room: Semaphore::new(usize::try_from(behaviour.room).unwrap_or(1)),
        draws: AtomicU64::new(behaviour.seed),
        behaviour,
        began: Instant::now(),
        in_trouble: AtomicBool::new(false),
        counts: Counts::default(),
    });
    for (kind, begins) in [
        (SignalKind::user_defined1(), true),
        (SignalKind::user_defined2(), false),
    ] {
        let (mut signals, replica) = (signal(kind)?, Arc::clone(&replica));
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                replica.in_trouble.store(begins, Relaxed);
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
    behaviour: Behaviour,
    began: Instant,
    room: Semaphore,
    in_trouble: AtomicBool,
    /// The state of the generator that draws come from.
    draws: AtomicU64,
    counts: Counts,
}

/// What it has done.
#[derive(Default)]
struct Counts {
    /// Requests that were begun to be served.
    begun: AtomicU64,
    /// Of these, those whose client left.
    left: AtomicU64,
    /// What was spent on them all, those that were left included.
    busy_us: AtomicU64,
}

impl Counts {
    fn text(&self) -> String {
        let number = |count: &AtomicU64| count.load(Relaxed);
        json!({"begun": number(&self.begun), "left": number(&self.left), "busy_us": number(&self.busy_us)})
            .to_string()
    }
}

impl Replica {
    async fn carry(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        while let Some(head) = read_head(&mut stream).await? {
            let mut body = (&mut stream).take(head.length);
            tokio::io::copy(&mut body, &mut tokio::io::sink()).await?;
            let (status, body) = if head.is_counts {
                ("200 OK", self.counts.text())
            } else if self.serve(&head, &mut stream).await? {
                ("200 OK", BODY.to_owned())
            } else {
                ("500 Internal Server Error", "failed\n".to_owned())
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await?;
            if head.is_last {
                break;
            }
        }
        Ok(())
    }

    /// Whether the request came to a good end. An error: its client has left.
    async fn serve(&self, head: &Head, stream: &mut BufReader<TcpStream>) -> io::Result<bool> {
        let asked = Asked {
            is_long: head.is_long,
            in_trouble: self.in_trouble.load(Relaxed),
            age_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            draw_percent: self.draw() % 100,
        };
        if self.behaviour.fails(&asked) {
            return Ok(false);
        }
        let place = unless_left(stream, self.room.acquire()).await?;
        let begun = Instant::now();
        self.counts.begun.fetch_add(1, Relaxed);
        let time = Duration::from_millis(self.behaviour.serves_ms(&asked));
        let served = unless_left(stream, tokio::time::sleep(time)).await;
        drop(place);
        let busy_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counts.busy_us.fetch_add(busy_us, Relaxed);
        if served.is_err() {
            self.counts.left.fetch_add(1, Relaxed);
        }
        served.map(|()| true)
    }

    /// The next of `SplitMix64`.
    fn draw(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut draw = self.draws.fetch_add(STEP, Relaxed).wrapping_add(STEP);
        draw = (draw ^ (draw >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        draw = (draw ^ (draw >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        draw ^ (draw >> 31)
    }
}

/// What `awaited` comes to; an error if the client leaves before.
async fn unless_left<T>(
    stream: &mut BufReader<TcpStream>,
    awaited: impl Future<Output = T>,
) -> io::Result<T> {
    let left = async {
        match stream.fill_buf().await {
            Ok([]) => io::Error::from(io::ErrorKind::UnexpectedEof),
            Err(error) => error,
            // The next request has come: who sends one is there.
            Ok(_) => core::future::pending().await,
        }
    };
    tokio::select! {
        output = awaited => Ok(output),
        error = left => Err(error),
    }
}

/// What matters of a request's head.
#[derive(Default)]
struct Head {
    is_long: bool,
    is_counts: bool,
    /// Of the body.
    length: u64,
    /// The connection ends with the answer.
    is_last: bool,
}

/// The next head; `None` at the connection's end.
async fn read_head(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Head>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default();
    let mut head = Head {
        is_long: path.starts_with(LONG),
        is_counts: path == COUNTS,
        ..Head::default()
    };
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
