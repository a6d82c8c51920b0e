//! The policies' sections, `[prequal]`, `[linear]` and so on, and who reads which. Configurations of `serve` and scenarios of
//! `sim` have the same.

mod field;
mod readers;
mod sections;

use crate::toml_reader::{Reader, Said};
use core::fmt;
use field::{adopt, read, write};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    C3Settings, CapacitySettings, ElsSettings, LinearSettings, PeakEwmaSettings, PolicySettings,
    PolledPowerOfDSettings, PowerOfDSettings, RifThenLatencySettings,
    ShortestExpectedDelaySettings, WeightedRoundRobinSettings,
};

pub(super) use readers::{all_sections, has_probes, readers_of, reads};

/// What the policies are set to, and what was said of each key that was.
#[derive(Debug)]
pub struct PolicySections {
    /// What stands before their names: nothing, or `services.NAME.`.
    prefix: String,
    pub(super) prequal: PrequalSettings,
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
    said: Vec<SaidSetting>,
}

/// A key of a policy's section that was said.
#[derive(Debug)]
struct SaidSetting {
    section: &'static str,
    key: &'static str,
    said: Said,
}

impl PolicySections {
    /// Reads all of them, where `prefix` says: nothing for the top of the file, or `services.NAME.`.
    pub fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        let said = &mut Vec::new();
        Self {
            prefix: prefix.to_owned(),
            prequal: read(reader, prefix, said),
            linear: read(reader, prefix, said),
            c3: read(reader, prefix, said),
            rif_then_latency: read(reader, prefix, said),
            shortest_expected_delay: read(reader, prefix, said),
            capacity: read(reader, prefix, said),
            power_of_d: read(reader, prefix, said),
            peak_ewma: read(reader, prefix, said),
            els: read(reader, prefix, said),
            polled_power_of_d: read(reader, prefix, said),
            weighted_round_robin: read(reader, prefix, said),
            said: core::mem::take(said),
        }
    }

    /// The keys of `section` that were said.
    pub(super) fn said_in<'s>(
        &'s self,
        section: &'static str,
    ) -> impl Iterator<Item = (&'static str, &'s Said)> {
        let said = self.said.iter().filter(move |said| said.section == section);
        said.map(|said| (said.key, &said.said))
    }

    /// What policies are made with. Each value was checked as it was read; values that do not go together are noted here.
    pub fn settings(&self, reader: &mut Reader<'_>) -> PolicySettings {
        let prefix = &self.prefix;
        let mut settings = PolicySettings::default();
        adopt(reader, prefix, &self.prequal, &mut settings.prequal);
        adopt(reader, prefix, &self.linear, &mut settings.linear);
        adopt(reader, prefix, &self.c3, &mut settings.c3);
        adopt(
            reader,
            prefix,
            &self.rif_then_latency,
            &mut settings.rif_then_latency,
        );
        adopt(
            reader,
            prefix,
            &self.shortest_expected_delay,
            &mut settings.shortest_expected_delay,
        );
        adopt(reader, prefix, &self.capacity, &mut settings.capacity);
        adopt(reader, prefix, &self.power_of_d, &mut settings.power_of_d);
        adopt(reader, prefix, &self.peak_ewma, &mut settings.peak_ewma);
        adopt(reader, prefix, &self.els, &mut settings.els);
        adopt(
            reader,
            prefix,
            &self.polled_power_of_d,
            &mut settings.polled_power_of_d,
        );
        adopt(
            reader,
            prefix,
            &self.weighted_round_robin,
            &mut settings.weighted_round_robin,
        );
        settings
    }
}

/// Writes every section in full.
pub(super) fn write_sections(
    to: &mut String,
    prefix: &str,
    settings: &PolicySettings,
) -> fmt::Result {
    write::<PrequalSettings>(to, prefix, &settings.prequal)?;
    write::<LinearSettings>(to, prefix, &settings.linear)?;
    write::<C3Settings>(to, prefix, &settings.c3)?;
    write::<RifThenLatencySettings>(to, prefix, &settings.rif_then_latency)?;
    write::<ShortestExpectedDelaySettings>(to, prefix, &settings.shortest_expected_delay)?;
    write::<CapacitySettings>(to, prefix, &settings.capacity)?;
    write::<PowerOfDSettings>(to, prefix, &settings.power_of_d)?;
    write::<PeakEwmaSettings>(to, prefix, &settings.peak_ewma)?;
    write::<ElsSettings>(to, prefix, &settings.els)?;
    write::<PolledPowerOfDSettings>(to, prefix, &settings.polled_power_of_d)?;
    write::<WeightedRoundRobinSettings>(to, prefix, &settings.weighted_round_robin)
}
