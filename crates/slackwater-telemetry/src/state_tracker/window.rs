//! Results of a service's requests in the last seconds, from counts that only rise.

use crate::facts::{
    LastCounts, RESPONSE_CLASSES, RecentFacts, RequestCounts, ResponseClass, ServiceFacts,
};
use core::array::from_fn;
use core::time::Duration;
use std::collections::VecDeque;
use std::time::SystemTime;

/// Length of the window.
const SPAN: Duration = Duration::from_secs(10);
/// Time between two stored counts. Results change only then, so that places which look within this
/// time of each other show the same numbers.
const STEP: Duration = Duration::from_secs(1);
/// The newest part of the window, which shows that failures are over.
const NEWEST: Duration = Duration::from_millis(RecentFacts::NEWEST_MS);

/// Counts of a service at one moment.
#[derive(Clone, Debug, Default)]
struct Counted {
    is_of_agent: bool,
    classes: [u64; RESPONSE_CLASSES],
    /// Attempts at all replicas so far, also at those that have left.
    attempts: RequestCounts,
    shed: u64,
}

impl Counted {
    fn of(service: &ServiceFacts, attempts: RequestCounts) -> Self {
        let mut counted = Self {
            is_of_agent: service.is_of_agent(),
            attempts,
            ..Self::default()
        };
        for worker in &service.workers {
            counted.shed += worker.admission.shed();
            for (sum, class) in counted.classes.iter_mut().zip(&worker.latency.total) {
                *sum += class.count();
            }
        }
        counted
    }

    /// The difference to `before`; everything, if the service was built again.
    fn since(&self, before: &Self, span: Duration) -> RecentFacts {
        let rise = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let classes: [u64; RESPONSE_CLASSES] =
            from_fn(|place| rise(self.classes[place], before.classes[place]));
        let risen = self.attempts - before.attempts;
        let attempts = |of: fn(&RequestCounts) -> u64| of(&risen);
        let class = |class: ResponseClass| classes[class.index()];
        let mut recent = RecentFacts {
            span_ms: u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
            requests: classes.iter().sum(),
            responses_5xx: class(ResponseClass::Server),
            grpc_failed: class(ResponseClass::GrpcFailed),
            broken: class(ResponseClass::Broken),
            attempts_unconnected: attempts(|it| it.connect_failures),
            attempts_timed_out: attempts(|it| it.timeouts),
            attempts_broken: attempts(|it| it.broken),
            shed: rise(self.shed, before.shed),
            failed: 0,
            failed_newest: None,
        };
        if self.is_of_agent {
            recent.responses_5xx = attempts(|it| it.responses_5xx);
            recent.broken = attempts(|it| it.connect_failures + it.timeouts + it.broken);
            recent.requests = recent.responses_5xx
                + recent.broken
                + attempts(|it| it.responses_1xx + it.responses_2xx)
                + attempts(|it| it.responses_3xx + it.responses_4xx);
        }
        recent.failed = recent.responses_5xx + recent.grpc_failed + recent.broken;
        recent
    }
}

/// The counts of the last seconds, the oldest first, and the results as of the newest.
#[derive(Debug, Default)]
pub(super) struct Window {
    counts: VecDeque<(SystemTime, Counted)>,
    last: LastCounts,
    attempts: RequestCounts,
    recent: RecentFacts,
}

impl Window {
    /// Returns the results of the window that ends at `now`, or less than [`STEP`] before.
    pub(super) fn observe(&mut self, now: SystemTime, service: &ServiceFacts) -> RecentFacts {
        let age = |at: SystemTime| now.duration_since(at).unwrap_or_default();
        // The clock was set back, so the ages of earlier counts are meaningless.
        if self.counts.back().is_some_and(|(at, _)| *at > now) {
            self.counts.clear();
        }
        if self.counts.back().is_some_and(|(at, _)| age(*at) < STEP) {
            return self.recent.clone();
        }
        for rise in self.last.rise(now, service) {
            self.attempts += rise;
        }
        let counted = Counted::of(service, self.attempts);
        // The oldest count is kept until the next one is beyond the span, so that the window covers
        // all of it.
        while self.counts.get(1).is_some_and(|(at, _)| age(*at) >= SPAN) {
            self.counts.pop_front();
        }
        self.recent = match self.counts.front() {
            Some((at, before)) => counted.since(before, age(*at)),
            None => RecentFacts::default(),
        };
        let mut counts = self.counts.iter().rev();
        let newest = counts.find(|(at, _)| age(*at) >= NEWEST);
        let newest = newest.map(|(at, before)| counted.since(before, age(*at)).failed);
        self.recent.failed_newest = Some(newest.unwrap_or(self.recent.failed));
        self.counts.push_back((now, counted));
        self.recent.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{AdmissionCounts, BehindFacts, ReplicaFacts, WorkerFacts};

    /// The service of an agent.
    fn service(sent: u64, failed: u64) -> ServiceFacts {
        let requests = RequestCounts {
            responses_2xx: sent - failed,
            connect_failures: failed,
            ..RequestCounts::default()
        };
        ServiceFacts {
            replicas: vec![ReplicaFacts {
                behind: Some(BehindFacts {
                    is_there: true,
                    in_flight: 0,
                }),
                ..ReplicaFacts::default()
            }],
            workers: vec![WorkerFacts {
                requests: vec![requests],
                ..WorkerFacts::default()
            }],
            ..ServiceFacts::default()
        }
    }

    /// Their requests may have been retried with success.
    #[test]
    fn failed_attempts_are_no_failed_requests_before_the_first_request_has_ended() {
        let mut window = Window::default();
        let mut see = |second: u64, failed| {
            let mut service = service(60, failed);
            service.replicas[0].behind = None;
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            window.observe(now, &service)
        };
        see(100, 0);
        let recent = see(101, 30);
        assert_eq!((recent.requests, recent.failed), (0, 0));
        assert_eq!(recent.attempts_unconnected, 30);
    }

    #[test]
    fn only_last_ten_seconds_count() {
        let mut window = Window::default();
        let mut see = |second: u64, sent, failed| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            window.observe(now, &service(sent, failed))
        };
        let nothing = RecentFacts {
            failed_newest: Some(0),
            ..RecentFacts::default()
        };
        assert_eq!(see(100, 50, 0), nothing);
        let recent = see(101, 150, 10);
        assert_eq!((recent.requests, recent.failed), (100, 10));
        assert_eq!(
            recent.failed_newest,
            Some(10),
            "the window is shorter than 2 s"
        );
        assert_eq!((recent.span_ms, recent.failed_percent()), (1_000, 10));
        assert!((recent.rate() - 100.0).abs() < 1e-9);
        let newest = [102, 103, 104].map(|second| see(second, 150, 10).failed_newest);
        assert_eq!(newest, [Some(10), Some(0), Some(0)]);
        for second in 105..111 {
            see(second, 150, 10);
        }
        let later = see(112, 160, 10);
        assert_eq!((later.requests, later.failed), (10, 0));
        assert!(later.span_ms >= 10_000);
    }

    #[test]
    fn counts_of_a_replica_that_leaves_and_returns_are_not_counted_again() {
        let mut window = Window::default();
        let mut see = |second: u64, service: &ServiceFacts| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            let recent = window.observe(now, service);
            (recent.requests, recent.attempts_unconnected)
        };
        assert_eq!(see(100, &service(50, 5)), (0, 0));
        assert_eq!(see(101, &service(60, 7)), (10, 2));
        let none = ServiceFacts::default();
        assert_eq!(
            see(102, &none),
            (0, 2),
            "it is no agent's without a replica"
        );
        assert_eq!(see(103, &service(61, 8)), (11, 3));
    }

    #[test]
    fn observations_within_a_second_share_one_window() {
        let mut window = Window::default();
        let mut see = |ms: u64, sent, failed| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
            window.observe(now, &service(sent, failed))
        };
        see(100_000, 50, 0);
        let first = see(101_000, 100, 10);
        assert_eq!(see(101_999, 150, 40), first);
        assert_eq!(see(102_000, 150, 40).failed, 40);
    }

    #[test]
    fn shed_requests_are_counted_for_every_reason() {
        let mut window = Window::default();
        let mut see = |second: u64, admission| {
            let mut service = service(0, 0);
            service.workers[0].admission = admission;
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            window.observe(now, &service).shed
        };
        assert_eq!(see(100, AdmissionCounts::default()), 0);
        let admission = AdmissionCounts {
            shed_replicas_full: 1,
            shed_queue_full: 2,
            shed_wait_over: 3,
            shed_deadline: 4,
            queued: 100,
            ..AdmissionCounts::default()
        };
        assert_eq!(see(101, admission), 10);
        for second in 102..111 {
            see(second, admission);
        }
        assert_eq!(see(112, admission), 0);
    }

    #[test]
    fn clock_step_back_restarts_the_window() {
        let mut window = Window::default();
        let at = |second| SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        window.observe(at(1_000), &service(10, 0));
        let recent = window.observe(at(10), &service(30, 0));
        assert_eq!((recent.span_ms, recent.requests), (0, 0));
        let recent = window.observe(at(12), &service(40, 0));
        assert_eq!((recent.span_ms, recent.requests), (2_000, 10));
    }
}
