//! An agent's `[queue]` and `[limit]`: how many requests its server works on at a time, and what becomes of the others.

use super::assemble::{count, timeout};
use super::retries::name_of;
use super::show::{quoted, write_section};
use crate::toml_reader::values::{one_of, rate, show_duration, whole, within};
use crate::toml_reader::{Reader, Remark, Severity};
use core::fmt::{self, Display};
use core::num::NonZeroU32;
use core::time::Duration;
use slackwater_core::Rate;
use slackwater_core::policy::Settings;
use slackwater_tower::server::admission::{
    Admission, ConcurrencyLimit, Discipline, GradientConfig, GradientSettings, Peers, QueueConfig,
    QueueSettings, TiesConfig, TiesSettings,
};

const DISCIPLINES: [(&str, Discipline); 3] = [
    ("oldest_first", Discipline::OldestFirst),
    ("newest_first", Discipline::NewestFirst),
    ("controlled_delay", Discipline::ControlledDelay),
];
const LIMIT_MOST: u32 = 1 << 16;
const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_hours(1);

/// How many requests the server works on at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestsMax {
    /// As many as come, and nobody waits.
    #[default]
    None,
    /// So many.
    Fixed(NonZeroU32),
    /// As many as its latencies show to be of use.
    Adaptive,
}

impl Display for RequestsMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("\"none\""),
            Self::Fixed(most) => most.fmt(f),
            Self::Adaptive => f.write_str("\"adaptive\""),
        }
    }
}

/// An agent's queue before its server.
#[derive(Clone, Debug, Default)]
pub struct AgentQueue {
    /// Requests that the server has at a time, over all workers: 1 to 65,536, or learned; default no limit.
    pub requests_max: RequestsMax,
    /// Those that wait.
    pub queue: QueueConfig,
    /// How the limit is learned, where it is.
    pub limit: GradientConfig,
}

impl AgentQueue {
    /// Reads both sections.
    pub(super) fn read(reader: &mut Reader<'_>, remarks: &mut Vec<Remark>) -> Self {
        let requests_max = reader.setting(
            "queue.requests_max",
            RequestsMax::None,
            "a number from 1 to 65536, \"adaptive\" or \"none\"",
            |value| match value.as_str() {
                Some("none") => Ok(RequestsMax::None),
                Some("adaptive") => Ok(RequestsMax::Adaptive),
                _ => whole(value)
                    .and_then(|most: u32| within(most, &(1..=LIMIT_MOST)))
                    .map(|most| {
                        NonZeroU32::new(most).map_or(RequestsMax::None, RequestsMax::Fixed)
                    }),
            },
        );
        let requests_max = requests_max.value;
        let queue = read_queue(reader);
        let limit = read_limit(reader);
        note_unread(reader, requests_max, queue.discipline, remarks);
        Self {
            requests_max,
            // What is out of range has been told.
            queue: queue.validate().unwrap_or_default(),
            limit: limit.validate().unwrap_or_default(),
        }
    }

    /// The queue before the server; `None` if everybody goes there at once.
    pub fn admission(&self, peers: Option<Peers>) -> Option<Admission> {
        let limit = match self.requests_max {
            RequestsMax::None => return None,
            RequestsMax::Fixed(most) => ConcurrencyLimit::fixed(most),
            RequestsMax::Adaptive => ConcurrencyLimit::gradient(self.limit.clone()),
        };
        let queue = self.queue.clone();
        Some(match peers {
            None => Admission::new(queue, limit),
            Some(peers) => Admission::tied(queue, limit, peers),
        })
    }

    /// Room for the names of all that may be here at once, and for as many that come later.
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

    /// Writes both sections as they are in force; of one that does nothing, nothing.
    pub(super) fn write(&self, to: &mut String) -> fmt::Result {
        let span = |span| quoted(show_duration(span));
        let (q, l) = (&self.queue, &self.limit);
        let discipline = name_of(&DISCIPLINES, |it| it == q.discipline);
        let fields: [(&str, &dyn Display); 6] = [
            ("requests_max", &self.requests_max),
            ("waiting_max", &q.waiting_max),
            ("wait_max", &span(q.wait_max)),
            ("discipline", &quoted(discipline)),
            ("target", &span(q.target)),
            ("interval", &span(q.interval)),
        ];
        let shown = match (self.requests_max, q.discipline) {
            (RequestsMax::None, _) => 1,
            (_, Discipline::OldestFirst) => 4,
            _ => fields.len(),
        };
        write_section(to, "queue", &fields[..shown])?;
        if self.requests_max != RequestsMax::Adaptive {
            return Ok(());
        }
        let fields: [(&str, &dyn Display); 6] = [
            ("start", &l.limit_start),
            ("min", &l.limit_min),
            ("max", &l.limit_max),
            ("tolerance", &l.tolerance),
            ("window", &span(l.window)),
            ("least_age_max", &span(l.least_age_max)),
        ];
        write_section(to, "limit", &fields)
    }
}

fn read_queue(reader: &mut Reader<'_>) -> QueueSettings {
    let mut settings = QueueSettings::default();
    let spans = MS..=HOUR;
    let waiting = 0..=LIMIT_MOST;
    settings.waiting_max = count(reader, "queue.waiting_max", settings.waiting_max, waiting);
    settings.wait_max = timeout(reader, "queue.wait_max", settings.wait_max, &spans);
    let default = settings.discipline;
    let discipline = reader.setting("queue.discipline", default, "", |value| {
        one_of(value, &DISCIPLINES)
    });
    settings.discipline = discipline.value;
    settings.target = timeout(reader, "queue.target", settings.target, &spans);
    settings.interval = timeout(reader, "queue.interval", settings.interval, &spans);
    settings
}

fn read_limit(reader: &mut Reader<'_>) -> GradientSettings {
    let mut settings = GradientSettings::default();
    let limits = 1..=LIMIT_MOST;
    settings.limit_start = count(reader, "limit.start", settings.limit_start, limits.clone());
    settings.limit_min = count(reader, "limit.min", settings.limit_min, limits.clone());
    settings.limit_max = count(reader, "limit.max", settings.limit_max, limits);
    let most = Rate::per_query(1).unwrap_or(Rate::MAX);
    let tolerance = reader.setting(
        "limit.tolerance",
        settings.tolerance,
        "a number from 0 to 1",
        |value| rate(value).and_then(|rate| within(rate, &(Rate::ZERO..=most))),
    );
    settings.tolerance = tolerance.value;
    settings.window = timeout(reader, "limit.window", settings.window, &(MS..=HOUR));
    let ages = 100 * MS..=HOUR;
    settings.least_age_max = timeout(reader, "limit.least_age_max", settings.least_age_max, &ages);
    if settings.limit_min > settings.limit_max {
        let message = format!(
            "found {}, which is below limit.min = {}",
            settings.limit_max, settings.limit_min
        );
        reader.add_mistake_near("limit.max", message);
    } else if !(settings.limit_min..=settings.limit_max).contains(&settings.limit_start) {
        let message = format!(
            "found {}, expected a number from limit.min = {} to limit.max = {}",
            settings.limit_start, settings.limit_min, settings.limit_max
        );
        reader.add_mistake_near("limit.start", message);
    }
    settings
}

/// What was said and does nothing.
fn note_unread(
    reader: &Reader<'_>,
    requests_max: RequestsMax,
    discipline: Discipline,
    remarks: &mut Vec<Remark>,
) {
    let mut note = |field: &str, why: &str| {
        if let Some(said) = reader.said(field).or_else(|| reader.said_section(field)) {
            remarks.push(Remark {
                severity: Severity::Warning,
                about: said.mistake(why),
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

    /// What the text says; mistakes and remarks as they are told.
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
    fn there_is_none_unless_it_is_asked_for() {
        let (queue, told) = read("");
        assert!(queue.admission(None).is_none() && told.is_empty());
        for (text, limit) in [("32", 32), ("\"adaptive\"", 4)] {
            let (queue, told) = read(&format!("[queue]\nrequests_max = {text}\n"));
            assert!(told.is_empty(), "{told:?}");
            let admission = queue.admission(None).expect("a limit");
            assert_eq!(admission.view().limit, limit, "{text}");
        }
        let text = "[queue]\nrequests_max = 65536\nwaiting_max = 65536\n";
        assert_eq!(read(text).0.ties().names_max, 524_288);
        assert_eq!(read("").0.ties().names_max, 4_096);
    }

    #[test]
    fn what_is_shown_is_read_back() {
        let text = "[queue]\nrequests_max = \"adaptive\"\nwaiting_max = 7\nwait_max = \"2s\"\n\
                    discipline = \"newest_first\"\ntarget = \"9ms\"\ninterval = \"80ms\"\n\n\
                    [limit]\nstart = 9\nmin = 2\nmax = 70\ntolerance = 0.25\nwindow = \"50ms\"\n\
                    least_age_max = \"10s\"\n\n";
        let (queue, told) = read(text);
        assert!(told.is_empty(), "{told:?}");
        let mut shown = String::new();
        queue.write(&mut shown).expect("a string");
        assert_eq!(shown, text);
    }

    #[test]
    fn what_does_nothing_or_cannot_be_is_told() {
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
