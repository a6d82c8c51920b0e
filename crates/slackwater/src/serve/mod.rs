//! The sub-command `slackwater serve`: a balancing proxy for HTTP/1.1 and HTTP/2.
//!
//! [`run`] is the command: configuration, signals, exit code. [`slackwater_proxy`] is the proxy
//! itself. Changes at run time are in `control`, the part of them that is for a successor in
//! `handed_over`. The policies that a control plane chooses are in `cluster_policies`, and those of
//! them that are not applied in `refusals`.

mod cluster_policies;
mod control;
mod handed_over;
mod refusals;
mod running;
mod states;
mod status;
mod written;

use crate::log::Rounded;
use crate::process::{ProcessSignal, ProcessSignals, Signals, log_remark, run_configured};
use crate::record::{Existing, RecordArgs};
use crate::supervisor;
use crate::upgrade::{Inherited, Program, Upgrade};
use cluster_policies::ClusterPolicies;
use control::ControlQueue;
use handed_over::HandedOver;
use running::Running;
use slackwater_admin::Meaning;
use slackwater_config::Fault;
use slackwater_config::{Config, Loaded, Overrides};
use slackwater_core::policy::DEFAULT_POLICY;
use slackwater_discovery::Discovery;
use slackwater_proxy::access_log::{AccessLog, Switch};
use slackwater_proxy::traces::Exporter;
use slackwater_proxy::{Outside, Proxy, Reloaded, find, first_answers};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use written::{Read, Written};

/// How the process shuts down.
enum Ended {
    /// Running requests are finished first.
    InOrder,
    /// A second signal has arrived.
    AtOnce,
}

const EXAMPLES: &str = "\
Examples:
  slackwater serve --listen 127.0.0.1:8080 --replicas 10.0.0.1:80,10.0.0.2:80
  slackwater serve --listen '[::]:8080' --replicas a:80,b:80 --policy round_robin --probe none
  slackwater serve --config slackwater.toml --workers 4
  slackwater serve --config slackwater.toml --record /var/tmp/today.rec

Replicas are probed for their load by UDP at their own port; run `slackwater agent` beside replicas
that cannot answer.
SIGHUP: reads the configuration again; a mistaken one changes nothing.
SIGUSR1: opens the access log's file again.
SIGUSR2: replaces this process with the current binary and configuration; no connection is dropped.
SIGTERM and SIGINT: reports draining (/readyz), stops accepting connections after drain_delay (0),
finishes running requests (30 s at most), exits with 0. A second one: exits at once.";

/// Arguments of `slackwater serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration file; flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Read the configuration again also when its file changes, not only on SIGHUP
    #[arg(long, requires = "config")]
    watch: bool,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    record: RecordArgs,
}

/// Runs `slackwater serve`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    let record = args.record.clone();
    let mut inherited = Inherited::take()?;
    let handed_over = inherited.overrides();
    let handed_over = handed_over.map(|told| handed_over::understand(&told));
    let HandedOver { settings, orders } = handed_over.transpose()?.unwrap_or_default();
    let outside = Outside {
        orders,
        watchdog: supervisor::watchdog(),
        ..Outside::default()
    };
    // Created before the file is first read, so that no change is missed.
    let mut written = Written::new(args, settings);
    let Loaded {
        config,
        remarks,
        policies_unnamed,
    } = written.load()?;
    let (log, connections_max) = (config.log.clone(), config.limits.connections_max);
    let work = async {
        log_default(&policies_unnamed);
        written.refusals.log();
        serve(config, &mut written, inherited, outside, &record).await
    };
    run_configured(&log, &remarks, connections_max, work)
}

async fn serve(
    config: Config,
    written: &mut Written,
    mut inherited: Inherited,
    mut outside: Outside,
    record: &RecordArgs,
) -> Result<(), Fault> {
    let mut signals = Signals::new()?;
    let mut process_signals = ProcessSignals::new()?;
    let program = Program::of_this_process();
    let access_log = AccessLog::start(&config.access_log)?;
    outside.access_log = access_log.as_ref().map(|log| log.switch().clone());
    let spans = Exporter::start(&config.tracing)?;
    outside.spans = spans.as_ref().map(|spans| spans.switch().clone());
    // The recording ends last, after the policies.
    let existing = if inherited.is_passed_on() {
        Existing::InUse
    } else {
        Existing::Kept
    };
    let recording = record.start(existing)?;
    outside.recorder = recording.as_ref().map(|it| it.recorder().clone());
    // Decisions can be read only at the admin server.
    outside.keeps_decisions = config.admin.listen.is_some();
    let admin_listener = admin_listener(&config, &mut inherited)?;
    let mut policies = ClusterPolicies::default();
    let is_successor = inherited.is_passed_on();
    let (config, fleets) = find_fleets(config, written, &mut policies, is_successor).await?;
    let lost = lost_services(&config, &outside);
    let (access_log_switch, watchdog) = (outside.access_log.clone(), outside.watchdog.clone());
    let proxy = Proxy::start(&config, fleets, outside, &mut inherited)?;
    let mut running = Running::new(proxy);
    control::take_over(&running, written, lost);
    let (control, mut queue) = ControlQueue::new(&running);
    let mut admin = admin_listener
        .map(|listener| running.run_admin(listener, &control))
        .transpose()?;
    let announce = inherited.finish()?;
    log_start(&running);
    match announce {
        Some(announce) => announce.serving(),
        None => supervisor::ready("serving"),
    }
    tokio::spawn(states::watch(Arc::downgrade(running.proxy.status())));
    tokio::spawn(supervisor::watch(watchdog));

    let mut upgrade = Upgrade::default();
    let succeeded = loop {
        let chosen = policies.changed(&running.services(), &written.set);
        // An arm that neither continues nor breaks leads to the reload below.
        tokio::select! {
            () = signals.next() => break false,
            fault = running.proxy.unasked_end() => return Err(fault),
            signal = process_signals.next() => match signal {
                ProcessSignal::Reopen => {
                    access_log_switch.iter().for_each(Switch::reopen);
                    continue;
                }
                ProcessSignal::Upgrade => {
                    match running.passed() {
                        Ok(passed) => upgrade.begin(&program, &passed),
                        Err(error) => tracing::error!(%error, "upgrade failed: cannot pass sockets"),
                    }
                    continue;
                }
                ProcessSignal::Reload => tracing::info!("reload requested by SIGHUP"),
            },
            () = written.changed() => tracing::info!("reload requested by --watch"),
            asking = queue.next() => {
                if upgrade.is_under_way() {
                    control::put_off(asking);
                    continue;
                }
                // A signal cancels the change, which then has no effect.
                tokio::select! {
                    () = signals.next() => break false,
                    () = control::carry_out(&mut running, written, &queue, asking) => {
                        policies.forget_refused();
                        continue;
                    }
                }
            }
            () = chosen => tokio::select! {
                () = signals.next() => break false,
                () = policies.apply(&mut running, written) => continue,
            },
            succeeded = upgrade.ended() => {
                if succeeded {
                    break true;
                }
                continue;
            }
        }
        tokio::select! {
            () = signals.next() => break false,
            _ = read_again(&mut running, written, &queue) => policies.forget_refused(),
        }
    };
    // Callers that still wait for a change receive an error.
    drop(queue);
    if succeeded {
        // The successor serves the same address, and accepts the connections that are queued there.
        let admin = admin.take();
        tokio::task::spawn_blocking(move || drop(admin));
    } else if let Ended::AtOnce = announce_end(&mut running, &mut signals, upgrade).await? {
        running.proxy.stop();
    }
    finish(&mut running, &mut signals).await?;
    drop(admin);
    tracing::info!("stopped");
    Ok(())
}

/// Opens the admin server's socket before any request is served: an operator with an admin server
/// must be able to watch from the start.
fn admin_listener(
    config: &Config,
    inherited: &mut Inherited,
) -> Result<Option<TcpListener>, Fault> {
    let open = |address| {
        let passed = inherited.admin(address);
        passed.map_or_else(|| slackwater_admin::bind(address), Ok)
    };
    config.admin.listen.map(open).transpose()
}

/// Finds the fleets of all services, and applies the policies that their clusters choose. The
/// predecessor of a successor serves on until this process knows what to serve, or has failed.
async fn find_fleets(
    config: Config,
    written: &mut Written,
    policies: &mut ClusterPolicies,
    is_successor: bool,
) -> Result<(Config, Vec<Arc<Discovery>>), Fault> {
    let fleets = find(&config).await?;
    if is_successor {
        first_answers(&fleets).await?;
    }
    let config = policies.at_start(config, &fleets, written).await;
    Ok((config, fleets))
}

/// Services that had overrides in the predecessor and are no longer configured.
fn lost_services(config: &Config, outside: &Outside) -> Vec<String> {
    let is_there = |name: &String| config.services.iter().any(|service| service.name == *name);
    let names = outside.orders.keys();
    names.filter(|name| !is_there(name)).cloned().collect()
}

/// Waits for running requests to end, or cancels them at another signal.
async fn finish(running: &mut Running, signals: &mut Signals) -> Result<(), Fault> {
    running.drain();
    tokio::select! {
        () = signals.next() => running.proxy.stop(),
        ended = running.proxy.ended() => ended?,
    }
    running.proxy.ended().await
}

/// Announces the shutdown and waits for `drain_delay`. Returns whether a signal demands to stop at
/// once.
async fn announce_end(
    running: &mut Running,
    signals: &mut Signals,
    mut upgrade: Upgrade,
) -> Result<Ended, Fault> {
    let (delay, drain) = (
        running.config().drain_delay,
        running.config().timeouts.drain,
    );
    tracing::info!(
        delay = %Rounded(delay),
        drain = %Rounded(drain),
        "shutting down; signal again to exit immediately"
    );
    supervisor::stopping("finishing running requests");
    running.proxy.lifecycle().set_draining();
    upgrade.give_up().await;
    tokio::select! {
        () = tokio::time::sleep(delay) => Ok(Ended::InOrder),
        () = signals.next() => Ok(Ended::AtOnce),
        fault = running.proxy.unasked_end() => Err(fault),
    }
}

/// Logs the default policy, because another version may have another default.
fn log_default(policies_unnamed: &[String]) {
    if !policies_unnamed.is_empty() {
        tracing::info!(
            services = policies_unnamed.join(", "),
            policy = DEFAULT_POLICY.name,
            docs = "docs/explanation/choosing-a-policy.md",
            "using the default policy"
        );
    }
}

fn log_start(running: &Running) {
    for service in running.services().iter() {
        tracing::info!(
            service = service.config.name,
            replicas = service.discovery.fleet().len(),
            from = service.discovery.state().source,
            policy = service.config.policy.name,
            "balancing"
        );
    }
    for address in running.proxy.addresses() {
        tracing::info!(%address, workers = running.config().workers, "serving");
    }
}

/// Reads the configuration again and puts it in force, or returns why it is rejected.
async fn read_again(
    running: &mut Running,
    written: &mut Written,
    queue: &ControlQueue,
) -> Result<Meaning, Fault> {
    // The supervisor that requested the reload is notified in any case, even if there is nothing to
    // read.
    supervisor::reloading();
    if !written.has_file() {
        tracing::warn!("reload ignored: there is no configuration file, only flags");
        supervisor::ready("serving");
        return Ok(Meaning::default());
    }
    let taken = take_again(running, written, queue).await;
    supervisor::ready(if taken.is_ok() {
        "serving"
    } else {
        "serving, by the configuration of before; the log says why"
    });
    taken
}

async fn take_again(
    running: &mut Running,
    written: &mut Written,
    queue: &ControlQueue,
) -> Result<Meaning, Fault> {
    let reloaded = async {
        let Read { loaded, sources } = written.load_again().await?;
        loaded.remarks.iter().for_each(log_remark);
        let reloaded = running.proxy.reload(loaded.config).await?;
        Ok((reloaded, loaded.remarks, sources))
    };
    match reloaded.await {
        Ok((reloaded, remarks, mut sources)) => {
            for service in sources.set.forget_absent(running.config()) {
                tracing::warn!(
                    service,
                    "service removed: its settings at run time are dropped"
                );
            }
            if !sources.set.is_empty() {
                let settings = sources.set.len();
                tracing::info!(settings, "settings at run time still override the file");
            }
            let meaning = control::meaning(&reloaded, &remarks, &sources.refused);
            written.take(sources, running.config());
            running.status.set_settings(written);
            running.proxy.status().count_reload(None);
            queue.take_token(running);
            log_reload(&reloaded);
            Ok(meaning)
        }
        Err(fault) => {
            running
                .proxy
                .status()
                .count_reload(Some(Fault::to_string(&fault)));
            tracing::error!("configuration rejected: {fault}");
            Err(fault)
        }
    }
}

fn log_reload(reloaded: &Reloaded) {
    tracing::info!(
        services_kept = reloaded.services_kept,
        services_started = reloaded.services_started.join(", "),
        services_ended = reloaded.services_ended.join(", "),
        listeners_opened = reloaded.listeners_opened.join(", "),
        listeners_closed = reloaded.listeners_closed.join(", "),
        "configuration reloaded"
    );
    for setting in &reloaded.need_restart {
        tracing::warn!("{setting} not changed: restart to apply it");
    }
}
