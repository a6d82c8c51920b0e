//! Changes to heads: the sections `request_headers`, `response_headers` and `rewrite`.

use super::when::{header_name, header_text, path};
use crate::routes::{Conditions, HeaderChanges, PathRewrite, PathRule, Rewrite, why_untouchable};
use crate::toml_reader::values::text;
use crate::toml_reader::{Item, Mistake, Reader};
use http::header::{HeaderName, HeaderValue};
use http::uri::Authority;

/// Headers to remove, to set and to add; empty if the section is missing, `None` after a mistake.
pub(super) fn read_changes(reader: &mut Reader<'_>, field: &str) -> Option<HeaderChanges> {
    let remove = read_names(reader, &format!("{field}.remove"));
    let set = read_values(reader, &format!("{field}.set"));
    let add = read_values(reader, &format!("{field}.add"));
    Some(HeaderChanges {
        remove: remove?,
        set: set?,
        add: add?,
    })
}

fn read_names(reader: &mut Reader<'_>, field: &str) -> Option<Vec<HeaderName>> {
    let items = reader.take_list(field).unwrap_or_default();
    let name = |item: &Item<'_>| header_name(item).and_then(|name| touchable(item, name));
    let read: Vec<_> = items.iter().map(|item| reader.note(name(item))).collect();
    read.into_iter().collect()
}

fn read_values(reader: &mut Reader<'_>, field: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
    const EXPECTED: &str = "a table such as { x-served-by = \"slackwater\" }";
    let is_there = reader.has(field);
    let Some(entries) = reader.take_map(field, EXPECTED) else {
        return (!is_there).then(Vec::new);
    };
    let read: Vec<_> = (entries.iter())
        .map(|(name, item)| reader.note(read_value(name, item)))
        .collect();
    read.into_iter().collect()
}

fn read_value(name: &str, item: &Item<'_>) -> Result<(HeaderName, HeaderValue), Mistake> {
    let wrong = |_| item.mistake(format!("found the name {name:?}, expected that of a field"));
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(wrong)?;
    let name = touchable(item, name)?;
    let value = header_text(item)?;
    let value = HeaderValue::try_from(value)
        .map_err(|_| item.mistake("expected a text that can be a field's value"))?;
    Ok((name, value))
}

fn touchable(item: &Item<'_>, name: HeaderName) -> Result<HeaderName, Mistake> {
    match why_untouchable(&name) {
        Some(why) => Err(item.mistake(format!("{name} cannot be changed here: {why}"))),
        None => Ok(name),
    }
}

/// Reads the section `rewrite`; empty if it is missing, `None` after a mistake.
pub(super) fn read_rewrite(
    reader: &mut Reader<'_>,
    field: &str,
    when: Option<&Conditions>,
) -> Option<Rewrite> {
    let host = reader.take(&format!("{field}.host"));
    let host = match host {
        Some(item) => reader.note(authority(&item)).map(Some),
        None => Some(None),
    };
    let whole_path = reader.take(&format!("{field}.path"));
    let prefix = reader.take(&format!("{field}.path_prefix"));
    let path = match (whole_path, prefix) {
        (None, None) => None,
        (Some(item), None) => Some(PathRewrite::Whole(reader.note(path(&item))?)),
        (None, Some(item)) => {
            let with = reader.note(path(&item))?;
            let length = match when.map(|when| &when.path) {
                Some(Some(PathRule::Prefix(rule))) => rule.len(),
                Some(_) => {
                    reader.add_mistake(item.mistake(
                        "replaces nothing, expected a path_prefix in this route, in whose place it comes",
                    ));
                    return None;
                }
                None => return None,
            };
            let with = with.strip_suffix('/').unwrap_or(&with).to_owned();
            Some(PathRewrite::Prefix { length, with })
        }
        (Some(item), Some(_)) => {
            reader.add_mistake(item.mistake("stands beside path_prefix, expected one of them"));
            return None;
        }
    };
    Some(Rewrite { host: host?, path })
}

/// A host, optionally with a port.
fn authority(item: &Item<'_>) -> Result<Authority, Mistake> {
    const EXPECTED: &str = "a host such as \"app.internal\" or \"app.internal:8080\"";
    let written = item.read(|value| text(value, EXPECTED), "")?;
    (Some(written).filter(|host| !host.contains('@')))
        .and_then(|host| Authority::try_from(host).ok())
        .filter(|host| !host.host().is_empty())
        .ok_or_else(|| item.mistake(format!("found {written:?}, expected {EXPECTED}")))
}
