//! The problems of a process that an operator must know, the worst first.
//!
//! `slackwater admin status`, `slackwater top`, the dashboard, `/status`, the live stream,
//! `/readyz` and the metrics all show this list. A problem is here as long as it lasts.

use crate::date::since_epoch_ms;
use crate::facts::{Facts, Phase, ReplicaFacts, ServiceFacts};
use crate::replica_state::{ReplicaState, Why};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use slackwater_core::named;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The fewest requests by which a service is judged.
const REQUESTS_MIN: u64 = 20;
/// The share of failed requests that is a problem, in percent.
const FAILED_PERCENT_MIN: u64 = 5;
/// The share of failed requests from which on that is severe, in percent.
const FAILED_PERCENT_SEVERE: u64 = 50;
/// Replicas that a problem names; the message has the number of further ones.
const NAMES_MAX: usize = 3;
/// A certificate that expires within this time is a problem.
const EXPIRY: Duration = Duration::from_hours(48);

named! {
    /// The kinds of problems, in order of severity, the worst first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ProblemKind by as_str {
        /// All replicas of a service fail.
        AllReplicasFailing = "all_replicas_failing",
        /// A service has no replica that should take requests.
        NoReplica = "no_replica",
        /// An agent's server cannot be connected to.
        Withdrawn = "withdrawn",
        /// A certificate has expired, or expires soon.
        Certificate = "certificate",
        /// Requests to a service fail.
        RequestsFailing = "requests_failing",
        /// A service sheds requests because its queue or its replicas are full.
        RequestsShed = "requests_shed",
        /// Some replicas of a service fail.
        ReplicasFailing = "replicas_failing",
        /// The source of a service's replicas does not answer, or its list is not accepted.
        Discovery = "discovery",
        /// A reload of the configuration failed.
        Reload = "reload",
    }
}

impl ProblemKind {
    /// Returns whether it makes requests fail, now or soon.
    pub const fn is_severe(self) -> bool {
        matches!(
            self,
            Self::AllReplicasFailing | Self::NoReplica | Self::Withdrawn | Self::Certificate
        )
    }
}

/// A problem for display; `docs/reference/admin.md` documents each field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// The name of its kind.
    pub kind: String,
    /// Whether it makes requests fail, now or soon.
    pub severe: bool,
    /// The affected service; `None`: the whole process.
    pub service: Option<String>,
    /// The name of the replica to look at first; `None`: no replica has it, or it has none.
    #[serde(default)]
    pub replica: Option<String>,
    /// What is wrong, in a sentence.
    pub what: String,
    /// Time since when it lasts, in milliseconds since 1970; `None` if unknown.
    pub since_ms: Option<u64>,
    /// The remedy.
    pub remedy: String,
}

/// Collects problems.
#[derive(Debug, Default)]
struct Problems(Vec<(ProblemKind, Problem)>);

impl Problems {
    fn add(
        &mut self,
        kind: ProblemKind,
        service: Option<&ServiceFacts>,
        replica: Option<&ReplicaFacts>,
        since: Option<SystemTime>,
        what: String,
        remedy: &str,
    ) {
        let problem = Problem {
            kind: kind.as_str().to_owned(),
            severe: kind.is_severe(),
            service: service.map(|service| service.name.clone()),
            replica: replica.map(|replica| replica.name.clone()),
            what,
            since_ms: since.map(since_epoch_ms),
            remedy: remedy.to_owned(),
        };
        self.0.push((kind, problem));
    }
}

/// Returns the problems of a process, the worst first.
pub fn problems(facts: &Facts, phase: Phase, now: SystemTime) -> Vec<Problem> {
    let mut found = Problems::default();
    for service in &facts.services {
        of_service(&mut found, service, facts.role);
    }
    if phase == Phase::Withdrawn {
        found.add(
            ProblemKind::Withdrawn,
            None,
            None,
            None,
            "withdrawn: the server cannot be connected to, and requests get 503".to_owned(),
            "start the server, or correct `to`",
        );
    }
    for certificate in &facts.certificates {
        let Some(expires_s) = certificate.expires_s else {
            continue;
        };
        let now_s = i64::try_from(since_epoch_ms(now) / 1_000).unwrap_or(i64::MAX);
        let left_s = expires_s.saturating_sub(now_s);
        if left_s > i64::try_from(EXPIRY.as_secs()).unwrap_or(i64::MAX) {
            continue;
        }
        let when = if left_s <= 0 {
            "has expired".to_owned()
        } else {
            format!("expires in {} hours", left_s / 3_600)
        };
        let (file, purpose) = (&certificate.file, &certificate.purpose);
        found.add(
            ProblemKind::Certificate,
            None,
            None,
            None,
            format!("the certificate in {file} for {purpose} {when}"),
            "write a new certificate to the file; it is taken without a restart",
        );
    }
    if let Some(reloads) = &facts.reloads
        && let Some(failure) = &reloads.failure
    {
        // After a line that only counts the mistakes, the first of them.
        let mut lines = failure.lines();
        let mut first = lines.next().unwrap_or_default().to_owned();
        if first.ends_with(':')
            && let Some(mistake) = lines.next()
        {
            first = format!("{first} {}", mistake.trim());
        }
        found.add(
            ProblemKind::Reload,
            None,
            None,
            reloads.last_at,
            format!("the changed configuration was rejected, the earlier one stays: {first}"),
            "run slackwater check on the file, correct it, and reload",
        );
    }
    // Kinds are declared in order of severity. The sort is stable, so services keep their order.
    found.0.sort_by_key(|(kind, _)| *kind);
    found.0.into_iter().map(|(_, problem)| problem).collect()
}

fn of_service(found: &mut Problems, service: &ServiceFacts, role: &str) {
    let standing = &service.standing;
    if let Some(discovery) = &service.discovery
        && let Some(failure) = &discovery.failure
    {
        let source = &discovery.source;
        found.add(
            ProblemKind::Discovery,
            Some(service),
            None,
            None,
            format!("{source} gives no list of replicas, the last one stays: {failure}"),
            "see whether the source answers; the log has each failure",
        );
    }
    if standing.wanted == 0 {
        let (what, remedy) = of_none(service);
        found.add(
            ProblemKind::NoReplica,
            Some(service),
            service.replicas.first(),
            None,
            what.to_owned(),
            remedy,
        );
        return;
    }
    if standing.all_fail {
        // An agent already reports this about its only server as its phase.
        if role != "agent" {
            let replicas = service.replicas.iter();
            found.add(
                ProblemKind::AllReplicasFailing,
                Some(service),
                replicas.clone().find(|it| it.standing.state.is_alarming()),
                standing.since,
                format!("all {} fail: {}", counted(standing.wanted), standing.why),
                standing.remedy,
            );
        }
        return;
    }
    of_some_replicas(found, service);
    of_requests(found, service);
}

/// What is wrong where no replica should take requests, and what to do.
fn of_none(service: &ServiceFacts) -> (&'static str, &'static str) {
    let reports_draining = |it: &ReplicaFacts| it.standing.why == Why::ReportsDraining;
    if service.replicas.is_empty() {
        let remedy = "add replicas to the list, or see what discovery finds";
        ("there are no replicas, and requests get 503", remedy)
    } else if service.replicas.iter().any(reports_draining) {
        // To the policy these are as good as others of which none may be chosen `[A8]`.
        (
            "all replicas are drained, disabled or report that they drain; requests are still sent to \
             those that report it",
            "start other replicas, or undrain some",
        )
    } else {
        (
            "all replicas are drained or disabled, and requests get 503",
            "undrain some, give them a weight above 0, or add others",
        )
    }
}

/// Requests that failed or were shed of late.
fn of_requests(found: &mut Problems, service: &ServiceFacts) {
    let recent = &service.recent;
    let percent = recent.failed_percent();
    let seconds = recent.span_ms.div_ceil(1_000);
    if recent.requests >= REQUESTS_MIN && percent >= FAILED_PERCENT_MIN {
        let all = recent.requests;
        found.add(
            ProblemKind::RequestsFailing,
            Some(service),
            None,
            None,
            format!(
                "{percent} % of {all} requests failed in the last {seconds} s{}",
                recent.ending()
            ),
            "see which replicas fail, and the decisions of failed requests: slackwater admin decisions --failed",
        );
        if let Some((_, problem)) = found.0.last_mut() {
            problem.severe |= percent >= FAILED_PERCENT_SEVERE && recent.failed_newest != Some(0);
        }
    }
    if recent.shed > 0 {
        let ending = if recent.shed == 1 { "" } else { "s" };
        found.add(
            ProblemKind::RequestsShed,
            Some(service),
            None,
            None,
            format!(
                "{} request{ending} shed in the last {seconds} s: no room in time",
                recent.shed
            ),
            "add replicas, or raise queue.requests_max; slackwater_shed_total has the reasons",
        );
    }
}

/// Adds replicas that fail, by state and reason.
fn of_some_replicas(found: &mut Problems, service: &ServiceFacts) {
    let mut groups = BTreeMap::<(ReplicaState, String), Vec<&ReplicaFacts>>::new();
    for replica in &service.replicas {
        let standing = &replica.standing;
        if standing.state.is_alarming() {
            let group = groups.entry((standing.state, standing.why.to_string()));
            group.or_default().push(replica);
        }
    }
    for ((state, why), replicas) in groups.into_iter().rev() {
        let names: Vec<_> = replicas.iter().map(|it| it.name.as_str()).collect();
        let some = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>();
        let mut which = some.join(", ");
        if let Some(more @ 1..) = names.len().checked_sub(NAMES_MAX) {
            which = format!("{which} and {more} more");
        }
        let since = replicas.iter().filter_map(|it| it.standing.since).min();
        let (out, all) = (names.len(), counted(service.replicas.len()));
        found.add(
            ProblemKind::ReplicasFailing,
            Some(service),
            replicas.first().copied(),
            since,
            format!("{out} of {all} {state}: {which}: {why}"),
            replicas
                .first()
                .map_or("", |replica| replica.standing.why.remedy()),
        );
    }
}

/// `1 replica`, `2 replicas`.
fn counted(replicas: usize) -> String {
    let ending = if replicas == 1 { "" } else { "s" };
    format!("{replicas} replica{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt_failure::FailureKind;
    use crate::facts::{CertificateFacts, RecentFacts, ReloadFacts};
    use crate::replica_state::{ServiceStanding, Standing};

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn replica(name: &str, state: ReplicaState) -> ReplicaFacts {
        let why = match state {
            ReplicaState::Down => Why::NoResponse(FailureKind::Refused),
            _ => Why::Nothing,
        };
        ReplicaFacts {
            name: name.to_owned(),
            standing: Standing {
                state,
                since: Some(at(5)),
                why,
                ..Standing::default()
            },
            ..ReplicaFacts::default()
        }
    }

    fn facts(down: usize, well: usize, standing: ServiceStanding) -> Facts {
        let down = (0..down).map(|place| replica(&format!("d{place}"), ReplicaState::Down));
        let well = (0..well).map(|place| replica(&format!("w{place}"), ReplicaState::Available));
        Facts {
            role: "serve",
            services: vec![ServiceFacts {
                name: "web".to_owned(),
                replicas: down.chain(well).collect(),
                standing,
                ..ServiceFacts::default()
            }],
            ..Facts::default()
        }
    }

    fn told(facts: &Facts) -> Vec<(String, String)> {
        let problems = problems(facts, Phase::Serving, at(1_000_000));
        let told = problems.into_iter().map(|it| (it.kind, it.what));
        told.collect()
    }

    fn partly(wanted: usize) -> ServiceStanding {
        ServiceStanding {
            wanted,
            taking: 1,
            ..ServiceStanding::default()
        }
    }

    #[test]
    fn healthy_process_has_no_problems() {
        assert_eq!(told(&facts(0, 3, partly(3))), []);
        assert_eq!(told(&Facts::default()), []);
    }

    #[test]
    fn problem_names_three_of_many_failing_replicas() {
        let [(kind, what)] = &told(&facts(5, 1, partly(6)))[..] else {
            panic!("one group");
        };
        assert_eq!(kind, "replicas_failing");
        assert_eq!(
            what,
            "5 of 6 replicas down: d0, d1, d2 and 2 more: connection refused"
        );
        let [(_, what)] = &told(&facts(1, 1, partly(2)))[..] else {
            panic!("one group");
        };
        assert_eq!(what, "1 of 2 replicas down: d0: connection refused");
    }

    #[test]
    fn all_replicas_failing_hides_other_problems_of_the_service() {
        let mut facts = facts(
            2,
            0,
            ServiceStanding {
                all_fail: true,
                since: Some(at(7)),
                why: "connection refused".to_owned(),
                remedy: "start the server",
                wanted: 2,
                ..ServiceStanding::default()
            },
        );
        facts.services[0].recent = RecentFacts {
            requests: 100,
            failed: 100,
            ..RecentFacts::default()
        };
        let problems = problems(&facts, Phase::Serving, at(9));
        let [problem] = &problems[..] else {
            panic!("{problems:?}");
        };
        assert_eq!(problem.kind, "all_replicas_failing");
        assert_eq!(problem.what, "all 2 replicas fail: connection refused");
        assert_eq!(problem.since_ms, Some(7_000));
        assert!(problem.severe);
    }

    #[test]
    fn failing_requests_need_twenty_requests_and_five_percent() {
        for (requests, failed, is_problem) in [
            (19, 19, false),
            (20, 0, false),
            (20, 1, true),
            (100, 4, false),
            (100, 5, true),
            (100, 49, true),
            (100, 50, true),
        ] {
            let mut facts = facts(0, 1, partly(1));
            facts.services[0].recent = RecentFacts {
                span_ms: 10_000,
                requests,
                failed,
                ..RecentFacts::default()
            };
            let told = told(&facts);
            assert_eq!(told.len(), usize::from(is_problem), "{told:?}");
            let problems = problems(&facts, Phase::Serving, at(9));
            let severe = problems.iter().any(|problem| problem.severe);
            assert_eq!(severe, failed == 50, "{problems:?}");
            facts.services[0].recent.failed_newest = Some(0);
            let problems = super::problems(&facts, Phase::Serving, at(9));
            assert!(!problems.iter().any(|problem| problem.severe));
            let ending = "failed in the last 10 s, none in the last 2 s";
            let says_so = problems
                .iter()
                .any(|problem| problem.what.ends_with(ending));
            assert_eq!(says_so, is_problem, "{problems:?}");
        }
    }

    #[test]
    fn shed_requests_are_a_problem() {
        let mut facts = facts(0, 1, partly(1));
        facts.services[0].recent = RecentFacts {
            span_ms: 9_500,
            shed: 2,
            ..RecentFacts::default()
        };
        let told = told(&facts);
        let what = "2 requests shed in the last 10 s: no room in time";
        assert_eq!(told, [("requests_shed".to_owned(), what.to_owned())]);
    }

    #[test]
    fn no_replica_problem_states_the_effect_on_requests() {
        let what = |whys: &[Why]| {
            let mut facts = facts(0, whys.len(), ServiceStanding::default());
            for (replica, why) in facts.services[0].replicas.iter_mut().zip(whys) {
                replica.standing.why = why.clone();
            }
            let problems = problems(&facts, Phase::Serving, at(9));
            let [problem] = &problems[..] else {
                panic!("{problems:?}");
            };
            assert_eq!(problem.kind, "no_replica");
            assert_eq!(problem.replica.is_some(), !whys.is_empty());
            problem.what.clone()
        };
        assert!(what(&[]).ends_with("no replicas, and requests get 503"));
        assert!(what(&[Why::Drained, Why::NoWeight]).ends_with("disabled, and requests get 503"));
        assert!(what(&[Why::Drained, Why::ReportsDraining]).contains("requests are still sent"));
    }

    #[test]
    fn rejected_reload_names_the_first_mistake() {
        for (failure, what) in [
            ("no such file", "stays: no such file"),
            (
                "2 mistakes in the configuration:\na.toml:3:1: key: unknown\n 3 | key",
                "stays: 2 mistakes in the configuration: a.toml:3:1: key: unknown",
            ),
        ] {
            let mut facts = facts(1, 1, ServiceStanding::default());
            facts.reloads = Some(ReloadFacts {
                failure: Some(failure.to_owned()),
                ..ReloadFacts::default()
            });
            let problems = told(&facts);
            let (_, problem) = problems.last().expect("one");
            assert!(problem.ends_with(what), "{problem}");
        }
    }

    #[test]
    fn problems_are_sorted_by_severity() {
        let mut facts = facts(0, 0, ServiceStanding::default());
        facts.reloads = Some(ReloadFacts {
            failure: Some("line 3: unknown key\nand more".to_owned()),
            ..ReloadFacts::default()
        });
        let certificate = |expires_s| CertificateFacts {
            names: Vec::new(),
            purpose: "listener web".to_owned(),
            file: "web.pem".to_owned(),
            expires_s: Some(expires_s),
        };
        facts.certificates = vec![
            certificate(999_999),
            certificate(1_007_200),
            certificate(1_172_800),
            certificate(1_172_801),
        ];
        let told = told(&facts);
        let kinds: Vec<_> = told.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(
            kinds,
            [
                "no_replica",
                "certificate",
                "certificate",
                "certificate",
                "reload"
            ]
        );
        assert!(told[1].1.ends_with("has expired"), "{told:?}");
        assert!(told[2].1.ends_with("expires in 2 hours"), "{told:?}");
        assert!(told[3].1.ends_with("expires in 48 hours"), "{told:?}");
        assert!(told[4].1.ends_with("line 3: unknown key"), "{told:?}");
    }
}
