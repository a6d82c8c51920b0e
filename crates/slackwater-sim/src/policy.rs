//! What chooses replicas: one of the policies that users run, a rule of another load balancer, or a
//! clairvoyant that no client could be.

pub use crate::peers::PeerRule;
pub use crate::peers::zones::ZoneRule;
use slackwater_core::LoadScale;
use slackwater_core::health::HealthConfig;
use slackwater_core::keys::KeyConfig;
use slackwater_core::named;
use slackwater_core::policy::{Carried, POLICIES, PolicyEntry, PolicySettings, policy_named};

/// A policy to play a scenario under.
#[derive(Clone, Debug)]
pub struct PolicyChoice {
    /// The name that results carry.
    pub name: String,
    /// The policy or clairvoyant.
    pub kind: PolicyKind,
}

/// A policy or a clairvoyant.
#[derive(Clone, Debug)]
pub enum PolicyKind {
    /// A policy of slackwater-core. Each client has its own.
    Shipped {
        /// The policy's entry.
        entry: &'static PolicyEntry,
        /// Its settings.
        settings: Box<PolicySettings>,
        /// Settings of health, which limits the replicas that may be chosen; `None`: health is not
        /// watched.
        health: Option<Box<HealthConfig>>,
        /// How queries with keys find their replica; `None`: keys are ignored.
        keys: Option<Box<Keyed>>,
    },
    /// A rule of another load balancer. Each client has its own.
    Peer(PeerRule),
    /// Our default policy, with the zone of each query chosen by another load balancer's rule. Each
    /// client has its own.
    Zoned(ZoneRule),
    /// One balancer for all clients that sees the current state of every replica.
    Clairvoyant(Clairvoyant),
}

/// How queries with keys find their replica.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// The settings around the policy.
    pub config: KeyConfig,
    /// The scale of the load that a replica reports to a synchronous probe if it has the probe's
    /// key in its cache; 1: probes carry no key. `[S3]`
    pub hint_scale: LoadScale,
}

named! {
    /// Rules of an omniscient balancer: bounds to compare policies with, not policies.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Clairvoyant by name {
        /// Central join-shortest-queue: the fewest requests in flight, ties at random.
        JoinShortestQueue = "jsq",
        /// The fewest requests in flight for its current true capacity.
        WeightedByCapacity = "jsq_weighted",
        /// The earliest finish of this query, with all remaining work and present capacities known.
        Greedy = "greedy",
    }
}

impl PolicyChoice {
    /// Returns the policy of that name that users can select, with its default settings; `None` if
    /// there is none.
    pub fn shipped(name: &str) -> Option<Self> {
        Self::with_settings(name, PolicySettings::default())
    }

    /// Returns the policy of that name that users can select, with these settings; `None` if there
    /// is none.
    pub fn with_settings(name: &str, settings: PolicySettings) -> Option<Self> {
        let entry = policy_named(name)?;
        Some(Self {
            name: entry.name.to_owned(),
            kind: PolicyKind::Shipped {
                entry,
                settings: Box::new(settings),
                health: None,
                keys: None,
            },
        })
    }

    /// Adds health, so that each client chooses only among the replicas that it sees as healthy. It
    /// does not change a clairvoyant, which sees the replicas themselves.
    #[must_use]
    pub fn guarded(mut self, config: HealthConfig) -> Self {
        if let PolicyKind::Shipped { health, .. } = &mut self.kind {
            *health = Some(Box::new(config));
        }
        self
    }

    /// Adds keys, so that each client sends queries with a key to the key's replicas. A replica
    /// that has the key in its cache reports `hint_scale` times its load to synchronous probes. It
    /// does not change a clairvoyant or a rule of another load balancer.
    #[must_use]
    pub fn keyed(mut self, config: KeyConfig, hint_scale: LoadScale) -> Self {
        if let PolicyKind::Shipped { keys, .. } = &mut self.kind {
            *keys = Some(Box::new(Keyed { config, hint_scale }));
        }
        self
    }

    /// Returns a rule of another load balancer.
    pub fn peer(rule: PeerRule) -> Self {
        Self {
            name: rule.name().to_owned(),
            kind: PolicyKind::Peer(rule),
        }
    }

    /// Returns our default policy with the zone chosen by this rule, where the scenario has
    /// [zones](crate::scenario::Zones). Without it, each policy is told which replicas are far.
    pub fn zoned(rule: ZoneRule) -> Self {
        Self {
            name: rule.name().to_owned(),
            kind: PolicyKind::Zoned(rule),
        }
    }

    /// Returns a balancer that sees everything.
    pub fn clairvoyant(clairvoyant: Clairvoyant) -> Self {
        Self {
            name: clairvoyant.name().to_owned(),
            kind: PolicyKind::Clairvoyant(clairvoyant),
        }
    }

    /// Returns the policy or clairvoyant of that name, with default settings; `None` if there is
    /// none in [`PolicyChoice::names`].
    pub fn named(name: &str) -> Option<Self> {
        let clairvoyant = Clairvoyant::ALL
            .into_iter()
            .find(|clairvoyant| clairvoyant.name() == name);
        clairvoyant
            .map(Self::clairvoyant)
            .or_else(|| Self::shipped(name))
    }

    /// Returns all names: the policies that users can select, then the clairvoyants.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let shipped = POLICIES.iter().map(|entry| entry.name);
        shipped.chain(Clairvoyant::ALL.into_iter().map(Clairvoyant::name))
    }

    /// Returns whether the policy uses capacities that replicas report.
    pub fn uses_capacity(&self) -> bool {
        matches!(&self.kind, PolicyKind::Shipped { entry, .. } if entry.carried == Carried::Capacity)
    }

    /// Returns the scale of the load that a replica reports to a synchronous probe whose key it has
    /// in its cache; 1 if probes carry no key.
    pub(crate) fn hint_scale(&self) -> LoadScale {
        match &self.kind {
            PolicyKind::Shipped {
                keys: Some(keys), ..
            } => keys.hint_scale,
            _ => LoadScale::ONE,
        }
    }

    /// Renames the policy in the results, such as `prequal q=0.9`.
    #[must_use]
    pub fn called(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_names_are_unique_and_resolvable() {
        let names: Vec<_> = PolicyChoice::names().collect();
        for (index, name) in names.iter().enumerate() {
            let choice = PolicyChoice::named(name).expect("it is listed");
            assert_eq!(choice.name, *name);
            assert!(!names[..index].contains(name), "{name} is listed twice");
        }
        assert!(names.contains(&"prequal") && names.contains(&"greedy"));
        assert!(PolicyChoice::named("no such policy").is_none());
        assert!(
            PolicyChoice::shipped("jsq").is_none(),
            "no client could be it"
        );
    }
}
