//! What was recorded, played again: exactly, under the policy that made the choices; and by a model
//! of the replicas, under any.
//!
//! | | |
//! |---|---|
//! | the same picks, one by one | `exact` |
//! | what became of each query | `history`, with `members` |
//! | what requests were like | `requests` |
//! | what the replicas could do, as a scenario | `model`, from `levels` and `capacity` |
//! | what comes of it, beside what was | `compare` |
//! | how else it could have come, at another time | `blocks` |

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
