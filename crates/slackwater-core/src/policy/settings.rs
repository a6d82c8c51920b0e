//! Settings of policies that are checked once and valid from then on.
//!
//! A policy's settings are a plain struct that a user may fill in freely. [`Settings::validate`]
//! turns it into a [`Valid`], which is what a policy takes. No later code needs to check it again.

use crate::fixed::{Quantile, Rate};
use core::error::Error;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

/// Shortest period of anything periodic.
const PERIOD_MIN: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_hours(1);

/// Settings as a user writes them.
pub trait Settings: Sized {
    /// Checks that all settings are in range.
    ///
    /// # Errors
    ///
    /// Names the first setting that is out of its range.
    fn check(&self) -> Result<(), ConfigError>;

    /// Turns the settings into a configuration.
    ///
    /// # Errors
    ///
    /// Names the setting that is out of its range.
    fn validate(self) -> Result<Valid<Self>, ConfigError> {
        self.check()?;
        Ok(Valid(self))
    }
}

/// Settings with their own section in a configuration.
pub trait Section: Settings + Default + Clone + 'static {
    /// The section's name.
    const NAME: &'static str;
    /// Its keys.
    const FIELDS: &'static [Field<Self>];
}

/// A key of a section. [`Settings::check`] has its range.
pub struct Field<S: 'static> {
    /// Its name within the section.
    pub name: &'static str,
    /// What it does, in lines of Markdown.
    pub doc: &'static [&'static str],
    /// What applies without the key, if its default does not show that.
    pub unsaid: Option<&'static str>,
    /// The type of its value, and access to it.
    pub kind: Kind<S>,
}

/// The type of a value, and access to it.
pub enum Kind<S> {
    /// True or false.
    Boolean(fn(&mut S) -> &mut bool),
    /// A span of time.
    Duration(fn(&mut S) -> &mut Duration),
    /// A factor that is kept in millionths.
    Factor(fn(&mut S) -> &mut u32),
    /// A part of a whole, from 0 to 1.
    Quantile(fn(&mut S) -> &mut Quantile),
    /// A rate per query.
    Rate(fn(&mut S) -> &mut Rate),
    /// A whole number up to 255.
    U8(fn(&mut S) -> &mut u8),
    /// A whole number up to 65,535.
    U16(fn(&mut S) -> &mut u16),
    /// A whole number up to 4,294,967,295.
    U32(fn(&mut S) -> &mut u32),
}

impl<S> fmt::Debug for Field<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Field")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for Kind<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean(_) => "Boolean",
            Self::Duration(_) => "Duration",
            Self::Factor(_) => "Factor",
            Self::Quantile(_) => "Quantile",
            Self::Rate(_) => "Rate",
            Self::U8(_) => "U8",
            Self::U16(_) => "U16",
            Self::U32(_) => "U32",
        })
    }
}

/// Declares a section's table: `key in Kind: field;`, followed by a text if the default does not
/// show what applies without the key. The doc comment of a key is its documentation.
macro_rules! section {
    (@unsaid) => { None };
    (@unsaid $unsaid:literal) => { Some($unsaid) };
    ($settings:ident in $section:literal {
        $($(#[doc = $doc:literal])+ $key:ident in $kind:ident: $field:ident $(, $unsaid:literal)?;)*
    }) => {
        impl $crate::policy::settings::Section for $settings {
            const NAME: &'static str = $section;
            const FIELDS: &'static [$crate::policy::settings::Field<Self>] =
                &[$($crate::policy::settings::Field {
                    name: stringify!($key),
                    doc: &[$($doc),+],
                    unsaid: $crate::policy::settings::section!(@unsaid $($unsaid)?),
                    kind: $crate::policy::settings::Kind::$kind(|settings| &mut settings.$field),
                },)*];
        }
    };
}

pub(crate) use section;

/// Visits each section of [`PolicySettings`](crate::policy::PolicySettings).
pub trait SectionVisitor {
    /// Visits one section.
    fn visit<S: Section>(&mut self, settings: &mut Valid<S>);
}

/// Settings in range; defaults always are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Valid<S>(S);

impl<S> Valid<S> {
    /// The settings as a user writes them.
    pub fn into_inner(self) -> S {
        self.0
    }
}

impl<S> Deref for Valid<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

/// A setting out of range: its name, and the allowed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The setting's name.
    pub field: &'static str,
    /// The allowed values.
    pub expected: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.field, self.expected)
    }
}

impl Error for ConfigError {}

/// An error for `field` unless it is valid.
pub(crate) const fn require(
    valid: bool,
    field: &'static str,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if valid {
        Ok(())
    } else {
        Err(ConfigError { field, expected })
    }
}

/// Checks how many replicas are drawn at random for a query: 2 to 16.
pub(crate) fn require_choices(choices: u8) -> Result<(), ConfigError> {
    require((2..=16).contains(&choices), "choices", "from 2 to 16")
}

/// Checks a period: 1 ms to 1 hour.
pub(crate) fn require_period(period: Duration, field: &'static str) -> Result<(), ConfigError> {
    require(
        (PERIOD_MIN..=HOUR).contains(&period),
        field,
        "from 1 ms to 1 hour",
    )
}

/// Checks a span of time that must not be 0: above 0 to 1 hour.
pub(crate) fn require_span(span: Duration, field: &'static str) -> Result<(), ConfigError> {
    let valid = span > Duration::ZERO && span <= HOUR;
    require(valid, field, "above 0 and at most 1 hour")
}

/// Checks a span of time that may be 0: 0 to 1 hour.
pub(crate) fn require_span_or_none(span: Duration, field: &'static str) -> Result<(), ConfigError> {
    require(span <= HOUR, field, "at most 1 hour")
}

/// A setting's name, and a function that makes it invalid.
#[cfg(test)]
pub(crate) type Spoil<S> = (&'static str, fn(&mut S));

/// For tests: checks that each invalid value gives an error with the field's name, and that the
/// defaults are valid.
#[cfg(test)]
pub(crate) fn check_ranges<S: Settings + Default>(spoils: &[Spoil<S>]) {
    assert_eq!(S::default().check(), Ok(()), "the defaults are valid");
    for (field, spoil) in spoils {
        let mut settings = S::default();
        spoil(&mut settings);
        let error = settings.check().expect_err(field);
        assert_eq!(error.field, *field, "{error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn ranges_include_their_bounds() {
        for valid in [
            require_choices(2),
            require_choices(16),
            require_period(PERIOD_MIN, "period"),
            require_period(HOUR, "period"),
            require_span(Duration::from_nanos(1), "span"),
            require_span(HOUR, "span"),
            require_span_or_none(Duration::ZERO, "span"),
            require_span_or_none(HOUR, "span"),
        ] {
            assert_eq!(valid, Ok(()));
        }
        let beyond = HOUR + Duration::from_nanos(1);
        for invalid in [
            require_choices(1),
            require_choices(17),
            require_period(Duration::from_micros(999), "period"),
            require_period(beyond, "period"),
            require_span(Duration::ZERO, "span"),
            require_span(beyond, "span"),
            require_span_or_none(beyond, "span"),
        ] {
            assert!(invalid.is_err());
        }
    }

    #[test]
    fn error_names_the_field_and_its_range() {
        let error = require_choices(1).expect_err("too few");
        assert_eq!(error.to_string(), "choices must be from 2 to 16");
    }
}
