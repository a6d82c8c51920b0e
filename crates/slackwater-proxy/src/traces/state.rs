//! W3C Trace Context, the field `tracestate`: data of the tracing systems on a request's path.
//!
//! Slackwater has no data of its own in it, and forwards it. Several fields are one list. An
//! invalid list is not forwarded, and one that is longer than every recipient must accept is
//! shortened as the recommendation specifies.

use http::header::{HeaderName, HeaderValue};
use slackwater_http::Fields;

pub(super) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

const MEMBERS_MAX: usize = 32;

/// Length that every recipient must accept; a longer list is shortened to it.
const LENGTH_MAX: usize = 512;

/// Longer members are removed first when a list is shortened.
const REMOVED_FIRST_ABOVE: usize = 128;

const KEY_MAX: usize = 256;
const VALUE_MAX: usize = 256;

/// Combines all of a request's fields into one; `None` if there is none, or if the list is invalid.
pub(super) fn combined(headers: &Fields) -> Option<HeaderValue> {
    let mut members: Vec<&str> = Vec::new();
    for field in headers.get_all(TRACESTATE) {
        let field = core::str::from_utf8(field.as_bytes()).ok()?;
        for member in field.split(',') {
            let member = member.trim_matches([' ', '\t']);
            // A list may have empty members, which are ignored.
            if member.is_empty() {
                continue;
            }
            let key = key_of(member)?;
            let is_known = members.iter().any(|other| key_of(other) == Some(key));
            if is_known || members.len() == MEMBERS_MAX {
                return None;
            }
            members.push(member);
        }
    }
    shorten(&mut members);
    if members.is_empty() {
        return None;
    }
    HeaderValue::try_from(members.join(",")).ok()
}

/// Returns the key of a member if the member is valid.
fn key_of(member: &str) -> Option<&str> {
    let (key, value) = member.split_once('=')?;
    let is_first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_further = |byte: u8| is_first(byte) || b"_-*/@".contains(&byte);
    let is_value = |byte: u8| matches!(byte, b' '..=b'~') && byte != b',' && byte != b'=';
    let is_valid = (1..=KEY_MAX).contains(&key.len())
        && key.bytes().next().is_some_and(is_first)
        && key.bytes().all(is_further)
        && (1..=VALUE_MAX).contains(&value.len())
        && value.bytes().all(is_value);
    is_valid.then_some(key)
}

/// Shortens the list until it fits: long members are removed first, then the last ones. The most
/// recent writer is first in the list.
fn shorten(members: &mut Vec<&str>) {
    let length = |members: &[&str]| {
        let commas = members.len().saturating_sub(1);
        members.iter().map(|member| member.len()).sum::<usize>() + commas
    };
    while length(members) > LENGTH_MAX {
        let long = members
            .iter()
            .rposition(|member| member.len() > REMOVED_FIRST_ABOVE);
        members.remove(long.unwrap_or(members.len() - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str]) -> Option<String> {
        let mut headers = Fields::new();
        for field in fields {
            headers.append(TRACESTATE, HeaderValue::from_str(field).expect("a value"));
        }
        combined(&headers).map(|value| value.to_str().expect("text").to_owned())
    }

    #[test]
    fn several_fields_are_one_list_in_their_order() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["", " , "]), None);
        let one = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";
        assert_eq!(of(&[one]).as_deref(), Some(one));
        assert_eq!(
            of(&["a=1,\t b=2 ", "", "t@s=3"]).as_deref(),
            Some("a=1,b=2,t@s=3")
        );
        assert_eq!(of(&["a= x y"]).as_deref(), Some("a= x y"));
    }

    #[test]
    fn one_invalid_member_invalidates_the_list() {
        let long = |length| "a".repeat(length);
        for wrong in [
            "a".to_owned(),
            "=1".to_owned(),
            "a=".to_owned(),
            "A=1".to_owned(),
            "_a=1".to_owned(),
            "a b=1".to_owned(),
            "a=1=2".to_owned(),
            "a=1,a=2".to_owned(),
            format!("{}=1", long(257)),
            format!("a={}", long(257)),
        ] {
            assert_eq!(of(&["ok=1", &wrong]), None, "{wrong}");
        }
        let bounds = format!("{}=1", long(256));
        assert_eq!(of(&[&bounds]).as_deref(), Some(&*bounds));
        let bounds = format!("a={}", long(256));
        assert_eq!(of(&[&bounds]).as_deref(), Some(&*bounds));
        let mut headers = Fields::new();
        headers.append(
            TRACESTATE,
            HeaderValue::from_bytes(b"a=\xc3\xa4").expect("a value"),
        );
        assert_eq!(combined(&headers), None);
    }

    #[test]
    fn there_are_32_members_at_most() {
        let members: Vec<_> = (0..33).map(|number| format!("k{number}=1")).collect();
        let fits = members[..32].join(",");
        assert_eq!(of(&[&fits]).as_deref(), Some(&*fits));
        assert_eq!(of(&[&members.join(",")]), None);
    }

    #[test]
    fn too_long_list_drops_long_members_first_and_then_the_last() {
        let of_length =
            |key: &str, length: usize| format!("{key}={}", "v".repeat(length - key.len() - 1));
        let (short, long) = (of_length("s", 128), of_length("l", 129));
        // 128 + 1 + 129 + 1 + 128 + 1 + 124 is 512, and one more is too long.
        let fits = [&*short, &long, &of_length("t", 128), &of_length("u", 124)].join(",");
        assert_eq!(of(&[&fits]).map(|list| list.len()), Some(512));
        let over = [&*short, &long, &of_length("t", 128), &of_length("u", 125)].join(",");
        let kept = of(&[&over]).expect("valid");
        assert_eq!(
            kept,
            [&*short, &of_length("t", 128), &of_length("u", 125)].join(",")
        );
        let only_short: Vec<_> = (0..5)
            .map(|number| of_length(&format!("k{number}"), 120))
            .collect();
        assert_eq!(
            of(&[&only_short.join(",")]).as_deref(),
            Some(&*only_short[..4].join(","))
        );
    }
}
