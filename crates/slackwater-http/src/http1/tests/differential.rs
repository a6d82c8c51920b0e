//! Heads beside `httparse`, which many servers use. A head that is accepted here is accepted there,
//! too, and both read the same. The opposite is not required: this parser is stricter.

use super::*;
use crate::fields::Value;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

/// A head as a parser reads it: three parts of its first line, and its fields in their order.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    line: [String; 3],
    fields: Vec<(String, Vec<u8>)>,
    /// The octets of the head.
    length: usize,
}

/// A change of a few octets.
#[derive(Clone, Debug)]
enum Mutation {
    Replace(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    /// Inserts a piece of the head elsewhere.
    Repeat(Index, Index, Index),
}

const WIDE: HeadLimits = HeadLimits {
    bytes_max: 4096,
    fields_max: 64,
};

fn version(minor: u8) -> String {
    format!("HTTP/1.{minor}")
}

fn owned(fields: &[httparse::Header<'_>]) -> Vec<(String, Vec<u8>)> {
    let field = |it: &httparse::Header<'_>| (it.name.to_ascii_lowercase(), it.value.to_vec());
    fields.iter().map(field).collect()
}

/// A request as `httparse` reads it; `None` if it refuses or awaits more.
fn their_request(head: &[u8]) -> Option<Read> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut fields);
    let httparse::Status::Complete(length) = parsed.parse(head).ok()? else {
        return None;
    };
    Some(Read {
        line: [
            parsed.method?.into(),
            parsed.path?.into(),
            version(parsed.version?),
        ],
        fields: owned(parsed.headers),
        length,
    })
}

fn their_response(head: &[u8]) -> Option<Read> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(length) = parsed.parse(head).ok()? else {
        return None;
    };
    Some(Read {
        line: [
            version(parsed.version?),
            parsed.code?.to_string(),
            String::new(),
        ],
        fields: owned(parsed.headers),
        length,
    })
}

fn ours(line: [String; 3], fields: &Fields, head: &[u8]) -> Read {
    let field = |(name, value): (&[u8], Value<'_>)| {
        let name = String::from_utf8(name.to_vec()).expect("ASCII");
        (name, value.as_bytes().to_vec())
    };
    Read {
        line,
        fields: fields.iter().map(field).collect(),
        length: end_of_head(head, 0).expect("an end"),
    }
}

/// Compares a request. Returns whether it is accepted here.
fn compare_request(head: &[u8]) -> bool {
    let Ok(read) = parse_request(&Bytes::copy_from_slice(head), WIDE, Fields::new()) else {
        return false;
    };
    let told = head.escape_ascii();
    let theirs = their_request(head);
    let mut theirs = theirs.unwrap_or_else(|| panic!("only accepted here: {told}"));
    if read.target.scheme().is_some() {
        // `Uri` writes the scheme in lower case, and adds an empty path.
        let target: http::Uri = theirs.line[1].parse().expect("a target");
        theirs.line[1] = target.to_string();
    }
    let minor = u8::from(read.version == Version::HTTP_11);
    let line = [
        read.method.to_string(),
        read.target.to_string(),
        version(minor),
    ];
    assert_eq!(ours(line, &read.headers, head), theirs, "{told}");
    true
}

/// Compares a response. Returns whether it is accepted here.
fn compare_response(head: &[u8]) -> bool {
    let copy = Bytes::copy_from_slice(head);
    let Ok(read) = parse_response(&copy, &Method::GET, WIDE, Fields::new()) else {
        return false;
    };
    let told = head.escape_ascii();
    let theirs = their_response(head);
    let mut theirs = theirs.unwrap_or_else(|| panic!("only accepted here: {told}"));
    if read.status == StatusCode::NO_CONTENT {
        // The only field that is removed.
        theirs.fields.retain(|field| field.0 != "content-length");
    }
    // `ResponseHead` has no version.
    let line = [
        theirs.line[0].clone(),
        read.status.as_str().to_owned(),
        String::new(),
    ];
    assert_eq!(ours(line, &read.headers, head), theirs, "{told}");
    true
}

fn field() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        "[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,12}".prop_map(|name| format!("x{name}")),
        Just("Accept".to_owned()),
        Just("user-agent".to_owned()),
    ];
    let value = prop_oneof![
        "[ -~\t]{0,20}",
        "[ -~\t\u{80}-\u{ff}]{0,40}",
        "[!-~]{0,9}",
        Just(String::new()),
    ];
    let space = select(&["", " ", " ", " ", "\t", "  \t"][..]);
    (name, space, value).prop_map(|(name, space, value)| format!("{name}:{space}{value}\r\n"))
}

/// Fields that frame a message, in usual and in unusual forms.
fn framing() -> impl Strategy<Value = String> {
    let forms: &[&str] = &[
        "",
        "content-length: 5\r\n",
        "Content-Length:007\r\n",
        "Transfer-Encoding: Chunked\r\n",
        "connection: close, upgrade\r\nupgrade: x\r\n",
        "expect: 100-continue\r\n",
    ];
    select(forms).prop_map(str::to_owned)
}

fn fields() -> impl Strategy<Value = String> {
    let some = || prop::collection::vec(field(), 0..4).prop_map(|fields| fields.concat());
    (some(), framing(), some()).prop_map(|(before, framing, after)| before + &framing + &after)
}

fn valid_request() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        8 => ("[A-Za-z!#$%&'*+.^_`|~-]{1,8}", target()).prop_filter_map(
            "CONNECT has a form of its own",
            |(method, target)| (method != "CONNECT").then(|| format!("{method} {target}"))
        ),
        1 => Just("OPTIONS *".to_owned()),
        1 => select(&["CONNECT x:443", "CONNECT [::1]:1"][..]).prop_map(str::to_owned),
    ];
    let version = select(&["1.1", "1.1", "1.0"][..]);
    let host = select(&["host: x\r\n", "Host:x.y:1\r\n", "HOST: \t[::1]\t\r\n"][..]);
    (line, version, host, fields()).prop_map(|(line, version, host, fields)| {
        format!("{line} HTTP/{version}\r\n{host}{fields}\r\n")
    })
}

fn target() -> impl Strategy<Value = String> {
    prop_oneof![
        "/[a-z0-9._~!$&'()*+,;=:@/?%-]{0,20}",
        "(http|https|HTTP|ftp)://x(:[1-9]{1,4})?(/[a-z?=]{0,9})?",
    ]
}

fn valid_response() -> impl Strategy<Value = String> {
    let reason = "( [ -~\t\u{80}-\u{ff}]{0,12})?";
    let version = select(&["1.1", "1.1", "1.0"][..]);
    (version, 100..1000_u16, reason, fields()).prop_map(|(version, status, reason, fields)| {
        format!("HTTP/{version} {status}{reason}\r\n{fields}\r\n")
    })
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let octet = || {
        prop_oneof![
            3 => select(&b"\r\n\t :\0\x0b\x7f\x80/#,;\"()@[]A1."[..]),
            1 => any::<u8>(),
        ]
    };
    let at = any::<Index>;
    let mutation = prop_oneof![
        (at(), octet()).prop_map(|(at, octet)| Mutation::Replace(at, octet)),
        (at(), octet()).prop_map(|(at, octet)| Mutation::Insert(at, octet)),
        at().prop_map(Mutation::Remove),
        (at(), at(), at()).prop_map(|(to, one, other)| Mutation::Repeat(to, one, other)),
    ];
    prop::collection::vec(mutation, 1..4)
}

fn mutated(head: &str, mutations: Vec<Mutation>) -> Vec<u8> {
    let mut octets = head.as_bytes().to_vec();
    for mutation in mutations {
        // One more, so that the list is never empty.
        let length = octets.len() + 1;
        match mutation {
            Mutation::Replace(at, octet) => {
                if let Some(place) = octets.get_mut(at.index(length)) {
                    *place = octet;
                }
            }
            Mutation::Insert(at, octet) => octets.insert(at.index(length), octet),
            Mutation::Remove(at) if at.index(length) < octets.len() => {
                octets.remove(at.index(length));
            }
            Mutation::Remove(_) => (),
            Mutation::Repeat(to, one, other) => {
                let (one, other) = (one.index(length), other.index(length));
                let piece = octets[one.min(other)..one.max(other)].to_vec();
                let to = to.index(length);
                octets.splice(to..to, piece);
            }
        }
    }
    octets
}

/// Octets of which heads consist, in any order.
fn any_octets() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(
        &[
            "GET",
            " ",
            "/",
            " HTTP/1.1",
            "HTTP/1.0",
            "\r\n",
            "\r\n",
            "\r",
            "\n",
            "host: x",
            "a",
            ":",
            ": ",
            "\t",
            "\0",
            "\u{e9}",
            "200",
            " OK",
            "content-length: 1",
            "\r\n\r\n",
        ][..],
    );
    let pieces = prop::collection::vec(piece, 0..16);
    prop_oneof![
        2 => pieces.prop_map(|pieces| pieces.concat().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..80),
    ]
}

/// All heads in which one octet of this one is replaced, or is removed, or has another before it.
fn neighbours(head: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..head.len()).flat_map(move |at| {
        let (before, after) = head.split_at(at);
        let others = (0..=u8::MAX).flat_map(move |octet| {
            [&after[1..], after].map(|after| [before, &[octet], after].concat())
        });
        others.chain([[before, &after[1..]].concat()])
    })
}

#[test]
fn every_change_of_one_octet_is_read_as_by_httparse() {
    for head in [
        "GET /a HTTP/1.1\r\nHost: x\r\nA:b \r\n\r\n",
        "OPTIONS * HTTP/1.0\r\nhost:x\r\n\r\n",
    ] {
        let accepted = neighbours(head.as_bytes())
            .filter(|it| compare_request(it))
            .count();
        assert!(accepted > 2000, "{accepted}");
    }
    let head = b"HTTP/1.1 200 OK\r\nA:\tb\r\nc: d\r\n\r\n";
    let accepted = neighbours(head).filter(|it| compare_response(it)).count();
    assert!(accepted > 2000, "{accepted}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    #[test]
    fn valid_heads_are_read_as_by_httparse(
        request in valid_request(),
        response in valid_response(),
    ) {
        // Refused for what they frame, and not for their form.
        let is_chunked = |head: &str| head.contains(": Chunked");
        let is_old = |head: &str| head.contains("HTTP/1.0\r\n") || head.starts_with("HTTP/1.0");
        let has_length = request.to_ascii_lowercase().contains("content-length:");
        let has_body = is_chunked(&request) || has_length;
        let is_refused = is_chunked(&request) && is_old(&request)
            || has_body && request.starts_with("CONNECT ");
        prop_assert_eq!(compare_request(request.as_bytes()), !is_refused, "{:?}", request);
        let is_refused = is_chunked(&response) && is_old(&response);
        prop_assert_eq!(compare_response(response.as_bytes()), !is_refused, "{:?}", response);
    }

    #[test]
    fn request_that_httparse_refuses_is_refused(
        head in valid_request(),
        mutations in mutations(),
    ) {
        compare_request(&mutated(&head, mutations));
    }

    #[test]
    fn response_that_httparse_refuses_is_refused(
        head in valid_response(),
        mutations in mutations(),
    ) {
        compare_response(&mutated(&head, mutations));
    }

    #[test]
    fn octets_that_httparse_refuses_are_refused(octets in any_octets()) {
        compare_request(&octets);
        compare_response(&octets);
        let lines = [b"GET / HTTP/1.1\r\nhost: x\r\n", &octets[..], b"\r\n\r\n"].concat();
        compare_request(&lines);
        let lines = [b"HTTP/1.1 200 OK\r\n", &octets[..], b"\r\n\r\n"].concat();
        compare_response(&lines);
    }
}
