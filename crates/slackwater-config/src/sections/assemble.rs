//! Assembles the whole configuration from its keys. Scalars are read here; the neighbouring files
//! read what has rules of its own.

use super::admin::{AdminSettings, read_token_file};
use super::decisions::DecisionSettings;
use super::discovery::{DnsServers, FleetSource};
use super::fleet::{note_admin_collision, read_admin};
use super::idle::{idle_keys, is_other};
use super::kubernetes::KubernetesSettings;
use super::listeners::{LocatedListener, read_listeners};
use super::model::{Config, ServiceConfig};
use super::replica::ReplicaProtocol;
use super::request_id::RequestIdSettings;
use super::routes::{Named, read_routes};
use super::services::read_services;
use super::subset;
use super::tracing::read_tracing;
use super::upgrade_protocols::{BeyondRequests, remark_upgrades};
use super::variables::Variables;
use super::xds::{XdsSettings, read_xds};
use super::zone::ZoneSettings;
use super::{Loaded, remarks};
use crate::table::{self, Described, Judge, Kind, LIST, Meaning, Span, Within, settings};
use crate::toml_reader::values::{Unfit, nonzero, within};
use crate::toml_reader::{Mistakes, Reader, Remark};
use core::num::NonZeroU16;
use core::time::Duration;
use serde_json::json;
use toml::de::DeValue;

/// Reads every key and checks them against each other. Also returns all keys that exist.
pub(super) fn assemble<'s>(
    mut reader: Reader<'s>,
    variables: &'s Variables,
) -> (Vec<String>, Result<Loaded, Mistakes>) {
    let reader_ref = &mut reader;
    let mut remarks = Vec::new();
    let listeners = read_listeners(reader_ref, &mut remarks);
    let keys: ServeKeys = table::read(reader_ref, "");
    let beyond: BeyondRequests = table::read(reader_ref, "");
    let forwarded = table::read(reader_ref, "");
    let timeouts = table::read(reader_ref, "");
    let limits = table::read(reader_ref, "");
    let admin_settings: AdminSettings = table::read(reader_ref, "");
    let admin = read_admin(reader_ref, admin_settings.listen);
    let (admin_token, exposed_token) = read_token_file(reader_ref);
    remarks.extend(exposed_token);
    let log = table::read(reader_ref, "");
    let access_log = table::read(reader_ref, "");
    let tracing = read_tracing(reader_ref, variables, &mut remarks);
    let request_id = RequestIdSettings::read(reader_ref, &mut remarks);
    let decisions: DecisionSettings = table::read(reader_ref, "");
    // Services need the process's own addresses: a replica must not be this process itself.
    let addresses: Vec<_> = listeners.iter().map(LocatedListener::address).collect();
    note_admin_collision(reader_ref, &addresses, admin.as_ref());
    let own = (addresses.as_slice(), admin.as_ref());
    let mut policies_unnamed = Vec::new();
    let zone = ZoneSettings::read(reader_ref, variables);
    let mut services = read_services(
        reader_ref,
        own,
        (&timeouts, &zone),
        &mut remarks,
        &mut policies_unnamed,
    );
    let subsets = services.iter_mut().map(|service| &mut service.subset);
    subset::number(reader_ref, variables, subsets);
    remarks.extend(remark_upgrades(
        reader_ref,
        &beyond,
        over_http2(&services).as_deref(),
    ));
    let (dns, xds, kubernetes) =
        read_sources(reader_ref, variables, (&services, &zone), &mut remarks);
    // Routes come last, because they refer to listeners and services by name.
    let named = Named {
        listeners: &listeners,
        services: &services,
        connect: beyond.connect,
    };
    let (routes, of_routes) = read_routes(reader_ref, named);
    remarks.extend(of_routes);
    remarks.extend(remarks::shared_cookies(reader_ref, &services, &routes));
    let may_change = admin_token.is_some();
    if let Some((address, definition)) = &admin {
        remarks.extend(remarks::exposed_admin(
            *address,
            definition.as_ref(),
            may_change,
        ));
    } else if let Some(definition) = reader.section_definition("decisions")
        && decisions != DecisionSettings::default()
    {
        remarks.push(remarks::unshown_decisions(&definition));
    }
    remarks.sort_by(|one, other| one.about.cmp(&other.about));

    let config = Config {
        listeners: listeners
            .into_iter()
            .map(|listener| listener.config)
            .collect(),
        workers: keys.workers,
        services,
        routes,
        zone,
        dns,
        xds,
        kubernetes,
        forwarded,
        upgrade_protocols: beyond.upgrade_protocols,
        connect: beyond.connect,
        drain_delay: keys.drain_delay,
        timeouts,
        limits,
        admin: AdminSettings {
            listen: admin.map(|(address, _)| address),
            token: admin_token,
            ..admin_settings
        },
        log,
        access_log,
        tracing,
        decisions,
        request_id,
    };
    // Only now is it known which keys nothing has read, so unknown keys are reported here.
    let (fields, mistakes) = reader.finish();
    if mistakes.is_empty() {
        let loaded = Loaded {
            config,
            remarks,
            policies_unnamed,
        };
        (fields, Ok(loaded))
    } else {
        (fields, Err(Mistakes::new(mistakes)))
    }
}

/// Reads where the fleets of services are found: name servers, a control plane, a cluster.
fn read_sources<'s>(
    reader: &mut Reader<'s>,
    variables: &'s Variables,
    (services, zone): (&[ServiceConfig], &ZoneSettings),
    remarks: &mut Vec<Remark>,
) -> (DnsServers, XdsSettings, KubernetesSettings) {
    let dns: DnsServers = table::read(reader, "");
    if !(services.iter()).any(|service| matches!(service.discovery.source, FleetSource::Dns(_))) {
        let told = "only with discovery.dns or discovery.srv";
        let idle = idle_keys::<DnsServers>(reader, "", |key| is_other(&dns, key), told);
        remarks.extend(idle);
    }
    let fleets: Vec<_> = (services.iter())
        .map(|service| (service.name.as_str(), &service.discovery.source))
        .collect();
    let xds = in_zone(read_xds(reader, variables, &fleets, remarks), zone);
    let follows = (services.iter()).any(|service| service.discovery.source.is_cluster());
    let kubernetes = KubernetesSettings::read(reader, variables, follows, remarks);
    remarks.extend(remarks::idle_zone(zone, reader, services, &kubernetes));
    (dns, xds, kubernetes)
}

/// A control plane hears of the process's zone, unless `[xds]` or a bootstrap file names another.
fn in_zone(mut xds: XdsSettings, zone: &ZoneSettings) -> XdsSettings {
    let told = &mut xds.node.locality.zone;
    if let Some(name) = zone.name.name()
        && told.is_empty()
        && xds.bootstrap.is_none()
        && xds.server.is_some()
    {
        name.clone_into(told);
    }
    xds
}

/// Upgrades are possible only over HTTP/1.1, so a service with HTTP/2 replicas deserves a remark.
fn over_http2(services: &[ServiceConfig]) -> Option<String> {
    let service = services
        .iter()
        .find(|service| service.replica.protocol != ReplicaProtocol::Http1)?;
    Some(format!(
        "the service {:?}, whose replicas speak",
        service.name
    ))
}

const WORKERS_MAX: NonZeroU16 = NonZeroU16::MIN.saturating_add(1023);

/// Number of worker threads; the text completes the description of its values.
pub(super) struct Workers(pub(super) &'static str);

impl Kind<NonZeroU16> for Workers {
    fn read(&self, value: &DeValue<'_>) -> Result<NonZeroU16, Unfit> {
        nonzero(value).and_then(|workers| within(workers, &(NonZeroU16::MIN..=WORKERS_MAX)))
    }

    fn show(&self, value: &NonZeroU16) -> Option<String> {
        Some(value.to_string())
    }

    fn meaning(&self, _: &Judge<'_, NonZeroU16>) -> Meaning {
        Meaning::of(
            "1 to 1,024",
            json!({"type": "integer", "minimum": 1, "maximum": WORKERS_MAX}),
        )
        .expected(format!("a number from 1 to 1,024{}", self.0))
    }
}

settings! {
    /// The top-level keys that belong to no service and are no list.
    pub(super) struct ServeKeys in "" {
        /// Threads that carry requests. Each has its own connections, policy and reports.
        workers: NonZeroU16 = cores(), Workers("; without the key there is one for each core"), "one for each core", fixed;
        /// Time from SIGTERM, when `/readyz` turns 503, until listeners close. Gives load balancers
        /// in front time to notice.
        drain_delay: Duration = Duration::ZERO, Within(Span, Duration::ZERO..=Duration::from_mins(10));
    } then {
        /// Address where clients connect. Port 0: the system chooses one. `0.0.0.0` and `[::]`: all
        /// addresses of the machine.
        listen: Described("an address, or a list of 1 to 64", LIST), "required";
    }
}

fn cores() -> NonZeroU16 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = u16::try_from(cores).ok().and_then(NonZeroU16::new);
    cores.unwrap_or(WORKERS_MAX).min(WORKERS_MAX)
}

impl Config {
    /// Writes the top-level keys.
    pub(super) fn write_keys(&self, to: &mut String) {
        let keys = ServeKeys {
            workers: self.workers,
            drain_delay: self.drain_delay,
        };
        let beyond = BeyondRequests {
            connect: self.connect,
            upgrade_protocols: self.upgrade_protocols.clone(),
        };
        table::write_keys(to, "", table::shown(&keys).chain(table::shown(&beyond)));
    }
}
