//! The sub-command `slackwater serve`: a balancing proxy for HTTP/1.1 and HTTP/2.
//!
//! [`run`] is the command: configuration, signals, exit code. [`start`] is the proxy itself. Requests are carried by
//! `worker`s over the machinery in [`forward`](crate::forward); which service gets one is decided in `routing`, which
//! replica in `service`. Fleets come from `sources`, another configuration by `reload`.

mod counts;
mod reload;
mod routing;
mod running;
mod service;
mod silence;
mod sources;
mod status;
mod tls;
mod worker;

use crate::access_log::{AccessLog, Switch};
use crate::config::{Config, Loaded, Overrides, Variables};
use crate::fault::Fault;
use crate::file_watch::FileWatch;
use crate::process::{Signals, Wish, Wishes, log_remark, run_configured};
use crate::record::RecordArgs;
use crate::supervisor;
use crate::traces::Exporter;
use crate::upgrade::{Inherited, Program, Upgrade};
use reload::Reloaded;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use running::{Outside, Running, start};
pub(crate) use sources::lists;

const EXAMPLES: &str = "\
Examples:
  slackwater serve --listen 127.0.0.1:8080 --replicas 10.0.0.1:80,10.0.0.2:80
  slackwater serve --listen '[::]:8080' --replicas a:80,b:80 --policy round_robin --probe none
  slackwater serve --config slackwater.toml --workers 4
  slackwater serve --config slackwater.toml --record /var/tmp/today.rec

Replicas are asked for their load by UDP at their own port; put `slackwater agent` before those that cannot answer.
SIGHUP: reads the configuration again; a mistaken one changes nothing.
SIGTERM and SIGINT: says so (/readyz), after drain_delay (0) takes no new connections, finishes what runs (30 s at most),
exits with 0. A second one: at once.";

/// Arguments of `slackwater serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration file; flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Read the configuration again when its file changes, too, and not on SIGHUP only
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
    // Before the first look, so that no change is missed.
    let mut written = Written::new(args);
    let Loaded { config, remarks } = written.load()?;
    let (log, connections_max) = (config.log.clone(), config.limits.connections_max);
    let work = serve(config, &mut written, &record);
    run_configured(&log, &remarks, connections_max, work)
}

/// The configuration as it is written, which may change.
#[derive(Debug)]
struct Written {
    file: Option<PathBuf>,
    overrides: Overrides,
    /// Absent: only a signal says that it is to be read again.
    watch: Option<FileWatch>,
}

impl Written {
    fn new(args: Args) -> Self {
        let Args {
            config,
            watch,
            mut overrides,
            record: _,
        } = args;
        overrides.variables = Variables::of_process();
        let watched = config.iter().filter(|_| watch).cloned();
        let watched: Vec<_> = watched.collect();
        Self {
            watch: (!watched.is_empty()).then(|| FileWatch::new(watched)),
            file: config,
            overrides,
        }
    }

    fn load(&self) -> Result<Loaded, Fault> {
        Ok(Config::load(self.file.as_deref(), &self.overrides)?)
    }

    /// Reads it again, beside whoever else is on this thread: host names may take their time.
    async fn load_again(&self) -> Result<Loaded, Fault> {
        let (file, overrides) = (self.file.clone(), self.overrides.clone());
        let load = move || Config::load(file.as_deref(), &overrides);
        let loaded = tokio::task::spawn_blocking(load).await;
        Ok(loaded.map_err(|_| Fault::runtime("the configuration could not be read"))??)
    }

    /// Waits until the file has changed; for ever, where nobody looks.
    async fn changed(&mut self) {
        match &mut self.watch {
            Some(watch) => watch.changed().await,
            None => core::future::pending().await,
        }
    }
}

async fn serve(config: Config, written: &mut Written, record: &RecordArgs) -> Result<(), Fault> {
    let mut signals = Signals::new()?;
    let mut wishes = Wishes::new()?;
    let program = Program::of_this_process();
    let mut outside = Outside {
        inherited: Inherited::take()?,
        ..Outside::default()
    };
    let access_log = AccessLog::start(&config.access_log)?;
    outside.access_log = access_log.as_ref().map(|log| log.switch().clone());
    let spans = Exporter::start(&config.tracing)?;
    outside.spans = spans.as_ref().map(|spans| spans.switch().clone());
    // Ends last, when the policies are gone.
    let recording = record.start(outside.inherited.is_passed_on())?;
    outside.recorder = recording.as_ref().map(|it| it.recorder().clone());
    // Before anything is served: whoever asked for an admin server wants to look at what happens.
    let admin_listener = config.admin.listen.map(|address| outside.admin(address));
    let admin_listener = admin_listener.transpose()?;
    let fleets = sources::find(&config).await?;
    let mut running = start(&config, fleets, &mut outside)?;
    let mut admin = admin_listener
        .map(|listener| running.run_admin(listener))
        .transpose()?;
    let announce = outside.inherited.finish()?;
    tell_start(&running);
    match announce {
        Some(announce) => announce.serving(),
        None => supervisor::ready("serving"),
    }
    tokio::spawn(silence::watch(Arc::downgrade(&running.status)));
    tokio::spawn(outside.pulse.watch());

    let mut upgrade = Upgrade::default();
    let succeeded = loop {
        tokio::select! {
            () = signals.next() => break false,
            fault = running.threads.unasked_end() => return Err(fault),
            wish = wishes.next() => match wish {
                Wish::Reopen => {
                    outside.access_log.iter().for_each(Switch::reopen);
                    continue;
                }
                Wish::Upgrade => {
                    match running.passed() {
                        Ok(passed) => upgrade.begin(&program, &passed),
                        Err(error) => tracing::error!("no upgrade: sockets cannot be passed: {error}"),
                    }
                    continue;
                }
                Wish::Reload => tracing::info!("asked to read the configuration again"),
            },
            () = written.changed() => tracing::info!("the configuration's file has changed"),
            succeeded = upgrade.ended() => {
                if succeeded {
                    break true;
                }
                continue;
            }
        }
        tokio::select! {
            () = signals.next() => break false,
            () = read_again(&mut running, written) => (),
        }
    };
    if succeeded {
        // Its successor answers at the same address; what waits there is its.
        let admin = admin.take();
        tokio::task::spawn_blocking(move || drop(admin));
    } else {
        let (delay, drain) = (running.config.drain_delay, running.config.timeouts.drain);
        tracing::info!(?delay, ?drain, "stopping; once more to stop at once");
        supervisor::stopping("finishing what runs");
        running.lifecycle().set_draining();
        upgrade.give_up().await;
        tokio::select! {
            () = tokio::time::sleep(delay) => (),
            () = signals.next() => running.stop(),
            fault = running.threads.unasked_end() => return Err(fault),
        }
    }
    running.drain();
    tokio::select! {
        () = signals.next() => running.stop(),
        ended = running.threads.ended() => ended?,
    }
    running.threads.ended().await?;
    drop(admin);
    tracing::info!("stopped");
    Ok(())
}

fn tell_start(running: &Running) {
    for service in running.status.services().iter() {
        tracing::info!(
            service = service.config.name,
            replicas = service.discovery.fleet().len(),
            from = service.discovery.state().source,
            policy = service.config.policy.name,
            "balancing"
        );
    }
    for address in running.addresses() {
        tracing::info!(%address, workers = running.config.workers, "serving");
    }
}

/// Takes the configuration as it is written now, or says why not.
async fn read_again(running: &mut Running, written: &Written) {
    supervisor::reloading();
    let is_taken = take_again(running, written).await;
    supervisor::ready(if is_taken {
        "serving"
    } else {
        "serving, by the configuration of before; the log says why"
    });
}

/// Whether it was taken.
async fn take_again(running: &mut Running, written: &Written) -> bool {
    if written.file.is_none() {
        tracing::warn!("there is no configuration file to read again: all is in the flags");
        return true;
    }
    let reloaded = async {
        let Loaded { config, remarks } = written.load_again().await?;
        remarks.iter().for_each(log_remark);
        running.reload(config).await
    };
    match reloaded.await {
        Ok(reloaded) => {
            running.status.count_reload(None);
            tell(&reloaded);
            true
        }
        Err(fault) => {
            running.status.count_reload(Some(fault.to_string()));
            tracing::error!("the configuration stays as it was: {fault}");
            false
        }
    }
}

fn tell(reloaded: &Reloaded) {
    tracing::info!(
        services_kept = reloaded.services_kept,
        services_started = reloaded.services_started.join(", "),
        services_ended = reloaded.services_ended.join(", "),
        listeners_opened = reloaded.listeners_opened.join(", "),
        listeners_closed = reloaded.listeners_closed.join(", "),
        "the configuration has been read again"
    );
    for setting in &reloaded.need_restart {
        tracing::warn!("{setting} has changed, which takes a restart; it stays as it was");
    }
}
