//! Distributed tracing: which requests are sampled, and the collector that gets their spans.
//!
//! Keys that the file leaves out are taken from OpenTelemetry's variables of the environment, but only if the file has the
//! section: a proxy does not begin to change requests because of where it runs.

use super::assemble::span_within;
use super::collector_headers::CollectorHeaders;
use super::otel_variables::{Variables, said_resource};
use super::probe::exposed;
use super::show::{file_name, quoted};
use super::tls::{check_ca, read_file_name, read_identity};
use crate::tls::{ClientTls, system_roots};
use crate::toml_reader::values::{
    Unfit, found, one_of, quantile, show_duration, show_millionths, text,
};
use crate::toml_reader::{Item, Mistake, Place, Reader, Remark, Said, Severity};
use core::fmt::{self, Display, Write};
use core::time::Duration;
use http::uri::{PathAndQuery, Scheme, Uri};
use rustls::pki_types::ServerName;
use slackwater_core::Quantile;
use std::io;
use toml::de::DeValue;

/// Where spans go over HTTP, unless the endpoint has a path.
const HTTP_PATH: PathAndQuery = PathAndQuery::from_static("/v1/traces");

const ENDPOINT_EXPECTED: &str = "an address such as \"http://127.0.0.1:4317\"";

const RESOURCE_MAX: usize = 64;

/// A hundredth.
const SAMPLE_MILLIONTHS: u32 = 10_000;

/// Which requests are traced, and who hears of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingSettings {
    /// The collector; default `None`: nothing is traced, and requests go on as they came.
    pub endpoint: Option<Endpoint>,
    /// What it is spoken to by; default gRPC.
    pub protocol: CollectorProtocol,
    /// The share of requests that are sampled of those whose client says nothing of it: 0 to 1, default 0.01.
    pub sample: Quantile,
    /// What counts of what clients say; default all of it.
    pub parent: ParentRule,
    /// The name that spans go by: 1 to 255 bytes, default `slackwater`.
    pub service_name: String,
    /// What else is said of whoever sends spans; default nothing.
    pub resource: Vec<(String, String)>,
    /// How long an export may take: 10 ms to 1 minute, default 10 s.
    pub timeout: Duration,
    /// Fields that are sent to the collector; default none.
    pub headers: CollectorHeaders,
    /// Whom to believe that it is the collector, and what is shown to it, where the endpoint is spoken to by TLS.
    pub tls: ClientTls,
}

impl Default for TracingSettings {
    fn default() -> Self {
        Self {
            endpoint: None,
            protocol: CollectorProtocol::Grpc,
            sample: Quantile::from_millionths(SAMPLE_MILLIONTHS).unwrap_or(Quantile::ZERO),
            parent: ParentRule::Follow,
            service_name: "slackwater".to_owned(),
            resource: Vec::new(),
            timeout: Duration::from_secs(10),
            headers: CollectorHeaders::None,
            tls: ClientTls {
                ca: None,
                server_name: None,
                identity: None,
                verify: true,
            },
        }
    }
}

/// The two transports of OTLP that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorProtocol {
    /// A gRPC call over HTTP/2.
    Grpc,
    /// A POST over HTTP/1.1.
    Http,
}

impl CollectorProtocol {
    const NAMES: [(&'static str, Self); 2] = [("grpc", Self::Grpc), ("http", Self::Http)];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
        }
    }

    /// The port that collectors usually have for it.
    const fn usual_port(self) -> u16 {
        match self {
            Self::Grpc => 4317,
            Self::Http => 4318,
        }
    }
}

/// What counts of a client's `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentRule {
    /// Its trace goes on, and it is sampled if the client says so.
    Follow,
    /// Nothing: it is taken out.
    Ignore,
}

impl ParentRule {
    const NAMES: [(&'static str, Self); 2] = [("follow", Self::Follow), ("ignore", Self::Ignore)];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::Ignore => "ignore",
        }
    }
}

/// A collector's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Uri);

impl Endpoint {
    /// Reads a URL; `None` if it is not one of `http` or `https`.
    pub fn parse(written: &str) -> Option<Self> {
        let uri: Uri = written.parse().ok()?;
        let is_known = [Scheme::HTTP, Scheme::HTTPS]
            .iter()
            .any(|it| uri.scheme() == Some(it));
        let authority = uri.authority()?;
        let is_plain = !authority.as_str().contains('@') && uri.query().is_none();
        let has_port = authority.as_str() == authority.host() || authority.port_u16().is_some();
        let endpoint = Self(uri.clone());
        (is_known && is_plain && has_port && endpoint.server_name().is_ok()).then_some(endpoint)
    }

    /// Whether it is spoken to by TLS.
    pub fn is_secure(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// The host, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        let host = self.0.host().unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, by default that of the scheme.
    pub fn port(&self) -> u16 {
        let usual = if self.is_secure() { 443 } else { 80 };
        self.0.port_u16().unwrap_or(usual)
    }

    /// Host and port as they are written.
    pub fn authority(&self) -> &str {
        self.0
            .authority()
            .map_or("", |authority| authority.as_str())
    }

    /// Where spans go over HTTP.
    pub fn path(&self) -> PathAndQuery {
        let own = self.0.path_and_query().filter(|own| own.path() != "/");
        own.cloned().unwrap_or(HTTP_PATH)
    }

    /// Whom its certificate must be for.
    ///
    /// # Errors
    ///
    /// The host is no name that a certificate can be for.
    pub fn server_name(&self) -> io::Result<ServerName<'static>> {
        ServerName::try_from(self.host().to_owned()).map_err(io::Error::other)
    }
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn warning(about: Mistake) -> Remark {
    Remark {
        severity: Severity::Warning,
        about,
    }
}

/// What may be meant otherwise of a collector: another protocol's port, and certificates that are of no use.
fn doubts(
    endpoint: &Endpoint,
    said: &Said,
    protocol: CollectorProtocol,
    unused_ca: Option<&Said>,
) -> Vec<Remark> {
    let mut others = CollectorProtocol::NAMES.iter();
    let other = others.find(|(_, it)| *it != protocol);
    let port = endpoint.port();
    let strange_port = other
        .filter(|(_, other)| port == other.usual_port())
        .map(|(name, _)| {
            let own = protocol.as_str();
            said.mistake(format!(
                "port {port} is usually that of protocol = {name:?}, and this is {own:?}"
            ))
        });
    let unused_ca = unused_ca
        .map(|unused| unused.mistake("does nothing with an endpoint that begins with http://"));
    strange_port
        .into_iter()
        .chain(unused_ca)
        .map(warning)
        .collect()
}

/// Reads `[tracing]`.
pub(super) fn read_tracing(
    reader: &mut Reader<'_>,
    variables: &Variables,
    remarks: &mut Vec<Remark>,
) -> TracingSettings {
    let variables = if reader.has_section("tracing") {
        variables.clone()
    } else {
        Variables::default()
    };
    let mut section = Section {
        reader,
        variables,
        remarks,
    };
    let default = TracingSettings::default();
    let protocol = section.setting("protocol", default.protocol, "", |value| {
        one_of(value, &CollectorProtocol::NAMES)
    });
    let endpoint = section.take("endpoint");
    let said = endpoint.as_ref().map(|item| item.said.clone());
    let endpoint = endpoint.and_then(|item| section.note(read_endpoint(&item, protocol)));
    let sample = section.sample().unwrap_or(default.sample);
    let parent = section.setting("parent", default.parent, "", |value| {
        one_of(value, &ParentRule::NAMES)
    });
    let service_name = section.setting("service_name", default.service_name, "", |value| {
        let name = text(value, "a name")?;
        let fits = (1..=255).contains(&name.len()) && !name.chars().any(char::is_control);
        let told = || {
            format!(
                "found {}, expected from 1 to 255 bytes of text",
                found(value)
            )
        };
        fits.then(|| name.to_owned())
            .ok_or_else(|| Unfit::Other(told()))
    });
    let range = Duration::from_millis(10)..=Duration::from_mins(1);
    let (told, span) = span_within(&range);
    let timeout = section.setting("timeout", default.timeout, &told, span);
    let headers = section.headers();
    let ca = section.take("ca");
    let ca_said = ca.as_ref().map(|item| item.said.clone());
    let ca = ca.and_then(|item| {
        let read = check_ca(section.reader, &item);
        section.note(read)
    });
    let identity = read_identity(section.reader, "tracing", section.remarks)
        .ok()
        .flatten();
    let resource = section.resource();
    let is_off = section.variables.is_off();
    let endpoint = endpoint.filter(|endpoint| {
        if !endpoint.is_secure() || ca.is_some() {
            return true;
        }
        match (system_roots(), &said) {
            (Err(flaw), Some(said)) => {
                section.note::<()>(Err(said.mistake(flaw.to_string())));
                false
            }
            _ => true,
        }
    });
    let Section {
        reader, remarks, ..
    } = section;
    if let (Some(endpoint), Some(said)) = (&endpoint, &said) {
        let in_plain = ca_said.filter(|_| ca.is_some() && !endpoint.is_secure());
        remarks.extend(doubts(endpoint, said, protocol, in_plain.as_ref()));
    } else if let Some(said) = reader.said_section("tracing")
        && !is_off
    {
        remarks.push(warning(said.mistake(
            "does nothing without an endpoint, nor OTEL_EXPORTER_OTLP_ENDPOINT in the environment",
        )));
    }
    TracingSettings {
        endpoint: endpoint.filter(|_| !is_off),
        protocol,
        sample,
        parent,
        service_name,
        resource,
        timeout,
        headers,
        tls: ClientTls {
            ca,
            identity,
            ..default.tls
        },
    }
}

/// The section, and what stands in for keys that it leaves out.
struct Section<'r, 's> {
    reader: &'r mut Reader<'s>,
    variables: Variables,
    remarks: &'r mut Vec<Remark>,
}

impl<'s> Section<'_, 's> {
    fn take(&mut self, key: &str) -> Option<Item<'s>> {
        let field = format!("tracing.{key}");
        let said = self.reader.take(&field);
        said.or_else(|| self.variables.item(key, &field))
    }

    /// A mistake of the file is one. What is wrong in the environment, which is often everybody's in a pod, is told and left
    /// aside, as OpenTelemetry asks of whoever reads it.
    fn note<T>(&mut self, read: Result<T, Mistake>) -> Option<T> {
        match read {
            Err(mistake) if matches!(mistake.place, Place::Variable(_)) => {
                self.remarks.push(Remark {
                    severity: Severity::Warning,
                    about: Mistake {
                        message: format!("{}; it is left aside", mistake.message),
                        ..mistake
                    },
                });
                None
            }
            read => self.reader.note(read),
        }
    }

    fn setting<T>(
        &mut self,
        key: &str,
        default: T,
        range: &str,
        parse: impl FnOnce(&DeValue<'s>) -> Result<T, Unfit>,
    ) -> T {
        let item = self.take(key);
        let value = item.and_then(|item| self.note(item.read(parse, range)));
        value.unwrap_or(default)
    }

    fn sample(&mut self) -> Option<Quantile> {
        let item = self.take("sample")?;
        let read = match (&item.value, &item.said.place) {
            // A variable has no numbers, and may name what is no share.
            (DeValue::String(written), Place::Variable(_)) => {
                let number = DeValue::parse(written).ok();
                let share = number.and_then(|number| quantile(number.get_ref()).ok());
                share.ok_or_else(|| {
                    item.mistake(format!(
                        "found {written:?}, expected parentbased_always_on, parentbased_always_off, or \
                         parentbased_traceidratio with a number from 0 to 1 in OTEL_TRACES_SAMPLER_ARG"
                    ))
                })
            }
            _ => item.read(quantile, "a number from 0 to 1"),
        };
        self.note(read)
    }

    fn headers(&mut self) -> CollectorHeaders {
        let field = "tracing.headers_file";
        let Some(item) = self.reader.take(field) else {
            let of_variable = self.variables.headers(field);
            return self.note(of_variable).unwrap_or(CollectorHeaders::None);
        };
        let Some(file) = read_file_name(self.reader, &item) else {
            return CollectorHeaders::None;
        };
        self.remarks.extend(exposed(&item, &file));
        let headers = CollectorHeaders::File(file);
        let read = headers.read().map_err(|why| item.mistake(why));
        self.reader.note(read);
        headers
    }

    /// What the environment says of whoever sends spans.
    fn environment_s(&mut self) -> Vec<(String, String)> {
        let mut resource = self.variables.resource();
        let count = resource.len();
        if count > RESOURCE_MAX {
            let told = format!("found {count} attributes, expected at most {RESOURCE_MAX}");
            let said = said_resource("tracing.resource");
            self.note::<()>(Err(said.mistake(told)));
            resource.clear();
        }
        resource
    }

    /// The table `resource`, over what the environment says.
    fn resource(&mut self) -> Vec<(String, String)> {
        const EXPECTED: &str = "a table such as { \"deployment.environment.name\" = \"staging\" }";
        let mut resource = self.environment_s();
        let entries = self.reader.take_map("tracing.resource", EXPECTED);
        for (key, item) in entries.unwrap_or_default() {
            if key == "service.name" {
                let mistake = item.mistake("is the key tracing.service_name");
                self.reader.add_mistake(mistake);
            } else if let Some(value) = self
                .reader
                .note(item.read(|value| text(value, "a text"), ""))
            {
                resource.retain(|(other, _)| *other != key);
                resource.push((key, value.to_owned()));
            }
        }
        if resource.len() > RESOURCE_MAX {
            let told = format!(
                "found {} attributes, expected at most {RESOURCE_MAX}",
                resource.len()
            );
            self.reader.add_mistake_near("tracing.resource", told);
        }
        resource
    }
}

fn read_endpoint(item: &Item<'_>, protocol: CollectorProtocol) -> Result<Endpoint, Mistake> {
    let written = item.read(|value| text(value, ENDPOINT_EXPECTED), "")?;
    // Not shown again: it may hold a password.
    let endpoint = Endpoint::parse(written).ok_or_else(|| {
        item.mistake(format!(
            "is no address of a collector, expected {ENDPOINT_EXPECTED}, with http:// or https:// and without a user or a query"
        ))
    })?;
    let has_path = endpoint.0.path() != "/";
    if protocol == CollectorProtocol::Grpc && has_path {
        return Err(item.mistake(
            "has a path, which gRPC has no use for, expected none, or protocol = \"http\"",
        ));
    }
    Ok(endpoint)
}

/// `[tracing]` as a file has it; nothing where nothing is traced.
pub(super) fn write_tracing(to: &mut String, tracing: &TracingSettings) -> fmt::Result {
    let Some(endpoint) = &tracing.endpoint else {
        return Ok(());
    };
    writeln!(to, "\n[tracing]\nendpoint = {}", quoted(endpoint))?;
    writeln!(to, "protocol = {}", quoted(tracing.protocol.as_str()))?;
    writeln!(
        to,
        "sample = {}",
        show_millionths(tracing.sample.millionths())
    )?;
    writeln!(to, "parent = {}", quoted(tracing.parent.as_str()))?;
    writeln!(to, "service_name = {}", quoted(&tracing.service_name))?;
    writeln!(to, "timeout = {}", quoted(show_duration(tracing.timeout)))?;
    if let CollectorHeaders::File(file) = &tracing.headers {
        writeln!(to, "headers_file = {}", file_name(file))?;
    }
    if let Some(ca) = &tracing.tls.ca {
        writeln!(to, "ca = {}", file_name(ca))?;
    }
    if let Some(identity) = &tracing.tls.identity {
        writeln!(to, "certificate = {}", file_name(&identity.certificate))?;
        writeln!(to, "key = {}", file_name(&identity.key))?;
    }
    if !tracing.resource.is_empty() {
        writeln!(to, "\n[tracing.resource]")?;
        for (key, value) in &tracing.resource {
            writeln!(to, "{} = {}", quoted(key), quoted(value))?;
        }
    }
    Ok(())
}
