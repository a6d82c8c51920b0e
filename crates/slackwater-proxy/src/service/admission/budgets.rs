//! The budgets for further copies of a service's requests, as they are reported.

use super::counts::ServiceCounts;
use slackwater_config::ServiceConfig;
use slackwater_core::tail::RetryBudgetConfig;
use slackwater_telemetry::facts::BudgetFacts;

const MILLIONTHS: u64 = 1_000_000;

/// Sizes of the budgets of a worker's part of a service.
#[derive(Clone, Debug)]
pub(crate) struct Budgets {
    retry: RetryBudgetConfig,
    /// In copies; `None` if there is no budget.
    hedge: Option<u32>,
    tie: Option<u32>,
}

impl Budgets {
    pub(crate) fn new(config: &ServiceConfig) -> Self {
        let (hedge, tie) = (&config.hedge, &config.tie);
        Self {
            retry: config.retries.budget.clone(),
            hedge: hedge.enabled.then_some(hedge.rules.burst),
            tie: tie.enabled.then_some(tie.burst),
        }
    }

    /// Returns what is left of each budget now.
    pub(crate) fn facts(&self, counts: &ServiceCounts) -> Vec<BudgetFacts> {
        let awaited = u32::try_from(counts.awaited.read()).unwrap_or(u32::MAX);
        let retries_max = u64::from(self.retry.retries_max(awaited));
        let retries_left = retries_max.saturating_sub(counts.retries_out.read());
        let retry = BudgetFacts {
            name: "retry",
            left_millionths: retries_left * MILLIONTHS,
            size_millionths: retries_max * MILLIONTHS,
        };
        let purse = |name, burst: Option<u32>, saved: u64| {
            Some(BudgetFacts {
                name,
                left_millionths: saved,
                size_millionths: u64::from(burst?) * MILLIONTHS,
            })
        };
        let hedge = purse("hedge", self.hedge, counts.hedges_saved.read());
        let tie = purse("tie", self.tie, counts.ties_saved.read());
        [Some(retry), hedge, tie].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::policy::Settings;
    use slackwater_core::tail::RetryBudgetSettings;

    #[test]
    fn the_balance_of_each_budget_is_reported() {
        let counts = ServiceCounts::default();
        let retry = RetryBudgetSettings::default();
        let budgets = Budgets {
            retry: retry.validate().expect("defaults"),
            hedge: Some(10),
            tie: None,
        };
        let told = || -> Vec<_> {
            let facts = budgets.facts(&counts).into_iter();
            facts
                .map(|it| (it.name, it.left_millionths, it.size_millionths))
                .collect()
        };
        let hedge = ("hedge", 2_500_000, 10_000_000);
        counts.hedges_saved.set(2_500_000);
        // A fifth, but at least three.
        assert_eq!(told(), [("retry", 3_000_000, 3_000_000), hedge]);
        counts.awaited.set(50);
        counts.retries_out.set(4);
        assert_eq!(told(), [("retry", 6_000_000, 10_000_000), hedge]);
        counts.awaited.set(0);
        assert_eq!(told()[0], ("retry", 0, 3_000_000));
    }
}
