//! The demo's own paths at the admin address: the page, and the picture that it draws, as JSON.
//!
//! `/` is one self-contained file; it asks for `/demo/status.json` twice a second, so a connection is a request and all
//! bounds of the admin server hold. `/status` and `/metrics` are those of the first side's proxy, `/versus/status` the
//! second's.

use super::picture::Picture;
use crate::admin::{
    AdminServer, AdminThread, Facts, Lifecycle, Reply, Status, StatusSource, reply,
};
use crate::fault::Fault;
use core::net::SocketAddr;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde::Serialize;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

const PAGE: &str = include_str!("page.html");

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
    proxies: [Arc<dyn StatusSource>; 2],
    lifecycle: Lifecycle,
    latest: Latest,
) -> Result<AdminThread, Fault> {
    let [first, second] = proxies;
    let second = Arc::new(InDemo(second));
    let phase = lifecycle.clone();
    let started_at = Instant::now();
    AdminServer::new(Arc::new(InDemo(first)), lifecycle, CONNECTIONS_MAX)
        .page("/", "text/html; charset=utf-8", PAGE)
        .route("/demo/status.json", move |_| {
            let latest = latest.borrow().clone();
            Box::pin(async move { picture(latest.as_deref()) })
        })
        .route("/versus/status", move |_| {
            let (second, phase) = (Arc::clone(&second), phase.clone());
            Box::pin(async move {
                let facts = second.facts().await;
                json(&Status::new(&facts, phase.phase(), started_at.elapsed()))
            })
        })
        .spawn(listener)
        .map_err(|error| Fault::runtime(format!("cannot serve the page: {error}")))
}

/// A proxy's facts, with the role that it has here.
#[derive(Clone)]
struct InDemo(Arc<dyn StatusSource>);

impl StatusSource for InDemo {
    fn facts(&self) -> BoxFuture<'_, Facts> {
        Box::pin(async {
            Facts {
                role: "demo",
                ..self.0.facts().await
            }
        })
    }
}

fn picture(latest: Option<&Picture>) -> Reply {
    match latest {
        Some(picture) => json(picture),
        None => reply(
            StatusCode::SERVICE_UNAVAILABLE,
            "text/plain; charset=utf-8",
            "the demo has not begun\n",
        ),
    }
}

fn json(figures: &impl Serialize) -> Reply {
    match serde_json::to_vec(figures) {
        Ok(body) => reply(StatusCode::OK, "application/json", body),
        Err(error) => reply(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            format!("the figures could not be written: {error}\n"),
        ),
    }
}
