//! `[zone]`: the zone of this process, and what another one costs; the zone of a replica.

use super::variables::Variables;
use crate::table::{self, SECOND, Span, Within, Written, field, settings};
use crate::toml_reader::Reader;
use crate::toml_reader::values::Unfit;
use core::time::Duration;
use std::sync::Arc;

/// A zone by its name; by default it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone(Option<Arc<str>>);

impl Zone {
    /// The longest name, in bytes.
    pub const BYTES_MAX: usize = 128;

    /// The zone of this name; an empty name stands for a zone that is not known. `None` if the name
    /// is too long, or has control characters.
    pub fn new(name: &str) -> Option<Self> {
        let fits = name.len() <= Self::BYTES_MAX && !name.chars().any(char::is_control);
        fits.then(|| Self((!name.is_empty()).then(|| name.into())))
    }

    /// The name; `None` if the zone is not known.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Whether the two are different zones. One that is not known is far from none.
    pub fn is_far_from(&self, other: &Self) -> bool {
        self.0.is_some() && other.0.is_some() && self != other
    }
}

/// A zone in the configuration.
pub(super) const ZONE: Written<Zone> = Written {
    what: "a zone",
    expected: "a zone of at most 128 printable characters",
    parse: |written| Zone::new(written).ok_or(Unfit::Range),
    text: |zone| zone.name().unwrap_or_default().to_owned(),
};

settings! {
    /// The zone of this process, and what a request to another one costs.
    pub struct ZoneSettings in "zone" {
        /// Zone of this process. Replicas in others are [far](../how-to/zones.md). `""`: no replica
        /// is far.
        name: Zone = Zone::default(), ZONE, "`SLACKWATER_ZONE`";
        /// Round trip to another zone, which a request pays that leaves its own. 0: only the load
        /// decides.
        round_trip: Duration = Duration::from_millis(1), Within(Span, Duration::ZERO..=SECOND);
    }
}

impl ZoneSettings {
    /// Reads the section. A variable supplies the name that it leaves out.
    pub(super) fn read<'s>(reader: &mut Reader<'s>, variables: &'s Variables) -> Self {
        if let Some(item) = variables.place("zone", &field::<Self>("", "name")) {
            reader.stand_in(item);
        }
        table::read(reader, "")
    }

    /// The round trip to a replica in this zone; `None` if it is not far.
    pub fn far(&self, replica: &Zone) -> Option<Duration> {
        replica.is_far_from(&self.name).then_some(self.round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::variables::tests::variables;
    use crate::sections::{Config, Loaded, Overrides};
    use crate::toml_reader::Source;

    const BASE: &str = "listen = \"127.0.0.1:0\"\n";

    fn load(text: &str, set: &[(&str, &str)]) -> Result<Loaded, String> {
        let source = Source::new("a.toml".into(), format!("{BASE}{text}"));
        let flags = Overrides {
            variables: variables(set),
            ..Overrides::default()
        };
        Config::load_source(Some(&source), &flags).map_err(|mistakes| mistakes.in_a_line())
    }

    fn remarks(text: &str, set: &[(&str, &str)]) -> Vec<String> {
        let loaded = load(text, set).expect("valid");
        let told = loaded.remarks.iter().map(|it| it.about.to_string());
        told.filter(|told| told.contains("zone")).collect()
    }

    #[test]
    fn zone_that_is_not_known_is_far_from_none() {
        let zone = |name| Zone::new(name).expect("valid");
        assert!(zone("a").is_far_from(&zone("b")));
        for (one, other) in [("a", "a"), ("a", ""), ("", "a"), ("", "")] {
            assert!(!zone(one).is_far_from(&zone(other)), "{one:?} {other:?}");
        }
        assert_eq!(zone("").name(), None);
        assert_eq!(zone("eu 1").name(), Some("eu 1"));
    }

    #[test]
    fn zone_is_a_short_printable_text() {
        assert!(Zone::new(&"z".repeat(Zone::BYTES_MAX)).is_some());
        assert_eq!(Zone::new(&"z".repeat(Zone::BYTES_MAX + 1)), None);
        assert_eq!(Zone::new("a\n"), None);
        assert_eq!(Zone::new("a\u{7f}"), None);
    }

    #[test]
    fn replicas_in_another_zone_are_far() {
        let text = "zone = { name = \"a\", round_trip = \"3ms\" }\nreplicas = [\n\
                    { address = \"10.0.0.1:80\", zone = \"a\" },\n\
                    { address = \"10.0.0.2:80\", zone = \"b\" },\n\
                    { address = \"10.0.0.3:80\", zone = \"\" },\n\"10.0.0.4:80\"]\n";
        let config = load(text, &[]).expect("valid").config;
        let service = &config.services[0];
        let far = service.replicas.iter().map(|it| service.zone.far(&it.zone));
        let round_trip = Some(Duration::from_millis(3));
        assert_eq!(far.collect::<Vec<_>>(), [None, round_trip, None, None]);
        let shown = config.to_toml();
        let again = Config::of_text("b.toml", shown.clone()).expect("valid");
        assert_eq!(again.services[0].replicas, service.replicas);
        assert_eq!(again.zone, config.zone);
        assert_eq!(again.to_toml(), shown);
    }

    #[test]
    fn variable_names_the_zone_unless_the_file_does() {
        let set = [("SLACKWATER_ZONE", "b")];
        let own = |text: &str, set: &[(&str, &str)]| {
            let text = format!("replicas = [\"10.0.0.1:80\"]\n{text}");
            load(&text, set).map(|it| it.config.zone)
        };
        let name = |zone: Result<ZoneSettings, String>| {
            zone.map(|zone| zone.name.name().unwrap_or_default().to_owned())
        };
        assert_eq!(name(own("", &set)).as_deref(), Ok("b"));
        assert_eq!(name(own("zone.name = \"a\"", &set)).as_deref(), Ok("a"));
        assert_eq!(name(own("zone.name = \"\"", &set)).as_deref(), Ok(""));
        let default = own("", &[]).expect("valid");
        assert_eq!(default, ZoneSettings::default());
        assert_eq!(default.round_trip, Duration::from_millis(1));
        let long = "z".repeat(129);
        let told = own("", &[("SLACKWATER_ZONE", &long)]).expect_err("too long");
        let expected = "zone.name: found";
        assert!(
            told.starts_with("SLACKWATER_ZONE") && told.contains(expected),
            "{told}"
        );
    }

    #[test]
    fn control_plane_hears_of_the_zone_unless_its_section_names_one() {
        let text = "discovery.xds = \"web\"\nzone.name = \"a\"\n\
                    xds.server = \"http://127.0.0.1:1\"\n";
        let zone = |more: &str| {
            let loaded = load(&format!("{text}{more}"), &[]).expect("valid");
            loaded.config.xds.node.locality.zone
        };
        assert_eq!(zone(""), "a");
        assert_eq!(zone("xds.node.zone = \"A\""), "A");
    }

    #[test]
    fn zones_that_do_nothing_deserve_a_remark() {
        let one = "replicas = [{ address = \"10.0.0.1:80\", zone = \"a\" }]\n";
        let own = "zone.name = \"b\"\n";
        let variable = [("SLACKWATER_ZONE", "b")];
        assert_eq!(remarks(&format!("{own}{one}"), &[]), [""; 0]);
        assert_eq!(remarks(one, &variable), [""; 0]);
        assert_eq!(
            remarks(one, &[]),
            [
                "a.toml:2:25: replicas[0].address: has a zone, which does nothing without zone.name or SLACKWATER_ZONE"
            ]
        );
        let other = "policy = \"random\"\n";
        assert_eq!(
            remarks(&format!("{own}{other}{one}"), &[]),
            [
                "a.toml:2:13: zone.name: does nothing with policy = \"random\", which ignores zones",
                "a.toml:4:25: replicas[0].address: has a zone, which does nothing with policy = \"random\", which ignores zones",
            ]
        );
        let plain = "replicas = [\"10.0.0.1:80\"]\n";
        assert_eq!(remarks(&format!("{other}{plain}"), &variable), [""; 0]);
        assert_eq!(
            remarks(&format!("{plain}zone.round_trip = \"2ms\"\n"), &[]),
            ["a.toml:3:19: zone.round_trip: does nothing without zone.name"]
        );
        // Hints of a cluster choose by zone, whatever the policy is.
        let pods = "discovery.kubernetes = \"shop/web:http\"\n";
        assert_eq!(remarks(&format!("{own}{other}{pods}"), &[]), [""; 0]);
        let all = "kubernetes.topology = \"ignore\"\n";
        assert_eq!(remarks(&format!("{own}{other}{pods}{all}"), &[]).len(), 1);
    }
}
