//! The files of a set of vectors.

use crate::canonical;
use crate::chance::Chance;
use crate::families::{self, Committed, Content};
use crate::key_table;
use core::fmt;

/// How much is played.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amount {
    /// Scenarios of policies in all files together, about. `None`: as many as are committed.
    pub scenarios: Option<u64>,
    /// Events of a scenario, in the mean. `None`: as in the committed set.
    pub events: Option<u64>,
    /// The number of each file's first scenario. `None`: 1, or, without another number of
    /// scenarios, the committed ones.
    pub first_seed: Option<u64>,
}

impl Amount {
    /// The committed set.
    pub const COMMITTED: Self = Self {
        scenarios: None,
        events: None,
        first_seed: None,
    };
}

/// The lengths of scenarios, in percent of the mean.
const LENGTHS: [u64; 5] = [40, 60, 60, 100, 240];

/// The number from which on scenarios are long. Some rules judge by 128 queries, and then by the
/// next 128.
pub const LONG: u64 = 100_000;
/// How many times as long they are.
const LONG_TIMES: u64 = 8;

/// A file of vectors.
#[derive(Clone, Copy, Debug)]
pub struct File {
    committed: Committed,
    amount: Amount,
}

/// The first line that differs from what the core does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its number, from 1.
    pub line: usize,
    /// The line in the file; `None`: the file ends before it.
    pub committed: Option<String>,
    /// The line as the core has it now; `None`: there is no such line.
    pub now: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |line: &Option<String>| line.clone().unwrap_or_else(|| "nothing".to_owned());
        let (committed, now) = (text(&self.committed), text(&self.now));
        write!(f, "line {}\n  file: {committed}\n  core: {now}", self.line)
    }
}

/// The files of a set.
pub fn files(amount: Amount) -> Vec<File> {
    let files = families::all().map(|committed| File { committed, amount });
    files.collect()
}

impl File {
    /// Its path in the folder of vectors.
    pub fn path(&self) -> String {
        let (folder, name) = self.name();
        format!("{folder}/{name}.jsonl")
    }

    fn name(&self) -> (&'static str, String) {
        match self.committed.content {
            Content::Policy(family) if family.keyed => ("keys", family.name()),
            Content::Policy(family) => ("policy", family.name()),
            Content::KeyTable => ("keys", "hashes".to_owned()),
            Content::Load(subject) => ("load", subject.name().to_owned()),
        }
    }

    /// The numbers of its scenarios.
    pub fn numbers(&self) -> Vec<u64> {
        let Amount {
            scenarios,
            first_seed,
            ..
        } = self.amount;
        let committed = self.committed.numbers;
        if scenarios.is_none() && first_seed.is_none() {
            return committed.to_vec();
        }
        if matches!(self.committed.content, Content::KeyTable) {
            return vec![first_seed.unwrap_or(1)];
        }
        let of_policies = families::all().filter(|it| matches!(it.content, Content::Policy(_)));
        let all: usize = of_policies.map(|it| it.numbers.len()).sum();
        let (count, all) = (committed.len() as u64, all as u64);
        let count = scenarios.map_or(count, |wanted| (wanted * count).div_ceil(all));
        let first = first_seed.unwrap_or(1);
        (first..first.saturating_add(count)).collect()
    }

    /// The least number of events of the scenario with this number.
    pub fn events(&self, number: u64) -> u64 {
        let mean = self.amount.events.unwrap_or(self.committed.events);
        if number >= LONG {
            return mean * LONG_TIMES;
        }
        // Some rules need a long history, most a short one.
        let place = usize::try_from(number % 5).unwrap_or(0);
        (mean * LENGTHS[place]).div_ceil(100)
    }

    /// The lines of the scenario with this number.
    pub fn text(&self, number: u64) -> String {
        let events = self.events(number);
        match self.committed.content {
            Content::Policy(family) => family.scenario(number, events),
            Content::KeyTable => key_table::text(number),
            Content::Load(subject) => {
                let name = format!("{}-{number}", subject.name());
                let chance = Chance::new(canonical::fnv1a(&name));
                subject.play(&name, chance, events)
            }
        }
    }

    /// The lines of each scenario.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        let numbers = self.numbers().into_iter();
        numbers.map(|number| self.text(number))
    }

    /// The first line of the file's text that differs from what the core does now.
    pub fn difference(&self, committed: &str) -> Option<Difference> {
        let mut committed = committed.lines();
        let mut line = 0;
        for text in self.texts() {
            for now in text.lines() {
                line += 1;
                let found = committed.next();
                if found != Some(now) {
                    return Some(Difference {
                        line,
                        committed: found.map(str::to_owned),
                        now: Some(now.to_owned()),
                    });
                }
            }
        }
        let rest = committed.next()?;
        Some(Difference {
            line: line + 1,
            committed: Some(rest.to_owned()),
            now: None,
        })
    }
}
