//! A replica for third-party clients, on threads of its own: just enough of an HTTP/1.1 server to
//! check requests, and to send every kind of response that a proxy must pass on.

use super::websocket;
use core::fmt::Write as _;
use core::net::SocketAddr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The content of `/range`.
pub(super) const TEXT: &str = "0123456789";

/// A page for a browser: it makes several requests, and reports what it received.
const PAGE: &str = r#"<!doctype html><title>conformance</title><script>
async function run() {
  const seen = [];
  const observed = new Promise(done => new PerformanceObserver(list => {
    const first = list.getEntries().find(entry => entry.name.endsWith("/protocol"));
    if (first) done(first.nextHopProtocol);
  }).observe({ type: "resource", buffered: true }));
  await (await fetch("/protocol")).text();
  seen.push("protocol " + await observed);
  const many = await Promise.all([...Array(50).keys()].map(i => fetch("/echo/" + i).then(r => r.text())));
  seen.push("in parallel " + many.filter((text, i) => text.includes("/echo/" + i + " ")).length);
  const sent = await fetch("/length", { method: "POST", body: "x".repeat(100000) });
  seen.push("sent " + (await sent.text()).trim());
  const part = await fetch("/range", { headers: { range: "bytes=2-4" } });
  seen.push("part " + part.status + " " + (await part.text()));
  const events = new EventSource("/stream");
  await new Promise(done => events.addEventListener("last", done));
  events.close();
  seen.push("events");
  const socket = new WebSocket("wss://" + location.host + "/websocket");
  socket.addEventListener("open", () => socket.send("hello"));
  const message = await new Promise((done, fail) => {
    socket.addEventListener("message", done);
    socket.addEventListener("error", () => fail("no WebSocket"));
  });
  const closed = new Promise(done => socket.addEventListener("close", done));
  socket.close(1000);
  await closed;
  seen.push("websocket " + message.data);
  return seen.join("; ");
}
const report = text => fetch("/report?" + text.replaceAll(" ", "_"));
run().then(text => report("done: " + text), error => report("failed: " + error));
</script>"#;

/// State that requests share.
#[derive(Debug, Default)]
struct SharedState {
    /// The report of the page.
    report: Mutex<String>,
    /// Releases the second event of `/events`.
    is_open: Mutex<bool>,
    opened: Condvar,
}

/// Starts the replica; it ends with this process.
pub(super) fn start() -> Result<SocketAddr, String> {
    let describe = |error: io::Error| format!("a replica cannot be started: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(describe)?;
    let address = listener.local_addr().map_err(describe)?;
    let state = Arc::new(SharedState::default());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let state = Arc::clone(&state);
            // A client that closes its connection has reasons of its own.
            std::thread::spawn(move || drop(serve(stream, &state)));
        }
    });
    Ok(address)
}

/// A request with its body.
pub(super) struct Request {
    line: String,
    head: String,
    body_bytes: usize,
}

impl Request {
    fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

fn serve(stream: TcpStream, state: &SharedState) -> io::Result<()> {
    let mut write = stream.try_clone()?;
    let mut read = BufReader::new(stream);
    while let Some(request) = next(&mut read, &mut write)? {
        if request.path() == "/websocket" {
            return websocket::echo(&request, &mut read, &mut write);
        }
        answer(&request, &mut write, state)?;
    }
    Ok(())
}

fn next(read: &mut impl BufRead, write: &mut impl Write) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if read.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && head != "\r\n" {
        if read.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    let mut request = Request {
        line,
        head,
        body_bytes: 0,
    };
    if request.field("expect").is_some() {
        write.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if request.field("transfer-encoding").is_some() {
        request.body_bytes = read_chunks(read)?;
    } else if let Some(Ok(length)) = request.field("content-length").map(str::parse::<u64>) {
        let copied = io::copy(&mut read.take(length), &mut io::sink())?;
        request.body_bytes = usize::try_from(copied).unwrap_or(usize::MAX);
    }
    Ok(Some(request))
}

/// Reads a chunked body and returns its length; trailers are ignored.
fn read_chunks(read: &mut impl BufRead) -> io::Result<usize> {
    let mut total = 0;
    loop {
        let mut line = String::new();
        read.read_line(&mut line)?;
        let size = u64::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
        if size == 0 {
            while line.trim_end() != "" {
                line.clear();
                read.read_line(&mut line)?;
            }
            return Ok(total);
        }
        io::copy(&mut read.by_ref().take(size + 2), &mut io::sink())?;
        total += usize::try_from(size).unwrap_or(usize::MAX);
    }
}

fn answer(request: &Request, write: &mut impl Write, state: &SharedState) -> io::Result<()> {
    let plain = |text: &str| {
        let length = text.len();
        let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        if !request.line.starts_with("HEAD") {
            answer += text;
        }
        answer
    };
    let text = match request.path() {
        "/page" => {
            let length = PAGE.len();
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {length}\r\n\r\n{PAGE}")
        }
        "/length" => plain(&format!("{}\n", request.body_bytes)),
        "/range" => match request.field("range") {
            Some("bytes=2-4") => format!(
                "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 2-4/10\r\ncontent-length: 3\r\n\r\n{}",
                &TEXT[2..5]
            ),
            _ => plain(TEXT),
        },
        "/hints" => {
            let hints = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n";
            format!("{hints}{}", plain("hinted\n"))
        }
        "/trailers" => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
                        6\r\nsummed\r\n0\r\nx-sum: 42\r\n\r\n"
            .to_owned(),
        "/nothing" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "/large" => return write_large(write),
        "/events" => return write_events(write, state),
        "/stream" => "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                      connection: close\r\ncontent-length: 41\r\n\r\ndata: first\n\nevent: last\ndata: the last\n\n"
            .to_owned(),
        "/reported" => plain(&state.report.lock().unwrap_or_else(PoisonError::into_inner)),
        path if path.starts_with("/report?") => {
            let said = path["/report?".len()..].replace("%20", " ").replace('_', " ");
            *state.report.lock().unwrap_or_else(PoisonError::into_inner) = said;
            plain("noted\n")
        }
        "/open" => {
            *state.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
            state.opened.notify_all();
            plain("open\n")
        }
        _ => {
            let mut seen = request.line.clone();
            let _ = write!(seen, "{}", request.head);
            plain(&seen)
        }
    };
    write.write_all(text.as_bytes())
}

/// Writes 64 MiB.
fn write_large(write: &mut impl Write) -> io::Result<()> {
    let piece = vec![b'x'; 1 << 20];
    write.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 67108864\r\n\r\n")?;
    for _ in 0..64 {
        write.write_all(&piece)?;
    }
    Ok(())
}

/// Writes two events, the second once `/open` has been requested.
fn write_events(write: &mut impl Write, state: &SharedState) -> io::Result<()> {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    write.write_all(format!("{head}d\r\ndata: first\n\n\r\n").as_bytes())?;
    let mut is_open = state.is_open.lock().unwrap_or_else(PoisonError::into_inner);
    while !*is_open {
        is_open = state
            .opened
            .wait(is_open)
            .unwrap_or_else(PoisonError::into_inner);
    }
    *is_open = false;
    drop(is_open);
    write.write_all(b"e\r\ndata: second\n\n\r\n0\r\n\r\n")
}
