//! The queue of orders. Knobs are turned on the admin server's thread, and the task that owns the
//! sides carries the orders out.

use super::knobs::{Knob, Order};
use super::live::InForce;
use core::time::Duration;
use http::StatusCode;
use slackwater_admin::{Asked, Reply, json, refusal};
use tokio::sync::{mpsc, oneshot};

/// Capacity of the queue. When it is full, further orders wait before it.
const WAITING_MAX: usize = 16;

/// Timeout of the answer to an order. An order that takes longer is carried out all the same.
const PATIENCE: Duration = Duration::from_secs(10);

/// An order, and the channel for its result: what is in force afterwards, or why the order failed.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) order: Order,
    pub(super) done: oneshot::Sender<Result<InForce, String>>,
}

/// The sending end of the queue.
#[derive(Debug, Clone)]
pub(super) struct KnobQueue {
    turns: mpsc::Sender<Turn>,
    replicas: usize,
}

impl KnobQueue {
    /// Returns a queue for fleets of this many replicas, and the receiver of the orders.
    pub(super) fn open(replicas: usize) -> (Self, mpsc::Receiver<Turn>) {
        let (turns, orders) = mpsc::channel(WAITING_MAX);
        (Self { turns, replicas }, orders)
    }

    /// Turns a knob as a request demands. Returns the answer to the request.
    pub(super) async fn turn(&self, knob: Knob, asked: &Asked) -> Reply {
        let order = match knob.read(&asked.body, self.replicas) {
            Ok(order) => order,
            Err(why) => return refusal(StatusCode::BAD_REQUEST, why),
        };
        match tokio::time::timeout(PATIENCE, self.place(order)).await {
            Ok(Some(Ok(in_force))) => json(&in_force),
            Ok(Some(Err(why))) => refusal(StatusCode::INTERNAL_SERVER_ERROR, why),
            Ok(None) => refusal(StatusCode::SERVICE_UNAVAILABLE, "the demo is over"),
            Err(_) => refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                format_args!("not done within {PATIENCE:?}; it may still come"),
            ),
        }
    }

    async fn place(&self, order: Order) -> Option<Result<InForce, String>> {
        let (done, answer) = oneshot::channel();
        self.turns.send(Turn { order, done }).await.ok()?;
        answer.await.ok()
    }
}
