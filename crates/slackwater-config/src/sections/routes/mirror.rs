//! Copies of a route's requests: the section `mirror`.

use super::Named;
use crate::routes::Mirror;
use crate::sections::model::Config;
use crate::table::{self, Any, Bytes, Described, STRING, Share, Within, keys};
use crate::toml_reader::Reader;
use crate::toml_reader::values::quote;
use slackwater_core::Quantile;

impl Default for Mirror {
    fn default() -> Self {
        Self {
            service: 0,
            share: Quantile::ONE,
            body_bytes_max: 64 << 10,
        }
    }
}

keys! { Mirror in "mirror" {
    /// The service that gets copies of this route's requests.
    service: Described("the name of a service", STRING), "required";
    /// Share of the requests that are copied.
    share at share: Any(Share);
    /// Requests with a larger body are not copied.
    body_bytes_max at body_bytes_max: Within(Bytes, 0..=1 << 20);
} }

/// Reads the section; `None` if it is missing or wrong.
pub(super) fn read(reader: &mut Reader<'_>, prefix: &str, named: Named<'_>) -> Option<Mirror> {
    let is_there = reader.has(&format!("{prefix}mirror"));
    let field = table::field::<Mirror>(prefix, "service");
    let service = reader.take(&field);
    let mirror = table::read(reader, prefix);
    let Some(service) = service else {
        if is_there {
            reader.add_missing_key(&field, "the name of a service");
        }
        return None;
    };
    let service = reader.note(named.service(&service))?;
    Some(Mirror { service, ..mirror })
}

/// The section's value in TOML.
pub(super) fn shown(config: &Config, mirror: &Mirror) -> String {
    let service = config
        .services
        .get(mirror.service)
        .map(|service| quote(&service.name));
    let keys = table::shown_with(mirror, &[("service", service)]);
    let keys: Vec<_> = keys
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    format!("{{ {} }}", keys.join(", "))
}
