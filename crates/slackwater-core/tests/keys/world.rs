//! A policy with keys, its replicas, and what they have in flight.

use core::time::Duration;
use slackwater_core::health::{self, HealthSettings};
use slackwater_core::keys::{Identity, KeyHash, KeyHasher, KeySettings, keyed};
use slackwater_core::policy::{
    Decision, Event, Explanation, Outcome, Pick, PickReason, Policy, PolicySettings, Query,
    Settings, Ticket, policy_named,
};
use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64};
use std::collections::BTreeMap;

pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) struct World {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) now: Instant,
    pub(crate) draw: SplitMix64,
    pub(crate) ids: ReplicaIds,
    /// The replica of each name.
    pub(crate) replicas: BTreeMap<u32, ReplicaId>,
    /// What other clients have in flight at each replica.
    pub(crate) others: BTreeMap<ReplicaId, u32>,
    /// What this client has.
    pub(crate) own: BTreeMap<ReplicaId, u32>,
}

pub(crate) fn key(number: u32) -> KeyHash {
    KeyHasher::default().hash(&number.to_le_bytes())
}

/// A query about this key.
pub(crate) fn about(number: u32) -> Query<'static> {
    Query::first().with_key(key(number))
}

pub(crate) fn identity(name: u32) -> Identity {
    Identity::new(&name.to_le_bytes(), 0)
}

impl World {
    /// A world with replicas of these names, which join in this order.
    pub(crate) fn new(
        policy: &str,
        settings: KeySettings,
        names: impl IntoIterator<Item = u32>,
    ) -> Self {
        let entry = policy_named(policy).expect(policy);
        let off = HealthSettings::off().validate().unwrap();
        let inner = health::build(entry, &PolicySettings::default(), &off);
        Self::with(inner, settings, names)
    }

    /// Like [`Self::new`], with all of health.
    pub(crate) fn watched(policy: &str, names: impl IntoIterator<Item = u32>) -> Self {
        Self::watched_by(HealthSettings::default(), policy, names)
    }

    /// Like [`Self::new`], with this health.
    pub(crate) fn watched_by(
        health: HealthSettings,
        policy: &str,
        names: impl IntoIterator<Item = u32>,
    ) -> Self {
        let entry = policy_named(policy).expect(policy);
        let config = health.validate().expect("in range");
        let inner = health::build(entry, &PolicySettings::default(), &config);
        Self::with(inner, KeySettings::default(), names)
    }

    fn with(
        inner: Box<dyn Policy>,
        settings: KeySettings,
        names: impl IntoIterator<Item = u32>,
    ) -> Self {
        let config = settings.validate().expect("in range");
        let mut world = Self {
            policy: keyed(inner, &config),
            now: Instant::EPOCH + MS,
            draw: SplitMix64::new(11),
            ids: ReplicaIds::new(),
            replicas: BTreeMap::new(),
            others: BTreeMap::new(),
            own: BTreeMap::new(),
        };
        for name in names {
            world.join(name);
        }
        world
    }

    pub(crate) fn handle(&mut self, event: Event<'_>) {
        self.policy.handle(self.now, event, &mut self.draw);
    }

    pub(crate) fn join(&mut self, name: u32) -> ReplicaId {
        let replica = self.join_as(identity(name));
        self.replicas.insert(name, replica);
        replica
    }

    pub(crate) fn join_as(&mut self, identity: Identity) -> ReplicaId {
        let replica = self.ids.allocate().unwrap();
        self.policy
            .handle(self.now, Event::Added(replica), &mut NoDraw);
        self.policy
            .handle(self.now, Event::Identified(replica, identity), &mut NoDraw);
        replica
    }

    pub(crate) fn leave(&mut self, name: u32) {
        let replica = self.replicas.remove(&name).unwrap();
        self.handle(Event::Removed(replica));
        self.ids.release(replica);
    }

    pub(crate) fn available(&mut self, name: u32, available: bool) {
        self.handle(Event::Available(self.replicas[&name], available));
    }

    pub(crate) fn name(&self, replica: ReplicaId) -> u32 {
        let mut all = self.replicas.iter();
        *all.find(|(_, other)| **other == replica).expect("known").0
    }

    /// The requests in flight at a replica.
    pub(crate) fn rif(&self, replica: ReplicaId) -> u32 {
        let of = |all: &BTreeMap<_, _>| all.get(&replica).copied().unwrap_or(0);
        of(&self.others) + of(&self.own)
    }

    /// A report of exactly what a replica has in flight.
    pub(crate) fn report(&mut self, replica: ReplicaId) {
        let report = LoadReport::new(Rif::new(self.rif(replica)), Some(10 * MS));
        self.handle(Event::SiblingReport(replica, &report));
    }

    pub(crate) fn report_all(&mut self) {
        let replicas: Vec<_> = self.replicas.values().copied().collect();
        for replica in replicas {
            self.report(replica);
        }
    }

    /// Chooses a replica for the query. All replicas answer the probes of a round.
    pub(crate) fn try_pick(&mut self, query: Query<'_>) -> Option<Pick> {
        let mut explanation = Explanation::new();
        self.pick_explained(query, &mut explanation)
    }

    pub(crate) fn pick_explained(
        &mut self,
        query: Query<'_>,
        explanation: &mut Explanation,
    ) -> Option<Pick> {
        let (now, draw) = (self.now, &mut self.draw);
        let decision = self.policy.choose(now, query, draw, Some(explanation));
        let pick = match decision {
            Decision::Pick(pick) => Some(pick),
            Decision::NoReplica => None,
            Decision::Probe(mut round) => {
                for target in round.clone().targets() {
                    let report = LoadReport::new(Rif::new(self.rif(target)), Some(10 * MS));
                    round.handle_report(target, &report);
                }
                let round = Some(&round);
                let query = Query { round, ..query };
                let draw = &mut self.draw;
                self.policy.choose(now, query, draw, None).pick()
            }
        }?;
        *self.own.entry(pick.ticket.replica()).or_default() += 1;
        Some(pick)
    }

    pub(crate) fn pick(&mut self, query: Query<'_>) -> Pick {
        self.try_pick(query).expect("a replica may be chosen")
    }

    pub(crate) fn done(&mut self, ticket: Ticket) {
        self.end(ticket, Outcome::Success);
    }

    pub(crate) fn end(&mut self, ticket: Ticket, outcome: Outcome) {
        *self.own.get_mut(&ticket.replica()).unwrap() -= 1;
        self.policy.handle_query_done(self.now, ticket, outcome);
    }

    /// Where the query goes, and why, while its end is awaited.
    pub(crate) fn goes(&mut self, query: Query<'_>) -> (u32, PickReason) {
        let pick = self.pick(query);
        let (replica, reason) = (pick.ticket.replica(), pick.reason);
        self.done(pick.ticket);
        (self.name(replica), reason)
    }

    /// The names of a key's set in order, homes first, and how many are homes.
    pub(crate) fn set(&mut self, number: u32) -> (Vec<u32>, u8) {
        let mut explanation = Explanation::new();
        let pick = self.pick_explained(about(number), &mut explanation);
        self.done(pick.expect("a replica may be chosen").ticket);
        let choice = explanation.key().expect("it has a key");
        let names = choice.set().iter().map(|it| self.name(it.replica));
        (names.collect(), choice.homes)
    }
}
