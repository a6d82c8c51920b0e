//! The demo's embedded replicas: a fleet of unequal servers played on one small machine.
//!
//! Service takes time, not CPU: a request becomes a job with a cost (`cost`) on a shared processor (`processor`) whose
//! capacity the neighbours change (`neighbours`); all three are pure values of the time since the start and a seed
//! (`draw`). `machine` runs them by timers, `server` puts a machine behind HTTP on loopback.
//!
//! Two fleets of the same [`World`] are twins: at any time since the start the same capacity at the same replica, and
//! the same cost for the same request. Absent on purpose: load tracking and probes, which wrap a replica from outside.

mod cost;
mod draw;
mod machine;
mod neighbours;
mod processor;
mod server;

#[cfg(test)]
mod calibration;

