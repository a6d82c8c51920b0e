//! The thread that sends the spans of all workers to a collector.
//!
//! It looks at the workers' queues once a second, and earlier when one fills up. What the collector
//! does not take in time is tried again a few times, while new spans wait, and are dropped and
//! counted when there is no more room. The log says once a minute at most what is wrong.

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

/// How long a span may wait for others.
const PERIOD: Duration = Duration::from_secs(1);

/// From so many bytes on, nothing is added to an export. With one queue's more it is still half of
/// what a gRPC server takes by default.
const EXPORT_BYTES: usize = 1 << 20;

/// How often an export is tried.
const TRIES_MAX: u32 = 5;

/// Before the second attempt; doubled before each further one.
const WAIT: Duration = Duration::from_secs(1);

/// For the last spans.
const END_MAX: Duration = Duration::from_secs(5);

/// Between two complaints.
const COMPLAINT: Duration = Duration::from_mins(1);

/// What the thread and its owners share.
#[derive(Debug, Default)]
struct Shared {
    queues: Mutex<Vec<Arc<Queue>>>,
    wake: Arc<Notify>,
    exported: AtomicU64,
    /// By the thread.
    dropped: AtomicU64,
    exports_failed: AtomicU64,
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Vec<Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What workers and the admin server need of the exporter.
#[derive(Clone, Debug)]
pub struct Switch {
    settings: Arc<TracingSettings>,
    shared: Arc<Shared>,
}

impl Switch {
    /// A tracer for one worker.
    pub(crate) fn tracer(&self) -> Rc<Tracer> {
        let queue = Arc::new(Queue::new(Arc::clone(&self.shared.wake)));
        self.shared.queues().push(Arc::clone(&queue));
        Rc::new(Tracer::new(&self.settings, queue))
    }

    /// What became of spans.
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

/// The exporter of a process. Dropping it sends what waits and ends the thread, which has a second
/// for that.
#[derive(Debug)]
pub struct Exporter {
    switch: Switch,
    /// From when on there is nothing more to come.
    end: watch::Sender<Option<Instant>>,
    /// Says nothing, and breaks when the thread ends.
    is_over: Receiver<()>,
}

impl Exporter {
    /// Starts its thread; `None` if nothing is to be traced.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
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
            // Where a name is still looked up, that is not waited for.
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

    /// What workers and the admin server need of it.
    pub const fn switch(&self) -> &Switch {
        &self.switch
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end.send_replace(Some(Instant::now()));
        // It keeps its own time; that is over only if the system gives it none.
        let patience = END_MAX + END_MAX;
        if self.is_over.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the export of spans does not end, so the last ones are lost");
        }
    }
}

/// The work of the thread.
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
            // Before spans are fetched: what came before the end is sent.
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

    /// Sends spans, or gives them up.
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
                // Then there is one more try, at once; also if it came while this one was under
                // way.
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
            tracing::warn!(%collector, lost, "spans cannot be exported: {why}");
        }
    }
}

/// Returns when the time for the last spans is over.
async fn over(end: &mut watch::Receiver<Option<Instant>>) {
    let ended = end.wait_for(Option::is_some).await;
    // Without an owner nobody waits for them.
    let at = ended.ok().and_then(|at| *at);
    sleep_until(at.unwrap_or_else(Instant::now) + END_MAX).await;
}

/// Who sends: the service, this process and its machine, and what the configuration adds or says in
/// their place.
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
