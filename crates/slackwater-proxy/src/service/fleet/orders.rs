//! The operator's orders for single replicas: no new requests, or another weight than their fleet
//! sets.
//!
//! A service's orders are one value. All of its workers apply it at once, and it outlives its
//! fleets: a fleet lists the replicas, and orders change how they are used. An order is for a
//! replica of this name at this address. A replica that leaves the fleet and returns within
//! `AWAY_MAX` keeps its orders. A later one counts as a different replica, so that a reused address
//! does not start without requests.

use core::net::SocketAddr;
use core::time::Duration;
use slackwater_config::ReplicaConfig;
use slackwater_discovery::Fleet;
use std::collections::BTreeMap;
use std::time::SystemTime;
use tokio::time::Instant;

/// Orders for a replica that has been away from its fleet for longer are removed.
pub(super) const AWAY_MAX: Duration = Duration::from_mins(10);

/// The order for one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The replica's name in the fleet.
    pub name: String,
    /// Drains the replica: it gets no new requests, its current ones run to their end, and it is
    /// still probed.
    pub is_drained: bool,
    /// Weight in place of the fleet's, from 0 to 65,535; `None` for the fleet's.
    pub weight: Option<u16>,
    /// When the order was last changed.
    pub since: SystemTime,
}

impl Order {
    /// Whether the order changes nothing.
    fn is_empty(&self) -> bool {
        !self.is_drained && self.weight.is_none()
    }
}

/// The orders for a service's replicas, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders(BTreeMap<SocketAddr, Order>);

impl Orders {
    /// The order for a replica, if there is one.
    pub fn of(&self, replica: &ReplicaConfig) -> Option<&Order> {
        let order = self.0.get(&replica.address);
        order.filter(|order| order.name == replica.name)
    }

    /// Whether a replica is drained.
    pub fn is_drained(&self, replica: &ReplicaConfig) -> bool {
        self.of(replica).is_some_and(|order| order.is_drained)
    }

    /// The effective weight of a replica.
    pub fn weight(&self, replica: &ReplicaConfig) -> u32 {
        let ordered = self.of(replica).and_then(|order| order.weight);
        ordered.map_or(replica.weight, u32::from)
    }

    /// The fleet's replicas with their effective weights.
    pub(crate) fn weighted(&self, fleet: &Fleet) -> Vec<ReplicaConfig> {
        let replicas = fleet.replicas().iter();
        let weighted = replicas.map(|replica| ReplicaConfig {
            weight: self.weight(replica),
            ..replica.clone()
        });
        weighted.collect()
    }

    /// Returns the orders with a change for `replica`. `None` leaves a setting as it was.
    #[must_use]
    pub fn with(
        &self,
        replica: &ReplicaConfig,
        drain: Option<bool>,
        weight: Option<Option<u16>>,
        now: SystemTime,
    ) -> Self {
        let before = self.of(replica);
        let order = Order {
            name: replica.name.clone(),
            is_drained: drain.unwrap_or(before.is_some_and(|order| order.is_drained)),
            weight: weight.unwrap_or(before.and_then(|order| order.weight)),
            since: now,
        };
        let is_same =
            |before: &Order| (before.is_drained, before.weight) == (order.is_drained, order.weight);
        let mut orders = self.clone();
        if order.is_empty() {
            orders.0.remove(&replica.address);
        } else if !before.is_some_and(is_same) {
            orders.0.insert(replica.address, order);
        }
        orders
    }

    /// Restores an order that was taken over from another process.
    pub fn restore(&mut self, address: SocketAddr, order: Order) {
        self.0.insert(address, order);
    }

    /// All orders, by address.
    pub fn iter(&self) -> impl Iterator<Item = (&SocketAddr, &Order)> {
        self.0.iter()
    }

    /// How many replicas have an order.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no replica has an order.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Since when replicas with orders have been away from a service's fleet.
#[derive(Debug, Default)]
pub struct Absences(BTreeMap<SocketAddr, Instant>);

impl Absences {
    /// Returns the remaining orders, and the names of the replicas whose orders are removed; `None`
    /// if all remain.
    pub fn look(
        &mut self,
        orders: &Orders,
        fleet: &Fleet,
        now: Instant,
    ) -> Option<(Orders, Vec<String>)> {
        let here: BTreeMap<_, _> = (fleet.replicas().iter())
            .map(|replica| (replica.address, replica.name.as_str()))
            .collect();
        let is_here = |(address, order): &(&SocketAddr, &Order)| {
            here.get(*address) == Some(&order.name.as_str())
        };
        let away: BTreeMap<_, _> = (orders.iter())
            .filter(|order| !is_here(order))
            .map(|(address, _)| (*address, *self.0.get(address).unwrap_or(&now)))
            .collect();
        self.0 = away;
        let is_over = |address: &SocketAddr| {
            (self.0.get(address)).is_some_and(|since| now.duration_since(*since) > AWAY_MAX)
        };
        let over: Vec<_> = (orders.iter())
            .filter(|(address, _)| is_over(address))
            .map(|(address, order)| (*address, order.name.clone()))
            .collect();
        if over.is_empty() {
            return None;
        }
        let mut staying = orders.clone();
        for (address, _) in &over {
            staying.0.remove(address);
            self.0.remove(address);
        }
        Some((staying, over.into_iter().map(|(_, name)| name).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_discovery::testing::{fleet, replica};

    const AT: SystemTime = SystemTime::UNIX_EPOCH;

    #[test]
    fn an_order_changes_only_its_own_settings() {
        let none = Orders::default();
        let drained = none.with(&replica(1), Some(true), None, AT);
        assert!(drained.is_drained(&replica(1)) && !drained.is_drained(&replica(2)));
        assert_eq!(drained.weight(&replica(1)), replica(1).weight);
        let both = drained.with(&replica(1), None, Some(Some(7)), AT);
        assert!(both.is_drained(&replica(1)), "as it was");
        let weights: Vec<_> = (both.weighted(&fleet(&[1, 2])).iter())
            .map(|replica| replica.weight)
            .collect();
        assert_eq!(weights, [7, 1]);
        assert_eq!(both.with(&replica(1), Some(false), Some(None), AT), none);
        let renamed = ReplicaConfig {
            name: "another".to_owned(),
            ..replica(1)
        };
        assert_eq!(both.of(&renamed), None, "it is another one");
    }

    #[test]
    fn an_unchanged_order_keeps_its_time() {
        let later = AT + Duration::from_secs(1);
        let drained = Orders::default().with(&replica(1), Some(true), None, AT);
        let again = drained.with(&replica(1), Some(true), None, later);
        assert_eq!(again, drained);
        let other = drained.with(&replica(1), None, Some(Some(0)), later);
        assert_eq!(other.of(&replica(1)).map(|order| order.since), Some(later));
    }

    #[test]
    fn orders_are_kept_while_a_replica_is_briefly_absent() {
        let orders = Orders::default()
            .with(&replica(1), Some(true), None, AT)
            .with(&replica(2), Some(true), None, AT);
        let (mut absences, start) = (Absences::default(), Instant::now());
        let mut look = |here: &[u8], after: Duration| {
            let gone = absences.look(&orders, &fleet(here), start + after);
            gone.map(|(staying, gone)| (staying.len(), gone))
        };
        assert_eq!(look(&[2], Duration::ZERO), None);
        assert_eq!(look(&[2], AWAY_MAX), None, "not for longer yet");
        assert_eq!(look(&[1, 2], AWAY_MAX), None, "it is back");
        assert_eq!(look(&[2], AWAY_MAX), None, "and away again");
        let (name, too_long) = (replica(1).name, AWAY_MAX * 2 + Duration::from_millis(1));
        assert_eq!(look(&[2], too_long), Some((1, vec![name])));
    }
}
