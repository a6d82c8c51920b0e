//! The transport of a service's probes.

use crate::tls::ProbeConnector;
use slackwater_config::Fault;
use slackwater_config::tls::Client;
use slackwater_config::{ProbeTransport, ServiceConfig};
use slackwater_discovery::Fleet;
use slackwater_tower::client::{
    HttpProber, HttpProberConfig, NoProber, Prober, UdpProber, UdpProberConfig,
};
use slackwater_tower::wire::ProbeKey;
use std::sync::Arc;
use tokio::sync::watch;

/// Makes a prober as configured.
///
/// # Errors
///
/// Fails if the key is invalid, or if the system cannot provide a socket.
pub(crate) fn new(
    config: &ServiceConfig,
    tls: Option<&watch::Receiver<Client>>,
    fleets: &watch::Receiver<Arc<Fleet>>,
) -> Result<Box<dyn Prober>, Fault> {
    let settings = &config.probe;
    let key = settings.key.as_ref();
    let key = key
        .map(|key| ProbeKey::from_bytes(key.as_bytes()))
        .transpose()
        .map_err(|error| Fault::usage(format!("the key for probes cannot be used: {error}")))?;
    let in_flight_max = u32::from(config.policy_settings.probes_outstanding_max());
    match settings.transport {
        ProbeTransport::None => Ok(Box::new(NoProber)),
        ProbeTransport::Http => {
            let default = HttpProberConfig::default();
            let http = HttpProberConfig {
                path: settings.path.clone(),
                outstanding_max: default.outstanding_max.max(in_flight_max),
                key,
                ..default
            };
            let Some(client) = tls.filter(|_| settings.tls) else {
                return Ok(Box::new(HttpProber::new(http)));
            };
            let connector = ProbeConnector::new(client.clone(), fleets.clone());
            Ok(Box::new(HttpProber::with_connector(http, connector)))
        }
        ProbeTransport::Udp => {
            let default = UdpProberConfig::default();
            let prober = UdpProber::bind(&UdpProberConfig {
                outstanding_max: default.outstanding_max.max(in_flight_max),
                key,
                ..default
            });
            let prober =
                prober.map_err(|error| Fault::runtime(format!("no socket for probes: {error}")))?;
            Ok(Box::new(prober))
        }
    }
}
