//! How many further attempts are allowed: retries as a share of the queries in flight, second
//! copies as a share of all queries.
//!
//! An overloaded fleet fails queries. If each failure caused another query, the load would grow as
//! the fleet falls behind, and the fleet would not recover. So retries are limited to a share of
//! the queries in flight. A share of a few queries would allow none, so a few retries are always
//! allowed. Envoy's clusters have the same rule and the same two numbers (`retry_budget`: 20 %, at
//! least 3). Finagle and Linkerd instead pay 20 % of queries into a token bucket, which bounds the
//! ratio exactly but needs a clock and a rate at which an idle client may still retry.
//!
//! Second copies, and trials of replicas that are out, use such a bucket ([`Tokens`]). They respond
//! to no failure, so nothing is lost without them, and their cost is promised as a share of the
//! load. A share of the queries in flight would not bound it: each copy that ends soon would allow
//! the next one.

use crate::fixed::{ONE, Quantile};
use crate::policy::{ConfigError, Settings, Valid};

/// The settings of [`RetryBudget`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryBudgetSettings {
    /// Retries at a time, as a share of the queries in flight: 0 to 1, default 0.2. At 0 only
    /// `retries_min` counts, at 1 every query may be a retry.
    pub share: Quantile,
    /// Retries allowed at a time with any number of queries in flight: 0 to 1,024, default 3. At 0
    /// with a share of 0 there are no retries at all.
    pub retries_min: u32,
}

impl RetryBudgetSettings {
    /// Retries allowed at a time while `queries` are in flight without a response head:
    /// max(⌊`share` · `queries`⌋, `retries_min`).
    pub fn retries_max(&self, queries: u32) -> u32 {
        let share = u64::from(queries) * u64::from(self.share.millionths()) / u64::from(ONE);
        // This is at most `queries`, as a share is at most 1.
        u32::try_from(share).map_or(queries, |share| share.max(self.retries_min))
    }
}

/// Settings that make sense.
pub type RetryBudgetConfig = Valid<RetryBudgetSettings>;

impl Default for RetryBudgetSettings {
    fn default() -> Self {
        Self {
            share: Quantile::from_millionths(ONE / 5).unwrap_or(Quantile::ZERO),
            retries_min: 3,
        }
    }
}

impl Settings for RetryBudgetSettings {
    fn check(&self) -> Result<(), ConfigError> {
        crate::policy::require(self.retries_min <= 1024, "retries_min", "at most 1024")
    }
}

/// Counts the retries in flight.
#[derive(Clone, Debug, Default)]
pub struct RetryBudget {
    config: RetryBudgetConfig,
    retries: u32,
}

impl RetryBudget {
    /// A budget of which nothing is spent.
    pub const fn new(config: RetryBudgetConfig) -> Self {
        Self { config, retries: 0 }
    }

    /// Takes a permit for a retry, if fewer retries are in flight than
    /// [`RetryBudgetSettings::retries_max`]. `queries` are those in flight without a response head,
    /// including the one to retry. The caller returns the permit with [`RetryBudget::end`].
    #[must_use = "a place that is taken has to be given back"]
    pub fn begin(&mut self, queries: u32) -> bool {
        let has_room = self.retries < self.config.retries_max(queries);
        if has_room {
            self.retries += 1;
        }
        has_room
    }

    /// Returns the permit of a retry that has its response, or has failed too.
    pub const fn end(&mut self) {
        self.retries = self.retries.saturating_sub(1);
    }

    /// Retries in flight.
    pub const fn retries(&self) -> u32 {
        self.retries
    }
}

/// Limits the second copies that are tied but that no replica drops: they are work done twice.
/// `[H2]`
///
/// Each copy is paid for when it is sent, and refunded when either copy is dropped. So if replicas
/// honour ties, every waiting query may have a second copy. If they do not support ties, the load
/// hardly grows.
#[derive(Clone, Debug)]
pub struct TieBudget(Tokens);

impl TieBudget {
    /// A budget of `share` of the queries. It starts with enough for `saved_max` copies, and never
    /// has more.
    pub fn new(share: Quantile, saved_max: u32) -> Self {
        let mut tokens = Tokens::new(share, saved_max);
        tokens.saved = tokens.max;
        Self(tokens)
    }

    /// Adds the share of a query that may be tied.
    pub fn earn(&mut self) {
        self.0.earn();
    }

    /// Pays for a second copy. Returns `false` if the budget is not enough.
    #[must_use = "a copy that is not paid for must not go out"]
    pub fn pay(&mut self) -> bool {
        self.0.pay()
    }

    /// Refunds a copy: it was not sent, or one of the two was dropped.
    pub fn refund(&mut self) {
        self.0.refund();
    }

    /// The balance, in millionths of a copy.
    pub const fn saved_millionths(&self) -> u64 {
        self.0.saved_millionths()
    }
}

/// A token bucket that queries fill and that second copies or trials are paid from.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    /// What a query pays in, as a share of the price of a copy or trial.
    share: Quantile,
    max: u64,
    /// The balance, in millionths of that price.
    saved: u64,
}

impl Tokens {
    /// An empty bucket, which holds the price of at most `saved_max` copies or trials.
    pub(crate) fn new(share: Quantile, saved_max: u32) -> Self {
        Self {
            share,
            max: u64::from(saved_max) * u64::from(ONE),
            saved: 0,
        }
    }

    /// The balance, in millionths of the price of one.
    pub(crate) const fn saved_millionths(&self) -> u64 {
        self.saved
    }

    /// Adds the share of one query.
    pub(crate) fn earn(&mut self) {
        self.saved = (self.saved + u64::from(self.share.millionths())).min(self.max);
    }

    /// Whether the balance is enough for one.
    pub(crate) fn has_one(&self) -> bool {
        self.has(1)
    }

    /// Whether the balance is enough for `further` of them.
    pub(crate) fn has(&self, further: u32) -> bool {
        self.saved >= u64::from(further) * u64::from(ONE)
    }

    /// Pays for one that is sent in any case, with what there is if that is not enough.
    pub(crate) fn spend(&mut self) {
        self.saved = self.saved.saturating_sub(u64::from(ONE));
    }

    /// Pays for a copy. Returns `false` if the balance is not enough. So there are never more than
    /// ⌊`share` · queries⌋ copies.
    #[must_use]
    pub(super) fn pay(&mut self) -> bool {
        let is_enough = self.has_one();
        if is_enough {
            self.spend();
        }
        is_enough
    }

    /// Refunds a copy that was not sent.
    pub(super) fn refund(&mut self) {
        self.saved = (self.saved + u64::from(ONE)).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::check_ranges;

    #[test]
    fn tied_copies_cost_budget_unless_dropped() {
        let tenth = Quantile::from_millionths(ONE / 10).expect("a share");
        let mut budget = TieBudget::new(tenth, 2);
        assert!(
            budget.pay() && budget.pay(),
            "there is something to begin with"
        );
        assert!(!budget.pay());
        budget.refund();
        assert!(budget.pay() && !budget.pay());
        let paid = (0..1000).filter(|_| {
            budget.earn();
            budget.pay()
        });
        assert_eq!(paid.count(), 100);
        // If one copy is always dropped, any number is affordable.
        budget.refund();
        for _ in 0..1000 {
            assert!(budget.pay());
            budget.refund();
        }
        for _ in 0..1000 {
            budget.earn();
        }
        let saved = (0..9).filter(|_| budget.pay()).count();
        assert_eq!(saved, 2, "no more is saved");
    }

    #[test]
    fn refund_adds_nothing_to_a_full_budget() {
        let mut budget = TieBudget::new(Quantile::ZERO, 2);
        budget.refund();
        assert_eq!(budget.saved_millionths(), 2 * u64::from(ONE));
        assert!(budget.pay());
        budget.refund();
        budget.refund();
        assert_eq!(budget.saved_millionths(), 2 * u64::from(ONE));
    }

    #[test]
    fn copies_never_exceed_their_share_of_queries() {
        let mut tokens = Tokens::new(Quantile::from_millionths(20_000).expect("2 %"), 10);
        let mut copies = 0;
        for queries in 1..=10_000_u32 {
            tokens.earn();
            copies += u32::from(tokens.pay());
            assert_eq!(copies, queries / 50);
        }
    }

    #[test]
    fn saved_tokens_are_bounded_and_refunds_are_reusable() {
        let mut tokens = Tokens::new(Quantile::ONE, 3);
        assert!(!tokens.pay(), "nothing is saved at first");
        for _ in 0..100 {
            tokens.earn();
        }
        for _ in 0..3 {
            assert!(tokens.pay());
        }
        assert!(!tokens.pay());
        tokens.refund();
        assert!(tokens.pay());
        assert!(!tokens.pay());
    }

    fn budget(share_millionths: u32, retries_min: u32) -> RetryBudget {
        let settings = RetryBudgetSettings {
            share: Quantile::from_millionths(share_millionths).expect("at most 1"),
            retries_min,
        };
        RetryBudget::new(settings.validate().expect("in range"))
    }

    /// How many retries are allowed at a time with `queries` in flight.
    fn room(budget: &mut RetryBudget, queries: u32) -> u32 {
        while budget.begin(queries) {
            assert!(budget.retries() <= queries + 10, "no end of retries");
        }
        budget.retries()
    }

    #[test]
    fn default_retry_budget_is_a_fifth_of_queries_and_at_least_three() {
        for (queries, retries) in [
            (0, 3),
            (1, 3),
            (19, 3),
            (20, 4),
            (24, 4),
            (25, 5),
            (1000, 200),
        ] {
            assert_eq!(
                room(&mut RetryBudget::default(), queries),
                retries,
                "{queries}"
            );
        }
    }

    #[test]
    fn extreme_budgets_allow_none_or_all() {
        assert_eq!(room(&mut budget(0, 0), 1000), 0);
        assert_eq!(room(&mut budget(0, 2), 1000), 2);
        assert_eq!(room(&mut budget(ONE, 0), 1000), 1000);
    }

    #[test]
    fn returned_permit_can_be_reused() {
        let mut budget = budget(0, 1);
        assert!(budget.begin(9));
        assert!(!budget.begin(9));
        budget.end();
        assert_eq!(budget.retries(), 0);
        assert!(budget.begin(9));
    }

    #[test]
    fn shrinking_budget_keeps_running_retries_and_allows_no_new_one() {
        let mut budget = budget(ONE / 2, 0);
        assert_eq!(room(&mut budget, 10), 5);
        assert!(!budget.begin(4));
        assert_eq!(budget.retries(), 5);
    }

    #[test]
    fn settings_out_of_range_are_rejected() {
        check_ranges::<RetryBudgetSettings>(&[("retries_min", |s| s.retries_min = 1025)]);
    }
}
