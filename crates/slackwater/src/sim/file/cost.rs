//! The section `[cost]`: the cost of a query.

use super::keys::{Kind, kind, needed_decimal, needed_span, span};
use super::trace::read_trace;
use slackwater_config::toml_reader::Reader;
use slackwater_sim::scenario::Cost;

const KINDS: &[Kind] = &[
    ("fixed", &["mean"]),
    ("exponential", &["mean"]),
    ("clipped_normal", &["mean", "deviation"]),
    ("lognormal", &["median", "sigma"]),
    ("pareto", &["least", "alpha"]),
    ("bimodal", &["cheap", "dear", "dear_share"]),
    ("trace", &["trace", "trace_column", "trace_unit"]),
];

/// The cost; `None` after a mistake.
pub(super) fn read_cost(reader: &mut Reader<'_>) -> Option<Cost> {
    let default = if reader.has("cost.trace") {
        "trace"
    } else {
        "exponential"
    };
    let kind = kind(reader, "cost", "kind", Some(default), KINDS)?;
    Some(match kind {
        "lognormal" => Cost::Lognormal {
            median: needed_span(reader, "cost.median", true)?,
            sigma: needed_decimal(reader, "cost.sigma", true)?,
        },
        "pareto" => Cost::Pareto {
            least: needed_span(reader, "cost.least", true)?,
            alpha: needed_decimal(reader, "cost.alpha", true)?,
        },
        "bimodal" => Cost::Bimodal {
            cheap: needed_span(reader, "cost.cheap", true)?,
            dear: needed_span(reader, "cost.dear", true)?,
            dear_share: needed_decimal(reader, "cost.dear_share", true)?,
        },
        "trace" => Cost::Trace(read_trace(reader, "cost")?),
        "clipped_normal" => {
            let mean = needed_span(reader, "cost.mean", true)?;
            let deviation = span(reader, "cost.deviation", mean);
            Cost::ClippedNormal { mean, deviation }
        }
        "fixed" => Cost::Fixed(needed_span(reader, "cost.mean", true)?),
        _ => Cost::Exponential(needed_span(reader, "cost.mean", true)?),
    })
}
