//! Counts of probes on the wire, one struct for all carriers.

/// Counts of a prober's events since its creation. Each only rises. Counts that do not apply to a
/// carrier stay 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeCounters {
    /// Probes that went out.
    pub sent: u64,
    /// Replies that were accepted and handed to the policy.
    pub answered: u64,
    /// Probes rejected because too many were outstanding.
    pub refused_full: u64,
    /// Probes rejected because the replica could not be reached a moment ago.
    pub refused_back_off: u64,
    /// Probes rejected because this prober cannot carry them.
    pub refused_unsupported: u64,
    /// Probes that the operating system did not send, or not before their deadline.
    pub send_failed: u64,
    /// UDP: datagrams that are not replies.
    pub malformed: u64,
    /// UDP: replies with a missing or wrong tag, if a key is configured.
    pub unauthenticated: u64,
    /// UDP: replies to no outstanding probe, or from an address other than the probed one.
    pub foreign: u64,
    /// UDP: further replies to a probe that had been answered.
    pub replayed: u64,
    /// HTTP: connections that could not be opened.
    pub connect_failed: u64,
    /// HTTP: connections that broke before the reply's head arrived.
    pub broken: u64,
    /// HTTP: probes cut off at their deadline.
    pub timed_out: u64,
    /// HTTP: replies whose status is not 2xx.
    pub bad_status: u64,
    /// HTTP: replies whose headers are not a valid report.
    pub bad_report: u64,
}

impl ProbeCounters {
    /// Returns each count with its name in the metrics.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("sent", self.sent),
            ("answered", self.answered),
            ("refused_full", self.refused_full),
            ("refused_back_off", self.refused_back_off),
            ("refused_unsupported", self.refused_unsupported),
            ("send_failed", self.send_failed),
            ("malformed", self.malformed),
            ("unauthenticated", self.unauthenticated),
            ("foreign", self.foreign),
            ("replayed", self.replayed),
            ("connect_failed", self.connect_failed),
            ("broken", self.broken),
            ("timed_out", self.timed_out),
            ("bad_status", self.bad_status),
            ("bad_report", self.bad_report),
        ]
        .into_iter()
    }

    /// Returns the sum of both.
    pub(super) const fn plus(&self, other: &Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            answered: self.answered + other.answered,
            refused_full: self.refused_full + other.refused_full,
            refused_back_off: self.refused_back_off + other.refused_back_off,
            refused_unsupported: self.refused_unsupported + other.refused_unsupported,
            send_failed: self.send_failed + other.send_failed,
            malformed: self.malformed + other.malformed,
            unauthenticated: self.unauthenticated + other.unauthenticated,
            foreign: self.foreign + other.foreign,
            replayed: self.replayed + other.replayed,
            connect_failed: self.connect_failed + other.connect_failed,
            broken: self.broken + other.broken,
            timed_out: self.timed_out + other.timed_out,
            bad_status: self.bad_status + other.bad_status,
            bad_report: self.bad_report + other.bad_report,
        }
    }
}
