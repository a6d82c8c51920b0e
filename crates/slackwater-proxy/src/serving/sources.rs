//! The sources of services' fleets: one source for the whole process, regardless of the number of
//! workers.

use crate::seed::process_seed;
use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use futures_util::future::join_all;
use slackwater_config::DnsServers;
use slackwater_config::Fault;
use slackwater_config::toml_reader::Mistakes;
#[cfg(feature = "kubernetes")]
use slackwater_config::{ClusterAccess, KubernetesService, KubernetesSettings, Zone};
use slackwater_config::{Config, FleetName, FleetSource, OwnAddresses, ServiceConfig, XdsSettings};
use slackwater_discovery::{
    ControlPlane, Discovery, DnsSource, FileSource, Fleet, Resolver, Rules, Source, XdsSource,
};
#[cfg(feature = "kubernetes")]
use slackwater_discovery::{KubernetesSetup, KubernetesSource};
use std::hash::RandomState;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

/// Longest time that a start waits for sources to report. Without a fleet, requests are answered
/// with 503.
const FIRST_WORD_MAX: Duration = Duration::from_secs(5);

/// Longest time that a successor waits for the first answers of clusters and control planes: less
/// than its predecessor waits for it.
const FIRST_ANSWERS_MAX: Duration = Duration::from_secs(50);

/// Opens the sources of services. They share one DNS resolver and one control plane, which are made
/// when they are needed.
#[derive(Debug)]
pub(crate) struct Sources<'c> {
    dns: &'c DnsServers,
    xds: &'c XdsSettings,
    plane: Option<ControlPlane>,
    #[cfg(feature = "kubernetes")]
    kubernetes: &'c KubernetesSettings,
    #[cfg(feature = "kubernetes")]
    zone: &'c Zone,
    /// Addresses that are left out of fleets.
    own: OwnAddresses,
    resolver: Option<Resolver>,
    /// The error of mistakes in a file.
    fault: fn(&Mistakes, &str) -> Fault,
}

/// A service's source that was opened and is not followed yet.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A static list.
    List(Fleet),
    File(Box<FileSource>, Fleet),
    Dns(Box<DnsSource>),
    Xds(Box<XdsSource>),
    #[cfg(feature = "kubernetes")]
    Kubernetes(Box<KubernetesSource>),
}

impl<'c> Sources<'c> {
    /// Makes the sources for the services of a configuration, at a start.
    pub(crate) fn new(config: &'c Config) -> Self {
        Self {
            dns: &config.dns,
            xds: &config.xds,
            plane: None,
            #[cfg(feature = "kubernetes")]
            kubernetes: &config.kubernetes,
            #[cfg(feature = "kubernetes")]
            zone: &config.zone.name,
            own: config.own_addresses(),
            resolver: None,
            fault: Mistakes::fault_in,
        }
    }

    /// Makes them at a reload. They go on with the control plane of fleets that are `followed`
    /// already, if its settings are unchanged. The log and the admin API repeat errors, so these
    /// have no source lines.
    pub(crate) fn at_reload<'d>(
        config: &'c Config,
        followed: impl Iterator<Item = &'d Discovery>,
    ) -> Self {
        let mut planes = followed.filter_map(Discovery::control_plane);
        let same = planes.find(|plane| *plane.settings() == config.xds);
        Self {
            plane: same.cloned(),
            fault: Mistakes::fault_without_source,
            ..Self::new(config)
        }
    }

    /// Needs a tokio runtime.
    fn plane(&mut self) -> ControlPlane {
        let settings = self.xds;
        let plane = self.plane.get_or_insert_with(|| {
            let mut node = settings.node.clone();
            if node.id.is_empty() {
                node.id = rustix::system::uname()
                    .nodename()
                    .to_string_lossy()
                    .into_owned();
            }
            node.user_agent = (
                "slackwater".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            );
            let seed = RandomState::new().build_hasher().finish();
            ControlPlane::start(settings.clone(), node, seed)
        });
        plane.clone()
    }

    fn open_xds(&mut self, service: &ServiceConfig, name: &FleetName) -> Opened {
        let tls = service.replica.tls.as_ref();
        let server_name = tls.and_then(|tls| tls.server_name.clone());
        let (plane, own) = (self.plane(), self.own.clone());
        let probe_port = service.probe.port;
        let source = XdsSource::new(&plane, name.clone(), probe_port, server_name, own);
        Opened::Xds(Box::new(source))
    }

    /// # Errors
    ///
    /// Fails if a file is invalid, if the system's DNS settings cannot be used, or if this build
    /// cannot follow a cluster.
    pub(crate) async fn open(&mut self, service: &ServiceConfig) -> Result<Opened, Fault> {
        match &service.discovery.source {
            FleetSource::List => Ok(Opened::List(Fleet::new(service.replicas.iter().cloned()))),
            FleetSource::File(file) => {
                let (file, probe_port) = (file.clone(), service.probe.port);
                let (tls, own) = (service.replica.tls.clone(), self.own.clone());
                // It resolves host names.
                let opening = move || FileSource::open(file, probe_port, tls, own);
                let opened = spawn_blocking(opening).await;
                let opened = opened.map_err(|error| Fault::runtime(error.to_string()))?;
                let of = format!("fleet of service {}", service.name);
                let (source, first) = opened.map_err(|mistakes| (self.fault)(&mistakes, &of))?;
                Ok(Opened::File(Box::new(source), first))
            }
            FleetSource::Dns(name) => {
                let resolver = match &self.resolver {
                    Some(resolver) => resolver.clone(),
                    None => Resolver::new(self.dns).map_err(Fault::runtime)?,
                };
                self.resolver = Some(resolver.clone());
                let (probe_port, ttl) = (service.probe.port, service.discovery.ttl);
                let tls = service.replica.tls.as_ref();
                let server_name = tls.and_then(|tls| tls.server_name.clone());
                let seed = RandomState::new().build_hasher().finish();
                let (name, own) = (name.clone(), self.own.clone());
                let source =
                    DnsSource::new(resolver, name, probe_port, server_name, own, ttl, seed);
                Ok(Opened::Dns(Box::new(source)))
            }
            #[cfg(feature = "kubernetes")]
            FleetSource::Kubernetes(pods) => self.open_cluster(service, pods),
            #[cfg(not(feature = "kubernetes"))]
            FleetSource::Kubernetes(_) => Err(Fault::runtime(format!(
                "fleet of service {}: this build cannot follow a cluster; discovery.kubernetes \
                 needs one with the cargo feature kubernetes",
                service.name
            ))),
            FleetSource::Xds(name) => Ok(self.open_xds(service, name)),
        }
    }
}

#[cfg(feature = "kubernetes")]
impl Sources<'_> {
    fn open_cluster(
        &self,
        service: &ServiceConfig,
        pods: &KubernetesService,
    ) -> Result<Opened, Fault> {
        let of = format!("fleet of service {}", service.name);
        let access = ClusterAccess::read(self.kubernetes.kubeconfig.as_deref());
        let access = access.map_err(|mistakes| (self.fault)(&mistakes, &of))?;
        let seed = RandomState::new().build_hasher().finish();
        let setup = KubernetesSetup {
            service: pods,
            cluster: self.kubernetes,
            zone: self.zone,
            replica: &service.replica,
            probe_port: service.probe.port,
            own: self.own.clone(),
        };
        let source = KubernetesSource::new(access, setup, seed);
        let source = source.map_err(|why| Fault::runtime(format!("{of}: {why}")))?;
        Ok(Opened::Kubernetes(Box::new(source)))
    }
}

impl Opened {
    /// Follows the source from now on, in place of the one before, if there is any. Until the
    /// source reports, the fleet of before is kept; lists and files report immediately.
    pub(crate) fn follow(self, service: &ServiceConfig, before: Option<&Discovery>) -> Discovery {
        let rules = Rules {
            guard: service.discovery.guard,
            subset: service.subset.subset(process_seed()),
        };
        let name = &service.name;
        // How much of its own list a source has lost is guarded, not how it differs from another's.
        let list_of = |source: &dyn Source| before.and_then(|it| it.list_of(&source.name()));
        let fleets = before.map_or_else(watch::Sender::default, |it| it.fleets().clone());
        match self {
            Self::List(list) => Discovery::of_list(list, &rules.subset, fleets),
            Self::File(source, first) => {
                Discovery::follow(name, *source, rules, Some(Arc::new(first)), fleets)
            }
            Self::Dns(source) => {
                let list = list_of(&*source);
                Discovery::follow(name, *source, rules, list, fleets)
            }
            #[cfg(feature = "kubernetes")]
            Self::Kubernetes(source) => {
                let list = list_of(&*source);
                Discovery::follow_pods(name, *source, rules, list, fleets)
            }
            Self::Xds(source) => {
                let list = list_of(&*source);
                Discovery::follow(name, *source, rules, list, fleets)
            }
        }
    }

    /// Whether this source would report the fleets that are followed already, so that it need not
    /// take the other's place. Only sources of pods can tell.
    pub(crate) fn is_followed_by(&self, discovery: &Discovery) -> bool {
        match self {
            #[cfg(feature = "kubernetes")]
            Self::Kubernetes(source) => discovery.follows_like(source),
            _ => {
                let _ = discovery;
                false
            }
        }
    }
}

/// Opens and follows the fleets of all services, in the order of the configuration. Sources on the
/// network have returned once, or have timed out.
///
/// # Errors
///
/// Fails if a source cannot be opened.
pub async fn find(config: &Config) -> Result<Vec<Arc<Discovery>>, Fault> {
    let mut sources = Sources::new(config);
    let mut found = Vec::with_capacity(config.services.len());
    for service in &config.services {
        let opened = sources.open(service).await?;
        found.push(Arc::new(opened.follow(service, None)));
    }
    wait_for_fleets(&found).await;
    Ok(found)
}

/// Waits until every cluster and control plane has answered: for a process that takes the place of
/// another one, which serves meanwhile.
///
/// # Errors
///
/// Fails if one has not answered after 50 s.
pub async fn first_answers(found: &[Arc<Discovery>]) -> Result<(), Fault> {
    let answers: Vec<_> = found.iter().filter_map(|it| it.first_answer()).collect();
    if answers.is_empty() {
        return Ok(());
    }
    tracing::info!("start waits: a cluster or control plane has not answered yet");
    let waited = tokio::time::timeout(FIRST_ANSWERS_MAX, join_all(answers)).await;
    waited.map(drop).map_err(|_| {
        let seconds = FIRST_ANSWERS_MAX.as_secs();
        Fault::runtime(format!(
            "a cluster or control plane has not answered within {seconds} s: the log says why"
        ))
    })
}

/// Waits until each source has reported once, or until a timeout.
pub(crate) async fn wait_for_fleets(found: &[Arc<Discovery>]) {
    let all = join_all(found.iter().map(|discovery| discovery.spoken()));
    let _ = tokio::time::timeout(FIRST_WORD_MAX, all).await;
}

/// Returns the fleets of a configuration that has only lists.
pub fn lists(config: &Config) -> Vec<Arc<Discovery>> {
    let list = |service: &ServiceConfig| {
        let list = Opened::List(Fleet::new(service.replicas.iter().cloned()));
        Arc::new(list.follow(service, None))
    };
    config.services.iter().map(list).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_discovery::testing::{Folder, FromChannel, holding, whole};
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_successor_does_not_wait_for_a_control_plane_for_ever() {
        let text = "listen = \"127.0.0.1:0\"\ndiscovery.xds = \"web\"\n\
                    xds.server = \"http://127.0.0.1:1\"\n";
        let config = Config::of_text("start", text.to_owned()).expect("valid");
        let found = find(&config).await.expect("opened");
        let began = Instant::now();
        let fault = first_answers(&found).await.expect_err("no answer");
        assert!(fault.to_string().contains("within 50 s"), "{fault}");
        assert_eq!(began.elapsed(), FIRST_ANSWERS_MAX);
        assert!(first_answers(&lists(&config)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_waits_five_seconds_for_a_silent_source() {
        let (_list, lists) = tokio::sync::mpsc::unbounded_channel();
        let source = FromChannel(lists);
        let silent = Discovery::follow("web", source, whole(), None, holding(&[]));
        let began = Instant::now();
        wait_for_fleets(&[Arc::new(silent)]).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn another_source_begins_with_the_fleet_but_not_with_the_list() {
        let of = |text: &str| {
            let text = format!("listen = \"127.0.0.1:0\"\n{text}\n");
            Config::of_text("reload", text).expect("valid")
        };
        let before = lists(&of("replicas = [\"10.0.0.1:80\"]"));
        let config = of("discovery.xds = \"web\"\nxds.server = \"http://127.0.0.1:1\"");
        let mut sources = Sources::new(&config);
        let opened = sources.open(&config.services[0]).await;
        let after = opened
            .expect("opened")
            .follow(&config.services[0], Some(&before[0]));
        assert_eq!(after.fleet().len(), 1);
        assert!(after.list_of("xds web").is_none());
        assert!(before[0].list_of("list").is_some());
    }

    #[tokio::test]
    async fn mistakes_in_a_fleet_file_show_their_lines_at_a_start_alone() {
        let folder = Folder::new("mistaken");
        let file = folder.write("fleet.json", "[\n\"10.0.0.1\"]");
        let text = format!("listen = \"127.0.0.1:0\"\ndiscovery.file = {file:?}\n");
        let config = Config::of_text("start", text).expect("valid");
        let starts = Sources::new(&config);
        let reloads = Sources::at_reload(&config, core::iter::empty());
        for (mut sources, shows_lines) in [(starts, true), (reloads, false)] {
            let fault = sources
                .open(&config.services[0])
                .await
                .expect_err("no port");
            let told = fault.to_string();
            assert!(told.contains("fleet.json:2:1: "), "{told}");
            assert_eq!(told.contains("\n 2 | \"10.0.0.1\"]"), shows_lines, "{told}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn startup_does_not_wait_for_a_file_open_for_writing() {
        let folder = Folder::new("start");
        let file = folder.write("fleet.json", "[\"10.0.0.1:80\"]");
        let text = format!("listen = \"127.0.0.1:0\"\ndiscovery.file = {file:?}\n");
        let config = Config::of_text("start", text).expect("valid");
        let began = Instant::now();
        let found = find(&config).await.expect("opened");
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(found[0].fleet().len(), 1);
    }
}
