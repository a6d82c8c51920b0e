//! The thread that sends the spans of all workers to a collector.
//!
//! It checks the workers' queues once a second, and earlier when one fills up. If the collector
//! does not accept an export in time, it is retried a few times while new spans wait; spans that no
//! longer fit are dropped and counted. Errors are logged at most once a minute.

use super::messages::{Attributes, Resource, Scope, export_head};
use super::queue::{Batch, Queue};
use super::tracer::Tracer;
use super::transport::Transport;
use super::verdict::{Refused, Taken};
use core::fmt::Display;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_config::{Endpoint, TracingSettings};
use slackwater_telemetry::trace::SpanCounts;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Longest time that a span waits for others.
const PERIOD: Duration = Duration::from_secs(1);

/// From this many bytes on, nothing is added to an export. Together with one more queue it is half
/// of what a gRPC server accepts by default.
const EXPORT_BYTES: usize = 1 << 20;

/// Maximum number of attempts at an export.
const TRIES_MAX: u32 = 5;

/// Wait before the second attempt; doubled before each further one.
const WAIT: Duration = Duration::from_secs(1);

/// Time for the last spans.
const END_MAX: Duration = Duration::from_secs(5);

/// Interval between logged errors.
const COMPLAINT: Duration = Duration::from_mins(1);

/// State that the thread and its owners share.
#[derive(Debug, Default)]
struct Shared {
    queues: Mutex<Vec<Arc<Queue>>>,
    wake: Arc<Notify>,
    exported: AtomicU64,
    /// Spans dropped by the thread.
    dropped: AtomicU64,
    exports_failed: AtomicU64,
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Vec<Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle of the exporter for workers and the admin server.
#[derive(Clone, Debug)]
pub struct Switch {
    settings: Arc<TracingSettings>,
    shared: Arc<Shared>,
}

impl Switch {
    /// Makes a tracer for one worker.
    pub(crate) fn tracer(&self) -> Rc<Tracer> {
        let queue = Arc::new(Queue::new(Arc::clone(&self.shared.wake)));
        self.shared.queues().push(Arc::clone(&queue));
        Rc::new(Tracer::new(&self.settings, queue))
    }

    /// Returns the counts of spans.
    pub(crate) fn counts(&self) -> SpanCounts {
        let shared = &self.shared;
        let without_room: u64 = shared.queues().iter().map(|queue| queue.dropped()).sum();
        SpanCounts {
            exported: shared.exported.load(Relaxed),
            dropped: shared.dropped.load(Relaxed) + without_room,
            exports_failed: shared.exports_failed.load(Relaxed),
        }
    }
}

/// The exporter of a process. Dropping it sends the spans that wait and ends the thread, which has
/// 5 s for that.
#[derive(Debug)]
pub struct Exporter {
    switch: Switch,
    /// When the end started; `None` before that.
    end: watch::Sender<Option<Instant>>,
    /// Never receives a message; it disconnects when the thread ends.
    is_over: Receiver<()>,
}

impl Exporter {
    /// Starts the thread; `None` if tracing is off.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot provide a thread.
    pub fn start(settings: &TracingSettings) -> Result<Option<Self>, Fault> {
        let Some(endpoint) = settings.endpoint.clone() else {
            return Ok(None);
        };
        let shared = Arc::<Shared>::default();
        let (end, ending) = watch::channel(None);
        let sending = Sending::new(settings, endpoint, Arc::clone(&shared), ending);
        let (alive, is_over) = channel();
        let fault = |error| Fault::runtime(format!("no thread for the export of spans: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(fault)?;
        let work = move || {
            runtime.block_on(sending.run());
            // A pending name lookup is not awaited.
            runtime.shutdown_background();
            drop(alive);
        };
        let builder = thread::Builder::new().name("spans".to_owned());
        builder.spawn(work).map_err(fault)?;
        let switch = Switch {
            settings: Arc::new(settings.clone()),
            shared,
        };
        Ok(Some(Self {
            switch,
            end,
            is_over,
        }))
    }

    /// The handle for workers and the admin server.
    pub const fn switch(&self) -> &Switch {
        &self.switch
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end.send_replace(Some(Instant::now()));
        // The thread keeps its own deadline. It exceeds this one only if it does not get to run.
        let patience = END_MAX + END_MAX;
        if self.is_over.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("spans lost: the export did not end in time");
        }
    }
}

/// The state of the thread.
struct Sending {
    transport: Transport,
    timeout: Duration,
    resource: Resource,
    scope: Scope,
    shared: Arc<Shared>,
    end: watch::Receiver<Option<Instant>>,
    complained_at: Option<Instant>,
}

impl Sending {
    fn new(
        settings: &TracingSettings,
        endpoint: Endpoint,
        shared: Arc<Shared>,
        end: watch::Receiver<Option<Instant>>,
    ) -> Self {
        Self {
            transport: Transport::new(settings.clone(), endpoint),
            timeout: settings.timeout,
            resource: resource(settings),
            scope: Scope {
                name: "slackwater".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            shared,
            end,
            complained_at: None,
        }
    }

    async fn run(mut self) {
        let mut batch = Batch::default();
        loop {
            // Read before spans are fetched, so that all spans from before the end are sent.
            let is_end = self.end.borrow().is_some();
            let queues = self.shared.queues().clone();
            for queue in queues {
                queue.drain_into(&mut batch);
                if batch.bytes.len() >= EXPORT_BYTES {
                    self.deliver(&mut batch).await;
                }
            }
            if batch.spans > 0 {
                self.deliver(&mut batch).await;
            }
            if is_end {
                return;
            }
            tokio::select! {
                () = sleep(PERIOD) => (),
                () = self.shared.wake.notified() => (),
                _ = self.end.changed() => (),
            }
        }
    }

    /// Sends spans, or drops them after failures.
    async fn deliver(&mut self, batch: &mut Batch) {
        let head = export_head(&self.resource, &self.scope, batch.bytes.len());
        let lost = match self.try_often(&head, &batch.bytes).await {
            Ok(taken) => {
                let rejected = taken.rejected.min(batch.spans);
                if !taken.message.is_empty() {
                    self.complain(rejected, &taken.message);
                }
                rejected
            }
            Err(refused) => {
                self.complain(batch.spans, &refused.why);
                batch.spans
            }
        };
        self.shared.dropped.fetch_add(lost, Relaxed);
        self.shared.exported.fetch_add(batch.spans - lost, Relaxed);
        batch.bytes.clear();
        batch.spans = 0;
    }

    async fn try_often(&mut self, head: &[u8], spans: &[u8]) -> Result<Taken, Refused> {
        let (mut wait, mut tries) = (WAIT, 1);
        loop {
            let is_last = tries == TRIES_MAX || self.end.borrow().is_some();
            let refused = match self.try_once(head, spans).await {
                Ok(taken) => return Ok(taken),
                Err(refused) => refused,
            };
            self.shared.exports_failed.fetch_add(1, Relaxed);
            if !refused.may_retry || is_last {
                return Err(refused);
            }
            self.complain(0, &refused.why);
            let pause = refused.after.map_or(wait, |after| after.max(wait));
            tokio::select! {
                () = sleep(pause) => (),
                // At the end there is one more attempt, immediately, even if the end came during
                // this one.
                _ = self.end.changed() => (),
            }
            (wait, tries) = (wait * 2, tries + 1);
        }
    }

    async fn try_once(&mut self, head: &[u8], spans: &[u8]) -> Result<Taken, Refused> {
        let mut end = self.end.clone();
        let sending = timeout(self.timeout, self.transport.send(head, spans));
        tokio::select! {
            sent = sending => sent.unwrap_or_else(|_| {
                Err(Refused::unanswered(format!("no answer within {:?}", self.timeout)))
            }),
            () = over(&mut end) => Err(Refused::unanswered("no answer before the end")),
        }
    }

    fn complain(&mut self, lost: u64, why: &dyn Display) {
        let is_due = |at: Instant| at.elapsed() >= COMPLAINT;
        if self.complained_at.is_none_or(is_due) {
            self.complained_at = Some(Instant::now());
            let collector = &self.transport;
            tracing::warn!(%collector, lost, "span export failed: {why}");
        }
    }
}

/// Returns when the time for the last spans is over.
async fn over(end: &mut watch::Receiver<Option<Instant>>) {
    let ended = end.wait_for(Option::is_some).await;
    // Without an owner, the end is now.
    let at = ended.ok().and_then(|at| *at);
    sleep_until(at.unwrap_or_else(Instant::now) + END_MAX).await;
}

/// Describes the sender: the service, this process and its machine, and the attributes that the
/// configuration adds or overrides.
fn resource(settings: &TracingSettings) -> Resource {
    let mut attributes = Attributes::default();
    attributes.text("service.name", &settings.service_name);
    let is_own = |key: &str| !settings.resource.iter().any(|(other, _)| other == key);
    if is_own("service.version") {
        attributes.text("service.version", env!("CARGO_PKG_VERSION"));
    }
    if is_own("host.name") {
        attributes.text("host.name", rustix::system::uname().nodename().to_bytes());
    }
    if is_own("process.pid") {
        attributes.number("process.pid", std::process::id().into());
    }
    for (key, value) in &settings.resource {
        attributes.text(key, value);
    }
    Resource {
        attributes: attributes.0,
    }
}

#[cfg(test)]
mod tests;
