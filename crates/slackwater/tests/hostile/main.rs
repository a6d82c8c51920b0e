//! Hostile and malformed input against the real process: a table of the input, the answer, and what
//! the replica receives of it.
//!
//! After each row, another client that was connected before it still gets its own answers, no
//! request is in flight, and the process's memory has at no time grown by more than
//! [`run::GROWTH_BYTES_MAX`]. The table is also `docs/research/hostile-requests.md`, which a test
//! keeps in step (`BLESS=1` rewrites it).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[expect(dead_code, reason = "shared with the tests of `serve`")]
#[path = "../serve/proxy.rs"]
mod proxy;

mod frames;
mod page;
mod recorder;
mod rows;
mod run;
mod talk;

use rows::{Group, groups};

/// Makes one test for each group, so that groups run in parallel and fail separately.
macro_rules! group_tests {
    ($($test:ident: $title:literal,)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                run::run(&group($title)).await;
            }
        )*

        #[test]
        fn every_group_is_run() {
            let mut run = vec![$($title),*];
            let mut there: Vec<_> = groups().iter().map(|group| group.title).collect();
            run.sort_unstable();
            there.sort_unstable();
            assert_eq!(run, there);
        }
    };
}

group_tests! {
    lengths: "Lengths that two readers could take for different ones",
    chunks: "Chunks",
    lines: "Lines, names and values",
    targets: "Request lines, targets and hosts",
    sizes: "Too much of anything",
    slowness: "Too slow",
    tls: "TLS",
    http2_heads: "HTTP/2: heads that HTTP/1.1 would read otherwise",
    http2_frames: "HTTP/2: frames against the rules",
    http2_floods: "HTTP/2: floods",
}

fn group(title: &str) -> Group {
    groups()
        .into_iter()
        .find(|group| group.title == title)
        .unwrap()
}

#[test]
fn table_has_a_hundred_rows_with_unique_names() {
    let groups = groups();
    let rows = groups.iter().flat_map(|group| &group.rows);
    let mut names: Vec<_> = rows.map(|row| row.name).collect();
    assert!(names.len() >= 100, "{} rows", names.len());
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
