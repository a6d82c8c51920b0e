//! The result of a fan-out, and how complete it is.

use core::error::Error;
use core::fmt;

/// The result of one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf<T, E> {
    /// It succeeded.
    Answered(T),
    /// It failed.
    Failed(E),
    /// It was sent, but the fan-out ended before it was answered.
    NotAwaited,
    /// The fan-out ended before it was sent.
    NotAsked,
}

/// The result of a fan-out: every leaf, in the order of the shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered<T, E> {
    leaves: Vec<Leaf<T, E>>,
    answered: usize,
    enough: usize,
}

impl<T, E> Gathered<T, E> {
    /// Nothing has been sent yet; `enough` answers out of `leaves` are good enough.
    pub(super) fn new(leaves: usize, enough: usize) -> Self {
        Self {
            leaves: (0..leaves).map(|_| Leaf::NotAsked).collect(),
            answered: 0,
            enough,
        }
    }

    pub(super) fn asked(&mut self, shard: usize) {
        self.leaves[shard] = Leaf::NotAwaited;
    }

    /// Stores the result of a leaf. Returns whether it succeeded.
    pub(super) fn ended(&mut self, shard: usize, result: Result<T, E>) -> bool {
        let is_well = result.is_ok();
        self.answered += usize::from(is_well);
        self.leaves[shard] = match result {
            Ok(answer) => Leaf::Answered(answer),
            Err(error) => Leaf::Failed(error),
        };
        is_well
    }

    /// The result of each shard.
    pub fn leaves(&self) -> &[Leaf<T, E>] {
        &self.leaves
    }

    /// As [`Gathered::leaves`], by value.
    pub fn into_leaves(self) -> Vec<Leaf<T, E>> {
        self.leaves
    }

    /// The answers, each with its shard.
    pub fn answers(&self) -> impl Iterator<Item = (usize, &T)> {
        let leaves = self.leaves.iter().enumerate();
        leaves.filter_map(|(shard, leaf)| match leaf {
            Leaf::Answered(answer) => Some((shard, answer)),
            _ => None,
        })
    }

    /// As [`Gathered::answers`], by value.
    pub fn into_answers(self) -> impl Iterator<Item = (usize, T)> {
        let leaves = self.leaves.into_iter().enumerate();
        leaves.filter_map(|(shard, leaf)| match leaf {
            Leaf::Answered(answer) => Some((shard, answer)),
            _ => None,
        })
    }

    /// The number of leaves that succeeded.
    pub const fn answered(&self) -> usize {
        self.answered
    }

    /// Whether all leaves succeeded.
    pub const fn is_complete(&self) -> bool {
        self.answered == self.leaves.len()
    }

    /// Whether as many leaves succeeded as the settings call good enough. Fewer did if the deadline
    /// came first, or too many failed.
    pub const fn is_enough(&self) -> bool {
        self.answered >= self.enough
    }
}

/// No canary succeeded, so no request was sent to the other shards: it may be one that brings
/// servers down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryError<E> {
    /// The canary shards, each with its error; `None` if it did not answer in time.
    pub canaries: Vec<(usize, Option<E>)>,
    /// The number of other shards.
    pub spared: usize,
}

impl<E> CanaryError<E> {
    pub(super) fn new<T>(gathered: Gathered<T, E>) -> Self {
        let mut spared = 0;
        let mut canaries = Vec::new();
        for (shard, leaf) in gathered.leaves.into_iter().enumerate() {
            match leaf {
                Leaf::Failed(error) => canaries.push((shard, Some(error))),
                Leaf::NotAwaited => canaries.push((shard, None)),
                Leaf::NotAsked => spared += 1,
                // A success is no error, so this does not occur.
                Leaf::Answered(_) => (),
            }
        }
        Self { canaries, spared }
    }
}

impl<E: fmt::Display> fmt::Display for CanaryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spared = self.spared;
        write!(
            f,
            "no canary succeeded, so {spared} other shards got no request; check the request before sending it again:"
        )?;
        for (place, (shard, error)) in self.canaries.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match error {
                Some(error) => write!(f, "{comma} shard {shard} failed ({error})")?,
                None => write!(f, "{comma} shard {shard} did not answer in time")?,
            }
        }
        Ok(())
    }
}

impl<E: fmt::Debug + fmt::Display> Error for CanaryError<E> {}
