//! `discovery.kubernetes`: the service and port that a fleet follows. `[kubernetes]`: the cluster,
//! and where this proxy runs in it.
//!
//! Names are checked for their syntax alone. Whether a service exists is known only to the cluster,
//! and a service may appear later.

use super::files::{file_name, read_file_name};
use super::idle::idle_key;
use super::variables::Variables;
use crate::table::{self, FILE, Judge, Kind, Maybe, Meaning, Written, named, settings};
use crate::toml_reader::values::{Unfit, nonzero, quote, text};
use crate::toml_reader::{Item, Mistake, Reader, Remark};
use core::num::NonZeroU16;
use serde_json::json;
use std::path::PathBuf;
use toml::de::DeValue;

/// The longest name of a service, a namespace or a port. RFC 1123 label.
const LABEL_BYTES_MAX: usize = 63;
/// The longest name of a node. RFC 1123 subdomain.
const PLACE_BYTES_MAX: usize = 253;

/// A port of a service: the number or the name that its `EndpointSlice`s give to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPort {
    /// The number at which the pods listen.
    Number(NonZeroU16),
    /// The name of the port in the service.
    Name(String),
}

impl PodPort {
    fn parse(written: &str) -> Option<Self> {
        if let Ok(number) = written.parse() {
            return Some(Self::Number(number));
        }
        let is_number = written.bytes().all(|byte| byte.is_ascii_digit());
        (!is_number && is_label(written)).then(|| Self::Name(written.to_owned()))
    }
}

impl core::fmt::Display for PodPort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A service of a cluster, and one of its ports: `shop/web:http`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesService {
    /// The service's namespace; `None`: `kubernetes.namespace`, or the namespace of the access.
    pub namespace: Option<String>,
    /// The service's name.
    pub name: String,
    /// The port that takes the requests.
    pub port: PodPort,
}

impl KubernetesService {
    fn parse(written: &str) -> Option<Self> {
        let (path, port) = written.rsplit_once(':')?;
        let (namespace, name) = match path.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, path),
        };
        let are_labels = is_label(name) && namespace.is_none_or(is_label);
        let port = PodPort::parse(port).filter(|_| are_labels)?;
        Some(Self {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            port,
        })
    }

    /// Reads the key.
    pub(super) fn read(item: &Item<'_>) -> Result<Self, Mistake> {
        const EXPECTED: &str = "a service and a port such as \"shop/web:http\" or \"web:8080\"";
        let written = item.read(|value| text(value, EXPECTED), EXPECTED)?;
        Self::parse(written)
            .ok_or_else(|| item.mistake(format!("found {written:?}, expected {EXPECTED}")))
    }
}

impl core::fmt::Display for KubernetesService {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{}:{}", self.name, self.port)
    }
}

named! {
    /// The endpoints of a service that are used.
    pub enum Topology {
        /// The endpoints whose hints name this proxy's node or zone; all, if no hints are set.
        Hints = "hints",
        /// All.
        Ignore = "ignore",
    }
}

settings! {
    /// The cluster of `discovery.kubernetes`, and where this proxy runs in it.
    pub struct KubernetesSettings in "kubernetes" first {
        /// A kubeconfig with the cluster and the credentials. Without it, the pod's service account
        /// is used.
        kubeconfig: FILE, "the service account";
    } fields {
        /// Namespace of services that are written without one.
        namespace: Option<String> = None, Maybe(NAMESPACE), "the kubeconfig's, or the pod's own";
        /// Node of this proxy, for hints of endpoints.
        node: Option<String> = None, Maybe(PLACE), "`SLACKWATER_NODE`";
        /// Whether [hints](../how-to/kubernetes.md#zones) for `zone.name` and `kubernetes.node`
        /// choose among the endpoints, as in kube-proxy.
        topology: Topology = Topology::Hints, table::Choice(Topology::NAMES);
        /// The slices' port for probes, for services without `probe.port`.
        probe_port: Option<PodPort> = None, Maybe(NameOrNumber), "the port `slackwater-probe`, if there is one";
    } also {
        /// The kubeconfig; `None`: the pod's service account.
        kubeconfig: Option<PathBuf> = None;
    }
}

const NAMESPACE: Written<String> = Written {
    what: "a namespace",
    expected: "a namespace of at most 63 lower-case letters, digits and hyphens",
    parse: |written| {
        is_label(written)
            .then(|| written.to_owned())
            .ok_or(Unfit::Range)
    },
    text: String::clone,
};

const PLACE: Written<String> = Written {
    what: "a name",
    expected: "a name of at most 253 letters, digits, hyphens, dots and underscores",
    parse: |written| {
        is_place(written)
            .then(|| written.to_owned())
            .ok_or(Unfit::Range)
    },
    text: String::clone,
};

/// A port by its name or its number.
struct NameOrNumber;

impl Kind<PodPort> for NameOrNumber {
    fn read(&self, value: &DeValue<'_>) -> Result<PodPort, Unfit> {
        match value.as_str() {
            Some(written) => PodPort::parse(written).ok_or(Unfit::Range),
            None => nonzero(value).map(PodPort::Number),
        }
    }

    fn show(&self, port: &PodPort) -> Option<String> {
        Some(match port {
            PodPort::Number(number) => number.to_string(),
            PodPort::Name(name) => quote(name),
        })
    }

    fn meaning(&self, _: &Judge<'_, PodPort>) -> Meaning {
        Meaning::of(
            "a port such as `\"probe\"` or `9000`",
            json!({"anyOf": [
                {"type": "string"},
                {"type": "integer", "minimum": 1, "maximum": u16::MAX}
            ]}),
        )
        .expected("the name or the number of a port, such as \"probe\" or 9000")
    }
}

/// Whether this is a label of RFC 1123.
fn is_label(written: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LABEL_BYTES_MAX).contains(&written.len())
        && written.bytes().all(fits)
        && !written.starts_with('-')
        && !written.ends_with('-')
}

/// Whether this may be the name of a node.
fn is_place(written: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=PLACE_BYTES_MAX).contains(&written.len()) && written.bytes().all(fits)
}

impl KubernetesSettings {
    /// Reads the section. A variable supplies the node that it leaves out. `is_used` is whether any
    /// service follows a cluster.
    pub(super) fn read<'s>(
        reader: &mut Reader<'s>,
        variables: &'s Variables,
        is_used: bool,
        remarks: &mut Vec<Remark>,
    ) -> Self {
        const SECTION: &str = <KubernetesSettings as table::Section>::NAME;
        const NODE: &str = "kubernetes.node";
        let node = variables.place("node", NODE);
        if let Some(item) = node.filter(|_| is_used) {
            reader.stand_in(item);
        }
        let mut settings: Self = table::read(reader, "");
        let kubeconfig = reader.take(&format!("{SECTION}.kubeconfig"));
        settings.kubeconfig = kubeconfig.and_then(|item| read_file_name(reader, &item));
        if !is_used {
            remarks.extend(idle_key(reader, SECTION, "only with discovery.kubernetes"));
        } else if settings.topology == Topology::Ignore {
            let told = "only with kubernetes.topology = \"hints\"";
            remarks.extend(idle_key(reader, NODE, told));
        }
        settings
    }

    /// Writes the section.
    pub(super) fn write(&self, to: &mut String) {
        let file = self.kubeconfig.as_deref().map(file_name);
        let keys = table::shown_with(self, &[("kubeconfig", file)]);
        table::write_keys(to, <Self as table::Section>::NAME, keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_an_optional_namespace_a_name_and_a_port() {
        for written in ["shop/web:http", "web:8080", "a/b:c", "9/1:65535", "web:h-2"] {
            let service = KubernetesService::parse(written).expect(written);
            assert_eq!(service.to_string(), written);
            assert_eq!(service.namespace.is_some(), written.contains('/'));
        }
        let numbered = KubernetesService::parse("web:8080").expect("valid");
        assert!(matches!(numbered.port, PodPort::Number(_)));
        let long = "a".repeat(LABEL_BYTES_MAX);
        assert!(KubernetesService::parse(&format!("{long}/{long}:{long}")).is_some());
        for written in [
            "web",
            "web:",
            ":http",
            "/web:http",
            "shop/:http",
            "a/b/c:http",
            "Shop/web:http",
            "web.shop:http",
            "-web:http",
            "web-:http",
            "web:0",
            "web:65536",
            "web:http:1",
            "web:http_1",
            &format!("{long}a:http"),
        ] {
            assert_eq!(KubernetesService::parse(written), None, "{written}");
        }
    }

    #[test]
    fn a_place_is_the_name_of_a_node() {
        assert!(is_place("europe-west1-b") && is_place("Node_7.internal"));
        assert!(is_place(&"n".repeat(PLACE_BYTES_MAX)));
        assert!(!is_place("") && !is_place("a b") && !is_place("a\n"));
        assert!(!is_place(&"n".repeat(PLACE_BYTES_MAX + 1)));
    }
}
