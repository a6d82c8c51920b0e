//! The process of a replica: an HTTP/1.1 server with a service time and a limit of concurrent
//! requests; others wait. SIGUSR1 starts the trouble in its [`Behaviour`], SIGUSR2 ends it. A
//! request whose client leaves is cancelled at any point.

use super::behaviour::{Asked, Behaviour, LONG};
use core::net::SocketAddr;
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

/// The chore's name.
pub(crate) const CHORE: &str = "replica";

/// Path of its counts; requests for it are not counted.
pub(crate) const COUNTS: &str = "/counts";

const BODY: &str = "served\n";

/// The arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The listener's address
    address: SocketAddr,
    /// Its behaviour, as other chores write it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    behaviour: Vec<String>,
}

/// Serves until it is ended.
///
/// # Errors
///
/// Fails if it cannot listen, or if its behaviour is wrong.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let behaviour = Behaviour::parse(&options.behaviour)?;
    let describe = |error: io::Error| format!("a replica cannot serve: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(describe)?;
    runtime
        .block_on(serve(options.address, behaviour))
        .map_err(describe)
}

async fn serve(address: SocketAddr, behaviour: Behaviour) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let replica = Arc::new(Replica {
        room: Semaphore::new(usize::try_from(behaviour.room).unwrap_or(1)),
        body: match usize::try_from(behaviour.body_bytes) {
            Ok(bytes @ 1..) => "x".repeat(bytes),
            _ => BODY.to_owned(),
        },
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
        // Clients that leave need no handling.
        tokio::spawn(async move { replica.carry(stream).await.ok() });
    }
}

struct Replica {
    behaviour: Behaviour,
    began: Instant,
    room: Semaphore,
    /// The body of a response, unless it fails.
    body: String,
    in_trouble: AtomicBool,
    /// State of the random generator.
    draws: AtomicU64,
    counts: Counts,
}

/// Counts of requests.
#[derive(Default)]
struct Counts {
    /// Requests whose service started.
    begun: AtomicU64,
    /// Requests whose client left; part of `begun`.
    left: AtomicU64,
    /// Time spent on all requests, including cancelled ones.
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
                ("200 OK", self.body.clone())
            } else {
                ("500 Internal Server Error", "failed\n".to_owned())
            };
            let length = body.len();
            let answer = if self.behaviour.trailers > 0 {
                format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/grpc\r\ntransfer-encoding: chunked\r\n\r\n\
                     {length:x}\r\n{body}\r\n0\r\ngrpc-status: 0\r\n\r\n"
                )
            } else {
                format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
            };
            stream.write_all(answer.as_bytes()).await?;
            if head.is_last {
                break;
            }
        }
        Ok(())
    }

    /// Serves a request. Returns false if it is answered with 500; an error means that the client
    /// has left.
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

    /// The next value of `SplitMix64`.
    fn draw(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut draw = self.draws.fetch_add(STEP, Relaxed).wrapping_add(STEP);
        draw = (draw ^ (draw >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        draw = (draw ^ (draw >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        draw ^ (draw >> 31)
    }
}

/// Awaits `awaited`; returns an error if the client leaves first.
async fn unless_left<T>(
    stream: &mut BufReader<TcpStream>,
    awaited: impl Future<Output = T>,
) -> io::Result<T> {
    let left = async {
        match stream.fill_buf().await {
            Ok([]) => io::Error::from(io::ErrorKind::UnexpectedEof),
            Err(error) => error,
            // The next request has arrived, so the client is still connected.
            Ok(_) => core::future::pending().await,
        }
    };
    tokio::select! {
        output = awaited => Ok(output),
        error = left => Err(error),
    }
}

/// The relevant parts of a request's head.
#[derive(Default)]
struct Head {
    is_long: bool,
    is_counts: bool,
    /// Length of the body.
    length: u64,
    /// Whether the connection ends after the answer.
    is_last: bool,
}

/// Reads the next head; `None` at the end of the connection.
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
