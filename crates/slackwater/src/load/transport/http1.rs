//! HTTP/1.1: one request at a time on each connection; idle connections are kept in a stack.
//!
//! The last connection put back is the first taken, so a low rate needs few connections and each
//! stays fresh. If the target has closed a kept connection meanwhile, this is no error as long as
//! the request was not written to it: as in every HTTP client, the request then goes over a new
//! connection, and its latency keeps counting. There are never more connections than concurrent
//! requests, because a connection is opened only if none is idle.

use super::{Body, Target, read_to_end};
use crate::load::outcome::{Answer, Failure};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::sync::{Mutex, PoisonError};
use tokio_util::task::AbortOnDropHandle;

#[derive(Debug)]
pub(in crate::load) struct Transport {
    target: Target,
    idle: Mutex<Vec<Connection>>,
}

/// An open connection. Dropping it closes it, also in the middle of an answer.
#[derive(Debug)]
pub(in crate::load) struct Connection {
    sender: SendRequest<Body>,
    _driver: AbortOnDropHandle<()>,
}

impl Transport {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            idle: Mutex::new(Vec::new()),
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) async fn exchange(&self, number: u64) -> Result<(Answer, Connection), Failure> {
        let mut request = self.target.request(number);
        if let Some(mut connection) = self.take_idle() {
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((read_to_end(response).await?, connection)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Failure::exchange(error.error())),
                },
            }
        }
        let mut connection = self.open().await?;
        let response = connection.sender.send_request(request).await;
        let response = response.map_err(|error| Failure::exchange(&error))?;
        Ok((read_to_end(response).await?, connection))
    }

    pub(super) async fn keep(&self, mut connection: Connection) {
        // Not ready at once: the target closes, or it answered before it had read the whole
        // request.
        if connection.sender.ready().await.is_ok() {
            self.idle().push(connection);
        }
    }

    async fn open(&self) -> Result<Connection, Failure> {
        let stream = self.target.connect().await?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, driver) = handshake.map_err(|error| Failure::connect(&error))?;
        let driver = tokio::spawn(async move {
            // The request on the connection sees and counts how the connection ends.
            let _ = driver.await;
        });
        Ok(Connection {
            sender,
            _driver: AbortOnDropHandle::new(driver),
        })
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle();
        core::iter::from_fn(|| idle.pop()).find(|connection| connection.sender.is_ready())
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
