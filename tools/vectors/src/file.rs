//! The files of a set of vectors.

use crate::Family;
use crate::canonical;
use crate::chance::Chance;
use crate::families::families;
use crate::load::Subject;
use core::fmt;

/// How much is played.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Scenarios in all files together, about; `None`: as many as are committed.
    pub scenarios: Option<u64>,
    /// Events of each scenario; `None`: as many as are committed.
    pub events: Option<u64>,
    /// The seed of the first scenario of each file.
    pub first_seed: u64,
}

impl Amount {
    /// The committed set.
    pub const COMMITTED: Self = Self {
        scenarios: None,
        events: None,
        first_seed: 1,
    };
}

/// A file of vectors.
#[derive(Clone, Copy, Debug)]
pub struct File {
    content: Content,
    amount: Amount,
    /// Scenarios, and events of each, in the committed set.
    committed: (u64, u64),
}

#[derive(Clone, Copy, Debug)]
enum Content {
    Policy(Family),
    Load(Subject),
}

/// The lengths of scenarios, in percent of the mean.
const LENGTHS: [u64; 5] = [60, 100, 60, 220, 60];

/// Files about the load of a replica, with the scenarios and the events of each that are committed.
const LOADS: [(Subject, u64, u64); 3] = [
    (Subject::Tracker, 30, 200),
    (Subject::Capacity, 20, 300),
    (Subject::Rates, 8, 60),
];

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
    let policies = families().map(|family| File {
        content: Content::Policy(family),
        amount,
        committed: (family.scenarios, family.events),
    });
    let loads = LOADS.into_iter().map(|(subject, scenarios, events)| File {
        content: Content::Load(subject),
        amount,
        committed: (scenarios, events),
    });
    policies.chain(loads).collect()
}

impl File {
    /// Its path in the folder of vectors.
    pub fn path(&self) -> String {
        match self.content {
            Content::Policy(family) => format!("policy/{}.jsonl", family.name()),
            Content::Load(subject) => format!("load/{}.jsonl", subject.name()),
        }
    }

    /// How many scenarios it has.
    pub fn scenarios(&self) -> u64 {
        let committed = self.committed.0;
        // Those of the policies are counted; the others come on top.
        let all: u64 = families().map(|family| family.scenarios).sum();
        let wanted = self.amount.scenarios;
        wanted.map_or(committed, |wanted| (wanted * committed).div_ceil(all))
    }

    /// Events of each of its scenarios, in the mean.
    pub fn events(&self) -> u64 {
        self.amount.events.unwrap_or(self.committed.1)
    }

    /// The lines of each scenario.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        let (first_seed, events) = (self.amount.first_seed, self.events());
        (0..self.scenarios()).map(move |index| {
            let number = first_seed.wrapping_add(index);
            // Some rules need a long history, most a short one.
            let percent = LENGTHS[usize::try_from(index % 5).unwrap_or(0)];
            let events = (events * percent).div_ceil(100);
            match self.content {
                Content::Policy(family) => family.scenario(number, events),
                Content::Load(subject) => {
                    let name = format!("{}-{number}", subject.name());
                    let seed = canonical::fnv1a(&name);
                    subject.play(&name, Chance::new(seed), events)
                }
            }
        })
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
