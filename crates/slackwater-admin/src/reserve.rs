//! Descriptors that the admin server keeps back, so that `/healthz` is answered when clients have
//! all the others.
//!
//! A supervisor whose probe is not answered kills the process, and every client's request with it.

use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

/// As many connections to the admin server can be accepted when no descriptor is left.
const KEPT: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Reserve(Mutex<Vec<File>>);

impl Reserve {
    /// Takes back what was given up, as far as there are descriptors.
    pub(super) fn refill(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.len() < KEPT {
            match File::open("/dev/null") {
                Ok(file) => kept.push(file),
                Err(_) => return,
            }
        }
    }

    /// Gives one up; `false` if none is left.
    pub(super) fn give_up(&self) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.pop().is_some()
    }
}

/// Whether this process, or the system, has no descriptor left.
pub(super) fn is_lack_of_descriptors(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}
