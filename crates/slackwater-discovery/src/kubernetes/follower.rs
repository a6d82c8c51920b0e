//! From the answers of an API server to the slices of now: list, watch, and list again.

use super::api::{Api, ApiError, Connection};
use super::backoff::Backoff;
use super::lines::Lines;
use super::slices::{Event, List, Metadata, Object, OwnPlace, Slice, Slices, short};
use core::time::Duration;
use hyper::body::Incoming;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::{Instant, sleep_until, timeout_at};

/// Slices of one page of a list.
const PAGE: u32 = 20;
/// The most pages of a list, also empty ones.
const PAGES_MAX: usize = 1000;
/// How long the server keeps a watch open, in seconds; up to a minute more is drawn.
const WATCH_S: u64 = 240;
/// How long after that time a watch counts as dead.
const WATCH_GRACE: Duration = Duration::from_secs(20);
/// How long a watch may be silent before it is replaced by another one. An API server sends a
/// bookmark every minute, or up to a quarter later; the time is that of two. A peer that a proxy or
/// a network hides is noticed by nothing else.
const SILENCE_MAX: Duration = Duration::from_secs(150);
/// How long a streaming list may send nothing before it is done by pages.
const INITIAL_QUIET_MAX: Duration = Duration::from_secs(2);
/// How long a streaming list may take.
const INITIAL_MAX: Duration = Duration::from_secs(30);
/// Shortest time between the starts of two watches.
const WATCH_PERIOD_MIN: Duration = Duration::from_millis(800);
/// A watch of this age has shown that the server works.
const WATCH_PROVEN: Duration = Duration::from_secs(30);
/// How long further events are waited for before a change is reported. A rollout changes several
/// slices at once.
const SETTLED: Duration = Duration::from_millis(50);
/// The storage feature that an API server names when its etcd is too old for streaming lists
/// (before 3.4.25): it ends the watch by an error of status 500.
const NO_PROGRESS: &str = "RequestWatchProgress";
/// The longest version or continuation that a server may name, in bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// A watch that is open.
#[derive(Debug)]
struct Watch {
    /// It is closed when this is dropped.
    _connection: Connection,
    lines: Lines<Incoming>,
    opened_at: Instant,
    /// When it sent something for the last time.
    received_at: Instant,
    /// When it counts as dead.
    deadline: Instant,
    /// Whether it has sent anything.
    has_spoken: bool,
}

/// How far the follower is.
#[derive(Debug)]
enum Phase {
    /// Everything must be listed.
    Unlisted,
    /// The slices are those of this version; nothing is watched.
    Listed(String),
    /// Changes after this version are watched.
    Watching(String, Watch),
}

/// What an event changes.
enum Change {
    /// A slice.
    Slices,
    /// Nothing, up to this version.
    Bookmark { ends_initial_events: bool },
}

/// The slices of a service, kept up to date.
#[derive(Debug)]
pub(super) struct SliceFollower {
    api: Api,
    /// Path and first parameter of every request.
    path: String,
    place: OwnPlace,
    slices: Slices,
    phase: Phase,
    /// Whether lists are streamed; `false` once the server has said that it does not.
    streams: bool,
    /// Whether the next list is done by pages, because a streaming list did not come.
    pages_next: bool,
    backoff: Backoff,
    /// When the next request may be sent.
    not_before: Instant,
}

impl SliceFollower {
    /// Both names are labels of RFC 1123, which need no encoding.
    pub(super) fn new(
        api: Api,
        namespace: &str,
        service: &str,
        place: OwnPlace,
        seed: u64,
    ) -> Self {
        Self {
            api,
            path: format!(
                "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices\
                 ?labelSelector=kubernetes.io%2Fservice-name%3D{service}"
            ),
            place,
            slices: Slices::default(),
            phase: Phase::Unlisted,
            streams: true,
            pages_next: false,
            backoff: Backoff::new(seed),
            not_before: Instant::now(),
        }
    }

    pub(super) const fn slices(&self) -> &Slices {
        &self.slices
    }

    /// Waits until the server has confirmed or changed the slices.
    ///
    /// # Errors
    ///
    /// Returns why the slices of now are not known. The next call waits before it tries again.
    pub(super) async fn next(&mut self) -> Result<(), String> {
        loop {
            if !matches!(self.phase, Phase::Watching(..)) {
                sleep_until(self.not_before).await;
            }
            let step = match &self.phase {
                Phase::Watching(..) => self.follow().await,
                Phase::Listed(version) => {
                    let version = version.clone();
                    self.open(version).await
                }
                Phase::Unlisted if self.streams && !self.pages_next => self.stream().await,
                Phase::Unlisted => self.list().await,
            };
            match step {
                Ok(true) => return Ok(()),
                Ok(false) => (),
                Err(ApiError::Outdated) => {
                    self.phase = Phase::Unlisted;
                    // A version may become too old at any time, but not one after the other.
                    if !self.pause(Backoff::after_outdated).is_zero() {
                        return Err(
                            "the API server answers 410 again: its lists are too old to \
                                    be watched"
                                .to_owned(),
                        );
                    }
                }
                Err(error) => {
                    self.pause(Backoff::after_failure);
                    return Err(match error {
                        ApiError::Failed(why) => why,
                        _ => "the API server refuses the request as invalid".to_owned(),
                    });
                }
            }
        }
    }

    /// Puts the next request off. Returns by how much.
    fn pause(&mut self, wait: fn(&mut Backoff) -> Duration) -> Duration {
        let wait = wait(&mut self.backoff);
        self.not_before = self.not_before.max(Instant::now() + wait);
        wait
    }

    /// Lists by a watch that begins with all slices. Returns `false` if pages must be listed.
    async fn stream(&mut self) -> Result<bool, ApiError> {
        let parameters = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let mut watch = match self.watch(parameters).await {
            Ok(watch) => watch,
            Err(ApiError::Unsupported) => return Ok(self.stop_streams()),
            Err(error) => return Err(error),
        };
        let mut slices = Slices::default();
        let end = Instant::now() + INITIAL_MAX;
        loop {
            let until = end.min(Instant::now() + INITIAL_QUIET_MAX);
            let line = match timeout_at(until, watch.lines.next()).await {
                // A server that does not know the parameters sends nothing at the end, as does one
                // that is only busy.
                Err(_) | Ok(Ok(None)) => return Ok(self.skip_stream()),
                Ok(Err(why)) => return Err(self.api.failed(&why)),
                Ok(Ok(Some(line))) => line,
            };
            let (version, change) = match self.read(&line, &mut slices) {
                Ok(read) => read,
                Err(EventError::Status(status, said)) if status >= 500 => {
                    return Ok(if said.contains(NO_PROGRESS) {
                        self.stop_streams()
                    } else {
                        self.skip_stream()
                    });
                }
                Err(EventError::Status(status, said)) => {
                    return match self.api.refused(status, &said, "watch") {
                        ApiError::Unsupported => Ok(self.stop_streams()),
                        error => Err(error),
                    };
                }
                Err(EventError::Invalid(why)) => return Err(self.api.failed(&why)),
            };
            match change {
                Change::Slices => (),
                Change::Bookmark {
                    ends_initial_events: false,
                } => return Ok(self.stop_streams()),
                Change::Bookmark { .. } => {
                    self.slices = slices;
                    watch.received_at = Instant::now();
                    self.phase = Phase::Watching(version, watch);
                    return Ok(true);
                }
            }
        }
    }

    /// Lists by pages once. Returns `false`, because nothing is listed yet.
    const fn skip_stream(&mut self) -> bool {
        self.pages_next = true;
        false
    }

    /// Lists by pages from now on. Returns `false`, because nothing is listed yet.
    const fn stop_streams(&mut self) -> bool {
        self.streams = false;
        false
    }

    /// Lists page by page.
    async fn list(&mut self) -> Result<bool, ApiError> {
        self.pages_next = false;
        let mut slices = Slices::default();
        let mut next_page = None::<String>;
        for _ in 0..PAGES_MAX {
            let mut path = format!("{}&limit={PAGE}", self.path);
            if let Some(token) = &next_page {
                path.push_str("&continue=");
                path.extend(utf8_percent_encode(token, NON_ALPHANUMERIC));
            }
            let body = match self.api.list(&path).await {
                Err(ApiError::Unsupported) => {
                    return Err(self
                        .api
                        .failed("refuses to list EndpointSlices (400 or 422)"));
                }
                body => body?,
            };
            let list: Result<List, _> = serde_json::from_slice(&body);
            let list = list.map_err(|error| {
                let (line, column) = (error.line(), error.column());
                let told = format!("sent no valid list: byte {column} of line {line}");
                self.api.failed(&told)
            })?;
            for object in list.items {
                let put = self.put(object, &mut slices);
                put.map_err(|why| self.api.failed(&why))?;
            }
            next_page = list.metadata.next_page.clone().filter(|it| !it.is_empty());
            match &next_page {
                Some(token) if token.len() > TOKEN_BYTES_MAX => break,
                Some(_) => (),
                None => {
                    let version = version_of(&list.metadata);
                    let version = version.map_err(|why| self.api.failed(why))?;
                    self.slices = slices;
                    self.phase = Phase::Listed(version);
                    return Ok(true);
                }
            }
        }
        Err(self.api.failed("sent a list that does not end"))
    }

    /// Begins to watch changes after a version.
    async fn open(&mut self, version: String) -> Result<bool, ApiError> {
        let parameters = format!(
            "resourceVersion={}",
            utf8_percent_encode(&version, NON_ALPHANUMERIC)
        );
        match self.watch(&parameters).await {
            Ok(watch) => {
                self.phase = Phase::Watching(version, watch);
                Ok(true)
            }
            Err(ApiError::Unsupported) => {
                self.phase = Phase::Unlisted;
                Err(self
                    .api
                    .failed("refuses to watch EndpointSlices (400 or 422)"))
            }
            Err(error) => Err(error),
        }
    }

    async fn watch(&mut self, parameters: &str) -> Result<Watch, ApiError> {
        let drawn = self.backoff.up_to(Duration::from_mins(1)).as_secs();
        let span_s = WATCH_S + drawn;
        let path = format!(
            "{}&watch=true&allowWatchBookmarks=true&timeoutSeconds={span_s}&{parameters}",
            self.path
        );
        let opened_at = Instant::now();
        self.not_before = opened_at + WATCH_PERIOD_MIN;
        let (connection, body) = self.api.watch(&path).await?;
        let received_at = Instant::now();
        Ok(Watch {
            _connection: connection,
            lines: Lines::new(body),
            opened_at,
            received_at,
            deadline: received_at + Duration::from_secs(span_s) + WATCH_GRACE,
            has_spoken: false,
        })
    }

    /// Waits for events of the watch, and applies them. Whatever ends the watch leaves the phase
    /// from which to go on.
    async fn follow(&mut self) -> Result<bool, ApiError> {
        let Phase::Watching(version, mut watch) =
            core::mem::replace(&mut self.phase, Phase::Unlisted)
        else {
            return Ok(false);
        };
        let mut version = version;
        let mut settled = None::<Instant>;
        loop {
            let silent_at = watch.received_at + SILENCE_MAX;
            let until = settled.unwrap_or(watch.deadline.min(silent_at));
            let line = match timeout_at(until, watch.lines.next()).await {
                Err(_) if settled.is_some() => {
                    self.phase = Phase::Watching(version, watch);
                    return Ok(true);
                }
                // The next watch shows whether the server is there: one without bookmarks is
                // silent, too.
                Err(_) if silent_at < watch.deadline => {
                    self.phase = Phase::Listed(version);
                    return Ok(false);
                }
                Err(_) => {
                    self.phase = Phase::Listed(version);
                    return Err(self.api.failed("did not end the watch in time"));
                }
                Ok(Err(why)) => {
                    self.phase = Phase::Listed(version);
                    return Err(self.api.failed(&why));
                }
                Ok(Ok(None)) => {
                    self.phase = Phase::Listed(version);
                    return self.ended(&watch);
                }
                Ok(Ok(Some(line))) => line,
            };
            let mut slices = core::mem::take(&mut self.slices);
            let read = self.read(&line, &mut slices);
            self.slices = slices;
            // After an error it is not known which events are missing, so all are listed again.
            let (next, change) = read.map_err(|error| match error {
                EventError::Status(400 | 422, said) => self.api.failed(&format!(
                    "ended the watch by an error ({})",
                    short(said).unwrap_or_default()
                )),
                EventError::Status(status, said) => self.api.refused(status, &said, "watch"),
                EventError::Invalid(why) => self.api.failed(&why),
            })?;
            version = next;
            watch.has_spoken = true;
            watch.received_at = Instant::now();
            self.backoff.reset();
            match change {
                Change::Bookmark { .. } if settled.is_none() => {
                    self.phase = Phase::Watching(version, watch);
                    return Ok(true);
                }
                Change::Bookmark { .. } => (),
                Change::Slices => {
                    let now = Instant::now();
                    // Events that never pause must not put the report off.
                    if *settled.get_or_insert(now + SETTLED) <= now {
                        self.phase = Phase::Watching(version, watch);
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// The server has ended a watch, as it does after its time.
    fn ended(&mut self, watch: &Watch) -> Result<bool, ApiError> {
        let age = watch.opened_at.elapsed();
        if age >= WATCH_PROVEN {
            self.backoff.reset();
        }
        if watch.has_spoken || age >= WATCH_PERIOD_MIN {
            return Ok(watch.has_spoken);
        }
        Err(self.api.failed("ended the watch at once"))
    }

    /// Applies an event to `slices`. Returns the version after it.
    fn read(&self, line: &[u8], slices: &mut Slices) -> Result<(String, Change), EventError> {
        let event: Event = serde_json::from_slice(line).map_err(|error| {
            let told = format!("sent no valid event: byte {}", error.column());
            EventError::Invalid(told)
        })?;
        let Event { kind, object } = event;
        if kind == "ERROR" {
            let said = object.message.unwrap_or_default();
            return Err(EventError::Status(object.code.unwrap_or(500), said));
        }
        let version = version_of(&object.metadata);
        let version = version.map_err(|why| EventError::Invalid(why.to_owned()))?;
        let change = match kind.as_str() {
            "ADDED" | "MODIFIED" => {
                self.put(object, slices).map_err(EventError::Invalid)?;
                Change::Slices
            }
            "DELETED" => {
                slices.remove(object.metadata.name.as_deref().unwrap_or_default());
                Change::Slices
            }
            "BOOKMARK" => Change::Bookmark {
                ends_initial_events: object.metadata.ends_initial_events(),
            },
            _ => {
                let kind = kind.chars().take(40).collect::<String>();
                return Err(EventError::Invalid(format!(
                    "sent an event of the unknown type {kind:?}"
                )));
            }
        };
        Ok((version, change))
    }

    fn put(&self, mut object: Object, slices: &mut Slices) -> Result<(), String> {
        let name = object.metadata.name.take().and_then(short);
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| "sent an EndpointSlice without a name".to_owned())?;
        slices.put(name, Slice::of(object, &self.place))
    }
}

/// Why an event changes nothing.
enum EventError {
    /// The server ends the watch, by a status with a message.
    Status(u16, String),
    /// The event is none.
    Invalid(String),
}

fn version_of(metadata: &Metadata) -> Result<String, &'static str> {
    let version = metadata.resource_version.as_deref().unwrap_or_default();
    if version.is_empty() || version.len() > TOKEN_BYTES_MAX {
        return Err("sent something without a resourceVersion");
    }
    Ok(version.to_owned())
}
