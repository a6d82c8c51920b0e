//! The model of the observed process: the fleet, its last tick, and the last minutes. It is pure.

use super::message::{Columns, Compared, DemoTick, Fleet, History, ServiceTick, Tick};
use super::trend::Trend;
use core::fmt;
use core::time::Duration;
use serde::Deserialize;
use serde_json::Value;
use slackwater_core::policy::Reports;
use slackwater_telemetry::comparison::ComparisonFacts;
use slackwater_telemetry::policy::PolicyFacts;
use slackwater_telemetry::problems::Problem;
use slackwater_telemetry::replica_state::ReplicaState;
use std::time::{SystemTime, UNIX_EPOCH};

/// All that is known of the process.
#[derive(Debug, Default)]
pub(super) struct Model {
    fleet: Fleet,
    /// The last tick of this fleet; `None` before the first.
    tick: Option<Tick>,
    /// The demo's part of the tick.
    demo: Option<DemoTick>,
    /// The last minutes of each service.
    trends: Vec<Trend>,
    /// Uptime of the process at the last tick. A lower one belongs to another process, whatever its
    /// number: in containers all processes have the same.
    uptime_ms: u64,
}

/// One replica now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row<'a> {
    /// Index in the fleet.
    pub(super) index: usize,
    pub(super) name: &'a str,
    pub(super) address: &'a str,
    pub(super) tier: u8,
    pub(super) weight: u32,
    /// The name of its state; empty while it is unknown.
    pub(super) state: &'a str,
    /// Severity of the state, 0 if nothing is wrong.
    pub(super) state_rank: usize,
    /// Why it is in that state; empty if there is nothing to report.
    pub(super) why: &'a str,
    /// For how long, in ms; `None` since the process first saw it.
    pub(super) state_age_ms: Option<u64>,
    /// Replicas of its service report their load.
    pub(super) has_reports: bool,
    /// Requests in flight, as reported last.
    pub(super) rif: Option<u64>,
    pub(super) is_hot: Option<bool>,
    pub(super) latency_us: Option<u64>,
    pub(super) report_age_ms: Option<u64>,
    /// Its capacity, in thousandths of a request in flight, as reported last.
    pub(super) capacity_millirif: Option<u64>,
    pub(super) cost_us: Option<u64>,
    pub(super) in_flight: u64,
    /// Requests/s that were sent to it in the last seconds.
    pub(super) rate: f64,
    /// Requests/s of these that failed.
    pub(super) failing: f64,
    /// Its share of the service's requests, from 0 to 1.
    pub(super) load: f64,
    /// Median latency as measured by the process, over the last 10 s.
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    /// The share of its usual load that it may have, in thousandths.
    pub(super) share: Option<u64>,
    pub(super) trouble: Option<Trouble<'a>>,
}

/// Returns whether nothing is wrong with a replica in the state of that name. A state that this
/// version does not know counts as a problem.
pub(super) fn is_well(state: &str) -> bool {
    use ReplicaState::{Available, Unprobed};
    state.is_empty() || matches!(ReplicaState::named(state), Some(Available | Unprobed))
}

impl Row<'_> {
    /// The value of its bar: the RIF that it reported, or the requests that this process has there.
    pub(super) fn rif_or_own(&self) -> u64 {
        self.rif.unwrap_or(self.in_flight)
    }

    /// Utilization: requests in flight divided by capacity, both as reported last; 1 is full.
    pub(super) fn full(&self) -> Option<f64> {
        let capacity = self.capacity_millirif.filter(|capacity| *capacity > 0)?;
        Some(self.rif? as f64 * 1e3 / capacity as f64)
    }

    /// Returns whether nothing is wrong with the replica.
    pub(super) fn is_well(&self) -> bool {
        is_well(self.state)
    }
}

/// The fault that a demo gives a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble<'a> {
    /// A slow episode.
    Slowed,
    /// A fault set by a knob: killed, stalled.
    Fault(&'a str),
    /// Set by a knob: this percentage of its requests fails.
    Failing(u64),
    /// Set by a knob: this percentage of its machine is taken.
    Taken(u64),
}

impl fmt::Display for Trouble<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slowed => f.write_str("slowed"),
            Self::Fault(name) => f.write_str(name),
            Self::Failing(percent) => write!(f, "failing {percent}%"),
            Self::Taken(percent) => write!(f, "{percent}% taken"),
        }
    }
}

impl Model {
    /// Takes another fleet, or the first one.
    pub(super) fn take_fleet(&mut self, fleet: Fleet) {
        let is_same_process = fleet.process == self.fleet.process;
        let names = |fleet: &Fleet| -> Vec<String> {
            let names = fleet.services.iter().map(|service| service.name.clone());
            names.collect()
        };
        if !is_same_process || names(&fleet) != names(&self.fleet) {
            self.trends.clear();
        }
        self.forget_rates();
        self.trends
            .resize_with(fleet.services.len(), Trend::default);
        self.fleet = fleet;
        self.tick = None;
        self.demo = None;
    }

    /// Takes the next tick. A tick of another fleet is ignored, because its columns would not fit.
    pub(super) fn take_tick(&mut self, tick: Tick) {
        if tick.revision != self.fleet.revision {
            return;
        }
        // After its clock was set back, the times of earlier points mean nothing.
        let is_set_back = (self.tick.as_ref()).is_some_and(|last| tick.at_ms < last.at_ms);
        if tick.uptime_ms < self.uptime_ms || is_set_back {
            self.trends.fill_with(Trend::default);
        }
        self.uptime_ms = tick.uptime_ms;
        for (trend, service) in self.trends.iter_mut().zip(&tick.services) {
            trend.take(&tick, service);
        }
        let demo = tick.demo.as_ref();
        self.demo = demo.and_then(|demo| DemoTick::deserialize(demo).ok());
        self.tick = Some(tick);
    }

    /// Clears the request counts of replicas: the fleet has changed, or ticks were skipped.
    pub(super) fn forget_rates(&mut self) {
        self.trends.iter_mut().for_each(Trend::forget_replicas);
    }

    /// Takes the history that the server has kept of a service.
    pub(super) fn take_history(&mut self, service: usize, history: &History) {
        if let Some(trend) = self.trends.get_mut(service) {
            trend.take_history(history);
        }
    }

    pub(super) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    pub(super) fn tick(&self) -> Option<&Tick> {
        self.tick.as_ref()
    }

    /// What is wrong, the worst first, and when that was so. In a demo troubles are made on
    /// purpose.
    pub(super) fn problems(&self) -> (&[Problem], SystemTime) {
        let tick = self.tick.as_ref().filter(|_| self.fleet.demo.is_none());
        let at = tick.map(|tick| Duration::from_millis(tick.at_ms));
        let at = at.and_then(|at| UNIX_EPOCH.checked_add(at));
        let problems = tick.map_or(&[][..], |tick| &tick.problems);
        (problems, at.unwrap_or(UNIX_EPOCH))
    }

    pub(super) fn demo(&self) -> Option<&DemoTick> {
        self.demo.as_ref()
    }

    /// A service's part of the last tick.
    pub(super) fn service(&self, service: usize) -> Option<&ServiceTick> {
        self.tick.as_ref()?.services.get(service)
    }

    pub(super) fn service_name(&self, service: usize) -> &str {
        let service = self.fleet.services.get(service);
        service.map_or("", |service| service.name.as_str())
    }

    /// The name of its policy.
    pub(super) fn policy(&self, service: usize) -> &str {
        let service = self.fleet.services.get(service);
        service.map_or("", |service| service.policy.as_str())
    }

    /// How the next pick of the service's first worker compares replicas, if it does.
    pub(super) fn compared(&self, service: usize) -> Option<(&Compared, &ComparisonFacts)> {
        let compared = self.service(service)?.compared.first()?;
        let mut known = self.fleet.comparisons.iter();
        let comparison = known.find(|it| it.name == compared.comparison)?;
        Some((compared, comparison))
    }

    pub(super) fn trend(&self, service: usize) -> Option<&Trend> {
        self.trends.get(service)
    }

    /// The RIF limit of the service, from which a report is hot.
    pub(super) fn rif_limit(&self, service: usize) -> Option<u64> {
        Some(self.service(service)?.rif_limit?.median.into())
    }

    /// Number of replicas of a service.
    pub(super) fn replica_count(&self, service: usize) -> usize {
        let service = self.fleet.services.get(service);
        service.map_or(0, |service| service.replicas.len())
    }

    /// The replicas of a service, in the order of the fleet.
    pub(super) fn rows(&self, service: usize) -> Vec<Row<'_>> {
        let of_all = (self.rate_of_all(service), self.has_reports(service));
        (0..self.replica_count(service))
            .filter_map(|index| self.row_beside(service, index, of_all))
            .collect()
    }

    /// The row of one replica.
    pub(super) fn row(&self, service: usize, index: usize) -> Option<Row<'_>> {
        let of_all = (self.rate_of_all(service), self.has_reports(service));
        self.row_beside(service, index, of_all)
    }

    /// Requests/s of the service.
    fn rate_of_all(&self, service: usize) -> f64 {
        self.trends.get(service).map_or(0.0, Trend::rate_of_all)
    }

    /// One row of a service, given its requests per second and whether its replicas report.
    fn row_beside(
        &self,
        service: usize,
        index: usize,
        (rate_of_all, has_reports): (f64, bool),
    ) -> Option<Row<'_>> {
        let replica = self.fleet.services.get(service)?.replicas.get(index)?;
        let columns = self.service(service).map(|service| &service.replicas);
        let no_columns = Columns::default();
        let columns = columns.unwrap_or(&no_columns);
        let state = columns.state.get(index).copied();
        let standings = self.service(service).map(|service| &service.standings);
        let now_ms = self.tick.as_ref().map(|tick| tick.at_ms);
        let standing = standings.and_then(|all| all.iter().find(|it| it.replica == index));
        let state_name = state.map_or("", |state| self.state_name(state));
        let trend = self.trends.get(service);
        let (rate, failing) = trend.map_or((0.0, 0.0), |trend| trend.rates(index));
        Some(Row {
            index,
            name: &replica.name,
            address: &replica.address,
            tier: replica.tier,
            weight: replica.weight,
            state: state_name,
            state_rank: state.map_or(0, usize::from),
            why: standing.and_then(|it| it.why.as_deref()).unwrap_or(""),
            state_age_ms: standing.and_then(|it| Some(now_ms?.saturating_sub(it.since_ms?))),
            has_reports,
            rif: value(&columns.rif, index),
            is_hot: value(&columns.hot, index).map(|hot| hot != 0),
            latency_us: value(&columns.latency_us, index),
            report_age_ms: value(&columns.report_age_ms, index),
            capacity_millirif: value(&columns.capacity_millirif, index),
            cost_us: value(&columns.cost_us, index),
            in_flight: columns.in_flight.get(index).copied().unwrap_or(0),
            rate,
            failing,
            load: if rate_of_all > 0.0 {
                rate / rate_of_all
            } else {
                0.0
            },
            p50_us: value(&columns.p50_us, index),
            p99_us: value(&columns.p99_us, index),
            share: value(&columns.share, index),
            trouble: self.trouble(index),
        })
    }

    /// Description of a service's policy.
    pub(super) fn policy_facts(&self, service: usize) -> Option<&PolicyFacts> {
        let name = self.policy(service);
        let mut policies = self.fleet.policies.iter();
        policies.find(|policy| policy.name == name)
    }

    /// Whether replicas of a service report their load: by its policy, or since one has done so.
    pub(super) fn has_reports(&self, service: usize) -> bool {
        let policy = self.policy_facts(service);
        let columns = self.service(service).map(|service| &service.replicas);
        policy.is_some_and(|policy| policy.reports != Reports::None.as_str())
            || columns.is_some_and(|it| it.rif.iter().any(Option::is_some))
    }

    /// Returns whether any replica of a service reports its capacity.
    pub(super) fn tells_capacity(&self, service: usize) -> bool {
        let columns = self.service(service).map(|service| &service.replicas);
        columns.is_some_and(|it| it.capacity_millirif.iter().any(Option::is_some))
    }

    /// A state's name; empty if the fleet does not name it.
    pub(super) fn state_name(&self, state: u8) -> &str {
        let name = self.fleet.states.get(usize::from(state));
        name.map_or("unknown", String::as_str)
    }

    /// The fault that a demo gives the replicas of this index, on both sides.
    fn trouble(&self, index: usize) -> Option<Trouble<'_>> {
        let demo = self.demo()?;
        let percent = |column: &[u64]| column.get(index).copied().filter(|percent| *percent > 0);
        let fault = demo.replicas.fault.get(index).copied().unwrap_or(0);
        if fault > 0 {
            let faults = self.fleet.demo.as_ref().map(|demo| &demo["faults"][fault]);
            let name = faults.and_then(Value::as_str).unwrap_or("fault");
            return Some(match (name, percent(&demo.replicas.failing_percent)) {
                ("failing", Some(percent)) => Trouble::Failing(percent),
                _ => Trouble::Fault(name),
            });
        }
        if let Some(percent) = percent(&demo.replicas.taken_percent) {
            return Some(Trouble::Taken(percent));
        }
        (demo.slowed == Some(index)).then_some(Trouble::Slowed)
    }
}

/// A replica's value in a column, if it has one there.
fn value<N: Copy + Into<u64>>(column: &[Option<N>], index: usize) -> Option<u64> {
    column.get(index)?.map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_is_made_from_the_columns() {
        let model = samples::serve();
        let row = model.row(0, 4).unwrap();
        assert_eq!((row.name, row.state), ("10.0.0.5:8080", "available"));
        assert_eq!((row.rif, row.is_hot), (Some(9), Some(true)));
        assert_eq!(
            (row.latency_us, row.report_age_ms),
            (Some(210_000), Some(37))
        );
        assert_eq!((row.in_flight, row.p99_us), (9, Some(882_000)));
        assert_eq!((row.rate, row.failing), (1.0, 0.0));
        assert!((row.load - 1.0 / 692.0).abs() < 1e-9, "{}", row.load);
        assert!(row.is_well());
        let ejected = model.row(0, 5).unwrap();
        assert_eq!((ejected.state, ejected.state_rank), ("ejected", 6));
        assert_eq!(ejected.why, "too many failures");
        assert_eq!(ejected.state_age_ms, Some(12_000));
        assert_eq!((ejected.share, ejected.failing), (Some(0), 2.0));
        assert!(!ejected.is_well());
        assert_eq!(model.rows(0).len(), 20);
        assert_eq!(model.rif_limit(0), Some(5));
        assert!(model.row(0, 20).is_none());
        assert!(model.row(1, 0).is_none());
    }

    #[test]
    fn clock_step_back_restarts_the_trend() {
        let mut model = samples::serve();
        let tick = samples::serve_tick();
        let earlier = Tick {
            at_ms: tick.at_ms - 60_000,
            ..tick.clone()
        };
        model.take_tick(tick);
        model.take_tick(earlier.clone());
        let points = model.trend(0).expect("there is one").points();
        let times: Vec<_> = points.map(|point| point.at_ms).collect();
        assert_eq!(times, [earlier.at_ms]);
    }

    #[test]
    fn a_tick_of_another_fleet_is_ignored() {
        let mut model = samples::serve();
        let mut fleet = model.fleet().clone();
        fleet.revision += 1;
        fleet.services[0].replicas.truncate(3);
        model.take_fleet(fleet);
        model.take_tick(samples::serve_tick());
        assert!(model.tick().is_none());
        // The replicas are known, but not their state.
        let rows = model.rows(0);
        assert_eq!(rows.len(), 3);
        assert_eq!((rows[0].state, rows[0].rif, rows[0].rate), ("", None, 0.0));
        // The service's last minutes are kept.
        assert_eq!(model.trend(0).unwrap().points().len(), 1);
    }

    #[test]
    fn another_process_starts_an_empty_history() {
        let mut model = samples::serve();
        let mut fleet = model.fleet().clone();
        fleet.process += 1;
        model.take_fleet(fleet);
        assert_eq!(model.trend(0).unwrap().points().len(), 0);
    }

    #[test]
    fn restarted_process_with_the_same_id_starts_an_empty_history() {
        let mut model = samples::serve();
        let again = |model: &mut Model, uptime_ms: u64| {
            let mut tick = samples::serve_tick();
            tick.at_ms += uptime_ms;
            tick.uptime_ms = uptime_ms;
            model.take_fleet(samples::serve_fleet());
            model.take_tick(tick);
            model.trend(0).unwrap().points().len()
        };
        let up = samples::serve_tick().uptime_ms;
        // A reconnect keeps the earlier points.
        assert_eq!(again(&mut model, up + 1_000), 2);
        assert_eq!(again(&mut model, 500), 1);
    }

    #[test]
    fn short_columns_and_invalid_values_are_unknown() {
        let mut model = samples::serve();
        let mut tick = samples::serve_tick();
        tick.services[0].replicas.rif.truncate(2);
        tick.services[0].replicas.state = vec![99];
        model.take_tick(tick);
        let rows = model.rows(0);
        assert_eq!((rows[0].state, rows[1].state), ("unknown", ""));
        assert_eq!((rows[1].rif, rows[2].rif), (Some(1), None));
        // Without a report, the process's own count is used.
        assert_eq!(rows[2].rif_or_own(), rows[2].in_flight);
    }

    #[test]
    fn faults_of_a_demo_are_named() {
        let mut model = samples::demo();
        let mut tick = samples::demo_tick();
        let demo = tick.demo.as_mut().unwrap();
        demo["slowed"] = json!(1);
        demo["replicas"]["fault"] = json!([0, 0, 1, 3, 3, 2, 9]);
        demo["replicas"]["failing_percent"] = json!([0, 0, 0, 50, 0, 0, 0]);
        demo["replicas"]["taken_percent"] = json!([80, 0, 80]);
        model.take_tick(tick);
        let troubles: Vec<_> = model.rows(1).iter().map(|row| row.trouble).collect();
        let expected = [
            Some(Trouble::Taken(80)),
            Some(Trouble::Slowed),
            Some(Trouble::Fault("killed")),
            Some(Trouble::Failing(50)),
            Some(Trouble::Fault("failing")),
            Some(Trouble::Fault("stalled")),
            Some(Trouble::Fault("fault")),
            None,
        ];
        assert_eq!(troubles[..8], expected);
    }
}
