//! The policies' sections, `[prequal]`, `[linear]` and so on, and who reads which. Configurations of `serve` and scenarios of
//! `sim` have the same.

mod readers;
mod sections;

use super::table::rows::{Row, rows};
use super::table::{self, Section, field};
use crate::toml_reader::{Reader, Said};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    C3Settings, CapacitySettings, ElsSettings, LinearSettings, PeakEwmaSettings, PolicySettings,
    PolledPowerOfDSettings, PowerOfDSettings, RifThenLatencySettings, Settings,
    ShortestExpectedDelaySettings, Valid, WeightedRoundRobinSettings,
};

pub(super) use readers::{all_sections, has_probes, readers_of, reads};

/// Declares the sections, in the order in which they are shown.
macro_rules! policies {
    ($($name:ident: $settings:ty,)*) => {
        /// What the policies are set to, and what was said of each key that was.
        #[derive(Debug)]
        pub struct PolicySections {
            /// What stands before their names: nothing, or `services.NAME.`.
            prefix: String,
            said: Vec<SaidSetting>,
            $(pub(super) $name: $settings,)*
        }

        impl PolicySections {
            /// Reads all of them, where `prefix` says: nothing for the top of the file, or `services.NAME.`.
            pub fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
                let said = &mut Vec::new();
                Self {
                    prefix: prefix.to_owned(),
                    $($name: read(reader, prefix, said),)*
                    said: core::mem::take(said),
                }
            }

            /// What policies are made with. Each value was checked as it was read; values that do not go together are noted
            /// here.
            pub fn settings(&self, reader: &mut Reader<'_>) -> PolicySettings {
                let mut settings = PolicySettings::default();
                $(adopt(reader, &self.prefix, &self.$name, &mut settings.$name);)*
                settings
            }
        }

        /// What is told of the keys of all sections.
        pub(super) fn policy_rows() -> Vec<Row> {
            [$(rows::<$settings>(""),)*].concat()
        }

        /// Writes every section in full.
        pub(super) fn write_sections(to: &mut String, prefix: &str, settings: &PolicySettings) {
            $(table::write::<$settings>(to, prefix, &settings.$name);)*
        }

    };
}

policies! {
    prequal: PrequalSettings,
    linear: LinearSettings,
    c3: C3Settings,
    rif_then_latency: RifThenLatencySettings,
    shortest_expected_delay: ShortestExpectedDelaySettings,
    capacity: CapacitySettings,
    power_of_d: PowerOfDSettings,
    peak_ewma: PeakEwmaSettings,
    els: ElsSettings,
    polled_power_of_d: PolledPowerOfDSettings,
    weighted_round_robin: WeightedRoundRobinSettings,
}

/// A key of a policy's section that was said.
#[derive(Debug)]
struct SaidSetting {
    section: &'static str,
    key: &'static str,
    said: Said,
}

impl PolicySections {
    /// The keys of `section` that were said.
    pub(super) fn said_in<'s>(
        &'s self,
        section: &'static str,
    ) -> impl Iterator<Item = (&'static str, &'s Said)> {
        let said = self.said.iter().filter(move |said| said.section == section);
        said.map(|said| (said.key, &said.said))
    }
}

/// Reads a section: settings each of which is in its range. Adds what was said to `said`.
fn read<S: Section>(reader: &mut Reader<'_>, prefix: &str, said: &mut Vec<SaidSetting>) -> S {
    let settings = table::read(reader, prefix);
    said.extend(S::KEYS.iter().filter_map(|key| {
        Some(SaidSetting {
            section: S::NAME,
            key: key.name,
            said: reader.said(&field::<S>(prefix, key.name))?,
        })
    }));
    settings
}

/// Puts the valid form of the settings in place. Values that do not go together are noted and leave what was there.
fn adopt<S: Section + Settings>(
    reader: &mut Reader<'_>,
    prefix: &str,
    settings: &S,
    place: &mut Valid<S>,
) {
    match settings.clone().validate() {
        Ok(valid) => *place = valid,
        Err(refusal) => {
            let field = field::<S>(prefix, refusal.field);
            reader.add_mistake_near(&field, format!("expected {}", refusal.expected));
        }
    }
}
