//! Estimates each replica's capacity over time, and the cost of a query: the most likely values of
//! a grid.
//!
//! A replica of C cores with n queries in service works on each at the pace min(1, C / n). So it
//! finishes min(n, C) / c queries per time, where c is the mean cost of a query, for any
//! distribution of costs if the CPU is shared evenly. C and c therefore follow from the numbers in
//! service and the ends of queries: ends with one query in service give c, and ends with many give
//! C / c. C may change from piece to piece of the past. A change is less likely than none, and a
//! small change is more likely than a large one.

use super::levels::{Past, Piece};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Steps of the grid of capacities.
const STATES: usize = 32;
/// Factor from one step to the next.
const STEP: f64 = 1.22;
/// The step of the fleet's own level.
const MIDDLE: usize = 20;
/// Cost of a change as a logarithm of odds: by one step, by more steps, and for each of these
/// steps.
const STEP_COST: f64 = 2.0;
const JUMP_COST: f64 = 4.5;
const DISTANCE_COST: f64 = 0.05;
/// How strongly a piece without evidence tends to the fleet's own level, for each squared step from
/// it.
const PULL: f64 = 0.002;
/// Costs that are tried, as multiples of the cost that ends with one query in service give.
const TRIES: core::ops::RangeInclusive<i32> = -7..=5;
const TRY_STEP: f64 = 1.1;

/// The estimates.
#[derive(Clone, Debug)]
pub(super) struct Capacities {
    /// Mean cost of a query, in nanoseconds.
    pub(super) mean_cost_ns: f64,
    /// Cores of each replica, piece by piece.
    pub(super) cores: Vec<Vec<f64>>,
}

/// Returns the most likely capacities; `None` if too few queries were finished, or if `stop` was
/// set.
pub(super) fn find(pasts: &[Past], stop: &AtomicBool) -> Option<Capacities> {
    let whole = together(pasts);
    let finished: f64 = whole.0.iter().map(|level| level.finished).sum();
    if finished < 100.0 {
        return None;
    }
    let first_guess_ns = first_guess_ns(&whole);
    let tries = TRIES.map(|exponent| first_guess_ns * TRY_STEP.powi(exponent));
    let found = tries.map(|mean_cost_ns| {
        let grid = grid(&whole, mean_cost_ns);
        let going = pasts.iter().take_while(|_| !stop.load(Relaxed));
        let paths = going.map(|past| path(past, &grid, mean_cost_ns));
        let (likelihoods, cores): (Vec<f64>, Vec<Vec<f64>>) = paths.unzip();
        let likelihood: f64 = likelihoods.iter().sum();
        let capacities = Capacities {
            mean_cost_ns,
            cores,
        };
        (likelihood, capacities)
    });
    let best = found.max_by(|(a, _), (b, _)| a.total_cmp(b));
    let best = best.filter(|_| !stop.load(Relaxed));
    best.map(|(_, capacities)| capacities)
}

/// Joins all pieces of all replicas.
fn together(pasts: &[Past]) -> Piece {
    let mut levels = std::collections::BTreeMap::new();
    for level in pasts
        .iter()
        .flat_map(|past| &past.pieces)
        .flat_map(|it| &it.0)
    {
        let (time_ns, finished) = levels.entry(level.queries).or_insert((0.0, 0.0));
        *time_ns += level.time_ns;
        *finished += level.finished;
    }
    let levels = levels
        .into_iter()
        .map(|(queries, (time_ns, finished))| super::levels::Level {
            queries,
            time_ns,
            finished,
        });
    Piece(levels.collect())
}

/// Estimates the time of a query that is alone. It uses the lowest numbers in service that have
/// enough ends.
fn first_guess_ns(whole: &Piece) -> f64 {
    const ENDS_MIN: f64 = 50.0;
    let (mut work_ns, mut finished) = (0.0, 0.0);
    for level in &whole.0 {
        work_ns += level.time_ns * f64::from(level.queries);
        finished += level.finished;
        if finished >= ENDS_MIN {
            break;
        }
    }
    work_ns / finished
}

/// Returns the grid of capacities around the most likely one of all replicas together.
fn grid(whole: &Piece, mean_cost_ns: f64) -> [f64; STATES] {
    let tries = (-40..=80).map(|exponent| 1.1_f64.powi(exponent));
    let best = tries.max_by(|a, b| {
        let [a, b] = [*a, *b].map(|cores| likelihood(whole, cores, mean_cost_ns));
        a.total_cmp(&b)
    });
    let level = best.unwrap_or(1.0);
    core::array::from_fn(|state| level * STEP.powf(state as f64 - MIDDLE as f64))
}

/// Returns the log-likelihood of the ends of a piece.
fn likelihood(piece: &Piece, cores: f64, mean_cost_ns: f64) -> f64 {
    let levels = piece.0.iter().map(|level| {
        let rate = f64::from(level.queries).min(cores) / mean_cost_ns;
        level.finished * rate.ln() - level.time_ns * rate
    });
    levels.sum()
}

fn change_cost(from: usize, to: usize) -> f64 {
    match from.abs_diff(to) {
        0 => 0.0,
        1 => STEP_COST,
        steps => JUMP_COST + DISTANCE_COST * steps as f64,
    }
}

/// Returns the log-likelihood of the most likely path through the grid (Viterbi, 1967), and the
/// path.
fn path(past: &Past, grid: &[f64; STATES], mean_cost_ns: f64) -> (f64, Vec<f64>) {
    let pull: [f64; STATES] =
        core::array::from_fn(|state| -PULL * (state as f64 - MIDDLE as f64).powi(2));
    let mut scores = pull;
    let mut from = Vec::<[u8; STATES]>::with_capacity(past.pieces.len());
    for piece in &past.pieces {
        let mut next = [f64::NEG_INFINITY; STATES];
        let mut came = [0; STATES];
        for (state, cores) in grid.iter().enumerate() {
            for (before, score) in scores.iter().enumerate() {
                let score = score - change_cost(before, state);
                if score > next[state] {
                    next[state] = score;
                    came[state] = u8::try_from(before).unwrap_or(0);
                }
            }
            next[state] += pull[state] + likelihood(piece, *cores, mean_cost_ns);
        }
        scores = next;
        from.push(came);
    }
    let best = (0..STATES).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let mut state = best.unwrap_or(MIDDLE);
    let likelihood = scores[state];
    let mut cores = vec![grid[state]; past.pieces.len()];
    for (place, came) in from.iter().enumerate().rev() {
        cores[place] = grid[state];
        state = usize::from(came[state]);
    }
    (likelihood, cores)
}
