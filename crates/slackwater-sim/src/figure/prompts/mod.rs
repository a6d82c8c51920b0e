//! Conversations with a language model: which rule gets a turn to its first token soonest, where
//! engines are equal, one is slow, one restarts, or many sessions begin at once.

mod cases;
mod findings;
#[cfg(test)]
mod tests;

use super::{Cell, Effort, Figure, Findings, Played, Words};
use cases::{CASES, RULES};
use std::sync::Arc;

/// Seconds of a run.
const WARMUP_SECONDS: u64 = 120;
const SPAN_SECONDS: u64 = 180;

/// The comparison of rules for conversations.
#[derive(Debug)]
pub(super) struct Prompts;

impl Figure for Prompts {
    fn words(&self) -> Words {
        Words {
            name: "prompts",
            title: "Prompts: conversations with a language model, and engines that cache prefixes",
            about: "16 inference engines, modelled on vLLM with Qwen3-32B on two A100 each: batches that change at each step, prompts read in pieces beside answers in progress, \
         a prefix cache of 281,600 tokens. Sessions of 8 turns in the mean, whose prompts have 11,000 tokens in the mean, think for 20 s between turns. \
         Rules side by side: policies that see no session, hashes of the session, sticky sessions, scores of prefix, queue and memory as endpoint pickers add them up, and \
         synchronous probes that carry the prompt's hint. Latency is the time to the first token. Ratios are seed by seed: the geometric mean with its 95 % interval.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for case in CASES {
            for rule in RULES {
                let scenario = case.scenario(*rule);
                let scenario = effort.spend_on(scenario, WARMUP_SECONDS, SPAN_SECONDS);
                let mut scenario = Arc::unwrap_or_clone(scenario);
                case.trouble(&mut scenario);
                if let Some(policy) = rule.choice() {
                    let load = f64::from(case.rate);
                    cells.push(Cell::of(case.step(), load, policy, &Arc::new(scenario)));
                }
            }
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        findings::findings(played)
    }
}
