//! The demo from start to end: starts both sides, sends the same load to both, shows them while
//! they run, and sums up.
//!
//! Everything except the proxies and the page runs on one small runtime. The first Ctrl-C (or
//! SIGTERM) ends the schedules and waits for the running requests; the second does not wait.
//! Everything that was started is stopped on every exit path.

use super::args::Settings;
use super::knob_queue::{KnobQueue, Turn};
use super::knobs::Order;
use super::live::{self, DemoLive};
use super::observe::{self, Observer};
use super::page;
use super::picture::{Phase, Picture};
use super::replica::World;
use super::replica::trouble;
use super::side::{Driven, Load, Side, service_name};
use super::summary::{SideSummary, Summary};
use super::terminal::Screen;
use crate::load;
use crate::process::Signals;
use crate::record::Existing;
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_core::policy::PolicyEntry;
use slackwater_proxy::record::{Recorder, Writing};
use slackwater_telemetry::facts::Lifecycle;
use std::io;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// Interval of reading the sides and of redrawing the table.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Time between an order for another rate and its effect: longer than the load generators sleep.
const RATE_LEAD: Duration = Duration::from_millis(50);

/// Runs the demo of `settings`; `listener` is the page's.
///
/// # Errors
/// Something cannot be started.
pub(super) async fn run(
    settings: &Settings,
    listener: std::net::TcpListener,
    mut screen: Screen,
    mut signals: Signals,
) -> Result<Summary, Fault> {
    // It ends last, after the policies.
    let recording = settings.record.start(Existing::Refused)?;
    let recorder = recording.as_ref().map(Writing::recorder);
    let sides = start_sides(settings, recorder).await?;
    let lifecycle = Lifecycle::default();
    let (pictures, latest) = watch::channel(None);
    let handles = sides.each_ref().map(Side::handles);
    let proxies = handles.each_ref().map(|side| Arc::clone(&side.proxy));
    let (queue, orders) = KnobQueue::open(settings.replicas);
    let live = DemoLive {
        seed: settings.seed,
        latest,
    };
    let archives = sides.iter().filter_map(Side::archive).cloned().collect();
    let shown = (proxies, archives);
    let _page = page::serve(listener, shown, lifecycle.clone(), live, &queue)?;
    let order = observe::Order {
        seed: settings.seed,
        length: settings.length,
    };
    let mut show = Show {
        settings,
        sides,
        observer: Observer::new(order, handles),
        orders,
        pictures,
        screen: &mut screen,
    };
    let stop = CancellationToken::new();
    let driven = show.sides.each_mut().map(|side| side.drive(&stop));
    lifecycle.set_serving();
    let loads = show.watch(driven, &stop, &lifecycle, &mut signals).await?;
    // If the user has stopped the wait, the summary covers the requests that have ended.
    let loads = loads.unwrap_or_else(|| show.sides.each_ref().map(Side::load_summary));
    let last = show.look(Phase::Stopping);
    let [first, second] = show.sides;
    // The table restores the terminal before the summary is printed.
    drop(screen);
    tokio::join!(first.shutdown(), second.shutdown());
    Ok(sum_up(loads, &last))
}

async fn start_sides(settings: &Settings, recorder: Option<&Recorder>) -> Result<[Side; 2], Fault> {
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
        Side::start(first, &name, &world, load, recorder.cloned()).await?,
        Side::start(second, &other, &world, load, recorder.cloned()).await?,
    ])
}

/// The main loop: reads both sides, shows and publishes their state, and carries out orders.
struct Show<'a> {
    settings: &'a Settings,
    sides: [Side; 2],
    observer: Observer,
    orders: mpsc::Receiver<Turn>,
    pictures: watch::Sender<Option<Arc<Picture>>>,
    screen: &'a mut Screen,
}

impl Show<'_> {
    /// Waits until both loads have ended. Returns `None` if the user stops the wait.
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
                // The queue is open as long as the page is.
                Some(turn) = self.orders.recv() => {
                    let done = self.obey(turn.order).await;
                    self.observer.count_turn();
                    let picture = self.look(phase);
                    let answer = done.map(|()| live::in_force(&picture));
                    // The client may have left.
                    let _ = turn.done.send(answer.map_err(|fault| fault.to_string()));
                }
                _ = ticks.tick() => {
                    self.look(phase);
                }
            }
        }
    }

    async fn obey(&mut self, order: Order) -> Result<(), Fault> {
        match order {
            Order::Load(per_second) => self.set_rate(per_second),
            Order::Replica {
                index,
                taken_percent,
                fault,
            } => {
                if let Some(percent) = taken_percent {
                    self.set_taken(index, percent);
                }
                if let Some(fault) = fault {
                    self.set_fault(index, fault).await?;
                }
            }
            Order::Policy { side, policy } => self.set_policy(side, policy).await?,
            Order::Weather(on) => self.set_weather(on),
            Order::Reset => {
                self.set_rate(self.settings.rate_per_second);
                self.set_weather(true);
                for index in 0..self.settings.replicas {
                    self.set_taken(index, 0);
                    self.set_fault(index, trouble::Fault::None).await?;
                }
                for (side, policy) in self.settings.policies.into_iter().enumerate() {
                    self.set_policy(side, policy).await?;
                }
                self.observer.begin_anew();
            }
        }
        Ok(())
    }

    /// Sets the rate from the same offset on at both sides. It is late enough that both receive it
    /// before, so their arrivals stay the same.
    fn set_rate(&self, per_second: f64) {
        let elapsed = self.sides.iter().map(Side::elapsed).max();
        let from = elapsed.unwrap_or_default() + RATE_LEAD;
        for side in &self.sides {
            side.set_rate(from, per_second);
        }
    }

    fn set_taken(&mut self, index: usize, percent: u8) {
        for side in &mut self.sides {
            side.fleet().set_taken(index, percent);
        }
    }

    async fn set_fault(&mut self, index: usize, fault: trouble::Fault) -> Result<(), Fault> {
        for side in &mut self.sides {
            let set = side.fleet().set_fault(index, fault).await;
            set.map_err(|error| Fault::runtime(format!("replica {index}: {error}")))?;
        }
        Ok(())
    }

    fn set_weather(&mut self, on: bool) {
        for side in &mut self.sides {
            side.fleet().set_weather(on);
        }
        self.observer.set_weather(on);
    }

    /// Sets a side's policy. The overall figures restart, since they would otherwise cover two
    /// policies.
    async fn set_policy(&mut self, side: usize, policy: &'static PolicyEntry) -> Result<(), Fault> {
        let other = self.sides.get(1 - side.min(1));
        let other = other.map(|other| other.service().to_owned());
        let Some(changed) = self.sides.get_mut(side) else {
            return Ok(());
        };
        if changed.policy().name == policy.name {
            return Ok(());
        }
        let name = service_name(side, policy, other.as_deref());
        changed.set_policy(policy, &name).await?;
        self.observer.set_policy(side, policy, &name);
        self.observer.begin_anew();
        Ok(())
    }

    fn look(&mut self, phase: Phase) -> Arc<Picture> {
        let picture = Arc::new(self.observer.look(phase));
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
    Summary::new(last.replicas.len(), last.turns, sides)
}
