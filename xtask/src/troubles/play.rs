//! A round: all lanes start, have their trouble at the same times, and end.

use super::lane::Lane;
use super::measure::Found;
use super::plan::{Round, Step, Stream, Variant};
use crate::loopback::pair::Programs;
use crate::loopback::ports::FreePorts;
use core::time::Duration;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The next event.
enum Event<'r> {
    Begin(&'r Stream),
    Take(&'r Step),
}

/// Concurrent lanes: with this many, two cores are not the bottleneck. Even, because variants with
/// and without a mechanism follow each other.
const LANES_MAX: usize = 4;

/// Plays a round; returns the results of each variant.
pub(super) fn play(
    programs: &Programs<'_>,
    folder: &Path,
    round: &Round,
    seed: u64,
) -> Result<Vec<Found>, String> {
    let mut found = Vec::with_capacity(round.variants.len());
    for (number, variants) in round.variants.chunks(LANES_MAX).enumerate() {
        let folder = folder.join(number.to_string());
        found.extend(side_by_side(programs, &folder, round, variants, seed)?);
    }
    Ok(found)
}

/// Plays every lane on its own thread.
fn side_by_side(
    programs: &Programs<'_>,
    folder: &Path,
    round: &Round,
    variants: &[Variant],
    seed: u64,
) -> Result<Vec<Found>, String> {
    let mut ports = FreePorts::default();
    let mut lanes = Vec::with_capacity(variants.len());
    for number in 0..variants.len() {
        let folder = folder.join(format!("lane-{number}"));
        lanes.push(Lane::new(*programs, folder, round.replicas, &mut ports)?);
    }
    drop(ports);
    let mut events: Vec<_> = (round.streams.iter())
        .map(|stream| (stream.at, Event::Begin(stream)))
        .collect();
    let steps = round.steps.iter();
    events.extend(steps.map(|(at, step)| (*at, Event::Take(step))));
    events.sort_by_key(|(at, _)| *at);

    let all_ready = Barrier::new(lanes.len());
    thread::scope(|scope| {
        let (events, all_ready) = (&events, &all_ready);
        let threads = lanes.into_iter().zip(variants);
        let threads = threads.map(|(mut lane, variant)| {
            scope.spawn(move || {
                let started = lane.start(round, variant);
                // Even if it could not start, because the others wait for it.
                all_ready.wait();
                started?;
                let (began, since_1970) = (Instant::now(), since_1970());
                for (at, event) in events {
                    thread::sleep(at.saturating_sub(began.elapsed()));
                    match event {
                        Event::Begin(stream) => lane.send(stream, seed)?,
                        Event::Take(step) => lane.take(step)?,
                    }
                }
                lane.finish(round, since_1970)
            })
        });
        let threads: Vec<_> = threads.collect();
        let found = threads.into_iter().zip(variants);
        let found = found.map(|(thread, variant)| {
            let joined = thread.join();
            joined
                .unwrap_or_else(|_| Err("its thread has panicked".to_owned()))
                .map_err(|error| format!("{}, with {}: {error}", variant.policy, variant.means))
        });
        found.collect()
    })
}

fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
