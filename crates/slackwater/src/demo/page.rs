//! The demo's admin server: the demo's knobs, and the pages of a `serve` with two services, one for
//! each side.

use super::knob_queue::KnobQueue;
use super::knobs::Knob;
use super::live::DemoLive;
use crate::decisions_path;
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_admin::{AdminServer, AdminThread, Asked, Extra, may_change};
use slackwater_config::Fault;
use slackwater_proxy::decisions::Archive;
use slackwater_telemetry::facts::{Facts, Lifecycle, ReloadFacts, StatusSource};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;

/// Interval between two ticks of the live data.
const TICK: Duration = Duration::from_millis(500);

/// Most concurrent connections at the admin address. Others wait to be accepted.
const CONNECTIONS_MAX: u32 = 32;

/// Opens the page's listener at the first of `addresses` that is not in use.
///
/// # Errors
/// All addresses are in use, or one cannot be opened for another reason.
pub(super) fn bind(addresses: &[SocketAddr]) -> Result<TcpListener, Fault> {
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(Fault::runtime(format!(
                    "the page cannot be served at {address}: {error}"
                )));
            }
        }
    }
    let tried = match addresses {
        [first, .., last] => format!("{first} to {}", last.port()),
        _ => addresses
            .first()
            .map(ToString::to_string)
            .unwrap_or_default(),
    };
    Err(Fault::runtime(format!(
        "the page cannot be served: {tried} in use by another process; choose another address with --admin"
    )))
}

/// Serves the page and what belongs to it until the result is dropped.
///
/// # Errors
/// The machine has no thread or descriptor left.
pub(super) fn serve(
    listener: TcpListener,
    (proxies, archives): ([Arc<dyn StatusSource>; 2], Vec<Arc<Archive>>),
    lifecycle: Lifecycle,
    live: DemoLive,
    queue: &KnobQueue,
) -> Result<AdminThread, Fault> {
    let source = Arc::new(BothSides(proxies));
    let live = Some(Arc::new(live) as Arc<dyn Extra>);
    let mut server =
        AdminServer::with_extra(source, lifecycle, CONNECTIONS_MAX, TICK, live).dashboard();
    for knob in Knob::ALL {
        let queue = queue.clone();
        let check = |asked: &Asked| may_change(&asked.headers).err();
        server = server.post(knob.path(), check, move |asked| {
            let queue = queue.clone();
            Box::pin(async move { queue.turn(knob, &asked).await })
        });
    }
    decisions_path::add(server, archives)
        .spawn(listener)
        .map_err(|error| Fault::runtime(format!("cannot serve the page: {error}")))
}

/// The status of both proxies, as that of one process.
struct BothSides([Arc<dyn StatusSource>; 2]);

impl StatusSource for BothSides {
    fn facts(&self) -> Facts {
        let [mut facts, second] = self.0.each_ref().map(|side| side.facts());
        facts.services.extend(second.services);
        facts.reloads = both(facts.reloads, second.reloads);
        facts.client_connections.begun += second.client_connections.begun;
        facts.client_connections.open += second.client_connections.open;
        for ((_, sum), (_, more)) in facts.client_ends.iter_mut().zip(second.client_ends) {
            *sum += more;
        }
        facts.proxy_headers_refused += second.proxy_headers_refused;
        for more in second.unreadable_requests {
            let mut own = facts.unreadable_requests.iter_mut();
            match own.find(|own| own.status == more.status) {
                Some(own) => own.requests += more.requests,
                None => facts.unreadable_requests.push(more),
            }
        }
        Facts {
            role: "demo",
            // Each proxy's listener serves the load generator alone, so it is not shown.
            listeners: Arc::default(),
            routes: Arc::default(),
            ..facts
        }
    }
}

/// Merges the reloads of both proxies: their number, and the last result.
fn both(first: Option<ReloadFacts>, second: Option<ReloadFacts>) -> Option<ReloadFacts> {
    let (first, second) = (first?, second?);
    let (taken, refused) = (first.taken + second.taken, first.refused + second.refused);
    let last = if first.last_at > second.last_at {
        first
    } else {
        second
    };
    Some(ReloadFacts {
        taken,
        refused,
        ..last
    })
}
