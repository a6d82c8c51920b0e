//! The figures' CSV: fixed columns, one row for each cell, runs of all seeds taken together.
//!
//! Two equal runs give the same bytes except for the last column, `events_per_s`: the speed of the
//! simulation by CPU time, so on one core. Durations are milliseconds, `load` is a multiple of the
//! allocation, `error_pct` is of all queries, `util_*` are multiples of the allocation. A field
//! without a value is empty.

use super::quantity::ms;
use crate::figure::Played;
use crate::number::{at_most, fixed};

/// The columns, in order.
pub const COLUMNS: [&str; 22] = [
    "figure",
    "step",
    "load",
    "policy",
    "param",
    "qps",
    "queries",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "p999_ms",
    "mean_ms",
    "errors_per_s",
    "error_pct",
    "rif_p50",
    "rif_p90",
    "rif_p99",
    "rif_max",
    "util_mean",
    "util_1s_p99",
    "probes_per_query",
    "events_per_s",
];

/// Formats all of `played` under the figure's name, with a head.
pub fn csv(figure: &str, played: &[Played]) -> String {
    let mut text = COLUMNS.join(",");
    text.push('\n');
    for played in played {
        let row = row(figure, played);
        for (index, value) in row.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(&field(value));
        }
        text.push('\n');
    }
    text
}

fn row(figure: &str, played: &Played) -> [String; COLUMNS.len()] {
    let (cell, all) = (&played.cell, &played.all);
    let decimals = |value, decimals| fixed(value, decimals).unwrap_or_default();
    // Without values there is no quantile and no share.
    let latency_ms = |latency| match all.latency.count() {
        0 => String::new(),
        _ => decimals(ms(latency), 3),
    };
    let quantile_ms = |q| latency_ms(all.latency.quantile(q));
    let of_queries = |value| match all.queries {
        0 => String::new(),
        _ => decimals(value, 4),
    };
    let rif = |q| all.rif_quantile(q).to_string();
    [
        figure.to_owned(),
        cell.step.clone(),
        at_most(cell.load, 4).unwrap_or_default(),
        cell.policy.name.clone(),
        cell.param.clone(),
        decimals(all.rate(), 3),
        all.queries.to_string(),
        quantile_ms(0.5),
        quantile_ms(0.9),
        quantile_ms(0.99),
        quantile_ms(0.999),
        latency_ms(all.latency.mean()),
        decimals(all.errors_per_second(), 4),
        of_queries(all.error_share() * 100.0),
        rif(0.5),
        rif(0.9),
        rif(0.99),
        rif(1.0),
        decimals(all.utilization.mean(), 4),
        decimals(all.utilization.quantile_1s(0.99), 4),
        of_queries(all.probes_per_query()),
        decimals(all.events_per_second(), 0),
    ]
}

/// Formats a field, quoted if necessary. `[RFC 4180, 2]`
fn field(value: &str) -> String {
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example::{played, run};
    use core::time::Duration;

    #[test]
    fn csv_output_is_exact() {
        let mut cell = played("1.03", 1.033_333_3, "prequal", vec![run(1, 80), run(3, 90)]);
        // The histogram stores 80 ms in steps of 64 µs and returns the end of the step, except for
        // the longest value.
        cell.cell.param = "q=0.84, λ=\"x\"".to_owned();
        cell.all.cpu = Duration::from_millis(1);
        let expected = "\
figure,step,load,policy,param,qps,queries,p50_ms,p90_ms,p99_ms,p999_ms,mean_ms,errors_per_s,error_pct,rif_p50,rif_p90,rif_p99,rif_max,util_mean,util_1s_p99,probes_per_query,events_per_s
fig6,1.03,1.0333,prequal,\"q=0.84, λ=\"\"x\"\"\",100.000,2000,80.063,90.000,90.000,90.000,85.000,0.2000,0.2000,1,3,3,3,0.7500,1.0000,3.0000,12000000
";
        assert_eq!(csv("fig6", &[cell]), expected);
    }

    #[test]
    fn csv_without_runs_has_only_a_header() {
        let text = csv("fig6", &[]);
        assert_eq!(text.lines().count(), 1);
        assert_eq!(text.trim_end().split(',').count(), COLUMNS.len());
    }

    #[test]
    fn cell_without_queries_has_empty_latencies() {
        let mut cell = played("a", f64::NAN, "random", vec![]);
        cell.all = crate::Measured::nothing(0);
        let text = csv("x", &[cell]);
        assert!(
            text.ends_with("\nx,a,,random,,0.000,0,,,,,,0.0000,,0,0,0,0,0.0000,0.0000,,0\n"),
            "{text}"
        );
    }

    #[test]
    fn only_fields_that_need_it_are_quoted() {
        assert_eq!(field("plain field"), "plain field");
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("a\"b"), "\"a\"\"b\"");
        assert_eq!(field("a\nb"), "\"a\nb\"");
        assert_eq!(field("a\rb"), "\"a\rb\"");
    }
}
