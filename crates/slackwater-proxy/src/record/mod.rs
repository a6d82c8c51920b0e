//! A recording: the inputs and outputs of a process's policies, in a file for
//! `slackwater sim replay`.
//!
//! A [`Recorder`] wraps each policy of each worker (`slackwater_recording`). Blocks of events pass
//! through a bounded queue to a thread that writes them (`writer`). Once a second the thread also
//! takes the blocks that are not full. No worker waits for the file: when the queue is full, or the
//! file has reached its maximum size, the recording ends. Everything written before that is
//! complete. `slackwater_recording::file` defines the blocks. Properties of requests are recorded
//! only if configured (`requests`).

mod requests;
#[cfg(test)]
mod tests;
mod writer;

pub use writer::{Recorder, Writing};
