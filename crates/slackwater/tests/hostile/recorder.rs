//! A replica that records its requests one by one, and answers each with the request's target.
//!
//! It parses strictly, so that a second request that is hidden in a first one is recorded as a
//! request.

use core::fmt::Write;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Size of the answer of `/large`: more than all buffers on the way can hold.
const LARGE_BYTES: usize = 64 << 20;

/// The requests in order; the number distinguishes identical ones.
type Seen = Arc<Mutex<BTreeMap<u64, String>>>;

/// Targets that are not recorded, because they are not part of the rows.
const UNNOTED: [&str; 2] = ["/other/", "/last"];

/// The replica; it ends when dropped.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    seen: Seen,
    task: tokio::task::JoinHandle<()>,
}

impl Recorder {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Seen::default();
        let notes = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_all(stream, Arc::clone(&notes)));
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    /// Takes what was recorded since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        let seen = core::mem::take(&mut *self.seen.lock().unwrap());
        seen.into_values().collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer_all(stream: TcpStream, seen: Seen) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    while let Some(head) = read_head(&mut read).await {
        let target = head.lines().next().unwrap_or_default().to_owned();
        let number = NUMBER.fetch_add(1, Relaxed);
        if !UNNOTED.iter().any(|path| target.contains(path)) {
            let note = format!("{}, cut off", describe(&head));
            seen.lock().unwrap().insert(number, note);
        }
        if target.contains("/unread") {
            // None of the body is read.
            core::future::pending::<()>().await;
        }
        let Some(body_bytes) = read_body(&mut read, &head).await else {
            return;
        };
        if let Some(note) = seen.lock().unwrap().get_mut(&number) {
            *note = describe(&head);
            if body_bytes > 0 {
                let _ = write!(note, " with {body_bytes} bytes");
            }
        }
        let answered = if target.contains("/large") {
            write_large(&mut write).await
        } else {
            let (length, body) = (target.len() + 2, target);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}\r\n");
            write.write_all(answer.as_bytes()).await
        };
        if answered.is_err() {
            return;
        }
    }
}

async fn write_large(write: &mut OwnedWriteHalf) -> std::io::Result<()> {
    static PIECE: [u8; 64 << 10] = [b'x'; 64 << 10];
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE_BYTES}\r\n\r\n");
    write.write_all(head.as_bytes()).await?;
    for _ in 0..LARGE_BYTES / PIECE.len() {
        write.write_all(&PIECE).await?;
    }
    Ok(())
}

/// Method, host and target in the form of a URL.
fn describe(head: &str) -> String {
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next());
    let host: Vec<&str> = fields(head, "host").collect();
    format!(
        "{method} {}{}",
        host.join(" AND "),
        target.unwrap_or_default()
    )
}

fn fields<'a>(head: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    head.lines().skip(1).filter_map(move |line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

async fn read_head(read: &mut BufReader<OwnedReadHalf>) -> Option<String> {
    let mut head = String::new();
    loop {
        let line = read_line(read).await?;
        head += &line;
        if line == "\r\n" {
            return Some(head);
        }
    }
}

async fn read_line(read: &mut BufReader<OwnedReadHalf>) -> Option<String> {
    let mut line = Vec::new();
    read.read_until(b'\n', &mut line).await.ok()?;
    // Other bytes before a request appear in its description.
    line.ends_with(b"\r\n")
        .then(|| String::from_utf8_lossy(&line).into_owned())
}

/// The length of the body; `None` if it is incomplete or badly framed.
async fn read_body(read: &mut BufReader<OwnedReadHalf>, head: &str) -> Option<usize> {
    let lengths: Vec<_> = fields(head, "content-length").collect();
    let codings: Vec<_> = fields(head, "transfer-encoding").collect();
    match (&lengths[..], &codings[..]) {
        ([], []) => Some(0),
        ([length], []) => {
            let length = length.parse().ok()?;
            skip(read, length).await
        }
        ([], ["chunked"]) => {
            let mut total = 0;
            loop {
                let line = read_line(read).await?;
                let size = usize::from_str_radix(line.trim_end(), 16).ok()?;
                if size == 0 {
                    while read_line(read).await? != "\r\n" {}
                    return Some(total);
                }
                total += skip(read, size).await?;
                (read_line(read).await? == "\r\n").then_some(())?;
            }
        }
        // It can be read in two ways, which a proxy must not forward.
        _ => None,
    }
}

async fn skip(read: &mut BufReader<OwnedReadHalf>, bytes: usize) -> Option<usize> {
    let limit = bytes as u64;
    let skipped = tokio::io::copy(&mut read.take(limit), &mut tokio::io::sink()).await;
    (skipped.ok()? == limit).then_some(bytes)
}
