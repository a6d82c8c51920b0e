//! The demo from curtain to curtain: both sides started, the same load sent to both, shown while it runs, summed up.
//!
//! Everything but the proxies and the page runs on one small runtime. The first Ctrl-C (or SIGTERM) ends the schedules
//! and waits for the answers under way, the second does not wait. Whatever was started is ended on every way out.

use super::args::Settings;
use super::observe::{Observer, Order};
use super::page;
use super::picture::{Phase, Picture};
use super::replica::World;
use super::side::{Driven, Load, Side, service_name};
use super::summary::{SideSummary, Summary};
use super::terminal::Screen;
use crate::admin::Lifecycle;
use crate::fault::Fault;
use crate::load;
use crate::process::Signals;
use core::time::Duration;
use std::io;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// How often the sides are looked at, and the table is redrawn.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Runs the demo that `settings` ask for; `listener` is the page's.
///
/// # Errors
/// Something cannot be started.
pub(super) async fn run(
    settings: &Settings,
    listener: std::net::TcpListener,
    mut screen: Screen,
    mut signals: Signals,
) -> Result<Summary, Fault> {
    let [mut first, mut second] = start_sides(settings).await?;
    let lifecycle = Lifecycle::default();
    let (pictures, latest) = watch::channel(None);
    let handles = [first.handles(), second.handles()];
    let proxies = handles.each_ref().map(|side| Arc::clone(&side.proxy));
    let _page = page::serve(listener, proxies, lifecycle.clone(), latest)?;
    let order = Order {
        rate_per_second: settings.rate_per_second,
        seed: settings.seed,
        length: settings.length,
    };
    let mut show = Show {
        observer: Observer::new(order, handles),
        pictures,
        screen: &mut screen,
    };
    let stop = CancellationToken::new();
    let driven = [first.drive(&stop), second.drive(&stop)];
    lifecycle.set_serving();
    let loads = show.watch(driven, &stop, &lifecycle, &mut signals).await?;
    let loads = loads.unwrap_or_else(|| [first.load_summary(), second.load_summary()]);
    let last = show.look(Phase::Stopping).await;
    drop(screen);
    tokio::join!(first.shutdown(), second.shutdown());
    Ok(sum_up(loads, &last))
}

async fn start_sides(settings: &Settings) -> Result<[Side; 2], Fault> {
    let (seed, rate_per_second) = (settings.seed, settings.rate_per_second);
    let world = World::for_load(seed, settings.replicas, rate_per_second, Instant::now());
    let load = Load {
        rate_per_second,
        length: settings.length.unwrap_or(Settings::LENGTH_MAX),
        seed,
    };
    let [first, second] = settings.policies;
    let name = service_name(0, first, None);
    let other = service_name(1, second, Some(&name));
    Ok([
        Side::start(first, &name, &world, load).await?,
        Side::start(second, &other, &world, load).await?,
    ])
}

/// Looks, shows and passes on.
struct Show<'a> {
    observer: Observer,
    pictures: watch::Sender<Option<Arc<Picture>>>,
    screen: &'a mut Screen,
}

impl Show<'_> {
    /// Until both loads have ended, or nobody wants to wait any more: then `None`.
    async fn watch(
        &mut self,
        driven: [Option<Driven>; 2],
        stop: &CancellationToken,
        lifecycle: &Lifecycle,
        signals: &mut Signals,
    ) -> Result<Option<[load::Summary; 2]>, Fault> {
        let mut ended = core::pin::pin!(both(driven));
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut phase = Phase::Running;
        loop {
            tokio::select! {
                loads = &mut ended => {
                    lifecycle.set_draining();
                    return loads.map(Some).map_err(|error| {
                        Fault::runtime(format!("the load could not be sent: {error}"))
                    });
                }
                () = signals.next() => {
                    if phase == Phase::Stopping {
                        return Ok(None);
                    }
                    phase = Phase::Stopping;
                    lifecycle.set_draining();
                    stop.cancel();
                }
                _ = ticks.tick() => {
                    self.look(phase).await;
                }
            }
        }
    }

    async fn look(&mut self, phase: Phase) -> Arc<Picture> {
        let picture = Arc::new(self.observer.look(phase).await);
        self.screen.show(&picture);
        self.pictures.send_replace(Some(Arc::clone(&picture)));
        picture
    }
}

async fn both(driven: [Option<Driven>; 2]) -> io::Result<[load::Summary; 2]> {
    async fn one(driven: Option<Driven>) -> io::Result<load::Summary> {
        let driven = driven.ok_or_else(|| io::Error::other("it was sent before"))?;
        driven.await.map_err(io::Error::other)?
    }
    let [first, second] = driven;
    let (first, second) = tokio::join!(one(first), one(second));
    Ok([first?, second?])
}

fn sum_up(loads: [load::Summary; 2], last: &Picture) -> Summary {
    let [first_load, second_load] = loads;
    let [first, second] = &last.sides;
    let sides = [
        SideSummary::new(first, first_load),
        SideSummary::new(second, second_load),
    ];
    Summary::new(last.replicas.len(), sides)
}
