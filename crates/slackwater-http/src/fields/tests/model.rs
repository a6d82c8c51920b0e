//! Any operations, on `Fields` and on a list of names and values.

use super::*;
use proptest::prelude::*;
use proptest::sample::select;

/// Names of which some begin with others, or have the same length.
const NAMES: &[&str] = &["a", "b", "ab", "abc", "x-long-name"];

type Model = Vec<(String, Vec<u8>)>;

#[derive(Clone, Debug)]
enum Step {
    Append(&'static str, HeaderValue),
    Insert(&'static str, HeaderValue),
    Remove(&'static str),
    Take(&'static str),
    /// Removes the values that begin with an octet below this one.
    Retain(u8),
    /// Lines: a name, whether it is sent in upper case, and a value with white space around it.
    Read(Vec<(&'static str, bool, &'static str, HeaderValue, &'static str)>),
    Clear,
    Clone,
}

fn value() -> impl Strategy<Value = HeaderValue> {
    let octet = prop_oneof![4 => b' '..=b'~', 1 => 0x80..=0xff_u8, 1 => Just(b'\t')];
    prop::collection::vec(octet, 0..20)
        .prop_map(|octets| HeaderValue::from_bytes(&octets).expect("a value"))
}

fn step() -> impl Strategy<Value = Step> {
    let name = || select(NAMES);
    let space = || select(&["", " ", "\t", "  ", " \t "][..]);
    let line = (name(), any::<bool>(), space(), value(), space());
    prop_oneof![
        4 => (name(), value()).prop_map(|(name, value)| Step::Append(name, value)),
        3 => (name(), value()).prop_map(|(name, value)| Step::Insert(name, value)),
        2 => name().prop_map(Step::Remove),
        2 => name().prop_map(Step::Take),
        1 => any::<u8>().prop_map(Step::Retain),
        3 => prop::collection::vec(line, 0..5).prop_map(Step::Read),
        1 => Just(Step::Clear),
        1 => Just(Step::Clone),
    ]
}

fn apply(step: Step, fields: &mut Fields, model: &mut Model) {
    let first_of = |model: &Model, name: &str| {
        let found = model.iter().find(|field| field.0 == name);
        found.map(|field| field.1.clone())
    };
    match step {
        Step::Append(name, value) => {
            fields.append(name, &value);
            model.push((name.to_owned(), value.as_bytes().to_vec()));
        }
        Step::Insert(name, value) => {
            fields.insert(name, &value);
            let value = value.as_bytes().to_vec();
            match model.iter().position(|field| field.0 == name) {
                Some(at) => {
                    model[at].1 = value;
                    let mut index = 0;
                    model.retain(|field| {
                        index += 1;
                        index <= at + 1 || field.0 != name
                    });
                }
                None => model.push((name.to_owned(), value)),
            }
        }
        Step::Remove(name) => {
            assert_eq!(fields.remove(name), first_of(model, name).is_some());
            model.retain(|field| field.0 != name);
        }
        Step::Take(name) => {
            let taken = fields.take(name).map(|value| value.as_bytes().to_vec());
            assert_eq!(taken, first_of(model, name));
            model.retain(|field| field.0 != name);
        }
        Step::Retain(least) => {
            let is_kept = |value: &[u8]| value.first().is_none_or(|first| *first >= least);
            fields.retain(|_, value| is_kept(value.as_bytes()));
            model.retain(|field| is_kept(&field.1));
        }
        Step::Read(lines) => {
            let mut block = Vec::new();
            for (name, is_upper, before, value, after) in lines {
                let sent = if is_upper {
                    name.to_ascii_uppercase()
                } else {
                    name.to_owned()
                };
                for part in [&sent, ":", before] {
                    block.extend_from_slice(part.as_bytes());
                }
                block.extend_from_slice(value.as_bytes());
                block.extend_from_slice(after.as_bytes());
                block.extend_from_slice(b"\r\n");
                model.push((name.to_owned(), value.as_bytes().trim_ascii().to_vec()));
            }
            block.extend_from_slice(b"\r\n");
            assert_eq!(append_lines(fields, &block), Ok(()));
        }
        Step::Clear => {
            fields.clear();
            model.clear();
        }
        Step::Clone => *fields = fields.clone(),
    }
}

fn check(fields: &Fields, model: &Model) {
    let octets = |value: Value<'_>| value.as_bytes().to_vec();
    let owned = |(name, value): (&[u8], Value<'_>)| (name_of(name).to_owned(), octets(value));
    assert_eq!(&fields.iter().map(owned).collect::<Model>(), model);
    let backwards: Model = fields.iter().rev().map(owned).collect();
    assert!(backwards.iter().eq(model.iter().rev()));
    assert_eq!(fields.len(), model.len());
    assert_eq!(fields.is_empty(), model.is_empty());
    assert!(
        fields
            .keys()
            .eq(model.iter().map(|field| field.0.as_bytes()))
    );
    for name in NAMES {
        let named = || model.iter().filter(|field| field.0 == **name);
        let values: Vec<_> = named().map(|field| field.1.clone()).collect();
        assert_eq!(fields.get(*name).map(octets).as_ref(), values.first());
        assert_eq!(
            fields.get_all(*name).map(octets).collect::<Vec<_>>(),
            values
        );
        assert_eq!(fields.contains_key(*name), !values.is_empty());
    }
    for left_out in [&[][..], &["b"]] {
        let (mut lines, mut expected) = (Vec::new(), Vec::new());
        fields.write_without(left_out, |part| lines.extend_from_slice(part));
        for (name, value) in model.iter().filter(|field| !left_out.contains(&&*field.0)) {
            expected.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        assert_eq!(lines, expected);
    }
    let mut map = HeaderMap::new();
    for (name, value) in model {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        map.append(name, HeaderValue::from_bytes(value).expect("a value"));
    }
    assert_eq!(fields.to_map().expect("few"), map);
    assert_eq!(Fields::from(&map).to_map().expect("few"), map);
}

proptest! {
    #[test]
    fn any_operations_agree_with_a_list_of_fields(steps in prop::collection::vec(step(), 0..30)) {
        let (mut fields, mut model) = (Fields::new(), Model::new());
        for step in steps {
            apply(step, &mut fields, &mut model);
            check(&fields, &model);
        }
    }
}
