//! The process's limit of open files: everything in a demo is a socket of this one process, at both of its ends.

use rustix::process::{Resource, getrlimit, setrlimit};

/// What the largest demo needs; also the most that every system allows.
const WANTED: u64 = 10_240;

/// Raises the limit of open files as far as needed and allowed. Where it is not allowed nothing happens: small demos have
/// enough, and a connection that cannot be opened is counted as an error.
pub(super) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    let reachable = limit.maximum.unwrap_or(WANTED).min(WANTED);
    if limit.current.is_some_and(|current| current < reachable) {
        limit.current = Some(reachable);
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
