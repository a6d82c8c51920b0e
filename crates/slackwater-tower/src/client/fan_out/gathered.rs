//! What came of a fan-out, and how complete it is.

use core::error::Error;
use core::fmt;

/// What came of one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf<T, E> {
    /// It answered well.
    Answered(T),
    /// It failed.
    Failed(E),
    /// It was asked, but the fan-out had ended before it answered.
    NotAwaited,
    /// The fan-out had ended before it was asked.
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
    /// Before anybody was asked; `enough` answers of so many leaves are good enough.
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

    /// A leaf that was asked has ended; whether it has answered well.
    pub(super) fn ended(&mut self, shard: usize, result: Result<T, E>) -> bool {
        let is_well = result.is_ok();
        self.answered += usize::from(is_well);
        self.leaves[shard] = match result {
            Ok(answer) => Leaf::Answered(answer),
            Err(error) => Leaf::Failed(error),
        };
        is_well
    }

    /// What came of each shard.
    pub fn leaves(&self) -> &[Leaf<T, E>] {
        &self.leaves
    }

    /// The same, to be taken apart.
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

    /// The same, to be kept.
    pub fn into_answers(self) -> impl Iterator<Item = (usize, T)> {
        let leaves = self.leaves.into_iter().enumerate();
        leaves.filter_map(|(shard, leaf)| match leaf {
            Leaf::Answered(answer) => Some((shard, answer)),
            _ => None,
        })
    }

    /// How many leaves have answered well.
    pub const fn answered(&self) -> usize {
        self.answered
    }

    /// All leaves have answered well.
    pub const fn is_complete(&self) -> bool {
        self.answered == self.leaves.len()
    }

    /// As many have as the settings call good enough. It may be fewer: where the deadline came
    /// first, or too many failed.
    pub const fn is_enough(&self) -> bool {
        self.answered >= self.enough
    }
}

/// No canary has answered well, so the other shards were not asked: the request may be one that
/// brings servers down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryError<E> {
    /// The shards that were asked, each with how it failed; `None`: it had not answered in time.
    pub canaries: Vec<(usize, Option<E>)>,
    /// How many others there are.
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
                // Then this is no error.
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
            "no canary answered well, so {spared} other shards were not asked; look at the request before sending it again:"
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
