//! Plays a recording again under the policies that made its choices, and collects the history on
//! the way.

use crate::sim::stop::Stop;
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_config::{RecordedPolicy, read_recorded_policy};
use slackwater_core::Instant;
use slackwater_core::health::build;
use slackwater_core::keys::keyed;
use slackwater_recording::file::{RecordedStream, Recording, StreamHead};
use slackwater_recording::{Bytes, Decoder, Entry};
use slackwater_sim::replay::exact::{Difference, Player};
use slackwater_sim::replay::history::{History, Reader};

/// Number of events between two checks for a stop.
const EVENTS_BETWEEN_LOOKS: u64 = 16_384;

/// A service as it was recorded under one configuration, and the result of playing it again.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) policy: RecordedPolicy,
    /// When its first stream began, on the recording's clock.
    pub(super) since: Duration,
    /// One for each worker, and again for each time that it had this configuration.
    pub(super) streams: usize,
    pub(super) history: History,
    /// The header fields of requests whose values were recorded.
    pub(super) fields: Vec<String>,
    pub(super) events: u64,
    /// Bytes of events.
    pub(super) bytes: u64,
    pub(super) picks: u64,
    pub(super) probes: u64,
    /// The first event at which the replay differs, and its worker.
    pub(super) difference: Option<(u16, Difference)>,
}

/// Plays all streams of each service. A service that was reconfigured counts as another one from
/// then on, so that the results of a policy cover only its own time.
pub(super) fn play(
    recording: &Recording,
    only: Option<&str>,
    stop: &Stop,
) -> Result<Vec<Service>, Fault> {
    let mut services = Vec::<Service>::new();
    for stream in &recording.streams {
        if only.is_some_and(|only| only != stream.head.service) {
            continue;
        }
        let policy = policy_of(stream)?;
        let name = &stream.head.service;
        let place = (services.iter()).position(|it| it.name == *name && it.policy == policy);
        let place = place.unwrap_or_else(|| {
            services.push(Service::new(&stream.head, policy));
            services.len() - 1
        });
        if let Some(service) = services.get_mut(place) {
            service.play(stream, stop)?;
        }
    }
    Ok(services)
}

fn policy_of(stream: &RecordedStream) -> Result<RecordedPolicy, Fault> {
    let head = &stream.head;
    read_recorded_policy(&head.policy, &head.settings).map_err(|strange| {
        Fault::usage(format!(
            "service {}: the recorded settings cannot be used: {strange}; replay with the version that recorded",
            head.service
        ))
    })
}

impl Service {
    fn new(head: &StreamHead, policy: RecordedPolicy) -> Self {
        Self {
            name: head.service.clone(),
            fields: head.fields.clone(),
            policy,
            since: Duration::from_nanos(head.since_ns),
            streams: 0,
            history: History::default(),
            events: 0,
            bytes: 0,
            picks: 0,
            probes: 0,
            difference: None,
        }
    }

    fn play(&mut self, stream: &RecordedStream, stop: &Stop) -> Result<(), Fault> {
        let head = &stream.head;
        let client = u32::try_from(self.streams).unwrap_or(u32::MAX);
        self.streams += 1;
        self.bytes += stream.events.len() as u64;
        let policy = &self.policy;
        let mut built = build(policy.entry, &policy.settings, &policy.health);
        if let Some(key) = &policy.key {
            built = keyed(built, key);
        }
        let mut player = Some(Player::new(built, head.seed));
        let mut reader = Reader::new(client, head.since_ns);
        let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(&stream.events));
        let mut events = 0;
        while !rest.is_empty() {
            let (at, entry) = (decoder.take(&mut rest))
                .map_err(|malformed| super::unreadable(head, events, malformed))?;
            self.play_entry(&mut player, head.worker, at, &entry);
            reader.read(&mut self.history, at, &entry);
            events += 1;
            if events % EVENTS_BETWEEN_LOOKS == 0 && stop.is_set() {
                return Err(Stop::fault("nothing was compared"));
            }
        }
        reader.finish(&mut self.history);
        self.events += events;
        if let Some(player) = player {
            self.count(&player);
        }
        Ok(())
    }

    /// Plays an entry. After a difference, nothing that follows in its stream is comparable.
    fn play_entry(
        &mut self,
        player: &mut Option<Player>,
        worker: u16,
        at: Instant,
        entry: &Entry<'_>,
    ) {
        let Some(playing) = player else {
            return;
        };
        if let Err(difference) = playing.play(at, entry) {
            self.difference.get_or_insert((worker, difference));
            if let Some(player) = player.take() {
                self.count(&player);
            }
        }
    }

    fn count(&mut self, player: &Player) {
        self.picks += player.picks();
        self.probes += player.probes();
    }
}
