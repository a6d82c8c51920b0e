//! What an operator wants of single replicas: no new requests, or another weight than their fleet
//! says.
//!
//! A service's orders are one value, which all of its workers take at once and which outlives its
//! fleets: they say who is there, and orders what is wanted of whom. An order is for a replica of
//! this name at this address. One that leaves the fleet and is back within `AWAY_MAX` finds its
//! orders; whoever comes later is taken for somebody else, so that an address that is given away
//! again does not begin its life without requests.

use core::net::SocketAddr;
use core::time::Duration;
use slackwater_config::ReplicaConfig;
use slackwater_discovery::Fleet;
use std::collections::BTreeMap;
use std::time::SystemTime;
use tokio::time::Instant;

/// Orders for a replica that has been away from its fleet for longer are forgotten.
pub(super) const AWAY_MAX: Duration = Duration::from_mins(10);

/// What is wanted of one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What the fleet calls it.
    pub name: String,
    /// It gets no new requests, those that it has end, and it is probed on.
    pub is_drained: bool,
    /// In place of the fleet's: from 0 to 65,535; `None`: as the fleet says.
    pub weight: Option<u16>,
    /// When it was last changed.
    pub since: SystemTime,
}

impl Order {
    /// Nothing is wanted.
    fn is_empty(&self) -> bool {
        !self.is_drained && self.weight.is_none()
    }
}

/// What is wanted of a service's replicas, by their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders(BTreeMap<SocketAddr, Order>);

impl Orders {
    /// The order for a replica, if there is one.
    pub fn of(&self, replica: &ReplicaConfig) -> Option<&Order> {
        let order = self.0.get(&replica.address);
        order.filter(|order| order.name == replica.name)
    }

    /// Whether a replica is to get no new requests.
    pub fn is_drained(&self, replica: &ReplicaConfig) -> bool {
        self.of(replica).is_some_and(|order| order.is_drained)
    }

    /// The weight that counts.
    pub fn weight(&self, replica: &ReplicaConfig) -> u32 {
        let ordered = self.of(replica).and_then(|order| order.weight);
        ordered.map_or(replica.weight, u32::from)
    }

    /// The fleet's replicas with the weights that count.
    pub(crate) fn weighted(&self, fleet: &Fleet) -> Vec<ReplicaConfig> {
        let replicas = fleet.replicas().iter();
        let weighted = replicas.map(|replica| ReplicaConfig {
            weight: self.weight(replica),
            ..replica.clone()
        });
        weighted.collect()
    }

    /// These, but for what is wanted of `replica`. What stays `None` is as it was.
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

    /// These, as somebody has them who took them over.
    pub fn restore(&mut self, address: SocketAddr, order: Order) {
        self.0.insert(address, order);
    }

    /// All of them, by address.
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
    /// The orders that stay, and the names of those whose orders are forgotten; `None` if all stay.
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
    fn an_order_says_what_it_says_and_no_more() {
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
    fn what_changes_nothing_is_as_old_as_it_was() {
        let later = AT + Duration::from_secs(1);
        let drained = Orders::default().with(&replica(1), Some(true), None, AT);
        let again = drained.with(&replica(1), Some(true), None, later);
        assert_eq!(again, drained);
        let other = drained.with(&replica(1), None, Some(Some(0)), later);
        assert_eq!(other.of(&replica(1)).map(|order| order.since), Some(later));
    }

    #[test]
    fn orders_wait_for_who_is_away_for_a_while() {
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
        assert_eq!(look(&[2], AWAY_MAX), None, "and away anew");
        let (name, too_long) = (replica(1).name, AWAY_MAX * 2 + Duration::from_millis(1));
        assert_eq!(look(&[2], too_long), Some((1, vec![name])));
    }
}
