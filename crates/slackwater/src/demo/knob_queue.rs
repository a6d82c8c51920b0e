//! Where orders are taken: knobs are turned at the admin address, on its thread, and obeyed by
//! whoever has the sides.

use super::knobs::{Knob, Order};
use super::live::InForce;
use core::time::Duration;
use http::StatusCode;
use slackwater_admin::{Asked, Reply, json, may_change, refusal};
use tokio::sync::{mpsc, oneshot};

/// Orders that wait; with more, whoever comes waits before the queue.
const WAITING_MAX: usize = 16;

/// An order has to be carried out by then. What it takes longer for, it does all the same.
const PATIENCE: Duration = Duration::from_secs(10);

/// An order, and where to say what is in force afterwards, or why it cannot be carried out.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) order: Order,
    pub(super) done: oneshot::Sender<Result<InForce, String>>,
}

/// Takes orders.
#[derive(Debug, Clone)]
pub(super) struct KnobQueue {
    turns: mpsc::Sender<Turn>,
    replicas: usize,
}

impl KnobQueue {
    /// A queue for fleets of so many replicas, and the orders as they come.
    pub(super) fn open(replicas: usize) -> (Self, mpsc::Receiver<Turn>) {
        let (turns, orders) = mpsc::channel(WAITING_MAX);
        (Self { turns, replicas }, orders)
    }

    /// Turns a knob as a request wants it; the answer to it.
    pub(super) async fn turn(&self, knob: Knob, asked: &Asked) -> Reply {
        if let Err(refused) = may_change(&asked.headers) {
            return refused;
        }
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
