//! Overrides of one replica: draining, weight.

use super::super::running::Running;
use super::shown::ordered;
use core::net::SocketAddr;
use slackwater_admin::{Refused, ReplicaChange, ReplicaOverridden};
use slackwater_config::ReplicaConfig;
use slackwater_proxy::ServiceParts;
use slackwater_proxy::orders::Orders;
use std::sync::Arc;
use std::time::SystemTime;

/// Most names that an error lists.
const NAMED_MAX: usize = 8;

/// Carries out the change, for all workers at once. Returns what is in force then.
pub(super) fn change(
    running: &Running,
    by: SocketAddr,
    change: &ReplicaChange,
) -> Result<ReplicaOverridden, Refused> {
    let services = running.services();
    let service = find_service(&services, change.service.as_deref())?;
    let fleet = service.discovery.fleet();
    let replica = find_replica(fleet.replicas(), &service.config.name, &change.replica)?;
    let before = Arc::clone(&service.orders.borrow());
    let next = before.with(replica, change.drained, change.weight, SystemTime::now());
    let (was, is) = (before.of(replica), next.of(replica));
    if was != is {
        let told = |orders: &Orders| {
            let drained = if orders.is_drained(replica) {
                ", drained"
            } else {
                ""
            };
            format!("weight {}{drained}", orders.weight(replica))
        };
        tracing::info!(
            peer = %by,
            service = service.config.name,
            replica = replica.name,
            from = told(&before),
            to = told(&next),
            "replica changed at run time"
        );
        service.orders.send_replace(Arc::new(next.clone()));
    }
    Ok(ordered(&service.config.name, replica, next.of(replica)))
}

/// The service with that name, or the only one.
pub(super) fn find_service<'s>(
    services: &'s [ServiceParts],
    name: Option<&str>,
) -> Result<&'s ServiceParts, Refused> {
    match (name, services) {
        (None, [only]) => Ok(only),
        (None, _) => Err(Refused::Mistaken(format!(
            "service is missing, expected one of {}",
            names(services.iter().map(|it| it.config.name.as_str()))
        ))),
        (Some(name), _) => {
            let found = services.iter().find(|it| it.config.name == name);
            found.ok_or_else(|| unknown_service(services, name))
        }
    }
}

pub(super) fn unknown_service(services: &[ServiceParts], name: &str) -> Refused {
    let known = names(services.iter().map(|it| it.config.name.as_str()));
    Refused::Unknown(format!(
        "there is no service {name:?}, expected one of {known}"
    ))
}

/// The replica with that name, or at that address.
fn find_replica<'f>(
    replicas: &'f [ReplicaConfig],
    service: &str,
    wanted: &str,
) -> Result<&'f ReplicaConfig, Refused> {
    let address = wanted.parse::<SocketAddr>().ok();
    let at_address = replicas.iter().find(|it| Some(it.address) == address);
    if let Some(found) = at_address {
        return Ok(found);
    }
    let mut named = replicas.iter().filter(|replica| replica.name == wanted);
    match (named.next(), named.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => {
            let named = replicas.iter().filter(|replica| replica.name == wanted);
            let addresses: Vec<_> = named.map(|replica| replica.address.to_string()).collect();
            let addresses = names(addresses.iter().map(String::as_str));
            Err(Refused::Unfit(format!(
                "several replicas of service {service} are called {wanted:?}, expected an address: {addresses}"
            )))
        }
        (None, _) => {
            let known = names(replicas.iter().map(|replica| replica.name.as_str()));
            Err(Refused::Unknown(format!(
                "service {service} has no replica {wanted:?}, expected one of {known}"
            )))
        }
    }
}

/// "a, b and 3 more".
fn names<'n>(mut all: impl Iterator<Item = &'n str>) -> String {
    let first: Vec<_> = all.by_ref().take(NAMED_MAX).collect();
    let first = first.join(", ");
    match all.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_config::testing::replica;

    #[test]
    fn replica_is_found_by_unique_name_or_address() {
        let named = |n: u8, name: &str| ReplicaConfig {
            name: name.to_owned(),
            ..replica(n)
        };
        let fleet = [named(1, "a"), named(2, "b"), named(3, "b")];
        let find = |wanted| find_replica(&fleet, "web", wanted).map(|found| found.address);
        assert_eq!(find("a"), Ok(replica(1).address));
        assert_eq!(find("10.0.0.3:80"), Ok(replica(3).address));
        let Err(Refused::Unfit(why)) = find("b") else {
            panic!("there are two");
        };
        assert!(
            why.ends_with("expected an address: 10.0.0.2:80, 10.0.0.3:80"),
            "{why}"
        );
        let Err(Refused::Unknown(why)) = find("10.0.0.4:80") else {
            panic!("there is none");
        };
        assert_eq!(
            why,
            "service web has no replica \"10.0.0.4:80\", expected one of a, b, b"
        );
        let many: Vec<_> = (0..20).map(replica).collect();
        let Err(Refused::Unknown(why)) = find_replica(&many, "web", "x") else {
            panic!("there is none");
        };
        assert!(why.ends_with("10.0.0.7:80 and 12 more"), "{why}");
    }
}
