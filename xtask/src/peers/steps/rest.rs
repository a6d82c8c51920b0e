//! At rest: nothing is in flight any more, by every report.

use crate::loopback::processes::wait_for;
use crate::peers::site::{Site, probe, status};
use crate::report::Report;
use core::time::Duration;

/// Time from the last response to rest.
const REST_MAX: Duration = Duration::from_secs(2);

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for (index, pair) in site.pairs.iter().enumerate() {
        let outcome = at_zero(|| {
            let (rif, draining) = probe(pair.agent)?;
            let own = &status(pair.agent_admin)?["own_load"];
            let is_at_rest = rif == 0 && own["rif"] == 0 && !draining;
            let numbers = format!(
                "probe: {rif}, /status: {}, draining: {draining}",
                own["rif"]
            );
            Ok((is_at_rest, numbers))
        });
        report.add("rest", &format!("RIF of agent {index} is zero"), outcome);
    }
    let outcome = at_zero(|| {
        let status = site.status()?;
        let replicas = status["replicas"].as_array().into_iter().flatten();
        let in_flight: Vec<_> = replicas
            .map(|replica| replica["in_flight"].to_string())
            .collect();
        Ok((
            in_flight.iter().all(|count| count == "0"),
            in_flight.join(", "),
        ))
    });
    report.add("rest", "serve has nothing in flight", outcome);
}

/// Waits until `look` finds rest; the error has its last result.
fn at_zero(look: impl Fn() -> Result<(bool, String), String>) -> Result<String, String> {
    let mut last = String::new();
    wait_for("rest", REST_MAX, || {
        let (is_at_rest, numbers) = look()?;
        last.clone_from(&numbers);
        Ok(is_at_rest.then_some(numbers))
    })
    .map_err(|waited| format!("{waited}: {last}"))
}
