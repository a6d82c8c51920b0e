//! Fields after each operation, beside a simple model of them and beside `http::HeaderMap`.

use super::*;

mod model;
mod values;

/// Reads lines that end with the empty one.
fn read(block: &str) -> Fields {
    let mut fields = Fields::new();
    append_lines(&mut fields, block.as_bytes()).expect(block);
    fields
}

fn append_lines(fields: &mut Fields, block: &[u8]) -> Result<(), BadLine> {
    fields.read(block, 100, |_, _| Ok(()))
}

fn pairs(fields: &Fields) -> Vec<(&str, &str)> {
    (fields.iter())
        .map(|(name, value)| (name_of(name), str_of(value)))
        .collect()
}

fn name_of(name: &[u8]) -> &str {
    core::str::from_utf8(name).expect("ASCII")
}

fn names(fields: &Fields) -> Vec<&str> {
    fields.keys().map(name_of).collect()
}

fn str_of(value: Value<'_>) -> &str {
    value.to_str().expect("ASCII")
}

fn all<'f>(fields: &'f Fields, name: &'f str) -> Vec<&'f str> {
    fields.get_all(name).map(str_of).collect()
}

/// The texts with which the fields are written; a call without text is not counted.
fn written(fields: &Fields, left_out: &[&str]) -> Vec<String> {
    let mut texts = Vec::new();
    fields.write_without(left_out, |lines| {
        if !lines.is_empty() {
            texts.push(String::from_utf8(lines.to_vec()).expect("text"));
        }
    });
    texts
}

fn secret(text: &'static str) -> HeaderValue {
    let mut value = HeaderValue::from_static(text);
    value.set_sensitive(true);
    value
}

#[test]
fn one_pass_finds_the_first_values_of_several_names() {
    let fields = read("b: 1\r\na: 2\r\nb: 3\r\nlong-name:\r\n\r\n");
    let found = fields.get_each(["a", "b", "c", "long-name"]);
    let found = found.map(|value| value.map(str_of));
    assert_eq!(found, [Some("2"), Some("1"), None, Some("")]);
    assert!(Fields::new().get_each(["a"])[0].is_none());
}

#[test]
fn fields_keep_their_order() {
    let mut fields = Fields::new();
    for (name, value) in [("b", "1"), ("a", "2"), ("b", "3"), ("c", "")] {
        fields.append(name, value);
    }
    let expected = [("b", "1"), ("a", "2"), ("b", "3"), ("c", "")];
    assert_eq!(pairs(&fields), expected);
    assert_eq!(names(&fields), ["b", "a", "b", "c"]);
    assert_eq!((fields.len(), fields.is_empty()), (4, false));
    let backwards: Vec<_> = fields.iter().rev().map(|(name, _)| name_of(name)).collect();
    assert_eq!(backwards, ["c", "b", "a", "b"]);
    assert_eq!(pairs(&read("b: 1\r\na:2\r\nB:  3\r\nc:\r\n\r\n")), expected);
}

#[test]
fn values_are_found_by_name() {
    let fields = Fields::from_iter([("b", "1"), ("a", "2"), ("b", "3")]);
    assert_eq!(fields.get("b").expect("a value"), "1");
    assert_eq!(fields.get("a").expect("a value"), "2");
    assert_eq!(all(&fields, "b"), ["1", "3"]);
    assert_eq!(all(&fields, "a"), ["2"]);
    let last = fields.get_all("b").next_back().expect("a value");
    assert_eq!(last, "3");
    assert!(fields.contains_key("a") && fields.contains_key(HeaderName::from_static("b")));
    for absent in ["", "c", "ab", "b:", "b: 1"] {
        assert!(fields.get(absent).is_none(), "{absent:?}");
        assert!(!fields.contains_key(absent), "{absent:?}");
        assert_eq!(all(&fields, absent), [""; 0], "{absent:?}");
    }
    assert!(Fields::new().get("a").is_none());
}

#[test]
fn all_types_of_names_and_values_are_appended() {
    let (name, value) = (HeaderName::from_static("a"), HeaderValue::from_static("1"));
    let mut fields = Fields::new();
    fields.append("a", "1");
    fields.append(&name, &value);
    fields.append(name.clone(), value.clone());
    let other = fields.clone();
    for borrowed in other.get_all("a") {
        fields.append(&name, borrowed);
    }
    fields.extend([("a", "1")]);
    assert_eq!(pairs(&fields), [("a", "1"); 7]);
    fields.insert(&name, other.get("a").expect("a value"));
    assert_eq!(pairs(&fields), [("a", "1")]);
}

#[test]
fn insert_replaces_all_fields_and_keeps_the_place_of_the_first() {
    let before = "a: 1\r\nb: 2\r\nc: 3\r\nb: 4\r\nb: 5\r\nd: 6\r\n\r\n";
    let mut fields = read(before);
    fields.insert("b", "longer than before");
    let expected = [
        ("a", "1"),
        ("b", "longer than before"),
        ("c", "3"),
        ("d", "6"),
    ];
    assert_eq!(pairs(&fields), expected);
    fields.insert("b", "");
    assert_eq!(all(&fields, "b"), [""]);
    assert_eq!(fields.len(), 4);
    // A name that is new is appended.
    fields.insert("e", "7");
    assert_eq!(fields.iter().next_back().expect("a field").0, b"e");
    assert_eq!(fields.len(), 5);
    let mut first = read(before);
    first.insert("a", "9");
    assert_eq!(pairs(&first)[0], ("a", "9"));
    assert_eq!(first.len(), 6);
}

#[test]
fn remove_removes_all_fields_with_a_name() {
    let mut fields = read("a: 1\r\nb: 2\r\na: 3\r\nab: 4\r\n\r\n");
    assert!(fields.remove("a"));
    assert_eq!(pairs(&fields), [("b", "2"), ("ab", "4")]);
    assert!(!fields.remove("a") && !fields.remove("c"));
    assert_eq!(fields.len(), 2);
    assert!(fields.remove("b") && fields.remove(HeaderName::from_static("ab")));
    assert!(fields.is_empty());
    // A name that was removed can be set again, at the end.
    fields.append("b", "5");
    fields.append("a", "6");
    assert_eq!(pairs(&fields), [("b", "5"), ("a", "6")]);
}

#[test]
fn take_returns_the_first_value_and_removes_all() {
    let mut fields = read("a: 1\r\nb: 2\r\na: 3\r\n\r\n");
    fields.append("c", secret("4"));
    assert_eq!(fields.take("a").expect("a value"), "1");
    assert_eq!(pairs(&fields), [("b", "2"), ("c", "4")]);
    assert_eq!(fields.take("a"), None);
    let taken = fields.take("c").expect("a value");
    assert!(taken == "4" && taken.is_sensitive());
    assert!(!fields.take("b").expect("a value").is_sensitive());
    assert!(fields.is_empty());
}

#[test]
fn more_fields_than_a_map_has_room_for_are_no_map() {
    let fields = |count: u32| {
        let names = (0..count).map(|number| {
            let name = format!("x-{number}");
            HeaderName::from_bytes(name.as_bytes()).expect("a name")
        });
        names.map(|name| (name, "1")).collect::<Fields>()
    };
    assert_eq!(
        fields(4_096).to_map().expect("the most of a head").len(),
        4_096
    );
    assert_eq!(fields(40_000).to_map(), None);
}

#[test]
fn long_text_gives_back_what_it_has_reserved() {
    let long = HeaderValue::from_bytes(&[b'x'; 3 * LONG_BYTES]).expect("a value");
    let mut fields = Fields::new();
    for name in ["a", "b", "c"] {
        fields.append(name, &long);
    }
    fields.shrink_long();
    assert_eq!(fields.text.capacity(), fields.text.len());
    assert_eq!(fields.get("c").map(HeaderValue::from), Some(long));
    let mut short = Fields::new();
    short.append("a", "1");
    let before = short.text.capacity();
    short.shrink_long();
    assert_eq!(short.text.capacity(), before);
}

#[test]
fn retain_keeps_what_its_function_chooses() {
    let mut fields = read("a: 1\r\nb: 2\r\na: 3\r\nc: 4\r\n\r\n");
    let mut seen = Vec::new();
    fields.retain(|name, value| {
        seen.push(format!("{}{}", name_of(name), str_of(value)));
        name != b"b" && value != "3"
    });
    assert_eq!(seen, ["a1", "b2", "a3", "c4"]);
    assert_eq!(pairs(&fields), [("a", "1"), ("c", "4")]);
    fields.retain(|_, _| true);
    assert_eq!(fields.len(), 2);
    fields.retain(|_, _| false);
    assert!(fields.is_empty());
}

#[test]
fn clear_keeps_the_space_and_nothing_else() {
    let mut fields = read("cookie: session=secret\r\nA:  1\r\n\r\n");
    fields.insert("cookie", "another");
    let capacity = fields.capacity();
    assert!(capacity > 0);
    fields.clear();
    assert_eq!(fields.capacity(), capacity);
    assert_eq!((fields.len(), fields.is_empty()), (0, true));
    assert!(fields.get("cookie").is_none() && fields.iter().next().is_none());
    assert_eq!(written(&fields, &[]), [""; 0]);
    assert_eq!(fields, Fields::new());
    append_lines(&mut fields, b"b: 2\r\n\r\n").expect("a field");
    assert_eq!(pairs(&fields), [("b", "2")]);
    assert_eq!(written(&fields, &[]), ["b: 2\r\n"]);
    for _ in 0..100 {
        fields.clear();
        append_lines(&mut fields, b"b:2\r\n\r\n").expect("a field");
    }
    assert_eq!(fields.capacity(), capacity);
    assert_eq!(Fields::new().capacity(), 0);
}

#[test]
fn clone_is_independent() {
    let mut fields = read("a: 1\r\nb: 2\r\n\r\n");
    let mut clone = fields.clone();
    assert_eq!(fields, clone);
    fields.insert("a", "3");
    clone.remove("b");
    assert_eq!(pairs(&fields), [("a", "3"), ("b", "2")]);
    assert_eq!(pairs(&clone), [("a", "1")]);
    fields.clear();
    assert_eq!(pairs(&clone), [("a", "1")]);
}

#[test]
fn equal_fields_have_the_same_names_and_values_in_the_same_order() {
    let fields = Fields::from_iter([("a", "1"), ("b", "2"), ("a", "3")]);
    // How the text came to be does not matter.
    let mut other = read("x: 0\r\nA:1 \r\nb:0\r\na: \t3\r\n\r\n");
    other.remove("x");
    other.insert("b", "2");
    assert_eq!(fields, other);
    for unequal in [
        &[][..],
        &[("a", "1"), ("b", "2")],
        &[("a", "1"), ("b", "2"), ("a", "3"), ("a", "3")],
        &[("a", "1"), ("a", "3"), ("b", "2")],
        &[("a", "3"), ("b", "2"), ("a", "1")],
        &[("a", "1"), ("b", "2"), ("c", "3")],
        &[("a", "1"), ("b", "2"), ("a", "")],
    ] {
        assert_ne!(fields, unequal.iter().copied().collect(), "{unequal:?}");
    }
}

#[test]
fn map_of_http_has_the_same_fields() {
    let mut fields = read("a: 1\r\nb: \u{e9}\tx\r\na: 3\r\nc:\r\n\r\n");
    fields.append("d", secret("4"));
    let map = fields.to_map().expect("few");
    assert_eq!(map.len(), 5);
    let values: Vec<_> = map.get_all("a").iter().collect();
    assert_eq!(values, ["1", "3"]);
    assert_eq!(map["b"].as_bytes(), "\u{e9}\tx".as_bytes());
    assert_eq!(map["c"], "");
    assert!(map["d"].is_sensitive() && !map["c"].is_sensitive());
    // A map keeps the fields of each name together.
    let back = Fields::from(&map);
    assert_eq!(names(&back), ["a", "a", "b", "c", "d"]);
    assert_eq!(all(&back, "a"), ["1", "3"]);
    assert_eq!(back.get("b"), fields.get("b"));
    let is_sensitive: Vec<_> = back.iter().map(|(_, it)| it.is_sensitive()).collect();
    assert_eq!(is_sensitive, [false, false, false, false, true]);
    assert_eq!(back.to_map().expect("few"), map);
    assert_eq!(Fields::new().to_map().expect("few"), HeaderMap::new());
    assert!(Fields::from(&HeaderMap::new()).is_empty());
}

#[test]
fn lines_that_are_together_are_written_at_once() {
    let block = "a: 1\r\nb: 2\r\nc: 3\r\nd: 4\r\n";
    let fields = read(&format!("{block}\r\n"));
    assert_eq!(written(&fields, &[]), [block]);
    let appended = Fields::from_iter([("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]);
    assert_eq!(written(&appended, &[]), [block]);
    assert_eq!(written(&Fields::new(), &[]), [""; 0]);
    for (left_out, texts) in [
        (&["a"][..], &["b: 2\r\nc: 3\r\nd: 4\r\n"][..]),
        (&["b"], &["a: 1\r\n", "c: 3\r\nd: 4\r\n"]),
        (&["d"], &["a: 1\r\nb: 2\r\nc: 3\r\n"]),
        (&["b", "c"], &["a: 1\r\n", "d: 4\r\n"]),
        (&["a", "c"], &["b: 2\r\n", "d: 4\r\n"]),
        (&["a", "b", "c", "d"], &[]),
        (&["e"], &[block]),
    ] {
        assert_eq!(written(&fields, left_out), texts, "{left_out:?}");
    }
}

#[test]
fn lines_are_written_in_order_after_changes() {
    let mut fields = read("a: 1\r\nb: 2\r\nc: 3\r\n\r\n");
    fields.insert("b", "4");
    assert_eq!(written(&fields, &[]), ["a: 1\r\n", "b: 4\r\n", "c: 3\r\n"]);
    fields.remove("b");
    assert_eq!(written(&fields, &[]), ["a: 1\r\n", "c: 3\r\n"]);
    fields.append("d", "5");
    fields.append("e", "");
    let end = "d: 5\r\ne: \r\n";
    assert_eq!(written(&fields, &[]), ["a: 1\r\n", "c: 3\r\n", end]);
    fields.remove("c");
    fields.retain(|name, _| name != b"a");
    assert_eq!(written(&fields, &[]), [end]);
}

#[test]
fn lines_after_one_that_is_refused_are_not_written() {
    let mut fields = Fields::from_iter([("a", "1")]);
    let block = b"b: 2\r\nc : 3\r\nd: 4\r\n\r\n";
    assert_eq!(append_lines(&mut fields, block), Err(BadLine::Name));
    assert_eq!(written(&fields, &[]), ["a: 1\r\nb: 2\r\n"]);
}

#[test]
fn lines_are_written_in_one_form_whatever_was_read() {
    let fields = read("A: 1\r\nB:2\r\nC:  3 \t\r\nD:\r\nE: \r\nF: \t\r\ng: 7\r\n\r\n");
    let whole = "a: 1\r\nb: 2\r\nc: 3\r\nd: \r\ne: \r\nf: \r\ng: 7\r\n";
    let texts = written(&fields, &[]);
    assert_eq!(texts.concat(), whole);
    // Lines that were already in this form are not copied; those between them are together.
    assert_eq!(
        texts,
        [
            "a: 1\r\n",
            "b: 2\r\nc: 3\r\nd: \r\n",
            "e: \r\n",
            "f: \r\n",
            "g: 7\r\n"
        ]
    );
}

#[test]
fn lines_are_read_up_to_the_empty_one() {
    let mut fields = read("a: 1\r\n\r\nb: 2\r\n\r\n");
    assert_eq!(pairs(&fields), [("a", "1")]);
    append_lines(&mut fields, b"\r\n").expect("no field");
    append_lines(&mut fields, b"c:3\r\na: 4\r\n\r\n").expect("fields");
    assert_eq!(pairs(&fields), [("a", "1"), ("c", "3"), ("a", "4")]);
    for (block, bad) in [
        ("", BadLine::Name),
        ("a: 1\r\n", BadLine::Name),
        ("a: 1\r\n\r", BadLine::Name),
        ("a: 1\r\n\n", BadLine::Name),
        ("a: 1\r\n b\r\n\r\n", BadLine::Name),
        ("a: 1\r", BadLine::End),
        ("a: 1\r\nb: \0\r\n\r\n", BadLine::Value),
    ] {
        let read = append_lines(&mut Fields::new(), block.as_bytes());
        assert_eq!(read, Err(bad), "{block:?}");
    }
}

#[test]
fn number_of_fields_that_are_read_is_bounded() {
    let read = |lines: usize, fields_max| {
        let block = format!("{}\r\n", "a:b\r\n".repeat(lines));
        Fields::new().read::<BadLine>(block.as_bytes(), fields_max, |_, _| Ok(()))
    };
    for (lines, fields_max) in [(0, 0), (3, 3), (3, 4)] {
        assert_eq!(read(lines, fields_max), Ok(()), "{lines}, {fields_max}");
    }
    for (lines, fields_max) in [(1, 0), (4, 3), (100, 3)] {
        let bad = Err(BadLine::TooMany);
        assert_eq!(read(lines, fields_max), bad, "{lines}, {fields_max}");
    }
}

#[test]
fn each_field_is_passed_on_as_it_is_read() {
    let mut noted = Vec::new();
    let mut fields = Fields::new();
    let block = b"Host: x\r\nA:\t1 2 \r\nb:\r\nc: 3\r\n\r\n";
    let read = fields.read::<BadLine>(block, 10, |name, value| {
        noted.push((name.to_vec(), value.to_vec()));
        if name == b"b" {
            return Err(BadLine::Value);
        }
        Ok(())
    });
    // The error of the function ends it.
    assert_eq!(read, Err(BadLine::Value));
    let expected = [("host", "x"), ("a", "1 2"), ("b", "")]
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    assert_eq!(noted, expected);
}
