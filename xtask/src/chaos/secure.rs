//! Clients over TLS: a stream of load that keeps its connections for a while, and single
//! connections whose certificate is checked. A request is sent once; every result counts.

use super::fleet::Seen;
use core::net::SocketAddr;
use core::time::Duration;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Timeout for an answer, the same as in `slackwater load`.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Clients of the stream, each with one connection at a time.
const CLIENTS: u32 = 4;

/// Requests on one connection, few enough that handshakes happen all the time.
const REQUESTS_EACH: u32 = 20;

/// A client of the TLS listener.
#[derive(Clone, Debug)]
pub(super) struct Secure {
    address: SocketAddr,
    host: &'static str,
    /// Without resumption, so that each handshake shows a certificate.
    config: Arc<ClientConfig>,
}

impl Secure {
    pub(super) fn new(
        address: SocketAddr,
        host: &'static str,
        roots: RootCertStore,
    ) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self {
            address,
            host,
            config: Arc::new(config),
        })
    }

    async fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let stream = connector.connect(name, stream).await?;
        Ok(Connection {
            stream: BufReader::new(stream),
            host: self.host,
            requests: 0,
        })
    }

    /// Opens a single connection and keeps it, for a blocking caller.
    pub(super) fn hold(&self) -> Result<Held, String> {
        let runtime = runtime()?;
        let connection = runtime
            .block_on(async { timeout(ANSWER_MAX, self.connect()).await? })
            .map_err(|error| format!("TLS to {}: {error}", self.address))?;
        Ok(Held {
            runtime,
            connection,
        })
    }

    /// Sends requests at this rate for this long.
    pub(super) fn load(self, rate: u64, length: Duration) -> Result<SecureLoad, String> {
        let runtime = runtime()?;
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let period = Duration::from_secs(u64::from(CLIENTS)).div_f64(rate as f64);
                let end = Instant::now() + length;
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|_| tokio::spawn(self.clone().ask_until(end, period)))
                    .collect();
                let mut all = Tally::default();
                for client in clients {
                    // The requests of a client that panicked are unknown, so the panic counts as
                    // one error.
                    all.add(client.await.unwrap_or_else(|error| Tally {
                        errors: 1,
                        first: Some(error.to_string()),
                        ..Tally::default()
                    }));
                }
                all
            })
        });
        Ok(SecureLoad(thread))
    }

    async fn ask_until(self, end: Instant, period: Duration) -> Tally {
        let mut tally = Tally::default();
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut kept = None;
        while Instant::now() < end {
            ticks.tick().await;
            let asked = async {
                let mut connection = match kept.take() {
                    Some(connection) => connection,
                    None => self.connect().await?,
                };
                let answer = connection.get("/").await?;
                Ok::<_, io::Error>((connection, answer))
            };
            let asked = timeout(ANSWER_MAX, asked).await;
            tally.requests += 1;
            match asked {
                Ok(Ok((connection, answer))) => {
                    if answer.status != 200 {
                        tally.fail(format!("status {}", answer.status));
                    }
                    if !answer.is_last && connection.requests < REQUESTS_EACH {
                        kept = Some(connection);
                    }
                }
                Ok(Err(error)) => tally.fail(error.to_string()),
                Err(_) => tally.fail("no answer in time".to_owned()),
            }
        }
        tally
    }
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Held {
    runtime: Runtime,
    connection: Connection,
}

impl Held {
    /// The server's certificate.
    pub(super) fn shown(&self) -> Option<CertificateDer<'static>> {
        let session = self.connection.stream.get_ref().get_ref().1;
        Some(session.peer_certificates()?.first()?.clone().into_owned())
    }

    /// Requests `path` and requires an answer.
    pub(super) fn get(&mut self, path: &str) -> Result<(), String> {
        let asking = async { timeout(ANSWER_MAX, self.connection.get(path)).await? };
        match self.runtime.block_on(asking) {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(format!("GET {path} over TLS: status {}", answer.status)),
            Err(error) => Err(format!("GET {path} over TLS: {error}")),
        }
    }
}

/// The stream of load.
#[derive(Debug)]
pub(super) struct SecureLoad(JoinHandle<Tally>);

impl SecureLoad {
    /// Waits for its end; the stream's own timeouts bound the wait.
    pub(super) fn finish(self) -> Result<Seen, String> {
        let tally = (self.0.join()).map_err(|_| "the clients over TLS panicked".to_owned())?;
        Ok(Seen {
            requests: tally.requests,
            errors: tally.errors,
            words: (tally.first).map_or_else(String::new, |first| format!("over TLS: {first}")),
        })
    }
}

#[derive(Debug, Default)]
struct Tally {
    requests: u64,
    errors: u64,
    /// The first error.
    first: Option<String>,
}

impl Tally {
    fn fail(&mut self, why: String) {
        self.errors += 1;
        self.first.get_or_insert(why);
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.first = self.first.take().or(other.first);
    }
}

#[derive(Debug)]
struct Connection {
    stream: BufReader<TlsStream<TcpStream>>,
    host: &'static str,
    requests: u32,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    /// Whether the connection ends after this response.
    is_last: bool,
}

impl Connection {
    async fn get(&mut self, path: &str) -> io::Result<Answer> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.host);
        self.stream.write_all(request.as_bytes()).await?;
        self.stream.flush().await?;
        self.requests += 1;
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let mut line = String::new();
        self.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut answer = Answer {
            status: status.ok_or_else(invalid)?,
            is_last: false,
        };
        let mut length = None;
        loop {
            self.read_line(&mut line).await?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().ok();
                }
                Some((name, value)) if name.eq_ignore_ascii_case("connection") => {
                    answer.is_last = value.eq_ignore_ascii_case("close");
                }
                None if line.trim_end().is_empty() => break,
                _ => (),
            }
        }
        let mut body = vec![0; length.ok_or_else(invalid)?];
        self.stream.read_exact(&mut body).await?;
        Ok(answer)
    }

    async fn read_line(&mut self, line: &mut String) -> io::Result<()> {
        line.clear();
        match self.stream.read_line(line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn runtime() -> Result<Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("a runtime: {error}"))
}
