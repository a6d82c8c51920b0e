//! What is known of the process that is looked at: the fleet, its last tick, and the last minutes.
//! Pure.

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

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Model {
    fleet: Fleet,
    /// The last one that goes by this fleet; `None` before the first.
    tick: Option<Tick>,
    /// What the tick has more in a demo.
    demo: Option<DemoTick>,
    /// One for each service.
    trends: Vec<Trend>,
    /// How long the process had been up at the last tick: less than that, and it is another one,
    /// whatever its number. In a container they all have the same.
    uptime_ms: u64,
}

/// One replica now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row<'a> {
    /// Its place in the fleet.
    pub(super) index: usize,
    pub(super) name: &'a str,
    pub(super) address: &'a str,
    pub(super) tier: u8,
    pub(super) weight: u32,
    /// The name of its state; empty while nothing is known.
    pub(super) state: &'a str,
    /// The higher, the worse; 0: nothing is wrong with it.
    pub(super) state_rank: usize,
    /// Why it is in that state; empty where there is nothing to say.
    pub(super) why: &'a str,
    /// For how long, in ms; `None` since the process first saw it.
    pub(super) state_age_ms: Option<u64>,
    /// Replicas of its service report their load.
    pub(super) has_reports: bool,
    /// As it reported last.
    pub(super) rif: Option<u64>,
    pub(super) is_hot: Option<bool>,
    pub(super) latency_us: Option<u64>,
    pub(super) report_age_ms: Option<u64>,
    /// What it can carry, in thousandths of a request in flight, as it reported last.
    pub(super) capacity_millirif: Option<u64>,
    pub(super) cost_us: Option<u64>,
    pub(super) in_flight: u64,
    /// Requests/s that it was sent in the last seconds.
    pub(super) rate: f64,
    /// Of these, those that failed.
    pub(super) failing: f64,
    /// Its part of what the service sent, from 0 to 1.
    pub(super) load: f64,
    /// As seen from the process, over the last 10 s.
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    /// Of its usual part of the load that it may have, in thousandths.
    pub(super) share: Option<u64>,
    pub(super) trouble: Option<Trouble<'a>>,
}

/// Whether there is nothing wrong with a replica in the state of that name. One that this version
/// does not know is taken for trouble.
pub(super) fn is_well(state: &str) -> bool {
    use ReplicaState::{Available, Unprobed};
    state.is_empty() || matches!(ReplicaState::named(state), Some(Available | Unprobed))
}

impl Row<'_> {
    /// What its bar shows: what it reported, or what this process has there.
    pub(super) fn rif_or_own(&self) -> u64 {
        self.rif.unwrap_or(self.in_flight)
    }

    /// How much of what it can carry is in flight there: 1 is all. Both as it reported last.
    pub(super) fn full(&self) -> Option<f64> {
        let capacity = self.capacity_millirif.filter(|capacity| *capacity > 0)?;
        Some(self.rif? as f64 * 1e3 / capacity as f64)
    }

    /// Nothing is wrong with it.
    pub(super) fn is_well(&self) -> bool {
        is_well(self.state)
    }
}

/// What a demo does to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble<'a> {
    /// A slow episode.
    Slowed,
    /// A knob: killed, stalled.
    Fault(&'a str),
    /// A knob: so many % of its requests fail.
    Failing(u64),
    /// A knob: so many % of its machine are taken.
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
    /// Another fleet, or the first one.
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

    /// The next tick. One that goes by another fleet is left out: its columns mean nothing here.
    pub(super) fn take_tick(&mut self, tick: Tick) {
        if tick.revision != self.fleet.revision {
            return;
        }
        if tick.uptime_ms < self.uptime_ms {
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

    /// Forgets what each replica was sent: the fleet is another one, or ticks were left out.
    pub(super) fn forget_rates(&mut self) {
        self.trends.iter_mut().for_each(Trend::forget_replicas);
    }

    /// What the server has kept of a service.
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

    /// Who chooses in it.
    pub(super) fn policy(&self, service: usize) -> &str {
        let service = self.fleet.services.get(service);
        service.map_or("", |service| service.policy.as_str())
    }

    /// How the next pick of the service's first worker compares replicas, where it does.
    pub(super) fn compared(&self, service: usize) -> Option<(&Compared, &ComparisonFacts)> {
        let compared = self.service(service)?.compared.first()?;
        let mut known = self.fleet.comparisons.iter();
        let comparison = known.find(|it| it.name == compared.comparison)?;
        Some((compared, comparison))
    }

    pub(super) fn trend(&self, service: usize) -> Option<&Trend> {
        self.trends.get(service)
    }

    /// The RIF from which a report of the service is hot.
    pub(super) fn rif_limit(&self, service: usize) -> Option<u64> {
        Some(self.service(service)?.rif_limit?.median.into())
    }

    /// How many replicas a service has.
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

    /// One of them.
    pub(super) fn row(&self, service: usize, index: usize) -> Option<Row<'_>> {
        let of_all = (self.rate_of_all(service), self.has_reports(service));
        self.row_beside(service, index, of_all)
    }

    /// Requests/s that the service sends.
    fn rate_of_all(&self, service: usize) -> f64 {
        self.trends.get(service).map_or(0.0, Trend::rate_of_all)
    }

    /// One of them, of a service that sends so many requests/s and has reports or not.
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

    /// What is told of a service's policy.
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

    /// Whether any replica of a service says what it can carry.
    pub(super) fn tells_capacity(&self, service: usize) -> bool {
        let columns = self.service(service).map(|service| &service.replicas);
        columns.is_some_and(|it| it.capacity_millirif.iter().any(Option::is_some))
    }

    /// A state's name; one that the fleet does not tell is unknown.
    pub(super) fn state_name(&self, state: u8) -> &str {
        let name = self.fleet.states.get(usize::from(state));
        name.map_or("unknown", String::as_str)
    }

    /// What a demo does to both twins of this number.
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
    fn a_replica_is_told_by_its_columns() {
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
    fn a_tick_of_another_fleet_is_left_out() {
        let mut model = samples::serve();
        let mut fleet = model.fleet().clone();
        fleet.revision += 1;
        fleet.services[0].replicas.truncate(3);
        model.take_fleet(fleet);
        model.take_tick(samples::serve_tick());
        assert!(model.tick().is_none());
        // The replicas are there, and nothing is known of them.
        let rows = model.rows(0);
        assert_eq!(rows.len(), 3);
        assert_eq!((rows[0].state, rows[0].rif, rows[0].rate), ("", None, 0.0));
        // The service's last minutes stay.
        assert_eq!(model.trend(0).unwrap().points().len(), 1);
    }

    #[test]
    fn another_process_begins_anew() {
        let mut model = samples::serve();
        let mut fleet = model.fleet().clone();
        fleet.process += 1;
        model.take_fleet(fleet);
        assert_eq!(model.trend(0).unwrap().points().len(), 0);
    }

    #[test]
    fn a_process_of_the_same_number_that_is_up_for_less_begins_anew() {
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
        // A reconnect keeps what was heard before.
        assert_eq!(again(&mut model, up + 1_000), 2);
        assert_eq!(again(&mut model, 500), 1);
    }

    #[test]
    fn columns_that_are_too_short_or_strange_are_unknown() {
        let mut model = samples::serve();
        let mut tick = samples::serve_tick();
        tick.services[0].replicas.rif.truncate(2);
        tick.services[0].replicas.state = vec![99];
        model.take_tick(tick);
        let rows = model.rows(0);
        assert_eq!((rows[0].state, rows[1].state), ("unknown", ""));
        assert_eq!((rows[1].rif, rows[2].rif), (Some(1), None));
        // Without a report, the process's own count.
        assert_eq!(rows[2].rif_or_own(), rows[2].in_flight);
    }

    #[test]
    fn troubles_of_a_demo_are_named() {
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
