//! `[retries]`: the requests that are retried at another replica, when, and how often.

use super::kinds::FIELD;
use crate::routes::{RetryCauses, RetryMethods, RetryRules};
use crate::table::{
    self, Any, Bytes, Choice, DAY, Judge, Kind, MS, Meaning, Number, Or, SetOf, Share, Span,
    Status, Within, choice, keys,
};
use crate::toml_reader::Reader;
use crate::toml_reader::values::quote;
use serde_json::json;
use slackwater_core::tail::{BackoffConfig, RetryBudgetConfig};

/// The requests that are retried, when, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetrySettings {
    /// The requests that are retried; a route may override this.
    pub rules: RetryRules,
    /// Concurrent retries, for each worker.
    pub budget: RetryBudgetConfig,
    /// The wait before a retry.
    pub backoff: BackoffConfig,
}

// The keys that a route may have, too.
keys! { RetryRules in "retries" {
    /// Attempts of one request, the first included, each at another replica. 1: no retries.
    attempts_max at attempts_max: Within(Number, 1..=10);
    /// Methods retried even if a replica may have processed them. `"safe"`: GET, HEAD, OPTIONS,
    /// TRACE. `"idempotent"`: also PUT, DELETE. `"all"`: any.
    methods at methods: Choice(RetryMethods::NAMES);
    /// A request with this header may be retried whatever its method.
    mark_header at mark_header: Or("none", FIELD);
    /// Failures after which such a request is retried, besides statuses.
    on at on: Causes;
    /// Statuses after which such a request is retried.
    statuses at statuses: SetOf(Status { from: 400, to: 599 });
    /// Time to the head of the response, of each attempt that another may follow. `"none"`: an
    /// attempt may use all of `timeouts.first_byte`.
    attempt_timeout at attempt_timeout: Or("none", Within(Span, MS..=DAY));
    /// Size of the replay buffer for a request's body. A larger one is retried only if none of it
    /// was sent.
    body_max at body_bytes_max: Within(Bytes, 0..=16 << 20);
} }

keys! { RetrySettings in "retries" {
    /// Concurrent retries, as a share of the requests that wait for their response.
    budget_share of budget.share: Any(Share);
    /// Concurrent retries that each worker may always have.
    budget_min of budget.retries_min: Any(Number);
    /// Longest wait before the second attempt. Doubles with each further one.
    backoff_base of backoff.base: Any(Span);
    /// Longest wait before any attempt.
    backoff_max of backoff.max: Any(Span);
    /// Longest wait that a replica may request by `Retry-After` or `grpc-retry-pushback-ms`. Beyond
    /// it there is no retry.
    retry_after_max of backoff.hint_max: Any(Span);
} }

/// The name of each cause.
const CAUSES: [(&str, RetryCauses); 3] = [
    ("reset", causes(true, false, false)),
    ("timeout", causes(false, true, false)),
    ("grpc_unavailable", causes(false, false, true)),
];

const fn causes(reset: bool, timeout: bool, grpc_unavailable: bool) -> RetryCauses {
    RetryCauses {
        reset,
        timeout,
        grpc_unavailable,
    }
}

/// A list of causes.
struct Causes;

impl Kind<RetryCauses> for Causes {
    fn take(
        &self,
        reader: &mut Reader<'_>,
        field: &str,
        _: &Judge<'_, RetryCauses>,
    ) -> Option<RetryCauses> {
        let mut all = RetryCauses::default();
        for item in reader.take_list(field)? {
            let cause = reader.note(item.read(|value| choice(value, &CAUSES), ""));
            all = cause.map_or(all, |cause| all.or(cause));
        }
        Some(all)
    }

    fn show(&self, on: &RetryCauses) -> Option<String> {
        let causes = CAUSES.iter().filter(|(_, cause)| on.or(*cause) == *on);
        let causes: Vec<_> = causes.map(|(name, _)| quote(name)).collect();
        Some(format!("[{}]", causes.join(", ")))
    }

    fn meaning(&self, _: &Judge<'_, RetryCauses>) -> Meaning {
        let names = CAUSES.map(|(name, _)| name);
        Meaning::of(
            format!(
                "a list of {}",
                names.map(|name| format!("`\"{name}\"`")).join(", ")
            ),
            json!({"type": "array", "items": {"enum": names}}),
        )
    }
}

impl RetrySettings {
    /// Reads the section.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        Self {
            rules: table::read(reader, prefix),
            ..table::read(reader, prefix)
        }
    }

    /// Writes the section as it is in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str) {
        let keys = table::shown(&self.rules).chain(table::shown(self));
        table::write_keys(to, &format!("{prefix}retries"), keys);
    }
}
