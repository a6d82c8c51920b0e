//! Sends requests with keys: in turn to fill caches, or at a fixed rate whatever the responses.

use crate::client::Client;
use crate::keys::{self, Population};
use crate::summary::{Outcome, Summary};
use core::cell::RefCell;
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_sim::random::{Purpose, Stream};
use std::io;
use std::rc::Rc;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout};

/// What is sent.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Requests per second.
    pub(crate) rate: f64,
    /// Time that is left out of the results.
    pub(crate) warmup: Duration,
    pub(crate) measured: Duration,
    /// Longest time of a request.
    pub(crate) timeout: Duration,
    pub(crate) seed: u64,
}

pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn clients(balancers: &[SocketAddr]) -> Rc<[Client]> {
    balancers.iter().map(|at| Client::new(*at)).collect()
}

/// Sends each key once, one after the other, the rarest first and the hot one last, to the
/// balancers in turn. Returns the last response.
///
/// # Errors
///
/// Fails with the first request that is not answered with 200.
pub(crate) async fn fill(balancers: &[SocketAddr], keys: &Population) -> io::Result<String> {
    let clients = clients(balancers);
    let in_turn = clients.iter().cycle();
    let names = (0..keys.len()).rev().map(|rank| keys.name(rank));
    let mut last = String::new();
    for (name, client) in names.chain([keys.hot()]).zip(in_turn) {
        let answer = client.ask(&name).await?;
        if answer.status != 200 {
            let what = format!("status {}: {}", answer.status, answer.body.trim());
            return Err(io::Error::other(what));
        }
        last = answer.body;
    }
    Ok(last)
}

/// Sends requests at the plan's rate, each to a balancer at random.
pub(crate) async fn send(balancers: &[SocketAddr], keys: &Population, plan: &Plan) -> Summary {
    let clients = clients(balancers);
    let balancers = u32::try_from(clients.len()).unwrap_or(u32::MAX);
    let summary = Rc::new(RefCell::new(Summary::default()));
    let mut drawn_keys = keys::draws(plan.seed);
    let mut arrivals = Stream::new(plan.seed, Purpose::Arrivals, 0);
    let local = LocalSet::new();
    let began = Instant::now();
    let sent = local.run_until(async {
        let mut at = 0.0;
        loop {
            at += arrivals.exponential(1.0 / plan.rate);
            let (index, key) = (arrivals.below(balancers), keys.draw(&mut drawn_keys));
            let due = Duration::from_secs_f64(at);
            if due >= plan.warmup + plan.measured {
                break;
            }
            sleep_until(began + due).await;
            let is_measured = due >= plan.warmup;
            if is_measured {
                summary.borrow_mut().note_late((began + due).elapsed());
            }
            let (clients, summary) = (Rc::clone(&clients), Rc::clone(&summary));
            let limit = plan.timeout;
            tokio::task::spawn_local(async move {
                let client = &clients[index as usize];
                let outcome = match timeout(limit, client.ask(&key)).await {
                    Err(_) => Outcome::Late,
                    Ok(Err(_)) => Outcome::Broken,
                    Ok(Ok(answer)) => Outcome::of(answer.status, &answer.body),
                };
                if is_measured {
                    // From the time when it was due, so that a slow answer delays no measurement.
                    summary.borrow_mut().note(&outcome, (began + due).elapsed());
                }
            });
        }
    });
    sent.await;
    // Ends when the last request has its outcome.
    local.await;
    summary.take()
}
