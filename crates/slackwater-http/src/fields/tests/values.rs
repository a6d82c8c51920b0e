//! Values, and what both types of fields have in common.

use super::*;

#[test]
fn octets_are_a_value_where_they_are_one_of_http() {
    for octet in 0..=u8::MAX {
        for octets in [vec![octet], vec![b'a', octet, b'b']] {
            let value = Value::from_bytes(&octets);
            let theirs = HeaderValue::from_bytes(&octets);
            assert_eq!(
                value.map(Value::as_bytes),
                theirs.ok().as_ref().map(HeaderValue::as_bytes)
            );
        }
    }
}

#[test]
fn only_ascii_values_are_text() {
    for octet in 0..=u8::MAX {
        let octets = [b'a', octet, b'b'];
        let Ok(usual) = HeaderValue::from_bytes(&octets) else {
            continue;
        };
        let value = usual.value();
        assert_eq!(value.to_str().ok(), usual.to_str().ok(), "{octet}");
        assert_eq!(value.as_bytes(), octets);
    }
    let text = |text: &'static [u8]| Value::of(text, false).to_str();
    assert_eq!(text(b""), Ok(""));
    assert_eq!(text(b"a\tb ~"), Ok("a\tb ~"));
    assert_eq!(text("\u{e9}".as_bytes()), Err(NotText));
    assert_eq!(text(b"a\x80"), Err(NotText));
    assert_eq!(text(b"\xff"), Err(NotText));
    assert_eq!(NotText.to_string(), "the value is not ASCII");
}

#[test]
fn values_are_compared_octet_by_octet() {
    let value = Value::of(b"ab", false);
    assert!(value == "ab" && value == *"ab" && value == b"ab" && value == *b"ab");
    assert!(value == b"ab"[..] && value == vec![b'a', b'b']);
    assert_eq!(value, HeaderValue::from_static("ab"));
    // Whether it is sensitive does not count.
    assert_eq!(value, Value::of(b"ab", true));
    for other in ["", "a", "abc", "AB", "ab "] {
        assert_ne!(value, other);
    }
    assert!(Value::of(b"", false).is_empty() && !value.is_empty());
    assert_eq!(value.as_ref(), b"ab");
}

#[test]
fn sensitive_values_stay_sensitive_and_are_not_printed() {
    let mut fields = Fields::new();
    fields.append("a", secret("hidden"));
    fields.append("b", "a\"\t\u{7e}");
    let value = fields.get("a").expect("a value");
    assert!(value.is_sensitive() && value == "hidden");
    let owned = HeaderValue::from(value);
    assert!(owned.is_sensitive() && owned == "hidden");
    fields.insert(
        "c",
        value
            .value()
            .to_str()
            .map(|_| secret("hidden"))
            .expect("text"),
    );
    let mut other = Fields::new();
    other.append("d", fields.get("a").expect("a value"));
    assert!(other.get("d").expect("a value").is_sensitive());
    let printed = format!("{fields:?} {other:?}");
    assert!(!printed.contains("hidden"), "{printed}");
    assert!(printed.contains("Sensitive") && printed.contains("\"b\""));
    // The line that is sent has it.
    assert_eq!(written(&other, &[]), ["d: hidden\r\n"]);
    // A value that is set again is as sensitive as the new one.
    other.insert("d", "open");
    assert!(!other.get("d").expect("a value").is_sensitive());
}

#[test]
fn values_of_any_octets_are_kept() {
    let octets: Vec<u8> = (0..=u8::MAX)
        .filter(|octet| *octet == b'\t' || !octet.is_ascii_control())
        .collect();
    let value = HeaderValue::from_bytes(&octets).expect("a value");
    let fields = Fields::from_iter([("a", &value)]);
    let kept = fields.get("a").expect("a value");
    assert_eq!(kept, octets);
    assert_eq!(HeaderValue::from(kept), value);
    let block = [b"a: x", &octets[..], b"x\r\n\r\n"].concat();
    let mut read = Fields::new();
    append_lines(&mut read, &block).expect("a field");
    let expected = [b"x", &octets[..], b"x"].concat();
    assert_eq!(read.get("a").expect("a value"), expected);
}

/// The answers of fields after each of some operations. The order of different names is not part of
/// them, because `HeaderMap` has its own.
fn answers<F: FieldMap>(mut fields: F) -> Vec<String> {
    let [a, b, c] = ["a", "b", "c"].map(HeaderName::from_static);
    let text = HeaderValue::from_static;
    let mut answers = Vec::new();
    let mut answer = |fields: &F| {
        let owned = |value: Value<'_>| (value.as_bytes().to_vec(), value.is_sensitive());
        let mut each: Vec<_> = (fields.each())
            .map(|(name, value)| (name.to_owned(), owned(value)))
            .collect();
        each.sort_by(|one, other| one.0.cmp(&other.0));
        answers.push(format!("{each:?}"));
        for name in [&a, &b, &c] {
            let all: Vec<_> = fields.all(name).map(owned).collect();
            answers.push(format!("{:?} {all:?}", fields.first(name).map(owned)));
        }
    };
    answer(&fields);
    assert!(fields.add(&a, &text("1")));
    assert!(fields.add(&b, &text("2")));
    assert!(fields.add(&a, &secret("3")));
    answer(&fields);
    fields.set(&b, text("4"));
    answer(&fields);
    fields.set(&a, secret("5"));
    answer(&fields);
    fields.set(&c, text(""));
    assert!(fields.add(&c, &HeaderValue::from_bytes(b"\xe9").expect("a value")));
    answer(&fields);
    let unset = [&a, &c, &c].map(|name| fields.unset(name));
    assert_eq!(unset, [true, true, false]);
    answer(&fields);
    answers
}

#[test]
fn both_types_of_fields_give_the_same_answers() {
    let answers_of_map = answers(HeaderMap::new());
    assert_eq!(answers(Fields::new()), answers_of_map);
    assert_eq!(answers_of_map.len(), 6 * 4);
}
