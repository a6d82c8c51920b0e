//! The content of a recording, without playing it. This also works for recordings of other
//! versions, whose settings cannot be interpreted here.

use super::figures::number;
use super::text;
use crate::output::clean;
use crate::sim::stop::Stop;
use crate::sim::summary::counted;
use core::fmt::Write;
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_recording::file::{RecordedStream, Recording};
use slackwater_recording::{Bytes, Decoder};
use slackwater_sim::replay::history::{History, Reader};

/// Number of events between two checks for a stop.
const EVENTS_BETWEEN_LOOKS: u64 = 65_536;

/// A service as it was recorded.
#[derive(Debug)]
pub(super) struct Held<'r> {
    name: &'r str,
    streams: Vec<(&'r RecordedStream, Extent)>,
    history: History,
}

/// The length of a stream.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// The time of its last event, on the recording's clock.
    until: Duration,
    events: u64,
}

/// Reads the content of each service.
pub(super) fn read<'r>(
    recording: &'r Recording,
    only: Option<&str>,
    stop: &Stop,
) -> Result<Vec<Held<'r>>, Fault> {
    let mut services = Vec::<Held<'r>>::new();
    for stream in &recording.streams {
        let name = stream.head.service.as_str();
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let place = services.iter().position(|service| service.name == name);
        let place = place.unwrap_or_else(|| {
            services.push(Held {
                name,
                streams: Vec::new(),
                history: History::default(),
            });
            services.len() - 1
        });
        if let Some(service) = services.get_mut(place) {
            service.read(stream, stop)?;
        }
    }
    Ok(services)
}

impl<'r> Held<'r> {
    fn read(&mut self, stream: &'r RecordedStream, stop: &Stop) -> Result<(), Fault> {
        let client = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        let mut reader = Reader::new(client, stream.head.since_ns);
        let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(&stream.events));
        let mut extent = Extent {
            until: Duration::from_nanos(stream.head.since_ns),
            events: 0,
        };
        while !rest.is_empty() {
            let (at, entry) = (decoder.take(&mut rest))
                .map_err(|malformed| super::unreadable(&stream.head, extent.events, malformed))?;
            reader.read(&mut self.history, at, &entry);
            extent.events += 1;
            extent.until = Duration::from_nanos(stream.head.since_ns.saturating_add(at.as_nanos()));
            if extent.events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && stop.is_set() {
                return Err(Stop::fault("nothing was shown"));
            }
        }
        reader.finish(&mut self.history);
        self.streams.push((stream, extent));
        Ok(())
    }

    /// The content as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) -> core::fmt::Result {
        writeln!(
            to,
            "\n{}: {}",
            clean(self.name),
            counted(self.streams.len(), "stream")
        )?;
        for (stream, extent) in &self.streams {
            let head = &stream.head;
            let since = Duration::from_nanos(head.since_ns).as_secs_f64();
            writeln!(
                to,
                "  worker {}: policy {}, from {since:.1} s to {:.1} s, {} events in {} bytes",
                head.worker,
                clean(&head.policy),
                extent.until.as_secs_f64(),
                number(extent.events),
                number(stream.events.len() as u64),
            )?;
        }
        let fields = self
            .streams
            .first()
            .map(|(stream, _)| stream.head.fields.as_slice());
        text::write_past(to, &self.history, fields.unwrap_or_default())?;
        let mut settings = "";
        for (stream, _) in &self.streams {
            let head = &stream.head;
            if head.settings != settings {
                settings = &head.settings;
                writeln!(
                    to,
                    "  settings of {} from worker {} on:",
                    clean(&head.policy),
                    head.worker
                )?;
                for line in settings.lines() {
                    writeln!(to, "{}", format!("    {}", clean(line)).trim_end())?;
                }
            }
        }
        Ok(())
    }
}
