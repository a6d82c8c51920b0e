//! A recording: what the policies of a process are told and say, written into a file, for
//! `slackwater sim replay`.
//!
//! A [`Recorder`] goes around each policy of each worker (`slackwater_recording`); blocks of events
//! go by a bounded queue to a thread that writes them (`writer`). Nobody waits for it: where the
//! queue is full, or the file is as large as it may be, the recording ends there. What is written
//! up to there is whole. `slackwater_recording::file` has its blocks. What requests were like goes
//! there only if it is asked for (`requests`).

mod requests;
#[cfg(test)]
mod tests;
mod writer;

pub use writer::{Recorder, Writing};
