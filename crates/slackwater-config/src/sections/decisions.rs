//! Which requests' decisions are kept, and how many.

use super::request_id::field_name;
use super::show::quoted;
use crate::toml_reader::Reader;
use crate::toml_reader::values::{
    Unfit, boolean, duration, quantile, show_duration, show_millionths, text, whole, within,
};
use core::fmt::{self, Write};
use core::time::Duration;
use http::HeaderName;
use slackwater_core::Quantile;
use toml::de::DeValue;

/// The longest span that may make a request slow.
const SLOW_MAX: Duration = Duration::from_hours(24);
/// The most records that are kept.
const CAPACITY_MAX: u32 = 100_000;

/// `[decisions]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionSettings {
    /// The share of requests that is kept, drawn at random: 0 to 1, default 0.01.
    pub sample: Quantile,
    /// A request whose client waits so long or longer for the head of a response is kept, or for its end if there is none: 0 to
    /// 24 hours; `None`, the default: none for that.
    pub slower_than: Option<Duration>,
    /// Whether all that fail are kept; default no.
    pub failed: bool,
    /// A request with a field of this name is kept; `None`, the default: none for that.
    pub header: Option<HeaderName>,
    /// Records in memory, of all workers together: 0 to 100,000, default 1,000. 0: none.
    pub capacity: u32,
}

impl Default for DecisionSettings {
    fn default() -> Self {
        Self {
            sample: Quantile::from_millionths(10_000).unwrap_or(Quantile::ZERO),
            slower_than: None,
            failed: false,
            header: None,
            capacity: 1_000,
        }
    }
}

impl DecisionSettings {
    /// Whether any request may be kept.
    pub fn keeps_any(&self) -> bool {
        let is_drawn = self.sample > Quantile::ZERO;
        let is_kept = self.slower_than.is_some() || self.failed || self.header.is_some();
        self.capacity > 0 && (is_drawn || is_kept)
    }
}

/// Reads `[decisions]`.
pub(super) fn read_decisions(reader: &mut Reader<'_>) -> DecisionSettings {
    let default = DecisionSettings::default();
    let sample = "a number from 0 to 1";
    let sample = reader.setting("decisions.sample", default.sample, sample, quantile);
    let expected = "\"off\", or 0 to 24 hours";
    let slower_than = reader.setting("decisions.slower_than", None, expected, slow);
    let failed = reader.setting("decisions.failed", default.failed, "", boolean);
    let header = reader.setting("decisions.header", None, "", |value| {
        field_name(text(value, "the name of a field")?).map(Some)
    });
    let expected = "a number from 0 to 100,000";
    let capacity = reader.setting("decisions.capacity", default.capacity, expected, |value| {
        whole(value).and_then(|count| within(count, &(0..=CAPACITY_MAX)))
    });
    DecisionSettings {
        sample: sample.value,
        slower_than: slower_than.value,
        failed: failed.value,
        header: header.value,
        capacity: capacity.value,
    }
}

fn slow(value: &DeValue<'_>) -> Result<Option<Duration>, Unfit> {
    if text(value, "").is_ok_and(|text| text == "off") {
        return Ok(None);
    }
    let span = duration(value)?;
    within(span, &(Duration::ZERO..=SLOW_MAX)).map(Some)
}

/// `[decisions]` as a file has it.
pub(super) fn write_decisions(to: &mut String, settings: &DecisionSettings) -> fmt::Result {
    let sample = show_millionths(settings.sample.millionths());
    let slower_than = settings.slower_than.map_or("off".to_owned(), show_duration);
    writeln!(to, "[decisions]\nsample = {sample}")?;
    writeln!(to, "slower_than = {}", quoted(slower_than))?;
    writeln!(to, "failed = {}", settings.failed)?;
    if let Some(header) = &settings.header {
        writeln!(to, "header = {}", quoted(header))?;
    }
    writeln!(to, "capacity = {}\n", settings.capacity)
}
