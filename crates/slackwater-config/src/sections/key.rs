//! `[key]`: which requests belong together, and how their key limits the replicas that they go to.

use super::files::{file_name, read_secret};
use super::kinds::is_token;
use crate::table::{
    self, FILE, Factor, HOUR, Judge, Kind, Many, Meaning, Number, Share, Span, Within, Written,
    field, millionths, settings,
};
use crate::toml_reader::values::{Unfit, percent, show_millionths};
use crate::toml_reader::{Reader, Remark};
use core::fmt;
use core::time::Duration;
use data_encoding::HEXLOWER_PERMISSIVE;
use http::HeaderName;
use serde_json::json;
use slackwater_core::Quantile;
use slackwater_core::keys::{KeyConfig, KeySettings};
use slackwater_core::policy::Settings;
use std::path::PathBuf;
use toml::de::DeValue;

/// The most sources of keys.
const SOURCES_MAX: usize = 8;
/// The most segments of a path that are a key.
const SEGMENTS_MAX: u8 = 16;
/// The shortest time.
const NANOSECOND: Duration = Duration::from_nanos(1);
/// The longest name of a cookie or a parameter, in bytes.
const NAME_BYTES_MAX: usize = 128;

settings! {
    /// Keys of requests, and the replicas that a key's requests go to.
    pub struct KeyRouting in "key" {
        /// Where a request's key comes from: the first of these that it has. A request without a
        /// key goes where the policy says.
        by: Vec<KeySource> = Vec::new(), Many { of: SOURCE, max: SOURCES_MAX, what: "sources of keys" };
        /// A replica takes no more of its keys while its expected delay exceeds this multiple of
        /// the mean, also as a percentage. 0: no bound.
        balance_factor: u32 = KeySettings::default().balance_factor_millionths, BalanceFactor;
        /// The first replicas of a key, which take its requests while its own is above the bound.
        set: u8 = KeySettings::default().set, Within(Number, 1..=16);
        /// Partitions that keys are grouped into; each has its own set. 0: each key for itself.
        partitions: u16 = KeySettings::default().partitions, Within(Number, 0..=KeySettings::PARTITIONS_MAX);
        /// The most replicas that share a hot partition. 1: none is shared.
        replicate_max: u8 = KeySettings::default().replicate_max, Within(Number, 1..=16);
        /// A partition is hot above this share of a replica's mean load.
        replicate_above: Quantile = KeySettings::default().replicate_above, Within(Share, millionths(1)..=Quantile::ONE);
        /// How long a partition has to be hot, or no longer hot.
        replicate_time: Duration = KeySettings::default().replicate_time, Within(Span, NANOSECOND..=HOUR);
    } then {
        /// A file with 32 to 128 hexadecimal digits, so that clients cannot choose keys of one
        /// replica. The same for all proxies.
        seed_file: FILE, "none: keys have the same replicas everywhere";
    } also {
        /// The settings of the choice.
        rule: KeyConfig = KeyConfig::default();
        /// The secret that keys are hashed with, and its file.
        seed: Option<(KeySeed, PathBuf)> = None;
    }
}

/// Where a request's key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The value of a header.
    Header(HeaderName),
    /// The value of a cookie.
    Cookie(Box<str>),
    /// The value of a parameter of the query string, as it was sent.
    Query(Box<str>),
    /// The path, as it was sent.
    Path,
    /// The first segments of the path: 1 to 16.
    PathPrefix(u8),
    /// The client's address, as reported by trusted proxies before us.
    Address,
    /// Metadata of a gRPC call.
    Grpc(HeaderName),
}

impl KeySource {
    fn parse(text: &str) -> Result<Self, Unfit> {
        let (kind, name) = match text.split_once(':') {
            Some((kind, name)) => (kind, Some(name)),
            None => (text, None),
        };
        let header = |name: &str| HeaderName::try_from(name).map_err(|_| Unfit::Range);
        Ok(match (kind, name) {
            ("header", Some(name)) => Self::Header(header(name)?),
            ("grpc", Some(name)) => Self::Grpc(header(name)?),
            ("cookie", Some(name)) => Self::Cookie(parse_cookie(text, name)?),
            ("query", Some(name)) if is_parameter(name) => Self::Query(name.into()),
            ("path", None) => Self::Path,
            ("path_prefix", Some(segments)) => {
                Self::PathPrefix(parse_segments(segments).ok_or(Unfit::Range)?)
            }
            ("address", None) => Self::Address,
            _ => return Err(Unfit::Range),
        })
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Path => f.write_str("path"),
            Self::PathPrefix(segments) => write!(f, "path_prefix:{segments}"),
            Self::Address => f.write_str("address"),
            Self::Grpc(name) => write!(f, "grpc:{name}"),
        }
    }
}

/// Reads the name of a cookie that others set: a token. RFC 6265 §4.1.1
fn parse_cookie(text: &str, name: &str) -> Result<Box<str>, Unfit> {
    let is_other = |char: &char| !u8::try_from(*char).is_ok_and(is_token);
    if let Some(other) = name.chars().find(is_other) {
        return Err(Unfit::Other(format!(
            "found {text:?}: {other:?} is not allowed in the name of a cookie; expected letters, digits and !#$%&'*+-.^_`|~"
        )));
    }
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    fits.then(|| name.into()).ok_or(Unfit::Range)
}

fn is_parameter(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_graphic() && !b"&=#?".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits)
}

fn parse_segments(text: &str) -> Option<u8> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let segments = text.parse().ok().filter(|_| is_plain)?;
    (1..=SEGMENTS_MAX).contains(&segments).then_some(segments)
}

const SOURCE_EXPECTED: &str = "\"header:NAME\", \"cookie:NAME\", \"query:NAME\", \"path\", \
                               \"path_prefix:N\" with N from 1 to 16, \"address\" or \"grpc:NAME\"";

/// A source of keys.
const SOURCE: Written<KeySource> = Written {
    what: SOURCE_EXPECTED,
    expected: SOURCE_EXPECTED,
    parse: KeySource::parse,
    text: KeySource::to_string,
};

/// A factor of 1 or more, or 0 for none. Percents of other software are understood: `"125%"`.
struct BalanceFactor;

/// A bare number from 100 on is a percentage without its sign.
const BARE_PERCENTAGE: u32 = 100_000_000;

/// The largest factor, which only a percentage can say: 1,000.
pub(super) const FACTOR_MAX: u32 = 1_000_000_000;

const FACTOR: Within<Factor, u32> = Within(Factor, 1_000_000..=BARE_PERCENTAGE - 1_000_000);

/// What `percent` reads.
const PERCENTAGE: &str = r"^[0-9]+(\.[0-9]{0,4}0*)?%$";

impl Kind<u32> for BalanceFactor {
    fn read(&self, value: &DeValue<'_>) -> Result<u32, Unfit> {
        let (factor, most) = match value.as_str() {
            Some(text) => (percent(text).ok_or(Unfit::Range)?, FACTOR_MAX),
            None => (
                crate::toml_reader::values::millionths(value, "a number such as 1.25")?,
                *FACTOR.1.end(),
            ),
        };
        let is_in_range = factor == 0 || (*FACTOR.1.start()..=most).contains(&factor);
        if value.as_str().is_none() && factor >= BARE_PERCENTAGE {
            let meant = show_millionths(factor / 100);
            let found = show_millionths(factor);
            return Err(Unfit::Other(format!(
                "found {found}; did you mean {found} percent? write {meant} or \"{found}%\""
            )));
        }
        is_in_range.then_some(factor).ok_or(Unfit::Range)
    }

    fn show(&self, value: &u32) -> Option<String> {
        Some(show_factor(*value))
    }

    fn meaning(&self, _: &Judge<'_, u32>) -> Meaning {
        let factor = Kind::meaning(&FACTOR, &Judge::none());
        let percentage = json!({"type": "string", "pattern": PERCENTAGE});
        let schema = json!({"anyOf": [factor.schema, {"const": 0}, percentage]});
        Meaning::of(format!("0, or {}", factor.words), schema).expected(format!(
            "0, or {}, or a percentage such as \"125%\"",
            factor.expected
        ))
    }
}

/// A factor as a file has it. A large one is a percentage.
pub(super) fn show_factor(factor: u32) -> String {
    if factor <= *FACTOR.1.end() {
        return show_millionths(factor);
    }
    let (percents, rest) = (factor / 10_000, factor % 10_000);
    let decimals = format!(".{rest:04}");
    let decimals = decimals.trim_end_matches('0').trim_end_matches('.');
    format!("\"{percents}{decimals}%\"")
}

/// A secret that keys are hashed with: 16 to 64 bytes. Its `Debug` form shows only its length.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySeed(Box<[u8]>);

impl KeySeed {
    const BYTES_MIN: usize = 16;
    const BYTES_MAX: usize = 64;

    fn new(bytes: Vec<u8>) -> Option<Self> {
        let fits = (Self::BYTES_MIN..=Self::BYTES_MAX).contains(&bytes.len());
        fits.then(|| Self(bytes.into_boxed_slice()))
    }

    /// The secret itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for KeySeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySeed({} bytes)", self.0.len())
    }
}

impl KeyRouting {
    /// Whether requests have keys.
    pub fn is_on(&self) -> bool {
        !self.by.is_empty()
    }

    /// Whether every key has its default.
    pub(super) fn is_default(&self) -> bool {
        table::shown(self).eq(table::shown(&Self::default())) && self.seed.is_none()
    }

    /// Reads the section, with a remark on its file. `hint_homes` is that of its probes.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        prefix: &str,
        hint_homes: u8,
        remarks: &mut Vec<Remark>,
    ) -> Self {
        let mut settings: Self = table::read(reader, prefix);
        match settings.choice(hint_homes).validate() {
            Ok(rule) => settings.rule = rule,
            // Each value is in its range, so the error is about values that contradict each other.
            Err(error) => {
                let expected = format!("expected {}", error.expected);
                reader.add_mistake_near(&field::<Self>(prefix, error.field), expected);
            }
        }
        let file = field::<Self>(prefix, "seed_file");
        let (seed, remark) = read_secret(reader, &file, |bytes| {
            let secret = HEXLOWER_PERMISSIVE.decode(bytes).ok();
            secret.and_then(KeySeed::new).ok_or(
                "does not hold a seed, expected from 32 to 128 hexadecimal digits and nothing else",
            )
        });
        settings.seed = seed;
        remarks.extend(remark);
        settings
    }

    fn choice(&self, hint_homes: u8) -> KeySettings {
        KeySettings {
            balance_factor_millionths: self.balance_factor,
            set: self.set,
            partitions: self.partitions,
            replicate_max: self.replicate_max,
            replicate_above: self.replicate_above,
            replicate_time: self.replicate_time,
            hint_homes,
        }
    }

    /// Writes the keys of the choice alone, without where keys come from and their seed.
    pub(super) fn write_choice(&self, to: &mut String) {
        for (name, value) in table::shown(self).filter(|(name, _)| *name != "by") {
            to.extend(["key.", name, " = ", &value, "\n"]);
        }
    }

    /// Writes the section with the values in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str) {
        let seed_file = self.seed.as_ref().map(|(_, file)| file_name(file));
        let keys = table::shown_with(self, &[("seed_file", seed_file)]);
        table::write_keys(to, &format!("{prefix}key"), keys);
    }
}

#[cfg(test)]
mod tests;
