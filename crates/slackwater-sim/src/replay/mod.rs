//! Plays a recording again: exactly, under the recorded policy, and by a model of the replicas,
//! under any policy.
//!
//! | | |
//! |---|---|
//! | the same picks, one by one | `exact` |
//! | the history of each query | `history`, with `members` |
//! | records of requests | `requests` |
//! | the replicas' capacity, as a scenario | `model`, from `levels` and `capacity` |
//! | its results beside the recording | `compare` |
//! | the random error between times | `blocks` |

mod blocks;
mod capacity;
pub mod compare;
pub mod exact;
pub mod history;
mod levels;
mod members;
pub mod model;
pub mod requests;

#[cfg(test)]
mod tests;
