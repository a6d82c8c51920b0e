//! The engine from outside: scenarios played, and what is measured held against what must come out.
//!
//! Small fleets, short spans, seeded draws. Where a number is compared with theory, the tolerance
//! is argued beside it.

#[cfg(test)]
mod determinism;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod hedging;
#[cfg(test)]
mod network;
#[cfg(test)]
mod probe_costs;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod spy;
#[cfg(test)]
mod theory;
#[cfg(test)]
mod troubles;
#[cfg(test)]
mod two_processes;
#[cfg(test)]
mod tying;
