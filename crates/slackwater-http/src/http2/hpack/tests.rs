//! Blocks of whole connections: those of the RFC, and random ones.

mod reads;
mod writes;

use super::decoder::Decoder;
use super::encoder::Encoder;
use super::field::Field;
use super::table::Kind;
use super::{Broken, TABLE_BYTES, static_table};
use crate::fields::FieldValue;
use bytes::BytesMut;
use http::header::{HeaderName, HeaderValue};
use proptest::prelude::*;

/// A field as text.
fn text(field: &Field) -> String {
    match field {
        Field::Authority(authority) => format!(":authority: {authority}"),
        Field::Method(method) => format!(":method: {method}"),
        Field::Path(path) => format!(":path: {path}"),
        Field::Scheme(scheme) => format!(":scheme: {scheme}"),
        Field::Status(status) => format!(":status: {}", status.as_str()),
        Field::Header(name, value) => {
            format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
        }
        Field::Bad(_, fault) => format!("{fault:?}"),
    }
}

fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Field>, Broken> {
    let mut fields = Vec::new();
    decoder.decode(block, |field, _| {
        fields.push(field.into_owned());
        Ok::<(), Broken>(())
    })?;
    Ok(fields)
}

fn texts(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
    let fields = fields(decoder, block).expect("a block");
    fields.iter().map(text).collect()
}

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|digit| *digit != b' ').collect();
    (digits.chunks(2))
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).expect("text"), 16).expect("hex"))
        .collect()
}

#[test]
fn static_table_matches_rfc_7541() {
    let table = include_str!("static_table.txt");
    let mut decoder = Decoder::new();
    let mut index = 0;
    for (line, octet) in table.lines().zip(0x81..) {
        index += 1;
        let only_name = line.strip_suffix(':').map(|name| (name, ""));
        let (name, value) = only_name.or(line.split_once(": ")).expect(line);
        let known = static_table::known_at(index).expect(line);
        assert_eq!(known.name_length, name.len(), "{line}");
        assert_eq!(known.size, name.len() + value.len() + 32, "{line}");
        if name == "transfer-encoding" || name == ":authority" {
            let read = texts(&mut decoder, &[octet]);
            assert!(read[0].starts_with("Malformed"), "{read:?}");
            continue;
        }
        assert_eq!(texts(&mut decoder, &[octet]), [format!("{name}: {value}")]);
        if !name.starts_with(':') && name != "from" {
            assert_eq!(static_table::index_of(name.as_bytes()), index, "{line}");
        }
    }
    assert_eq!(index, static_table::LENGTH);
    assert_eq!(static_table::index_of(b"x-other"), 0);
}

/// Names and values, some from a small set and some from a large one.
fn any_field() -> impl Strategy<Value = (HeaderName, HeaderValue)> {
    let name = prop_oneof![
        "[a-d]",
        "x-[a-z0-9]{1,40}",
        Just("content-type".to_owned()),
        Just("cookie".to_owned())
    ];
    let value = prop_oneof!["[a-c]", "[!-~]{0,40}", "[!-~]{0,2000}"];
    (name, value).prop_map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        (name, HeaderValue::from_str(&value).expect("a value"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn encoded_blocks_round_trip(
        pool in prop::collection::vec(any_field(), 1..30),
        blocks in prop::collection::vec(
            (prop::option::of(prop_oneof![Just(0_u32), 0..6000_u32]), prop::collection::vec(0..30_usize, 0..20)),
            1..40,
        ),
    ) {
        let mut encoder = Encoder::new();
        let mut decoder = Decoder::new();
        for (size, chosen) in blocks {
            if let Some(size) = size {
                encoder.set_table_bytes_max(size);
            }
            let sent: Vec<_> = chosen.iter().map(|at| pool[at % pool.len()].clone()).collect();
            let mut out = BytesMut::new();
            encoder.encode(Kind::Head, &mut out, |block| {
                for (name, value) in &sent {
                    block.header(name.as_ref(), value.value());
                }
            });
            let read = fields(&mut decoder, &out).expect("a block");
            let sent: Vec<_> = sent.into_iter().map(|(name, value)| Field::Header(name, value)).collect();
            prop_assert_eq!(read, sent);
            prop_assert!(decoder.bytes() <= TABLE_BYTES);
        }
    }

    #[test]
    fn arbitrary_blocks_never_panic_and_memory_is_bounded(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20)) {
        let mut decoder = Decoder::new();
        for block in blocks {
            let _ = fields(&mut decoder, &block);
            prop_assert!(decoder.bytes() <= TABLE_BYTES);
        }
    }
}
