//! Descriptors that the admin server reserves, so that `/healthz` is answered when clients have
//! used up all others.
//!
//! A supervisor whose health check gets no answer kills the process, and every client's request
//! with it.

use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Number of connections to the admin server that can be accepted when no descriptor is left.
const KEPT: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Reserve(Mutex<Vec<File>>);

impl Reserve {
    /// Reserves descriptors again, as far as there are any.
    pub(super) fn refill(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.len() < KEPT {
            match File::open("/dev/null") {
                Ok(file) => kept.push(file),
                Err(_) => return,
            }
        }
    }

    /// Releases one; `false` if none is reserved.
    pub(super) fn give_up(&self) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.pop().is_some()
    }
}

/// Whether the process or the system has no descriptor left.
pub(super) fn is_lack_of_descriptors(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}
