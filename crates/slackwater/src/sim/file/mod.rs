//! Scenario files: a user's own fleet as TOML, read into a [`Scenario`] and the settings of the policies to play it under.
//!
//! | keys | read in |
//! |---|---|
//! | `deadline`, `cancel_expired`, `warmup`, `span` | here |
//! | `[load]` | `load` |
//! | `[cost]` | `cost` |
//! | `[[fleet]]` | `fleet` |
//! | `[antagonists]`, `[network]` | `surroundings` |
//! | `[[event]]` | `event` |
//! | `[prequal]` and the other policies' | `crate::config` |
//!
//! Every key is documented in `docs/scenario.md`; a test compares the two.

mod cost;
mod event;
mod fleet;
mod keys;
mod load;
mod surroundings;
#[cfg(test)]
mod tests;
mod trace;

use crate::config::PolicySections;
use crate::toml_reader::values::boolean;
use crate::toml_reader::{Mistake, Mistakes, Reader, Source};
use core::time::Duration;
use load::Rate;
use slackwater_core::policy::PolicySettings;
use slackwater_sim::Scenario;
use slackwater_sim::scenario::Service;
use std::path::Path;

/// A scenario without mistakes, and what its policies are set to.
#[derive(Clone, Debug)]
pub(super) struct ScenarioFile {
    pub(super) scenario: Scenario,
    pub(super) settings: PolicySettings,
}

impl ScenarioFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// Every mistake found, in the order of the file.
    pub(super) fn load(file: &Path) -> Result<Self, Mistakes> {
        let source = Source::read(file).map_err(|mistake| Mistakes::new(vec![mistake]))?;
        read(Reader::new(Some(&source), Vec::new())?).1
    }
}

/// Reads every key and checks what comes of them. Also gives every key that there is.
fn read(mut reader: Reader<'_>) -> (Vec<String>, Result<ScenarioFile, Mistakes>) {
    let reader_ref = &mut reader;
    let second = Duration::from_secs(1);
    let deadline = keys::span(reader_ref, "deadline", 5 * second);
    let cancel_expired = reader_ref.setting("cancel_expired", false, "", boolean);
    let warmup = keys::span(reader_ref, "warmup", 10 * second);
    let span = keys::span(reader_ref, "span", 60 * second);
    let load = load::read_load(reader_ref);
    let cost = cost::read_cost(reader_ref);
    let fleet = fleet::read_fleet(reader_ref);
    let antagonists = surroundings::read_antagonists(reader_ref);
    let network = surroundings::read_network(reader_ref);
    let events = event::read_events(reader_ref);
    let policies = PolicySections::read(reader_ref);
    let settings = policies.settings(reader_ref);
    let scenario = (load.rate.zip(cost)).map(|(rate, cost)| {
        let mut scenario = Scenario {
            load: load.load,
            cost,
            fleet,
            antagonists,
            network,
            events,
            deadline,
            cancel_expired: cancel_expired.value,
            warmup,
            span,
        };
        scenario.load.rate = rate_of(reader_ref, &rate, &scenario);
        scenario
    });
    let mut found = Vec::new();
    if let Some(scenario) = &scenario {
        // What could not be read is missing from the scenario, and that it is missing is no mistake of its own.
        found.extend(scenario.mistakes().into_iter().map(|mistake| Mistake {
            place: reader.place_near(&mistake.field),
            field: mistake.field,
            message: mistake.message,
        }));
    }
    let (fields, mut mistakes) = reader.finish();
    if mistakes.is_empty() {
        mistakes = found;
    }
    match scenario {
        Some(scenario) if mistakes.is_empty() => (fields, Ok(ScenarioFile { scenario, settings })),
        _ => (fields, Err(Mistakes::new(mistakes))),
    }
}
