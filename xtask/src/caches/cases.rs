//! What happens in a case.

/// A case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The title, as a phrase.
    pub(super) title: &'static str,
    /// Processes of the balancer, each with its own counts; requests are spread over them at
    /// random.
    pub(super) balancers: usize,
    /// Share of the requests that have one further key.
    pub(super) hot_percent: u32,
    pub(super) trouble: Trouble,
}

/// What one replica has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// The first replica has a third of its speed from before the measurement.
    Slow,
    /// The replica that has the hot key while all are idle has a third of its speed.
    HotHomeSlow,
    /// The first replica is killed during the measurement, and starts again with an empty cache.
    Restart,
}

/// Processes of the balancer in the cases with several.
const SEVERAL: usize = 4;

/// Processes of the balancer in the cases with one for each client, as sidecars are.
const MANY: usize = 16;

const CASES: [Case; 10] = [
    case("plain", "All replicas are alike", 1, 0, Trouble::None),
    case(
        "hot",
        "A tenth of the requests has one more key",
        1,
        10,
        Trouble::None,
    ),
    case(
        "slow",
        "One replica has a third of its speed",
        1,
        0,
        Trouble::Slow,
    ),
    case(
        "hot-slow",
        "A tenth of the requests has one more key, and one replica has a third of its speed",
        1,
        10,
        Trouble::Slow,
    ),
    case(
        "hot-home-slow",
        "A tenth of the requests has one more key, and that key's own replica has a third of its speed",
        1,
        10,
        Trouble::HotHomeSlow,
    ),
    case(
        "restart",
        "One replica is killed and starts again a second later with an empty cache",
        1,
        0,
        Trouble::Restart,
    ),
    case(
        "several",
        "Four balancers share the replicas",
        SEVERAL,
        0,
        Trouble::None,
    ),
    case(
        "several-hot-slow",
        "Four balancers, a tenth of the requests has one more key, and one replica has a third of its speed",
        SEVERAL,
        10,
        Trouble::Slow,
    ),
    case(
        "several-hot-home-slow",
        "Four balancers, a tenth of the requests has one more key, and that key's own replica has a third of its speed",
        SEVERAL,
        10,
        Trouble::HotHomeSlow,
    ),
    case(
        "many-hot-slow",
        "Sixteen balancers, a tenth of the requests has one more key, and one replica has a third of its speed",
        MANY,
        10,
        Trouble::Slow,
    ),
];

/// Cases of the short form, which together need all parts.
pub(super) const SHORT: [&str; 2] = ["restart", "several-hot-home-slow"];

const fn case(
    name: &'static str,
    title: &'static str,
    balancers: usize,
    hot_percent: u32,
    trouble: Trouble,
) -> Case {
    Case {
        name,
        title,
        balancers,
        hot_percent,
        trouble,
    }
}

pub(super) fn all() -> Vec<Case> {
    CASES.to_vec()
}
