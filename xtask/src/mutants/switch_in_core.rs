//! The active mutant, in the copy of the core in which mutants are switched. The environment
//! variable `MUTANT` has its number; without it none is active.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering};

const NONE: usize = usize::MAX;
const UNREAD: usize = usize::MAX - 1;

static ACTIVE: AtomicUsize = AtomicUsize::new(UNREAD);

/// The number of the active mutant. Constants are computed without a mutant.
#[inline]
pub const fn active() -> usize {
    core::intrinsics::const_eval_select((), in_a_constant, at_run_time)
}

const fn in_a_constant() -> usize {
    NONE
}

#[inline]
fn at_run_time() -> usize {
    match ACTIVE.load(Ordering::Relaxed) {
        UNREAD => read(),
        number => number,
    }
}

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
}

/// Reads the variable without an allocation, which a test may count.
#[cold]
fn read() -> usize {
    // SAFETY: name and value end with a zero, and nothing changes the environment.
    let found = unsafe {
        let found = getenv(c"MUTANT".as_ptr());
        (!found.is_null()).then(|| CStr::from_ptr(found))
    };
    let number = found.and_then(|it| it.to_str().ok()?.parse().ok());
    let number = number.unwrap_or(NONE);
    ACTIVE.store(number, Ordering::Relaxed);
    number
}

/// One of two iterators.
#[derive(Clone)]
pub enum Either<L, R> {
    Left(L),
    Right(R),
}

impl<T, L: Iterator<Item = T>, R: Iterator<Item = T>> Iterator for Either<L, R> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Left(it) => it.next(),
            Self::Right(it) => it.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Left(it) => it.size_hint(),
            Self::Right(it) => it.size_hint(),
        }
    }
}
