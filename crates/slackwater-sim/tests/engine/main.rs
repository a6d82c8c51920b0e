//! Tests of the engine from outside: they play scenarios and compare the measurements with the
//! expected results.
//!
//! Fleets are small, spans short, and draws seeded. Where a number is compared with theory, a
//! comment explains the tolerance.

#[cfg(test)]
mod classes;
#[cfg(test)]
mod determinism;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod hedging;
#[cfg(test)]
mod keys;
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
