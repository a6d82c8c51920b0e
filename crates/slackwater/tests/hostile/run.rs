//! Runs a group of rows against one process, and checks all other clients after each row.

use crate::proxy::{Proxy, resident_bytes};
use crate::recorder::Recorder;
use crate::rows::{self, Does, Group, Row};
use crate::talk;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Most memory that a row may add to the process at any moment: far below what each flood sends or
/// requests.
pub(crate) const GROWTH_BYTES_MAX: u64 = 24 << 20;

/// Pause between two requests of another client.
const PAUSE: Duration = Duration::from_millis(5);
/// Interval of the memory samples.
const SAMPLES_APART: Duration = Duration::from_millis(2);

/// The group that waits until idle connections are closed. Other groups must not have theirs
/// closed, however busy the machine is.
pub(crate) const SLOW: &str = "Too slow";

/// Short timeouts, so that slow clients are detected soon.
const SETTINGS: &str = "\
    head = \"1s\"\n\
    first_byte = \"1s\"\n\
    [limits]\n\
    streams_max = 100\n";

pub(crate) async fn run(group: &Group) {
    let replica = Recorder::start().await;
    let idle = if group.title == SLOW { "2s" } else { "5s" };
    let settings = format!("[timeouts]\nidle = \"{idle}\"\n{SETTINGS}");
    let (proxy, target) = if group.title == rows::tls::TITLE {
        start_tls(replica.address, &settings)
    } else {
        let proxy = Proxy::start(&[replica.address], &settings);
        let target = proxy.address;
        (proxy, target)
    };
    // What is allocated only once, such as buffers and tables, exists before anything is measured.
    let mut other = Other::connect(proxy.address).await;
    other.ask(0).await.unwrap();
    let mut failed = Vec::new();
    for (index, row) in group.rows.iter().enumerate() {
        if let Err(why) = run_row(row, index, &proxy, target, &replica).await {
            failed.push(format!("{}\n{why}", row.name));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} rows\n\n{}\n",
        failed.len(),
        group.rows.len(),
        failed.join("\n\n")
    );
}

/// Starts a process with two listeners. Returns also the address of the one with TLS.
fn start_tls(replica: SocketAddr, settings: &str) -> (Proxy, SocketAddr) {
    let folder = std::env::temp_dir();
    let name = |kind| folder.join(format!("slackwater-hostile-{}.{kind}", std::process::id()));
    let (certificate, key) = (name("pem"), name("key"));
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, issued.cert.pem()).unwrap();
    std::fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
    let listener = "[[listeners]]\naddress = \"127.0.0.1:0\"";
    let config = format!(
        "{settings}[services.web]\npolicy = \"round_robin\"\nreplicas = [\"{replica}\"]\n\
         [services.web.probe]\ntransport = \"none\"\n[[routes]]\nservice = \"web\"\n\
         {listener}\nname = \"plain\"\n{listener}\nname = \"tls\"\n\
         [listeners.tls]\ncertificates = [{{ certificate = \"{}\", key = \"{}\" }}]\n",
        certificate.display(),
        key.display(),
    )
    .replace("[timeouts]", "[timeouts]\nhandshake = \"1s\"");
    let proxy = Proxy::of_file(&config);
    let target = proxy.next_address();
    for file in [certificate, key] {
        std::fs::remove_file(file).unwrap();
    }
    (proxy, target)
}

async fn run_row(
    row: &Row,
    index: usize,
    proxy: &Proxy,
    target: SocketAddr,
    replica: &Recorder,
) -> Result<(), String> {
    let others = Others::start(proxy.address).await;
    replica.take();
    let memory = Memory::watch(proxy);
    let heard = match &row.does {
        Does::Http1(bytes) => talk::http1(target, bytes.clone()).await,
        Does::Slowly(start, rest) => talk::http1_slowly(target, start, rest.clone()).await,
        Does::Http2(frames) => talk::http2(proxy.address, frames.clone()).await,
        Does::Bytes(bytes) => talk::raw_http2(proxy.address, bytes.clone()).await,
        Does::Act(act) => act(proxy.address, replica.address).await,
    };
    others.end().await?;
    // A client that connects only now; its request may use replica connections that the row has
    // used.
    Other::connect(proxy.address).await.ask(index).await?;
    proxy.settled().await;
    let grown = memory.grown();
    let seen = replica.take();

    let mut wrong = Vec::new();
    let (answer, expected) = (row.answer, row.seen);
    if heard != answer {
        wrong.push(format!("  answer:   {heard}\n  expected: {answer}"));
    }
    if !was_seen(expected, &seen) {
        wrong.push(format!(
            "  replica saw: {seen:?}\n  expected:    {expected:?}"
        ));
    }
    if grown > GROWTH_BYTES_MAX {
        wrong.push(format!("  memory grew by {} KiB", grown >> 10));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// A malformed body may arrive with the head, and then it depends on timing whether the head has
/// been forwarded already.
fn was_seen(expected: &[&str], seen: &[String]) -> bool {
    seen == expected || (seen.is_empty() && matches!(expected, [one] if one.ends_with("cut off")))
}

/// A client that sends requests all the time while a row runs.
struct Others {
    over: Arc<AtomicBool>,
    asking: JoinHandle<Result<(), String>>,
}

impl Others {
    async fn start(address: SocketAddr) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let mut other = Other::connect(address).await;
        let ended = Arc::clone(&over);
        let (first, asked) = tokio::sync::oneshot::channel();
        let asking = tokio::spawn(async move {
            other.ask(0).await?;
            let _ = first.send(());
            let mut number = 0;
            while !ended.load(Relaxed) {
                number += 1;
                other.ask(number).await?;
                tokio::time::sleep(PAUSE).await;
            }
            other.ask(number).await
        });
        let _ = asked.await;
        Self { over, asking }
    }

    async fn end(self) -> Result<(), String> {
        self.over.store(true, Relaxed);
        self.asking.await.unwrap()
    }
}

/// A client that checks that it gets its own answers.
struct Other {
    stream: TcpStream,
}

impl Other {
    async fn connect(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
        }
    }

    async fn ask(&mut self, number: usize) -> Result<(), String> {
        let line = format!("GET /other/{number} HTTP/1.1\r\n");
        let request = format!("{line}host: other\r\n\r\n");
        let wrong = |what: &str| Err(format!("  another client: {what}"));
        if self.stream.write_all(request.as_bytes()).await.is_err() {
            return wrong("its connection is closed");
        }
        let mut heard = Vec::new();
        while !String::from_utf8_lossy(&heard).ends_with(&line) {
            let reading = self.stream.read_buf(&mut heard);
            match tokio::time::timeout(crate::proxy::PATIENCE, reading).await {
                Ok(Ok(1..)) => (),
                _ => return wrong(&format!("heard only {:?}", String::from_utf8_lossy(&heard))),
            }
        }
        Ok(())
    }
}

/// Samples the process's memory all the time.
struct Memory {
    before: u64,
    most: Arc<AtomicU64>,
    /// Dropping it ends the sampling.
    _over: Sender<()>,
}

impl Memory {
    fn watch(proxy: &Proxy) -> Self {
        let before = proxy.resident_bytes();
        let most = Arc::new(AtomicU64::new(before));
        let seen = Arc::clone(&most);
        let (over, ended) = channel();
        let process = proxy.process_id();
        std::thread::spawn(move || {
            while let Some(resident) = resident_bytes(process) {
                seen.fetch_max(resident, Relaxed);
                if ended.recv_timeout(SAMPLES_APART) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        });
        Self {
            before,
            most,
            _over: over,
        }
    }

    /// The most memory that was added since this was created.
    fn grown(self) -> u64 {
        self.most.load(Relaxed) - self.before
    }
}
