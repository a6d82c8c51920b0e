//! The engine from outside: scenarios played, and what is measured held against what must come out.
//!
//! Small fleets, short spans, seeded draws. Where a number is compared with theory, the tolerance is argued beside it.

mod determinism;
mod fleet;
mod hedging;
mod network;
mod rig;
mod theory;
mod troubles;
