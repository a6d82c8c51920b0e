//! A route's conditions on requests: the keys `listeners`, `host`, `path`, `path_prefix`, `method`
//! and `headers`.

use super::Named;
use crate::routes::{Conditions, HeaderRule, HeaderTest, HostRule, PathRule};
use crate::toml_reader::values::{boolean, text};
use crate::toml_reader::{Item, Mistake, Reader};
use http::Method;
use http::header::HeaderName;

/// The most entries of any list of a route.
const LISTED_MAX: usize = 256;

const HOST_EXPECTED: &str =
    "a host such as \"example.com\", or \"*.example.com\" for all below it, without a port";
const PATH_EXPECTED: &str = "a path such as \"/api\": of letters, digits and -._~!$&'()*+,=:@ between slashes, none of them \
     two in a row, and no segment . or ..";
const METHOD_EXPECTED: &str = "a method such as \"GET\", in capitals";
const HEADER_EXPECTED: &str =
    "a table such as { name = \"x-canary\", exact = \"1\" }, with one of present, exact and prefix";

/// Reads all conditions; `None` after a mistake.
pub(super) fn read(reader: &mut Reader<'_>, prefix: &str, named: Named<'_>) -> Option<Conditions> {
    let mistakes = reader.mistakes();
    let listeners = read_list(reader, &format!("{prefix}listeners"), |item| {
        named.listener(item)
    });
    let hosts = read_list(reader, &format!("{prefix}host"), host);
    let path = read_path(reader, prefix);
    let methods = read_list(reader, &format!("{prefix}method"), method);
    let headers = read_headers(reader, &format!("{prefix}headers"));
    if reader.mistakes() > mistakes {
        return None;
    }
    Some(Conditions {
        listeners: listeners?,
        hosts: hosts?,
        path,
        methods: methods?,
        headers: headers?,
    })
}

/// Reads one value or a list of values; empty if the key is missing, `None` after a mistake.
fn read_list<T>(
    reader: &mut Reader<'_>,
    field: &str,
    parse: impl Fn(&Item<'_>) -> Result<T, Mistake>,
) -> Option<Vec<T>> {
    let Some(items) = reader.take_list(field) else {
        return Some(Vec::new());
    };
    if items.is_empty() || items.len() > LISTED_MAX {
        let told = format!(
            "found a list of {}, expected from 1 to {LISTED_MAX}; without the key there is no such condition",
            items.len()
        );
        reader.add_mistake_near(field, told);
        return None;
    }
    let read: Vec<_> = items.iter().map(|item| reader.note(parse(item))).collect();
    read.into_iter().collect()
}

fn host(item: &Item<'_>) -> Result<HostRule, Mistake> {
    let written = item.read(|value| text(value, HOST_EXPECTED), "")?;
    let wrong = || item.mistake(format!("found {written:?}, expected {HOST_EXPECTED}"));
    let (name, is_below) = match written.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (written, false),
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    if !is_host(&name, is_below) {
        return Err(wrong());
    }
    Ok(if is_below {
        HostRule::Below(name)
    } else {
        HostRule::Exact(name)
    })
}

/// Whether this is a name, an IPv4 address, or an IPv6 address in brackets. Addresses have no
/// subdomains.
fn is_host(name: &str, is_below: bool) -> bool {
    if let Some(address) = name.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        return !is_below && address.parse::<core::net::Ipv6Addr>().is_ok();
    }
    let fits = |label: &str| {
        (1..=63).contains(&label.len())
            && (label.bytes()).all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(fits)
}

/// Reads the keys `path` and `path_prefix`, which exclude each other.
fn read_path(reader: &mut Reader<'_>, prefix: &str) -> Option<PathRule> {
    let exact = reader.take(&format!("{prefix}path"));
    let below = reader.take(&format!("{prefix}path_prefix"));
    match (exact, below) {
        (Some(item), Some(_)) => {
            reader.add_mistake(item.mistake("stands beside path_prefix, expected one of them"));
            None
        }
        (Some(item), None) => reader.note(path(&item)).map(PathRule::Exact),
        (None, Some(item)) => reader.note(path(&item)).map(|path| PathRule::prefix(&path)),
        (None, None) => None,
    }
}

/// Reads a path that all servers interpret in the same way.
pub(super) fn path(item: &Item<'_>) -> Result<String, Mistake> {
    let written = item.read(|value| text(value, PATH_EXPECTED), "")?;
    if PathRule::is_plain(written) {
        return Ok(written.to_owned());
    }
    Err(item.mistake(format!("found {written:?}, expected {PATH_EXPECTED}")))
}

fn method(item: &Item<'_>) -> Result<Method, Mistake> {
    let written = item.read(|value| text(value, METHOD_EXPECTED), "")?;
    let is_in_capitals = !written.bytes().any(|byte| byte.is_ascii_lowercase());
    (Some(written).filter(|_| is_in_capitals))
        .and_then(|written| Method::from_bytes(written.as_bytes()).ok())
        .ok_or_else(|| item.mistake(format!("found {written:?}, expected {METHOD_EXPECTED}")))
}

/// Reads the key `headers`: a list of tables.
fn read_headers(reader: &mut Reader<'_>, field: &str) -> Option<Vec<HeaderRule>> {
    let items = reader.take_list(field).unwrap_or_default();
    let read: Vec<_> = items.iter().map(|item| read_header(reader, item)).collect();
    read.into_iter().collect()
}

fn read_header(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<HeaderRule> {
    if !item.value.is_table() {
        // Not repeated, because it may contain a secret.
        reader.add_mistake(item.mistake(format!("is no table, expected {HEADER_EXPECTED}")));
        return None;
    }
    let field = &item.definition.field;
    let [name, present, exact, begins] =
        ["name", "present", "exact", "prefix"].map(|key| reader.take(&format!("{field}.{key}")));
    let tests = [present.is_some(), exact.is_some(), begins.is_some()];
    let count = tests.into_iter().filter(|is_there| *is_there).count();
    let Some(name) = name else {
        let told = format!("has no name, expected {HEADER_EXPECTED}");
        reader.add_mistake(item.mistake(told));
        return None;
    };
    if count != 1 {
        let told = format!("has {count} tests, expected {HEADER_EXPECTED}");
        reader.add_mistake(item.mistake(told));
        return None;
    }
    let name = reader.note(header_name(&name));
    let test = if let Some(present) = present {
        let present = reader.note(present.read(boolean, ""))?;
        if present {
            HeaderTest::Present
        } else {
            HeaderTest::Absent
        }
    } else if let Some(exact) = exact {
        HeaderTest::Exact(reader.note(header_text(&exact))?)
    } else {
        let begins = begins?;
        let start = reader.note(header_text(&begins))?;
        if start.is_empty() {
            reader.add_mistake(begins.mistake("is empty, expected present = true in its place"));
            return None;
        }
        HeaderTest::Prefix(start)
    };
    Some(HeaderRule { name: name?, test })
}

/// Reads the name of a header, and converts it to lower case.
pub(super) fn header_name(item: &Item<'_>) -> Result<HeaderName, Mistake> {
    const EXPECTED: &str = "the name of a field such as \"x-canary\"";
    let written = item.read(|value| text(value, EXPECTED), "")?;
    HeaderName::from_bytes(written.as_bytes())
        .map_err(|_| item.mistake(format!("found {written:?}, expected {EXPECTED}")))
}

/// Reads a header's value that can be sent.
pub(super) fn header_text(item: &Item<'_>) -> Result<String, Mistake> {
    const EXPECTED: &str = "a text of visible ASCII characters and blanks, none at its ends";
    let fits = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let written = item.value.as_str();
    let written = written.filter(|text| text.bytes().all(fits) && text.trim() == *text);
    // The value may be a secret, so it is not repeated.
    let told = || item.mistake(format!("is no value of a field, expected {EXPECTED}"));
    written.map(str::to_owned).ok_or_else(told)
}
