//! What the process reports to its supervisor by `sd_notify(3)`, at the socket that `NOTIFY_SOCKET`
//! names.
//!
//! Without that variable it reports nothing. The watchdog hears that all is well only while every
//! worker shows a sign of life: a heartbeat of the main thread alone would say nothing of the
//! workers, which carry the requests.

use core::time::Duration;
use sd_notify::NotifyState;
use slackwater_proxy::watchdog::Watchdog;

/// Requests are taken.
pub(crate) fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The configuration is read again. Until the next [`ready`], whoever has asked for that waits.
pub(crate) fn reloading() {
    // A supervisor takes it for the answer to its own signal only with the time on it
    // (`Type=notify-reload`).
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// What runs is finished, nothing new is taken.
pub(crate) fn stopping(status: &str) {
    notify(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Another process carries requests from now on. The watchdog's time begins anew with that, for
/// until now it did not listen to that process.
pub(crate) fn succeeded_by(process: u32) {
    notify(&[NotifyState::MainPid(process), NotifyState::Watchdog]);
}

fn notify(state: &[NotifyState<'_>]) {
    // Whoever supervises has a deadline of its own for what it does not hear.
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the supervisor at NOTIFY_SOCKET cannot be told of our state");
    }
}

/// Notices workers that show no sign of life, where a supervisor wants to know.
pub(crate) fn watchdog() -> Watchdog {
    look_period().map_or_else(Watchdog::default, Watchdog::new)
}

/// Tells the supervisor's watchdog that all is well, while every heart beats, and often enough that
/// it bears to miss that now and then.
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
                "no sign of life; the watchdog is not told that all is well"
            );
        }
    }
}

/// A quarter of the time after which the watchdog bites: twice as often as `sd_watchdog_enabled(3)`
/// advises, so that one look at which somebody was slow does not make it bite.
fn look_period() -> Option<Duration> {
    let look = sd_notify::watchdog_enabled()? / 4;
    (!look.is_zero()).then_some(look)
}
