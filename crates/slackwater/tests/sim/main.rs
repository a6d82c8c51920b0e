//! `slackwater sim` as a user runs it: the real process, its exit codes, what it prints and what it
//! writes.

#![expect(
    clippy::expect_used,
    reason = "what helpers of a test cannot do ends the test"
)]

mod arguments;
mod figures;
mod mistakes;
mod replay;
mod rig;
mod run;
mod size;
mod stop;
mod two_processes;
