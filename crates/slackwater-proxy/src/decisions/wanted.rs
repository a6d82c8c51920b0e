//! Parses the parameters of a query for decisions.

use super::decision::Decision;
use crate::request_record::AttemptKind;
use core::time::Duration;
use slackwater_config::toml_reader::values::parse_duration;
use slackwater_core::policy::PickReason;

/// Default number of decisions in a response.
const LIMIT: usize = 100;
/// Maximum number of decisions in a response.
pub const LIMIT_MAX: usize = 10_000;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Text,
}

/// Filters of a query. An absent filter matches everything.
#[derive(Debug)]
pub(super) struct Wanted {
    id: Option<String>,
    service: Option<String>,
    replica: Option<String>,
    reason: Option<PickReason>,
    kind: Option<AttemptKind>,
    failed: Option<bool>,
    slower_than: Option<Duration>,
    pub(super) limit: usize,
    pub(super) form: Form,
}

/// The supported parameters.
const PARAMETERS: [&str; 9] = [
    "id",
    "service",
    "replica",
    "reason",
    "attempt",
    "failed",
    "slower_than",
    "limit",
    "format",
];

impl Wanted {
    /// Reads a request's parameters.
    ///
    /// # Errors
    ///
    /// Returns a message if a parameter is unknown or its value is invalid.
    pub(super) fn read(query: &[(String, String)]) -> Result<Self, String> {
        let mut names = query.iter().map(|(name, _)| name.as_str());
        if let Some(unknown) = names.find(|name| !PARAMETERS.contains(name)) {
            let there_are = PARAMETERS.join(", ");
            return Err(format!(
                "parameter {unknown}: unknown; there are {there_are}"
            ));
        }
        let mut wanted = Self {
            id: None,
            service: None,
            replica: None,
            reason: None,
            kind: None,
            failed: None,
            slower_than: None,
            limit: LIMIT,
            form: Form::Json,
        };
        for (name, value) in query {
            wanted.set(name, value)?;
        }
        Ok(wanted)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let unfit =
            |expected: &str| format!("parameter {name}: found {value:?}, expected {expected}");
        match name {
            "reason" => {
                let reason = PickReason::ALL.into_iter().find(|it| it.as_str() == value);
                let names = || PickReason::ALL.map(PickReason::as_str).join(", ");
                self.reason = Some(reason.ok_or_else(|| unfit(&format!("one of {}", names())))?);
            }
            "attempt" => {
                let kind = AttemptKind::ALL.into_iter().find(|it| it.as_str() == value);
                let names = || AttemptKind::ALL.map(AttemptKind::as_str).join(", ");
                self.kind = Some(kind.ok_or_else(|| unfit(&format!("one of {}", names())))?);
            }
            "failed" => {
                let failed = value.parse().map_err(|_| unfit("true or false"))?;
                self.failed = Some(failed);
            }
            "slower_than" => {
                let span = parse_duration(value).and_then(Result::ok);
                let span = span.ok_or_else(|| unfit("a duration such as \"50ms\" or \"1.5s\""))?;
                self.slower_than = Some(span);
            }
            "limit" => {
                let limit = value.parse().ok();
                let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
                self.limit = limit.ok_or_else(|| unfit("a number from 1 to 10,000"))?;
            }
            "format" => {
                self.form = match value {
                    "json" => Form::Json,
                    "text" => Form::Text,
                    _ => return Err(unfit("json or text")),
                };
            }
            "id" => self.id = Some(value.to_owned()),
            "service" => self.service = Some(value.to_owned()),
            "replica" => self.replica = Some(value.to_owned()),
            // Unknown names were rejected above.
            _ => {}
        }
        Ok(())
    }

    /// Whether a decision matches the query.
    pub(super) fn takes(&self, decision: &Decision) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        // All conditions on an attempt must hold for the same attempt.
        let asks_of_attempt =
            self.replica.is_some() || self.reason.is_some() || self.kind.is_some();
        let mut attempts = decision.attempts.iter();
        is(&self.id, Some(&decision.id))
            && is(&self.service, decision.service.as_deref())
            && self.failed.is_none_or(|failed| failed == decision.failed)
            && self
                .slower_than
                .is_none_or(|span| decision.waited() >= span)
            && (!asks_of_attempt
                || attempts.any(|attempt| {
                    is(&self.replica, Some(&attempt.replica))
                        && self.reason.is_none_or(|reason| reason == attempt.reason)
                        && self.kind.is_none_or(|kind| kind == attempt.kind)
                }))
    }
}
