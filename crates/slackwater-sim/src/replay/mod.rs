//! What was recorded, played again: exactly, under the policy that made the choices; and by a model of the replicas, under any.
//!
//! | | |
//! |---|---|
//! | the same picks, one by one | `exact` |
//! | what became of each query | `history` |
//! | what the replicas could do, as a scenario | `model`, from `levels` and `capacity` |
//! | what comes of it, beside what was | `compare` |

mod capacity;
pub mod compare;
pub mod exact;
pub mod history;
mod levels;
pub mod model;

#[cfg(test)]
mod tests;
