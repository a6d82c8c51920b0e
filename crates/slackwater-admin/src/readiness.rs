//! `GET /readyz`: whether the process accepts requests, and on demand whether its services can
//! answer them.
//!
//! By default only the process counts. A service whose replicas all fail does not make a proxy
//! unready. Every proxy before those replicas sees the same, so all proxies would be taken out at
//! once, for all their services, and clients would get no answer instead of a 502 with a reason.
//! Without health checks, a proxy also needs requests to find out that replicas are back. The body
//! lists the problems in any case. `services=` and `service=` are for clients that decide by
//! service, such as a balancer with another site to send requests to.

use super::live::Live;
use super::query::Query;
use super::reply::{Reply, TEXT, refusal, reply};
use super::status::{ServiceStatus, Status};
use core::fmt::Write as _;
use http::StatusCode;
use slackwater_telemetry::facts::Phase;
use slackwater_telemetry::problems::Problem;

/// Older evidence does not make a service unready: the state of its replicas is then unknown, and
/// only another request can find out.
const EVIDENCE_MS_MAX: u64 = 10_000;

/// The services that must work, besides the process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// None.
    Process,
    /// At least one service.
    AnyService,
    /// Every service.
    AllServices,
    /// This service.
    Service(String),
}

impl Rule {
    /// Parses a request's parameters; an error is in words.
    fn read(query: &Query) -> Result<Self, String> {
        if let Some(unknown) = query.unknown(&["services", "service"]) {
            return Err(format!(
                "parameter {unknown}: unknown; there are services, service"
            ));
        }
        match (query.get("services"), query.get("service")) {
            (Some(_), Some(_)) => Err("parameters services, service: give one of them".to_owned()),
            (None, None) => Ok(Self::Process),
            (Some("any"), None) => Ok(Self::AnyService),
            (Some("all"), None) => Ok(Self::AllServices),
            (Some(other), None) => Err(format!(
                "parameter services: found {other:?}, expected any or all"
            )),
            (None, Some(service)) => Ok(Self::Service(service.to_owned())),
        }
    }

    /// Returns the failing services if the rule is violated, otherwise an empty list; `None` if the
    /// service is unknown.
    fn failing<'s>(&self, services: &'s [ServiceStatus]) -> Option<Vec<&'s str>> {
        let wanted = |service: &&ServiceStatus| match self {
            Self::Process => false,
            Self::AnyService | Self::AllServices => true,
            Self::Service(name) => service.name == *name,
        };
        let wanted: Vec<_> = services.iter().filter(wanted).collect();
        if matches!(self, Self::Service(_)) && wanted.is_empty() {
            return None;
        }
        let failing = wanted.iter().filter(|service| fails(service));
        let failing: Vec<_> = failing.map(|service| service.name.as_str()).collect();
        let is_well = match self {
            Self::AnyService => failing.len() < wanted.len(),
            _ => failing.is_empty(),
        };
        Some(if is_well { Vec::new() } else { failing })
    }
}

/// Whether no replica of a service can answer, by evidence that is not too old.
fn fails(service: &ServiceStatus) -> bool {
    let standing = &service.standing;
    let is_fresh = (standing.evidence_age_ms).is_none_or(|age_ms| age_ms <= EVIDENCE_MS_MAX);
    standing.wanted == 0 || (standing.all_fail && is_fresh)
}

/// Answers a request. The state of services is from the last reading, at most a second ago.
pub(super) fn answer(phase: Phase, query: &Query, live: &Live) -> Reply {
    let rule = match Rule::read(query) {
        Ok(rule) => rule,
        Err(why) => return refusal(StatusCode::BAD_REQUEST, why),
    };
    match phase {
        Phase::Starting => refusal(StatusCode::SERVICE_UNAVAILABLE, "starting"),
        Phase::Serving => match live.last(|status| serving(&rule, status)) {
            Some(answer) => answer,
            None if rule == Rule::Process => reply(StatusCode::OK, TEXT, "serving\n"),
            // Services have not been read yet.
            None => refusal(StatusCode::SERVICE_UNAVAILABLE, "starting"),
        },
        Phase::Withdrawn => refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "withdrawn: the server that this stands before cannot be connected to",
        ),
        Phase::Draining => refusal(StatusCode::SERVICE_UNAVAILABLE, "draining"),
    }
}

fn serving(rule: &Rule, status: &Status) -> Reply {
    let Some(failing) = rule.failing(&status.services) else {
        let names: Vec<_> = status.services.iter().map(|it| it.name.as_str()).collect();
        let there_are = names.join(", ");
        let why = format!("there is no such service; there are {there_are}");
        return refusal(StatusCode::NOT_FOUND, why);
    };
    let mut text = if failing.is_empty() {
        "serving\n".to_owned()
    } else {
        format!("no replica can answer: {}\n", failing.join(", "))
    };
    for problem in &status.problems {
        add(&mut text, problem);
    }
    let code = if failing.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    reply(code, TEXT, text)
}

fn add(text: &mut String, problem: &Problem) {
    let service = problem.service.as_deref();
    let service = service.map_or(String::new(), |service| format!("{service}: "));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "problem: {service}{}", problem.what);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standing::ServiceStandingStatus;
    use core::time::Duration;
    use slackwater_telemetry::facts::{Facts, ServiceFacts};

    /// A status of services. Each has whether all of its replicas fail, and the age of the
    /// evidence.
    fn status(services: &[(&str, bool, u64)]) -> Status {
        let facts = Facts {
            services: services
                .iter()
                .map(|(name, ..)| ServiceFacts {
                    name: (*name).to_owned(),
                    ..ServiceFacts::default()
                })
                .collect(),
            ..Facts::default()
        };
        let mut status = Status::new(&facts, Phase::Serving, Duration::ZERO);
        for (service, (_, all_fail, age_ms)) in status.services.iter_mut().zip(services) {
            service.standing = ServiceStandingStatus {
                all_fail: *all_fail,
                wanted: 2,
                evidence_age_ms: all_fail.then_some(*age_ms),
                ..ServiceStandingStatus::default()
            };
        }
        status.problems.clear();
        status
    }

    fn code(rule: &Rule, status: &Status) -> u16 {
        serving(rule, status).status().as_u16()
    }

    #[test]
    fn by_default_no_service_makes_the_process_unready() {
        let all_fail = status(&[("web", true, 0), ("api", true, 0)]);
        assert_eq!(code(&Rule::Process, &all_fail), 200);
    }

    #[test]
    fn readiness_needs_one_service_by_any_and_each_by_all() {
        let (any, all) = (Rule::AnyService, Rule::AllServices);
        let web = Rule::Service("web".to_owned());
        for (web_fails, api_fails, expected) in [
            (false, false, (200, 200, 200)),
            (true, false, (200, 503, 503)),
            (false, true, (200, 503, 200)),
            (true, true, (503, 503, 503)),
        ] {
            let status = status(&[("web", web_fails, 0), ("api", api_fails, 0)]);
            let found = (
                code(&any, &status),
                code(&all, &status),
                code(&web, &status),
            );
            assert_eq!(found, expected, "{web_fails} {api_fails}");
        }
        let unknown = Rule::Service("shop".to_owned());
        assert_eq!(code(&unknown, &status(&[("web", false, 0)])), 404);
    }

    #[test]
    fn outdated_failures_count_as_ready_but_no_replicas_never_do() {
        let all = Rule::AllServices;
        assert_eq!(code(&all, &status(&[("web", true, EVIDENCE_MS_MAX)])), 503);
        let mut old = status(&[("web", true, EVIDENCE_MS_MAX + 1)]);
        assert_eq!(code(&all, &old), 200);
        old.services[0].standing.wanted = 0;
        assert_eq!(code(&all, &old), 503);
    }
}
