//! What a process that stands before a replica tells of that one: what it answers to probes, and the queue before it.

use super::super::status::Status;
use super::{Families, Labels, label};
use core::fmt;

impl Families<'_> {
    pub(super) fn own_queue(&mut self, status: &Status) -> fmt::Result {
        let Some(queue) = &status.own_queue else {
            return Ok(());
        };
        let one = |value: u64| [(Labels::new(), value)];
        let help = "Requests that the server may have at a time.";
        self.gauges("own_limit_requests", help, one(queue.limit.into()))?;
        let help = "Requests that the server has.";
        self.gauges("own_started_requests", help, one(queue.rif.into()))?;
        let waiting = queue.waiting.iter();
        let waiting = waiting.map(|(name, &count)| (label("priority", name), u64::from(count)));
        let help = "Requests that wait for their turn at the server.";
        self.gauges("own_waiting_requests", help, waiting)?;
        let help = "For how long the oldest of them has waited.";
        self.seconds("own_waiting_age", help, queue.age_us as f64 / 1e6)?;
        let help = "Requests that had to wait for their turn.";
        self.counters("own_queued", help, one(queue.queued))?;
        let shed = queue.shed.iter();
        let shed = shed.map(|(name, &count)| (label("reason", name), count));
        self.counters("own_shed", "Requests turned away unstarted.", shed)
    }

    pub(super) fn own_ties(&mut self, status: &Status) -> fmt::Result {
        let Some(ties) = &status.own_ties else {
            return Ok(());
        };
        let events = [
            ("dropped", ties.dropped),
            ("doubled", ties.doubled),
            ("untied", ties.untied),
            ("told", ties.told),
            ("untold", ties.untold),
            ("strange", ties.strange),
        ];
        let events = events.map(|(name, count)| (label("event", name), count));
        let help = "What happened to requests with a copy at another replica.";
        self.counters("own_ties", help, events)
    }

    pub(super) fn own_load(&mut self, status: &Status) -> fmt::Result {
        let Some(load) = &status.own_load else {
            return Ok(());
        };
        let rif = [(Labels::new(), u64::from(load.rif))];
        self.gauges(
            "own_rif_requests",
            "Requests in flight, as answered to probes.",
            rif,
        )?;
        let draining = [(Labels::new(), u64::from(load.draining))];
        self.gauges(
            "own_draining",
            "1 if probes are told to stay away.",
            draining,
        )?;
        match load.latency_us {
            None => Ok(()),
            Some(latency_us) => self.seconds(
                "own_latency",
                "Estimated latency, as answered to probes; absent while unknown.",
                latency_us as f64 / 1e6,
            ),
        }
    }
}
