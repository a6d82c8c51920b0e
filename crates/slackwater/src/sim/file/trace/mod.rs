//! A user's own service times, from a CSV file or an HDR histogram log.
//!
//! The content of a file shows its kind: an HDR log contains histograms. Values are in milliseconds
//! unless `trace_unit` is set. There are limits on the size of the file, the number of values, and
//! the decompressed size of a histogram.

mod csv_values;
mod hdr_log;

use core::time::Duration;
use slackwater_config::toml_reader::values::{one_of, text};
use slackwater_config::toml_reader::{Item, Mistake, Place, Reader, Source};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest size of a file, in MiB.
const FILE_MIB_MAX: u32 = 64;
/// Most values of a trace.
const VALUES_MAX: usize = 1_000_000;
/// Largest value that makes sense for a query.
const VALUE_MAX: Duration = Duration::from_hours(24);

const UNITS: [(&str, Unit); 4] = [
    ("ns", Unit { ns: 1.0 }),
    ("us", Unit { ns: 1e3 }),
    ("ms", Unit { ns: 1e6 }),
    ("s", Unit { ns: 1e9 }),
];

/// The unit of values.
#[derive(Clone, Copy, Debug)]
struct Unit {
    ns: f64,
}

impl Unit {
    /// Converts a value; `None` if it is negative, beyond [`VALUE_MAX`], or not a number.
    fn duration(self, value: f64) -> Option<Duration> {
        let seconds = value * self.ns / 1e9;
        let span = Duration::try_from_secs_f64(seconds).ok()?;
        (span <= VALUE_MAX).then_some(span)
    }
}

const VALUE_EXPECTED: &str = "a time from 0 to 24 h in its unit";

/// Reads the values that the keys `trace`, `trace_column` and `trace_unit` of `section` name;
/// `None` after a mistake.
pub(super) fn read_trace(reader: &mut Reader<'_>, section: &str) -> Option<Arc<[Duration]>> {
    let key = |name: &str| format!("{section}.{name}");
    let unit = reader.setting(&key("trace_unit"), Unit { ns: 1e6 }, "", |value| {
        one_of(value, &UNITS)
    });
    let column = reader.take(&key("trace_column"));
    let file = reader.take(&key("trace"));
    let column = match &column {
        Some(item) => Some(reader.note(item.read(|value| text(value, "the column's name"), ""))?),
        None => None,
    };
    let Some(file) = file else {
        reader.add_missing_key(&key("trace"), "the name of a CSV file or of an HDR log");
        return None;
    };
    let values = read_named(reader, &file, column, unit.value);
    reader.note(values)
}

fn read_named(
    reader: &Reader<'_>,
    file: &Item<'_>,
    column: Option<&str>,
    unit: Unit,
) -> Result<Arc<[Duration]>, Mistake> {
    let name = file.read(|value| text(value, "the name of a file"), "")?;
    let path = beside(reader.source(), name);
    let source =
        Source::read_large(&path, FILE_MIB_MAX).map_err(|mistake| match mistake.place {
            // A file that cannot be read at all is a mistake at the place that names it.
            Place::File(_) => file.mistake(format!("{}: {}", path.display(), mistake.message)),
            _ => mistake,
        })?;
    let values = if hdr_log::is_one(source.text()) {
        if column.is_some() {
            return Err(file.mistake("is an HDR log, which has no columns: leave out trace_column"));
        }
        hdr_log::read(&source, unit)?
    } else {
        csv_values::read(&source, column, unit)?
    };
    if values.is_empty() {
        return Err(file.mistake(format!("{} has no value in it", path.display())));
    }
    Ok(values.into())
}

/// Resolves a relative name from the directory of the file that contains it.
fn beside(source: Option<&Source>, name: &str) -> PathBuf {
    let directory = source.and_then(|source| source.file().parent());
    directory.unwrap_or(Path::new("")).join(name)
}
