//! Rules of other load balancers that choose a zone first, as they are documented.
//!
//! No user can select them. Within the zone, all of them choose by our default policy, so that only
//! the choice of the zone differs.
//!
//! | rule | source |
//! |---|---|
//! | [`ZoneRule::OwnZone`] | Kubernetes: a Service's hints, `trafficDistribution: PreferSameZone` |
//! | [`ZoneRule::ByCounts`] | Envoy: `zone_aware_lb_config`, with its defaults |
//! | [`ZoneRule::ByUtilization`] | Envoy: `load_aware_locality`, with its defaults |

use crate::scenario::Zones;
use core::time::Duration;
use slackwater_core::policy::{
    Counters, DEFAULT_POLICY, Decision, Event, Explanation, Fleet, Outcome, Policy, PolicySettings,
    Probe, ProbeId, Query, Snapshot, Ticket,
};
use slackwater_core::{Draw, Instant, LoadReport, ReplicaId, named};

named! {
    /// How a client chooses a zone.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ZoneRule by name {
        /// It does not: all replicas are equally near.
        Ignored = "ignoring zones",
        /// Its own, as long as a replica is left there.
        OwnZone = "own zone",
        /// By the shares of clients and of replicas that each zone has. What the own zone has too
        /// few replicas for goes to the zones that have too many.
        ByCounts = "zone-aware",
        /// By the room that replicas report, smoothed, and updated once a second. The own zone
        /// alone, less 3 %, while its utilization is at most 0.1 above that of the others.
        ByUtilization = "load-aware locality",
    }
}

/// Fewest replicas for [`ZoneRule::ByCounts`]: `min_cluster_size`.
const COUNTED_MIN: usize = 6;
/// The time between two updates of weights: `weight_update_period`.
const UPDATE_PERIOD: Duration = Duration::from_secs(1);
/// The weight of the newest second, e^(-1/5) less than 1: `smoothing_time_constant` is 5 s.
const NEWEST_WEIGHT: f64 = 1.0 - 0.818_730_753_077_981_8;
/// `utilization_variance_threshold`.
const THRESHOLD: f64 = 0.1;
/// `remote_probe_fraction`.
const PROBE_SHARE: f64 = 0.03;

/// Returns the policy of a client with this rule.
pub(crate) fn build(rule: ZoneRule, zones: Option<&Zones>, client: usize) -> Box<dyn Policy> {
    let inner = (DEFAULT_POLICY.build)(&PolicySettings::default());
    let Some(zones) = zones.filter(|_| rule != ZoneRule::Ignored) else {
        return inner;
    };
    let count = zones.clients.iter().chain(&zones.replicas).max();
    let count = count.map_or(0, |last| last + 1);
    Box::new(ZonePeer {
        rule,
        inner,
        own: zones.clients.get(client).copied().unwrap_or_default(),
        clients: shares(count, zones.clients.iter().copied()),
        zones: zones.replicas.clone(),
        reports: vec![Reports::default(); zones.replicas.len()],
        utilization: vec![None; count],
        update_at: Instant::EPOCH,
        among: Vec::new(),
    })
}

/// Returns the share that each zone has of some members, given their zones.
fn shares(zones: usize, members: impl Iterator<Item = usize>) -> Vec<f64> {
    let mut counts = vec![0.0; zones];
    for zone in members {
        counts[zone] += 1.0;
    }
    let all: f64 = counts.iter().sum();
    if all > 0.0 {
        for count in &mut counts {
            *count /= all;
        }
    }
    counts
}

/// A replica's utilization by its reports since the last update.
#[derive(Clone, Copy, Debug, Default)]
struct Reports {
    sum: f64,
    count: u32,
}

/// The policy of one client.
#[derive(Debug)]
struct ZonePeer {
    rule: ZoneRule,
    inner: Box<dyn Policy>,
    /// This client's zone.
    own: usize,
    /// Each zone's share of the clients.
    clients: Vec<f64>,
    /// The zone of each replica, by the index of its id: none of these fleets has ids twice.
    zones: Vec<usize>,
    /// What each replica has reported, by the index of its id.
    reports: Vec<Reports>,
    /// The smoothed utilization of each zone that has reported.
    utilization: Vec<Option<f64>>,
    /// When the utilization is next updated.
    update_at: Instant,
    /// The replicas of the chosen zone: a buffer.
    among: Vec<ReplicaId>,
}

impl ZonePeer {
    fn zone_of(&self, replica: ReplicaId) -> usize {
        self.zones.get(replica.index()).copied().unwrap_or_default()
    }

    fn note(&mut self, replica: ReplicaId, report: &LoadReport) {
        let capacity = report.capacity_millirif.filter(|&capacity| capacity > 0);
        if let (Some(reports), Some(capacity)) = (self.reports.get_mut(replica.index()), capacity) {
            let in_use = f64::from(report.rif.count()) * 1e3 / f64::from(capacity);
            reports.sum += in_use.min(1.0);
            reports.count += 1;
        }
    }

    /// Updates the utilization of zones.
    fn update(&mut self) {
        for zone in 0..self.utilization.len() {
            let members = self.zones.iter().zip(&self.reports);
            let heard = members.filter(|(other, reports)| **other == zone && reports.count > 0);
            let (mut sum, mut count) = (0.0, 0.0);
            for (_, reports) in heard {
                sum += reports.sum / f64::from(reports.count);
                count += 1.0;
            }
            if count > 0.0 {
                let newest: f64 = sum / count;
                let before = self.utilization[zone].unwrap_or(newest);
                self.utilization[zone] = Some(before + (newest - before) * NEWEST_WEIGHT);
            }
        }
        self.reports.fill(Reports::default());
    }

    /// Returns the weight of each zone, given the share that it has of the replicas.
    fn weights(&self, hosts: &[f64], replicas: usize) -> Vec<f64> {
        let mut own = vec![0.0; hosts.len()];
        own[self.own] = 1.0;
        if hosts[self.own] <= 0.0 {
            return hosts.to_vec();
        }
        match self.rule {
            ZoneRule::Ignored => hosts.to_vec(),
            ZoneRule::OwnZone => own,
            ZoneRule::ByCounts if replicas < COUNTED_MIN => hosts.to_vec(),
            ZoneRule::ByCounts => {
                let local = (hosts[self.own] / self.clients[self.own]).min(1.0);
                let rest = |zone: usize| (hosts[zone] - self.clients[zone]).max(0.0);
                let rests: f64 = (0..hosts.len()).map(rest).sum();
                if local >= 1.0 || rests <= 0.0 {
                    return own;
                }
                let weight = |zone| (1.0 - local) * rest(zone) / rests;
                let mut weights: Vec<f64> = (0..hosts.len()).map(weight).collect();
                weights[self.own] = local;
                weights
            }
            ZoneRule::ByUtilization => {
                let used = |zone: usize| self.utilization[zone].unwrap_or_default();
                let others = (0..hosts.len()).filter(|&zone| zone != self.own);
                let remote: f64 = others.clone().map(|zone| hosts[zone]).sum();
                if remote <= 0.0 {
                    return own;
                }
                let mean = others.map(|zone| hosts[zone] * used(zone)).sum::<f64>() / remote;
                let room = |zone: usize| hosts[zone] * (1.0 - used(zone));
                let rooms: f64 = (0..hosts.len()).map(room).sum();
                let is_even = used(self.own) <= mean + THRESHOLD;
                let local = if is_even || rooms <= 0.0 {
                    1.0
                } else {
                    room(self.own) / rooms
                };
                if local > 1.0 - PROBE_SHARE {
                    let probed = |host: &f64| host * PROBE_SHARE / remote;
                    let mut weights: Vec<f64> = hosts.iter().map(probed).collect();
                    weights[self.own] = 1.0 - PROBE_SHARE;
                    return weights;
                }
                (0..hosts.len()).map(room).collect()
            }
        }
    }

    /// Fills in the replicas of the zone that the query goes to.
    fn choose_zone(&mut self, query: Query<'_>, draw: &mut dyn Draw) {
        let fleet = self.inner.fleet().available();
        let allowed = || {
            fleet
                .iter()
                .filter(|replica| !query.avoid.contains(replica))
        };
        let zones = allowed().map(|&replica| self.zone_of(replica));
        let hosts = shares(self.clients.len(), zones);
        let weights = self.weights(&hosts, fleet.len());
        let all: f64 = weights.iter().sum();
        let mut left = draw.draw() as f64 / 2.0_f64.powi(64) * all;
        let mut chosen = self.own;
        for (zone, weight) in weights.iter().enumerate() {
            if *weight > 0.0 {
                chosen = zone;
                if left < *weight {
                    break;
                }
                left -= weight;
            }
        }
        let replicas = allowed().filter(|replica| self.zone_of(**replica) == chosen);
        let among = replicas.take(Query::AMONG_MAX).copied().collect();
        self.among = among;
    }
}

impl Policy for ZonePeer {
    fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, draw: &mut dyn Draw) {
        match event {
            Event::Report(probe, report) => {
                if let Some(replica) = self.inner.probe_target(probe) {
                    self.note(replica, report);
                }
            }
            Event::CarriedReport(replica, report) => self.note(replica, report),
            _ => {}
        }
        self.inner.handle(now, event, draw);
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Decision {
        if now >= self.update_at {
            self.update();
            self.update_at = now + UPDATE_PERIOD;
        }
        self.choose_zone(query, draw);
        let query = query.among(&self.among);
        self.inner.choose(now, query, draw, explanation)
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        self.inner.handle_head(now, ticket, outcome);
    }

    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        self.inner.handle_query_done(now, ticket, outcome);
    }

    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        self.inner.poll_probe(now, draw)
    }

    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId> {
        self.inner.probe_target(probe)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn wants_trial(&self) -> bool {
        self.inner.wants_trial()
    }

    fn spares_some(&mut self, now: Instant) -> bool {
        self.inner.spares_some(now)
    }

    fn fleet(&self) -> &Fleet {
        self.inner.fleet()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        self.inner.snapshot(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client of zone 0, with the clients of zones, where all zones have ten replicas.
    fn peer(rule: ZoneRule, clients: &[usize], used: [f64; 3]) -> ZonePeer {
        let clients = clients.iter().enumerate();
        let members = clients.flat_map(|(zone, &count)| core::iter::repeat_n(zone, count));
        ZonePeer {
            rule,
            inner: (DEFAULT_POLICY.build)(&PolicySettings::default()),
            own: 0,
            clients: shares(3, members),
            zones: Vec::new(),
            reports: Vec::new(),
            utilization: used.map(Some).to_vec(),
            update_at: Instant::EPOCH,
            among: Vec::new(),
        }
    }

    #[track_caller]
    fn weighs(peer: &ZonePeer, expected: [f64; 3]) {
        let weights = peer.weights(&[1.0 / 3.0; 3], 30);
        let sum: f64 = weights.iter().sum();
        for (weight, expected) in weights.iter().zip(expected) {
            assert!((weight / sum - expected).abs() < 0.005, "{weights:?}");
        }
    }

    #[test]
    fn counts_decide_whatever_the_load() {
        weighs(
            &peer(ZoneRule::ByCounts, &[2, 2, 2], [0.9, 0.1, 0.1]),
            [1.0, 0.0, 0.0],
        );
        // Two thirds of the clients, and a third of the replicas: half stays.
        weighs(
            &peer(ZoneRule::ByCounts, &[4, 1, 1], [0.9, 0.1, 0.1]),
            [0.5, 0.25, 0.25],
        );
        let few = peer(ZoneRule::ByCounts, &[2, 2, 2], [0.0; 3]);
        assert_eq!(few.weights(&[0.4, 0.4, 0.2], 5), [0.4, 0.4, 0.2]);
    }

    /// The worked example of Envoy's documentation.
    #[test]
    fn utilization_decides_above_the_threshold() {
        let clients = [1, 1, 1];
        weighs(
            &peer(ZoneRule::ByUtilization, &clients, [0.7, 0.3, 0.4]),
            [0.1875, 0.4375, 0.375],
        );
        weighs(
            &peer(ZoneRule::ByUtilization, &clients, [0.44, 0.3, 0.4]),
            [0.97, 0.015, 0.015],
        );
    }

    #[test]
    fn lost_zone_is_ignored() {
        for rule in ZoneRule::ALL {
            let peer = peer(rule, &[1, 1, 1], [0.5; 3]);
            assert_eq!(peer.weights(&[0.0, 0.5, 0.5], 20), [0.0, 0.5, 0.5]);
        }
    }
}
