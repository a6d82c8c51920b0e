//! The cells: which troubles are played with which means.

use super::{
    CLAIMED, CLIENTS, FLEET, IN_TROUBLE, LOADS, MACHINES, POLICIES, PREQUAL, SERVICES,
    SOME_CLIENTS, WEB_LOADS, cells_of, for_queries, seconds,
};
use crate::Scenario;
use crate::figure::{Cell, Effort};
use crate::presets::{
    els, failing_everywhere, failing_fast as one_failing, healing, joining_cold, lying, machines,
    pausing, rolling_kill, rolling_restart, rolling_takes, services, sinkhole, suspended, web,
};
use crate::scenario::Hedge;
use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::health::{HealthConfig, HealthSettings};
use slackwater_core::policy::Settings;
use slackwater_core::tail::HedgeSettings;
use std::sync::Arc;

/// The means against trouble that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    Off,
    Errors,
    Probation,
    WarmUp,
    /// A second copy of late queries, and no other means.
    Hedging,
    /// All means of health.
    All,
    /// All means of health, and a second copy of late queries.
    AllAndHedging,
}

impl Means {
    pub(super) const EACH: [Self; 7] = [
        Self::Off,
        Self::Errors,
        Self::Probation,
        Self::WarmUp,
        Self::Hedging,
        Self::All,
        Self::AllAndHedging,
    ];

    pub(super) const fn param(self) -> &'static str {
        match self {
            Self::Off => "health=off",
            Self::Errors => "health=errors",
            Self::Probation => "health=probation",
            Self::WarmUp => "health=warm_up",
            Self::Hedging => "health=off+hedging",
            Self::All => "health=all",
            Self::AllAndHedging => "health=all+hedging",
        }
    }

    /// Returns a description for readers of a chart.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Off => "nothing",
            Self::Errors => "error aversion",
            Self::Probation => "latency probation",
            Self::WarmUp => "warm-up by evidence",
            Self::Hedging => "hedging",
            Self::All => "all but hedging",
            Self::AllAndHedging => "all",
        }
    }

    const fn is_all(self) -> bool {
        matches!(self, Self::All | Self::AllAndHedging)
    }

    /// Returns the scenario with these means for its clients.
    pub(super) fn applied(self, scenario: &Arc<Scenario>) -> Arc<Scenario> {
        if !matches!(self, Self::Hedging | Self::AllAndHedging) {
            return Arc::clone(scenario);
        }
        let of_one = |part: Quantile| f64::from(part.millionths()) / 1e6;
        let settings = HedgeSettings::default();
        let mut scenario = Scenario::clone(scenario);
        scenario.load.hedge = Some(Hedge {
            after_quantile: of_one(settings.quantile),
            budget: of_one(settings.budget),
            delay_min: settings.delay_min,
            copies_max: settings.copies_max as usize,
            needs_room: false,
        });
        Arc::new(scenario)
    }

    /// Returns the defaults of the means that are on; `None` if none is.
    pub(super) fn config(self) -> Option<HealthConfig> {
        let all = HealthSettings::default();
        let mut settings = HealthSettings::off();
        if self == Self::Errors || self.is_all() {
            settings.errors = all.errors;
        }
        if self == Self::Probation || self.is_all() {
            settings.probation = all.probation;
        }
        if self == Self::WarmUp || self.is_all() {
            settings.warm_up = all.warm_up;
        }
        (!settings.is_off()).then(|| settings.validate().ok())?
    }
}

const WITHOUT_AND_WITH: [Means; 2] = [Means::Off, Means::Errors];

/// Returns the name of the step at this load.
pub(super) fn fast_step(load: f64) -> String {
    format!("fail-fast {load:.2}")
}

/// One of four machines fails half of its queries at once.
pub(super) fn failing_fast(effort: &Effort) -> Vec<Cell> {
    let mut cells = Vec::new();
    for load in LOADS {
        let scenario = for_queries(effort, one_failing(els(load)));
        let step = fast_step(load);
        cells.extend(cells_of(
            &step,
            load,
            &POLICIES,
            &WITHOUT_AND_WITH,
            &scenario,
        ));
        // All means together are the defaults.
        cells.extend(cells_of(&step, load, &CLAIMED, &[Means::All], &scenario));
    }
    for load in WEB_LOADS {
        let scenario = for_queries(effort, one_failing(web(MACHINES, 1, load)));
        let step = format!("fail-fast web {load:.2}");
        cells.extend(cells_of(&step, load, &CLAIMED, &[Means::All], &scenario));
    }
    for clients in several() {
        let scenario = for_queries(effort, one_failing(machines(MACHINES, clients, 0.6)));
        let step = format!("fail-fast 0.60 x{clients}");
        cells.extend(cells_of(&step, 0.6, &CLAIMED, &[Means::All], &scenario));
    }
    cells
}

pub(super) const SINKHOLE: &str = "sinkhole";
pub(super) const EVERYWHERE: &str = "everywhere";
pub(super) const HEALS: &str = "heals";
pub(super) const LIES: &str = "lies";

/// How long the replica fails within the span before it heals, and how long the span lasts from
/// then on.
const FAILS_FOR: Duration = seconds(10);
const HEALED_FOR: Duration = seconds(30);

/// Sinkholes, a failing fleet, healing and lying.
pub(super) fn everything_else_that_fails(effort: &Effort) -> Vec<Cell> {
    let mut cells = Vec::new();
    let with_clients = |name: &str, clients| match clients {
        1 => name.to_owned(),
        _ => format!("{name} x{clients}"),
    };
    for clients in CLIENTS {
        let scenario = effort.spend_on(machines(FLEET, clients, 0.6), 10, 20);
        // What happens in the first second of trouble is not measured.
        let from = scenario.warmup.saturating_sub(seconds(1));
        let scenario = Arc::new(sinkhole(Scenario::clone(&scenario), from));
        let step = with_clients(SINKHOLE, clients);
        if clients == 1 {
            cells.extend(cells_of(
                &step,
                0.6,
                &POLICIES,
                &WITHOUT_AND_WITH,
                &scenario,
            ));
        }
        cells.extend(cells_of(&step, 0.6, &CLAIMED, &[Means::All], &scenario));
    }
    for clients in [1, SOME_CLIENTS] {
        let scenario = for_queries(effort, failing_everywhere(machines(FLEET, clients, 0.6)));
        let step = with_clients(EVERYWHERE, clients);
        cells.extend(cells_of(&step, 0.6, &CLAIMED, &[Means::All], &scenario));
    }
    let span = FAILS_FOR + HEALED_FOR;
    for clients in [1, SOME_CLIENTS] {
        let scenario = effort.spend_on(machines(MACHINES, clients, 0.5), 20, span.as_secs());
        let then = scenario.warmup + scenario.span / 4;
        let healing = Arc::new(healing(Scenario::clone(&scenario), then));
        let step = with_clients(HEALS, clients);
        cells.extend(cells_of(&step, 0.5, &CLAIMED, &[Means::All], &healing));
        let lying = Arc::new(lying(Scenario::clone(&scenario), then));
        let step = with_clients(LIES, clients);
        cells.extend(cells_of(&step, 0.5, &CLAIMED, &[Means::All], &lying));
    }
    cells
}

pub(super) const PAUSES: &str = "pauses";
pub(super) const STOPPED: &str = "stopped";
pub(super) const COLD: &str = "cold";
pub(super) const ROLLING: &str = "rolling";
pub(super) const KILLED: &str = "killed";

/// Ten replicas at 70 % load in each kind of trouble, with each of the means.
pub(super) fn in_trouble(effort: &Effort) -> Vec<Cell> {
    let mut cells = Vec::new();
    for name in TROUBLES {
        let scenario = trouble(effort, name, SOME_CLIENTS);
        cells.extend(cells_of(name, 0.7, &IN_TROUBLE, &Means::EACH, &scenario));
    }
    for (name, clients) in [(STOPPED, 1), (STOPPED, 100), (COLD, 1), (COLD, 100)] {
        let scenario = trouble(effort, name, clients);
        let step = format!("{name} x{clients}");
        let means = [Means::Off, Means::All];
        cells.extend(cells_of(&step, 0.7, &[PREQUAL], &means, &scenario));
    }
    cells
}

pub(super) const TROUBLES: [&str; 5] = [PAUSES, STOPPED, COLD, ROLLING, KILLED];

/// Returns a description of the trouble for readers of a chart.
pub(super) fn in_words(trouble: &str) -> &'static str {
    match trouble {
        PAUSES => "one of ten pauses for 2 s of every 20",
        STOPPED => "one of ten stands still for 30 s",
        COLD => "one of ten joins ten times as slow",
        ROLLING => "all ten are restarted in turn, and drain before",
        _ => "all ten are killed in turn, and start again",
    }
}

fn trouble(effort: &Effort, name: &str, clients: usize) -> Arc<Scenario> {
    let span = match name {
        ROLLING | KILLED => rolling_takes(SERVICES).as_secs(),
        STOPPED => 45,
        COLD => 30,
        _ => 60,
    };
    let scenario = effort.spend_on(services(SERVICES, clients, 0.7), 10, span);
    let from = scenario.warmup + seconds(1);
    let scenario = Arc::unwrap_or_clone(scenario);
    Arc::new(match name {
        PAUSES => pausing(scenario),
        STOPPED => suspended(scenario, from),
        COLD => joining_cold(scenario, from),
        ROLLING => rolling_restart(scenario, from),
        _ => rolling_kill(scenario, from),
    })
}

fn several() -> impl Iterator<Item = usize> {
    CLIENTS.into_iter().filter(|&clients| clients > 1)
}
