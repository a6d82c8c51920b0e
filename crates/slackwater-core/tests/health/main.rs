//! Health around policies: which replicas are out, their shares, and the effects. Time is set by
//! hand, draws are seeded.

#![expect(clippy::panic, clippy::expect_used, reason = "tests and their helpers")]

mod calm;
mod chance;
mod errors;
mod fleet;
mod majority;
mod probation;
mod probed;
mod restarts;
mod returns;
mod shadows;
mod streams;
mod warm_up;
