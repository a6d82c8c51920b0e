//! Decides which requests a service retries, and when.
//!
//! A request that certainly reached no application may always be tried again: it had no effect, and
//! caused no replica any work. Such a retry needs no budget and no wait; only the number of
//! attempts is limited. Any other request may have had an effect, or may have overloaded the
//! replica. It is retried if its method is idempotent or it is marked as repeatable, if it can be
//! sent again, after a wait, and within the budget. Once the response to the client has started,
//! there is no further attempt.

use crate::forward::Cause;
use crate::service::admission::ServiceCounts;
use core::cell::RefCell;
use core::time::Duration;
use http::{HeaderName, header};
use slackwater_config::RetrySettings;
use slackwater_config::routes::RetryRules;
use slackwater_core::SplitMix64;
use slackwater_core::tail::{Backoff, RetryBudget};
use slackwater_http::Fields;
use std::sync::Arc;

const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// A worker's rules and budget for one service.
#[derive(Debug)]
pub(crate) struct Retries {
    rules: RetryRules,
    backoff: Backoff,
    budget: RefCell<RetryBudget>,
    draw: RefCell<SplitMix64>,
    counts: Arc<ServiceCounts>,
}

/// A request whose response has not started.
#[derive(Debug)]
pub(crate) struct Awaited<'r>(&'r Retries);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let awaited = &self.0.counts.awaited;
        awaited.set(awaited.read().saturating_sub(1));
    }
}

/// The right to one retry, out of the budget.
#[derive(Debug)]
pub(crate) struct RetryPermit<'r>(&'r Retries);

impl Drop for RetryPermit<'_> {
    fn drop(&mut self) {
        self.0.budget.borrow_mut().end();
        self.0.publish_retries();
    }
}

/// A replica's hint about when to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// No hint.
    None,
    /// Not before this time has passed.
    After(Duration),
    /// Never, or at a date, which is later than any wait here.
    Never,
}

impl Retries {
    pub(crate) fn new(settings: &RetrySettings, seed: u64, counts: &Arc<ServiceCounts>) -> Self {
        Self {
            backoff: Backoff::new(settings.backoff.clone()),
            budget: RefCell::new(RetryBudget::new(settings.budget.clone())),
            rules: settings.rules.clone(),
            draw: RefCell::new(SplitMix64::new(seed)),
            counts: Arc::clone(counts),
        }
    }

    /// The service's own rules, for requests whose route sets none.
    pub(crate) const fn rules(&self) -> &RetryRules {
        &self.rules
    }

    /// Counts a request whose response has not started.
    pub(crate) fn await_response(&self) -> Awaited<'_> {
        let awaited = &self.counts.awaited;
        awaited.set(awaited.read() + 1);
        Awaited(self)
    }

    /// Acquires the right to one retry. If the budget is used up, returns `None` and counts it.
    pub(crate) fn acquire_permit(&self) -> Option<RetryPermit<'_>> {
        let awaited = u32::try_from(self.counts.awaited.read()).unwrap_or(u32::MAX);
        if self.budget.borrow_mut().begin(awaited) {
            self.publish_retries();
            return Some(RetryPermit(self));
        }
        self.counts.retries_over_budget.add_one();
        None
    }

    fn publish_retries(&self) {
        let out = self.budget.borrow().retries();
        self.counts.retries_out.set(out.into());
    }

    /// Returns the wait before retry number `retry`, from 0. `None` if the replica requests a
    /// longer wait than allowed, or if too little time is `left`.
    pub(crate) fn wait(&self, retry: u32, hint: Hint, left: Duration) -> Option<Duration> {
        let hint = match hint {
            Hint::None => None,
            Hint::After(wait) => Some(wait),
            Hint::Never => return None,
        };
        let mut draw = self.draw.borrow_mut();
        self.backoff.wait(retry, hint, left, &mut *draw)
    }
}

/// Whether a request that may be repeated is retried after this failure.
pub(crate) const fn follow(rules: &RetryRules, cause: &Cause) -> bool {
    match cause {
        Cause::Broken(_) | Cause::HeadTooLarge => rules.on.reset,
        Cause::FirstByte => rules.on.timeout,
        Cause::NoConnection(_) | Cause::Full | Cause::Withdrawn | Cause::Shed(_) => true,
        Cause::Coding
        | Cause::Switched
        | Cause::ClientStalled
        | Cause::ClientBroken
        | Cause::TooLarge => false,
    }
}

impl Hint {
    /// Reads the hint in a response. gRPC's field takes precedence, because it is finer. A negative
    /// or invalid value there means never (gRPC A6).
    pub(crate) fn of(headers: &Fields) -> Self {
        if let Some(pushback) = headers.get(GRPC_PUSHBACK) {
            let ms = pushback.to_str().ok().and_then(|ms| ms.parse().ok());
            return ms.map_or(Self::Never, |ms| Self::After(Duration::from_millis(ms)));
        }
        let Some(after) = headers.get(header::RETRY_AFTER) else {
            return Self::None;
        };
        let seconds = after.to_str().ok().and_then(|seconds| seconds.parse().ok());
        seconds.map_or(Self::Never, |seconds| {
            Self::After(Duration::from_secs(seconds))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, StatusCode};
    use slackwater_config::routes::RetryMethods;
    use slackwater_http::GRPC_STATUS;
    use slackwater_http::{Request, Response};

    fn rules(change: impl FnOnce(&mut RetryRules)) -> RetryRules {
        let mut rules = RetryRules::default();
        change(&mut rules);
        rules
    }

    fn retries() -> Retries {
        Retries::new(&RetrySettings::default(), 1, &Arc::default())
    }

    fn request(method: Method, field: Option<&'static str>) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        if let Some(field) = field {
            let value = header::HeaderValue::from_static("x");
            request.headers_mut().insert(field, value);
        }
        request
    }

    /// Returns the methods that may be repeated.
    fn repeated(rules: &RetryRules) -> Vec<Method> {
        let methods = [
            Method::GET,
            Method::HEAD,
            Method::PUT,
            Method::DELETE,
            Method::POST,
            Method::PATCH,
        ];
        let may_be = |method: &Method| rules.may_repeat(&request(method.clone(), None));
        methods.into_iter().filter(may_be).collect()
    }

    #[test]
    fn only_idempotent_methods_are_repeated() {
        let idempotent = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE];
        assert_eq!(repeated(&rules(|_| ())), idempotent);
        let none: [Method; 0] = [];
        let off = rules(|s| s.methods = RetryMethods::None);
        assert_eq!(repeated(&off), none);
        let safe = repeated(&rules(|s| s.methods = RetryMethods::Safe));
        assert_eq!(safe, [Method::GET, Method::HEAD]);
        let all = repeated(&rules(|s| s.methods = RetryMethods::All));
        assert_eq!(all.len(), 6);
        let all = rules(|s| s.methods = RetryMethods::All);
        let tunnel = request(Method::CONNECT, Some("idempotency-key"));
        assert!(!all.may_repeat(&tunnel), "it may carry anything");
        assert_eq!(repeated(&rules(|s| s.attempts_max = 1)), none);
    }

    #[test]
    fn marked_request_may_be_retried_with_any_method() {
        let marked = request(Method::POST, Some("idempotency-key"));
        assert!(rules(|_| ()).may_repeat(&marked));
        assert!(!rules(|_| ()).may_repeat(&request(Method::POST, Some("x-own"))));
        assert!(!rules(|s| s.mark_header = None).may_repeat(&marked));
        let own = rules(|s| s.mark_header = Some(HeaderName::from_static("x-own")));
        assert!(own.may_repeat(&request(Method::POST, Some("x-own"))));
        assert!(!own.may_repeat(&marked));
    }

    #[test]
    fn retries_follow_the_settings_and_exclude_client_errors() {
        let all = rules(|_| ());
        let timeout_off = rules(|s| s.on.timeout = false);
        assert!(follow(&all, &Cause::FirstByte));
        assert!(!follow(&timeout_off, &Cause::FirstByte));
        assert!(follow(&all, &Cause::Withdrawn));
        for cause in [
            Cause::Coding,
            Cause::Switched,
            Cause::ClientStalled,
            Cause::ClientBroken,
        ] {
            assert!(!follow(&all, &cause), "{cause}");
        }
    }

    #[test]
    fn responses_are_rejected_by_status_or_grpc_status() {
        let response = |status: u16, grpc: Option<&'static str>| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            if let Some(grpc) = grpc {
                let grpc = header::HeaderValue::from_static(grpc);
                response.headers_mut().insert(GRPC_STATUS, grpc);
            }
            response
        };
        let refused = |rules: &RetryRules| {
            let statuses = [200, 404, 429, 500, 501, 502, 503, 504];
            let is = |status: &u16| rules.refuse(&response(*status, None));
            statuses.into_iter().filter(is).collect::<Vec<_>>()
        };
        assert_eq!(refused(&rules(|_| ())), [502, 503, 504]);
        let own = rules(|s| s.statuses = vec![StatusCode::TOO_MANY_REQUESTS]);
        assert_eq!(refused(&own), [429]);

        assert!(rules(|_| ()).refuse(&response(200, Some("14"))));
        assert!(!rules(|_| ()).refuse(&response(200, Some("0"))));
        assert!(!rules(|_| ()).refuse(&response(200, Some("13"))));
        let off = rules(|s| s.on.grpc_unavailable = false);
        assert!(!off.refuse(&response(200, Some("14"))));
    }

    #[test]
    fn invalid_retry_hints_prevent_a_retry() {
        let hint = |fields: &[(&'static str, &'static str)]| {
            let field = |&(name, value): &(&'static str, &'static str)| {
                (
                    HeaderName::from_static(name),
                    header::HeaderValue::from_static(value),
                )
            };
            Hint::of(&fields.iter().map(field).collect())
        };
        assert_eq!(hint(&[]), Hint::None);
        let second = Hint::After(Duration::from_secs(1));
        assert_eq!(hint(&[("retry-after", "1")]), second);
        assert_eq!(
            hint(&[("retry-after", "Sat, 21 Nov 2026 08:49:37 GMT")]),
            Hint::Never
        );
        assert_eq!(hint(&[("retry-after", "-1")]), Hint::Never);
        let pushback = ("grpc-retry-pushback-ms", "20");
        let after = Hint::After(Duration::from_millis(20));
        assert_eq!(hint(&[pushback, ("retry-after", "1")]), after);
        assert_eq!(hint(&[("grpc-retry-pushback-ms", "-1")]), Hint::Never);
        assert_eq!(hint(&[("grpc-retry-pushback-ms", "soon")]), Hint::Never);
    }

    #[test]
    fn the_budget_is_a_share_of_requests_without_a_response() {
        let retries = retries();
        let awaited: Vec<_> = (0..25).map(|_| retries.await_response()).collect();
        let mut permits: Vec<_> = (0..5).filter_map(|_| retries.acquire_permit()).collect();
        assert_eq!(permits.len(), 5, "a fifth of 25");
        assert!(retries.acquire_permit().is_none());
        assert_eq!(retries.counts.retries_over_budget.read(), 1);
        permits.pop();
        drop(awaited);
        assert!(
            retries.acquire_permit().is_none(),
            "of none it is 3, and 4 are taken"
        );
        permits.truncate(2);
        assert!(retries.acquire_permit().is_some());
    }

    #[test]
    fn hint_that_forbids_retries_returns_no_wait() {
        let hour = Duration::from_hours(1);
        let retries = retries();
        assert!(retries.wait(0, Hint::None, hour).is_some());
        assert!(retries.wait(0, Hint::Never, hour).is_none());
        let second = Duration::from_secs(1);
        assert!(retries.wait(0, Hint::After(second), hour) >= Some(second));
        assert!(retries.wait(0, Hint::After(second), second).is_none());
    }
}
