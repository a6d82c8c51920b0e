//! x
pub(crate) const JOBS_MAX: usize = 512;
