//! What is around clients and replicas: the sections `[antagonists]` and `[network]`.

use super::keys::{SPAN_EXPECTED, count, decimal, span};
use crate::toml_reader::Reader;
use crate::toml_reader::values::duration;
use core::time::Duration;
use slackwater_sim::scenario::{Antagonists, Delay, Network};

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
    reader.has_section("antagonists").then_some(antagonists)
}

/// The network; without a word of it, delays are the testbed's.
pub(super) fn read_network(reader: &mut Reader<'_>) -> Network {
    Network {
        delay: read_delay(reader),
        probe_loss: decimal(reader, "network.probe_loss", 0.0),
    }
}

/// One duration, or a table of the shortest and the longest.
fn read_delay(reader: &mut Reader<'_>) -> Delay {
    let least = span(reader, "network.delay.least", MS / 10);
    let most = span(reader, "network.delay.most", least.max(3 * MS / 10));
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
