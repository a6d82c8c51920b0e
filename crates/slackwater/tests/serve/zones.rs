//! Zones: a request leaves its zone only when the replicas there are not able to carry it.

use crate::members::{answers, probed};
use crate::proxy::{Proxy, until};
use crate::recording::Recording;
use crate::reload::{Written, reload};
use crate::replicas::Replica;
use slackwater_tower::server::Load;
use tokio_util::task::AbortOnDropHandle;

const NAMES: [&str; 2] = ["one", "two"];

/// A replica that answers probes, and whose load is what the test says.
struct Probed {
    _replica: Replica,
    load: Load,
    _probes: AbortOnDropHandle<()>,
    entry: String,
}

impl Probed {
    async fn start(name: &'static str) -> Self {
        let (replica, load, probes, entry) = probed(name, 0).await;
        Self {
            _replica: replica,
            load,
            _probes: probes,
            entry,
        }
    }

    /// Its entry in the file, with this key.
    fn with(&self, key: &str) -> String {
        self.entry.replace("tier = 0", key)
    }
}

/// One service with the default policy and one worker, in the zone `own`.
fn config(own: &str, replicas: &[String]) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\ndiscovery.warm_up = 0\n\
         zone = {{ name = \"{own}\", round_trip = 0 }}\nreplicas = [{}]\n",
        replicas.concat()
    )
}

/// Waits until of 100 requests in a row at least 90 go to one replica.
async fn served_by(proxy: &Proxy, name: usize) {
    until(&format!("requests go to {}", NAMES[name]), async || {
        let counts = answers(proxy, NAMES, 100).await;
        (counts[name] >= 90).then_some(())
    })
    .await;
}

async fn far_requests(proxy: &Proxy) -> u64 {
    let shown = proxy.status().await;
    shown["services"][0]["admission"]["far"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_leave_their_zone_when_it_is_full_or_gone() {
    let (one, two) = (Probed::start("one").await, Probed::start("two").await);
    let both = |zones: [&str; 2], weight: u16| {
        [
            one.with(&format!("zone = \"{}\"", zones[0])),
            two.with(&format!("zone = \"{}\", weight = {weight}", zones[1])),
        ]
    };
    let written = Written::new("zones", &config("a", &both(["a", "b"], 1)));
    let recording = Recording::new("zones");
    let mut proxy = written.serve(&["--record", recording.name()]);
    served_by(&proxy, 0).await;

    // Full: far more in flight than elsewhere.
    let held: Vec<_> = (0..40).map(|_| one.load.arrive()).collect();
    served_by(&proxy, 1).await;
    drop(held);
    served_by(&proxy, 0).await;

    // Gone.
    one.load.set_draining(true);
    served_by(&proxy, 1).await;
    one.load.set_draining(false);
    served_by(&proxy, 0).await;
    let counted = far_requests(&proxy).await;
    let metric = format!("slackwater_far_requests_total{{service=\"default\"}} {counted}\n");
    let metrics = proxy.admin_page("/metrics").await;
    assert!(metrics.contains(&metric), "{metric}{metrics}");
    let sent = proxy.status().await["replicas"][1]["requests"]["sent"].clone();
    assert_eq!(sent, counted, "the other replica is the far one");

    // Each part of a replica is far.
    written.become_text(&config("a", &both(["a", "b"], 3)));
    reload(&proxy);
    served_by(&proxy, 0).await;

    // The zones of both change; the service is kept.
    written.become_text(&config("a", &both(["b", "a"], 1)));
    reload(&proxy);
    served_by(&proxy, 1).await;
    assert!(far_requests(&proxy).await >= counted, "counts go on");
    let shown = proxy.status().await;
    assert_eq!(
        (&shown["replicas"][0]["zone"], &shown["replicas"][0]["far"]),
        (&"b".into(), &true.into())
    );
    assert_eq!(shown["replicas"][1]["far"], false);

    // The own zone changes.
    written.become_text(&config("b", &both(["b", "a"], 1)));
    reload(&proxy);
    served_by(&proxy, 0).await;
    assert_eq!(proxy.status().await["replicas"][0]["far"], false);

    until("nothing is in flight", async || {
        (proxy.sum("/in_flight").await == 0).then_some(())
    })
    .await;
    proxy.signal("TERM");
    assert!(proxy.ended().await.success());
    let replayed = recording.replayed();
    let same = replayed.matches("all the same").count();
    assert_eq!(same, 2, "one stream for each configuration: {replayed}");
}
