//! Routes: which requests go to which service. `[[routes]]`, of which the first that matches decides; without any, all goes
//! to the one service that there is.

use super::listeners::SaidListener;
use super::model::{RouteConfig, ServiceConfig};
use crate::toml_reader::values::{found, text};
use crate::toml_reader::{Item, Mistake, Reader};

const SERVICE_EXPECTED: &str = "the name of a service";

/// All routes; at least one, unless mistakes were noted.
pub(super) fn read_routes(
    reader: &mut Reader<'_>,
    listeners: &[SaidListener],
    services: &[ServiceConfig],
) -> Vec<RouteConfig> {
    let count = reader.count_tables("routes");
    let mut routes = Vec::new();
    for index in 0..count {
        let prefix = format!("routes[{index}].");
        let listeners = read_listeners(reader, &format!("{prefix}listeners"), listeners);
        let service = read_service(reader, &format!("{prefix}service"), services);
        routes.extend(service.map(|service| RouteConfig { listeners, service }));
    }
    match services {
        [_] if count == 0 => routes.push(RouteConfig {
            listeners: Vec::new(),
            service: 0,
        }),
        [_, second, ..] if count == 0 => reader.add_mistake_near(
            &format!("services.{}", second.name),
            "is a second service, and nothing says which requests are for it; expected tables \
             [[routes]]"
                .to_owned(),
        ),
        _ => (),
    }
    routes
}

/// The listeners that a key names, as their places among all; none, also after a mistake, stands for all of them.
fn read_listeners(reader: &mut Reader<'_>, field: &str, listeners: &[SaidListener]) -> Vec<usize> {
    const EXPECTED: &str = "the name of a listener";
    let mut places = Vec::new();
    for item in reader.take_list(field).unwrap_or_default() {
        let Some(name) = reader.note(item.read(|value| text(value, EXPECTED), "")) else {
            continue;
        };
        let mut names = listeners.iter().map(|listener| &listener.config.name);
        if let Some(place) = names.position(|other| other == name) {
            places.push(place);
        } else {
            let names = listeners.iter().map(|listener| &listener.config.name);
            reader.add_mistake(unknown(&item, "listener", names));
        }
    }
    places
}

/// The service that a key names, as its place among all; `None` after a mistake.
fn read_service(reader: &mut Reader<'_>, field: &str, services: &[ServiceConfig]) -> Option<usize> {
    let Some(item) = reader.take(field) else {
        reader.add_missing_key(field, SERVICE_EXPECTED);
        return None;
    };
    let name = reader.note(item.read(|value| text(value, SERVICE_EXPECTED), ""))?;
    let place = services.iter().position(|service| service.name == name);
    if place.is_none() {
        let names = services.iter().map(|service| &service.name);
        reader.add_mistake(unknown(&item, "service", names));
    }
    place
}

fn unknown<'n>(item: &Item<'_>, what: &str, names: impl Iterator<Item = &'n String>) -> Mistake {
    let names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
    item.mistake(format!(
        "found {}, which is no {what}, expected one of {}",
        found(&item.value),
        names.join(", ")
    ))
}
