//! Copies of a route's requests: the section `mirror`.

use super::Named;
use crate::routes::Mirror;
use crate::sections::model::Config;
use crate::sections::show::quoted;
use crate::toml_reader::Reader;
use crate::toml_reader::values::{bytes, quantile, show_bytes, within};
use core::fmt::{self, Write};
use slackwater_core::Quantile;

/// Reads it; `None` if there is none, or after a mistake.
pub(super) fn read(reader: &mut Reader<'_>, field: &str, named: Named<'_>) -> Option<Mirror> {
    let is_there = reader.has(field);
    let service_field = format!("{field}.service");
    let service = reader.take(&service_field);
    let share = reader.setting(
        &format!("{field}.share"),
        Quantile::ONE,
        "a number from 0 to 1",
        quantile,
    );
    let body_bytes_max = reader.setting(
        &format!("{field}.body_bytes_max"),
        64 << 10,
        "from 0B to 1MiB",
        |value| bytes(value).and_then(|size| within(size, &(0..=1 << 20))),
    );
    let Some(service) = service else {
        if is_there {
            reader.add_missing_key(&service_field, "the name of a service");
        }
        return None;
    };
    Some(Mirror {
        service: reader.note(named.service(&service))?,
        share: share.value,
        body_bytes_max: body_bytes_max.value,
    })
}

/// Writes it in full.
pub(super) fn write(to: &mut String, config: &Config, mirror: &Mirror) -> fmt::Result {
    let service = config.services.get(mirror.service);
    let service = service.map_or_else(String::new, |service| quoted(&service.name));
    writeln!(
        to,
        "mirror = {{ service = {service}, share = {}, body_bytes_max = {} }}",
        mirror.share,
        quoted(show_bytes(mirror.body_bytes_max))
    )
}
