//! Checks of conversations with a language model.

use super::TIME_MAX;
use super::checks::{Checks, above};
use crate::scenario::InferenceSettings;
use crate::scenario::{Prompts, Routing, TokenCount};
use core::time::Duration;

/// The longest step of an engine, in nanoseconds, and the longest part of one.
const STEP_MAX: f64 = 1e12;
/// The most blocks and sequences of an engine, and the most tokens anywhere.
const COUNT_MAX: usize = 10_000_000;
/// The widest spread of the logarithm of a number of tokens.
const SIGMA_MAX: f64 = 3.0;

impl Prompts {
    /// Checks the conversations of a scenario with this many engines.
    pub(super) fn check(&self, engines: usize, checks: &mut Checks) {
        checks.within("engine", |checks| check_engine(&self.engine, checks));
        checks.number("turns", self.turns, 1.0..=1e6);
        checks.time("think", self.think, above(Duration::ZERO, TIME_MAX));
        checks.count("systems", self.systems, 1..=COUNT_MAX);
        checks.number("zipf", self.zipf, 0.0..=10.0);
        let [least, most] = self.system_tokens;
        checks.that("system_tokens", least >= 1 && least <= most, || {
            format!("is {least} to {most}, and must be a range from 1 up")
        });
        checks.within("message", |checks| check_tokens(self.message, checks));
        checks.within("answer", |checks| check_tokens(self.answer, checks));
        checks.count("context_max", self.context_max as usize, 1..=COUNT_MAX);
        if let Some(burst) = self.burst {
            checks.time("burst.at", burst.at, Duration::ZERO..=TIME_MAX);
            checks.time("burst.within", burst.within, Duration::ZERO..=TIME_MAX);
            checks.count("burst.sessions", burst.sessions as usize, 0..=COUNT_MAX);
            let tokens = burst.system_tokens as usize;
            checks.count("burst.system_tokens", tokens, 1..=COUNT_MAX);
        }
        if let Some(restart) = self.restart {
            checks.count(
                "restart.engine",
                restart.engine,
                super::checks::below(engines),
            );
            checks.time("restart.at", restart.at, Duration::ZERO..=TIME_MAX);
            checks.time(
                "restart.down_for",
                restart.down_for,
                Duration::ZERO..=TIME_MAX,
            );
        }
        match self.routing {
            Routing::BoundedHash { factor } => checks.number("factor", factor, 1.0..=1e3),
            Routing::Probes(probes) => {
                let all = probes.homes + usize::from(probes.last) + probes.others;
                checks.count("probes", all, 1..=engines.max(1));
                checks.number("miss_weight", probes.miss_weight, 0.0..=1e3);
            }
            Routing::StickyReports { miss_weight } => {
                checks.number("miss_weight", miss_weight, 0.0..=1e3);
            }
            Routing::Policy
            | Routing::SessionHash
            | Routing::Sticky
            | Routing::Keyed { .. }
            | Routing::PrefixScore { .. } => {}
        }
    }
}

fn check_engine(engine: &InferenceSettings, checks: &mut Checks) {
    checks.number("step_ns", engine.step_ns, 1.0..=STEP_MAX);
    for (name, ns) in [
        ("answer_ns", engine.answer_ns),
        ("context_token_ns", engine.context_token_ns),
        ("prompt_token_ns", engine.prompt_token_ns),
    ] {
        checks.number(name, ns, 0.0..=STEP_MAX);
    }
    let tokens = engine.tokens_per_step as usize;
    checks.count("tokens_per_step", tokens, 1..=COUNT_MAX);
    checks.count("sequences_max", engine.sequences_max, 1..=COUNT_MAX);
    checks.count("block_tokens", engine.block_tokens as usize, 1..=COUNT_MAX);
    checks.count("blocks", engine.blocks, 1..=COUNT_MAX);
}

fn check_tokens(tokens: TokenCount, checks: &mut Checks) {
    checks.number("mean", tokens.mean, 1.0..=1e5);
    checks.number("sigma", tokens.sigma, 0.0..=SIGMA_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Cost, Group, Load, Scenario, Service};

    /// Returns the mistakes of conversations with a change.
    fn mistakes(change: impl FnOnce(&mut Prompts)) -> Vec<String> {
        let tokens = TokenCount {
            mean: 100.0,
            sigma: 1.0,
        };
        let mut prompts = Prompts {
            engine: InferenceSettings::QWEN3_32B,
            turns: 8.0,
            think: Duration::from_secs(20),
            systems: 32,
            zipf: 1.0,
            system_tokens: [1_000, 8_000],
            message: tokens,
            answer: tokens,
            context_max: 32_000,
            burst: None,
            restart: None,
            routing: Routing::Sticky,
        };
        change(&mut prompts);
        let mut load = Load::even(8.0, 1);
        load.prompts = Some(Box::new(prompts));
        let fleet = vec![Group::healthy(2, Service::Latency)];
        let cost = Cost::Fixed(Duration::from_secs(1));
        let found = Scenario::plain(load, cost, fleet).mistakes();
        found.into_iter().map(|mistake| mistake.field).collect()
    }

    #[test]
    fn values_out_of_range_are_mistakes() {
        assert!(mistakes(|_| {}).is_empty());
        let found = mistakes(|prompts| {
            prompts.turns = 0.5;
            prompts.engine.blocks = 0;
            prompts.engine.step_ns = f64::NAN;
            prompts.system_tokens = [2, 1];
            prompts.answer.mean = 0.0;
        });
        let restart = mistakes(|prompts| {
            prompts.restart = Some(crate::scenario::Restart {
                engine: 2,
                at: Duration::ZERO,
                down_for: Duration::ZERO,
            });
        });
        assert_eq!(restart, ["load.prompts.restart.engine"]);
        let expected = [
            "engine.step_ns",
            "engine.blocks",
            "turns",
            "system_tokens",
            "answer.mean",
        ];
        assert_eq!(found, expected.map(|field| format!("load.prompts.{field}")));
    }
}
