//! The results that another policy would have had, by a model of the recorded replicas.

use super::Args;
use super::exact::Service;
use super::figures::{number, span};
use crate::output::clean;
use crate::sim::policies::{self, Around};
use crate::sim::progress::Meter;
use crate::sim::stop::Stop;
use core::fmt::Write;
use core::time::Duration;
use serde::Serialize;
use slackwater_config::Fault;
use slackwater_core::policy::{POLICIES, PolicyEntry};
use slackwater_sim::interval::Estimate;
use slackwater_sim::replay::compare::{Recorded, Row, Verdict, rows};
use slackwater_sim::replay::model::Model;
use slackwater_sim::runner::{Job, run_all};
use slackwater_sim::{Measured, PolicyChoice, Seeds};
use std::sync::Arc;

/// A service under another policy.
#[derive(Debug)]
pub(super) struct Changed {
    service: String,
    recorded_policy: &'static str,
    policy: String,
    model: Model,
    rows: Vec<Row>,
    /// The share of failed first attempts: as recorded, and by the model under both policies.
    errors: [f64; 3],
    /// The mean share of each replica, by the model under the recorded policy and under the other
    /// one.
    shares: Vec<[f64; 2]>,
    replicas: Vec<String>,
    seeds: usize,
}

/// Plays the model of a service under its own policy and the requested one.
pub(super) fn play(
    service: &Service,
    args: &Args,
    name: &str,
    seeds: Seeds,
    stop: &Stop,
) -> Result<Changed, Fault> {
    let model = Model::of(&service.history, stop.flag()).ok_or_else(|| {
        if stop.is_set() {
            return Stop::fault("nothing was compared");
        }
        Fault::runtime(format!(
            "service {} under {}: fewer than 100 queries were answered, which is too little for a model",
            service.name, service.policy.entry.name
        ))
    })?;
    let recorded = choice(service, service.policy.entry.name)?;
    let other = choice(service, name)?;
    let seed_list: Vec<_> = seeds.iter().collect();
    let job = |policy: &PolicyChoice, seed| Job {
        scenario: Arc::clone(&model.scenario),
        policy: policy.clone(),
        seed,
    };
    let jobs: Vec<_> = [&recorded, &other]
        .into_iter()
        .flat_map(|policy| seed_list.iter().map(move |&seed| job(policy, seed)))
        .collect();
    let meter = Meter::new(service.name.clone());
    meter.begin(
        jobs.len(),
        (model.queries * jobs.len()) as f64,
        args.threads(),
    );
    let progress = |progress| meter.show(progress);
    let runs = run_all(&jobs, args.threads(), &progress, stop.flag());
    drop(meter);
    if runs.len() < jobs.len() {
        return Err(Stop::fault("nothing was compared"));
    }
    let (same, changed) = runs.split_at(seed_list.len());
    let recorded = Recorded {
        all: &model.recorded,
        by_block: &model.recorded_by_block,
    };
    let rows =
        rows(recorded, same, changed).ok_or_else(|| Fault::runtime("nothing was measured"))?;
    Ok(Changed {
        service: service.name.clone(),
        recorded_policy: service.policy.entry.name,
        policy: name.to_owned(),
        rows,
        errors: [model.recorded_error_share, errors(same), errors(changed)],
        shares: shares(same, changed),
        replicas: service.history.replicas.clone(),
        seeds: seed_list.len(),
        model,
    })
}

/// A policy with the recorded settings and health tracking.
fn choice(service: &Service, name: &str) -> Result<PolicyChoice, Fault> {
    let recorded = &service.policy;
    let around = Around {
        settings: recorded.settings.clone(),
        health: (!recorded.health.is_off()).then(|| recorded.health.clone()),
    };
    policies::choice("--policy", name, &around)
}

/// The text that replaces the model's results for a service that already had this policy.
pub(super) fn own_text(service: &Service) -> String {
    let (name, policy) = (clean(&service.name), service.policy.entry.name);
    format!("\n{name} under {policy}: that was its own policy, and is played exactly above\n")
}

/// Returns whether this is the service's own policy, for which only the exact replay is meaningful.
pub(super) fn is_own(service: &Service, name: &str) -> bool {
    let own: &PolicyEntry = service.policy.entry;
    POLICIES
        .iter()
        .any(|entry| entry.name == name && entry == own)
}

fn errors(runs: &[Measured]) -> f64 {
    runs.iter().map(Measured::error_share).sum::<f64>() / runs.len().max(1) as f64
}

fn shares(same: &[Measured], changed: &[Measured]) -> Vec<[f64; 2]> {
    let replicas = same.first().map_or(0, |run| run.queries_by_replica.len());
    let share = |runs: &[Measured], replica: usize| {
        let own = runs
            .iter()
            .filter_map(|run| run.queries_by_replica.get(replica));
        let all: u64 = runs.iter().map(|run| run.queries).sum();
        own.sum::<u64>() as f64 / all.max(1) as f64
    };
    (0..replicas)
        .map(|replica| [share(same, replica), share(changed, replica)])
        .collect()
}

impl Changed {
    /// The results as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) -> core::fmt::Result {
        let Self {
            service,
            recorded_policy,
            policy,
            model,
            seeds,
            ..
        } = self;
        let queries = number(model.queries as u64);
        writeln!(
            to,
            "\n{} under {policy} in place of {recorded_policy}, by a model: {queries} queries of {} in the mean, {seeds} seeds",
            clean(service),
            span(model.mean_cost)
        )?;
        writeln!(to, "  taken for granted:")?;
        for assumption in &model.assumptions {
            writeln!(to, "  - {assumption}")?;
        }
        let (same, other) = (*recorded_policy, policy.as_str());
        let head = [
            "",
            "recorded",
            &format!("{same}, modelled"),
            "model's error",
            &format!("{other}, modelled"),
            "change",
        ]
        .map(str::to_owned);
        let mut lines = vec![head.to_vec()];
        for row in &self.rows {
            lines.push(vec![
                row.name.to_owned(),
                span(row.recorded),
                ms(Some(row.same_ms)),
                error(row.error),
                ms(row.other_ms),
                change(row.change),
            ]);
        }
        let [recorded, same, other] = self.errors.map(|share| format!("{:.2} %", share * 100.0));
        lines.push(vec![
            "failed".to_owned(),
            recorded,
            same,
            String::new(),
            other,
            String::new(),
        ]);
        write_table(to, &lines)?;
        for row in &self.rows {
            writeln!(to, "  {}", self.sentence(row))?;
        }
        writeln!(
            to,
            "  how far the model misses {policy} is not known: under {recorded_policy} it is known, and may be less"
        )?;
        let shares = self.replicas.iter().zip(&self.shares).take(32);
        for (name, [same, other]) in shares {
            let (same, other) = (same * 100.0, other * 100.0);
            writeln!(
                to,
                "    {}: {same:.1} % modelled, {other:.1} % under {policy}",
                clean(name)
            )?;
        }
        Ok(())
    }

    fn sentence(&self, row: &Row) -> String {
        let (name, policy) = (row.name, &self.policy);
        let error = format!("{:.0} %", (row.error.value - 1.0).abs() * 100.0);
        let error_max = format!("{:.0} %", (row.error_max() - 1.0) * 100.0);
        match (row.verdict(), row.change) {
            (Some(Verdict::Lower | Verdict::Higher), Some(change)) => {
                let would = Duration::from_secs_f64(row.recorded.as_secs_f64() * change.value);
                format!(
                    "{name} would have been about {} under {policy} in place of {}; under {} the model misses what was by {error}, perhaps by {error_max}{}",
                    span(would),
                    span(row.recorded),
                    self.recorded_policy,
                    match change.interval {
                        Some(_) => "",
                        None => "; one seed and no blocks of time say nothing of chance",
                    }
                )
            }
            (Some(Verdict::Unknown), _) => format!(
                "{name}: the difference is less than the model's error, perhaps {error_max}, so this says nothing"
            ),
            (Some(Verdict::TooFew), _) => format!(
                "{name}: only {} queries took longer, which is too few to say anything{}",
                row.beyond,
                match row.blocks {
                    (_, 0) => String::new(),
                    (some, all) => format!("; they came in {some} of {all} blocks of time"),
                }
            ),
            _ => {
                format!("{name}: no difference beyond chance; the model misses what was by {error}")
            }
        }
    }

    /// The results as figures.
    pub(super) fn figures(&self) -> ChangedFigures<'_> {
        let rows = self.rows.iter().map(|row| RowFigures {
            figure: row.name,
            recorded_ms: row.recorded.as_secs_f64() * 1e3,
            modelled_ms: row.same_ms.value,
            queries_beyond: row.beyond,
            model_error: row.error.value - 1.0,
            model_error_interval: (row.error.interval).map(|(low, high)| [low - 1.0, high - 1.0]),
            modelled_other_ms: row.other_ms.map(|it| it.value),
            change: row.change.map(|it| it.value),
            change_interval: row.change.and_then(|it| it.interval).map(<[f64; 2]>::from),
            verdict: row.verdict().map(word),
        });
        ChangedFigures {
            service: &self.service,
            recorded_policy: self.recorded_policy,
            policy: &self.policy,
            queries: self.model.queries,
            seeds: self.seeds,
            mean_cost_ms: self.model.mean_cost.as_secs_f64() * 1e3,
            cores: &self.model.cores,
            assumptions: &self.model.assumptions,
            figures: rows.collect(),
            error_shares: self.errors,
        }
    }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Lower => "lower",
        Verdict::Higher => "higher",
        Verdict::Alike => "alike",
        Verdict::Unknown => "less than the model's error",
        Verdict::TooFew => "too few queries",
    }
}

/// The figures of a service for `--json`.
#[derive(Debug, Serialize)]
pub(super) struct ChangedFigures<'c> {
    service: &'c str,
    recorded_policy: &'c str,
    policy: &'c str,
    queries: usize,
    seeds: usize,
    mean_cost_ms: f64,
    cores: &'c [f64],
    assumptions: &'c [String],
    figures: Vec<RowFigures>,
    /// Share of failures of the first attempts that were not cancelled: as recorded, by the model,
    /// by the model under the other policy.
    error_shares: [f64; 3],
}

#[derive(Debug, Serialize)]
struct RowFigures {
    figure: &'static str,
    recorded_ms: f64,
    modelled_ms: f64,
    /// Recorded queries that took longer. Below 100, the row has no result.
    queries_beyond: u64,
    model_error: f64,
    model_error_interval: Option<[f64; 2]>,
    modelled_other_ms: Option<f64>,
    change: Option<f64>,
    change_interval: Option<[f64; 2]>,
    verdict: Option<&'static str>,
}

fn ms(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(String::new, |estimate| {
        span(Duration::from_secs_f64(estimate.value.max(0.0) / 1e3))
    })
}

/// `-26 % [-41, +3]`.
fn error(Estimate { value, interval }: Estimate) -> String {
    let percent = |factor: f64| format!("{:+.0}", (factor - 1.0) * 100.0);
    let value = percent(value);
    match interval {
        Some((low, high)) => format!("{value} % [{}, {}]", percent(low), percent(high)),
        None => format!("{value} %"),
    }
}

/// `× 0.42 [0.40, 0.44]`.
fn change(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(String::new, |Estimate { value, interval }| match interval {
        Some((low, high)) => format!("× {value:.2} [{low:.2}, {high:.2}]"),
        None => format!("× {value:.2}"),
    })
}

/// Writes columns that are as wide as their widest cell.
fn write_table(to: &mut String, lines: &[Vec<String>]) -> core::fmt::Result {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    for line in lines {
        let cells = line.iter().zip(&widths);
        let cells: Vec<_> = cells
            .map(|(cell, &width)| format!("{cell:>width$}"))
            .collect();
        writeln!(to, "  {}", cells.join("   ").trim_end())?;
    }
    Ok(())
}
