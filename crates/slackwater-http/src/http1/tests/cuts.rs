//! The result of reading a request depends on its octets only, not on how they were split.

use super::*;

const SHORT: HeadLimits = HeadLimits {
    bytes_max: 64,
    fields_max: 3,
};

/// Returns the result for octets that arrive in these parts, with the number of octets left; `None`
/// if more is awaited.
fn read(parts: &[&[u8]]) -> Option<Result<(String, usize), BadMessage>> {
    let mut search = HeadSearch::default();
    let mut unread = Bytes::new();
    for (index, part) in parts.iter().enumerate() {
        unread = [&unread, *part].concat().into();
        match search.look(&mut unread, SHORT) {
            SoFar::Whole(end) => {
                let head = parse_request(&unread.split_to(end), SHORT, Fields::new());
                let later: usize = parts[index + 1..].iter().map(|part| part.len()).sum();
                return Some(head.map(|head| (format!("{head:?}"), unread.len() + later)));
            }
            SoFar::Bad(bad) => return Some(Err(bad)),
            SoFar::Unfinished => (),
        }
    }
    None
}

/// Reads the octets at once, one by one, and split in two at every position.
fn read_in_every_way(octets: &[u8]) -> Option<Result<(String, usize), BadMessage>> {
    let at_once = read(&[octets]);
    let one_by_one: Vec<_> = octets.chunks(1).collect();
    assert_eq!(read(&one_by_one), at_once, "{}", octets.escape_ascii());
    for cut in 0..octets.len() {
        let (first, second) = octets.split_at(cut);
        let told = format!("{} | {}", first.escape_ascii(), second.escape_ascii());
        assert_eq!(read(&[first, second]), at_once, "{told}");
    }
    at_once
}

#[test]
fn parse_error_does_not_depend_on_the_split() {
    use BadKind::{Coding, HeadTooLarge, Malformed, TargetTooLong, Version};
    let long = "a".repeat(60);
    for (head, expected) in [
        ("GET / HTTP/1.1\r\nhost: x\r\n\r\nmore".to_owned(), None),
        ("\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), None),
        ("\r\n\r\nGET / HTTP/1.1\r\n\r\n".to_owned(), Some(Malformed)),
        (
            format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
            Some(TargetTooLong),
        ),
        // The line is complete, but ends beyond the limit.
        (
            format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(49)),
            Some(TargetTooLong),
        ),
        (
            format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(48)),
            Some(HeadTooLarge),
        ),
        (
            format!("{long}{long} / HTTP/1.1\r\n\r\n"),
            Some(HeadTooLarge),
        ),
        (
            format!("GET / HTTP/1.1\r\na: {long}\r\n\r\n"),
            Some(HeadTooLarge),
        ),
        // A bad octet within the limit is found first; one beyond it is never found.
        (format!("GET /\0{long} HTTP/1.1\r\n\r\n"), Some(Malformed)),
        (
            format!("GET /{long}\0 HTTP/1.1\r\n\r\n"),
            Some(TargetTooLong),
        ),
        (
            format!("GET / HTTP/1.1\r\na: \0{long}\r\n\r\n"),
            Some(Malformed),
        ),
        (
            format!("GET / HTTP/1.1\r\na: {long}\0\r\n\r\n"),
            Some(HeadTooLarge),
        ),
        // With two errors, the one that can be detected first is reported.
        (
            "GET / HTTP/2.0\r\nhost: \0\r\n\r\n".to_owned(),
            Some(Malformed),
        ),
        (
            "GET / HTTP/2.0\r\nhost: x\r\n\r\n".to_owned(),
            Some(Version),
        ),
        (
            "GET / HTTP/1.1\r\nhost: x\na: b\r\n\r\n".to_owned(),
            Some(Malformed),
        ),
        (
            "GET / HTTP/1.1\r\na:\r\nb:\r\nc:\r\nd:\r\n\r\n".to_owned(),
            Some(HeadTooLarge),
        ),
        (
            "GET / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: a, chunked\r\n\r\n".to_owned(),
            Some(Coding),
        ),
    ] {
        let read = read_in_every_way(head.as_bytes()).expect("told");
        assert_eq!(
            read.as_ref().err().map(|bad| bad.kind),
            expected,
            "{head:?}"
        );
    }
}

proptest! {
    #[test]
    fn parsing_does_not_depend_on_splits(octets in "(\r\n)?(GET|A) /?[a-c\0 ]{0,50}( HTTP/(1.1|2.0)\r?\n(host: x\r\n)?(a:[b\0\r\n ]{0,30}\r\n){0,3}\r\n)?") {
        read_in_every_way(octets.as_bytes());
    }
}
