//! HTTP/2 with prior knowledge: many concurrent requests over few connections.
//!
//! A request takes the connection with the fewest streams, the first one if there are several, so a
//! second connection is opened only when the first is busy. Requests that need a connection while
//! it is being opened wait for that one attempt. If it fails, the request that made it fails, and
//! the next in line tries again.

use super::{Body, Target, read_to_end};
use crate::load::outcome::{Answer, Failure};
use core::num::NonZeroUsize;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of cancelled streams (timeouts) whose late frames are still recognised and dropped
/// instead of being treated as a protocol error. The default of 10 suits clients that rarely
/// cancel.
const GIVEN_UP_STREAMS_REMEMBERED: usize = 4_096;

#[derive(Debug)]
pub(in crate::load) struct Transport {
    target: Target,
    /// `None` until first needed.
    connections: Vec<tokio::sync::Mutex<Option<SendRequest<Body>>>>,
    /// Open streams on each connection, in the same order.
    streams: Mutex<Vec<usize>>,
}

impl Transport {
    pub(super) fn new(target: Target, connections: NonZeroUsize) -> Self {
        Self {
            target,
            connections: (0..connections.get())
                .map(|_| tokio::sync::Mutex::default())
                .collect(),
            streams: Mutex::new(vec![0; connections.get()]),
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) async fn exchange(&self, number: u64) -> Result<Answer, Failure> {
        let stream = StreamGuard::on_the_least_busy(&self.streams);
        let mut request = self.target.request(number);
        let mut sender = self.sender(stream.connection).await?;
        let response = match sender.try_send_request(request).await {
            Ok(response) => response,
            Err(mut error) => match error.take_message() {
                // The target was closing the connection (GOAWAY) and has not processed the request.
                Some(unsent) => {
                    request = unsent;
                    let mut sender = self.sender(stream.connection).await?;
                    let response = sender.send_request(request).await;
                    response.map_err(|error| Failure::exchange(&error))?
                }
                None => return Err(Failure::exchange(error.error())),
            },
        };
        read_to_end(response).await
    }

    /// Returns the connection's sender. Opens the connection if there is none or the target has
    /// closed it.
    async fn sender(&self, connection: usize) -> Result<SendRequest<Body>, Failure> {
        let mut open = self.connections[connection].lock().await;
        if let Some(sender) = open.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let stream = self.target.connect().await?;
        let handshake = http2::Builder::new(TokioExecutor::new())
            .max_concurrent_reset_streams(GIVEN_UP_STREAMS_REMEMBERED)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, driver) = handshake.map_err(|error| Failure::connect(&error))?;
        // The task ends by itself once no sender and no stream is left. Aborting it would cut
        // streams that an orderly GOAWAY lets finish.
        tokio::spawn(async move {
            let _ = driver.await;
        });
        Ok(open.insert(sender).clone())
    }
}

/// One stream counted on its connection until dropped.
#[derive(Debug)]
struct StreamGuard<'a> {
    streams: &'a Mutex<Vec<usize>>,
    connection: usize,
}

impl<'a> StreamGuard<'a> {
    fn on_the_least_busy(streams: &'a Mutex<Vec<usize>>) -> Self {
        let mut counts = lock(streams);
        let least = counts
            .iter_mut()
            .enumerate()
            .min_by_key(|(_, count)| **count);
        let connection = least.map_or(0, |(connection, count)| {
            *count += 1;
            connection
        });
        Self {
            streams,
            connection,
        }
    }
}

impl Drop for StreamGuard<'_> {
    fn drop(&mut self) {
        if let Some(count) = lock(self.streams).get_mut(self.connection) {
            *count -= 1;
        }
    }
}

fn lock(streams: &Mutex<Vec<usize>>) -> MutexGuard<'_, Vec<usize>> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_spread_evenly_over_connections() {
        let streams = Mutex::new(vec![0; 2]);
        let first = StreamGuard::on_the_least_busy(&streams);
        let second = StreamGuard::on_the_least_busy(&streams);
        let third = StreamGuard::on_the_least_busy(&streams);
        assert_eq!(
            [first.connection, second.connection, third.connection],
            [0, 1, 0]
        );
        drop(first);
        drop(third);
        assert_eq!(*lock(&streams), [0, 1]);
        assert_eq!(StreamGuard::on_the_least_busy(&streams).connection, 0);
    }
}
