//! Distributed tracing: the requests that are sampled, and the collector that receives their spans.
//!
//! OpenTelemetry's environment variables set the keys that the file leaves out, but only if the
//! file has the section: the environment alone must not make a proxy change requests.

use super::collector_headers::CollectorHeaders;
use super::files::file_name;
use super::tls::{identity_keys, read_ca, read_identity};
use super::variables::{Variables, resource_definition};
use crate::table::{
    self, Any, Choice, Described, FILE, MINUTE, STRING, Share, Span, Within, Written, millionths,
    named, settings,
};
use crate::tls::{ClientTls, system_roots};
use crate::toml_reader::values::{Unfit, quote, text};
use crate::toml_reader::{Definition, Item, Mistake, Reader, Remark, Severity};
use core::fmt::{self, Display};
use core::time::Duration;
use http::uri::{PathAndQuery, Scheme, Uri};
use rustls::pki_types::ServerName;
use slackwater_core::Quantile;
use std::io;

/// The default path of OTLP over HTTP.
const HTTP_PATH: PathAndQuery = PathAndQuery::from_static("/v1/traces");

const ENDPOINT_EXPECTED: &str = "an address such as \"http://127.0.0.1:4317\"";

const RESOURCE_MAX: usize = 64;

settings! {
    /// The requests that are traced, and the collector.
    pub struct TracingSettings in "tracing" first {
        /// URL of the collector. Default port: 80 or 443; default path: `/v1/traces`.
        endpoint: Described("`\"http://HOST:PORT\"`, `\"https://HOST:PORT\"`; with `protocol = \"http\"` also with a path", STRING),
            "none: nothing is traced", fixed;
    } fields {
        /// OTLP over gRPC, or protobuf over HTTP/1.1.
        protocol: CollectorProtocol = CollectorProtocol::Grpc, Choice(CollectorProtocol::NAMES), fixed;
        /// Share of the requests without a parent that are sampled.
        sample: Quantile = millionths(10_000), Any(Share);
        /// `"follow"`: a client's `traceparent` continues and decides about sampling. `"ignore"`:
        /// it is removed, with `tracestate`; for untrusted clients.
        parent: ParentRule = ParentRule::Follow, Choice(ParentRule::NAMES);
        /// Name of this process in traces.
        service_name: String = "slackwater".to_owned(), SERVICE_NAME, fixed;
        /// Timeout of an export. It is retried up to 4 times.
        timeout: Duration = Duration::from_secs(10), Within(Span, Duration::from_millis(10)..=MINUTE), fixed;
    } then {
        /// Headers for the collector, such as a token: `name: value` on each line; `#` begins a
        /// comment. Read for each export, never logged. Mode 600.
        headers_file: FILE, "none", fixed;
        /// PEM: the authorities that must have issued the collector's certificate.
        ca: FILE, "the system's authorities", fixed;
        /// PEM: the client certificate shown to the collector. Needs `tracing.key`.
        certificate: FILE, "none", fixed;
        /// Its key, in PEM, without a passphrase.
        key: FILE, "none", fixed;
        /// Further resource attributes, such as `{ "deployment.environment.name" = "staging" }`.
        resource: Described("a table of texts, at most 64", RESOURCE_SCHEMA), "`{}`", fixed;
    } also {
        /// The collector; `None`: nothing is traced, and tracing headers pass unchanged.
        endpoint: Option<Endpoint> = None;
        /// Further resource attributes of this process.
        resource: Vec<(String, String)> = Vec::new();
        /// Headers for the collector.
        headers: CollectorHeaders = CollectorHeaders::None;
        /// The authorities and the client certificate for a collector with TLS.
        tls: ClientTls = ClientTls::default();
    }
}

const RESOURCE_SCHEMA: &str =
    r#"{"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 64}"#;

const SERVICE_NAME: Written<String> = Written {
    what: "a name",
    expected: "from 1 to 255 bytes of text",
    parse: |name| {
        let fits = (1..=255).contains(&name.len()) && !name.chars().any(char::is_control);
        fits.then(|| name.to_owned()).ok_or(Unfit::Range)
    },
    text: String::clone,
};

named! {
    /// The two transports of OTLP that are supported.
    pub enum CollectorProtocol {
        /// A gRPC call over HTTP/2.
        Grpc = "grpc",
        /// A POST over HTTP/1.1.
        Http = "http",
    }
}

impl CollectorProtocol {
    /// The port that collectors usually use for it.
    const fn usual_port(self) -> u16 {
        match self {
            Self::Grpc => 4317,
            Self::Http => 4318,
        }
    }
}

named! {
    /// How a client's `traceparent` is used.
    pub enum ParentRule {
        /// Continues the client's trace, with the client's decision about sampling.
        Follow = "follow",
        /// Removes it.
        Ignore = "ignore",
    }
}

/// The address of a collector, or of another HTTP server.
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

    /// Returns whether the collector uses TLS.
    pub fn is_secure(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// The host; an IPv6 address is without brackets.
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

    /// Returns whether the URL has no path.
    pub(super) fn is_without_path(&self) -> bool {
        self.0.path() == "/"
    }

    /// The path before the paths of requests: empty, or `/` and more without a slash at the end.
    pub fn base(&self) -> &str {
        self.0.path().trim_end_matches('/')
    }

    /// The path of OTLP over HTTP.
    pub fn path(&self) -> PathAndQuery {
        let own = self.0.path_and_query().filter(|own| own.path() != "/");
        own.cloned().unwrap_or(HTTP_PATH)
    }

    /// The name that its certificate must have.
    ///
    /// # Errors
    ///
    /// Fails if the host is no name that a certificate can have.
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

/// Warns about a collector's port that belongs to the other protocol, and about certificates
/// without effect.
fn doubts(
    endpoint: &Endpoint,
    definition: &Definition,
    protocol: CollectorProtocol,
    unused_ca: Option<&Definition>,
) -> Vec<Remark> {
    let mut others = CollectorProtocol::NAMES.iter();
    let other = others.find(|(_, it)| *it != protocol);
    let port = endpoint.port();
    let strange_port = other
        .filter(|(_, other)| port == other.usual_port())
        .map(|(name, _)| {
            let own = protocol.as_str();
            definition.mistake(format!(
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
///
/// A wrong value in the file is a mistake. A wrong value in the environment, which often applies to
/// a whole pod, is reported and ignored, as OpenTelemetry specifies.
pub(super) fn read_tracing<'s>(
    reader: &mut Reader<'s>,
    variables: &'s Variables,
    remarks: &mut Vec<Remark>,
) -> TracingSettings {
    let section_definition = reader.section_definition("tracing");
    let has_section = reader.has_section("tracing");
    let none = &Variables::default();
    let set = if has_section { variables } else { none };
    if has_section {
        for read in variables.items("tracing") {
            if let Some(item) = reader.note(read) {
                reader.stand_in(item);
            }
        }
    }
    // The variables are stand-ins by now, so keys of the file take precedence over them.
    let settings: TracingSettings = table::read(reader, "");
    let endpoint = reader.take("tracing.endpoint");
    let definition = endpoint.as_ref().map(|item| item.definition.clone());
    let endpoint = endpoint.and_then(|item| reader.note(read_endpoint(&item, settings.protocol)));
    let headers = read_headers(reader, set, remarks);
    let ca = reader.take("tracing.ca");
    let ca_definition = ca.as_ref().map(|item| item.definition.clone());
    let ca = ca.and_then(|item| read_ca(reader, &item));
    let identity = read_identity(reader, "tracing", remarks).ok().flatten();
    let resource = read_resource(reader, set);
    // An `https` endpoint without `ca` needs the system's authorities. Report now if there are
    // none.
    let endpoint = endpoint.filter(|endpoint| {
        if !endpoint.is_secure() || ca.is_some() {
            return true;
        }
        match (system_roots(), &definition) {
            (Err(flaw), Some(definition)) => {
                reader.add_mistake(definition.mistake(flaw.to_string()));
                false
            }
            _ => true,
        }
    });
    // Mistakes in the environment become warnings.
    remarks.extend(reader.set_aside().map(|mistake| {
        warning(Mistake {
            message: format!("{}; it is left aside", mistake.message),
            ..mistake
        })
    }));
    if let (Some(endpoint), Some(definition)) = (&endpoint, &definition) {
        let in_plain = ca_definition.filter(|_| ca.is_some() && !endpoint.is_secure());
        remarks.extend(doubts(
            endpoint,
            definition,
            settings.protocol,
            in_plain.as_ref(),
        ));
    } else if let Some(definition) = section_definition
        && !set.is_off()
    {
        remarks.push(warning(definition.mistake(
            "does nothing without an endpoint, nor OTEL_EXPORTER_OTLP_ENDPOINT in the environment",
        )));
    }
    TracingSettings {
        endpoint: endpoint.filter(|_| !set.is_off()),
        resource,
        headers,
        tls: ClientTls {
            ca,
            identity,
            ..settings.tls
        },
        ..settings
    }
}

/// Reads the key `headers_file`, or the environment's headers in its place.
fn read_headers(
    reader: &mut Reader<'_>,
    variables: &Variables,
    remarks: &mut Vec<Remark>,
) -> CollectorHeaders {
    let field = "tracing.headers_file";
    let Some(item) = reader.take(field) else {
        let of_variable = variables.headers(field);
        return reader.note(of_variable).unwrap_or(CollectorHeaders::None);
    };
    CollectorHeaders::of_key(reader, &item, remarks)
}

/// Reads the table `resource`, over the environment's resource attributes.
fn read_resource(reader: &mut Reader<'_>, variables: &Variables) -> Vec<(String, String)> {
    const EXPECTED: &str = "a table such as { \"deployment.environment.name\" = \"staging\" }";
    let too_many = |count| format!("found {count} attributes, expected at most {RESOURCE_MAX}");
    let mut resource = variables.resource();
    if resource.len() > RESOURCE_MAX {
        let definition = resource_definition("tracing.resource");
        reader.add_mistake(definition.mistake(too_many(resource.len())));
        resource.clear();
    }
    let entries = reader.take_map("tracing.resource", EXPECTED);
    for (key, item) in entries.unwrap_or_default() {
        if key == "service.name" {
            reader.add_mistake(item.mistake("is the key tracing.service_name"));
        } else if let Some(value) = reader.note(item.read(|value| text(value, "a text"), "")) {
            resource.retain(|(other, _)| *other != key);
            resource.push((key, value.to_owned()));
        }
    }
    if resource.len() > RESOURCE_MAX {
        reader.add_mistake_near("tracing.resource", too_many(resource.len()));
    }
    resource
}

fn read_endpoint(item: &Item<'_>, protocol: CollectorProtocol) -> Result<Endpoint, Mistake> {
    let written = item.read(|value| text(value, ENDPOINT_EXPECTED), "")?;
    // Not shown again, because it may contain a password.
    let endpoint = Endpoint::parse(written).ok_or_else(|| {
        item.mistake(format!(
            "is no address of a collector, expected {ENDPOINT_EXPECTED}, with http:// or https:// and without a user or a query"
        ))
    })?;
    if protocol == CollectorProtocol::Grpc && !endpoint.is_without_path() {
        return Err(item.mistake(
            "has a path, which gRPC has no use for, expected none, or protocol = \"http\"",
        ));
    }
    Ok(endpoint)
}

/// `[tracing]` as in a file; empty if nothing is traced.
pub(super) fn write_tracing(to: &mut String, tracing: &TracingSettings) {
    let Some(endpoint) = &tracing.endpoint else {
        return;
    };
    let headers_file = match &tracing.headers {
        CollectorHeaders::File(file) => Some(file_name(file)),
        _ => None,
    };
    let mut by_hand = vec![
        ("endpoint", Some(quote(endpoint))),
        ("headers_file", headers_file),
        ("ca", tracing.tls.ca.as_deref().map(file_name)),
    ];
    let identity = tracing.tls.identity.iter().flat_map(identity_keys);
    by_hand.extend(identity.map(|(key, file)| (key, Some(file))));
    to.push('\n');
    table::write_keys(to, "tracing", table::shown_with(tracing, &by_hand));
    if tracing.resource.is_empty() {
        to.pop();
    } else {
        to.push_str("[tracing.resource]\n");
        for (key, value) in &tracing.resource {
            // A key has fewer forms than a value, so the writer of tables quotes both.
            let value = toml::Value::String(value.clone());
            *to += &toml::Table::from_iter([(key.clone(), value)]).to_string();
        }
    }
}
