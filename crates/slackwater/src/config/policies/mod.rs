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
    C3Settings, ElsSettings, LinearSettings, PeakEwmaSettings, PolicySettings,
    PolledPowerOfDSettings, PowerOfDSettings, RifThenLatencySettings, WeightedRoundRobinSettings,
};

pub(super) use readers::{all_sections, has_probes, readers_of, reads};

/// What the policies are set to, and what was said of each key that was.
#[derive(Debug)]
pub(crate) struct PolicySections {
    pub(super) prequal: PrequalSettings,
    linear: LinearSettings,
    c3: C3Settings,
    rif_then_latency: RifThenLatencySettings,
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
    /// Reads all of them.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Self {
        let said = &mut Vec::new();
        Self {
            prequal: read(reader, said),
            linear: read(reader, said),
            c3: read(reader, said),
            rif_then_latency: read(reader, said),
            power_of_d: read(reader, said),
            peak_ewma: read(reader, said),
            els: read(reader, said),
            polled_power_of_d: read(reader, said),
            weighted_round_robin: read(reader, said),
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
    pub(crate) fn settings(&self, reader: &mut Reader<'_>) -> PolicySettings {
        let mut settings = PolicySettings::default();
        adopt(reader, &self.prequal, &mut settings.prequal);
        adopt(reader, &self.linear, &mut settings.linear);
        adopt(reader, &self.c3, &mut settings.c3);
        adopt(
            reader,
            &self.rif_then_latency,
            &mut settings.rif_then_latency,
        );
        adopt(reader, &self.power_of_d, &mut settings.power_of_d);
        adopt(reader, &self.peak_ewma, &mut settings.peak_ewma);
        adopt(reader, &self.els, &mut settings.els);
        adopt(
            reader,
            &self.polled_power_of_d,
            &mut settings.polled_power_of_d,
        );
        adopt(
            reader,
            &self.weighted_round_robin,
            &mut settings.weighted_round_robin,
        );
        settings
    }
}

/// Writes every section in full.
pub(super) fn write_sections(to: &mut String, settings: &PolicySettings) -> fmt::Result {
    write::<PrequalSettings>(to, &settings.prequal)?;
    write::<LinearSettings>(to, &settings.linear)?;
    write::<C3Settings>(to, &settings.c3)?;
    write::<RifThenLatencySettings>(to, &settings.rif_then_latency)?;
    write::<PowerOfDSettings>(to, &settings.power_of_d)?;
    write::<PeakEwmaSettings>(to, &settings.peak_ewma)?;
    write::<ElsSettings>(to, &settings.els)?;
    write::<PolledPowerOfDSettings>(to, &settings.polled_power_of_d)?;
    write::<WeightedRoundRobinSettings>(to, &settings.weighted_round_robin)
}
