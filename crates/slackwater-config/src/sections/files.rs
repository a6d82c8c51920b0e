//! Files that keys name: which file is meant, what is in it, and who else can read it.

use crate::toml_reader::values::{quote, text};
use crate::toml_reader::{Item, Mistake, Reader, Remark, Severity, read_bounded};
use std::path::{Path, PathBuf};

const FILE_EXPECTED: &str = "the name of a file";

/// A relative name in a configuration file starts from that file's own directory.
pub(super) fn read_file_name(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<PathBuf> {
    let read = file_name_of(reader, item);
    reader.note(read)
}

/// The same; a mistake is for the caller to note.
pub(super) fn file_name_of(reader: &Reader<'_>, item: &Item<'_>) -> Result<PathBuf, Mistake> {
    let written = item.read(|value| text(value, FILE_EXPECTED), FILE_EXPECTED)?;
    Ok(reader.path_of(item, written))
}

/// What is shown may be saved anywhere, and a relative name starts from there.
pub(super) fn file_name(file: &Path) -> String {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    quote(file.display())
}

/// What `parse` makes of what is in the file that `field` names, blanks around it left out; and
/// what is to be remarked if everybody can read that file.
pub(super) fn read_secret<T>(
    reader: &mut Reader<'_>,
    field: &str,
    parse: impl FnOnce(&[u8]) -> Result<T, &'static str>,
) -> (Option<(T, PathBuf)>, Option<Remark>) {
    let Some(item) = reader.take(field) else {
        return (None, None);
    };
    let read = file_name_of(reader, &item).and_then(|file| {
        // "there is no such file" has no subject of its own.
        let bytes = read_bounded(&file);
        let bytes = bytes.map_err(|why| item.mistake(format!("{}: {why}", file.display())))?;
        let secret = parse(bytes.trim_ascii());
        let secret = secret.map_err(|why| item.mistake(format!("{} {why}", file.display())))?;
        Ok((secret, file))
    });
    let value = reader.note(read);
    let remark = value.as_ref().and_then(|(_, file)| exposed(&item, file));
    (value, remark)
}

/// What is to be remarked on a file with a secret that everybody can read.
pub(super) fn exposed(item: &Item<'_>, file: &Path) -> Option<Remark> {
    readable_by_all(file).then(|| Remark {
        severity: Severity::Warning,
        about: item.mistake(format!(
            "{} can be read by everybody on this machine; chmod 600 keeps it secret",
            file.display()
        )),
    })
}

#[cfg(unix)]
pub(super) fn readable_by_all(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
pub(super) fn readable_by_all(_file: &Path) -> bool {
    false
}
