//! An agent's `[queue]` and `[limit]`: how many requests its server works on at a time, and how the
//! others wait.

use crate::table::{
    self, Choice, HOUR, Judge, Kind, MS, Meaning, Number, PerQuery, Span, Within, keys,
};
use crate::toml_reader::values::{Unfit, quote};
use crate::toml_reader::{Reader, Remark, Severity};
use core::num::NonZeroU32;
use core::time::Duration;
use serde_json::json;
use slackwater_core::Rate;
use slackwater_core::overload::{
    ConcurrencyLimit, Discipline, GradientConfig, GradientSettings, QueueConfig,
};
use slackwater_core::policy::Settings;
use slackwater_core::tail::{TiesConfig, TiesSettings};
use toml::de::DeValue;

const DISCIPLINES: [(&str, Discipline); 3] = [
    ("oldest_first", Discipline::OldestFirst),
    ("newest_first", Discipline::NewestFirst),
    ("controlled_delay", Discipline::ControlledDelay),
];
const LIMIT_MOST: u32 = 1 << 16;

/// Limit of the requests that the server works on at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestsMax {
    /// No limit; requests never wait.
    #[default]
    None,
    /// A fixed limit.
    Fixed(NonZeroU32),
    /// A limit learned from the server's latencies.
    Adaptive,
}

/// The kind of [`RequestsMax`].
struct Limit;

const FIXED: Within<Number, u32> = Within(Number, 1..=LIMIT_MOST);

impl Kind<RequestsMax> for Limit {
    fn read(&self, value: &DeValue<'_>) -> Result<RequestsMax, Unfit> {
        match value.as_str() {
            Some("none") => Ok(RequestsMax::None),
            Some("adaptive") => Ok(RequestsMax::Adaptive),
            _ => FIXED
                .read(value)
                .map(|most| NonZeroU32::new(most).map_or(RequestsMax::None, RequestsMax::Fixed)),
        }
    }

    fn show(&self, value: &RequestsMax) -> Option<String> {
        Some(match value {
            RequestsMax::None => quote("none"),
            RequestsMax::Fixed(most) => most.to_string(),
            RequestsMax::Adaptive => quote("adaptive"),
        })
    }

    fn meaning(&self, _: &Judge<'_, RequestsMax>) -> Meaning {
        let fixed = Kind::meaning(&FIXED, &Judge::none());
        Meaning::of(
            format!("{}, `\"adaptive\"` or `\"none\"`", fixed.words),
            json!({"anyOf": [fixed.schema, {"enum": ["adaptive", "none"]}]}),
        )
        .expected(format!("{}, \"adaptive\" or \"none\"", fixed.expected))
    }
}

/// An agent's queue before its server.
#[derive(Clone, Debug, Default)]
pub struct AgentQueue {
    /// Requests in flight at the server, over all workers: 1 to 65,536, or learned; default no
    /// limit.
    pub requests_max: RequestsMax,
    /// The queue.
    pub queue: QueueConfig,
    /// How an adaptive limit is learned.
    pub limit: GradientConfig,
}

keys! { AgentQueue in "queue" {
    /// Requests in flight at the server, over all workers. `"adaptive"`: learned. `"none"`: no
    /// limit and no [queue](agent.md#the-queue).
    requests_max at requests_max: Limit;
    /// Waiting requests. 0: requests never wait.
    waiting_max of queue.waiting_max: Within(Number, 0..=LIMIT_MOST);
    /// Longest wait of a request.
    wait_max of queue.wait_max: Within(Span, MS..=HOUR);
    /// What happens in a standing queue.
    discipline of queue.discipline: Choice(&DISCIPLINES);
    /// A queue is standing if its oldest request has waited longer than this.
    target of queue.target: Within(Span, MS..=HOUR);
    /// The oldest wait must exceed the target for this long.
    interval of queue.interval: Within(Span, MS..=HOUR);
} }

keys! { GradientSettings in "limit" {
    /// With `"adaptive"`: the limit after the first measurement, `limit.min` to `limit.max`.
    start at limit_start: Within(Number, 1..=LIMIT_MOST);
    /// The lowest limit.
    min at limit_min: Within(Number, 1..=LIMIT_MOST);
    /// The highest limit.
    max at limit_max: Within(Number, 1..=LIMIT_MOST);
    /// Tolerated latency above the least, as a share of it, before the limit is lowered. More would
    /// let a queue grow with each measurement.
    tolerance at tolerance: Within(PerQuery, Rate::ZERO..=Rate::ONE);
    /// The shortest time between two changes.
    window at window: Within(Span, MS..=HOUR);
    /// Age at which the least latency is measured again.
    least_age_max at least_age_max: Within(Span, Duration::from_millis(100)..=HOUR);
} }

impl AgentQueue {
    /// Reads both sections.
    pub(super) fn read(reader: &mut Reader<'_>, remarks: &mut Vec<Remark>) -> Self {
        let queue: Self = table::read(reader, "");
        let limit: GradientSettings = table::read(reader, "");
        note_disorder(reader, &limit);
        note_unread(reader, queue.requests_max, queue.queue.discipline, remarks);
        Self {
            // Values out of range have already been reported.
            limit: limit.validate().unwrap_or_default(),
            ..queue
        }
    }

    /// The limit of requests at the server; `None`: no limit and no queue.
    pub fn concurrency_limit(&self) -> Option<ConcurrencyLimit> {
        match self.requests_max {
            RequestsMax::None => None,
            RequestsMax::Fixed(most) => Some(ConcurrencyLimit::fixed(most)),
            RequestsMax::Adaptive => Some(ConcurrencyLimit::gradient(self.limit.clone())),
        }
    }

    /// Settings with room for the names of all requests that may be here at once, and for as many
    /// that come later.
    pub fn ties(&self) -> TiesConfig {
        let started_max = match self.requests_max {
            RequestsMax::None => 0,
            RequestsMax::Fixed(most) => most.get(),
            RequestsMax::Adaptive => self.limit.limit_max,
        };
        let mut settings = TiesSettings::default();
        let names = 4 * (started_max + self.queue.waiting_max);
        settings.names_max = settings.names_max.max(names);
        settings.validate().unwrap_or_default()
    }

    /// Writes both sections with the values in force, and omits a section without effect.
    pub(super) fn write(&self, to: &mut String) {
        let shown = match (self.requests_max, self.queue.discipline) {
            (RequestsMax::None, _) => 1,
            (_, Discipline::OldestFirst) => 4,
            _ => usize::MAX,
        };
        table::write_keys(to, "queue", table::shown(self).take(shown));
        if self.requests_max == RequestsMax::Adaptive {
            table::write::<GradientSettings>(to, "", &self.limit);
        }
    }
}

/// Reports limits that contradict each other.
fn note_disorder(reader: &mut Reader<'_>, limit: &GradientSettings) {
    let (start, min, max) = (limit.limit_start, limit.limit_min, limit.limit_max);
    if min > max {
        let message = format!("found {max}, which is below limit.min = {min}");
        reader.add_mistake_near("limit.max", message);
    } else if !(min..=max).contains(&start) {
        let message =
            format!("found {start}, expected a number from limit.min = {min} to limit.max = {max}");
        reader.add_mistake_near("limit.start", message);
    }
}

/// Adds a remark for each key that is set but has no effect.
fn note_unread(
    reader: &Reader<'_>,
    requests_max: RequestsMax,
    discipline: Discipline,
    remarks: &mut Vec<Remark>,
) {
    let mut note = |field: &str, why: &str| {
        if let Some(definition) = reader
            .definition(field)
            .or_else(|| reader.section_definition(field))
        {
            remarks.push(Remark {
                severity: Severity::Warning,
                about: definition.mistake(why),
            });
        }
    };
    if requests_max != RequestsMax::Adaptive {
        note(
            "limit",
            "does nothing without queue.requests_max = \"adaptive\"",
        );
    }
    if requests_max == RequestsMax::None {
        for key in [
            "waiting_max",
            "wait_max",
            "discipline",
            "target",
            "interval",
        ] {
            note(
                &format!("queue.{key}"),
                "does nothing without queue.requests_max",
            );
        }
    } else if discipline == Discipline::OldestFirst {
        for key in ["queue.target", "queue.interval"] {
            note(key, "does nothing with queue.discipline = \"oldest_first\"");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml_reader::Source;

    /// Reads the text; returns mistakes and remarks as text.
    fn read(text: &str) -> (AgentQueue, Vec<String>) {
        let source = Source::new("agent.toml".into(), text.to_owned());
        let mut reader = Reader::new(Some(&source), Vec::new()).expect("it is TOML");
        let mut remarks = Vec::new();
        let queue = AgentQueue::read(&mut reader, &mut remarks);
        let (_, mistakes) = reader.finish();
        let remarks = remarks.iter().map(|remark| remark.about.to_string());
        let told = mistakes.iter().map(ToString::to_string).chain(remarks);
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        (queue, told.map(first_line).collect())
    }

    #[test]
    fn there_is_no_limit_by_default() {
        let (queue, told) = read("");
        assert!(queue.concurrency_limit().is_none() && told.is_empty());
        for (text, limit) in [("32", 32), ("\"adaptive\"", 4)] {
            let (queue, told) = read(&format!("[queue]\nrequests_max = {text}\n"));
            assert!(told.is_empty(), "{told:?}");
            let learned = queue.concurrency_limit().expect("a limit");
            assert_eq!(learned.limit(), limit, "{text}");
        }
        let text = "[queue]\nrequests_max = 65536\nwaiting_max = 65536\n";
        assert_eq!(read(text).0.ties().names_max, 524_288);
        assert_eq!(read("").0.ties().names_max, 4_096);
    }

    #[test]
    fn shown_settings_round_trip() {
        let text = "[queue]\nrequests_max = \"adaptive\"\nwaiting_max = 7\nwait_max = \"2s\"\n\
                    discipline = \"newest_first\"\ntarget = \"9ms\"\ninterval = \"80ms\"\n\n\
                    [limit]\nstart = 9\nmin = 2\nmax = 70\ntolerance = 0.25\nwindow = \"50ms\"\n\
                    least_age_max = \"10s\"\n\n";
        let (queue, told) = read(text);
        assert!(told.is_empty(), "{told:?}");
        let mut shown = String::new();
        queue.write(&mut shown);
        assert_eq!(shown, text);
    }

    #[test]
    fn keys_without_effect_and_invalid_values_are_reported() {
        for (text, expected) in [
            (
                "[limit]\nmin = 9\n[queue]\nrequests_max = 4",
                "agent.toml:1:1: limit: does nothing without queue.requests_max = \"adaptive\"",
            ),
            (
                "[queue]\nwait_max = \"1s\"",
                "agent.toml:2:12: queue.wait_max: does nothing without queue.requests_max",
            ),
            (
                "[queue]\nrequests_max = 4\ntarget = \"1s\"",
                "agent.toml:3:10: queue.target: does nothing with queue.discipline = \"oldest_first\"",
            ),
            (
                "[queue]\nrequests_max = 0",
                "agent.toml:2:16: queue.requests_max: found 0, expected a number from 1 to 65536, \"adaptive\" or \
                 \"none\"",
            ),
            (
                "[queue]\nrequests_max = \"adaptive\"\n[limit]\nmin = 9\nmax = 8",
                "agent.toml:5:7: limit.max: found 8, which is below limit.min = 9",
            ),
            (
                "[queue]\nrequests_max = \"adaptive\"\n[limit]\nmin = 21",
                "agent.toml:3:1: limit.start: found 20, expected a number from limit.min = 21 to limit.max = 1024",
            ),
        ] {
            assert_eq!(read(text).1, [expected]);
        }
    }
}
