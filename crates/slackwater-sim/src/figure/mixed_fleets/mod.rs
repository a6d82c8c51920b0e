//! Mixed fleets: some replicas answer probes and others, called silent here, do not, as while an
//! agent is being rolled out. `[A13]`
//!
//! The experiment checks two things: whether a policy that probes treats a silent replica as if it
//! answered, and whether its probes ever make it worse than a policy without.

use super::cells::{Plays, latency_ms, whole};
use super::charts::axis;
use super::contest::JUDGED;
use super::judge::{claim, number};
use super::{Bars, Cell, Chart, Claim, Effort, Figure, Findings, Played, Plot, Table, Words};
use crate::presets::{at_load, grouped, hobbled, unequal_halves, web};
use crate::scenario::{Group, Scenario};
use crate::{Measured, PolicyChoice};
use std::sync::Arc;

/// Fleets in which some replicas answer no probes.
#[derive(Debug)]
pub(super) struct MixedFleets;

/// A kind of replica, with its load.
struct Kind {
    name: &'static str,
    load: f64,
    make: fn(Scenario) -> Scenario,
    /// The replicas that may be silent.
    silences: &'static [Silence],
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "web0.85",
        load: 0.85,
        make: |scenario| scenario,
        silences: &[FIRST_HALF, ALL_BUT_FIRST],
    },
    Kind {
        name: "halves0.85",
        load: 0.85,
        make: |scenario| at_load(0.85, unequal_halves(scenario)),
        silences: &[FIRST_HALF, SECOND_HALF, ALL_BUT_FIRST, ALL_BUT_LAST],
    },
    Kind {
        name: "web0.60hob",
        load: 0.6,
        make: hobbled,
        silences: &[FIRST_HALF, SECOND_HALF, ALL_BUT_FIRST, ALL_BUT_LAST],
    },
];

/// The silent replicas of a fleet.
#[derive(Clone, Copy)]
struct Silence {
    param: &'static str,
    /// Returns whether this replica, in a fleet of this size, is silent.
    has: fn(replica: usize, replicas: usize) -> bool,
}

const NO_REPLICA: Silence = Silence {
    param: "silent=none",
    has: |_, _| false,
};
const FIRST_HALF: Silence = Silence {
    param: "silent=first half",
    has: |replica, replicas| replica < replicas / 2,
};
const SECOND_HALF: Silence = Silence {
    param: "silent=second half",
    has: |replica, replicas| replica >= replicas / 2,
};
const ALL_BUT_FIRST: Silence = Silence {
    param: "silent=all but first",
    has: |replica, _| replica > 0,
};
const ALL_BUT_LAST: Silence = Silence {
    param: "silent=all but last",
    has: |replica, replicas| replica + 1 < replicas,
};

const REPLICAS: [usize; 3] = [4, 10, 20];
const CLIENTS: [usize; 3] = [1, 4, 20];
const LEAST_LOADED: &str = "least_loaded";
const PROBED: [&str; 3] = [JUDGED, "prequal", "rif_then_latency"];

/// A run has at least this many queries, and lasts at least this long.
const QUERIES: f64 = 20_000.0;
const SPAN_MIN_SECONDS: f64 = 6.0;
const WARMUP_SECONDS: u64 = 2;

/// Silent replicas starve below this multiple of what they get where all answer.
const STARVED: f64 = 0.75;
/// Silent or answering replicas are flooded above this multiple of what they get where all answer.
const FLOODED: f64 = 1.25;
/// A policy runs away above this multiple of least loaded's p99.
const RUNAWAY: f64 = 2.0;

impl Figure for MixedFleets {
    fn words(&self) -> Words {
        Words {
            name: "mixed-fleets",
            title: "Fleets in which a half of the replicas, or all but one, answer no probes",
            about: "Small web replicas (4 cores, 5 ms exponential), 4, 10 and 20 of them, with 1, 4 and 20 clients: healthy ones at 85 % (web0.85); \
         halves, the second half as fast, at 85 % (halves0.85); and healthy ones at 60 % of which the first has a quarter of its \
         capacity for the middle third of the run (web0.60hob). Some of them are silent, as where no agent is installed: probes to \
         them are lost, and a client balances them by what it sees itself. What each silent replica gets is compared with what it gets \
         under the same policy where all answer. A run has 20,000 queries and 6 s at the least; differences in p99 of less than 5 % \
         mean little.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for kind in &KINDS {
            for replicas in REPLICAS {
                for clients in CLIENTS {
                    cells.extend(fleet_cells(kind, replicas, clients, effort));
                }
            }
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        let mixes = mixes(&plays);
        Findings {
            claims: claims(&mixes),
            charts: charts(&mixes),
            tables: tables(&mixes),
        }
    }
}

fn fleet_cells(kind: &Kind, replicas: usize, clients: usize, effort: &Effort) -> Vec<Cell> {
    let scenario = web(replicas, clients, kind.load);
    // The kind may lower the rate, and needs the span.
    let rate = (kind.make)(scenario.clone()).load.rate;
    let span = (QUERIES / rate).max(SPAN_MIN_SECONDS).ceil();
    let scenario = effort.spend_on(scenario, WARMUP_SECONDS, whole(span));
    let scenario = (kind.make)(Arc::unwrap_or_clone(scenario));
    let step = step(kind, replicas, clients);
    let cell = |policy: &str, scenario: &Arc<Scenario>| {
        let policy = PolicyChoice::named(policy)?;
        Some(Cell::of(step.clone(), kind.load, policy, scenario))
    };
    let mut cells = Vec::new();
    for silence in core::iter::once(&NO_REPLICA).chain(kind.silences) {
        let scenario = Arc::new(silenced(scenario.clone(), *silence));
        let policies = PROBED.into_iter().filter_map(|name| cell(name, &scenario));
        cells.extend(policies.map(|cell| cell.with_param(silence.param)));
    }
    // A policy without probes does not depend on silent replicas.
    cells.extend(cell(LEAST_LOADED, &Arc::new(scenario)));
    cells
}

fn step(kind: &Kind, replicas: usize, clients: usize) -> String {
    format!("{} {replicas}x{clients}", kind.name)
}

/// Returns the scenario with these replicas silent. Each replica keeps its number, and with it its
/// random draws.
fn silenced(mut scenario: Scenario, silence: Silence) -> Scenario {
    let replicas = scenario.replicas();
    let alone = scenario.fleet.iter().flat_map(|group| {
        let one = Group {
            count: 1,
            ..group.clone()
        };
        core::iter::repeat_n(one, group.count)
    });
    scenario.fleet = grouped(alone.enumerate().map(|(replica, one)| Group {
        answers_probes: !(silence.has)(replica, replicas),
        ..one
    }));
    scenario
}

/// A policy that probes, in a fleet in which some replicas are silent.
struct Mix<'a> {
    step: String,
    kind: &'static str,
    replicas: usize,
    silence: Silence,
    policy: &'static str,
    run: &'a Measured,
    /// The results of the policy where all replicas answer.
    all_answer: &'a Measured,
    least_loaded: &'a Measured,
}

impl Mix<'_> {
    /// Returns the silent replicas' share of all queries.
    fn unprobed_share(&self, run: &Measured) -> f64 {
        let silent = (0..).zip(&run.queries_by_replica);
        let silent = silent.filter(|&(replica, _)| (self.silence.has)(replica, self.replicas));
        let to_unprobed: u64 = silent.map(|(_, &queries)| queries).sum();
        to_unprobed as f64 / run.queries.max(1) as f64
    }

    /// Returns the silent replicas' queries, as a multiple of what they get where all answer.
    fn to_unprobed(&self) -> f64 {
        self.unprobed_share(self.run) / self.unprobed_share(self.all_answer)
    }

    /// Returns the answering replicas' queries, as a multiple of what they get where all answer.
    fn to_answering(&self) -> f64 {
        (1.0 - self.unprobed_share(self.run)) / (1.0 - self.unprobed_share(self.all_answer))
    }

    /// Returns each silent replica's queries, as a multiple of what it gets where all answer.
    fn to_each_unprobed(&self) -> impl Iterator<Item = f64> {
        let share = |run: &Measured, queries| queries as f64 / run.queries.max(1) as f64;
        let (run, all_answer) = (self.run, self.all_answer);
        let silent = move |replica| (self.silence.has)(replica, self.replicas);
        let both = run
            .queries_by_replica
            .iter()
            .zip(&all_answer.queries_by_replica);
        let both = (0..).zip(both).filter(move |&(replica, _)| silent(replica));
        both.map(move |(_, (&here, &there))| share(run, here) / share(all_answer, there))
    }

    /// Returns the lowest multiple of the silent replicas.
    fn to_unprobed_least(&self) -> f64 {
        self.to_each_unprobed().fold(f64::INFINITY, f64::min)
    }

    /// Returns the highest multiple of the silent replicas.
    fn to_unprobed_most(&self) -> f64 {
        self.to_each_unprobed().fold(0.0, f64::max)
    }

    /// Returns whether no silent replica starves or is flooded, and the answering ones are not
    /// flooded instead.
    fn is_fair(&self) -> bool {
        self.to_unprobed_least() >= STARVED
            && self.to_unprobed_most() <= FLOODED
            && self.to_answering() <= FLOODED
    }

    /// Returns p99 as a multiple of least loaded's.
    fn to_least_loaded(&self) -> f64 {
        latency_ms(self.run, 0.99) / latency_ms(self.least_loaded, 0.99)
    }

    fn name(&self) -> String {
        format!("{}, {}", self.step, self.silence.param)
    }
}

/// Returns all mixes, in order.
fn mixes<'a>(plays: &Plays<'a>) -> Vec<Mix<'a>> {
    let mut mixes = Vec::new();
    for kind in &KINDS {
        for replicas in REPLICAS {
            for clients in CLIENTS {
                let step = step(kind, replicas, clients);
                let plays = plays.at(&step);
                for policy in PROBED {
                    for &silence in kind.silences {
                        let mix = mix(&plays, policy, silence);
                        mixes.extend(mix.map(|[run, all_answer, least_loaded]| Mix {
                            step: step.clone(),
                            kind: kind.name,
                            replicas,
                            silence,
                            policy,
                            run,
                            all_answer,
                            least_loaded,
                        }));
                    }
                }
            }
        }
    }
    mixes
}

/// Returns three runs of one fleet: the policy with these replicas silent, the policy with none
/// silent, and least loaded.
fn mix<'a>(plays: &Plays<'a>, policy: &str, silence: Silence) -> Option<[&'a Measured; 3]> {
    let of = |policy: &str, param: &str| {
        let mut found = plays.iter();
        let found =
            found.find(|played| played.cell.policy.name == policy && played.cell.param == param);
        found.map(|played| &played.all)
    };
    Some([
        of(policy, silence.param)?,
        of(policy, NO_REPLICA.param)?,
        of(LEAST_LOADED, "")?,
    ])
}

fn claims(mixes: &[Mix<'_>]) -> Vec<Claim> {
    let of = |policy| -> Vec<&Mix<'_>> {
        let all = mixes.iter();
        all.filter(|mix| mix.policy == policy).collect()
    };
    let judged = PROBED.into_iter().map(|policy| {
        let mixes = of(policy);
        [is_fair(policy, &mixes), stays_near(policy, &mixes)]
    });
    judged.flatten().flatten().collect()
}

/// Returns the mix in which `of` is highest.
fn highest<'a, 'b>(mixes: &[&'a Mix<'b>], of: fn(&Mix<'b>) -> f64) -> Option<&'a Mix<'b>> {
    let all = mixes.iter().copied();
    all.max_by(|a, b| of(a).total_cmp(&of(b)))
}

/// Claim: no silent replica is starved or flooded.
fn is_fair(policy: &str, mixes: &[&Mix<'_>]) -> Option<Claim> {
    let least = highest(mixes, |mix| -mix.to_unprobed_least())?;
    let most = highest(mixes, Mix::to_unprobed_most)?;
    let most_answering = highest(mixes, Mix::to_answering)?;
    let beyond = mixes.iter().filter(|mix| !mix.is_fair()).count();
    Some(claim(
        format!(
            "(ours) {policy} neither starves nor floods silent replicas: each gets {STARVED} to {FLOODED} times what it gets where \
             all answer, and those that answer at most {FLOODED} times"
        ),
        format!(
            "{} ({}) to {} times ({}), those that answer up to {} times ({}); outside in {beyond} of {} mixed fleets",
            number(least.to_unprobed_least()),
            least.name(),
            number(most.to_unprobed_most()),
            most.name(),
            number(most_answering.to_answering()),
            most_answering.name(),
            mixes.len()
        ),
        beyond == 0,
    ))
}

/// Claim: probes that only some replicas answer do no harm.
fn stays_near(policy: &str, mixes: &[&Mix<'_>]) -> Option<Claim> {
    let worst = highest(mixes, Mix::to_least_loaded)?;
    let runaways = mixes.iter().filter(|mix| mix.to_least_loaded() > RUNAWAY);
    let beyond = runaways.count();
    Some(claim(
        format!("(ours) {policy}'s p99 is at most twice least loaded's in every mixed fleet"),
        format!(
            "{} times at the worst ({}); more than twice in {beyond} of {} mixed fleets",
            number(worst.to_least_loaded()),
            worst.name(),
            mixes.len()
        ),
        beyond == 0,
    ))
}

fn tables(mixes: &[Mix<'_>]) -> Vec<Table> {
    if mixes.is_empty() {
        return Vec::new();
    }
    let columns = [
        "fleet",
        "silent",
        "policy",
        "to the silent, %",
        "the same where all answer, %",
        "times that",
        "the one with the least, times",
        "with the most, times",
        "to those that answer, times",
        "p99, ms",
        "where all answer, ms",
        "least_loaded, ms",
        "times least_loaded",
    ];
    vec![Table {
        title: "What silent replicas get, and what becomes of the tail".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: mixes.iter().map(row).collect(),
    }]
}

fn row(mix: &Mix<'_>) -> Vec<String> {
    let share = |run| format!("{:.1}", 100.0 * mix.unprobed_share(run));
    let p99 = |run| number(latency_ms(run, 0.99));
    let silent = mix.silence.param.trim_start_matches("silent=");
    vec![
        mix.step.clone(),
        silent.to_owned(),
        mix.policy.to_owned(),
        share(mix.run),
        share(mix.all_answer),
        format!("{:.2}", mix.to_unprobed()),
        format!("{:.2}", mix.to_unprobed_least()),
        format!("{:.2}", mix.to_unprobed_most()),
        format!("{:.2}", mix.to_answering()),
        p99(mix.run),
        p99(mix.all_answer),
        p99(mix.least_loaded),
        format!("{:.2}", mix.to_least_loaded()),
    ]
}

/// Makes a chart for each kind and silence: p99 in each fleet as a multiple of least loaded's.
fn charts(mixes: &[Mix<'_>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for kind in &KINDS {
        for silence in kind.silences {
            let of: Vec<&Mix<'_>> = mixes
                .iter()
                .filter(|mix| mix.kind == kind.name && mix.silence.param == silence.param)
                .collect();
            if !of.is_empty() {
                charts.push(chart(kind, *silence, &of));
            }
        }
    }
    charts
}

fn chart(kind: &Kind, silence: Silence, mixes: &[&Mix<'_>]) -> Chart {
    let of = |policy| mixes.iter().filter(move |mix| mix.policy == policy);
    let series = PROBED.map(|policy| {
        let values: Vec<f64> = of(policy).map(|mix| mix.to_least_loaded()).collect();
        Bars {
            name: policy.to_owned(),
            marks: vec![None; values.len()],
            values,
        }
    });
    Chart {
        title: format!(
            "p99 as a multiple of least_loaded's: {}, {}",
            kind.name, silence.param
        ),
        x: axis("replicas x clients"),
        y: axis("times least_loaded's p99"),
        plot: Plot::Bars {
            groups: of(PROBED[0])
                .map(|mix| mix.step.trim_start_matches(kind.name).trim().to_owned())
                .collect(),
            series: series.into(),
            limit: Some(2.0 * RUNAWAY),
        },
    }
}

#[cfg(test)]
mod tests;
