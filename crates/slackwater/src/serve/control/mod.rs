//! Changes at run time, requested at the admin server by authorized callers and carried out one
//! after the other.
//!
//! The main thread owns the proxy and carries out each change as it does a reload: completely, or
//! not at all. An override stays in force when the file is read again, and ends with the process.
//! Each change is a line of the log.

mod replicas;
mod settings;
mod shown;

use super::refusals::Refusal;
use super::running::Running;
use super::written::Written;
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_admin::{
    Asking, Clear, Control, Controlled as _, Done, Meaning, Refused, Reload, Wanted,
};
use slackwater_config::Fault;
use slackwater_config::toml_reader::Remark;
use slackwater_config::{AdminToken, Config};
use slackwater_proxy::orders::Absences;
use slackwater_proxy::{Reloaded, Workers};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often overridden replicas are checked for absence from their fleets.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The main thread's end of the queue: changes in the order in which they were requested.
#[derive(Debug)]
pub(super) struct ControlQueue {
    asked: mpsc::Receiver<Asking>,
    /// The token in force.
    token: watch::Sender<Option<AdminToken>>,
    status: Arc<Workers>,
    absences: BTreeMap<String, Absences>,
    looks: Interval,
}

impl ControlQueue {
    /// Returns the admin server's end, and this one.
    pub(super) fn new(running: &Running) -> (Control, Self) {
        let (token, in_force) = watch::channel(token(running.config()));
        let (control, asked) = Control::new(in_force);
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let queue = Self {
            asked,
            token,
            status: Arc::clone(running.proxy.status()),
            absences: BTreeMap::new(),
            looks,
        };
        (control, queue)
    }

    /// Returns the next requested change. Meanwhile, the overrides of replicas that have been
    /// absent for too long are dropped.
    pub(super) async fn next(&mut self) -> Asking {
        loop {
            tokio::select! {
                Some(asking) = self.asked.recv() => return asking,
                _ = self.looks.tick() => self.forget_absent(),
            }
        }
    }

    /// Puts the token of the current configuration in force.
    pub(super) fn take_token(&self, running: &Running) {
        let token = token(running.config());
        self.token.send_if_modified(|before| {
            let is_new = *before != token;
            *before = token;
            is_new
        });
    }

    fn forget_absent(&mut self) {
        let services = self.status.services();
        self.absences
            .retain(|name, _| services.iter().any(|service| service.config.name == *name));
        let now = tokio::time::Instant::now();
        for service in services.iter() {
            let orders = service.orders.borrow().clone();
            let name = &service.config.name;
            if orders.is_empty() {
                self.absences.remove(name);
                continue;
            }
            let absences = self.absences.entry(name.clone()).or_default();
            if let Some((staying, gone)) = absences.look(&orders, &service.discovery.fleet(), now) {
                service.orders.send_replace(staying.into());
                let replicas = gone.join(", ");
                tracing::info!(
                    service = name,
                    replicas,
                    "overrides dropped: replicas absent for too long"
                );
            }
        }
    }
}

/// The token that authorizes changes.
fn token(config: &Config) -> Option<AdminToken> {
    let token = config.admin.token.as_ref();
    token.map(|(token, _)| token.clone())
}

/// Carries out a change. If this is dropped before its end, it has changed nothing.
pub(super) async fn carry_out(
    running: &mut Running,
    written: &mut Written,
    queue: &ControlQueue,
    asking: Asking,
) {
    let Asking { by, wanted, answer } = asking;
    let done = match wanted {
        Wanted::Replica(change) => replicas::change(running, by, &change).map(Done::Replica),
        Wanted::Settings(change) => {
            (settings::change(running, written, by, change).await).map(Done::Settings)
        }
        Wanted::Reload(reload) => again(running, written, queue, by, reload).await,
        Wanted::Clear(clear) => clear_all(running, written, by, clear)
            .await
            .map(Done::Cleared),
    };
    if let Err(refused) = &done {
        let why = refused.why();
        tracing::warn!(peer = %by, "admin change rejected: {why}");
    }
    // The client may have left; the change is in force all the same.
    let _ = answer.send(done);
}

async fn again(
    running: &mut Running,
    written: &mut Written,
    queue: &ControlQueue,
    by: SocketAddr,
    reload: Reload,
) -> Result<Done, Refused> {
    if !written.has_file() {
        return Err(Refused::Unfit(
            "there is no configuration file to reload: all is in the flags".to_owned(),
        ));
    }
    if reload.dry_run {
        let read = written.try_to_load().await.map_err(fault)?;
        let meaning = meaning(
            &running.proxy.would_change(&read.loaded.config),
            &read.loaded.remarks,
            &read.sources.refused,
        );
        return Ok(Done::Reloaded(slackwater_admin::Reloaded {
            dry_run: true,
            meaning,
        }));
    }
    tracing::info!(peer = %by, "reload requested by admin API");
    match super::read_again(running, written, queue).await {
        Ok(meaning) => Ok(Done::Reloaded(slackwater_admin::Reloaded {
            dry_run: false,
            meaning,
        })),
        Err(why) => Err(fault(why)),
    }
}

/// The consequences of another configuration, for the answer to its caller.
pub(super) fn meaning(
    reloaded: &Reloaded,
    remarks: &[Remark],
    refused: &[(String, Refusal)],
) -> Meaning {
    let need_restart = reloaded.need_restart.iter();
    let refused = refused.iter().map(|(service, refusal)| {
        format!(
            "policy of the cluster of service {service} not applied: {}",
            refusal.why
        )
    });
    Meaning {
        services_started: reloaded.services_started.clone(),
        services_ended: reloaded.services_ended.clone(),
        listeners_opened: reloaded.listeners_opened.clone(),
        listeners_closed: reloaded.listeners_closed.clone(),
        need_restart: need_restart.map(ToString::to_string).collect(),
        remarks: (remarks.iter().map(ToString::to_string))
            .chain(refused)
            .collect(),
    }
}

/// Removes the overrides of one service or of all. Returns what was removed.
async fn clear_all(
    running: &mut Running,
    written: &mut Written,
    by: SocketAddr,
    clear: Clear,
) -> Result<slackwater_admin::Overrides, Refused> {
    let services = running.services();
    let service = clear.service.as_deref();
    if let Some(service) = service
        && services.iter().all(|it| it.config.name != service)
    {
        return Err(replicas::unknown_service(&services, service));
    }
    let is_meant = |name: &str| service.is_none_or(|service| service == name);
    let mut cleared = running.status.overrides();
    cleared.settings.retain(|it| is_meant(&it.service));
    cleared.replicas.retain(|it| is_meant(&it.service));
    // The operator cannot remove what the control plane sets.
    cleared.control_plane.clear();
    cleared.control_plane_refused.clear();
    if !cleared.settings.is_empty() {
        let mut set = written.set.clone();
        set.forget(service);
        settings::take(running, written, set).await?;
    }
    for service in services.iter().filter(|it| is_meant(&it.config.name)) {
        service.orders.send_if_modified(|orders| {
            let had_any = !orders.is_empty();
            *orders = Arc::default();
            had_any
        });
    }
    tracing::info!(
        peer = %by,
        service = service.unwrap_or("all"),
        settings = cleared.settings.len(),
        replicas = cleared.replicas.len(),
        "overrides removed"
    );
    Ok(cleared)
}

/// Puts the predecessor's overrides in force. `lost` are services that had overrides and no longer
/// exist.
pub(super) fn take_over(running: &Running, written: &mut Written, lost: Vec<String>) {
    let mut gone = written.set.forget_absent(running.config());
    gone.extend(lost);
    for service in gone {
        tracing::warn!(
            service,
            "service removed: its settings at run time are dropped"
        );
    }
    running.status.set_settings(written);
    let set = running.status.overrides();
    let (settings, replicas) = (set.settings.len(), set.replicas.len());
    if settings + replicas > 0 {
        tracing::info!(
            settings,
            replicas,
            "overrides kept from the previous process"
        );
    }
}

/// Rejects the change: a successor has already received the overrides, and would miss this one.
pub(super) fn put_off(asking: Asking) {
    let why =
        "another process is taking over and would not receive the change; try again in a moment";
    tracing::warn!(peer = %asking.by, "admin change rejected: {why}");
    let _ = asking.answer.send(Err(Refused::Failed(why.to_owned())));
}

/// Converts the error of a change.
fn fault(fault: Fault) -> Refused {
    match fault {
        Fault::Usage(why) => Refused::Mistaken(why),
        Fault::Runtime(why) | Fault::Interrupted(why) => Refused::Failed(why),
    }
}
