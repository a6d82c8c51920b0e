//! Health around policies: who is out, who has what share, and what comes of it. Time is fed by
//! hand, draws are seeded.

#![expect(clippy::panic, clippy::expect_used, reason = "tests and their helpers")]

mod calm;
mod chance;
mod errors;
mod fleet;
mod majority;
mod probation;
mod restarts;
mod shadows;
mod streams;
mod warm_up;
