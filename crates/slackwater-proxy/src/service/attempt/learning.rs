//! Reads load reports in responses, in the form that the policy learns from.
//!
//! The report is removed from the response, because clients do not receive a replica's load. An
//! unreadable report is removed, too, and ignored. For other policies, reports are not even
//! searched for.

use crate::orca;
use slackwater_core::LoadReport;
use slackwater_core::policy::Carried;
use slackwater_http::FieldMap;
use slackwater_tower::wire::carried::take_carried_report;

/// Removes and returns the report that the policy learns from, in a response's head or trailers.
pub(crate) fn take_report(carried: Carried, headers: &mut impl FieldMap) -> Option<LoadReport> {
    match carried {
        Carried::Nothing => None,
        Carried::Rates => orca::take(headers)?.of_rates(),
        // The native report's fields take precedence over an ORCA report.
        Carried::Capacity => {
            let said = orca::take(headers);
            let own = take_carried_report(headers).and_then(Result::ok);
            own.or_else(|| said?.of_capacity())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_http::Fields;

    const ORCA: (&str, &str) = (
        "endpoint-load-metrics",
        "TEXT cpu_utilization=0.5, rps_fractional=4, named_metrics.slackwater.rif=2, \
         named_metrics.slackwater.capacity=3.5, named_metrics.slackwater.cost_seconds=0.001",
    );
    const LOAD: (&str, &str) = ("x-slackwater-load", "7;;");

    /// Returns what is learned, and the number of remaining fields.
    fn taken(
        carried: Carried,
        fields: &[(&'static str, &'static str)],
    ) -> (Option<LoadReport>, usize) {
        let mut headers: Fields = fields.iter().copied().collect();
        (take_report(carried, &mut headers), headers.len())
    }

    #[test]
    fn report_is_read_in_the_form_that_the_policy_uses() {
        let nothing = Carried::Nothing;
        assert_eq!(taken(nothing, &[ORCA, LOAD]), (None, 2));
        let rates = Carried::Rates;
        let (report, left) = taken(rates, &[ORCA, LOAD]);
        assert_eq!(report.unwrap().cpu_millionths, Some(500_000));
        assert_eq!(left, 1, "a field that no policy reads");
        let capacity = Carried::Capacity;
        let (report, left) = taken(capacity, &[ORCA]);
        let report = report.unwrap();
        assert_eq!((report.rif.count(), left), (2, 0));
        assert_eq!(report.capacity_millirif, Some(3_500));
        let (report, left) = taken(capacity, &[ORCA, LOAD]);
        let report = report.unwrap();
        assert_eq!((report.rif.count(), left), (7, 0), "its own fields win");
    }

    #[test]
    fn unreadable_reports_are_removed_and_ignored() {
        let capacity = Carried::Capacity;
        let bad = [("x-slackwater-load", "many")];
        assert_eq!(taken(capacity, &bad), (None, 0));
        let orca = [("endpoint-load-metrics", "TEXT cpu_utilization=0.5")];
        assert_eq!(taken(capacity, &orca), (None, 0));
    }
}
