//! Files that list a service's replicas, for `discovery.file`: TOML, JSON or YAML, by the file's
//! suffix.
//!
//! A replica is written as in `replicas` of the configuration. The file is accepted as a whole:
//! after a single mistake, none of it is used.

use super::OwnAddresses;
use super::fleet::{note_own, read_replicas};
use super::model::ReplicaConfig;
use crate::tls::ClientTls;
use crate::toml_reader::{Format, Mistake, Mistakes, Place, Reader, Source};
use core::num::NonZeroU16;
use std::path::Path;

/// The largest file that is read, in MiB: more than enough for
/// [`REPLICAS_MAX`](crate::REPLICAS_MAX) replicas.
const FILE_MIB_MAX: u32 = 16;

/// Reads the replicas of a file. `probe_port` is for replicas without their own `probe`; the
/// addresses in `own` are not allowed. Resolves host names, which may block.
///
/// # Errors
///
/// Returns every mistake found, in the order of the file.
pub fn read_fleet_file(
    file: &Path,
    probe_port: Option<NonZeroU16>,
    tls: Option<&ClientTls>,
    own: &OwnAddresses,
) -> Result<Vec<ReplicaConfig>, Mistakes> {
    let whole = |message: &str| {
        Mistakes::new(vec![Mistake {
            place: Place::File(file.to_owned()),
            field: String::new(),
            message: message.to_owned(),
        }])
    };
    let format = Format::of(file)
        .ok_or_else(|| whole("expected a name that ends in .toml, .json, .yaml or .yml"))?;
    let source = Source::read_large(file, FILE_MIB_MAX);
    let source = source.map_err(|mistake| Mistakes::new(vec![mistake]))?;
    let mut reader = Reader::in_format(&source, format, "replicas")?;
    if !reader.has("replicas") {
        return Err(whole(
            "has no key replicas, expected a list such as [\"127.0.0.1:9001\", \"127.0.0.1:9002\"]",
        ));
    }
    let replicas = read_replicas(&mut reader, "", probe_port, tls);
    note_own(&mut reader, own, &replicas);
    let (_, mistakes) = reader.finish();
    if !mistakes.is_empty() {
        return Err(Mistakes::new(mistakes));
    }
    Ok(replicas.into_iter().map(|(replica, _)| replica).collect())
}
