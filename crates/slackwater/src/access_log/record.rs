//! One request's record: what is noted on its way, and the line that it becomes at its end.

use super::line::write_line;
use super::queue::Queue;
use super::sample::Sample;
use crate::config::{AccessLogFormat, AccessLogSettings};
use crate::forward::{Cut, Progress, X_SLACKWATER_ERROR};
use core::cell::{Cell, RefCell};
use core::net::IpAddr;
use core::time::Duration;
use http::uri::Authority;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header,
};
use http_body::Body;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client has the whole response.
    Complete,
    /// The client left before that.
    ClientGone,
    /// The client took nothing for too long, and was cut off.
    ClientStalled,
    /// It was cut off: the time to finish was over.
    CutOff,
    /// The replica broke off in the midst of its response.
    Broken,
    /// The replica fell silent in the midst of its response, or both sides of a tunnel did.
    Stalled,
}

impl Ended {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClientGone => "client_gone",
            Self::ClientStalled => "client_stalled",
            Self::CutOff => "cut_off",
            Self::Broken => "broken",
            Self::Stalled => "stalled",
        }
    }
}

/// Makes one worker's records.
#[derive(Debug)]
pub(crate) struct Recorder {
    format: AccessLogFormat,
    with_query: bool,
    id: Option<HeaderName>,
    sample: RefCell<Sample>,
    queue: Arc<Queue>,
    /// Where lines are put together.
    line: RefCell<Vec<u8>>,
}

impl Recorder {
    pub(super) fn new(settings: &AccessLogSettings, queue: Arc<Queue>) -> Rc<Self> {
        Rc::new(Self {
            format: settings.format,
            with_query: settings.query,
            id: settings.request_id.clone(),
            sample: RefCell::new(Sample::new(settings.sample, settings.always_slower_than)),
            queue,
            line: RefCell::default(),
        })
    }

    /// A request has come. Its line is written when the record is dropped; by then `cut` says whether its connection was
    /// ended by us.
    pub(crate) fn begin<B>(
        self: &Rc<Self>,
        request: &Request<B>,
        client: IpAddr,
        listener: &Authority,
        cut: &Rc<Cell<Cut>>,
    ) -> Trace {
        let headers = request.headers();
        let field = |name: &HeaderName| headers.get(name).cloned();
        Trace(Some(Rc::new(RefCell::new(Record {
            recorder: Rc::clone(self),
            at: SystemTime::now(),
            began: Instant::now(),
            client,
            listener: listener.clone(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            host: host(request.uri(), headers),
            referer: field(&header::REFERER),
            user_agent: field(&header::USER_AGENT),
            id: self.id.as_ref().and_then(field),
            service: None,
            replica: None,
            attempts: 0,
            copy: None,
            shadow: None,
            reason: None,
            status: None,
            error: None,
            upload: None,
            bytes_out: 0,
            queue: None,
            connect: None,
            first_byte: None,
            ended: None,
            cut: Rc::clone(cut),
        }))))
    }
}

impl Recorder {
    /// A request came that could not be read, and was answered so.
    pub(crate) fn unreadable<B: Body>(
        &self,
        answer: &Response<B>,
        client: IpAddr,
        listener: &Authority,
    ) {
        let failed = answer.status().is_server_error();
        if !self.sample.borrow_mut().takes(failed, Duration::ZERO) {
            return;
        }
        let request = RequestFacts {
            method: "-",
            path: "-",
            query: None,
            protocol: protocol(Version::HTTP_11),
            host: None,
            referer: None,
            user_agent: None,
            id: None,
        };
        let facts = Facts {
            request: &request,
            at: SystemTime::now(),
            client,
            listener: listener.as_str(),
            service: "-",
            replica: None,
            attempts: 0,
            hedge: None,
            tie: None,
            shadow: None,
            reason: None,
            status: answer.status().as_u16(),
            bytes_in: 0,
            bytes_out: answer.body().size_hint().exact().unwrap_or_default(),
            queue: None,
            connect: None,
            first_byte: None,
            total: Duration::ZERO,
            end: Ended::Complete.as_str(),
            error: bytes(answer.headers().get(X_SLACKWATER_ERROR)),
        };
        self.write(&facts);
    }

    fn write(&self, facts: &Facts<'_>) {
        let mut line = self.line.borrow_mut();
        line.clear();
        write_line(&mut line, self.format, facts);
        self.queue.push(&line);
    }
}

/// The host that the client named: in the target, or else in `Host`.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<HeaderValue> {
    if let Some(authority) = uri.authority() {
        return HeaderValue::from_bytes(without_user(authority.as_str().as_bytes())).ok();
    }
    let host = headers.get(header::HOST)?;
    let shown = without_user(host.as_bytes());
    if shown.len() == host.len() {
        return Some(host.clone());
    }
    HeaderValue::from_bytes(shown).ok()
}

/// Without the user's name and password that may stand before a host, though in `Host` they must not.
fn without_user(authority: &[u8]) -> &[u8] {
    let user_end = memchr::memrchr(b'@', authority);
    user_end.map_or(authority, |at| &authority[at + 1..])
}

/// Why a request has a second copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyKind {
    /// It was late.
    Hedge,
    /// It was tied.
    Tie,
}

/// A handle on a request's record; without a log there is none, and nothing happens. The line is written when the last
/// handle is dropped. If it was not told how the request ended, then the client was cut off, or else it left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Option<Rc<RefCell<Record>>>);

impl Trace {
    /// The service that the request goes to.
    pub(crate) fn route(&self, service: &Rc<str>) {
        self.note(|record| record.service = Some(Rc::clone(service)));
    }

    /// The request is sent to a replica, which was chosen for this reason. Of several attempts the last one is told.
    pub(crate) fn attempt(
        &self,
        replica: &str,
        reason: &'static str,
        upload: Option<Rc<Progress>>,
    ) {
        self.note(|record| {
            record.replica = Some(replica.into());
            record.reason = Some(reason);
            record.attempts += 1;
            record.queue = Some(record.began.elapsed());
            record.upload = upload;
            record.connect = None;
            record.status = None;
            record.first_byte = None;
        });
    }

    /// A second copy of it is sent, while the first is out.
    pub(crate) fn copied(&self, kind: CopyKind) {
        self.note(|record| {
            record.attempts += 1;
            record.copy = Some((kind, "lost"));
        });
    }

    /// The head of the second copy's response is here, and it is the one that is passed on.
    pub(crate) fn copy_won(&self, replica: &str, reason: &'static str, status: StatusCode) {
        self.note(|record| {
            record.copy = record.copy.map(|(kind, _)| (kind, "won"));
            record.replica = Some(replica.into());
            record.reason = Some(reason);
            record.connect = None;
        });
        self.head(status);
    }

    /// A copy of it is sent to that replica, which is out, to see how it does.
    pub(crate) fn tried_out(&self, replica: &str) {
        self.note(|record| record.shadow = Some(replica.into()));
    }

    /// A new connection was made for it, which took so long.
    pub(crate) fn connected(&self, took: Duration) {
        self.note(|record| record.connect = Some(took));
    }

    /// The head of a replica's response is here.
    pub(crate) fn head(&self, status: StatusCode) {
        self.note(|record| {
            record.status = Some(status);
            record.first_byte = Some(record.began.elapsed());
        });
    }

    /// This goes back to the client: if it is no replica's response but one of our own, it is complete with that. `status`
    /// is what it stands for; gRPC has statuses of its own.
    pub(crate) fn answer<B: Body>(&self, status: StatusCode, response: &Response<B>) {
        self.note(|record| {
            if record.status.is_none() {
                record.status = Some(status);
                record.bytes_out = response.body().size_hint().exact().unwrap_or_default();
                record.error = response.headers().get(X_SLACKWATER_ERROR).cloned();
                record.ended = Some(Ended::Complete);
            }
        });
    }

    /// Bytes of the response's body went to the client.
    pub(crate) fn passed(&self, bytes: usize) {
        // A usize has at most 64 bits.
        self.note(|record| record.bytes_out += bytes as u64);
    }

    /// How it ended.
    pub(crate) fn end(&self, ended: Ended) {
        self.note(|record| record.ended = Some(ended));
    }

    fn note(&self, note: impl FnOnce(&mut Record)) {
        if let Some(record) = &self.0 {
            note(&mut record.borrow_mut());
        }
    }
}

/// One request.
#[derive(Debug)]
struct Record {
    recorder: Rc<Recorder>,
    at: SystemTime,
    began: Instant,
    client: IpAddr,
    listener: Authority,
    method: Method,
    uri: Uri,
    version: Version,
    host: Option<HeaderValue>,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    id: Option<HeaderValue>,
    service: Option<Rc<str>>,
    replica: Option<Box<str>>,
    attempts: u32,
    /// What became of its second copy.
    copy: Option<(CopyKind, &'static str)>,
    /// Who had a copy of it as a trial.
    shadow: Option<Box<str>>,
    reason: Option<&'static str>,
    /// Once there is a head.
    status: Option<StatusCode>,
    error: Option<HeaderValue>,
    upload: Option<Rc<Progress>>,
    bytes_out: u64,
    queue: Option<Duration>,
    connect: Option<Duration>,
    first_byte: Option<Duration>,
    ended: Option<Ended>,
    cut: Rc<Cell<Cut>>,
}

impl Record {
    /// What became of a second copy that was sent for this.
    fn copy(&self, kind: CopyKind) -> Option<&'static str> {
        let copy = self.copy.filter(|(sent_for, _)| *sent_for == kind);
        copy.map(|(_, end)| end)
    }

    fn ended(&self) -> Ended {
        self.ended.unwrap_or_else(|| match self.cut.get() {
            Cut::Not => Ended::ClientGone,
            Cut::Off => Ended::CutOff,
            Cut::ClientStalled => Ended::ClientStalled,
        })
    }

    fn failed(&self) -> bool {
        self.status.is_some_and(|status| status.is_server_error())
            || matches!(self.ended(), Ended::Broken | Ended::Stalled | Ended::CutOff)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let total = self.began.elapsed();
        let recorder = &self.recorder;
        if !recorder.sample.borrow_mut().takes(self.failed(), total) {
            return;
        }
        let with_query = recorder.with_query;
        let request = RequestFacts {
            method: self.method.as_str(),
            path: path(&self.uri),
            query: self.uri.query().filter(|_| with_query),
            protocol: protocol(self.version),
            host: bytes(self.host.as_ref()),
            referer: bytes(self.referer.as_ref()).map(|referer| shown_referer(referer, with_query)),
            user_agent: bytes(self.user_agent.as_ref()),
            id: bytes(self.id.as_ref()),
        };
        let facts = Facts {
            request: &request,
            at: self.at,
            client: self.client,
            listener: self.listener.as_str(),
            service: self.service.as_deref().unwrap_or("-"),
            replica: self.replica.as_deref(),
            attempts: self.attempts,
            hedge: self.copy(CopyKind::Hedge),
            tie: self.copy(CopyKind::Tie),
            shadow: self.shadow.as_deref(),
            reason: self.reason,
            status: self.status.map_or(0, |status| status.as_u16()),
            bytes_in: self.upload.as_ref().map_or(0, |upload| upload.bytes()),
            bytes_out: self.bytes_out,
            queue: self.queue,
            connect: self.connect,
            first_byte: self.first_byte,
            total,
            end: self.ended().as_str(),
            error: bytes(self.error.as_ref()),
        };
        recorder.write(&facts);
    }
}

/// What the request is for at its host; of CONNECT, which has no path, the host and port themselves.
fn path(uri: &Uri) -> &str {
    match uri.path() {
        "" => uri.authority().map_or("", Authority::as_str),
        path => path,
    }
}

fn bytes(value: Option<&HeaderValue>) -> Option<&[u8]> {
    value.map(HeaderValue::as_bytes)
}

const fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// Queries of other pages are as private as our own.
fn shown_referer(referer: &[u8], with_query: bool) -> &[u8] {
    let mut parts = referer.split(|byte| *byte == b'?');
    parts.next().filter(|_| !with_query).unwrap_or(referer)
}

/// What a line tells of a request.
#[derive(Debug)]
pub(super) struct RequestFacts<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) protocol: &'static str,
    pub(super) host: Option<&'a [u8]>,
    pub(super) referer: Option<&'a [u8]>,
    pub(super) user_agent: Option<&'a [u8]>,
    pub(super) id: Option<&'a [u8]>,
}

/// What a line tells.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) request: &'a RequestFacts<'a>,
    pub(super) at: SystemTime,
    pub(super) client: IpAddr,
    pub(super) listener: &'a str,
    pub(super) service: &'a str,
    pub(super) replica: Option<&'a str>,
    pub(super) attempts: u32,
    pub(super) hedge: Option<&'static str>,
    pub(super) tie: Option<&'static str>,
    pub(super) shadow: Option<&'a str>,
    pub(super) reason: Option<&'static str>,
    pub(super) status: u16,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) queue: Option<Duration>,
    pub(super) connect: Option<Duration>,
    pub(super) first_byte: Option<Duration>,
    pub(super) total: Duration,
    pub(super) end: &'static str,
    pub(super) error: Option<&'a [u8]>,
}

#[cfg(test)]
mod tests;
