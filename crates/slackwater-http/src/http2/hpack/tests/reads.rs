//! Blocks that are decoded, and those that cannot be.

use super::super::decoder::Decoder;
use super::super::field::{Fault, Field};
use super::{fields, octets, text, texts};

/// Decodes blocks of one connection. Checks the fields of each, and the size of the table after it.
fn check(blocks: &[(&str, &[&str], usize)]) {
    let mut decoder = Decoder::new();
    for (block, meant, bytes) in blocks {
        assert_eq!(texts(&mut decoder, &octets(block)), *meant, "{block}");
        assert_eq!(decoder.bytes(), *bytes, "{block}");
    }
}

const FIRST: &[&str] = &[
    ":method: GET",
    ":scheme: http",
    ":path: /",
    ":authority: www.example.com",
];
const SECOND: &[&str] = &[
    ":method: GET",
    ":scheme: http",
    ":path: /",
    ":authority: www.example.com",
    "cache-control: no-cache",
];
const THIRD: &[&str] = &[
    ":method: GET",
    ":scheme: https",
    ":path: /index.html",
    ":authority: www.example.com",
    "custom-key: custom-value",
];
const REDIRECT: &[&str] = &[
    ":status: 302",
    "cache-control: private",
    "date: Mon, 21 Oct 2013 20:13:21 GMT",
    "location: https://www.example.com",
];
const OTHER_REDIRECT: &[&str] = &[
    ":status: 307",
    "cache-control: private",
    "date: Mon, 21 Oct 2013 20:13:21 GMT",
    "location: https://www.example.com",
];
const FOUND: &[&str] = &[
    ":status: 200",
    "cache-control: private",
    "date: Mon, 21 Oct 2013 20:13:22 GMT",
    "location: https://www.example.com",
    "content-encoding: gzip",
    "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
];

// RFC 7541 appendix C.2
#[test]
fn each_field_representation_is_decoded() {
    for (block, meant, bytes) in [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key: custom-header",
            55,
        ),
        (
            "040c 2f73 616d 706c 652f 7061 7468",
            ":path: /sample/path",
            0,
        ),
        (
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            "password: secret",
            0,
        ),
        ("82", ":method: GET", 0),
    ] {
        check(&[(block, &[meant], bytes)]);
    }
}

// RFC 7541 appendices C.3 and C.4
#[test]
fn plain_and_huffman_coded_requests_are_decoded() {
    check(&[
        (
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            FIRST,
            57,
        ),
        ("8286 84be 5808 6e6f 2d63 6163 6865", SECOND, 110),
        (
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            THIRD,
            164,
        ),
    ]);
    check(&[
        ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST, 57),
        ("8286 84be 5886 a8eb 1064 9cbf", SECOND, 110),
        (
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            THIRD,
            164,
        ),
    ]);
}

// RFC 7541 appendices C.5 and C.6, whose tables hold at most 256 octets: the first block sets this.
#[test]
fn plain_and_huffman_coded_responses_use_a_small_table() {
    check(&[
        (
            "3fe1 01 4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 \
             3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 \
             6c65 2e63 6f6d",
            REDIRECT,
            222,
        ),
        ("4803 3330 37c1 c0bf", OTHER_REDIRECT, 222),
        (
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 \
             5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 \
             5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
            FOUND,
            215,
        ),
    ]);
    check(&[
        (
            "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 \
             82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            REDIRECT,
            222,
        ),
        ("4883 640e ffc1 c0bf", OTHER_REDIRECT, 222),
        (
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad \
             94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 \
             65c0 03ed 4ee5 b106 3d50 07",
            FOUND,
            215,
        ),
    ]);
}

#[test]
fn malformed_blocks_are_rejected() {
    for (what, block) in [
        ("index 0", "80"),
        ("beyond the static table, with an empty dynamic one", "be"),
        ("far behind it", "ff ff ff ff 07"),
        ("a name that no field has", "7e 01 61"),
        ("cut off in an index", "ff"),
        ("cut off in a longer one", "ff 80"),
        ("an index beyond 32 bits", "ff ff ff ff ff 7f"),
        ("an index of too many octets", "ff 80 80 80 80 80 00"),
        ("no value", "44"),
        ("no name", "40"),
        ("a name without a value", "40 01 61"),
        ("a value that is cut off", "44 02 2f"),
        (
            "a value longer than there is memory",
            "44 7f ff ff ff ff 0f",
        ),
        ("a length that is 1 in 32 bits", "44 7f 82 ff ff ff 0f 2f"),
        ("a table larger than offered", "3f e2 1f"),
        ("a table that changes after a field", "82 20"),
        ("a code cut off", "44 81 fe"),
        ("a whole octet of ones", "44 82 1f ff"),
        ("zeros behind a code", "44 81 18"),
        ("the end of a string in it", "44 84 ff ff ff ff"),
    ] {
        let read = fields(&mut Decoder::new(), &octets(block));
        assert!(read.is_err(), "{what}: {read:?}");
    }
    for (what, block) in [
        ("a table as large as offered", "3f e1 1f 82"),
        ("twice", "20 3f e1 1f 82"),
        ("integers may have zeros in front", "ff 80 80 00"),
        ("nothing", ""),
        ("a string without a bit", "44 80"),
        ("filled with ones", "44 81 1f"),
    ] {
        let mut decoder = Decoder::new();
        // One field more than the static table has.
        fields(
            &mut decoder,
            &octets("40 01 61 01 62 40 01 61 01 62 40 01 61 01 62"),
        )
        .expect(what);
        fields(&mut decoder, &octets("40 01 61 01 62").repeat(70)).expect(what);
        fields(&mut decoder, &octets(block)).expect(what);
    }
}

#[test]
fn dynamic_table_evicts_the_oldest_field() {
    let mut decoder = Decoder::new();
    // 34 octets each, and room for two of them.
    texts(&mut decoder, &octets("3f 25 40 01 61 00 40 01 62 00"));
    assert_eq!(texts(&mut decoder, &octets("be bf")), ["b: ", "a: "]);
    texts(&mut decoder, &octets("40 01 63 00"));
    assert_eq!(texts(&mut decoder, &octets("be bf")), ["c: ", "b: "]);
    assert!(fields(&mut decoder, &octets("c0")).is_err());
    // A name may be that of a field that the new one evicts.
    assert_eq!(
        texts(&mut decoder, &octets("7f 00 01 78 be")),
        ["b: x", "b: x"]
    );
    // A field that is larger than the table empties it.
    let large = [&octets("40 01 64 7f 00")[..], &[b'x'; 127]].concat();
    texts(&mut decoder, &large);
    assert_eq!(decoder.bytes(), 0);
    assert!(fields(&mut decoder, &octets("be")).is_err());
    // A table may have size 0.
    assert_eq!(texts(&mut decoder, &octets("20 40 01 61 00")), ["a: "]);
    assert_eq!(decoder.bytes(), 0);
}

#[test]
fn malformed_field_still_enters_the_table() {
    let mut decoder = Decoder::new();
    let octet_fault = |field: &Field| matches!(field, Field::Bad(_, Fault::Octets(_)));
    let read = fields(
        &mut decoder,
        &octets("40 01 41 00 40 01 62 01 00 40 01 63 00"),
    );
    let read = read.expect("a block");
    assert!(octet_fault(&read[0]) && octet_fault(&read[1]), "{read:?}");
    let read = fields(&mut decoder, &octets("be bf c0")).expect("a block");
    assert_eq!(text(&read[0]), "c: ");
    assert!(octet_fault(&read[1]) && octet_fault(&read[2]), "{read:?}");
    assert_eq!(decoder.bytes(), 33 + 34 + 33);
}

#[test]
fn valid_name_of_a_malformed_field_names_later_ones() {
    let mut decoder = Decoder::new();
    // `x: ` with white space in the value, then twice with a value by the name of the newest.
    let read = texts(&mut decoder, &octets("40 01 78 02 20 61 7e 01 00 7e 01 62"));
    assert!(
        read[..2].iter().all(|it| it.contains("a field's value")),
        "{read:?}"
    );
    assert_eq!(read[2], "x: b");
    // A path, and the name of the static table's field without a valid value.
    let read = texts(&mut decoder, &octets("44 01 78 7e 02 2f 61 41 01 68"));
    assert_eq!(read[1..], [":path: /a", ":authority: h"]);
    // A name that is not valid stays so.
    let read = texts(&mut decoder, &octets("40 01 41 00 7e 01 62"));
    assert!(read[1].contains("not a token"), "{read:?}");
}

#[test]
fn never_indexed_fields_are_marked_sensitive() {
    let mut decoder = Decoder::new();
    let read = fields(
        &mut decoder,
        &octets("10 01 61 01 62 00 01 61 01 62 40 01 61 01 62"),
    );
    let secret: Vec<bool> = (read.expect("a block").iter())
        .map(|field| matches!(field, Field::Header(_, value) if value.is_sensitive()))
        .collect();
    assert_eq!(secret, [true, false, false]);
}

#[test]
fn large_decode_buffer_is_released() {
    let mut decoder = Decoder::new();
    let short = texts(&mut decoder, &octets("00 01 61 81 1f"));
    assert_eq!(short, ["a: a"]);
    let kept = decoder.room();
    assert!(kept > 0, "the next text has to ask for room again");
    // 60,000 times `0`: its length, 37,500, and as many octets of zeros.
    let long = [&octets("00 01 61 ff fd a3 02")[..], &vec![0; 37_500]].concat();
    assert_eq!(texts(&mut decoder, &long)[0].len(), "a: ".len() + 60_000);
    assert!(decoder.room() <= 4096, "{}", decoder.room());
}
