//! Reports of the process to its supervisor by `sd_notify(3)`, at the socket that `NOTIFY_SOCKET`
//! names.
//!
//! Without that variable nothing is reported. The watchdog is notified only while all workers show
//! a sign of life: a heartbeat of the main thread alone would not cover the workers, which carry
//! the requests.

use core::time::Duration;
use sd_notify::NotifyState;
use slackwater_proxy::watchdog::Watchdog;

/// Reports that requests are accepted.
pub(crate) fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that the configuration is read again. Until the next [`ready`], the supervisor waits.
#[cfg(feature = "serve")]
pub(crate) fn reloading() {
    // Only with the time does a supervisor accept this as the answer to its own signal
    // (`Type=notify-reload`).
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Reports that running requests are finished and no new ones are accepted.
pub(crate) fn stopping(status: &str) {
    notify(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Reports that another process carries requests from now on. This restarts the watchdog's time,
/// because the supervisor ignored that process until now.
pub(crate) fn succeeded_by(process: u32) {
    notify(&[NotifyState::MainPid(process), NotifyState::Watchdog]);
}

fn notify(state: &[NotifyState<'_>]) {
    // A supervisor has its own timeout for reports that do not arrive.
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "supervisor not notified: cannot write to NOTIFY_SOCKET");
    }
}

/// Returns the watchdog that notices workers without a sign of life, if a supervisor has a watchdog
/// enabled.
pub(crate) fn watchdog() -> Watchdog {
    look_period().map_or_else(Watchdog::default, Watchdog::new)
}

/// Notifies the supervisor's watchdog while all workers show a sign of life. This is often enough
/// for the watchdog to miss a notification now and then.
pub(crate) async fn watch(watchdog: Watchdog) {
    let Some(period) = watchdog.period() else {
        return;
    };
    loop {
        tokio::time::sleep(period).await;
        let stopped = watchdog.stopped();
        if stopped == 0 {
            notify(&[NotifyState::Watchdog]);
        } else {
            tracing::error!(
                workers = stopped,
                "watchdog not notified: workers show no sign of life"
            );
        }
    }
}

/// A quarter of the watchdog's timeout: twice as often as `sd_watchdog_enabled(3)` advises, so that
/// one late heartbeat does not trigger it.
fn look_period() -> Option<Duration> {
    let look = sd_notify::watchdog_enabled()? / 4;
    (!look.is_zero()).then_some(look)
}
