//! The fleets and rules of the figure.

use crate::figure::{Cell, Effort};
use crate::policy::PeerRule;
use crate::presets::{hot, joining, keyed, one_replica, restarting};
use crate::{PolicyChoice, Scenario};
use slackwater_core::LoadScale;
use slackwater_core::keys::KeySettings;
use slackwater_core::policy::Settings;

/// The rules of other load balancers with which claims compare: nginx, `HAProxy`, Envoy.
pub(super) const PEERS: [PeerRule; 3] = [
    PeerRule::Ring,
    PeerRule::RingBounded,
    PeerRule::MaglevBounded,
];
/// Rules that no load balancer has in this form.
pub(super) const OTHERS: [PeerRule; 2] = [PeerRule::Rendezvous, PeerRule::TwoHomes];

/// Our rule around the default policy.
pub(super) const OURS: &str = "keyed";
/// Our rule around a policy that has no reports: it counts only its own queries.
pub(super) const OWN_COUNTS: &str = "keyed least_loaded";
/// Synchronous probes that carry the key to two homes and a random replica.
pub(super) const HINTS: &str = "keyed prequal_sync";
/// The default policy without keys.
pub(super) const WITHOUT: &str = "no keys";

/// Numbers of balancers.
pub(super) const CLIENTS: [usize; 4] = [1, 4, 16, 64];
/// Balancers in the cells with one number of them.
pub(super) const SOME_CLIENTS: usize = 16;

/// The load that a replica reports to a probe whose key it has, in 1/1024: a third, the share of a
/// hit's cost in that of a miss.
const HINT_SCALE: u16 = 340;

/// What is wrong with the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Nothing,
    /// Replica 0 has a third of the speed.
    Slow,
    /// One key has a tenth of the queries.
    Hot,
    SlowAndHot,
    Restart,
    Join,
}

impl Trouble {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "usual",
            Self::Slow => "slow",
            Self::Hot => "hot",
            Self::SlowAndHot => "slow and hot",
            Self::Restart => "restart",
            Self::Join => "join",
        }
    }

    fn apply(self, scenario: Scenario) -> Scenario {
        let slow = |scenario| one_replica(scenario, |replica| replica.slowness = 3.0);
        match self {
            Self::Nothing => scenario,
            Self::Slow => slow(scenario),
            Self::Hot => hot(0.1, scenario),
            Self::SlowAndHot => slow(hot(0.1, scenario)),
            Self::Restart => restarting(scenario),
            Self::Join => joining(scenario),
        }
    }
}

/// A fleet under a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) trouble: Trouble,
    pub(super) rate: u32,
    pub(super) clients: usize,
}

/// Loads in queries a second.
const LOW: u32 = 3_200;
pub(super) const HIGH: u32 = 3_840;

impl Case {
    pub(super) const fn at_high_load(trouble: Trouble, clients: usize) -> Self {
        Self {
            trouble,
            rate: HIGH,
            clients,
        }
    }

    pub(super) fn step(self) -> String {
        format!("{} {}/s x{}", self.trouble.name(), self.rate, self.clients)
    }

    fn scenario(self, effort: &Effort) -> Scenario {
        let scenario = keyed(f64::from(self.rate), self.clients);
        let scenario = effort.spend_on(scenario, WARMUP_SECONDS, SPAN_SECONDS);
        self.trouble
            .apply(std::sync::Arc::unwrap_or_clone(scenario))
    }
}

/// Caches are filled in this time, and what waits until then is served.
const WARMUP_SECONDS: u64 = 25;
const SPAN_SECONDS: u64 = 10;

/// Returns all cases, in the order in which they are played.
pub(super) fn cases() -> Vec<Case> {
    let of = |trouble| CLIENTS.map(|clients| Case::at_high_load(trouble, clients));
    let mut cases: Vec<Case> = Vec::new();
    for trouble in [Trouble::Nothing, Trouble::SlowAndHot] {
        cases.extend(of(trouble));
    }
    let low = |trouble| Case {
        trouble,
        rate: LOW,
        clients: SOME_CLIENTS,
    };
    cases.extend([Trouble::Nothing, Trouble::Slow].map(low));
    let rest = [Trouble::Slow, Trouble::Hot, Trouble::Restart, Trouble::Join];
    cases.extend(rest.map(|trouble| Case::at_high_load(trouble, SOME_CLIENTS)));
    cases
}

/// Returns our rule around a policy, with these settings changed; `None` if they are out of range
/// or there is no such policy.
pub(crate) fn around(policy: &str, change: impl FnOnce(&mut KeySettings)) -> Option<PolicyChoice> {
    let mut settings = KeySettings::default();
    change(&mut settings);
    let config = settings.validate().ok()?;
    let hint_scale = if policy == "prequal_sync" {
        LoadScale::from_1024ths(HINT_SCALE)
    } else {
        LoadScale::ONE
    };
    let choice = PolicyChoice::shipped(policy)?.keyed(config, hint_scale);
    Some(choice.called(format!("keyed {policy}")))
}

/// Returns the rules that every case is played with.
pub(super) fn rules() -> Vec<PolicyChoice> {
    let default = slackwater_core::policy::DEFAULT_POLICY.name;
    let peers = PEERS.iter().chain(&OTHERS).copied().map(PolicyChoice::peer);
    let ours = [
        around(default, |_| {}).map(|rule| rule.called(OURS)),
        around("prequal", |_| {}),
        around("least_loaded", |_| {}),
        around("prequal_sync", |_| {}),
        PolicyChoice::shipped(default).map(|policy| policy.called(WITHOUT)),
    ];
    peers.chain(ours.into_iter().flatten()).collect()
}

/// A parameter, and the change of the settings that it stands for.
pub(super) type Variant = (&'static str, fn(&mut KeySettings));

/// Parameters of our rule, in the cases that are played with them.
pub(super) const VARIANTS: [Variant; 8] = [
    ("factor=1.25", |it| it.balance_factor_millionths = 1_250_000),
    ("factor=1.5", |it| it.balance_factor_millionths = 1_500_000),
    ("factor=3", |it| it.balance_factor_millionths = 3_000_000),
    ("set=1", |it| it.set = 1),
    ("set=2", |it| it.set = 2),
    ("set=8", |it| it.set = 8),
    ("partitions=1024, grows", |it| {
        it.partitions = 1_024;
        grow(it);
    }),
    ("partitions=1024, grows, factor=0", |it| {
        it.partitions = 1_024;
        it.balance_factor_millionths = 0;
        grow(it);
    }),
];

/// Lets hot partitions have up to eight homes.
fn grow(settings: &mut KeySettings) {
    settings.replicate_max = 8;
    settings.replicate_time = core::time::Duration::from_secs(1);
}

/// Returns the cases that are played with all [`VARIANTS`].
pub(super) fn varied() -> [Case; 2] {
    [Trouble::Nothing, Trouble::SlowAndHot].map(|trouble| Case::at_high_load(trouble, SOME_CLIENTS))
}

pub(super) fn cells(effort: &Effort) -> Vec<Cell> {
    let default = slackwater_core::policy::DEFAULT_POLICY.name;
    let mut cells = Vec::new();
    for case in cases() {
        let scenario = std::sync::Arc::new(case.scenario(effort));
        let load = f64::from(case.rate) / f64::from(HIGH);
        let cell = |policy| Cell::of(case.step(), load, policy, &scenario);
        cells.extend(rules().into_iter().map(cell));
        if varied().iter().any(|varied| varied.step() == case.step()) {
            for (param, change) in VARIANTS {
                let policy = around(default, change).map(|rule| rule.called(OURS));
                cells.extend(policy.map(|policy| cell(policy).with_param(param)));
            }
        }
    }
    cells
}
