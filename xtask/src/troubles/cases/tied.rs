//! Long requests beside short ones, in replicas that serve one at a time. A short one is sent to
//! two, and the replica that starts first serves it.

use super::{NOTHING, REPLICAS, SECOND, main_stream, of_each, times};
use crate::loopback::behaviour::{Behaviour, LONG};
use crate::troubles::columns::Column;
use crate::troubles::options::Options;
use crate::troubles::plan::{Case, Claim, Round, Span, Stream, Variant};
use crate::troubles::results::Results;
use core::time::Duration;

pub(super) const NAME: &str = "tied";

const POLICIES: [&str; 2] = ["random", "prequal"];

const TIED: &str = "tied requests";

const CALM: Duration = Duration::from_secs(2);

const SERVICE_MS: u64 = 5;
const LONG_MS: u64 = 100;

/// Long requests per second.
const LONG_RATE: u64 = 8;

pub(super) fn case(options: &Options) -> Case {
    let rate = short_rate(options);
    Case {
        name: NAME,
        title: "two tied copies of each request",
        about: format!(
            "Each of {REPLICAS} replicas serves one request at a time, which takes {SERVICE_MS} ms, and the others wait in its agent in the order in\n\
             which they came; {rate} requests/s. Beside them come {LONG_RATE} requests/s that take {LONG_MS} ms and are never sent twice; together\n\
             that is {} % of what the four can do. Latencies are those of the short ones.",
            busy_percent(rate)
        ),
        columns: &[
            Column::Errors,
            Column::P50,
            Column::P99,
            Column::P999,
            Column::Max,
            Column::Tied,
            Column::Begun,
            Column::Work,
            Column::Late,
        ],
        rounds: vec![round(options, rate)],
        claims,
    }
}

/// Utilization of the replicas by both kinds, in percent.
fn busy_percent(rate: u64) -> u64 {
    let replicas = u64::try_from(REPLICAS).unwrap_or(1);
    // Milliseconds per second, in percent.
    (rate * SERVICE_MS + LONG_RATE * LONG_MS) / (replicas * 10)
}

const fn short_rate(options: &Options) -> u64 {
    options.rate * 6 / 5
}

fn round(options: &Options, rate: u64) -> Round {
    let measured = Span {
        from: CALM,
        to: CALM + options.trouble() * 2,
    };
    let main = main_stream(rate, measured);
    let long = Stream {
        name: "long",
        path: LONG,
        rate: LONG_RATE,
        arguments: &["--method", "POST"],
        ..main.clone()
    };
    Round {
        id: "long",
        name: "Long requests come beside".to_owned(),
        replicas: REPLICAS,
        behaviour: Behaviour {
            room: 1,
            service_ms: SERVICE_MS,
            long_ms: LONG_MS,
            ..Behaviour::default()
        },
        steps: Vec::new(),
        streams: vec![main, long],
        during: Span {
            from: CALM + SECOND,
            to: measured.to,
        },
        after: None,
        variants: POLICIES.into_iter().flat_map(variants).collect(),
    }
}

fn variants(policy: &'static str) -> [Variant; 2] {
    let queue = "[queue]\nrequests_max = 1\n";
    let variant = |means, serve: &str, agent: &str| Variant {
        policy,
        means,
        serve: serve.to_owned(),
        agent: format!("{queue}{agent}"),
    };
    [
        variant(NOTHING, "", ""),
        variant(
            TIED,
            "[tie]\nenabled = true\n",
            "[tie]\npeers = [\"127.0.0.0/8\"]\n",
        ),
    ]
}

fn claims(results: &Results) -> Vec<Claim> {
    let falls = |policy, column: Column, percent: f64| {
        let says = format!(
            "with {policy} and tied requests, {} falls by {percent} % or more",
            column.title().trim_end_matches(" ms")
        );
        let rows = results.with(TIED);
        let rows = rows.filter(|row| row.variant.policy == policy);
        of_each(&says, rows, column, |row, _| {
            times(results, row, NOTHING, column) <= 1.0 - percent / 100.0
        })
    };
    let of_policy = |policy| {
        [
            falls(policy, Column::P50, 10.0),
            falls(policy, Column::P999, 30.0),
        ]
    };
    let mut claims: Vec<_> = POLICIES.into_iter().flat_map(of_policy).collect();
    claims.push(of_each(
        "with tied requests, replicas begin at most 2 % more requests than there are",
        results.with(TIED),
        Column::Begun,
        |_, begun| begun <= 2.0,
    ));
    claims
}
