//! The connection to an admin server, and single answers. Every wait has a timeout and every answer
//! has a size limit.

use super::address::Address;
use crate::output::{cannot_connect, clean};
use bytes::Bytes;
use core::time::Duration;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use slackwater_config::Fault;
use std::io;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Timeout of connecting, and of waiting for the head of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a change. It is answered when it is done, and before that host names may have to be
/// resolved and fleets discovered.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(40);

/// Timeout of an answer's body. The status of the largest fleet takes a while also to be sent.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest body of an answer. The status of 65,536 replicas has at most some 3 KiB for each.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The most bytes that are shown of an error response's body.
const REFUSAL_BYTES_MAX: usize = 4 << 10;

/// Why there is no answer. Its text completes "… at ADDRESS".
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The name has no address, or nothing listens there.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The connection or the answer timed out.
    #[error("no answer in time")]
    Late,
    /// The connection broke, or the peer does not speak HTTP.
    #[error("the connection broke: {0}")]
    Broken(hyper::Error),
    /// The server answered with another status than 200.
    #[error("{}", refusal(*.0, .1))]
    Refused(StatusCode, String),
    /// The answer does not come from an admin server.
    #[error("{0}")]
    Strange(String),
    /// The server ended the stream.
    #[cfg(feature = "top")]
    #[error("it ended the stream")]
    Ended,
}

fn refusal(status: StatusCode, why: &str) -> String {
    if status == StatusCode::NOT_FOUND {
        "there is no such path: it is an older slackwater, or something else altogether".to_owned()
    } else {
        format!("it answered {status}: {}", why.trim_end())
    }
}

impl Failure {
    /// Returns the error with which a sub-command that used this address ends.
    pub(crate) fn at(&self, address: &Address) -> Fault {
        let authority = address.authority();
        if let Self::Connect(error) = self {
            return cannot_connect(&authority, error);
        }
        let why = clean(&self.to_string());
        Fault::runtime(format!("the admin server at {authority}: {why}"))
    }
}

/// A request to the server.
#[derive(Debug)]
pub(crate) struct Wanted<'w> {
    path: &'w str,
    accept: &'static str,
    /// The header that authenticates the caller.
    authorization: Option<&'w HeaderValue>,
    /// JSON with the change; `None` for a request that only reads.
    change: Option<Bytes>,
}

impl<'w> Wanted<'w> {
    /// Returns a request that reads a path.
    pub(crate) const fn read(path: &'w str, accept: &'static str) -> Self {
        Self {
            path,
            accept,
            authorization: None,
            change: None,
        }
    }

    /// Returns a request that changes something; `body` is JSON.
    pub(crate) fn change(path: &'w str, body: Bytes) -> Self {
        Self {
            change: Some(body),
            ..Self::read(path, "application/json")
        }
    }

    /// Adds the credentials of the caller.
    pub(crate) fn by(self, authorization: Option<&'w HeaderValue>) -> Self {
        Self {
            authorization,
            ..self
        }
    }

    /// Returns whether the request changes something.
    pub(crate) const fn is_change(&self) -> bool {
        self.change.is_some()
    }

    const fn patience(&self) -> Duration {
        match self.change {
            Some(_) => CHANGE_TIMEOUT,
            None => ANSWER_TIMEOUT,
        }
    }

    fn request(self, address: &Address) -> Result<Request<Full<Bytes>>, http::Error> {
        let is_change = self.change.is_some();
        let method = if is_change { Method::POST } else { Method::GET };
        let mut request = Request::builder()
            .method(method)
            .uri(self.path)
            .header(HOST, address.authority())
            .header(ACCEPT, self.accept);
        if let Some(authorization) = self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if is_change {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(self.change.unwrap_or_default()))
    }
}

/// Sends a request and returns the answer with its whole body.
pub(crate) async fn answer(
    address: &Address,
    wanted: Wanted<'_>,
) -> Result<Response<Bytes>, Failure> {
    let (answer, _connection) = ask(address, wanted).await?;
    let (head, body) = answer.into_parts();
    let body = timeout(BODY_TIMEOUT, whole(body, ANSWER_BYTES_MAX)).await;
    Ok(Response::from_parts(
        head,
        body.map_err(|_| Failure::Late)??,
    ))
}

/// The task that drives a connection. Dropping this aborts it.
#[derive(Debug)]
pub(super) struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a request and returns the answer once its head with status 200 is here.
pub(super) async fn ask(
    address: &Address,
    wanted: Wanted<'_>,
) -> Result<(Response<Incoming>, Connection), Failure> {
    let (path, patience) = (wanted.path, wanted.patience());
    let open = TcpStream::connect((address.host.as_str(), address.port));
    let open = timeout(ANSWER_TIMEOUT, open)
        .await
        .map_err(|_| Failure::Late)?;
    let stream = open.map_err(Failure::Connect)?;
    let opened = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = opened.map_err(Failure::Broken)?;
    let task = tokio::spawn(async move {
        // An error here also reaches the caller that waits for the answer.
        let _ = connection.await;
    });
    let connection = Connection(task.abort_handle());
    let request = wanted
        .request(address)
        .map_err(|error| Failure::Strange(format!("{path} cannot be asked for: {error}")))?;
    let answer = timeout(patience, sender.send_request(request)).await;
    let answer = answer
        .map_err(|_| Failure::Late)?
        .map_err(Failure::Broken)?;
    if answer.status() == StatusCode::OK {
        return Ok((answer, connection));
    }
    let status = answer.status();
    let why = timeout(ANSWER_TIMEOUT, whole(answer.into_body(), REFUSAL_BYTES_MAX)).await;
    let why = why.ok().and_then(Result::ok).unwrap_or_default();
    let why = String::from_utf8_lossy(&why).into_owned();
    Err(Failure::Refused(status, why))
}

async fn whole(body: Incoming, bytes_max: usize) -> Result<Bytes, Failure> {
    let body = Limited::new(body, bytes_max).collect().await;
    let body =
        body.map_err(|error| Failure::Strange(format!("its answer is unusable: {error}")))?;
    Ok(body.to_bytes())
}

#[cfg(test)]
#[cfg(feature = "top")]
mod tests {
    use super::super::{Stream, address, json};
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket};

    /// A server that sends one connection these pieces, each on its own. Its task returns the
    /// request.
    async fn server(pieces: Vec<Vec<u8>>) -> (Address, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = address::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut head = vec![0; 4_096];
            let length = stream.read(&mut head).await.unwrap();
            for piece in pieces {
                // The client may have closed the connection early.
                if stream.write_all(&piece).await.is_err() {
                    break;
                }
            }
            head.truncate(length);
            String::from_utf8(head).unwrap()
        });
        (address, asked)
    }

    async fn refusal(answer: &[u8]) -> String {
        let (address, _) = server(vec![answer.to_vec()]).await;
        Stream::open(&address).await.unwrap_err().to_string()
    }

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

    #[tokio::test]
    async fn events_arrive_individually_and_the_end_is_reported() {
        let body =
            "event: a\ndata: 1\n\nevent: b\ndata: 2\n\n: still here\n\nevent: c\ndata: 3\n\n";
        let mut pieces = vec![HEAD.to_vec()];
        pieces.extend(body.as_bytes().chunks(23).map(<[u8]>::to_vec));
        let (address, asked) = server(pieces).await;
        let mut stream = Stream::open(&address).await.unwrap();
        for (name, data) in [("a", "1"), ("b", "2"), ("c", "3")] {
            let event = stream.next().await.unwrap();
            assert_eq!((event.name.as_str(), event.data.as_str()), (name, data));
        }
        assert!(matches!(stream.next().await, Err(Failure::Ended)));
        let asked = asked.await.unwrap();
        assert!(asked.starts_with("GET /events HTTP/1.1\r\n"), "{asked}");
        let host = format!("host: {}\r\n", address.authority());
        assert!(asked.contains(&host), "{asked}");
        assert!(asked.contains("accept: text/event-stream\r\n"), "{asked}");
    }

    #[tokio::test]
    async fn other_servers_are_distinguished_from_an_admin_server() {
        let missing = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        let text = refusal(missing).await;
        assert!(text.contains("there is no such path"), "{text}");
        let full = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 5\r\n\r\nfull\n";
        let text = refusal(full).await;
        assert_eq!(text, "it answered 503 Service Unavailable: full");
        let page = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\n\r\n";
        let text = refusal(page).await;
        assert!(text.contains("is no stream of events"), "{text}");
        let text = refusal(b"SSH-2.0-OpenSSH\r\n\r\n").await;
        assert!(text.contains("the connection broke"), "{text}");
        // Only the beginning of an error response's body is shown.
        let mut endless = b"HTTP/1.1 500 X\r\n\r\n".to_vec();
        endless.resize(REFUSAL_BYTES_MAX + 100, b'x');
        let text = refusal(&endless).await;
        assert_eq!(text, "it answered 500 Internal Server Error: ");
    }

    #[tokio::test]
    async fn answer_of_a_large_fleet_is_read_whole() {
        let head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        let mut pieces = vec![head];
        pieces.extend(core::iter::repeat_n(vec![b'x'; 1 << 20], 17));
        let (address, _) = server(pieces).await;
        let answer = json(&address, "/status").await.unwrap();
        assert_eq!(answer.len(), 17 << 20);
    }

    #[tokio::test]
    async fn too_long_event_ends_the_stream() {
        let mut pieces = vec![HEAD.to_vec(), b"data: ".to_vec()];
        pieces.extend(core::iter::repeat_n(vec![b'x'; 1 << 20], 17));
        let (address, _) = server(pieces).await;
        let mut stream = Stream::open(&address).await.unwrap();
        let failure = stream.next().await.unwrap_err().to_string();
        assert_eq!(failure, "it sent an event of more than 16777216 bytes");
    }

    #[tokio::test]
    async fn request_without_a_response_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = address::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        tokio::time::pause();
        assert!(matches!(Stream::open(&address).await, Err(Failure::Late)));
        assert!(matches!(
            json(&address, "/history").await,
            Err(Failure::Late)
        ));
    }

    #[tokio::test]
    async fn idle_stream_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = address::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4_096]).await.unwrap();
            stream.write_all(HEAD).await.unwrap();
            stream
        });
        let mut stream = Stream::open(&address).await.unwrap();
        let _open = server.await.unwrap();
        tokio::time::pause();
        assert!(matches!(stream.next().await, Err(Failure::Late)));
    }

    #[tokio::test]
    async fn a_refused_connection_is_an_error() {
        // It never listens, and no other process can at its port.
        let held = TcpSocket::new_v4().unwrap();
        held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = address::parse(&held.local_addr().unwrap().to_string()).unwrap();
        let failure = Stream::open(&address).await.unwrap_err();
        assert!(matches!(failure, Failure::Connect(_)), "{failure}");
    }
}
