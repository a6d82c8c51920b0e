//! `[xds]`: the control plane that sends the fleets of services with `discovery.xds` or
//! `discovery.xds_cluster`.
//!
//! Its address, certificates and node come from the section's own keys, or from gRPC's bootstrap
//! file; never from both. The environment's `GRPC_XDS_BOOTSTRAP` applies only if a service needs a
//! control plane that the file does not name.

use super::collector_headers::CollectorHeaders;
use super::discovery::FleetSource;
use super::files::{file_name, read_file_name};
use super::tls::{identity_keys, read_ca, read_identity};
use super::tracing::Endpoint;
use super::variables::{BOOTSTRAP, Variables};
use crate::table::{self, Boolean, Described, FILE, STRING, Written, keys};
use crate::tls::{ClientTls, Identity, IdentityFiles, read_roots, system_roots};
use crate::toml_reader::values::{Unfit, quote, text};
use crate::toml_reader::{
    Definition, Item, Mistake, Place, Reader, Remark, Severity, read_bounded,
};
use slackwater_xds::bootstrap::{Bootstrap, Credentials};
use slackwater_xds::{FleetName, Node};
use std::path::{Path, PathBuf};

const SERVER_EXPECTED: &str = "an address such as \"https://xds.internal:18000\"";

/// The control plane, and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdsSettings {
    /// The control plane; `None` if no service needs one.
    pub server: Option<Endpoint>,
    /// The bootstrap file that the server, the certificates and the node are from.
    pub bootstrap: Option<PathBuf>,
    /// Whether the incremental variant of the protocol is used; default no.
    pub delta: bool,
    /// Headers for the control plane, such as a token.
    pub headers: CollectorHeaders,
    /// The authorities and the client certificate for a control plane with TLS.
    pub tls: ClientTls,
    /// What the proxy says about itself. An empty id stands for the machine's host name. The
    /// program is left empty.
    pub node: Node,
}

keys! { XdsSettings in "xds" {
    /// URL of the control plane's aggregated discovery service (ADS).
    server: Described("`\"http://HOST:PORT\"` or `\"https://HOST:PORT\"`", STRING), "none";
    /// gRPC's bootstrap file, in place of `xds.server`, the certificates and `xds.node`.
    bootstrap: FILE, "the file that `GRPC_XDS_BOOTSTRAP` names, unless `xds.server` is set";
    /// `true`: the incremental variant of the protocol.
    delta at delta: Boolean;
    /// Headers for the control plane, such as a token: `name: value` on each line. Read for each
    /// stream, never logged. Mode 600.
    headers_file: FILE, "none";
    /// PEM: the authorities that must have issued the control plane's certificate.
    ca: FILE, "the system's authorities";
    /// PEM: the client certificate shown to the control plane. Needs `xds.key`.
    certificate: FILE, "none";
    /// Its key, in PEM, without a passphrase.
    key: FILE, "none";
    /// Name of this proxy, by which the control plane chooses what to send.
    id as "node.id" at node.id: NAME, "the machine's host name";
    /// Group that this proxy belongs to.
    cluster as "node.cluster" at node.cluster: NAME;
    /// Region where the proxy runs.
    region as "node.region" at node.locality.region: NAME;
    /// Zone where the proxy runs.
    zone as "node.zone" at node.locality.zone: NAME, "`zone.name`";
} }

const NAME: Written<String> = Written {
    what: "a name",
    expected: "up to 255 bytes of text",
    parse: |name| {
        let fits = name.len() <= 255 && !name.chars().any(char::is_control);
        fits.then(|| name.to_owned()).ok_or(Unfit::Range)
    },
    text: String::clone,
};

/// Reads `[xds]`, which the services' sources decide about.
pub(super) fn read_xds(
    reader: &mut Reader<'_>,
    variables: &Variables,
    services: &[(&str, &FleetSource)],
    remarks: &mut Vec<Remark>,
) -> XdsSettings {
    let mut sources = services.iter();
    let is_needed = sources.any(|(_, source)| matches!(source, FleetSource::Xds(_)));
    let settings: XdsSettings = table::read(reader, "");
    let server = reader.take("xds.server");
    let server_at = server.as_ref().map(|item| item.definition.clone());
    let server = server.and_then(|item| reader.note(read_server(&item)));
    let headers = match reader.take("xds.headers_file") {
        Some(item) => CollectorHeaders::of_key(reader, &item, remarks),
        None => CollectorHeaders::None,
    };
    let ca = reader.take("xds.ca");
    let ca = ca.and_then(|item| read_ca(reader, &item));
    let identity = read_identity(reader, "xds", remarks).ok().flatten();
    let own = XdsSettings {
        server,
        headers,
        tls: ClientTls {
            ca,
            identity,
            ..ClientTls::default()
        },
        ..settings
    };
    let Some((definition, file)) =
        bootstrap_file(reader, variables, server_at.is_some(), is_needed)
    else {
        finish_own(
            reader,
            &own,
            server_at.as_ref(),
            is_needed,
            services,
            remarks,
        );
        return own;
    };
    for key in ["server", "ca", "certificate", "key", "node"] {
        let field = format!("xds.{key}");
        if let Some(beside) = reader.section_definition(&field) {
            reader.add_mistake(beside.mistake(format!(
                "is given beside {}, which says this, expected one of the two",
                definition.field
            )));
        }
    }
    let read = read_bootstrap(&file).map_err(|why| definition.mistake(why));
    match reader.note(read) {
        Some((server, tls, node)) => XdsSettings {
            server: Some(server),
            bootstrap: Some(file),
            tls,
            node,
            ..own
        },
        None => own,
    }
}

/// The bootstrap file: of the key, or of the environment if a service needs it.
fn bootstrap_file(
    reader: &mut Reader<'_>,
    variables: &Variables,
    has_server: bool,
    is_needed: bool,
) -> Option<(Definition, PathBuf)> {
    if let Some(item) = reader.take("xds.bootstrap") {
        let file = read_file_name(reader, &item)?;
        return Some((item.definition, file));
    }
    if has_server || !is_needed {
        return None;
    }
    let definition = Definition {
        field: "xds.bootstrap".to_owned(),
        place: Place::Variable(BOOTSTRAP),
    };
    Some((definition, variables.bootstrap()?.into()))
}

/// Checks the keys where no bootstrap file stands in their place.
fn finish_own(
    reader: &mut Reader<'_>,
    own: &XdsSettings,
    server_at: Option<&Definition>,
    is_needed: bool,
    services: &[(&str, &FleetSource)],
    remarks: &mut Vec<Remark>,
) {
    let Some(definition) = server_at else {
        let section = reader.section_definition("xds");
        for (name, source) in services {
            let key = match source {
                FleetSource::Xds(FleetName::Endpoints(_)) => "discovery.xds",
                FleetSource::Xds(FleetName::Cluster(_)) => "discovery.xds_cluster",
                _ => continue,
            };
            let fields = [format!("services.{name}.{key}"), key.to_owned()];
            let needs = fields.iter().find_map(|field| reader.definition(field));
            if let Some(needs) = needs {
                reader.add_mistake(needs.mistake(format!(
                    "needs a control plane, expected xds.server or xds.bootstrap, or {BOOTSTRAP} in the environment"
                )));
            }
        }
        if let Some(section) = section.filter(|_| !is_needed) {
            remarks.push(warning(section.mistake(
                "does nothing without discovery.xds or discovery.xds_cluster",
            )));
        }
        return;
    };
    if !is_needed {
        remarks.push(warning(definition.mistake(
            "does nothing: no service has discovery.xds or discovery.xds_cluster",
        )));
    }
    let is_secure = own.server.as_ref().is_some_and(Endpoint::is_secure);
    if is_secure && own.tls.ca.is_none() {
        // Without `ca`, the system's authorities are needed. Report now if there are none.
        if let Err(flaw) = system_roots() {
            reader.add_mistake(definition.mistake(flaw.to_string()));
        }
    }
    let ca = reader.definition("xds.ca");
    if let Some(unused) = ca.filter(|_| own.server.is_some() && !is_secure) {
        remarks.push(warning(
            unused.mistake("does nothing with a server that begins with http://"),
        ));
    }
}

fn warning(about: Mistake) -> Remark {
    Remark {
        severity: Severity::Warning,
        about,
    }
}

fn read_server(item: &Item<'_>) -> Result<Endpoint, Mistake> {
    let written = item.read(|value| text(value, SERVER_EXPECTED), "")?;
    let endpoint = Endpoint::parse(written).filter(Endpoint::is_without_path);
    // Not shown again, because it may contain a password.
    endpoint.ok_or_else(|| {
        item.mistake(format!(
            "is no address of a control plane, expected {SERVER_EXPECTED}, with http:// or https:// and without a user, a path or a query"
        ))
    })
}

/// Reads a bootstrap file and the files that it names.
fn read_bootstrap(file: &Path) -> Result<(Endpoint, ClientTls, Node), String> {
    let told = |why: String| format!("{}: {why}", file.display());
    let bytes = read_bounded(file).map_err(told)?;
    let text = core::str::from_utf8(&bytes).map_err(|_| told("is no text".to_owned()))?;
    let bootstrap = Bootstrap::parse(text).map_err(|error| told(error.to_string()))?;
    let (scheme, tls) = match bootstrap.credentials {
        Credentials::Insecure => ("http", ClientTls::default()),
        Credentials::Tls { ca, identity } => {
            let identity = identity.map(|(certificate, key)| IdentityFiles { certificate, key });
            let roots = ca.as_deref().map_or_else(system_roots, read_roots);
            roots.map_err(|flaw| told(flaw.to_string()))?;
            if let Some(files) = &identity {
                Identity::read(files).map_err(|flaw| told(flaw.to_string()))?;
            }
            let tls = ClientTls {
                ca,
                identity,
                ..ClientTls::default()
            };
            ("https", tls)
        }
    };
    let server = Endpoint::parse(&format!("{scheme}://{}", bootstrap.server));
    let server = server.ok_or_else(|| told("has a server_uri that is no address".to_owned()))?;
    Ok((server, tls, bootstrap.node))
}

/// `[xds]` as in a file; empty without a control plane.
pub(super) fn write_xds(to: &mut String, xds: &XdsSettings) {
    let Some(server) = &xds.server else {
        return;
    };
    let headers_file = match &xds.headers {
        CollectorHeaders::File(file) => Some(file_name(file)),
        _ => None,
    };
    let mut by_hand = vec![("headers_file", headers_file)];
    if let Some(file) = &xds.bootstrap {
        by_hand.push(("bootstrap", Some(file_name(file))));
    } else {
        by_hand.push(("server", Some(quote(server))));
        by_hand.push(("ca", xds.tls.ca.as_deref().map(file_name)));
        let identity = xds.tls.identity.iter().flat_map(identity_keys);
        by_hand.extend(identity.map(|(key, file)| (key, Some(file))));
    }
    let mut keys = table::shown_with(xds, &by_hand);
    keys.retain(|(name, _)| xds.bootstrap.is_none() || !name.starts_with("node."));
    table::write_keys(to, "xds", keys);
}

#[cfg(test)]
mod tests {
    use super::{FleetName, FleetSource};
    use crate::sections::{Config, Overrides, Variables};
    use crate::toml_reader::Source;
    use std::fs;
    use std::path::PathBuf;

    const SERVICE: &str = "listen = \"127.0.0.1:0\"\n[services.web.discovery]\nxds = \"web\"\n[[routes]]\nservice = \"web\"\n";

    fn load(text: &str) -> Result<Config, String> {
        let source = Source::new("a.toml".into(), text.to_owned());
        let loaded = Config::load_source(Some(&source), &Overrides::default());
        loaded
            .map(|it| it.config)
            .map_err(|mistakes| mistakes.in_a_line())
    }

    struct File(PathBuf);

    impl File {
        fn new(text: &str) -> Self {
            let name = format!("slackwater-xds-{}-{:p}", std::process::id(), text.as_ptr());
            let file = std::env::temp_dir().join(name);
            fs::write(&file, text).expect("a file for the test");
            Self(file)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn the_section_is_read_and_written_again() {
        let section = "[xds]\nserver = \"http://[::1]:18000\"\ndelta = true\nnode.id = \"edge-1\"\nnode.cluster = \"edge\"\nnode.region = \"eu\"\nnode.zone = \"a\"\n";
        let config = load(&format!("{SERVICE}{section}")).expect("valid");
        let xds = &config.xds;
        let server = xds.server.as_ref().expect("set");
        assert_eq!(
            (server.host(), server.port(), server.is_secure()),
            ("::1", 18000, false)
        );
        assert!(xds.delta);
        assert_eq!(
            (xds.node.id.as_str(), xds.node.cluster.as_str()),
            ("edge-1", "edge")
        );
        let locality = &xds.node.locality;
        assert_eq!(
            (locality.region.as_str(), locality.zone.as_str()),
            ("eu", "a")
        );
        let again = load(&config.to_toml()).expect("valid");
        assert_eq!(again.xds, config.xds);
        assert_eq!(again.services, config.services);
        // Without a control plane, nothing is written.
        let list = load("listen = \"127.0.0.1:0\"\nreplicas = [\"127.0.0.1:1\"]\n").expect("valid");
        assert!(!list.to_toml().contains("xds"), "{}", list.to_toml());
    }

    #[test]
    fn a_fleet_is_named_by_its_resource_or_by_its_cluster() {
        let section = "[xds]\nserver = \"http://a:1\"\n";
        let by_cluster = SERVICE.replace("xds = \"web\"", "xds_cluster = \"web\"");
        let config = load(&format!("{by_cluster}{section}")).expect("valid");
        let of_service = |config: &Config| config.services[0].discovery.source.clone();
        let expected = FleetSource::Xds(FleetName::Cluster("web".to_owned()));
        assert_eq!(of_service(&config), expected);
        let again = load(&config.to_toml()).expect("valid");
        assert_eq!(of_service(&again), expected);
        let why = load(&by_cluster).expect_err("no control plane");
        let told = "services.web.discovery.xds_cluster: needs a control plane";
        assert!(why.contains(told), "{why}");
        let both = SERVICE.replace("xds = \"web\"", "xds = \"web\"\nxds_cluster = \"web\"");
        let why = load(&format!("{both}{section}")).expect_err("both");
        let told = "discovery.xds_cluster: is given beside services.web.discovery.xds, expected one of the two";
        assert!(why.contains(told), "{why}");
    }

    #[test]
    fn a_bootstrap_file_stands_in_place_of_the_keys() {
        let file = File::new(
            r#"{"xds_servers": [{"server_uri": "dns:///xds.internal:18000", "channel_creds": [{"type": "insecure"}]}],
                "node": {"id": "edge-1", "locality": {"zone": "a"}, "metadata": {"TEAM": "web"}}}"#,
        );
        let name = file.0.display();
        let config = load(&format!("{SERVICE}[xds]\nbootstrap = \"{name}\"\n")).expect("valid");
        let server = config.xds.server.as_ref().expect("set");
        assert_eq!(server.to_string(), "http://xds.internal:18000/");
        assert_eq!(config.xds.node.id, "edge-1");
        assert_eq!(config.xds.node.metadata.len(), 1);
        let again = load(&config.to_toml()).expect("valid");
        assert_eq!(again.xds, config.xds);
        for (beside, told) in [
            (
                "server = \"http://a:1\"",
                "xds.server: is given beside xds.bootstrap",
            ),
            ("node.id = \"a\"", "xds.node: is given beside xds.bootstrap"),
        ] {
            let text = format!("{SERVICE}[xds]\nbootstrap = \"{name}\"\n{beside}\n");
            let why = load(&text).expect_err("both");
            assert!(why.contains(told), "{why}");
        }
    }

    #[test]
    fn the_environment_names_a_bootstrap_file_only_where_it_is_needed() {
        let file = File::new(
            r#"{"xds_servers": [{"server_uri": "xds.internal:1", "channel_creds": [{"type": "insecure"}]}]}"#,
        );
        let flags = Overrides {
            variables: Variables::of_test("GRPC_XDS_BOOTSTRAP", &file.0.to_string_lossy()),
            ..Overrides::default()
        };
        let load = |text: &str| {
            let source = Source::new("a.toml".into(), text.to_owned());
            let loaded = Config::load_source(Some(&source), &flags).expect("valid");
            loaded.config.xds.server.map(|server| server.to_string())
        };
        assert_eq!(load(SERVICE).as_deref(), Some("http://xds.internal:1/"));
        let own = format!("{SERVICE}[xds]\nserver = \"http://other:2\"\n");
        assert_eq!(load(&own).as_deref(), Some("http://other:2/"));
        assert_eq!(
            load("listen = \"127.0.0.1:0\"\nreplicas = [\"127.0.0.1:1\"]\n"),
            None
        );
    }

    #[test]
    fn mistakes_name_the_key() {
        for (section, told) in [
            ("", "services.web.discovery.xds: needs a control plane"),
            (
                "[xds]\nserver = \"xds:18000\"",
                "xds.server: is no address of a control plane",
            ),
            (
                "[xds]\nserver = \"http://a:1/path\"",
                "without a user, a path or a query",
            ),
            (
                "[xds]\nbootstrap = \"/nowhere/b.json\"",
                "/nowhere/b.json: there is no such file",
            ),
            (
                "[xds]\nserver = \"http://a:1\"\nheaders_file = \"/nowhere/h\"",
                "/nowhere/h: ",
            ),
            (
                "[xds]\nserver = \"http://a:1\"\nnode.id = \"a\\u0000\"",
                "xds.node.id",
            ),
            ("[xds]\nserver = \"http://a:1\"\nother = 1", "xds.other"),
        ] {
            let why = load(&format!("{SERVICE}{section}\n")).expect_err("wrong");
            assert!(why.contains(told), "{why}");
        }
        for name in ["", "*", "a\\u0000"] {
            let service = SERVICE.replace("\"web\"\n[[", &format!("\"{name}\"\n[["));
            let why = load(&service).expect_err("no name");
            assert!(why.contains("discovery.xds: is no name"), "{why}");
            let service = service.replace("xds =", "xds_cluster =");
            let why = load(&service).expect_err("no name");
            let told = "discovery.xds_cluster: is no name, expected the name of one cluster";
            assert!(why.contains(told), "{why}");
        }
    }
}
