//! `[tie]`: whether requests are sent to two replicas of which one works on them; and, of an agent, with whom it shares such
//! requests.

use super::assemble::count;
use super::forwarded::read_networks;
use super::network::Network;
use super::show::{quoted, write_section};
use crate::toml_reader::values::{boolean, duration, quantile, show_duration, within};
use crate::toml_reader::{Reader, Remark, Severity};
use core::fmt::{self, Display, Write};
use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::policy::{PolicyEntry, Reports};

/// A replica remembers for a second that a copy need not be begun.
const DELAY_MAX: Duration = Duration::from_millis(500);

/// How long after the first copy the second sets out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieDelay {
    /// As long as a probe takes there and back.
    #[default]
    Auto,
    /// So long: 0 to 500 ms.
    Span(Duration),
}

impl Display for TieDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Span(span) => show_duration(*span).fmt(f),
        }
    }
}

/// Whether requests are sent to two replicas of which one works on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TyingSettings {
    /// Whether any are; default none.
    pub enabled: bool,
    /// Default [`TieDelay::Auto`].
    pub delay: TieDelay,
    /// Second copies that nobody drops, as a share of the requests: 0 to 1, default 0.1. 0: `burst` in all.
    pub budget: Quantile,
    /// To how many copies that piles up, for each worker: 1 to 10,000, default 100.
    pub burst: u32,
}

impl Default for TyingSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            delay: TieDelay::Auto,
            budget: Quantile::from_millionths(100_000).unwrap_or(Quantile::ZERO),
            burst: 100,
        }
    }
}

impl TyingSettings {
    /// Reads `[tie]`, or `[services.NAME.tie]` where `prefix` says so. A policy that asks replicas before
    /// each choice ties no copies.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        prefix: &str,
        policy: &PolicyEntry,
        remarks: &mut Vec<Remark>,
    ) -> Self {
        let key = |name: &str| format!("{prefix}tie.{name}");
        let default = Self::default();
        let enabled = reader.setting(&key("enabled"), default.enabled, "", boolean);
        let said = enabled
            .said
            .filter(|_| enabled.value && policy.reports == Reports::Round);
        remarks.extend(said.map(|said| Remark {
            severity: Severity::Warning,
            about: said.mistake(format!(
                "does nothing with policy = {:?}, which would have to ask twice before a request leaves",
                policy.name
            )),
        }));
        let delays = "\"auto\" or from 0 to 500ms";
        let delay = reader.setting(&key("delay"), default.delay, delays, |value| {
            match value.as_str() {
                Some("auto") => Ok(TieDelay::Auto),
                _ => duration(value)
                    .and_then(|span| within(span, &(Duration::ZERO..=DELAY_MAX)))
                    .map(TieDelay::Span),
            }
        });
        let share = "a number from 0 to 1";
        let budget = reader.setting(&key("budget"), default.budget, share, quantile);
        Self {
            enabled: enabled.value,
            delay: delay.value,
            budget: budget.value,
            burst: count(reader, &key("burst"), default.burst, 1..=10_000),
        }
    }

    /// Writes the section as it is in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str) -> fmt::Result {
        let fields: [(&str, &dyn Display); 4] = [
            ("enabled", &self.enabled),
            ("delay", &quoted(self.delay)),
            ("budget", &self.budget),
            ("burst", &self.burst),
        ];
        write_section(to, &format!("{prefix}tie"), &fields)
    }
}

/// Reads `tie.peers`: the networks of the replicas that an agent shares requests with; none, and it shares none.
pub(super) fn read_peers(
    reader: &mut Reader<'_>,
    has_queue: bool,
    remarks: &mut Vec<Remark>,
) -> Vec<Network> {
    let said = reader.said_section("tie.peers");
    let peers = read_networks(reader, "tie.peers");
    let said = said.filter(|_| !has_queue && !peers.is_empty());
    remarks.extend(said.map(|said| Remark {
        severity: Severity::Warning,
        about: said.mistake(
            "does nothing without queue.requests_max: where nobody waits, nothing can be dropped",
        ),
    }));
    peers
}

/// Writes them, where there are any.
pub(super) fn write_peers(to: &mut String, peers: &[Network]) -> fmt::Result {
    if peers.is_empty() {
        return Ok(());
    }
    writeln!(to, "[tie]")?;
    let shown: Vec<_> = peers.iter().map(quoted).collect();
    writeln!(to, "peers = [{}]\n", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml_reader::Source;
    use slackwater_core::policy::policy_named;

    fn read<T>(
        text: &str,
        read: impl Fn(&mut Reader<'_>, &mut Vec<Remark>) -> T,
    ) -> (T, Vec<String>) {
        let source = Source::new("t.toml".into(), text.to_owned());
        let mut reader = Reader::new(Some(&source), Vec::new()).expect("it is TOML");
        let mut remarks = Vec::new();
        let value = read(&mut reader, &mut remarks);
        let (_, mistakes) = reader.finish();
        let remarks = remarks.iter().map(|remark| remark.about.to_string());
        let told = mistakes.iter().map(ToString::to_string).chain(remarks);
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        (value, told.map(first_line).collect())
    }

    fn of_serve(text: &str) -> (TyingSettings, Vec<String>) {
        read(text, |reader, remarks| {
            let name = if text.contains("sync") {
                "prequal_sync"
            } else {
                "prequal"
            };
            let policy = policy_named(name).expect("a policy");
            TyingSettings::read(reader, "", policy, remarks)
        })
    }

    fn of_agent(text: &str, has_queue: bool) -> (Vec<Network>, Vec<String>) {
        read(text, |reader, remarks| {
            read_peers(reader, has_queue, remarks)
        })
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for delay in ["auto", "2ms", "500ms"] {
            let text =
                format!("[tie]\nenabled = true\ndelay = \"{delay}\"\nbudget = 0.25\nburst = 7\n\n");
            let (settings, told) = of_serve(&text);
            assert!(told.is_empty(), "{told:?}");
            let mut shown = String::new();
            settings.write(&mut shown, "").expect("a string");
            assert_eq!(shown, text);
        }
        let text = "[tie]\npeers = [\"10.0.0.0/8\", \"fd00::7/128\"]\n\n";
        let (peers, told) = of_agent(text, true);
        assert!(told.is_empty(), "{told:?}");
        let mut shown = String::new();
        write_peers(&mut shown, &peers).expect("a string");
        assert_eq!(shown, text);
    }

    #[test]
    fn nothing_is_tied_unless_it_is_asked_for() {
        let (settings, told) = of_serve("");
        assert!(!settings.enabled && told.is_empty());
        assert_eq!(settings.delay, TieDelay::Auto);
        let (peers, told) = of_agent("", false);
        assert!(peers.is_empty() && told.is_empty());
    }

    #[test]
    fn what_does_nothing_or_cannot_be_is_told() {
        let (_, told) = of_serve("[tie]\ndelay = \"501ms\"");
        assert!(
            told[0].starts_with("t.toml:2:9: tie.delay: found"),
            "{told:?}"
        );
        let (_, told) = of_serve("[tie]\nenabled = true # sync");
        let expected = "t.toml:2:11: tie.enabled: does nothing with policy = \"prequal_sync\"";
        assert!(told[0].starts_with(expected), "{told:?}");
        let (_, told) = of_serve("[tie] # sync");
        assert!(told.is_empty(), "{told:?}");
        let (_, told) = of_agent("[tie]\npeers = [\"10.0.0.0/8\"]", false);
        let expected = "t.toml:2:1: tie.peers: does nothing without queue.requests_max";
        assert!(told[0].starts_with(expected), "{told:?}");
        let (peers, told) = of_agent("[tie]\npeers = [\"10.0.0.1/8\"]", true);
        assert!(peers.is_empty() && told.len() == 1, "{told:?}");
    }
}
