//! The one stream on a connection: a gRPC call whose both sides stay open.

use super::connection::{RequestBody, described};
use bytes::Bytes;
use core::convert::Infallible;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE, USER_AGENT};
use http::uri::Uri;
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use percent_encoding::percent_decode;
use slackwater_config::XdsSettings;
use slackwater_xds::frame::{Frames, framed};
use slackwater_xds::{ADS_PATH, DELTA_ADS_PATH, Mode, shown};
use tokio::time::timeout;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

const OWN_NAME: HeaderValue =
    HeaderValue::from_static(concat!("slackwater/", env!("CARGO_PKG_VERSION")));

/// Longest time that the control plane may leave a request unread.
const SEND_MAX: Duration = Duration::from_secs(20);

/// Why a stream has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended(String);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Ended {
    fn from(why: String) -> Self {
        Self(why)
    }
}

type Answer = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

/// The response: before its head, and then.
enum Incomes {
    Awaited(Answer),
    Body(Incoming),
}

/// An open stream.
pub(super) struct Stream {
    outgoing: Sender<Bytes, Infallible>,
    incoming: Incomes,
    frames: Frames,
    /// The connection ends when this is dropped.
    _connection: SendRequest<RequestBody>,
}

impl Stream {
    /// Begins the call.
    pub(super) fn open(
        mut connection: SendRequest<RequestBody>,
        mode: Mode,
        settings: &XdsSettings,
    ) -> Result<Self, String> {
        let (outgoing, body) = Channel::new(1);
        let request = request(body, mode, settings)?;
        let answer = connection.send_request(request);
        Ok(Self {
            outgoing,
            incoming: Incomes::Awaited(Box::pin(answer)),
            frames: Frames::default(),
            _connection: connection,
        })
    }

    /// Sends a message.
    pub(super) async fn send(&mut self, message: &[u8]) -> Result<(), Ended> {
        let frame = framed(message);
        // Before its head, the answer may bring the reason why nothing is read.
        let sending = timeout(SEND_MAX, self.outgoing.send_data(frame));
        let sent = match &mut self.incoming {
            Incomes::Body(_) => sending.await,
            Incomes::Awaited(answer) => {
                tokio::pin!(sending);
                tokio::select! {
                    biased;
                    sent = &mut sending => sent,
                    head = answer => {
                        self.incoming = Incomes::Body(accept(head)?);
                        sending.await
                    }
                }
            }
        };
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.end().await),
            Err(_) => Err(Ended(format!("it read nothing within {SEND_MAX:?}"))),
        }
    }

    /// The reason of a stream that takes no more requests.
    async fn end(&mut self) -> Ended {
        match timeout(SEND_MAX, self.next()).await {
            Ok(Err(ended)) => ended,
            _ => Ended("it takes no more requests".to_owned()),
        }
    }

    /// Returns the next message. No part of one is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Bytes, Ended> {
        loop {
            if let Some(message) = self.frames.message().map_err(|it| it.to_string())? {
                return Ok(message);
            }
            match &mut self.incoming {
                Incomes::Awaited(answer) => {
                    let head = answer.await;
                    self.incoming = Incomes::Body(accept(head)?);
                }
                Incomes::Body(body) => match body.frame().await {
                    None => return Err(Ended("it has no status".to_owned())),
                    Some(Err(error)) => return Err(Ended(described(&error))),
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => self.frames.push(&data),
                        Err(frame) => {
                            let trailers = frame.into_trailers().unwrap_or_default();
                            return Err(status(&trailers));
                        }
                    },
                },
            }
        }
    }
}

fn request(
    body: RequestBody,
    mode: Mode,
    settings: &XdsSettings,
) -> Result<Request<RequestBody>, String> {
    let server = settings.server.as_ref().ok_or("no server is configured")?;
    let scheme = if server.is_secure() { "https" } else { "http" };
    let path = match mode {
        Mode::StateOfTheWorld => ADS_PATH,
        Mode::Incremental => DELTA_ADS_PATH,
    };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(server.authority())
        .path_and_query(path)
        .build();
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = uri.map_err(|error| error.to_string())?;
    let fields = request.headers_mut();
    let own = settings.headers.read()?.into_iter();
    fields.extend(own.map(|(name, value)| (Some(name), value)));
    fields.insert(USER_AGENT, OWN_NAME);
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    fields.insert(TE, HeaderValue::from_static("trailers"));
    Ok(request)
}

/// Checks a response's head.
fn accept(answer: hyper::Result<Response<Incoming>>) -> Result<Incoming, Ended> {
    let answer = answer.map_err(|error| Ended(described(&error)))?;
    let (head, body) = answer.into_parts();
    if head.status != StatusCode::OK {
        return Err(Ended(format!("it answered with status {}", head.status)));
    }
    // A call that fails at once has its status in the head.
    if head.headers.contains_key(GRPC_STATUS) {
        return Err(status(&head.headers));
    }
    Ok(body)
}

/// Describes the status of a call that has ended.
fn status(fields: &HeaderMap) -> Ended {
    let text = |name: &HeaderName| {
        let value = fields.get(name).map(HeaderValue::as_bytes);
        shown(&percent_decode(value.unwrap_or_default()).decode_utf8_lossy())
    };
    let (code, message) = (text(&GRPC_STATUS), text(&GRPC_MESSAGE));
    match (code.as_str(), message.is_empty()) {
        ("", _) => Ended("it has no status".to_owned()),
        (_, true) => Ended(format!("grpc-status {code}")),
        (_, false) => Ended(format!("grpc-status {code}: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_described_and_bounded() {
        let told = |code: &str, message: &str| {
            let mut fields = HeaderMap::new();
            fields.insert(GRPC_STATUS, HeaderValue::try_from(code).expect("valid"));
            fields.insert(GRPC_MESSAGE, HeaderValue::try_from(message).expect("valid"));
            status(&fields).to_string()
        };
        assert_eq!(told("16", "no%20token%0a"), "grpc-status 16: no token");
        assert_eq!(told("0", ""), "grpc-status 0");
        assert_eq!(
            told("2", &"x".repeat(1000)).len(),
            "grpc-status 2: ".len() + 300
        );
        assert_eq!(status(&HeaderMap::new()).to_string(), "it has no status");
    }
}
