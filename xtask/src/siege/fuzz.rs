//! End-to-end fuzzing: valid conversations of both protocols with changed bytes, before replicas
//! that change their answers in the same way.
//!
//! A single connection has no expected result. Afterwards the process must still run, without a
//! panic in its log, without requests in flight, without leaked files and without more memory than
//! before.

use super::draws::Draws;
use super::meters::{self, Watch, mib};
use super::rogue::{self, Rogue};
use super::scores::{Score, Scores};
use super::setup::Protocol;
use super::setup::Setup;
use super::site::{Held, Proxy, Site};
use super::wire::frames::{self, END_STREAM, field, frame};
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;

const PART: &str = "fuzz";

/// Concurrent attackers.
const THREADS: usize = 8;

/// A connection without data for this long is abandoned.
const QUIET: Duration = Duration::from_millis(25);

/// Used memory that allocators keep.
const SLACK_KIB: u64 = 24 << 10;

/// Open files beyond those at the start: the admin connection that counts, and pooled connections
/// to a replica.
const FILES_SLACK: usize = 16;

pub(super) fn run(site: &Site<'_>, scores: &mut Scores) -> Result<(), String> {
    let count = site.pick(800, 20_000);
    for protocol in [Protocol::Http1, Protocol::H2c] {
        let replica = start_replica(protocol)?;
        let replicas = [replica.address];
        let proxy = site.start_ours(&Setup {
            // Replicas that stop answering hold their requests for this long.
            process: "timeouts.first_byte = \"3s\"\n",
            ..Setup::new(2, &replicas, protocol)
        })?;
        let before = Before::of(&proxy);
        let watch = Watch::start(proxy.pid());
        attack(proxy.at.http1, count, site.seed);
        let after = before.compare(proxy, &watch);
        let name = match protocol {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::H2c => "h2c",
        };
        scores.add(Score::alone(
            PART,
            "",
            format!("{count} mutated conversations before a replica over {name} that mutates its answers"),
            "it runs, no panic, 0 in flight, files and memory back",
            match after {
                Ok(found) => (true, found),
                Err(found) => (false, found),
            },
        ));
    }
    Ok(())
}

/// Starts a replica whose answers have changed bytes.
pub(super) fn start_replica(protocol: Protocol) -> Result<Rogue, String> {
    Rogue::start(match protocol {
        Protocol::Http1 => answer_http1,
        Protocol::H2c => answer_http2,
    })
}

/// Resources of a process before an attack.
#[derive(Debug)]
struct Before {
    resident_kib: u64,
    files: usize,
}

impl Before {
    fn of(proxy: &Proxy) -> Self {
        Self {
            resident_kib: proxy.resident_kib(),
            files: meters::open_files(proxy.pid()),
        }
    }

    /// Compares the resources after an attack, with a text in either case; ends the proxy.
    fn compare(&self, mut proxy: Proxy, watch: &Watch) -> Result<String, String> {
        proxy.process.check_running()?;
        let held = proxy.settle()?;
        let (resident, files) = (proxy.resident_kib(), meters::open_files(proxy.pid()));
        let text = format!(
            "{} in flight, {} connections, {} files for {}, {} for {}, at most {}",
            held.in_flight,
            held.connections,
            files,
            self.files,
            mib(resident),
            mib(self.resident_kib),
            mib(watch.most_kib())
        );
        let panicked = proxy.has_panicked()?;
        let is_good = held == Held::default()
            && files <= self.files + FILES_SLACK
            && resident <= self.resident_kib + SLACK_KIB;
        match (is_good, panicked) {
            (true, false) => Ok(text),
            (_, true) => Err(format!("a panic in the log; {text}")),
            (false, false) => Err(text),
        }
    }
}

/// Makes this many connections, half of each protocol, each with its own changes.
pub(super) fn attack(proxy: SocketAddr, count: usize, seed: u64) {
    std::thread::scope(|scope| {
        for first in 0..THREADS {
            scope.spawn(move || {
                for number in (first..count).step_by(THREADS) {
                    let index = u64::try_from(number).unwrap_or_default();
                    let mut draws = Draws::new(seed, index);
                    let mut bytes = if draws.one_in(2) {
                        http1(&mut draws)
                    } else {
                        http2(&mut draws)
                    };
                    mutate(&mut draws, &mut bytes, 5);
                    // The proxy may close at any time.
                    let _ = exchange(proxy, &bytes);
                }
            });
        }
    });
}

fn exchange(proxy: SocketAddr, bytes: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_read_timeout(Some(QUIET))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(bytes)?;
    let mut piece = [0; 16_384];
    for _ in 0..64 {
        if stream.read(&mut piece)? == 0 {
            break;
        }
    }
    Ok(())
}

/// A few valid HTTP/1.1 requests.
fn http1(draws: &mut Draws) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=draws.below(3) {
        let path = draws.pick(&["/", "/a?b=c", "/a/b", "http://siege.test/a"]);
        let head = format!("{path} HTTP/1.1\r\nhost: siege.test\r\ncookie: a=b\r\n");
        let rest = draws.pick(&[
            "\r\n",
            "content-length: 5\r\n\r\nhello",
            "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n3;a=b\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n",
            "expect: 100-continue\r\ncontent-length: 3\r\n\r\nabc",
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
            "connection: close\r\n\r\n",
        ]);
        let method = draws.pick(&["GET ", "POST ", "HEAD ", "OPTIONS ", "PUT "]);
        bytes.extend([method, &head, rest].concat().as_bytes());
    }
    bytes
}

/// A valid HTTP/2 connection with a few streams.
fn http2(draws: &mut Draws) -> Vec<u8> {
    let mut bytes = frames::preface(65_535);
    for index in 0..=u32::try_from(draws.below(6)).unwrap_or_default() {
        let id = frames::stream(index);
        let mut block = frames::request(draws.pick(&["GET", "POST", "HEAD"]), "/a");
        if draws.one_in(2) {
            block.extend(frames::indexed_field(b"x-a", b"b"));
            block.extend(frames::huffman_field(b"x-b", 5 * (1 + draws.below(9))));
        }
        let with_body = draws.one_in(2);
        bytes.extend(frames::headers(id, &block, !with_body));
        if with_body {
            bytes.extend(frame(frames::DATA, 0, id, b"hello"));
            bytes.extend(frames::headers(id, &field(b"x-sum", b"1"), true));
        }
        match draws.below(8) {
            0 => bytes.extend(frames::ping()),
            1 => bytes.extend(frames::reset(id, frames::CANCEL)),
            2 => bytes.extend(frames::window_update(id, 100)),
            3 => bytes.extend(frames::settings(&[(frames::INITIAL_WINDOW_SIZE, 100)])),
            4 => bytes.extend(frames::priority(id)),
            _ => {}
        }
    }
    bytes
}

/// Makes up to `most` random changes: bytes, bits, cuts, repetitions, insertions.
fn mutate(draws: &mut Draws, bytes: &mut Vec<u8>, most: usize) {
    const WORDS: &[&[u8]] = &[
        b"\r\n",
        b"\r\n\r\n",
        b"\0",
        b"\xff\xff\xff\xff",
        b"chunked",
        b"content-length: 5\r\n",
        b"transfer-encoding: chunked\r\n",
        b"0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"\0\0\0\x04\0\0\0\0\0",
        b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\xff\xff",
        b"HTTP/1.1 200 OK\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for _ in 0..draws.below(most + 1) {
        if bytes.is_empty() {
            return;
        }
        let at = draws.below(bytes.len());
        match draws.below(7) {
            0 => bytes[at] = draws.byte(),
            1 => bytes[at] ^= 1 << draws.below(8),
            2 => bytes.truncate(at),
            3 => {
                let end = (at + 1 + draws.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let end = (at + 1 + draws.below(64)).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            5 => {
                let word = draws.pick(WORDS).to_vec();
                bytes.splice(at..at, word);
            }
            _ => {
                let random = draws.byte();
                bytes.insert(at, random);
            }
        }
    }
}

/// Answers HTTP/1.1 requests. Half of the answers are unusual, with changes.
fn answer_http1(stream: TcpStream, number: u64) -> io::Result<()> {
    let mut draws = Draws::new(number, 1);
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(target) = rogue::read_request(&mut reader)? {
        let mut answer = rogue::honest_response(&target);
        if draws.one_in(2) {
            answer = draws
                .pick(&[
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n",
                    "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
                    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nhello",
                    "HTTP/1.1 204 No Content\r\n\r\n",
                    "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
                    "HTTP/1.0 200 OK\r\n\r\nuntil the end",
                ])
                .into();
            mutate(&mut draws, &mut answer, 4);
        }
        stream.write_all(&answer)?;
        if draws.one_in(8) {
            break;
        }
    }
    Ok(())
}

/// Answers HTTP/2 frames, a quarter of them with changes.
fn answer_http2(stream: TcpStream, number: u64) -> io::Result<()> {
    let mut draws = Draws::new(number, 2);
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let mut preface = [0; frames::PREFACE.len()];
    reader.read_exact(&mut preface)?;
    stream.write_all(&frames::settings(&[]))?;
    loop {
        let (kind, flags, id) = rogue::read_frame(&mut reader)?;
        let mut answer = match kind {
            frames::SETTINGS if flags & 1 == 0 => frame(frames::SETTINGS, 1, 0, b""),
            frames::HEADERS => {
                let mut answer = frames::headers(id, b"\x88", false);
                answer.extend(frame(frames::DATA, 0, id, b"hello"));
                match draws.below(3) {
                    0 => answer.extend(frame(frames::DATA, END_STREAM, id, b"")),
                    1 => answer.extend(frames::headers(id, &field(b"x-sum", b"1"), true)),
                    _ => answer.extend(frames::reset(id, frames::NO_ERROR)),
                }
                answer
            }
            frames::PING if flags & 1 == 0 => frame(frames::PING, 1, 0, b"siegesie"),
            _ => continue,
        };
        if draws.one_in(4) {
            mutate(&mut draws, &mut answer, 4);
        }
        stream.write_all(&answer)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_makes_the_same_bytes() {
        let bytes = |index| {
            let mut draws = Draws::new(5, index);
            let mut bytes = [http1(&mut draws), http2(&mut draws)].concat();
            mutate(&mut draws, &mut bytes, 5);
            bytes
        };
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
    }
}
