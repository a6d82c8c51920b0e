//! How much of bodies may wait in memory: of responses that clients do not take, of uploads that
//! replicas do not take.
//!
//! A little of each may come before any of it is taken: over HTTP/2 that is what a window lets
//! come, over HTTP/1.1 what is read at once of a response. More is lent out of budgets, which all
//! of a worker's connections share; of responses each client connection has one of its own out of
//! that. So what is left untaken holds little memory, and little of what others could use. Who is
//! lent nothing gets bodies, too, in smaller portions, and asks again with each portion that is
//! taken.

use core::cell::Cell;
use std::rc::Rc;

/// What a replica may send on one stream before its client has taken some, at least.
pub(crate) const WINDOW_FIRST_BYTES: u32 = 8 << 10;

/// What it may as long as there is something to lend.
const WINDOW_USUAL_BYTES: u32 = 64 << 10;

/// And what it may once its client has taken as much as a usual window.
pub(crate) const WINDOW_MAX_BYTES: u32 = 256 << 10;

/// Lent to all responses of one client connection.
const CLIENT_BYTES: u32 = 2 << 20;

/// Lent to all responses together, in all workers; and to all uploads.
const PROCESS_BYTES: u32 = 64 << 20;

/// What the connections of one worker share.
#[derive(Debug)]
pub struct Memory {
    pub(crate) responses: Rc<Budget>,
    pub(crate) uploads: Rc<Budget>,
}

impl Memory {
    /// The share of one of so many workers.
    pub fn of_worker(workers: u16) -> Rc<Self> {
        let share = PROCESS_BYTES / u32::from(workers.max(1));
        Rc::new(Self {
            responses: Budget::new(share, None),
            uploads: Budget::new(share, None),
        })
    }

    /// For the responses of one client connection.
    pub(crate) fn of_client(&self) -> Rc<Budget> {
        Budget::new(CLIENT_BYTES, Some(&self.responses))
    }
}

/// What is left to be lent.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Cell<u32>,
    /// Out of which this one lends, too.
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

/// What is lent to one body or connection, until dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    bytes: u32,
    /// `None`: nothing can be lent.
    budget: Option<Rc<Budget>>,
}

impl Loan {
    /// Nothing so far.
    pub(crate) const fn of(budget: Option<Rc<Budget>>) -> Self {
        Self { bytes: 0, budget }
    }

    /// Whether anything is lent.
    pub(crate) const fn is_lent(&self) -> bool {
        self.bytes > 0
    }

    /// Raises it to so much, and gives what that is more; `None`: it stays as it is.
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

/// What a response may have beyond its first window when its client has taken so much of it.
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

    /// As many responses of a client as have a usual window, and at most `count`.
    fn usual(client: &Rc<Budget>, count: usize) -> Vec<Loan> {
        let loans = core::iter::repeat_with(|| Loan::of(Some(Rc::clone(client))));
        let lent = (loans.take(count)).map(|mut loan| (loan.raise(beyond_first(0)), loan));
        lent.filter_map(|(more, loan)| (more == Some(56 << 10)).then_some(loan))
            .collect()
    }

    #[test]
    fn a_client_has_a_share_and_all_have_what_there_is() {
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
    fn a_window_is_the_largest_once_much_of_it_was_taken() {
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
