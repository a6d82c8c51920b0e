//! What is around clients and replicas: the sections `[antagonists]` and `[network]`.

use super::keys::{count, decimal, span};
use crate::toml_reader::values::{duration, found};
use crate::toml_reader::{Mistake, Reader};
use core::time::Duration;
use slackwater_sim::scenario::{Antagonists, Delay, Network};
use toml::de::DeValue;

const MS: Duration = Duration::from_millis(1);

/// The neighbours; what is not said of them is the testbed's.
pub(super) fn read_antagonists(reader: &mut Reader<'_>) -> Option<Antagonists> {
    let antagonists = Antagonists {
        spare_median: decimal(reader, "antagonists.spare_median", 0.8),
        sigma_below: decimal(reader, "antagonists.sigma_below", 0.68),
        sigma_above: decimal(reader, "antagonists.sigma_above", 1.2),
        spare_max: decimal(reader, "antagonists.spare_max", 64.0),
        slow: span(reader, "antagonists.slow", 10_000 * MS),
        fast: span(reader, "antagonists.fast", 300 * MS),
        full_machines: count(reader, "antagonists.full_machines", 1),
        full_for: span(reader, "antagonists.full_for", 80_000 * MS),
        machines: count(reader, "antagonists.machines", 100),
    };
    reader.has("antagonists").then_some(antagonists)
}

/// The network; without a word of it, delays are the testbed's.
pub(super) fn read_network(reader: &mut Reader<'_>) -> Network {
    let delay = read_delay(reader);
    Network {
        delay: reader.note(delay).flatten().unwrap_or(Delay {
            least: MS / 10,
            most: 3 * MS / 10,
        }),
        probe_loss: decimal(reader, "network.probe_loss", 0.0),
    }
}

fn read_delay(reader: &mut Reader<'_>) -> Result<Option<Delay>, Mistake> {
    const EXPECTED: &str = "a duration, or a list of the shortest and the longest";
    let Some(item) = reader.take("network.delay") else {
        return Ok(None);
    };
    let delays = reader.take_list("network.delay").unwrap_or_default();
    let delays: Result<Vec<_>, _> = delays
        .iter()
        .map(|delay| delay.read(duration, "a duration from 0 up"))
        .collect();
    match (delays?.as_slice(), &item.value) {
        (&[always], DeValue::String(_) | DeValue::Integer(_)) => Ok(Some(Delay {
            least: always,
            most: always,
        })),
        (&[least, most], _) => Ok(Some(Delay { least, most })),
        (_, other) => Err(item.mistake(format!("found {}, expected {EXPECTED}", found(other)))),
    }
}
