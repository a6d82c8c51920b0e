//! How long and how much a route's requests may be: the sections `timeouts` and `limits` of a route.

use crate::routes::Bounds;
use crate::sections::show::quoted;
use crate::toml_reader::Reader;
use crate::toml_reader::values::{bytes, duration, show_bytes, show_duration, within};
use core::fmt::{self, Write};
use core::time::Duration;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_hours(24);

/// Reads them; a mistake is noted and leaves nothing said.
pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Bounds {
    let mut span = |name| {
        let field = format!("{prefix}timeouts.{name}");
        let told = "from 1ms to 24h; without the key as for all";
        let parse = |value: &_| {
            let span = duration(value)?;
            within(span, &(SHORTEST..=LONGEST)).map(Some)
        };
        reader.setting(&field, None, told, parse).value
    };
    let (first_byte, stall) = (span("first_byte"), span("stall"));
    let (tunnel, total) = (span("tunnel"), span("total"));
    let field = format!("{prefix}limits.body_bytes_max");
    let told = "from 0B to 4095MiB; without the key as much as the client sends";
    let body = reader.setting(&field, None, told, |value| bytes(value).map(Some));
    Bounds {
        first_byte,
        stall,
        tunnel,
        total,
        body_bytes_max: body.value,
    }
}

/// Writes what was said.
pub(super) fn write(to: &mut String, bounds: &Bounds) -> fmt::Result {
    let spans = [
        ("first_byte", bounds.first_byte),
        ("stall", bounds.stall),
        ("tunnel", bounds.tunnel),
        ("total", bounds.total),
    ];
    for (name, span) in spans {
        if let Some(span) = span {
            writeln!(to, "timeouts.{name} = {}", quoted(show_duration(span)))?;
        }
    }
    if let Some(size) = bounds.body_bytes_max {
        writeln!(to, "limits.body_bytes_max = {}", quoted(show_bytes(size)))?;
    }
    Ok(())
}
