//! Environment variables that set keys: OpenTelemetry's those of `[tracing]`, gRPC's the bootstrap
//! of `[xds]`, our own the zone, the node in a cluster and the number among its proxies.
//!
//! OpenTelemetry's names and formats are from the specification ("Environment Variable
//! Specification", "OTLP Exporter Configuration"). Variables for traces take precedence over
//! general ones. An empty variable counts as unset.

use super::collector_headers::{CollectorHeaders, read_field};
use crate::toml_reader::values::{found, quantile};
use crate::toml_reader::{Definition, Item, Mistake, Place};
use http::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use toml::Spanned;
use toml::de::DeValue;

const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const PROTOCOL: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
const TIMEOUT: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
];
const CERTIFICATE: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
];
/// The name of gRPC's bootstrap file (gRFC A27).
pub(super) const BOOTSTRAP: &str = "GRPC_XDS_BOOTSTRAP";
const HEADERS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_HEADERS",
];
const ZONE: &str = "SLACKWATER_ZONE";
const NODE: &str = "SLACKWATER_NODE";
const INDEX: &str = "SLACKWATER_INDEX";

/// The variables that are set, with their values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(Vec<(&'static str, String)>);

impl core::fmt::Debug for Variables {
    /// Omits the values, which may be secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl Variables {
    /// Reads the variables of this process.
    pub fn of_process() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// A single variable.
    #[cfg(test)]
    pub(super) fn of_test(name: &str, value: &str) -> Self {
        Self::read(|other| (other == name).then(|| value.to_owned()))
    }

    /// The names of all variables that configure a process.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let single = [
            DISABLED,
            EXPORTER,
            SERVICE_NAME,
            RESOURCE,
            SAMPLER,
            SAMPLER_ARG,
            ENDPOINT,
            TRACES_ENDPOINT,
            BOOTSTRAP,
            ZONE,
            NODE,
            INDEX,
        ];
        let double = [PROTOCOL, TIMEOUT, CERTIFICATE, HEADERS];
        single.into_iter().chain(double.into_iter().flatten())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = Self::names().filter_map(|name| Some((name, variable(name)?)));
        Self(set.filter(|(_, said)| !said.trim().is_empty()).collect())
    }

    /// Returns whether tracing is turned off, which overrides everything else.
    pub(super) fn is_off(&self) -> bool {
        let says = |name, word: &str| {
            self.one(name)
                .is_some_and(|said| said.trim().eq_ignore_ascii_case(word))
        };
        says(DISABLED, "true") || says(EXPORTER, "none")
    }

    /// The name of gRPC's bootstrap file.
    pub(super) fn bootstrap(&self) -> Option<&str> {
        self.one(BOOTSTRAP)
    }

    fn one(&self, name: &str) -> Option<&str> {
        let mut set = self.0.iter();
        set.find(|(other, _)| *other == name)
            .map(|(_, said)| &**said)
    }

    fn first(&self, names: &[&'static str]) -> Option<(&'static str, &str)> {
        names.iter().find_map(|name| Some((*name, self.one(name)?)))
    }

    /// Returns the keys of the section that variables set, with their values.
    ///
    /// # Errors
    ///
    /// Returns a mistake for each variable with an invalid value.
    pub(super) fn items(&self, section: &str) -> impl Iterator<Item = Result<Item<'_>, Mistake>> {
        let keys = [
            "endpoint",
            "protocol",
            "timeout",
            "sample",
            "service_name",
            "ca",
        ];
        keys.into_iter().filter_map(move |key| {
            let item = self.item(key, &format!("{section}.{key}"))?;
            Some(if key == "sample" {
                as_share(item)
            } else {
                Ok(item)
            })
        })
    }

    /// The value of `key` of the section, as text.
    fn item(&self, key: &str, field: &str) -> Option<Item<'_>> {
        let (name, said) = match key {
            "endpoint" => match self.one(TRACES_ENDPOINT) {
                Some(said) => (TRACES_ENDPOINT, said.into()),
                None => (ENDPOINT, with_path_for_traces(self.one(ENDPOINT)?).into()),
            },
            "protocol" => {
                let (name, said) = self.first(&PROTOCOL)?;
                // The file's "http" corresponds to one of two HTTP formats here.
                let said = if said == "http/protobuf" {
                    "http"
                } else {
                    said
                };
                (name, said.into())
            }
            "timeout" => {
                let (name, said) = self.first(&TIMEOUT)?;
                let is_number = said.bytes().all(|byte| byte.is_ascii_digit());
                let unit = if is_number { "ms" } else { "" };
                (name, format!("{said}{unit}").into())
            }
            "sample" => {
                let said = self.one(SAMPLER)?;
                let share = match said {
                    "parentbased_always_on" => "1",
                    "parentbased_always_off" => "0",
                    "parentbased_traceidratio" => self.one(SAMPLER_ARG).unwrap_or("1"),
                    other => other,
                };
                (SAMPLER, Cow::Borrowed(share))
            }
            "service_name" => {
                let (name, said) = self.first(&[SERVICE_NAME, RESOURCE])?;
                if name == RESOURCE {
                    let mut named = pairs(said).filter(|(key, _)| key == "service.name");
                    (name, named.next()?.1.into())
                } else {
                    (name, said.into())
                }
            }
            "ca" => self
                .first(&CERTIFICATE)
                .map(|(name, said)| (name, said.into()))?,
            _ => return None,
        };
        Some(Item {
            definition: variable_definition(name, field),
            value: DeValue::String(said),
        })
    }

    /// Returns the headers for the collector.
    ///
    /// # Errors
    ///
    /// Fails if a header cannot be sent. The message does not contain its value.
    pub(super) fn headers(&self, field: &str) -> Result<CollectorHeaders, Mistake> {
        let Some((name, said)) = self.first(&HEADERS) else {
            return Ok(CollectorHeaders::None);
        };
        let fields: Result<Vec<(HeaderName, HeaderValue)>, _> = pairs(said)
            .enumerate()
            .map(|(index, (name, value))| read_field(index + 1, &name, &value))
            .collect();
        let fields = fields.map_err(|why| variable_definition(name, field).mistake(why))?;
        Ok(CollectorHeaders::Fields(fields))
    }

    /// Returns the `zone` or the `node` of this process, for a key at `field`.
    pub(super) fn place(&self, key: &str, field: &str) -> Option<Item<'_>> {
        let (name, said) = self.first(match key {
            "zone" => &[ZONE],
            "node" => &[NODE],
            _ => return None,
        })?;
        Some(Item {
            definition: variable_definition(name, field),
            value: DeValue::String(said.into()),
        })
    }

    /// Returns the number of this process among all of its kind, for a key at `field`.
    ///
    /// # Errors
    ///
    /// Returns a mistake if the value is not a number from 0 to `most`.
    pub(super) fn index(&self, field: &str, most: u32) -> Result<Option<u32>, Mistake> {
        let Some(said) = self.one(INDEX) else {
            return Ok(None);
        };
        let index = said.trim().parse().ok().filter(|index| *index <= most);
        index.map(Some).ok_or_else(|| {
            let expected = format!("found {said:?}, expected a number from 0 to {most}");
            variable_definition(INDEX, field).mistake(expected)
        })
    }

    /// The resource attributes, without the service name.
    pub(super) fn resource(&self) -> Vec<(String, String)> {
        let said = pairs(self.one(RESOURCE).unwrap_or_default());
        said.filter(|(key, _)| key != "service.name").collect()
    }
}

/// Parses the text of `item` as a share.
fn as_share(item: Item<'_>) -> Result<Item<'_>, Mistake> {
    let share = match &item.value {
        DeValue::String(Cow::Borrowed(written)) => DeValue::parse(written).ok(),
        _ => None,
    };
    let share = share.map(Spanned::into_inner);
    match share.filter(|share| quantile(share).is_ok()) {
        Some(value) => Ok(Item { value, ..item }),
        None => Err(item.mistake(format!(
            "found {}, expected parentbased_always_on, parentbased_always_off, or parentbased_traceidratio with a number \
             from 0 to 1 in OTEL_TRACES_SAMPLER_ARG",
            found(&item.value)
        ))),
    }
}

/// Where [`Variables::resource`] is set.
pub(super) fn resource_definition(field: &str) -> Definition {
    variable_definition(RESOURCE, field)
}

fn variable_definition(name: &'static str, field: &str) -> Definition {
    Definition {
        field: field.to_owned(),
        place: Place::Variable(name),
    }
}

/// A general endpoint is a base URL; each signal has its path below it.
fn with_path_for_traces(said: &str) -> String {
    let base = said.trim_end_matches('/');
    let host = base.split_once("://").map_or(base, |(_, host)| host);
    if host.contains('/') {
        format!("{base}/v1/traces")
    } else {
        base.to_owned()
    }
}

/// Parses `key=value,key=value` with percent-encoded values. Skips entries without `=`.
fn pairs(list: &str) -> impl Iterator<Item = (String, String)> {
    list.split(',').filter_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8_lossy();
        Some((key.trim().to_owned(), value.into_owned()))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An environment in which these variables are set.
    pub(in crate::sections) fn variables(set: &[(&str, &str)]) -> Variables {
        let set: Vec<_> = set.to_vec();
        Variables::read(|name| {
            let mut set = set.iter();
            set.find(|(other, _)| *other == name)
                .map(|(_, said)| (*said).to_owned())
        })
    }

    fn said(key: &str, set: &[(&str, &str)]) -> Option<String> {
        let variables = variables(set);
        let item = variables.item(key, "tracing.x")?;
        Some(item.value.as_str().expect("text").to_owned())
    }

    #[test]
    fn variables_for_traces_take_precedence_and_empty_ones_are_absent() {
        let both = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4317/"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4317"),
        ];
        assert_eq!(
            said("endpoint", &both).as_deref(),
            Some("http://traces:4317")
        );
        assert_eq!(
            said("endpoint", &both[..1]).as_deref(),
            Some("http://all:4317")
        );
        let empty = [both[0], (both[1].0, " ")];
        assert_eq!(said("endpoint", &empty).as_deref(), Some("http://all:4317"));
        assert_eq!(said("endpoint", &[]), None);
        let variables = variables(&both);
        let item = variables.item("endpoint", "tracing.endpoint");
        let item = item.expect("said");
        assert_eq!(
            item.mistake("is wrong").to_string(),
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: tracing.endpoint: is wrong"
        );
    }

    #[test]
    fn general_endpoint_gets_the_path_for_traces() {
        let at = |written| said("endpoint", &[(ENDPOINT, written)]).expect("said");
        assert_eq!(
            at("https://api.example/otlp/"),
            "https://api.example/otlp/v1/traces"
        );
        assert_eq!(at("https://api.example"), "https://api.example");
    }

    #[test]
    fn variables_are_converted_to_the_form_of_the_keys() {
        for (key, name, written, expected) in [
            ("protocol", PROTOCOL[1], "http/protobuf", "http"),
            ("protocol", PROTOCOL[0], "grpc", "grpc"),
            ("protocol", PROTOCOL[0], "http/json", "http/json"),
            ("timeout", TIMEOUT[1], "2500", "2500ms"),
            ("timeout", TIMEOUT[0], "soon", "soon"),
            ("sample", SAMPLER, "parentbased_always_on", "1"),
            ("sample", SAMPLER, "parentbased_always_off", "0"),
            ("sample", SAMPLER, "parentbased_traceidratio", "1"),
            ("sample", SAMPLER, "always_on", "always_on"),
            ("service_name", SERVICE_NAME, "edge", "edge"),
            (
                "service_name",
                RESOURCE,
                "a=b, service.name = my%20edge",
                "my edge",
            ),
            ("ca", CERTIFICATE[1], "/ca.pem", "/ca.pem"),
        ] {
            assert_eq!(
                said(key, &[(name, written)]).as_deref(),
                Some(expected),
                "{name}={written}"
            );
        }
        let ratio = [(SAMPLER, "parentbased_traceidratio"), (SAMPLER_ARG, "0.25")];
        assert_eq!(said("sample", &ratio).as_deref(), Some("0.25"));
        assert_eq!(said("sample", &ratio[1..]), None);
        assert_eq!(said("service_name", &[(RESOURCE, "a=b")]), None);
    }

    #[test]
    fn two_variables_disable_tracing() {
        assert!(variables(&[(DISABLED, "TRUE")]).is_off());
        assert!(variables(&[(EXPORTER, "none")]).is_off());
        assert!(!variables(&[(DISABLED, "false"), (EXPORTER, "otlp")]).is_off());
    }

    #[test]
    fn lists_are_parsed_and_secrets_stay_secret() {
        let set = variables(&[
            (HEADERS[1], "x-key=a%2Cb%, authorization=Bearer%20s3cret"),
            (RESOURCE, "a=1,service.name=n,bad,b=%zz"),
        ]);
        let CollectorHeaders::Fields(fields) = set.headers("h").expect("valid") else {
            panic!("fields");
        };
        assert_eq!(
            fields[0],
            (
                "x-key".parse().expect("a name"),
                "a,b%".parse().expect("a value")
            )
        );
        assert_eq!(fields[1].1, "Bearer s3cret");
        let shown = format!("{fields:?} {set:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        let expected =
            [("a", "1"), ("b", "%zz")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(set.resource(), expected);
        for bad in ["a b=s3cret", "x=s3cret%0a", "content-type=s3cret"] {
            let mistake = variables(&[(HEADERS[0], bad)])
                .headers("h")
                .expect_err("bad");
            assert!(!mistake.to_string().contains("s3cret"), "{mistake}");
        }
    }
}
