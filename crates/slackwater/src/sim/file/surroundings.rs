//! The surroundings of clients and replicas: the sections `[antagonists]` and `[network]`.

use super::keys::{SPAN_EXPECTED, count, decimal, span};
use slackwater_config::toml_reader::Reader;
use slackwater_config::toml_reader::values::duration;
use slackwater_sim::Scenario;
use slackwater_sim::scenario::{Antagonists, Delay, Network};

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
