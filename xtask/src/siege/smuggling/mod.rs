//! Smuggling: requests that two parsers could interpret differently, through the proxy to a real
//! server. Each is followed by an honest request that may use the same connection to the server.
//!
//! Servers log each request whose body was complete, and name its target in the answer. So every
//! request that a server treated as complete must be in an answer to the client that sent it, and
//! an honest request gets its own answer. Otherwise proxy and server disagree about where a request
//! ends.

mod http1;
mod http2;

use super::draws::Draws;
use super::innocents;
use super::scores::{Score, Scores};
use super::setup::Protocol;
use super::setup::Setup;
use super::site::{Servers, Site};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

const PART: &str = "smuggling";

/// A connection without data for this long is finished.
const QUIET: Duration = Duration::from_millis(400);

const INNOCENT_MAX: Duration = Duration::from_secs(10);

/// An attacker's bytes on one connection, drawn for a number that names its requests.
type Mutant = fn(&mut Draws, usize) -> Vec<u8>;

type Start = for<'s> fn(&'s Site<'_>) -> Result<Servers, String>;

const SERVERS: [(&str, Start); 4] = [
    ("Go", |site| site.start_go(1)),
    ("Node", |site| site.start_node(Protocol::Http1)),
    ("Python", |site| site.start_python()),
    ("nginx", |site| site.start_nginx_server()),
];

/// The attackers' protocols.
const ATTACKERS: [(&str, Mutant); 2] = [("HTTP/1.1", http1::mutant), ("HTTP/2", http2::mutant)];

pub(super) fn run(site: &Site<'_>, scores: &mut Scores) -> Result<(), String> {
    let count = site.pick(30, 400);
    // In parallel, because most of the time is spent waiting for a connection to stay quiet.
    let found = std::thread::scope(|scope| {
        let threads: Vec<_> = SERVERS
            .into_iter()
            .flat_map(|server| ATTACKERS.map(|attacker| (server, attacker)))
            .map(|((name, start), (protocol, mutant))| {
                let what = format!("{count} mutated {protocol} requests to {name}");
                let thread = scope.spawn(move || {
                    let servers = start(site).map_err(Trouble::NotRun)?;
                    besiege(site, servers, mutant, count, site.seed).map_err(Trouble::Broken)
                });
                (what, thread)
            })
            .collect();
        let found = threads.into_iter();
        let found = found.map(|(what, thread)| (what, thread.join()));
        found.collect::<Vec<_>>()
    });
    for (attack, found) in found {
        match found {
            Ok(Ok(found)) => scores.add(Score::alone(
                PART,
                "",
                attack,
                "0 innocents harmed, 0 requests beyond the answers",
                (found.is_clean(), found.text()),
            )),
            Ok(Err(Trouble::NotRun(why))) => scores.not_run(PART, &attack, why),
            Ok(Err(Trouble::Broken(why))) => return Err(format!("{attack}: {why}")),
            Err(_) => return Err(format!("{attack}: a thread panicked")),
        }
    }
    Ok(())
}

enum Trouble {
    NotRun(String),
    Broken(String),
}

/// Results of an attacker's requests.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) innocents: usize,
    /// The reason of each honest request that failed.
    pub(super) harmed: Vec<String>,
    /// Requests that a server treated as complete and that are in no client's answer.
    beyond: Vec<String>,
    /// Requests that servers answered.
    answered: usize,
}

impl Found {
    pub(super) fn is_clean(&self) -> bool {
        self.harmed.is_empty() && self.beyond.is_empty()
    }

    pub(super) fn text(&self) -> String {
        const SHOWN: usize = 4;
        let shown = |texts: &[String]| match texts.len() {
            0 => String::new(),
            count => format!(" ({})", texts[..count.min(SHOWN)].join(", ")),
        };
        format!(
            "{} of {} innocents harmed{}; {} answered, {} beyond{}",
            self.harmed.len(),
            self.innocents,
            shown(&self.harmed),
            self.answered,
            self.beyond.len(),
            shown(&self.beyond)
        )
    }
}

fn besiege(
    site: &Site<'_>,
    mut servers: Servers,
    mutant: Mutant,
    count: usize,
    seed: u64,
) -> Result<Found, String> {
    let proxy = site.start_ours(&Setup::new(1, &servers.addresses, Protocol::Http1))?;
    proxy.warm_up()?;
    let mut answered = BTreeMap::new();
    let mut found = attack(proxy.at.http1, (mutant, count, seed), &mut answered);
    found.beyond = beyond(&servers.read_log()?, &answered);
    Ok(found)
}

/// Sends all requests, with honest ones in between; counts the answers by the name of their
/// request.
fn attack(
    proxy: SocketAddr,
    (mutant, count, seed): (Mutant, usize, u64),
    answered: &mut BTreeMap<String, usize>,
) -> Found {
    let mut found = Found::default();
    for number in 0..count {
        let index = u64::try_from(number).unwrap_or_default();
        let bytes = mutant(&mut Draws::new(seed, index), number);
        let answer = exchange(proxy, &bytes);
        for name in names(&String::from_utf8_lossy(&answer), "<served ") {
            *answered.entry(name).or_default() += 1;
            found.answered += 1;
        }
        found.innocents += 1;
        let path = format!("/innocent-{number}");
        if let Err(why) = innocents::ask(proxy, &path, number % 2 == 0, INNOCENT_MAX) {
            found.harmed.push(format!("{why} after m{number}"));
        }
    }
    found
}

/// Only the HTTP/1.1 attack, for the long form.
pub(super) fn attack_http1(proxy: SocketAddr, count: usize, seed: u64) -> Found {
    attack(proxy, (http1::mutant, count, seed), &mut BTreeMap::new())
}

/// Sends bytes and reads until the end, or until nothing arrives any more.
fn exchange(proxy: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let Ok(mut stream) = TcpStream::connect(proxy) else {
        return answer;
    };
    let timeouts = stream
        .set_read_timeout(Some(QUIET))
        .and(stream.set_write_timeout(Some(QUIET)));
    // The proxy may close before it has received everything.
    let _ = timeouts.and_then(|()| stream.write_all(bytes));
    let mut piece = [0; 16_384];
    loop {
        match stream.read(&mut piece) {
            Ok(read) if read > 0 => answer.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return answer,
        }
    }
}

/// Requests that are complete in a server's log and in no answer.
fn beyond(log: &str, answered: &BTreeMap<String, usize>) -> Vec<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    for name in log
        .lines()
        .filter(|line| line.starts_with("complete "))
        .flat_map(|line| names(line, " "))
    {
        *seen.entry(name).or_default() += 1;
    }
    seen.into_iter()
        .filter(|(name, count)| answered.get(name).is_none_or(|answers| answers < count))
        .map(|(name, _)| name)
        .collect()
}

/// Names of attackers' requests, such as `m12s`, in targets after `mark`.
fn names(text: &str, mark: &str) -> Vec<String> {
    let targets = text.split(mark).skip(1);
    let names = targets.filter_map(|target| {
        let target = target.split([' ', '>']).next()?;
        let name = &target[target.rfind("/m")? + 1..];
        let digits = name[1..].trim_end_matches(['s', 'b']);
        let is_name = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_name.then(|| name.to_owned())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::siege::rogue::{self, Rogue};
    use std::io::BufReader;

    #[test]
    fn requests_seen_but_not_answered_are_found() {
        let answer =
            "HTTP/1.1 200 OK\r\n\r\n<served /m1>HTTP/1.1 200 OK\r\n\r\n<served http://x/m1b>";
        let mut answered = BTreeMap::new();
        for name in names(answer, "<served ") {
            *answered.entry(name).or_default() += 1;
        }
        let log = "complete POST /m1 5\nbroken POST /m2 5\ncomplete GET /m1b 0\n";
        assert!(beyond(log, &answered).is_empty());
        let log =
            format!("{log}complete GET /m1s 0\ncomplete GET /m1 0\ncomplete GET /innocent-1 0\n");
        assert_eq!(beyond(&log, &answered), ["m1", "m1s"]);
    }

    #[test]
    fn valid_request_with_a_wrong_answer_counts_as_harmed() {
        let mixed_up = Rogue::start(|mut stream, _| {
            rogue::read_request(&mut BufReader::new(stream.try_clone()?))?;
            stream.write_all(&rogue::honest_response("/m0"))
        })
        .unwrap();
        let mut answered = BTreeMap::new();
        let found = attack(mixed_up.address, (http1::mutant, 1, 1), &mut answered);
        assert!(!found.is_clean(), "{found:?}");
        assert_eq!(found.harmed, ["got another's answer after m0"]);
        assert_eq!(answered.get("m0"), Some(&1));
    }
}
