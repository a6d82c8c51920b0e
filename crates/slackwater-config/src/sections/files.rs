//! Files that keys name: their paths, their contents, and who else can read them.

use crate::toml_reader::values::{quote, text};
use crate::toml_reader::{Item, Mistake, Reader, Remark, Severity, read_bounded};
use std::path::{Path, PathBuf};

const FILE_EXPECTED: &str = "the name of a file";

/// Reads a file name; a relative one starts from the configuration file's directory.
pub(super) fn read_file_name(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<PathBuf> {
    let read = file_name_of(reader, item);
    reader.note(read)
}

/// Like [`read_file_name`], but returns the mistake.
pub(super) fn file_name_of(reader: &Reader<'_>, item: &Item<'_>) -> Result<PathBuf, Mistake> {
    let written = item.read(|value| text(value, FILE_EXPECTED), FILE_EXPECTED)?;
    Ok(reader.path_of(item, written))
}

/// Makes a path absolute: the configuration that is shown may be saved in any directory.
pub(super) fn file_name(file: &Path) -> String {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    quote(file.display())
}

/// Reads the file that `field` names, trims it, and parses it with `parse`. Adds a remark if other
/// users can read the file.
pub(super) fn read_secret<T>(
    reader: &mut Reader<'_>,
    field: &str,
    parse: impl FnOnce(&[u8]) -> Result<T, &'static str>,
) -> (Option<(T, PathBuf)>, Option<Remark>) {
    let Some(item) = reader.take(field) else {
        return (None, None);
    };
    let read = file_name_of(reader, &item).and_then(|file| {
        // The message "there is no such file" needs the file's name before it.
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

/// Returns a remark if all users can read a file with a secret.
pub(super) fn exposed(item: &Item<'_>, file: &Path) -> Option<Remark> {
    readable_by_all(file).then(|| Remark {
        severity: Severity::Warning,
        about: item.mistake(format!(
            "{} can be read by all users of this machine; chmod 600 keeps it secret",
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
