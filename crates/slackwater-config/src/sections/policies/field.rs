//! One setting of a policy as a key: how it is read, checked and shown.
//!
//! Ranges are the core's. A value is put into settings that are otherwise the defaults and checked there, so each mistake
//! is found, not only the first, and no range is written down twice.

use super::SaidSetting;
use crate::toml_reader::Reader;
use crate::toml_reader::values::{
    Unfit, boolean, duration, millionths, quantile, rate, show_duration, show_millionths, whole,
};
use core::fmt::{self, Write};
use core::time::Duration;
use slackwater_core::policy::{Kind, Section};
use slackwater_core::{Quantile, Rate};
use toml::de::DeValue;

fn put<S>(kind: &Kind<S>, settings: &mut S, value: &DeValue<'_>) -> Result<(), Unfit> {
    match kind {
        Kind::Boolean(place) => *place(settings) = boolean(value)?,
        Kind::Duration(place) => *place(settings) = duration(value)?,
        Kind::Factor(place, _) => {
            *place(settings) = millionths(value, "a number such as 1.25")?;
        }
        Kind::Quantile(place) => *place(settings) = quantile(value)?,
        Kind::Rate(place) => *place(settings) = rate(value)?,
        Kind::U8(place) => *place(settings) = whole(value)?,
        Kind::U16(place) => *place(settings) = whole(value)?,
        Kind::U32(place) => *place(settings) = whole(value)?,
    }
    Ok(())
}

/// What the core says that the value may be: what it refuses one at the end of the type with; the type's own range where
/// it takes that as well.
fn range<S: Section>(kind: &Kind<S>) -> &'static str {
    let mut settings = S::default();
    let of_type = match kind {
        Kind::Boolean(_) => return "true or false",
        Kind::Factor(_, range) => return range,
        Kind::Duration(place) => {
            *place(&mut settings) = Duration::MAX;
            "a duration from 0 up"
        }
        Kind::Quantile(place) => {
            *place(&mut settings) = Quantile::ZERO;
            "a number from 0 to 1"
        }
        Kind::Rate(place) => {
            *place(&mut settings) = Rate::MAX;
            "a number from 0 to 64"
        }
        Kind::U8(place) => {
            *place(&mut settings) = u8::MAX;
            "a number from 0 to 255"
        }
        Kind::U16(place) => {
            *place(&mut settings) = u16::MAX;
            "a number from 0 to 65,535"
        }
        Kind::U32(place) => {
            *place(&mut settings) = u32::MAX;
            "a number from 0 to 4,294,967,295"
        }
    };
    (settings.check().err()).map_or(of_type, |error| error.expected)
}

fn show<S: Section>(kind: &Kind<S>, settings: &S) -> String {
    let settings = &mut settings.clone();
    match kind {
        Kind::Boolean(place) => place(settings).to_string(),
        Kind::Duration(place) => format!("\"{}\"", show_duration(*place(settings))),
        Kind::Factor(place, _) => show_millionths(*place(settings)),
        Kind::Quantile(place) => place(settings).to_string(),
        Kind::Rate(place) => place(settings).to_string(),
        Kind::U8(place) => place(settings).to_string(),
        Kind::U16(place) => place(settings).to_string(),
        Kind::U32(place) => place(settings).to_string(),
    }
}

/// Reads the section. Mistakes are noted, and what was said is added to `said`; a value that is a mistake leaves the default.
pub(super) fn read<S: Section>(
    reader: &mut Reader<'_>,
    prefix: &str,
    said: &mut Vec<SaidSetting>,
) -> S {
    let mut settings = S::default();
    for (name, kind) in S::FIELDS {
        let parse = |value: &DeValue<'_>| {
            let mut alone = S::default();
            put(kind, &mut alone, value)?;
            alone.check().map_err(|_| Unfit::Range)?;
            put(kind, &mut settings, value)
        };
        let field = format!("{prefix}{}.{name}", S::NAME);
        let setting = reader.setting(&field, (), range(kind), parse);
        said.extend(setting.said.map(|said| SaidSetting {
            section: S::NAME,
            key: name,
            said,
        }));
    }
    settings
}

/// Writes the section in full.
pub(super) fn write<S: Section>(to: &mut String, prefix: &str, settings: &S) -> fmt::Result {
    writeln!(to, "[{prefix}{}]", S::NAME)?;
    for (name, kind) in S::FIELDS {
        writeln!(to, "{name} = {}", show(kind, settings))?;
    }
    writeln!(to)
}
