//! Scenario files: a user's own fleet as TOML, parsed into a [`Scenario`] and the settings of the
//! policies to play it under.
//!
//! | keys | read in |
//! |---|---|
//! | `deadline`, `cancel_expired`, `warmup`, `span` | here |
//! | `[load]` | `load` |
//! | `[cost]` | `cost` |
//! | `[[fleet]]` | `fleet` |
//! | `[antagonists]`, `[network]`, `[zones]` | `surroundings` |
//! | `[[event]]` | `event` |
//! | `[error_aversion]`, `[latency_probation]`, `[ejection]`, `[warm_up]` | `slackwater_config` |
//! | `[prequal]` and the other policies' | `slackwater_config` |
//!
//! Each key is documented in `docs/reference/scenario.md`; a test compares the two.

mod cost;
mod event;
mod fleet;
mod keys;
mod load;
mod surroundings;
#[cfg(test)]
mod tests;
mod trace;

use core::time::Duration;
use load::Rate;
use slackwater_config::Fault;
use slackwater_config::toml_reader::values::boolean;
use slackwater_config::toml_reader::{Mistake, Mistakes, Reader, Source};
use slackwater_config::{PolicySections, read_played_health};
use slackwater_core::health::HealthConfig;
use slackwater_core::policy::PolicySettings;
use slackwater_sim::Scenario;
use slackwater_sim::presets::{rate_at, testbed};
use slackwater_sim::scenario::{Cost, Service};
use std::path::Path;

/// A valid scenario, and the settings of its policies.
#[derive(Clone, Debug)]
pub(super) struct ScenarioFile {
    pub(super) scenario: Scenario,
    pub(super) settings: PolicySettings,
    /// Health tracking around each policy; `None` if there is none.
    pub(super) health: Option<HealthConfig>,
}

impl ScenarioFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// All mistakes, in the order of the file, each in a line with file, line, column and field.
    pub(super) fn load(file: &Path) -> Result<Self, Fault> {
        let source = Source::read(file).map_err(|mistake| Mistakes::new(vec![mistake]));
        source
            .and_then(|source| Self::of(&source))
            .map_err(|mistakes| mistakes.fault_in("scenario"))
    }

    /// Like [`Self::load`], for a file that has been read.
    pub(super) fn of(source: &Source) -> Result<Self, Mistakes> {
        read(Reader::new(Some(source), Vec::new())?).1
    }
}

/// Returns whether a file is a scenario, judged by its name or by sections that no configuration
/// has.
pub(super) fn is_one(source: &Source) -> bool {
    let is_named = source.file().to_string_lossy().ends_with(".sim.toml");
    is_named
        || Reader::new(Some(source), Vec::new())
            .is_ok_and(|reader| SECTIONS.iter().any(|section| reader.has(section)))
}

/// Sections that all scenarios have, and no other file.
const SECTIONS: [&str; 3] = ["load", "cost", "fleet"];
/// Far above any overload that is worth a simulation.
const UTILIZATION_MAX: f64 = 1_000.0;
/// Replaces an unknown rate after a mistake.
const PLACEHOLDER_RATE: f64 = 1.0;

/// Reads all keys and checks the result. Also returns the names of all keys.
fn read(mut reader: Reader<'_>) -> (Vec<String>, Result<ScenarioFile, Mistakes>) {
    let reader_ref = &mut reader;
    let second = Duration::from_secs(1);
    let testbed = testbed();
    let deadline = keys::span(reader_ref, "deadline", testbed.deadline);
    let cancel_expired = reader_ref.setting("cancel_expired", false, "", boolean);
    let warmup = keys::span(reader_ref, "warmup", 10 * second);
    let span = keys::span(reader_ref, "span", 60 * second);
    let load = load::read_load(reader_ref);
    let cost = cost::read_cost(reader_ref);
    let fleet = fleet::read_fleet(reader_ref);
    let antagonists = surroundings::read_antagonists(reader_ref, &testbed);
    let network = surroundings::read_network(reader_ref, &testbed);
    let zones = surroundings::read_zones(reader_ref, load.load.clients.len(), &fleet);
    let events = event::read_events(reader_ref);
    let settings = PolicySections::read(reader_ref, "").settings;
    let health = read_played_health(reader_ref);
    let mut scenario = Scenario {
        load: load.load,
        // A value that could not be read is already reported. A valid one in its place lets the
        // other mistakes be found as well.
        cost: cost.unwrap_or(Cost::Fixed(Duration::from_millis(1))),
        fleet,
        antagonists,
        network,
        zones,
        events,
        deadline,
        cancel_expired: cancel_expired.value,
        replay: None,
        warmup,
        span,
    };
    scenario.load.rate = match load.rate {
        Some(Rate::Absolute(rate)) => rate,
        Some(Rate::Utilization(share, ref definition)) => {
            let rate = rate_of(share, &scenario).map_err(|message| definition.mistake(message));
            reader_ref.note(rate).unwrap_or(PLACEHOLDER_RATE)
        }
        None => PLACEHOLDER_RATE,
    };
    let found = scenario
        .mistakes()
        .into_iter()
        .map(|mistake| match &load.rate {
            // The file does not contain the rate itself, so the mistake is reported at the
            // utilization.
            Some(Rate::Utilization(_, definition)) if mistake.field == "load.rate" => {
                definition.mistake(format!("gives a rate that {}", mistake.message))
            }
            _ => Mistake {
                place: reader.place_near(&mistake.field),
                field: mistake.field,
                message: mistake.message,
            },
        });
    let found: Vec<_> = found.collect();
    let (fields, mut mistakes) = reader.finish();
    for mistake in found {
        if mistakes.iter().all(|other| other.field != mistake.field) {
            mistakes.push(mistake);
        }
    }
    if mistakes.is_empty() {
        let file = ScenarioFile {
            scenario,
            settings,
            health,
        };
        (fields, Ok(file))
    } else {
        (fields, Err(Mistakes::new(mistakes)))
    }
}

/// The rate in queries per second that uses `share` of the fleet's capacity while no replica has a
/// fault.
fn rate_of(share: f64, scenario: &Scenario) -> Result<f64, String> {
    if share <= 0.0 || share > UTILIZATION_MAX {
        return Err(format!(
            "found {share:?}, expected above 0 and at most {UTILIZATION_MAX}, where 1 is all that the fleet can do"
        ));
    }
    let replays =
        |service: &Service| matches!(service, Service::Latency | Service::LatencyTrace(_));
    if scenario.fleet.iter().any(|group| replays(&group.service)) {
        return Err(
            "does not go with service = \"latency\", which takes any load; expected load.rate instead"
                .to_owned(),
        );
    }
    let rate = rate_at(share, &scenario.fleet, &scenario.cost);
    // Otherwise a cost or a capacity is impossible, and is reported as such.
    Ok(if rate.is_finite() && rate > 0.0 {
        rate
    } else {
        PLACEHOLDER_RATE
    })
}
