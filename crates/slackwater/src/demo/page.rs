//! The demo's own paths at the admin address: the page, and the picture that it draws, as JSON.
//!
//! Its knobs are turned there, too. The page asks for `/demo/status.json` twice a second. All else is as of any `serve`, with two services, one for each side.

use super::desk::Desk;
use super::knobs::Knob;
use super::live::DemoLive;
use super::picture::Picture;
use crate::admin::{
    AdminServer, AdminThread, Extra, Facts, Lifecycle, ReloadFacts, Reply, StatusSource, json,
    refusal,
};
use crate::decisions::{self, Archive};
use crate::fault::Fault;
use core::net::SocketAddr;
use core::time::Duration;
use futures_util::future::BoxFuture;
use http::StatusCode;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::sync::watch;

/// Between two ticks of the live data.
const TICK: Duration = Duration::from_millis(500);

/// Requests to the admin address at once; others wait to be accepted.
const CONNECTIONS_MAX: u32 = 32;

/// The picture last made; none before the first.
pub(super) type Latest = watch::Receiver<Option<Arc<Picture>>>;

/// Opens the page's listener at the first of `addresses` that is free. With one address to choose from, its being taken is
/// an error; with several, only that all are.
///
/// # Errors
/// No address can be had.
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
    desk: &Desk,
) -> Result<AdminThread, Fault> {
    let source = Arc::new(BothSides(proxies));
    let latest = live.latest.clone();
    let live = Some(Arc::new(live) as Arc<dyn Extra>);
    let mut server =
        AdminServer::with_extra(source, lifecycle, CONNECTIONS_MAX, TICK, live).dashboard();
    for knob in Knob::ALL {
        let desk = desk.clone();
        server = server.post(knob.path(), move |asked| {
            let desk = desk.clone();
            Box::pin(async move { desk.turn(knob, &asked).await })
        });
    }
    decisions::add_path(server, archives)
        .get("/demo/status.json", move |_| {
            let latest = latest.borrow().clone();
            Box::pin(async move { picture(latest.as_deref()) })
        })
        .spawn(listener)
        .map_err(|error| Fault::runtime(format!("cannot serve the page: {error}")))
}

/// What both proxies know, as that of one process.
struct BothSides([Arc<dyn StatusSource>; 2]);

impl StatusSource for BothSides {
    fn facts(&self) -> BoxFuture<'_, Facts> {
        let [first, second] = &self.0;
        Box::pin(async {
            let (mut facts, second) = tokio::join!(first.facts(), second.facts());
            facts.services.extend(second.services);
            facts.reloads = both(facts.reloads, second.reloads);
            Facts {
                role: "demo",
                ..facts
            }
        })
    }
}

/// The reloads of both proxies: how often, and what became of the last one.
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

fn picture(latest: Option<&Picture>) -> Reply {
    match latest {
        Some(picture) => json(picture),
        None => refusal(StatusCode::SERVICE_UNAVAILABLE, "the demo has not begun"),
    }
}
