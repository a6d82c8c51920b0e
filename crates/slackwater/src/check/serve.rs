//! What `slackwater check` says about a configuration of `slackwater serve`: where clients connect,
//! how requests are balanced and over which replicas, and which routes there are.

use super::{Valid, admin, plural, tls};
use core::fmt::Write as _;
use http::{Method, StatusCode};
use slackwater_config::routes::{
    Action, Conditions, HostRule, PathRule, RetryMethods, RetryRules, Route,
};
use slackwater_config::toml_reader::values::{show_duration, show_millionths};
use slackwater_config::toml_reader::{Mistakes, Source};
use slackwater_config::{
    ClusterAccess, Config, FleetSource, HealthCheck, HealthSettings, ListenerConfig, Loaded,
    Overrides, ProbeHint, ProbeTransport, ReplicaConfig, ServiceConfig, StickyBy, StickySettings,
    SubsetSettings, Thresholds, Variables, read_fleet_file,
};
use slackwater_core::policy::Reports;

/// Most replicas and routes that a summary names.
const NAMED_MAX: usize = 8;

/// Reads a configuration.
pub(super) fn read(source: &Source, show: bool) -> Result<Valid, Mistakes> {
    let overrides = Overrides {
        variables: Variables::of_process(),
        ..Overrides::default()
    };
    let Loaded {
        config, remarks, ..
    } = Config::load_source(Some(source), &overrides)?;
    let fleets = read_fleets(&config)?;
    let text = if show {
        config.to_toml()
    } else {
        summary(&config, &fleets)
    };
    Ok(Valid { remarks, text })
}

/// Reads the kubeconfig of a configuration whose services follow a cluster, and their namespaces.
/// Without one, the access is that of the pod in which `serve` will run.
fn read_kubeconfig(config: &Config) -> Result<(), Mistakes> {
    let file = config.kubernetes.kubeconfig.as_deref();
    let Some(file) = file.filter(|_| config.follows_cluster()) else {
        return Ok(());
    };
    let access = ClusterAccess::read(Some(file))?;
    for service in &config.services {
        if let FleetSource::Kubernetes(pods) = &service.discovery.source {
            access.namespace_of(pods, &config.kubernetes)?;
        }
    }
    Ok(())
}

/// Reads the number of replicas in each service's fleet file; `None` for a service without one.
fn read_fleets(config: &Config) -> Result<Vec<Option<usize>>, Mistakes> {
    read_kubeconfig(config)?;
    let own = config.own_addresses();
    let read = |service: &ServiceConfig| match &service.discovery.source {
        FleetSource::File(file) => {
            read_fleet_file(file, service.probe.port, service.replica.tls.as_ref(), &own)
                .map(|it| Some(it.len()))
        }
        FleetSource::List
        | FleetSource::Dns(_)
        | FleetSource::Kubernetes(_)
        | FleetSource::Xds(_) => Ok(None),
    };
    config.services.iter().map(read).collect()
}

/// Returns a few lines that summarize the configuration.
fn summary(config: &Config, fleets: &[Option<usize>]) -> String {
    let mut text = String::new();
    let listen: Vec<_> = config.listeners.iter().map(listener).collect();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "  workers {}, listening at {}",
        config.workers,
        listen.join(", ")
    );
    for (service, in_file) in config.services.iter().zip(fleets) {
        let _ = writeln!(text, "{}", summary_of_service(service, *in_file));
    }
    for route in routes(config) {
        let _ = writeln!(text, "  {route}");
    }
    let _ = writeln!(text, "  {}", admin(&config.admin));
    text
}

/// An address, and its TLS settings.
fn listener(listener: &ListenerConfig) -> String {
    let tls = listener.tls.as_ref().map_or_else(String::new, tls);
    format!("{}{tls}", listener.address)
}

fn summary_of_service(service: &ServiceConfig, in_file: Option<usize>) -> String {
    let protocol = (service.replica.protocol).as_str(service.replica.tls.is_some());
    let fleet = match &service.discovery.source {
        FleetSource::List => {
            let count = service.replicas.len();
            let names = named(service);
            format!("{count} replica{} over {protocol}: {names}", plural(count))
        }
        FleetSource::Dns(name) => format!("replicas by dns over {protocol}: {name}"),
        FleetSource::Kubernetes(pods) => {
            format!("replicas by kubernetes over {protocol}: {pods}")
        }
        FleetSource::Xds(name) => format!("replicas by xds over {protocol}: {name}"),
        FleetSource::File(file) => {
            let (count, file) = (in_file.unwrap_or_default(), file.display());
            let plural = plural(count);
            format!("{count} replica{plural} in a file over {protocol}: {file}")
        }
    };
    let mut lines = Vec::from_iter(subset(service.subset));
    lines.extend([
        where_probes_go(service),
        health(&service.health),
        sticky(&service.sticky),
    ]);
    lines.extend(keys(service));
    lines.push(retries(&service.retries.rules));
    format!(
        "  service {}: policy {}, {fleet}\n    {}",
        service.name,
        service.policy.name,
        lines.join("\n    "),
    )
}

/// Describes the part of the fleet that is used, unless it is all.
fn subset(subset: SubsetSettings) -> Option<String> {
    let size = subset.size?;
    Some(match subset.index.flatten() {
        None => format!("a random subset of {size} replicas of each tier"),
        Some(index) => format!("subset {index} of {size} replicas of each tier"),
    })
}

fn health(health: &HealthSettings) -> String {
    let what = match health.check {
        HealthCheck::None => return "no health checks".to_owned(),
        HealthCheck::Http => format!("http (GET {})", health.path),
        HealthCheck::Grpc if !health.grpc_service.is_empty() => {
            format!("grpc (service {})", health.grpc_service)
        }
        other => other.as_str().to_owned(),
    };
    let Thresholds { rise, fall } = health.thresholds;
    format!(
        "health checks by {what} every {}: down after {fall} failure{}, up after {rise} success{}",
        show_duration(health.interval),
        if fall == 1 { "" } else { "s" },
        if rise == 1 { "" } else { "es" },
    )
}

fn sticky(sticky: &StickySettings) -> String {
    match (sticky.by, &sticky.header) {
        (StickyBy::None, _) => "not sticky".to_owned(),
        (StickyBy::Cookie, _) => format!("sticky by the cookie {}", sticky.cookie),
        (StickyBy::Header, Some(header)) => format!("sticky by the header {header}"),
        (StickyBy::Header, None) => "sticky by a header".to_owned(),
        (StickyBy::Address, _) => "sticky by the client's address".to_owned(),
    }
}

/// Describes keys and hints, if there are any.
fn keys(service: &ServiceConfig) -> Option<String> {
    let (key, hint) = (&service.key, &service.probe.hint);
    let hint = match hint {
        _ if service.policy.reports != Reports::Round => String::new(),
        ProbeHint::None => String::new(),
        hint => format!("probes carry a hint: {hint}"),
    };
    if !key.is_on() {
        return (!hint.is_empty()).then_some(hint);
    }
    let by: Vec<_> = key.by.iter().map(ToString::to_string).collect();
    let mut text = format!("keys by {}", by.join(", else "));
    if service.policy.reports == Reports::Round {
        if !hint.is_empty() {
            let _ = write!(text, "; {hint}");
        }
        return Some(text);
    }
    // Writing to a string does not fail.
    let _ = match key.balance_factor {
        0 => write!(text, ": without a bound"),
        factor => write!(
            text,
            ": up to {} times the mean load",
            show_millionths(factor)
        ),
    };
    let _ = write!(
        text,
        ", sets of {} replica{}",
        key.set,
        plural(key.set.into())
    );
    if key.partitions > 0 {
        let _ = write!(text, ", {} partitions", key.partitions);
    }
    if key.replicate_max > 1 {
        let _ = write!(text, ", hot ones on up to {} replicas", key.replicate_max);
    }
    Some(text)
}

fn retries(rules: &RetryRules) -> String {
    if rules.attempts_max <= 1 {
        return "no retries".to_owned();
    }
    let methods = match rules.methods {
        RetryMethods::None => {
            return format!(
                "retries: up to {} attempts, only where no replica had the request",
                rules.attempts_max
            );
        }
        RetryMethods::All => "all methods".to_owned(),
        methods => format!("{} methods", methods.as_str()),
    };
    let statuses: Vec<_> = rules.statuses.iter().map(StatusCode::as_str).collect();
    let statuses = match statuses.as_slice() {
        [] => String::new(),
        statuses => format!(", after {}", statuses.join(", ")),
    };
    format!(
        "retries: up to {} attempts of {methods}{statuses}",
        rules.attempts_max
    )
}

/// A line for each route, up to the limit.
fn routes(config: &Config) -> Vec<String> {
    let line = |(index, route): (usize, &Route)| {
        let (when, then) = (conditions(config, &route.when), action(config, &route.then));
        format!("route {}: {when}: {then}", index + 1)
    };
    let routes = config.routes.iter().enumerate();
    let mut lines: Vec<_> = routes.take(NAMED_MAX).map(line).collect();
    let more = config.routes.len().saturating_sub(NAMED_MAX);
    lines.extend((more > 0).then(|| format!("and {more} more routes")));
    lines
}

fn conditions(config: &Config, when: &Conditions) -> String {
    let mut parts = Vec::new();
    if !when.listeners.is_empty() {
        let listeners = when.listeners.iter();
        let names = listeners.filter_map(|place| config.listeners.get(*place));
        let names: Vec<_> = names.map(|it| it.name.as_str()).collect();
        parts.push(format!("listener {}", names.join(" or ")));
    }
    if !when.hosts.is_empty() {
        let hosts: Vec<_> = when.hosts.iter().map(HostRule::written).collect();
        parts.push(format!("host {}", hosts.join(" or ")));
    }
    parts.extend(when.path.as_ref().map(path));
    if !when.methods.is_empty() {
        let methods: Vec<_> = when.methods.iter().map(Method::as_str).collect();
        parts.push(format!("method {}", methods.join(" or ")));
    }
    parts.extend((when.headers.iter()).map(|rule| format!("header {}", rule.name)));
    if parts.is_empty() {
        return "all requests".to_owned();
    }
    parts.join(", ")
}

/// The path with its key, since a `*` in a path is an ordinary character.
fn path(path: &PathRule) -> String {
    match path {
        PathRule::Exact(path) => format!("path {path}"),
        PathRule::Prefix(path) if path.is_empty() => "path_prefix /".to_owned(),
        PathRule::Prefix(path) => format!("path_prefix {path}"),
    }
}

fn action(config: &Config, then: &Action) -> String {
    let forward = match then {
        Action::Redirect(redirect) => {
            return format!(
                "redirect {} to {}",
                redirect.status.as_u16(),
                redirect.to.written()
            );
        }
        Action::Respond(response) => return format!("answer {}", response.status.as_u16()),
        Action::Forward(forward) => forward,
    };
    let parts = forward.services.parts();
    let name = |place: usize| config.services.get(place).map_or("", |it| it.name.as_str());
    let service = |(place, weight): &(usize, u16)| match parts.len() {
        1 => name(*place).to_owned(),
        _ => format!("{} (weight {weight})", name(*place)),
    };
    let services: Vec<_> = parts.iter().map(service).collect();
    let retries = forward
        .retries
        .as_ref()
        .map_or("", |_| ", with retries of its own");
    format!("service {}{retries}", services.join(" or "))
}

fn named(service: &ServiceConfig) -> String {
    let names: Vec<_> = (service.replicas.iter().take(NAMED_MAX))
        .map(|replica| replica.name.as_str())
        .collect();
    let more = service.replicas.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{more}", names.join(", "))
}

fn where_probes_go(service: &ServiceConfig) -> String {
    let carrier = match service.probe.transport {
        _ if !service.sends_probes() => return why_no_probes(service),
        ProbeTransport::Udp if service.probe.key.is_some() => "udp, signed,".to_owned(),
        ProbeTransport::Http => {
            let carrier = if service.probe.tls { "https" } else { "http" };
            let signed = service.probe.key.as_ref().map_or("", |_| ", signed,");
            format!("{carrier} (GET {}){signed}", service.probe.path)
        }
        other => other.as_str().to_owned(),
    };
    let own = |replica: &ReplicaConfig| replica.probe_address == replica.address;
    let target = match service.probe.port {
        _ if service.replicas.iter().all(own) => "each replica's own address and port".to_owned(),
        Some(port) => format!("port {port} of each replica that names no place of its own"),
        None => "the places that the replicas name, else their own addresses and ports".to_owned(),
    };
    format!("probes by {carrier} to {target}")
}

fn why_no_probes(service: &ServiceConfig) -> String {
    let policy = service.policy.name;
    let blind =
        |setting| format!("no probes: {setting}, so each worker goes by what it sees itself");
    match service.probe.transport {
        _ if !service.policy_probes() => {
            format!("no probes: policy {policy} sends none")
        }
        ProbeTransport::None => blind("probe.transport is \"none\""),
        ProbeTransport::Udp | ProbeTransport::Http => blind("prequal.local_only is true"),
    }
}
