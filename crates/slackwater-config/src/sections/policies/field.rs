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
use slackwater_core::{Quantile, Rate};
use toml::de::DeValue;

/// A policy's settings that have a section of their own.
pub(super) trait Section: Default + Clone + 'static {
    /// The section's name.
    const NAME: &'static str;
    /// Its keys.
    const FIELDS: &'static [Field<Self>];
    /// What the settings are once they are known to make sense.
    type Valid;

    /// The valid settings, or what is wrong.
    fn valid(self) -> Result<Self::Valid, Refusal>;
}

/// What the core says of settings that make no sense.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) field: &'static str,
    pub(super) expected: &'static str,
}

/// A key, and where its value is kept.
pub(super) type Field<S> = (&'static str, Place<S>);

/// Where a value is kept, by its type.
pub(super) enum Place<S> {
    Boolean(fn(&mut S) -> &mut bool),
    Duration(fn(&mut S) -> &mut Duration),
    /// A factor that the core keeps in millionths, and the range that it has as users write it.
    Factor(fn(&mut S) -> &mut u32, &'static str),
    Quantile(fn(&mut S) -> &mut Quantile),
    Rate(fn(&mut S) -> &mut Rate),
    U8(fn(&mut S) -> &mut u8),
    U16(fn(&mut S) -> &mut u16),
    U32(fn(&mut S) -> &mut u32),
}

impl<S: Section> Place<S> {
    fn read(&self, settings: &mut S, value: &DeValue<'_>) -> Result<(), Unfit> {
        match self {
            Self::Boolean(place) => *place(settings) = boolean(value)?,
            Self::Duration(place) => *place(settings) = duration(value)?,
            Self::Factor(place, _) => {
                *place(settings) = millionths(value, "a number such as 1.25")?;
            }
            Self::Quantile(place) => *place(settings) = quantile(value)?,
            Self::Rate(place) => *place(settings) = rate(value)?,
            Self::U8(place) => *place(settings) = whole(value)?,
            Self::U16(place) => *place(settings) = whole(value)?,
            Self::U32(place) => *place(settings) = whole(value)?,
        }
        Ok(())
    }

    /// What the core says that the value may be: what it refuses one at the end of the type with; the type's own range where
    /// it takes that as well.
    fn range(&self) -> &'static str {
        let mut settings = S::default();
        let of_type = match self {
            Self::Boolean(_) => return "true or false",
            Self::Factor(_, range) => return range,
            Self::Duration(place) => {
                *place(&mut settings) = Duration::MAX;
                "a duration from 0 up"
            }
            Self::Quantile(place) => {
                *place(&mut settings) = Quantile::ZERO;
                "a number from 0 to 1"
            }
            Self::Rate(place) => {
                *place(&mut settings) = Rate::MAX;
                "a number from 0 to 64"
            }
            Self::U8(place) => {
                *place(&mut settings) = u8::MAX;
                "a number from 0 to 255"
            }
            Self::U16(place) => {
                *place(&mut settings) = u16::MAX;
                "a number from 0 to 65,535"
            }
            Self::U32(place) => {
                *place(&mut settings) = u32::MAX;
                "a number from 0 to 4,294,967,295"
            }
        };
        (settings.valid().err()).map_or(of_type, |refusal| refusal.expected)
    }

    fn show(&self, settings: &S) -> String {
        let settings = &mut settings.clone();
        match self {
            Self::Boolean(place) => place(settings).to_string(),
            Self::Duration(place) => format!("\"{}\"", show_duration(*place(settings))),
            Self::Factor(place, _) => show_millionths(*place(settings)),
            Self::Quantile(place) => place(settings).to_string(),
            Self::Rate(place) => place(settings).to_string(),
            Self::U8(place) => place(settings).to_string(),
            Self::U16(place) => place(settings).to_string(),
            Self::U32(place) => place(settings).to_string(),
        }
    }
}

/// Reads the section: settings each of which is in its range. Adds what was said to `said`.
pub(super) fn read<S: Section>(
    reader: &mut Reader<'_>,
    prefix: &str,
    said: &mut Vec<SaidSetting>,
) -> S {
    let mut settings = S::default();
    for (name, place) in S::FIELDS {
        let parse = |value: &DeValue<'_>| {
            let mut alone = S::default();
            place.read(&mut alone, value)?;
            alone.valid().map_err(|_| Unfit::Range)?;
            place.read(&mut settings, value)
        };
        let setting = reader.setting(
            &format!("{prefix}{}.{name}", S::NAME),
            (),
            place.range(),
            parse,
        );
        said.extend(setting.said.map(|said| SaidSetting {
            section: S::NAME,
            key: name,
            said,
        }));
    }
    settings
}

/// Puts the valid form of the settings in place. Values that do not go together are noted and leave what was there.
pub(super) fn adopt<S: Section>(
    reader: &mut Reader<'_>,
    prefix: &str,
    settings: &S,
    place: &mut S::Valid,
) {
    match settings.clone().valid() {
        Ok(valid) => *place = valid,
        Err(refusal) => {
            let field = format!("{prefix}{}.{}", S::NAME, refusal.field);
            reader.add_mistake_near(&field, format!("expected {}", refusal.expected));
        }
    }
}

/// Writes the section in full.
pub(super) fn write<S: Section>(to: &mut String, prefix: &str, settings: &S) -> fmt::Result {
    writeln!(to, "[{prefix}{}]", S::NAME)?;
    for (name, place) in S::FIELDS {
        writeln!(to, "{name} = {}", place.show(settings))?;
    }
    writeln!(to)
}
