//! `[tie]`: whether requests are sent to two replicas, of which one works on them. For an agent:
//! the networks of the replicas that it shares such requests with.

use super::forwarded::NETWORKS;
use super::idle::idle_without_switch;
use super::network::Network;
use crate::table::{
    self, Any, Boolean, Judge, Kind, Meaning, Number, Or, Share, Span, Within, field, millionths,
    settings,
};
use crate::toml_reader::values::Unfit;
use crate::toml_reader::{Reader, Remark, Severity};
use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::policy::{PolicyEntry, Reports};
use toml::de::DeValue;

/// Delay of the second copy after the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieDelay {
    /// The round trip of a probe.
    #[default]
    Auto,
    /// A fixed delay: 0 to 500 ms.
    Span(Duration),
}

/// At most half of the second for which a replica remembers that a copy can be dropped.
const DELAY: Or<Within<Span, Duration>> = Or(
    "auto",
    Within(Span, Duration::ZERO..=Duration::from_millis(500)),
);

/// The kind of [`TieDelay`].
struct Delay;

impl Kind<TieDelay> for Delay {
    fn read(&self, value: &DeValue<'_>) -> Result<TieDelay, Unfit> {
        let span = DELAY.read(value)?;
        Ok(span.map_or(TieDelay::Auto, TieDelay::Span))
    }

    fn show(&self, value: &TieDelay) -> Option<String> {
        Kind::show(
            &DELAY,
            &match value {
                TieDelay::Auto => None,
                TieDelay::Span(span) => Some(*span),
            },
        )
    }

    fn meaning(&self, _: &Judge<'_, TieDelay>) -> Meaning {
        Kind::meaning(&DELAY, &Judge::none())
    }
}

settings! {
    /// Whether requests are sent to two replicas, of which one works on them.
    pub struct TyingSettings in "tie" {
        /// Sends requests to two replicas; the one that begins second drops its copy. Replicas need
        /// agents with `tie.peers`, or the server library.
        enabled: bool = false, Boolean;
        /// Delay of the second copy, if no answer has come by then. `"auto"`: the round trip of a
        /// probe, or 1 ms without probes.
        delay: TieDelay = TieDelay::Auto, Delay;
        /// Second copies that no replica drops, as a share of the requests that may have one. 0:
        /// `tie.burst` copies in all.
        budget: Quantile = millionths(100_000), Any(Share);
        /// Unused budget accumulates to this many copies, for each worker. It starts full.
        burst: u32 = 100, Within(Number, 1..=10_000);
    }
}

impl TyingSettings {
    /// Reads the section, with remarks. A policy that probes before each choice ties no copies.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        prefix: &str,
        policy: &PolicyEntry,
        remarks: &mut Vec<Remark>,
    ) -> Self {
        let settings: Self = table::read(reader, prefix);
        remarks.extend(idle_without_switch::<Self>(reader, prefix));
        let definition = reader.definition(&field::<Self>(prefix, "enabled"));
        let definition =
            definition.filter(|_| settings.enabled && policy.reports == Reports::Round);
        remarks.extend(definition.map(|definition| Remark {
            severity: Severity::Warning,
            about: definition.mistake(format!(
                "does nothing with policy = {:?}, which would have to ask twice before a request leaves",
                policy.name
            )),
        }));
        settings
    }
}

/// Reads `tie.peers`: the networks of the replicas that an agent shares requests with. Empty: it
/// shares none.
pub(super) fn read_peers(
    reader: &mut Reader<'_>,
    has_queue: bool,
    remarks: &mut Vec<Remark>,
) -> Vec<Network> {
    let definition = reader.section_definition("tie.peers");
    let peers = NETWORKS.list(reader, "tie.peers");
    let definition = definition.filter(|_| !has_queue && !peers.is_empty());
    remarks.extend(definition.map(|definition| Remark {
        severity: Severity::Warning,
        about: definition.mistake(
            "does nothing without queue.requests_max: without a queue, nothing can be dropped",
        ),
    }));
    peers
}

/// Writes the peers, if there are any.
pub(super) fn write_peers(to: &mut String, peers: &Vec<Network>) {
    if !peers.is_empty() {
        let shown = NETWORKS.show(peers);
        table::write_keys(to, "tie", shown.map(|shown| ("peers", shown)));
    }
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
    fn shown_settings_round_trip() {
        for delay in ["auto", "2ms", "500ms"] {
            let text =
                format!("[tie]\nenabled = true\ndelay = \"{delay}\"\nbudget = 0.25\nburst = 7\n\n");
            let (settings, told) = of_serve(&text);
            assert!(told.is_empty(), "{told:?}");
            let mut shown = String::new();
            table::write(&mut shown, "", &settings);
            assert_eq!(shown, text);
        }
        let text = "[tie]\npeers = [\"10.0.0.0/8\", \"fd00::7/128\"]\n\n";
        let (peers, told) = of_agent(text, true);
        assert!(told.is_empty(), "{told:?}");
        let mut shown = String::new();
        write_peers(&mut shown, &peers);
        assert_eq!(shown, text);
    }

    #[test]
    fn nothing_is_tied_by_default() {
        let (settings, told) = of_serve("");
        assert!(!settings.enabled && told.is_empty());
        assert_eq!(settings.delay, TieDelay::Auto);
        let (peers, told) = of_agent("", false);
        assert!(peers.is_empty() && told.is_empty());
    }

    #[test]
    fn keys_without_effect_and_invalid_values_are_reported() {
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
