//! The claims: two results of a world, and the range of their ratio.

use super::cases::Variant::{self, Once, Queue, Rejecting, Tied};
use crate::scenario::Order::{Arrival, ShortestRemaining};
use core::ops::RangeInclusive;

/// The players of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Player {
    /// The default policy.
    Default,
    /// The better of the two clairvoyants.
    Clairvoyant,
    /// The one that counts requests in flight.
    Counting,
    /// The one that knows the work of each query.
    Sizing,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Mean,
    P99,
    P999,
    ShortMean,
    ShortP99,
    Errors,
    /// CPU time.
    Work,
}

/// One claim in one world.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) world: &'static str,
    pub(super) says: &'static str,
    pub(super) quantity: Quantity,
    pub(super) of: (Player, Variant),
    pub(super) over: (Player, Variant),
    pub(super) range: RangeInclusive<f64>,
}

const DEFAULT: (Player, Variant) = (Player::Default, Once);
const CLAIRVOYANT: (Player, Variant) = (Player::Clairvoyant, Once);
const TESTBEDS: [&str; 2] = ["testbed-0.75", "testbed-1.27"];
const SIZES: [&str; 2] = ["short-and-long", "heavy-tail"];
const QUEUES: [&str; 4] = ["short-and-long", "heavy-tail", "one-slow", "pauses"];
const PAUSES: [&str; 1] = ["pauses"];
const OVERLOAD: [&str; 1] = ["overload"];

/// Returns every claim.
pub(super) fn rules() -> Vec<Rule> {
    use Player::{Clairvoyant, Counting, Default, Sizing};
    use Quantity::{Errors, Mean, P99, P999, ShortMean, ShortP99, Work};
    use Variant::{Apart, Cancelled, Charged, Hedged, WithRoom};
    let least = |low: f64| low..=f64::INFINITY;
    let most = |high: f64| 0.0..=high;
    let mut rules = Vec::new();
    let mut add = |worlds: &[&'static str], says, quantity, of, over, range| {
        rules.extend(worlds.iter().map(|world| Rule {
            world,
            says,
            quantity,
            of,
            over,
            range: RangeInclusive::clone(&range),
        }));
    };
    let near = "the default's p99.9 is that of the clairvoyant";
    add(&TESTBEDS, near, P999, DEFAULT, CLAIRVOYANT, most(1.05));
    let idle = "second copies do not change the default's p99.9";
    let hedged = (Default, Hedged);
    add(&TESTBEDS, idle, P999, hedged, DEFAULT, 0.97..=1.03);

    let sizes = "a clairvoyant that knows each query's cost has the same mean as one that counts";
    let counting = (Counting, Once);
    add(&SIZES, sizes, Mean, (Sizing, Once), counting, 0.97..=1.03);
    let apart = "replicas of their own for long queries raise p99";
    add(&SIZES, apart, P99, (Default, Apart), DEFAULT, least(1.2));
    let charged = "counting a long query by its cost raises p99 of the short ones";
    let by_cost = (Default, Charged);
    add(&SIZES, charged, ShortP99, by_cost, DEFAULT, least(1.5));

    let remaining = (Default, Queue(ShortestRemaining));
    let short = "the shortest remaining query first takes the mean of the short ones down";
    add(&SIZES, short, ShortMean, remaining, DEFAULT, most(0.92));
    let long = "the shortest remaining query first raises p99.9 of all";
    add(&SIZES[..1], long, P999, remaining, DEFAULT, least(1.03));
    let tied = (Default, Tied);
    let shorter = "tied requests before queues take p99 down";
    add(&QUEUES, shorter, P99, tied, DEFAULT, most(0.95));
    let bound = "tied requests before queues take p99 to the clairvoyant's";
    add(&QUEUES, bound, P99, tied, CLAIRVOYANT, most(1.15));
    let work = "tied requests cost little work";
    add(&QUEUES, work, Work, tied, DEFAULT, most(1.05));

    let pauses = "second copies take p99.9 below that of the clairvoyant that chooses once";
    add(&PAUSES, pauses, P999, hedged, CLAIRVOYANT, most(0.7));
    let even_then = "second copies take the clairvoyant's own p99.9 down";
    let clairvoyant_hedged = (Clairvoyant, Hedged);
    let halves = most(0.65);
    add(
        &PAUSES,
        even_then,
        P999,
        clairvoyant_hedged,
        CLAIRVOYANT,
        halves,
    );
    let lost = "from spare capacity only, most of that is lost to the default";
    add(
        &PAUSES,
        lost,
        P999,
        (Default, WithRoom),
        DEFAULT,
        least(0.75),
    );
    let collapse = "where some queries are long, second copies of the latest 5 % raise p99";
    add(&SIZES, collapse, P99, hedged, DEFAULT, least(2.0));
    let harmless = "from spare capacity only, second copies of long queries do little harm";
    add(
        &SIZES,
        harmless,
        P99,
        (Default, WithRoom),
        DEFAULT,
        most(1.3),
    );

    let choice = "the best choice saves few of the queries that an overload costs";
    add(&OVERLOAD, choice, Errors, CLAIRVOYANT, DEFAULT, least(0.85));
    let cancelled = "clients that cancel late queries lose less than half as many";
    add(
        &OVERLOAD,
        cancelled,
        Errors,
        (Default, Cancelled),
        DEFAULT,
        most(0.5),
    );
    let rejected = "queues that reject what would be late lose less than a tenth as many";
    let rejecting = (Default, Rejecting(Arrival));
    add(&OVERLOAD, rejected, Errors, rejecting, DEFAULT, most(0.1));
    let served = "queues that serve the shortest remaining query first lose a quarter as many";
    add(&OVERLOAD, served, Errors, remaining, DEFAULT, most(0.25));
    let doubled = "tied requests without rejection lose more than the same queues without ties";
    let queue = (Default, Queue(Arrival));
    add(&OVERLOAD, doubled, Errors, tied, queue, least(1.2));
    rules
}
