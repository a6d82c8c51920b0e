//! Files that list a service's replicas, for `discovery.file`: TOML, JSON or YAML, by the file's
//! suffix.
//!
//! What a replica is written as is what `replicas` takes in the configuration. The file is judged
//! as a whole: one mistake, and none of it is used.

use super::OwnAddresses;
use super::fleet::{note_own, read_replicas};
use super::model::ReplicaConfig;
use crate::tls::ClientTls;
use crate::toml_reader::{Format, Mistake, Mistakes, Place, Reader, Source};
use core::num::NonZeroU16;
use std::path::Path;

/// The largest file that is read, in MiB: [`REPLICAS_MAX`](crate::REPLICAS_MAX) replicas and to
/// spare.
const FILE_MIB_MAX: u32 = 16;

/// The replicas in a file. `probe_port` is for those that name no place for probes, and `own` are
/// no replicas. Host names are resolved, which may block.
///
/// # Errors
///
/// Every mistake found, in the order of the file.
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
