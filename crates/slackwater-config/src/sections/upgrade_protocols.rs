//! The key `upgrade_protocols`: to which protocols a client's HTTP/1.1 connection may change.

use super::show::quoted;
use crate::toml_reader::values::text;
use crate::toml_reader::{Item, Mistake, Reader, Remark, Severity};
use core::fmt::{self, Write};
use http::HeaderValue;

const MOST: usize = 16;
const DEFAULT: &str = "websocket";
const EXPECTED: &str = "the name of a protocol such as \"websocket\"";

/// The list; without the key, WebSocket alone. `over_http2` names who speaks HTTP/2, over which none of them is to be had:
/// worth a remark where the list was written down.
pub(super) fn read_upgrade_protocols(
    reader: &mut Reader<'_>,
    over_http2: Option<&str>,
    remarks: &mut Vec<Remark>,
) -> Vec<HeaderValue> {
    let Some(items) = reader.take_list("upgrade_protocols") else {
        return vec![HeaderValue::from_static(DEFAULT)];
    };
    if let Some(item) = items.get(MOST) {
        reader.add_mistake(item.mistake(format!("is one too many, expected at most {MOST}")));
    }
    if let (Some(item), Some(whose)) = (items.first(), over_http2) {
        remarks.push(Remark {
            severity: Severity::Warning,
            about: item.mistake(format!(
                "does nothing for {whose} HTTP/2: a request for it is answered with 501 there"
            )),
        });
    }
    let items = items.iter().take(MOST);
    items
        .filter_map(|item| reader.note(read_protocol(item)))
        .collect()
}

fn read_protocol(item: &Item<'_>) -> Result<HeaderValue, Mistake> {
    let name = item.read(|value| text(value, EXPECTED), EXPECTED)?;
    // Requests within such a connection would pass by every rule of ours.
    let base = name.split('/').next().unwrap_or_default();
    if ["h2c", "http", "tls"].contains(&base.to_ascii_lowercase().as_str()) {
        return Err(item.mistake(format!(
            "found {name:?}: requests would go on unseen in it; expected another protocol, such as \"websocket\""
        )));
    }
    // RFC 9110 §7.8: a token, and perhaps a version behind a slash.
    let mut parts = name.splitn(2, '/');
    let is_name = parts.all(|part| !part.is_empty() && part.bytes().all(is_token));
    (HeaderValue::from_str(name).ok().filter(|_| is_name))
        .ok_or_else(|| item.mistake(format!("found {name:?}, expected {EXPECTED}")))
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

pub(super) fn write_upgrade_protocols(to: &mut String, protocols: &[HeaderValue]) -> fmt::Result {
    let names = protocols.iter().filter_map(|name| name.to_str().ok());
    let names: Vec<_> = names.map(quoted).collect();
    writeln!(to, "upgrade_protocols = [{}]\n", names.join(", "))
}
