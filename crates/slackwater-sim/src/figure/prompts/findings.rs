//! The findings.

use super::cases::{CASES, RULES};
use crate::figure::cells::{Plays, latency_ms};
use crate::figure::{Findings, Played, Table};

/// Returns claims, charts and tables.
pub(super) fn findings(played: &[Played]) -> Findings {
    let plays = Plays::new(played);
    let mut tables = Vec::new();
    for case in CASES {
        let mut rows = Vec::new();
        for rule in RULES {
            let Some(played) = plays.find(&case.step(), rule.name) else {
                continue;
            };
            let all = &played.all;
            let s = |q| format!("{:.2}", latency_ms(all, q) / 1e3);
            let conversations = &all.conversations;
            rows.push(vec![
                rule.name.to_owned(),
                s(0.5),
                s(0.9),
                s(0.99),
                format!("{:.1}", conversations.per_token.quantile(0.5).as_secs_f64() * 1e3),
                format!("{:.1}", conversations.per_token.quantile(0.99).as_secs_f64() * 1e3),
                format!("{:.1}", 100.0 * conversations.cached_share()),
                format!("{:.1}", 100.0 * conversations.moved_share()),
                format!("{:.2}", all.probes_per_query()),
                format!("{:.2}", 100.0 * all.error_share()),
            ]);
        }
        if rows.is_empty() {
            continue;
        }
        let columns = [
            "rule", "p50, s", "p90, s", "p99, s", "a token, p50, ms", "p99, ms", "cached, %",
            "moved, %", "probes a turn", "errors, %",
        ];
        tables.push(Table::new(case.step(), &columns, rows));
    }
    Findings {
        tables,
        ..Findings::default()
    }
}
