//! The network between clients and replicas: messages on their way, each with its own delay.

use super::query::Key;
use super::wheel::Wheel;
use crate::machine::Time;
use crate::random::{Purpose, Stream};
use crate::scenario::{Scenario, Zones};
use slackwater_core::Draw;
use slackwater_core::policy::Outcome;
use slackwater_core::tail::TieName;

/// A message on its way. Attempts and probes are identified by their slots, which stay reserved
/// until the message is delivered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    /// A copy of a query, to its replica.
    Query(u32),
    /// The outcome of that copy, back to its client.
    Answer(u32, Outcome),
    /// Cancels a copy. The copy may have ended before this arrives.
    Cancel(Key),
    /// A tied copy has started: the other copy, at this replica, is dropped if it still waits.
    Untie(u32, TieName),
    /// A probe, to its replica.
    Probe(u32),
    /// The answer to a probe, or its refusal.
    Report(u32),
}

/// The network.
#[derive(Debug)]
pub(super) struct Network {
    messages: Wheel<Message>,
    least_ns: Time,
    /// The delay that each replica's messages have in addition, by its number.
    extra_ns: Vec<Time>,
    /// Where the ends of messages are, and the delay from one zone to another.
    zones: Option<Zones>,
    between_zones_ns: Time,
    /// Number of possible delays, one nanosecond apart.
    choices: u64,
    query_delays: Stream,
    probe_delays: Stream,
    losses: Stream,
    /// A draw below this loses the probe.
    lost_below: u64,
}

impl Network {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        let network = &scenario.network;
        let least_ns = super::nanos(network.delay.least);
        let most_ns = super::nanos(network.delay.most).max(least_ns);
        let groups = scenario.fleet.iter();
        let extra_ns: Vec<Time> = groups
            .flat_map(|group| core::iter::repeat_n(super::nanos(group.extra_delay), group.count))
            .collect();
        let most_extra_ns = extra_ns.iter().copied().max().unwrap_or(0);
        let zones = scenario.zones.clone();
        let between_zones_ns = zones.as_ref().map_or(0, |zones| super::nanos(zones.delay));
        let longest_ns = most_ns.saturating_add(most_extra_ns);
        Self {
            messages: Wheel::new(longest_ns.saturating_add(between_zones_ns)),
            least_ns,
            extra_ns,
            zones,
            between_zones_ns,
            choices: most_ns - least_ns + 1,
            query_delays: Stream::new(seed, Purpose::QueryDelay, 0),
            probe_delays: Stream::new(seed, Purpose::ProbeDelay, 0),
            losses: Stream::new(seed, Purpose::ProbeLoss, 0),
            lost_below: super::share_of_draws(network.probe_loss),
        }
    }

    /// Sends a message that belongs to a query, between this client and this replica.
    #[inline]
    pub(super) fn send(&mut self, now: Time, client: u32, replica: u32, message: Message) {
        let delay = self.least_of(client, replica) + below(&mut self.query_delays, self.choices);
        self.messages.push(now + delay, message);
    }

    /// Sends a probe or its answer, between this client and this replica.
    #[inline]
    pub(super) fn send_probe(&mut self, now: Time, client: u32, replica: u32, message: Message) {
        let delay = self.least_of(client, replica) + below(&mut self.probe_delays, self.choices);
        self.messages.push(now + delay, message);
    }

    /// Returns the shortest delay between this client and this replica.
    #[inline]
    fn least_of(&self, client: u32, replica: u32) -> Time {
        let extra = self.extra_ns.get(replica as usize).copied();
        let way = if self.is_between_zones(client, replica) {
            self.between_zones_ns
        } else {
            0
        };
        self.least_ns + extra.unwrap_or(0) + way
    }

    /// Returns whether a client and a replica are in different zones.
    #[inline]
    pub(super) fn is_between_zones(&self, client: u32, replica: u32) -> bool {
        let zones = self.zones.as_ref();
        zones.is_some_and(|zones| zones.parts(client as usize, replica as usize))
    }

    /// Draws whether the next probe is lost, on its way there or back.
    #[inline]
    pub(super) fn loses_probe(&mut self) -> bool {
        self.lost_below > 0 && self.losses.draw() < self.lost_below
    }

    #[inline]
    pub(super) fn next_at(&self) -> Time {
        self.messages.next_at()
    }

    #[inline]
    pub(super) fn deliver(&mut self) -> Option<Message> {
        self.messages.pop()
    }
}

/// Draws uniformly from 0..`bound`.
#[inline]
fn below(stream: &mut Stream, bound: u64) -> u64 {
    let product = u128::from(stream.draw()) * u128::from(bound);
    u64::try_from(product >> 64).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::testbed;
    use core::time::Duration;

    #[test]
    fn probes_do_not_change_delays_of_queries() {
        let arrivals = |probes: bool| -> Vec<Time> {
            let mut network = Network::new(&testbed(), 1);
            let mut times = Vec::new();
            for slot in 0..10 {
                if probes {
                    network.send_probe(0, 0, 0, Message::Probe(slot));
                    network.loses_probe();
                }
                network.send(0, 0, 0, Message::Query(slot));
            }
            while let (at, Some(message)) = (network.next_at(), network.deliver()) {
                if let Message::Query(_) = message {
                    times.push(at);
                }
            }
            times
        };
        let alone = arrivals(false);
        assert_eq!(alone.len(), 10);
        assert_eq!(arrivals(true), alone);
    }

    #[test]
    fn messages_of_a_distant_group_take_its_extra_delay() {
        let mut scenario = testbed();
        let mut distant = scenario.fleet[0].clone();
        distant.count = 1;
        distant.extra_delay = Duration::from_millis(50);
        scenario.fleet.push(distant);
        let last = u32::try_from(scenario.replicas() - 1).expect("it is small");
        let delay_to = |replica: u32, is_probe: bool| {
            let mut network = Network::new(&scenario, 1);
            if is_probe {
                network.send_probe(0, 0, replica, Message::Probe(0));
            } else {
                network.send(0, 0, replica, Message::Query(0));
            }
            network.next_at()
        };
        for is_probe in [false, true] {
            let extra = delay_to(last, is_probe) - delay_to(0, is_probe);
            assert_eq!(extra, 50_000_000);
        }
    }

    #[test]
    fn messages_between_zones_take_the_delay_between_them() {
        let mut scenario = testbed();
        let (clients, replicas) = (scenario.load.clients.len(), scenario.replicas());
        let delay = Duration::from_millis(20);
        scenario.zones = Some(Zones::even(2, clients, replicas, delay));
        let delay_between = |client: u32, replica: u32, is_probe: bool| {
            let mut network = Network::new(&scenario, 1);
            if is_probe {
                network.send_probe(0, client, replica, Message::Probe(0));
            } else {
                network.send(0, client, replica, Message::Query(0));
            }
            network.next_at()
        };
        for is_probe in [false, true] {
            let near = delay_between(1, 1, is_probe);
            for (client, replica, extra) in [(0, 0, 0), (3, 5, 0), (0, 1, 20), (1, 2, 20)] {
                let taken = delay_between(client, replica, is_probe);
                assert_eq!(taken, near + extra * 1_000_000);
            }
        }
    }
}
