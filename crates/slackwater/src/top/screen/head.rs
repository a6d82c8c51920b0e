//! The head of all pages: the process, the service, and its condition.

use super::super::app::{App, Link};
use super::super::message::{Latency, LoadStatus, sum};
use super::super::trend::Point;
use super::super::words::{carries, cost, cut, latency, latency_if_any, percent, percent_of};
use super::bar;
use super::canvas::Canvas;
use crate::output::clean;
use crate::terminal::line::{Ink, Line};
use crate::terminal::problems::problem_line;
use crate::terminal::words;
use core::time::Duration;
use ratatui::layout::Rect;
use slackwater_telemetry::facts::Phase;
use std::time::Instant;

/// Width from which the figures are separated by wider gaps.
const FIGURES_AT_EASE: usize = 100;

/// The most problems that are shown.
const PROBLEMS_MAX: usize = 3;

/// Draws the process, its uptime, and the state of the connection.
pub(super) fn title(app: &App, canvas: &mut Canvas<'_>, now: Instant) {
    let fleet = app.model().fleet();
    let tick = app.model().tick();
    let who = format!("  {} {} at {}", fleet.role, fleet.version, app.address);
    let mut line = Line::default()
        .with(Ink::Strong, " slackwater top")
        .with(Ink::Plain, who);
    if let Some(tick) = tick {
        let up = words::clock(Duration::from_millis(tick.uptime_ms));
        let ink = match tick.phase {
            Phase::Serving => Ink::Plain,
            _ => Ink::Alarm,
        };
        line = line
            .with(ink, format!("  {}", tick.phase.as_str()))
            .with(Ink::Plain, format!(", up {up}"));
    }
    if app.is_paused() {
        line = line.ending_at(canvas.width().saturating_sub(1), Ink::Strong, "paused");
    }
    canvas.line(&line);
    let trouble = match &app.link {
        Link::Lost { why, retry_at } => {
            let left = retry_at.saturating_duration_since(now).as_secs_f64().ceil();
            Some(format!(" connection lost: {why}; next try in {left:.0} s"))
        }
        Link::Live => app.stale_for(now).map(|silence| {
            let since = words::clock(silence);
            format!(" no figures for {since}: what is shown is that old")
        }),
    };
    if let Some(trouble) = trouble {
        canvas.line(&Line::default().with(Ink::Alarm, trouble));
    }
}

/// What is wrong, a line for each problem; of many the worst, and the number of the others.
pub(super) fn problems(app: &App, canvas: &mut Canvas<'_>) {
    let (problems, now) = app.model().problems();
    for problem in problems.iter().take(PROBLEMS_MAX) {
        let ink = if problem.severe {
            Ink::Alarm
        } else {
            Ink::Strong
        };
        let mut line = Line::default().with(ink, format!(" {}", problem_line(problem, now)));
        if !problem.remedy.is_empty() {
            line = line.with(Ink::Faint, format!("; {}", clean(&problem.remedy)));
        }
        canvas.line(&line);
    }
    if let Some(more @ 1..) = problems.len().checked_sub(PROBLEMS_MAX) {
        let text = format!(" and {more} more: slackwater admin status lists them");
        canvas.line(&Line::default().with(Ink::Strong, text));
    }
}

/// Draws the names of the services, if there are several. The current one is in brackets.
pub(super) fn services(app: &mut App, canvas: &mut Canvas<'_>) {
    let services = &app.model().fleet().services;
    if services.len() < 2 {
        return;
    }
    let text = |index: usize| {
        let service = services.get(index);
        let name = service.map_or("", |service| service.name.as_str());
        format!(" {} {} ", index + 1, cut(name, 24))
    };
    let width = |from: usize| -> usize {
        let texts = (from..=app.service).map(|index| text(index).chars().count() + 1);
        texts.sum()
    };
    // The first service from which on the current one fits.
    let mut from = 0;
    while from < app.service && width(from) >= canvas.width() {
        from += 1;
    }
    let mut line = Line::default().with(Ink::Plain, " ");
    let mut places = Vec::new();
    for index in from..services.len() {
        let start = line.columns();
        let ink = if index == app.service {
            Ink::Strong
        } else {
            Ink::Faint
        };
        let name = if index == app.service {
            format!("[{}]", text(index).trim())
        } else {
            text(index)
        };
        line = line.with(ink, name);
        places.push((start, line.columns(), index));
        if line.columns() >= canvas.width() {
            break;
        }
    }
    let row = canvas.line(&line);
    let column = |column: usize| u16::try_from(column).unwrap_or(u16::MAX);
    for (start, end, index) in places {
        let place = Rect {
            x: row.x.saturating_add(column(start)),
            width: column(end - start),
            ..row
        };
        app.hits.services.push((place.intersection(row), index));
    }
}

/// Draws the service's policy, rate, errors and latency.
pub(super) fn figures(app: &App, canvas: &mut Canvas<'_>) {
    let model = app.model();
    let services = &model.fleet().services;
    let Some(service) = services.get(app.service) else {
        return;
    };
    let mut line = Line::default()
        .with(Ink::Plain, " ")
        .with(Ink::Strong, cut(&service.name, 24));
    if service.policy != service.name && service.policy != "none" {
        line = line.with(Ink::Plain, format!(", {}", service.policy));
    }
    let Some(tick) = model.service(app.service) else {
        canvas.line(&line.with(Ink::Faint, "   waiting for the first figures"));
        return;
    };
    let is_narrow = canvas.width() < FIGURES_AT_EASE;
    let (gap, unit) = if is_narrow {
        ("  ", "req/s")
    } else {
        ("   ", "requests/s")
    };
    let errors = percent_of(tick.failed, tick.requests);
    let ink = if tick.failed > 0 {
        Ink::Alarm
    } else {
        Ink::Plain
    };
    let of =
        |quantile: fn(&Latency) -> u64| latency_if_any(tick.latency_10s.as_ref().map(quantile));
    line = line
        .with(Ink::Plain, gap)
        .with(Ink::Strong, words::rate(tick.rate.round()))
        .with(Ink::Plain, format!(" {unit}{gap}"))
        .with(ink, format!("errors {errors}"))
        .with(
            Ink::Plain,
            format!("{gap}p50 {}{gap}p99 ", of(|latency| latency.p50_us)),
        )
        .with(Ink::Strong, of(|latency| latency.p99_us))
        .with(
            Ink::Plain,
            format!("{gap}p99.9 {}", of(|latency| latency.p999_us)),
        );
    canvas.line(&line);
}

/// Draws rate, p99 and errors over the last minutes.
pub(super) fn trend(app: &App, canvas: &mut Canvas<'_>) {
    let Some(trend) = app.model().trend(app.service) else {
        return;
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and a bar has a few blocks"
    )]
    let rate: fn(&Point) -> u64 = |point| point.rate as u64;
    let p99: fn(&Point) -> u64 = |point| point.p99_us.unwrap_or(0);
    let failed: fn(&Point) -> u64 = |point| point.failed_thousandths;
    let part: fn(u64) -> String = |thousandths| percent(thousandths as f64 / 1_000.0);
    let shown = [
        (
            "requests/s",
            Ink::First,
            rate,
            words::count as fn(u64) -> String,
        ),
        ("p99", Ink::First, p99, latency),
        ("errors", Ink::Alarm, failed, part),
    ];
    // How many values fit depends on the labels, and these on the values. The highest value of all
    // has about as many characters as the highest that fits.
    let fixed = shown.iter().map(|(name, _, value, write)| {
        let highest = trend.points().map(value).max().unwrap_or(0);
        name.chars().count() + write(highest).chars().count() + 6
    });
    let width = (canvas.width().saturating_sub(fixed.sum()) / shown.len()).min(60);
    let mut line = Line::default();
    for (name, ink, value, write) in shown {
        let values = bar::last(trend.points(), width, value);
        let high = write(values.iter().copied().max().unwrap_or(0));
        let end = line.columns() + name.chars().count() + width + high.chars().count() + 6;
        let blocks = format!("{:>width$}", bar::sparkline(&values));
        line = line
            .with(Ink::Faint, format!(" {name} "))
            .with(ink, blocks)
            .with(Ink::Faint, format!(" ≤ {high}"))
            .padded_to(end);
    }
    canvas.line(&line);
}

/// What an agent has learned of its server; unknown values are left out.
fn learned(load: &LoadStatus) -> Vec<String> {
    let capacity = load.capacity_millirif.map(|millirif| {
        let by = match load.capacity_source.as_deref() {
            Some("waits") => " by how long threads wait for a CPU",
            Some("latency") => " by latency",
            Some("cores") => " by the cores that it may use",
            _ => "",
        };
        format!("can carry {}{by}", carries(millirif.into()))
    });
    let cost = load
        .cost_us
        .map(|us| format!("spends {} on a request", cost(us)));
    let cpu = load
        .cpu_millionths
        .map(|millionths| format!("uses {} of its CPU", percent(f64::from(millionths) / 1e6)));
    [capacity, cost, cpu].into_iter().flatten().collect()
}

/// Draws an agent's answer to probes, and its queue.
pub(super) fn own(app: &App, canvas: &mut Canvas<'_>) {
    let Some(tick) = app.model().tick() else {
        return;
    };
    if let Some(load) = &tick.own_load {
        let text = format!(
            " answers probes: RIF {}, latency {}{}",
            words::count(load.rif.into()),
            latency_if_any(load.latency_us),
            if load.draining { ", draining" } else { "" }
        );
        canvas.line(&Line::default().with(Ink::Plain, text));
        let learned = learned(load);
        if !learned.is_empty() {
            let text = format!(" its server {}", learned.join(", "));
            canvas.line(&Line::default().with(Ink::Plain, text));
        }
    }
    if let Some(queue) = &tick.own_queue {
        let shed = sum(queue.shed.values());
        let text = format!(
            " queue: {} of {} at the server, {} waiting, the oldest for {}; since the start {} queued, {} turned away",
            words::count(queue.rif.into()),
            words::count(queue.limit.into()),
            words::count(sum(queue.waiting.values())),
            latency(queue.age_us),
            words::count(queue.queued),
            words::count(shed),
        );
        let ink = if queue.standing {
            Ink::Alarm
        } else {
            Ink::Plain
        };
        canvas.line(&Line::default().with(ink, text));
    }
}
