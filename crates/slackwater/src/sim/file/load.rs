//! The section `[load]`: the clients, and how many queries they send.

use super::keys::{count, decimal, needed_count, needed_decimal, needed_span, span};
use core::time::Duration;
use slackwater_config::toml_reader::values::{boolean, found, number, one_of, whole};
use slackwater_config::toml_reader::{Definition, Item, Mistake, Reader};
use slackwater_sim::Scenario;
use slackwater_sim::scenario::{Arrivals, ClientCpu, Hedge, Load, Subsets, Swing};
use toml::de::DeValue;

const CLIENTS_EXPECTED: &str = "a number of clients, or a list of their shares such as [1, 1, 3]";

/// The rate of queries.
#[derive(Clone, Debug)]
pub(super) enum Rate {
    /// Queries a second.
    Absolute(f64),
    /// A share of the fleet's capacity; the rate is known once fleet and cost are read.
    Utilization(f64, Definition),
}

/// The load without its rate, which is 0 until it is known.
#[derive(Clone, Debug)]
pub(super) struct LoadSection {
    /// `None` after a mistake.
    pub(super) rate: Option<Rate>,
    pub(super) load: Load,
}

pub(super) fn read_load(reader: &mut Reader<'_>) -> LoadSection {
    let arrivals = [
        ("poisson", Arrivals::Poisson),
        ("regular", Arrivals::Regular),
    ];
    LoadSection {
        rate: read_rate(reader),
        load: Load {
            rate: 0.0,
            clients: read_clients(reader),
            arrivals: reader
                .setting("load.arrivals", Arrivals::Poisson, "", |value| {
                    one_of(value, &arrivals)
                })
                .value,
            swing: read_swing(reader),
            hedge: read_hedge(reader),
            tie: read_tie(reader),
            subsets: read_subsets(reader),
            siblings: None,
            mix: None,
            client_cpu: read_client_cpu(reader),
            classes: None,
            keys: None,
            prompts: None,
        },
    }
}

fn read_rate(reader: &mut Reader<'_>) -> Option<Rate> {
    match (reader.take("load.rate"), reader.take("load.utilization")) {
        (Some(rate), None) => reader.note(rate.read(number, "")).map(Rate::Absolute),
        (None, Some(share)) => {
            let definition = share.definition.clone();
            let share = reader.note(share.read(number, ""))?;
            Some(Rate::Utilization(share, definition))
        }
        (Some(_), Some(share)) => {
            reader.add_mistake(share.mistake("is said beside load.rate, expected one of the two"));
            None
        }
        (None, None) => {
            reader.add_missing_key(
                "load.rate",
                "queries a second, or load.utilization as a share of the fleet's capacity",
            );
            None
        }
    }
}

/// Each client's share; by default there is one client.
fn read_clients(reader: &mut Reader<'_>) -> Vec<f64> {
    let Some(item) = reader.take("load.clients") else {
        return vec![1.0];
    };
    let shares = match &item.value {
        DeValue::Integer(_) => even_clients(&item),
        DeValue::Array(_) => {
            let items = reader.take_list("load.clients").unwrap_or_default();
            let shares = items.iter().map(|item| item.read(number, ""));
            shares.collect()
        }
        other => Err(item.mistake(format!(
            "found {}, expected {CLIENTS_EXPECTED}",
            found(other)
        ))),
    };
    reader.note(shares).unwrap_or_else(|| vec![1.0])
}

fn even_clients(item: &Item<'_>) -> Result<Vec<f64>, Mistake> {
    let most = Scenario::CLIENTS_MAX;
    let range = format!("from 1 to {most} clients");
    let clients: usize = item.read(whole, &range)?;
    // There are as many shares as clients, so an excessive number must be rejected before they are
    // created.
    if clients > most {
        return Err(item.mistake(format!("found {clients}, expected {range}")));
    }
    Ok(vec![1.0; clients])
}

fn read_swing(reader: &mut Reader<'_>) -> Option<Swing> {
    let is_there = reader.has_section("load.swing");
    let period = needed_span(reader, "load.swing.period", is_there);
    let amplitude = needed_decimal(reader, "load.swing.amplitude", is_there);
    Some(Swing {
        period: period?,
        amplitude: amplitude?,
    })
}

fn read_hedge(reader: &mut Reader<'_>) -> Option<Hedge> {
    let hedge = Hedge {
        after_quantile: decimal(reader, "load.hedge.after_quantile", 0.95),
        budget: decimal(reader, "load.hedge.budget", 0.02),
        delay_min: span(reader, "load.hedge.delay_min", Duration::from_millis(1)),
        copies_max: count(reader, "load.hedge.copies_max", 2),
        needs_room: false,
    };
    reader.has_section("load.hedge").then_some(hedge)
}

fn read_tie(reader: &mut Reader<'_>) -> Option<Duration> {
    let delay = span(reader, "load.tie.delay", Duration::from_millis(1));
    reader.has_section("load.tie").then_some(delay)
}

fn read_subsets(reader: &mut Reader<'_>) -> Option<Subsets> {
    let is_there = reader.has_section("load.subset");
    let size = needed_count(reader, "load.subset.size", is_there);
    let numbered = reader.setting("load.subset.numbered", false, "", boolean);
    Some(Subsets {
        size: size?,
        numbered: numbered.value,
    })
}

fn read_client_cpu(reader: &mut Reader<'_>) -> Option<ClientCpu> {
    let cpu = ClientCpu {
        query: span(reader, "load.client_cpu.query", Duration::ZERO),
        probe: span(reader, "load.client_cpu.probe", Duration::ZERO),
    };
    reader.has_section("load.client_cpu").then_some(cpu)
}
