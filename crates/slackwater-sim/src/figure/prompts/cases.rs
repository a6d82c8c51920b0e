//! The cells: fleets of engines under a load, and the rules.

use crate::figure::cells::default_settings;
use crate::scenario::InferenceSettings;
use crate::scenario::{
    Answers, Burst, Cost, Group, Load, Probes, Prompts, Restart, Routing, Service, TokenCount,
};
use crate::{PolicyChoice, Scenario};
use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::policy::{DEFAULT_POLICY, PolicySettings};

/// Engines of each fleet.
pub(super) const ENGINES: usize = 16;
/// The slow engine takes this many times as long.
const SLOWNESS: f64 = 3.0;
/// How long a turn may wait for its first token after the measured span.
const DEADLINE: Duration = Duration::from_mins(2);

/// A fleet under a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) trouble: Trouble,
    /// Turns a second.
    pub(super) rate: u32,
    pub(super) balancers: usize,
}

/// What is different from equal engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing.
    Equal,
    /// One engine has a third of the others' speed.
    Slow,
    /// One engine restarts, and comes back 20 s later with an empty cache.
    Restart,
    /// Within 5 s, 60 sessions begin that share a new system prompt.
    Burst,
}

use Trouble::{Burst as Rush, Equal, Restart as Again, Slow};

const fn case(trouble: Trouble, rate: u32, balancers: usize) -> Case {
    Case {
        trouble,
        rate,
        balancers,
    }
}

/// Every case, in the order of the report.
pub(super) const CASES: [Case; 8] = [
    case(Equal, 4, 1),
    case(Equal, 8, 1),
    case(Equal, 12, 1),
    case(Slow, 8, 1),
    case(Slow, 12, 1),
    case(Again, 8, 1),
    case(Rush, 8, 1),
    case(Equal, 8, 4),
];

impl Case {
    /// Returns the name of the step in the results.
    pub(super) fn step(self) -> String {
        let trouble = match self.trouble {
            Equal => "equal",
            Slow => "one-slow",
            Again => "restart",
            Rush => "burst",
        };
        let balancers = match self.balancers {
            1 => String::new(),
            more => format!("-x{more}"),
        };
        format!("{trouble}-{}{balancers}", self.rate)
    }

    /// Returns the case under a rule, without the length of its run.
    pub(super) fn scenario(self, rule: Rule) -> Scenario {
        let healthy = Group::healthy(ENGINES, Service::Latency);
        let mut fleet = vec![healthy];
        if self.trouble == Slow {
            fleet[0].count -= 1;
            let mut slow = Group::healthy(1, Service::Latency);
            slow.slowness = SLOWNESS;
            fleet.push(slow);
        }
        let mut load = Load::even(f64::from(self.rate), self.balancers);
        load.prompts = Some(Box::new(prompts(rule.routing)));
        // Costs are those of prompts.
        let cost = Cost::Fixed(Duration::from_secs(1));
        Scenario {
            deadline: DEADLINE,
            ..Scenario::plain(load, cost, fleet)
        }
    }

    /// Adds the trouble that happens during the measured span, after an eighth of it.
    pub(super) fn trouble(self, scenario: &mut Scenario) {
        let at = scenario.warmup + scenario.span / 8;
        let Some(prompts) = &mut scenario.load.prompts else {
            return;
        };
        match self.trouble {
            Equal | Slow => {}
            Again => {
                prompts.restart = Some(Restart {
                    engine: 0,
                    at,
                    down_for: Duration::from_secs(20),
                });
            }
            Rush => {
                prompts.burst = Some(Burst {
                    at,
                    sessions: 60,
                    within: Duration::from_secs(5),
                    system_tokens: 8_000,
                });
            }
        }
    }
}

/// The conversations of every case: of assistants with tools, whose system prompts are long and
/// whose messages carry what tools return. Prompts have some 11,000 tokens in the mean, of which a
/// tenth is new.
fn prompts(routing: Routing) -> Prompts {
    Prompts {
        engine: InferenceSettings::QWEN3_32B,
        turns: 8.0,
        think: Duration::from_secs(20),
        systems: 32,
        zipf: 1.0,
        system_tokens: [1_000, 8_000],
        message: TokenCount {
            mean: 900.0,
            sigma: 1.0,
        },
        answer: TokenCount {
            mean: 250.0,
            sigma: 0.8,
        },
        context_max: 32_000,
        burst: None,
        restart: None,
        routing,
    }
}

/// A rule as it is played: the policy and the routing around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rule {
    /// Its name in the results.
    pub(super) name: &'static str,
    policy: &'static str,
    routing: Routing,
}

const fn policy(name: &'static str) -> Rule {
    with(name, name, Routing::Policy)
}

/// A rule that chooses by itself. Its policy only charges the choice, and sends no probes.
const fn rule(name: &'static str, routing: Routing) -> Rule {
    with(name, LEAST_LOADED, routing)
}

/// A rule around a policy.
const fn with(name: &'static str, policy: &'static str, routing: Routing) -> Rule {
    Rule {
        name,
        policy,
        routing,
    }
}

const fn probes(homes: usize, last: bool, others: usize) -> Routing {
    Routing::Probes(Probes {
        homes,
        last,
        others,
        miss_weight: 0.0,
    })
}

const fn keyed(answers: Answers) -> Routing {
    Routing::Keyed { answers }
}

pub(super) const LEAST_LOADED: &str = "least_loaded";
pub(super) const HASH: &str = "session hash";
pub(super) const BOUNDED: &str = "bounded hash 1.25";
pub(super) const STICKY: &str = "sticky";
pub(super) const SCALED: &str = "probes, scaled load";
pub(super) const DELAY: &str = "probes, expected delay";
pub(super) const ALL_ANSWERS: &str = "probes, expected delay, all answers";
pub(super) const ESCAPE: &str = "sticky, probes, expected delay";

/// Every rule, in the order of the report.
pub(super) const RULES: &[Rule] = &[
    policy(LEAST_LOADED),
    policy("round_robin"),
    policy(DEFAULT_POLICY.name),
    rule(HASH, Routing::SessionHash),
    rule(BOUNDED, Routing::BoundedHash { factor: 1.25 }),
    with(STICKY, DEFAULT_POLICY.name, Routing::Sticky),
    with(
        "keyed default",
        DEFAULT_POLICY.name,
        keyed(Answers::ScaledLoad),
    ),
    rule("prefix scores", Routing::PrefixScore { exact: false }),
    rule("prefix scores, exact", Routing::PrefixScore { exact: true }),
    with(SCALED, SYNC, keyed(Answers::ScaledLoad)),
    with(DELAY, SYNC, keyed(Answers::ExpectedDelay)),
    rule(ALL_ANSWERS, probes(2, false, 1)),
    rule(ESCAPE, probes(0, true, 2)),
    rule(
        "sticky, reports",
        Routing::StickyReports { miss_weight: 0.0 },
    ),
];

/// Prequal with synchronous probes.
const SYNC: &str = "prequal_sync";

impl Rule {
    /// Returns the policy under the rule's name; `None` if there is none of that name. Where
    /// engines answer with the expected delay of the prompt, no engine is hot: the delay has its
    /// queue.
    pub(super) fn choice(self) -> Option<PolicyChoice> {
        let settings = match self.routing {
            Routing::Keyed {
                answers: Answers::ExpectedDelay,
            } => default_settings(|prequal| prequal.rif_limit_quantile = Quantile::ONE)?,
            _ => PolicySettings::default(),
        };
        Some(PolicyChoice::with_settings(self.policy, settings)?.called(self.name))
    }
}
