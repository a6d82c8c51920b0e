//! Memory limits for bodies that wait: responses that clients do not read, and uploads that
//! replicas do not read.
//!
//! A small part of each body may arrive before any of it is read: over HTTP/2 the first window,
//! over HTTP/1.1 a single read of a response. More is lent from budgets that all connections of a
//! worker share; each client connection has its own budget for responses, as a part of the shared
//! one. Unread data therefore uses little memory, and little of what others could use. A body
//! without a loan still arrives, in smaller portions, and requests a loan again with each portion
//! that is read.

use core::cell::Cell;
use std::rc::Rc;

/// Minimum that a replica may send on one stream before its client has read some.
pub(crate) const WINDOW_FIRST_BYTES: u32 = 8 << 10;

/// Window while the budget has room.
const WINDOW_USUAL_BYTES: u32 = 64 << 10;

/// Window once the client has read as much as a usual window.
pub(crate) const WINDOW_MAX_BYTES: u32 = 256 << 10;

/// Budget for all responses of one client connection.
const CLIENT_BYTES: u32 = 2 << 20;

/// Budget for all responses of the process, over all workers; the same again for all uploads.
const PROCESS_BYTES: u32 = 64 << 20;

/// Budgets that the connections of one worker share.
#[derive(Debug)]
pub struct Memory {
    pub(crate) responses: Rc<Budget>,
    pub(crate) uploads: Rc<Budget>,
}

impl Memory {
    /// Makes the share of one out of `workers`.
    pub fn of_worker(workers: u16) -> Rc<Self> {
        let share = PROCESS_BYTES / u32::from(workers.max(1));
        Rc::new(Self {
            responses: Budget::new(share, None),
            uploads: Budget::new(share, None),
        })
    }

    /// Makes the budget for the responses of one client connection.
    pub(crate) fn of_client(&self) -> Rc<Budget> {
        Budget::new(CLIENT_BYTES, Some(&self.responses))
    }
}

/// A budget that can be lent.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Cell<u32>,
    /// Parent budget, from which every loan is also taken.
    of: Option<Rc<Self>>,
}

impl Budget {
    fn new(bytes: u32, of: Option<&Rc<Self>>) -> Rc<Self> {
        Rc::new(Self {
            left: Cell::new(bytes),
            of: of.cloned(),
        })
    }

    fn take(&self, bytes: u32) -> bool {
        let Some(left) = self.left.get().checked_sub(bytes) else {
            return false;
        };
        let is_taken = self.of.as_ref().is_none_or(|of| of.take(bytes));
        if is_taken {
            self.left.set(left);
        }
        is_taken
    }

    fn give_back(&self, bytes: u32) {
        self.left.set(self.left.get() + bytes);
        if let Some(of) = &self.of {
            of.give_back(bytes);
        }
    }
}

/// A loan to one body or connection, until dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    bytes: u32,
    /// `None` if nothing can be lent.
    budget: Option<Rc<Budget>>,
}

impl Loan {
    /// Makes an empty loan.
    pub(crate) const fn of(budget: Option<Rc<Budget>>) -> Self {
        Self { bytes: 0, budget }
    }

    /// Whether the loan is not empty.
    pub(crate) const fn is_lent(&self) -> bool {
        self.bytes > 0
    }

    /// Raises the loan to `to` bytes, and returns the difference; `None` if it stays as it is.
    pub(crate) fn raise(&mut self, to: u32) -> Option<u32> {
        let more = to.checked_sub(self.bytes).filter(|more| *more > 0)?;
        if !self.budget.as_ref()?.take(more) {
            return None;
        }
        self.bytes = to;
        Some(more)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.give_back(self.bytes);
        }
    }
}

/// Returns the window of a response beyond its first, after its client has read `taken` bytes.
pub(crate) fn beyond_first(taken: u64) -> u32 {
    let window = if taken < u64::from(WINDOW_USUAL_BYTES) {
        WINDOW_USUAL_BYTES
    } else {
        WINDOW_MAX_BYTES
    };
    window - WINDOW_FIRST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries `count` loans for responses of a client, and keeps those that get a usual window.
    fn usual(client: &Rc<Budget>, count: usize) -> Vec<Loan> {
        let loans = core::iter::repeat_with(|| Loan::of(Some(Rc::clone(client))));
        let lent = (loans.take(count)).map(|mut loan| (loan.raise(beyond_first(0)), loan));
        lent.filter_map(|(more, loan)| (more == Some(56 << 10)).then_some(loan))
            .collect()
    }

    #[test]
    fn each_client_has_a_share_of_one_budget() {
        let memory = Memory::of_worker(16);
        let first = memory.of_client();
        let mut loans = usual(&first, 100);
        assert_eq!(loans.len(), 36, "of two mebibytes");
        let others: Vec<_> = (0..100).map(|_| memory.of_client()).collect();
        loans.extend(others.iter().flat_map(|other| usual(other, 1)));
        assert_eq!(loans.len(), 73, "of four mebibytes");
        loans.pop();
        assert!(usual(&first, 1).is_empty(), "it has had its share");
        drop(loans);
        assert_eq!(memory.responses.left.get(), PROCESS_BYTES / 16);
        assert_eq!(first.left.get(), CLIENT_BYTES);
    }

    #[test]
    fn window_grows_to_the_maximum_after_heavy_use() {
        let client = Memory::of_worker(1).of_client();
        let mut loan = Loan::of(Some(Rc::clone(&client)));
        assert_eq!(loan.raise(beyond_first(0)), Some((64 - 8) << 10));
        assert_eq!(loan.raise(beyond_first((64 << 10) - 1)), None);
        let more = loan.raise(beyond_first(64 << 10));
        assert_eq!(more, Some((256 - 64) << 10));
        assert_eq!(loan.raise(beyond_first(1 << 30)), None);
        drop(loan);
        assert_eq!(client.left.get(), CLIENT_BYTES);
        assert_eq!(Loan::of(None).raise(1), None);
    }
}
