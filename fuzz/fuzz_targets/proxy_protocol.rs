//! The first bytes of a connection as a PROXY protocol header: nothing panics, a truncated header
//! is incomplete, further bytes change nothing, and headers that we write are read back.

#![no_main]

use core::net::SocketAddr;
use libfuzzer_sys::fuzz_target;
use slackwater_http::proxy_protocol::{Ends, Header, Parsed, Version, header, parse};

fuzz_target!(|bytes: &[u8]| {
    let whole = parse(bytes);
    let more = [bytes, b"GET / HTTP/1.1\r\n"].concat();
    match whole {
        Ok(Parsed::Header(told, length)) => {
            assert!((1..=bytes.len()).contains(&length));
            assert_eq!(parse(&more), whole, "what follows is not part of it");
            for cut in 0..length {
                assert_eq!(parse(&bytes[..cut]), Ok(Parsed::Unfinished), "{cut}");
            }
            write_back(told);
        }
        Ok(Parsed::Unfinished) => (),
        Err(_) => assert!(parse(&more).is_err(), "what is wrong stays wrong"),
    }
});

/// Checks that both forms of a header have the same content, with addresses in their shortest
/// family.
fn write_back(told: Header) {
    let ends = told.addresses.map(|(from, to)| Ends { from, to });
    let canonical = |end: SocketAddr| (end.ip().to_canonical(), end.port());
    for version in [Version::One, Version::Two] {
        let written = header(version, ends.as_ref());
        let Ok(Parsed::Header(again, length)) = parse(&written) else {
            panic!("{written:?}");
        };
        assert_eq!(length, written.len());
        let both = |told: Header| (told.addresses).map(|(from, to)| [from, to].map(canonical));
        assert_eq!(both(again), both(told));
    }
}
