//! Each metric moves: the test causes what it counts, over real sockets, and its value differs from
//! the one at the start.

mod agent;
mod fleet;
mod health;
mod probes;
mod requests;
mod tail;

use crate::clients::get;
use crate::proxy::{Proxy, until};
use futures_util::future::LocalBoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use tokio::runtime::Builder;

/// Metrics that do not move here, and why.
const STAY: [(&str, &str); 12] = [
    ("slackwater_build_info", "always 1"),
    ("slackwater_workers", "those that a process begins with"),
    (
        "slackwater_log_lost_lines_total",
        "moves in `logging`, where the log is not read",
    ),
    (
        "slackwater_probes_unsent_total",
        "the system's own queue has to be full",
    ),
    (
        "slackwater_probes_backed_off_total",
        "a fleet has to answer too late for a while: in the core's rules",
    ),
    (
        "slackwater_own_limit_requests",
        "fixed here; learned in the tests of the queue",
    ),
    ("process_start_time_seconds", "there is one start"),
    (
        "process_resident_memory_bytes",
        "compared with the system's in `metrics`",
    ),
    ("process_virtual_memory_bytes", "the system's own affair"),
    ("process_max_fds", "a limit"),
    ("process_threads", "those that a process begins with"),
    (
        "slackwater_certificate_expiry_timestamp_seconds",
        "compared with the certificate in `tls`",
    ),
];

/// All metrics on the page, which is made from the registry.
fn registry() -> BTreeSet<&'static str> {
    let page = include_str!("../../../../docs/reference/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next());
    names.collect()
}

/// Metrics that have moved.
#[derive(Default)]
struct Moved(Mutex<BTreeSet<&'static str>>);

impl Moved {
    /// Watches the metrics of a process.
    async fn watch<'m>(&'m self, proxy: &'m Proxy) -> Watched<'m> {
        Watched {
            proxy,
            first: samples(proxy).await,
            moved: self,
        }
    }
}

/// The values of samples.
type Samples = BTreeMap<String, f64>;

async fn samples(proxy: &Proxy) -> Samples {
    let page = proxy.admin_page("/metrics").await;
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (sample, value) = line.rsplit_once(' ').unwrap();
        (sample.to_owned(), value.parse().unwrap())
    });
    samples.collect()
}

/// A process, and its metrics at the beginning.
struct Watched<'m> {
    proxy: &'m Proxy,
    first: Samples,
    moved: &'m Moved,
}

/// Returns whether a sample belongs to that metric, or counts its samples.
fn is_of(sample: &str, metric: &str) -> bool {
    let name = sample.split('{').next().unwrap_or_default();
    let suffix = name.strip_prefix(metric);
    suffix.is_some_and(|suffix| suffix.is_empty() || suffix == "_count")
}

impl Watched<'_> {
    async fn has_moved(&self, metric: &str) -> bool {
        let now = samples(self.proxy).await;
        let value = |samples: &Samples, name: &str| samples.get(name).copied().unwrap_or(0.0);
        let names = self.first.keys().chain(now.keys());
        let mut own = names.filter(|name| is_of(name, metric));
        own.any(|name| (value(&self.first, name) - value(&now, name)).abs() > 1e-12)
    }

    /// Waits until each of these metrics has another value than at the start, while `act` is
    /// repeated. An absent sample counts as 0.
    async fn moves_while(&self, metrics: &[&'static str], mut act: impl AsyncFnMut()) {
        let known = registry();
        for metric in metrics {
            assert!(known.contains(metric), "there is no {metric}");
            until(&format!("{metric} moves"), async || {
                act().await;
                self.has_moved(metric).await.then_some(())
            })
            .await;
        }
        self.moved.0.lock().unwrap().extend(metrics);
    }

    async fn moves(&self, metrics: &[&'static str]) {
        self.moves_while(metrics, async || ()).await;
    }

    /// Like [`Self::moves_while`], while requests are sent.
    async fn moves_with_requests(&self, metrics: &[&'static str]) {
        let address = self.proxy.address;
        self.moves_while(metrics, async || {
            get(address, "/").await;
        })
        .await;
    }
}

/// A part of the test.
type Part = for<'m> fn(&'m Moved) -> LocalBoxFuture<'m, ()>;

#[test]
fn each_metric_changes_under_its_conditions() {
    let all = Moved::default();
    let parts: [Part; 6] = [
        |moved| Box::pin(requests::all(moved)),
        |moved| Box::pin(tail::all(moved)),
        |moved| Box::pin(probes::all(moved)),
        |moved| Box::pin(health::all(moved)),
        |moved| Box::pin(fleet::all(moved)),
        |moved| Box::pin(agent::all(moved)),
    ];
    // The parts run in parallel, since they mostly wait. Each has its own thread, because waiting
    // for a line of the log blocks it.
    std::thread::scope(|scope| {
        let run = |part: Part| {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(part(&all));
        };
        let threads = parts.map(|part| scope.spawn(move || run(part)));
        for thread in threads {
            assert!(thread.join().is_ok(), "its metrics move");
        }
    });
    let mut found = all.0.into_inner().unwrap();
    for (metric, why) in STAY {
        assert!(found.insert(metric), "{metric} moves after all: {why}");
    }
    let missing: Vec<_> = registry().difference(&found).copied().collect();
    assert!(missing.is_empty(), "these do not move: {missing:?}");
    assert_eq!(found.len(), registry().len());
}
