//! What carries a service's probes.

use crate::config::{ProbeSettings, ProbeTransport};
use crate::fault::Fault;
use slackwater_tower::client::{
    HttpProber, HttpProberConfig, NoProber, Prober, UdpProber, UdpProberConfig,
};
use slackwater_tower::wire::ProbeKey;

/// A prober as configured.
///
/// # Errors
///
/// The key cannot be used, or the system gives no socket.
pub(super) fn new(settings: &ProbeSettings) -> Result<Box<dyn Prober>, Fault> {
    match settings.transport {
        ProbeTransport::None => Ok(Box::new(NoProber)),
        ProbeTransport::Http => Ok(Box::new(HttpProber::new(HttpProberConfig {
            path: settings.path.clone(),
            ..HttpProberConfig::default()
        }))),
        ProbeTransport::Udp => {
            let key = settings
                .key
                .as_ref()
                .map(|key| ProbeKey::from_bytes(key.as_bytes()));
            let key = key.transpose().map_err(|error| {
                Fault::usage(format!("the key for probes cannot be used: {error}"))
            })?;
            let prober = UdpProber::bind(&UdpProberConfig {
                key,
                ..UdpProberConfig::default()
            });
            let prober =
                prober.map_err(|error| Fault::runtime(format!("no socket for probes: {error}")))?;
            Ok(Box::new(prober))
        }
    }
}
