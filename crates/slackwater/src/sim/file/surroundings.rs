//! The surroundings of clients and replicas: the sections `[antagonists]`, `[network]`
//! and `[zones]`.

use super::keys::{SPAN_EXPECTED, count, decimal, span};
use core::ops::RangeInclusive;
use core::time::Duration;
use slackwater_config::toml_reader::Reader;
use slackwater_config::toml_reader::values::{duration, whole};
use slackwater_sim::Scenario;
use slackwater_sim::scenario::{Antagonists, Delay, Group, Network, Zones};

/// The neighbours. Absent keys have the testbed's values.
pub(super) fn read_antagonists(reader: &mut Reader<'_>, testbed: &Scenario) -> Option<Antagonists> {
    let default = testbed.antagonists?;
    let antagonists = Antagonists {
        headroom_median: decimal(reader, "antagonists.spare_median", default.headroom_median),
        sigma_below: decimal(reader, "antagonists.sigma_below", default.sigma_below),
        sigma_above: decimal(reader, "antagonists.sigma_above", default.sigma_above),
        headroom_max: decimal(reader, "antagonists.spare_max", default.headroom_max),
        slow: span(reader, "antagonists.slow", default.slow),
        slow_share: decimal(reader, "antagonists.slow_share", default.slow_share),
        fast: span(reader, "antagonists.fast", default.fast),
        fast_share: decimal(reader, "antagonists.fast_share", default.fast_share),
        full_machines: count(reader, "antagonists.full_machines", default.full_machines),
        full_for: span(reader, "antagonists.full_for", default.full_for),
        machines: count(reader, "antagonists.machines", default.machines),
    };
    reader.has_section("antagonists").then_some(antagonists)
}

/// The network. By default, delays are the testbed's.
pub(super) fn read_network(reader: &mut Reader<'_>, testbed: &Scenario) -> Network {
    Network {
        delay: read_delay(reader, testbed.network.delay),
        probe_loss: decimal(reader, "network.probe_loss", 0.0),
    }
}

/// The zones of a fleet. Clients take turns.
pub(super) fn read_zones(
    reader: &mut Reader<'_>,
    clients: usize,
    fleet: &[Group],
) -> Option<Zones> {
    let zones = number(reader, "zones.count", 1..=Zones::MAX, 1);
    let delay = span(reader, "zones.delay", Duration::ZERO);
    let mut replicas = Vec::new();
    for (index, group) in fleet.iter().enumerate() {
        let key = format!("fleet[{index}].zone");
        let zone = number(reader, &key, 0..=Zones::MAX - 1, 0);
        let most = Scenario::REPLICAS_MAX.saturating_sub(replicas.len());
        replicas.extend(core::iter::repeat_n(zone, group.count.min(most)));
    }
    let zones = Zones {
        clients: Zones::even(zones, clients, 0, delay).clients,
        replicas,
        delay,
    };
    reader.has_section("zones").then_some(zones)
}

/// A number in a range.
fn number(
    reader: &mut Reader<'_>,
    key: &str,
    range: RangeInclusive<usize>,
    default: usize,
) -> usize {
    let Some(item) = reader.take(key) else {
        return default;
    };
    let expected = format!("a number from {} to {}", range.start(), range.end());
    let read = item.read(whole::<usize>, &expected);
    let read = read.and_then(|number| {
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(item.mistake(format!("found {number}, expected {expected}")))
        }
    });
    reader.note(read).unwrap_or(default)
}

/// A single duration, or a table of the shortest and the longest.
fn read_delay(reader: &mut Reader<'_>, default: Delay) -> Delay {
    let least = span(reader, "network.delay.least", default.least);
    let most = span(reader, "network.delay.most", least.max(default.most));
    match reader.take("network.delay") {
        Some(item) if !item.value.is_table() => {
            let always = reader
                .note(item.read(duration, SPAN_EXPECTED))
                .unwrap_or(least);
            Delay {
                least: always,
                most: always,
            }
        }
        _ => Delay { least, most },
    }
}
