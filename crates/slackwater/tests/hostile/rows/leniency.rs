//! Rows that are not yet answered as the table demands, and what becomes of them instead. None of them may do harm: what
//! two readers could read in two ways is framed anew before it reaches a replica. A row that is answered as demanded has
//! to be taken out of here.

type Today = (&'static str, &'static str, &'static [&'static str]);

/// Name, answer, and what the replica sees.
const TODAY: &[Today] = &[
    (
        "`Content-Length` and `Transfer-Encoding` (CL.TE)",
        "200, closed",
        &["POST x/a"],
    ),
    (
        "`Transfer-Encoding` and `Content-Length` (TE.CL)",
        "408, closed",
        &["POST x/a, cut off"],
    ),
    (
        "the same `Content-Length` twice",
        "200, 200, closed",
        &["POST x/a with 5 bytes", "GET x/hidden"],
    ),
    (
        "`chunked` below another coding",
        "501, 200, closed",
        &["GET x/hidden"],
    ),
    (
        "`chunked` twice",
        "200, 200, closed",
        &["POST x/a", "GET x/hidden"],
    ),
    ("a bare LF between fields", "200, closed", &["GET x/a"]),
    ("bare LFs for the whole head", "200, closed", &["GET x/a"]),
    (
        "a bare LF at the end of the head",
        "200, closed",
        &["GET x/a"],
    ),
    ("a target of 10 MB", "431, closed", &[]),
    ("a fragment in the target", "200, closed", &["GET x/a"]),
    ("a target without a slash", "200, closed", &["GET a/"]),
    (
        "a target that is a host and a port",
        "200, closed",
        &["GET x:80/"],
    ),
    ("HTTP/2.0 in a request line", "400, closed", &[]),
    ("HTTP/3.7 in a request line", "400, closed", &[]),
];

pub(crate) fn of(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    let today = TODAY.iter().find(|today| today.0 == name)?;
    Some((today.1, today.2))
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TODAY.iter().map(|today| today.0)
}
