//! The past as a scenario: the recorded queries at their times, and replicas with their estimated
//! capacity.
//!
//! It is a model. [`Model::assumptions`] lists what it assumes. To measure how far it can be
//! trusted, play it under the recorded policy and compare the results with the recording.

use super::blocks;
use super::capacity::{self, Capacities};
use super::history::{History, Passed};
use super::levels::{self, Move, PIECE_NS, Past, is_finished, piece_at};
use crate::machine::Time;
use crate::measure::{Latencies, latencies_at};
use crate::scenario::{
    Arrivals, Cost, Delay, Group, Load, Network, Replay, ReplayChange, ReplayQuery, ReplayStep,
    Scenario, Service, Sharing,
};
use core::sync::atomic::AtomicBool;
use core::time::Duration;
use slackwater_core::policy::{Attempt, Outcome};
use std::sync::Arc;

/// A past that can be played under other policies.
#[derive(Clone, Debug)]
pub struct Model {
    /// The scenario for [`runner`](crate::runner).
    pub scenario: Arc<Scenario>,
    /// The recorded latencies of the queries that arrive in the scenario, if they were answered.
    pub recorded: Latencies,
    /// `recorded` by the block of time in which a query arrived; empty if the past is too short for
    /// blocks.
    pub recorded_by_block: Vec<Latencies>,
    /// Number of queries that arrive, without further attempts and copies.
    pub queries: usize,
    /// The recorded share of failures of these queries.
    pub recorded_error_share: f64,
    /// Mean cost of a query on a replica that serves nothing else.
    pub mean_cost: Duration,
    /// Mean cores of the replicas over time, in the order of their numbers.
    pub cores: Vec<f64>,
    /// The assumptions, in sentences.
    pub assumptions: Vec<String>,
}

/// The most pieces of time, of all replicas together, from which a model is made: 11 hours of ten
/// replicas.
const PIECES_MAX: Time = 4_000_000;
/// The share of queries, the fastest ones, whose measured cost is used directly.
const CALM_SHARE: f64 = 0.75;
/// The least number of costs that make a distribution.
const CALM_MIN: usize = 200;
/// The lowest cost, in nanoseconds.
const COST_MIN_NS: f64 = 1_000.0;
/// Pieces of time over which failures are counted.
const FAILURE_PIECES: usize = 10;
/// The deadline of a scenario is never reached: queries that were given up in the past are
/// failures.
const DEADLINE: Duration = Duration::from_hours(1);

impl Model {
    /// Makes a model of the past; `None` if there are fewer than a hundred answered queries, or if
    /// `stop` was set. If a past is too long for its number of replicas, its beginning is used.
    pub fn of(history: &History, stop: &AtomicBool) -> Option<Self> {
        let longest = PIECES_MAX / history.replicas.len().max(1) as Time * PIECE_NS;
        Self::of_first(history, longest, stop)
    }

    /// Makes a model of the first `longest` nanoseconds, as if the recording had ended there.
    fn of_first(history: &History, longest: Time, stop: &AtomicBool) -> Option<Self> {
        let (begins, _) = settled_span(history)?;
        let bound = begins.saturating_add(longest);
        if history.ended_at() <= bound {
            return Self::of_whole(history, None, stop);
        }
        Self::of_whole(&history.until(bound), Some(longest), stop)
    }

    /// Makes a model of this history, which is the first `cut_ns` of a longer one if that is
    /// present.
    fn of_whole(history: &History, cut_ns: Option<Time>, stop: &AtomicBool) -> Option<Self> {
        let (begins, ends) = settled_span(history)?;
        let arrivals = history.queries.iter().filter(|query| query.is_settled());
        let pasts = levels::pasts(history, begins, history.ended_at().max(ends));
        let capacities = capacity::find(&pasts, stop)?;
        let works = works(history, &pasts, &capacities, begins);
        let network = network(history);
        let costs = costs(history, &works, network);
        // Further attempts, copies, and queries that were given up or never ended are only load.
        let mut queries: Vec<_> = (history.queries.iter().zip(&costs))
            .filter(|(query, _)| query.arrived_at < ends)
            .map(|(query, cost_ns)| ReplayQuery {
                at_ns: query.arrived_at.saturating_sub(begins),
                client: query.client,
                cost_ns: *cost_ns,
                attempt: query.attempt,
                pinned: query.pinned,
                is_measured: query.is_settled(),
            })
            .collect();
        queries.sort_by_key(|query| (query.at_ns, query.client));
        let first = queries.iter().filter(|query| query.is_measured);
        let count = first.clone().count();
        let mean_ns = first.map(|it| it.cost_ns).sum::<f64>() / count as f64;
        let block = blocks::length(Duration::from_nanos(ends - begins));
        // The recorded latencies of the same queries, to compare the model with.
        let mut recorded_by_block = Vec::new();
        let mut recorded = Latencies::default();
        let failed = arrivals.clone().filter(|query| query.failed()).count();
        let answered = arrivals.filter(|query| is_finished(query));
        for query in answered {
            if let Some(latency) = query.latency() {
                recorded.record(latency);
                let since = Duration::from_nanos(query.arrived_at - begins);
                if let Some(place) = blocks::place(since, block) {
                    latencies_at(&mut recorded_by_block, place).record(latency);
                }
            }
        }
        Some(Self {
            recorded,
            recorded_by_block,
            queries: count,
            recorded_error_share: failed as f64 / count as f64,
            mean_cost: Duration::from_secs_f64(mean_ns / 1e9),
            cores: capacities.cores.iter().map(|cores| mean(cores)).collect(),
            assumptions: assumptions(history, network, cut_ns),
            scenario: Arc::new(scenario(
                history,
                begins,
                ends,
                queries,
                &pasts,
                &capacities,
                &works,
                network,
            )),
        })
    }
}

/// Returns when the first settled query arrives, and the time after the last one's arrival; `None`
/// if there is none.
fn settled_span(history: &History) -> Option<(Time, Time)> {
    let settled = history.queries.iter().filter(|query| query.is_settled());
    let arrivals = settled.map(|query| query.arrived_at);
    Some((arrivals.clone().min()?, arrivals.max()?.saturating_add(1)))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the work that was done for each query at its replica, in nanoseconds of a core.
fn works(history: &History, pasts: &[Past], capacities: &Capacities, begins: Time) -> Vec<f64> {
    let mut works = vec![0.0; history.queries.len()];
    for (past, cores) in pasts.iter().zip(&capacities.cores) {
        // `attained` is the work of a query that has been there from the beginning.
        let (mut attained, mut now, mut queries) = (0.0, begins, 0_u32);
        for &Move { at, query, comes } in &past.moves {
            attained += attained_between(cores, begins, (now, at), queries);
            now = now.max(at);
            let Some(work) = works.get_mut(query) else {
                continue;
            };
            if comes {
                queries += 1;
                *work = attained;
            } else {
                queries = queries.saturating_sub(1);
                *work = attained - *work;
            }
        }
    }
    // The work of queries that are still in flight is unknown.
    let still_out = history.queries.iter().zip(&mut works);
    for (_, work) in still_out.filter(|(query, _)| query.end.is_none()) {
        *work = 0.0;
    }
    works
}

/// Returns the work that each of `queries` queries gets from one time to another.
fn attained_between(
    cores: &[f64],
    begins: Time,
    (mut from, to): (Time, Time),
    queries: u32,
) -> f64 {
    let mut attained = 0.0;
    while from < to && queries > 0 {
        let place = piece_at(begins, from);
        let Some(cores) = cores.get(place) else {
            break;
        };
        let until = to.min(levels::end_of(begins, place));
        let speed = (cores / f64::from(queries)).min(1.0);
        attained += speed * (until - from) as f64;
        from = until;
    }
    attained
}

/// Estimates the delay of one way to a replica.
fn network(history: &History) -> Duration {
    // Uses the shortest trips: longer ones include time until the answer was handled.
    history.round_trips.quantile(0.1) / 2
}

/// Estimates the cost of each query. The work done for an answered query is its cost, but the
/// slower its replica was, the less exact it is, and a few gross errors would make a tail of their
/// own. So a query that was served slowly gets the cost of the quickly served one of the same rank:
/// costs do not depend on where a query went. Queries without an answer get the costs of others, in
/// turn.
fn costs(history: &History, works: &[f64], network: Duration) -> Vec<f64> {
    let travelled_ns = 2.0 * network.as_secs_f64() * 1e9;
    let known = |(query, work): (&Passed, &f64)| {
        let (ended_at, _) = query.end.filter(|_| is_finished(query))?;
        let took_ns = ended_at.saturating_sub(query.arrived_at) as f64;
        // Part of the time was spent on the network.
        let on_the_way = (travelled_ns / took_ns.max(1.0)).min(0.5);
        let cost = (work * (1.0 - on_the_way)).max(COST_MIN_NS);
        Some((cost, took_ns / work.max(1.0)))
    };
    let known: Vec<_> = history.queries.iter().zip(works).map(known).collect();
    let mut slowdowns: Vec<_> = known
        .iter()
        .flatten()
        .map(|(_, slowdown)| *slowdown)
        .collect();
    slowdowns.sort_by(f64::total_cmp);
    let bound = at_share(&slowdowns, CALM_SHARE);
    let mut calm: Vec<_> = (known.iter().flatten())
        .filter(|(_, slowdown)| *slowdown <= bound)
        .map(|(cost, _)| *cost)
        .collect();
    calm.sort_by(f64::total_cmp);
    let mut slow: Vec<_> = (known.iter().flatten())
        .filter(|(_, slowdown)| *slowdown > bound)
        .map(|(cost, _)| *cost)
        .collect();
    slow.sort_by(f64::total_cmp);
    let mut turn = 0.0_f64;
    let cost = |known: &Option<(f64, f64)>| match known {
        Some((cost, slowdown)) if *slowdown <= bound || calm.len() < CALM_MIN => *cost,
        Some((cost, _)) => {
            let rank = slow.partition_point(|other| other < cost);
            at_share(&calm, (rank as f64 + 0.5) / slow.len().max(1) as f64)
        }
        None => {
            // Multiples of the golden ratio are spread evenly.
            turn = (turn + 0.618_033_988_749_895).fract();
            at_share(&calm, turn)
        }
    };
    let costs = known.iter().map(cost);
    let queries = history.queries.iter().zip(works);
    (queries.zip(costs))
        .map(|((query, work), cost)| match query.end {
            // A query that was given up is only as much load as it was in the past.
            Some((_, outcome)) if is_given_up(query, outcome) => work.max(COST_MIN_NS),
            _ => cost,
        })
        .collect()
}

/// Returns whether the client gave up the query, or it is a copy that failed.
fn is_given_up(query: &Passed, outcome: Outcome) -> bool {
    outcome == Outcome::Dropped || (!query.is_first() && outcome != Outcome::Success)
}

/// Returns the value that a share of sorted ones does not exceed; the least cost if there are none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a length, and a float's conversion saturates"
)]
fn at_share(sorted: &[f64], share: f64) -> f64 {
    let place = (share * sorted.len() as f64) as usize;
    let last = sorted.len().saturating_sub(1);
    sorted.get(place.min(last)).copied().unwrap_or(COST_MIN_NS)
}

#[expect(clippy::too_many_arguments, reason = "all that is known of the past")]
fn scenario(
    history: &History,
    begins: Time,
    ends: Time,
    queries: Vec<ReplayQuery>,
    pasts: &[Past],
    capacities: &Capacities,
    works: &[f64],
    delay: Duration,
) -> Scenario {
    let span = Duration::from_nanos(ends - begins);
    // A step of a replay has at least the allocation, so the allocation is the lowest capacity.
    let least = (capacities.cores.iter().flatten()).fold(f64::INFINITY, |least, it| least.min(*it));
    let replicas = pasts.iter().zip(&capacities.cores);
    let steps = replicas.map(|(past, cores)| steps(history, past, cores, works, begins));
    let clients = queries.iter().map(|query| query.client).max().unwrap_or(0);
    let sharing = Sharing {
        cores: least,
        bucket: 0.0,
        burst: 1.0,
        contention_loss: 0.0,
    };
    let service = Service::Shared(sharing);
    Scenario {
        load: Load {
            // The replay replaces arrivals and costs. Rate and mean cost are still used to check
            // the size of the scenario.
            arrivals: Arrivals::Poisson,
            ..Load::even(
                queries.len() as f64 / span.as_secs_f64(),
                clients as usize + 1,
            )
        },
        cost: Cost::Fixed(Duration::from_secs_f64(capacities.mean_cost_ns / 1e9)),
        fleet: vec![Group {
            // Probes were sent, and none was answered: the replicas answer no probes.
            answers_probes: history.probes == 0 || history.probes_answered > 0,
            learns_capacity: history.reports_capacity,
            carries_reports: history.carries_reports,
            ..Group::healthy(history.replicas.len(), service)
        }],
        antagonists: None,
        zones: None,
        network: Network {
            delay: Delay {
                least: delay,
                most: delay,
            },
            probe_loss: 0.0,
        },
        events: Vec::new(),
        deadline: DEADLINE,
        cancel_expired: false,
        replay: Some(Arc::new(Replay {
            queries,
            replicas: steps.collect(),
            parts: history.parts.clone(),
            news: news(history, begins),
            block: blocks::length(span),
        })),
        warmup: Duration::ZERO,
        span,
    }
}

/// Returns the changes of the fleet at each client. Changes before the first query apply when it
/// arrives.
fn news(history: &History, begins: Time) -> Vec<ReplayChange> {
    let since = |change: &ReplayChange| ReplayChange {
        at_ns: change.at_ns.saturating_sub(begins),
        ..*change
    };
    let mut news: Vec<_> = history.news.iter().map(since).collect();
    // The sort is stable, so the changes of one client stay in their order.
    news.sort_by_key(|change| change.at_ns);
    news
}

/// Returns a replica's capacity and failures, as steps.
fn steps(
    history: &History,
    past: &Past,
    cores: &[f64],
    works: &[f64],
    begins: Time,
) -> Vec<ReplayStep> {
    // For each stretch of time: ends of queries, failures among them, and the work done for these.
    let mut ends = vec![(0.0, 0.0, 0.0); cores.len().div_ceil(FAILURE_PIECES)];
    for it in past.moves.iter().filter(|it| !it.comes) {
        let place = piece_at(begins, it.at) / FAILURE_PIECES;
        let query = history.queries.get(it.query);
        if let (Some((all, failed, work)), Some(query)) = (ends.get_mut(place), query) {
            *all += 1.0;
            if query.failed() {
                *failed += 1.0;
                *work += works.get(it.query).copied().unwrap_or(0.0);
            }
        }
    }
    let mut steps = Vec::<ReplayStep>::new();
    for (place, cores) in cores.iter().enumerate() {
        let counts = ends.get(place / FAILURE_PIECES);
        let (all, failed, work) = counts.copied().unwrap_or((0.0, 0.0, 0.0));
        let step = ReplayStep {
            from_ns: place as Time * PIECE_NS,
            cores: *cores,
            fails: if all > 0.0 { failed / all } else { 0.0 },
            failure_cost_ns: if failed > 0.0 {
                (work / failed).max(COST_MIN_NS)
            } else {
                COST_MIN_NS
            },
        };
        let is_same = |last: &ReplayStep| {
            let now = ReplayStep {
                from_ns: last.from_ns,
                ..step
            };
            *last == now
        };
        if !steps.last().is_some_and(is_same) {
            steps.push(step);
        }
    }
    steps
}

/// Returns the assumptions of this model, beside those of every model.
fn assumptions(history: &History, network: Duration, cut_ns: Option<Time>) -> Vec<String> {
    let count = |attempt| {
        (history.queries.iter())
            .filter(|it| it.attempt == attempt)
            .count()
    };
    let mut told = vec![
        "each replica shares what it can do at a time evenly among its queries, each on one core at the most; what it can do, \
         and what each query costs, are estimated from how many queries it had and when they ended"
            .to_owned(),
        "a query comes when it came and costs the same at every replica; what a replica could do does not depend on who else is \
         asked"
            .to_owned(),
    ];
    told.push(if network.is_zero() {
        "no probe that was answered was recorded: probes and queries travel in no time".to_owned()
    } else {
        format!("probes and queries travel {network:?} each way, half of a short recorded round trip; answers to probes are taken in at once")
    });
    let mut note = |is_so: bool, text: String| {
        if is_so {
            told.push(text);
        }
    };
    let (retries, hedges) = (count(Attempt::Retry), count(Attempt::Hedge));
    let shadows = (history.queries.iter()).filter(|it| it.is_shadow).count();
    note(
        retries + hedges + shadows > 0,
        format!(
            "{retries} retries, {hedges} second copies and {shadows} copies for trials come when they came, each a query of its own: \
             another policy might cause fewer or more; latencies are those of first tries"
        ),
    );
    let left = (history.queries.iter()).filter(|it| it.is_first() && !it.is_settled());
    let left = left.count();
    note(
        left > 0,
        format!(
            "{left} first tries were given up (their clients left, or a second copy was answered first) or out at the end: they are load, \
             and in no latency, neither recorded nor modelled; where these are many, latencies are not what clients saw"
        ),
    );
    if let Some(cut_ns) = cut_ns {
        let seconds = Duration::from_nanos(cut_ns).as_secs();
        note(
            true,
            format!(
                "only the first {seconds} s are played: the whole is too long for this many replicas"
            ),
        );
    }
    note(
        history.probes_answered > 0 && history.probes_lost > 0,
        format!(
            "in the whole recording, {} of {} probes were lost: all are answered here, also by replicas that never answered one",
            history.probes_lost, history.probes
        ),
    );
    let pinned = history
        .queries
        .iter()
        .filter(|it| it.pinned.is_some())
        .count();
    note(
        pinned > 0,
        format!("{pinned} queries belong to a replica, and go there as they did"),
    );
    let keyed = history.queries.iter().filter(|it| it.has_key).count();
    note(
        keyed > 0,
        format!(
            "{keyed} queries had a key: none has one here, so that no policy keeps a key at the same replicas"
        ),
    );
    let failed = history.queries.iter().filter(|it| it.failed()).count();
    note(
        failed > 0,
        format!(
            "{failed} tries failed: replicas fail the same share of queries in the same second, for every client"
        ),
    );
    note(
        history.changes + history.withdrawals > 0,
        format!(
            "in the whole recording, all clients together received {} changes of the fleet, and {} times a part of it was taken out by checks or by hand: \
             they receive these at the same times here, wherever queries are sent",
            history.changes, history.withdrawals
        ),
    );
    told
}

#[cfg(test)]
mod tests;
