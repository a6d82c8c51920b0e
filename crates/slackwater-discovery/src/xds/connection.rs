//! A connection to the control plane: TCP, TLS if the URL says so, HTTP/2.

use crate::tcp;
use bytes::Bytes;
use core::convert::Infallible;
use core::time::Duration;
use http_body_util::channel::Channel;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use slackwater_config::tls::HttpVersion;
use slackwater_config::{Endpoint, XdsSettings};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_util::io::InspectReader;

/// The body of the one request on a connection.
pub(super) type RequestBody = Channel<Bytes, Infallible>;

/// Silence after which the system checks whether the peer's machine is still there, and the time
/// between its further checks. A machine that is gone is noticed within a minute.
const TCP_IDLE: Duration = Duration::from_secs(30);
const TCP_INTERVAL: Duration = Duration::from_secs(10);

/// Time between pings, and patience for their answers. Servers of gRPC-Go end a connection whose
/// client sends pings more often than every five minutes.
const PING_INTERVAL: Duration = Duration::from_secs(330);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes that may be on the way.
const WINDOW_BYTES: u32 = 1 << 20;

/// Opens a connection, without a deadline. It is open once the first bytes of the peer's HTTP/2
/// have come: a peer that only accepts TCP has not answered.
pub(super) async fn connect(settings: &XdsSettings) -> Result<SendRequest<RequestBody>, String> {
    let Some(server) = &settings.server else {
        return Err("no server is configured".to_owned());
    };
    let opened = open(settings, server).await;
    opened.map_err(|error| error.to_string())
}

async fn open(settings: &XdsSettings, server: &Endpoint) -> io::Result<SendRequest<RequestBody>> {
    let stream = tcp::connect(server, TCP_IDLE, TCP_INTERVAL).await?;
    if !server.is_secure() {
        return speak(stream).await;
    }
    let client = settings.tls.read();
    let client = client.map_err(|flaw| io::Error::other(flaw.to_string()))?;
    let connector = TlsConnector::from(client.with_sessions(HttpVersion::Http2, 0));
    let secured = connector.connect(server.server_name()?, stream).await?;
    if secured.get_ref().1.alpn_protocol() != Some(HttpVersion::Http2.alpn()) {
        return Err(io::Error::other("it did not agree on HTTP/2 (ALPN h2)"));
    }
    speak(secured).await
}

async fn speak<S>(stream: S) -> io::Result<SendRequest<RequestBody>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sign, first_bytes) = oneshot::channel();
    let mut sign = Some(sign);
    let stream = InspectReader::new(stream, move |bytes| {
        if !bytes.is_empty()
            && let Some(sign) = sign.take()
        {
            // The attempt may be over.
            let _ = sign.send(());
        }
    });
    let handshake = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, mut connection) = handshake.map_err(io::Error::other)?;
    tokio::select! {
        biased;
        Ok(()) = first_bytes => (),
        // With TLS 1.3, the server reports a refused client certificate only now.
        ended = &mut connection => {
            let why = ended.err().map(|error| described(&error));
            let silent = || "it closed the connection before it said anything".to_owned();
            return Err(io::Error::other(why.unwrap_or_else(silent)));
        }
    }
    // It ends when the sender and the stream are dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            let why = described(&error);
            tracing::debug!("connection to the control plane lost: {why}");
        }
    });
    Ok(sender)
}

/// Describes an error of a connection, with its cause.
pub(super) fn described(error: &hyper::Error) -> String {
    let cause = core::error::Error::source(error);
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{error}{cause}")
}
