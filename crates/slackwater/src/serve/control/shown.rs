//! The views of what is set at run time: the list of overrides, and the configuration in force.

use super::super::status::Status;
use core::fmt::Write;
use slackwater_admin::{
    Controlled, Overrides, ReplicaOverridden, SettingChosen, SettingOverridden,
};
use slackwater_config::ReplicaConfig;
use slackwater_proxy::orders::Order;
use slackwater_telemetry::date::since_epoch_ms;

impl Controlled for Status {
    fn configuration(&self) -> String {
        let Some(config) = self.workers.config() else {
            return String::new();
        };
        let (mut config, mut told) = ((*config).clone(), String::new());
        let services = self.workers.services();
        for service in &mut config.services {
            let Some(parts) = services.iter().find(|it| it.config.name == service.name) else {
                continue;
            };
            let orders = parts.orders.borrow();
            for replica in &mut service.replicas {
                replica.weight = orders.weight(replica);
            }
            for (address, order) in orders.iter() {
                let (name, of) = (&order.name, &service.name);
                let replica = format!("replica {name:?} of service {of} at {address}");
                // The configuration file has no key for draining, and none for the weights of
                // replicas that are not listed in it, so comments state them.
                if order.is_drained {
                    let _ = writeln!(told, "# drained at run time: {replica}");
                }
                let is_listed = (service.replicas.iter()).any(|it| it.address == *address);
                if let Some(weight) = order.weight.filter(|_| !is_listed) {
                    let _ = writeln!(told, "# weight {weight} since run time: {replica}");
                }
            }
        }
        told + &config.to_toml()
    }

    fn overrides(&self) -> Overrides {
        let set = self.settings();
        let control_plane = set.chosen().iter().flat_map(|(service, chosen)| {
            chosen.policy.keys().map(|(key, value)| SettingChosen {
                service: service.clone(),
                key: key.to_owned(),
                value: value.to_owned(),
                cluster: chosen.by.name.clone(),
                server: chosen.by.server.clone(),
                since_ms: since_epoch_ms(chosen.since),
            })
        });
        let settings = set.iter().map(|(service, key, set)| SettingOverridden {
            service: service.to_owned(),
            key: key.to_owned(),
            value: set.value.clone(),
            instead_of: set.instead_of.clone(),
            since_ms: since_epoch_ms(set.since),
        });
        let services = self.workers.services();
        let replicas = services.iter().flat_map(|service| {
            let orders = service.orders.borrow().clone();
            let of_service = orders.iter().map(|(address, order)| ReplicaOverridden {
                service: service.config.name.clone(),
                replica: order.name.clone(),
                address: address.to_string(),
                drained: order.is_drained,
                weight: order.weight,
                since_ms: Some(since_epoch_ms(order.since)),
            });
            of_service.collect::<Vec<_>>()
        });
        Overrides {
            settings: settings.collect(),
            replicas: replicas.collect(),
            control_plane: control_plane.collect(),
            control_plane_refused: self.refused(),
        }
    }
}

/// The overrides of a replica.
pub(super) fn ordered(
    service: &str,
    replica: &ReplicaConfig,
    order: Option<&Order>,
) -> ReplicaOverridden {
    ReplicaOverridden {
        service: service.to_owned(),
        replica: replica.name.clone(),
        address: replica.address.to_string(),
        drained: order.is_some_and(|order| order.is_drained),
        weight: order.and_then(|order| order.weight),
        since_ms: order.map(|order| since_epoch_ms(order.since)),
    }
}
