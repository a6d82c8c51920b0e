//! `slackwater load` itself: runs the plan, shows its progress, prints its figures.
//!
//! The table goes to standard output. Progress goes to standard error, and only if that is a
//! terminal, so that output can be piped. The JSON file is opened before the run, so that a bad
//! path is reported at once and not after ten minutes.

use super::{Args, Live, Run, Summary};
use crate::json_output::JsonOutput;
use crate::output::print;
use core::time::Duration;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use slackwater_config::Fault;
use std::io::{self, IsTerminal};
use tokio::runtime::{Builder, Runtime};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

const THREADS_MAX: usize = 64;

const REFRESH: Duration = Duration::from_millis(200);

/// Seconds covered by the rolling figures on the progress bar.
const WINDOW_SECONDS: usize = 3;

/// Runs `slackwater load`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    let plan = args.plan()?;
    let runtime = runtime(args.threads)?;
    let json = args.json.map(JsonOutput::open).transpose()?;
    let (target, length) = (plan.target.clone(), plan.whole_duration());
    let summary = runtime.block_on(async {
        let run = Run::prepare(plan, WINDOW_SECONDS)
            .await
            .map_err(|error| Fault::usage(format!("{target}: cannot be resolved: {error}")))?;
        let bar = if args.quiet {
            ProgressBar::hidden()
        } else {
            progress_bar(length)
        };
        let summary = watch(run, &bar).await;
        bar.finish_and_clear();
        summary.map_err(|error| Fault::runtime(format!("cannot start a thread: {error}")))
    })?;
    // Requests that a second Ctrl-C left unfinished are not waited for.
    runtime.shutdown_background();
    print_summary(&summary, json, args.quiet)?;
    match args.max_errors {
        Some(max) if summary.errors > max => Err(Fault::runtime(format!(
            "{} requests failed, more than --max-errors {max}",
            summary.errors
        ))),
        _ => Ok(()),
    }
}

/// One thread measures best as long as it keeps up: no wake-up crosses between processors on the
/// way from the kernel to the request. This saves 60 µs at the median and a quarter of the
/// processor time at 10,000 requests/s.
fn runtime(threads: usize) -> Result<Runtime, Fault> {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        2..=THREADS_MAX => Builder::new_multi_thread(),
        _ => {
            return Err(Fault::usage(format!(
                "--threads {threads}: must be from 1 to {THREADS_MAX}"
            )));
        }
    };
    let built = builder.worker_threads(threads).enable_all().build();
    built.map_err(|error| Fault::runtime(format!("cannot start the runtime: {error}")))
}

/// Drives the run and refreshes the bar. The first Ctrl-C ends the schedule, the second the run.
async fn watch(run: Run, bar: &ProgressBar) -> io::Result<Summary> {
    let live = run.live();
    let stop = CancellationToken::new();
    let mut driven = core::pin::pin!(run.drive(stop.clone()));
    let mut interrupt = core::pin::pin!(interrupted());
    let mut refresh = tokio::time::interval(REFRESH);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            summary = &mut driven => return summary,
            () = &mut interrupt => {
                if stop.is_cancelled() {
                    return Ok(live.summary());
                }
                stop.cancel();
                interrupt.set(interrupted());
            }
            _ = refresh.tick() => show(&live, bar, stop.is_cancelled()),
        }
    }
}

/// Waits for the next Ctrl-C; never returns if the signal cannot be caught.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        core::future::pending::<()>().await;
    }
}

fn progress_bar(length: Duration) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let total_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let bar = ProgressBar::with_draw_target(Some(total_ms), ProgressDrawTarget::stderr());
    // With an unusable template, indicatif's own bar stays.
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3}%  {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

fn show(live: &Live, bar: &ProgressBar, is_stopping: bool) {
    if bar.is_hidden() {
        return;
    }
    let figures = live.figures();
    let latency = &figures.window.latency;
    bar.set_position(u64::try_from(figures.elapsed.as_millis()).unwrap_or(u64::MAX));
    bar.set_message(format!(
        "{}p50 {:.1} p99 {:.1} p99.9 {:.1} ms; {} errors, {} requests, {} in flight, {} waiting",
        if is_stopping { "stopping: " } else { "" },
        latency.p50_ms,
        latency.p99_ms,
        latency.p999_ms,
        figures.errors,
        figures.requests,
        figures.in_flight,
        figures.waiting,
    ));
}

fn print_summary(summary: &Summary, json: Option<JsonOutput>, is_quiet: bool) -> Result<(), Fault> {
    let is_stdout_taken = json.as_ref().is_some_and(JsonOutput::is_stdout);
    if let Some(json) = json {
        json.write(summary)?;
    }
    if !is_quiet && !is_stdout_taken {
        print(&format!("{summary}\n"))?;
    }
    Ok(())
}
