//! From the policy to the prober: probes leave after the lock is released.
//!
//! A pick, a report and a timeout may each make probes due. They are taken out under the lock that
//! is held anyway, and handed to the prober after it is released. A probe that the prober refuses
//! is reported to the policy as lost at once.

use super::balancer::Balancer;
use super::driver::{Driver, Outbox, WantedProbe};
use super::probe::{ProbeToSend, Refused};
use super::rounds::RoundId;
use crate::wire::HINT_BYTES_MAX;
use bytes::Bytes;
use slackwater_core::Instant;
use std::sync::MutexGuard;

impl Balancer {
    /// Sends the probes of a round, without a hint that no probe has space for.
    pub(super) fn send_round(&self, id: RoundId, hint: &Bytes) {
        let hint = if hint.len() > HINT_BYTES_MAX {
            &Bytes::new()
        } else {
            hint
        };
        let now = self.now();
        let mut outbox = Outbox::default();
        self.lock().round_probes(now, id, &mut outbox);
        self.hand_over(now, &outbox, hint);
    }

    /// Releases the lock; then, if there are probes to send, sends them.
    #[inline]
    pub(super) fn send_probes<'a>(&'a self, now: Instant, mut driver: MutexGuard<'a, Driver>) {
        match driver.next_probe(now) {
            None => drop(driver),
            Some(first) => self.send_from(now, driver, first),
        }
    }

    /// Hands the probes that are due, `first` and more, to the prober after releasing the lock.
    fn send_from<'a>(
        &'a self,
        now: Instant,
        mut driver: MutexGuard<'a, Driver>,
        first: WantedProbe,
    ) {
        let mut outbox = Outbox::default();
        outbox.push(first);
        loop {
            while !outbox.is_full()
                && let Some(probe) = driver.next_probe(now)
            {
                outbox.push(probe);
            }
            self.rearm(driver);
            self.hand_over(now, &outbox, &Bytes::new());
            if !outbox.is_full() {
                return;
            }
            outbox = Outbox::default();
            driver = self.lock();
        }
    }

    /// Releases the lock, and wakes [`Drive`](super::drive::Drive) if it would sleep for too long.
    pub(super) fn rearm(&self, mut driver: MutexGuard<'_, Driver>) {
        let wake = driver.wants_earlier_wake();
        drop(driver);
        if wake {
            self.shared.drive_waker.wake();
        }
    }

    /// Hands probes to the prober, and reports those that it refuses to the policy.
    fn hand_over(&self, now: Instant, outbox: &Outbox, hint: &Bytes) {
        for probe in outbox.iter() {
            let sent = self.shared.prober.send(ProbeToSend {
                token: probe.token,
                replica: probe.replica,
                addr: probe.addr,
                sent_at: now,
                deadline: probe.deadline,
                hint: hint.clone(),
            });
            match sent {
                Ok(()) => {}
                // Congestion on our side is no evidence about the replica.
                Err(Refused::Full) => self.lock().probe_unsent(now, probe.token),
                Err(_) => {
                    let waiting = self.lock().probe_lost(now, probe.token);
                    // Usually there is no waker: the query that waits for the round has not been
                    // polled since, or is polled next.
                    if let Some(waker) = waiting {
                        waker.wake();
                    }
                }
            }
        }
    }
}
