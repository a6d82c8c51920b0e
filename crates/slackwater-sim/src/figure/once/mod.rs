//! Beyond one right choice: what helps after or beside the choice of a replica, compared with
//! clairvoyants that know every replica's true load but choose once for each query.

mod cases;
mod findings;
mod rules;
#[cfg(test)]
mod tests;

use super::{Cell, Effort, Figure, Findings, Played, Words};
use crate::PolicyChoice;
use cases::WORLDS;
use slackwater_core::policy::DEFAULT_POLICY;

/// The variants of each world, under the default policy and the clairvoyants.
#[derive(Debug)]
pub(super) struct Once;

/// The policy that is judged.
const DEFAULT: &str = DEFAULT_POLICY.name;
/// A clairvoyant that counts the requests in flight, for each replica's true capacity.
const COUNTING: &str = "jsq_weighted";
/// A clairvoyant that also knows the work that each of them still needs, and that of the query.
const SIZING: &str = "greedy";

impl Figure for Once {
    fn words(&self) -> Words {
        Words {
            name: "once",
            title: "Beyond one right choice: classes, queues and second copies",
            about: "A clairvoyant sees every replica, but it chooses once for each query. What is left to gain when that choice is right? The default policy \
         and two clairvoyants, jsq_weighted and greedy, play seven worlds as they are. They play them again with something else: \
         long queries with replicas of their own, or counted as more requests in flight, by the true class of each query; replicas that serve as many queries as they have \
         cores and queue the others, in order of arrival, the shortest first, or the shortest remaining first; two tied copies before such queues; replicas that reject what \
         would be late, and clients that cancel it; a second copy of the latest 5 % of queries, from any replica or only from one that has a core free for it. All clients of \
         a world wait equally long, so the order of arrival is also that of deadlines. The testbed's replicas have no queues, because no limit fits a capacity that varies. \
         Ratios are seed by seed: the geometric mean with its 95 % interval. The clairvoyant's number is that of the better of the two.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for world in WORLDS {
            for variant in world.variants() {
                let scenario = world.scenario(variant);
                let scenario = effort.spend_on(scenario, world.warmup_seconds, world.span_seconds);
                let policies: &[&str] = if variant.is_for_clairvoyants() {
                    &[DEFAULT, COUNTING, SIZING]
                } else {
                    &[DEFAULT]
                };
                let policies = policies.iter().copied().filter_map(PolicyChoice::named);
                cells.extend(policies.map(|policy| {
                    Cell::of(world.name, world.load, policy, &scenario).with_param(variant.param())
                }));
            }
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        findings::findings(played)
    }
}
