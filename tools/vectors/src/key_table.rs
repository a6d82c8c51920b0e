//! Hashes of keys and names, and the orders of servers for keys: what all clients must agree on.

use crate::canonical::fnv1a;
use crate::chance::Chance;
use crate::line::Object;
use core::fmt::Write;
use slackwater_core::draw::NoDraw;
use slackwater_core::keys::{Identity, KeyHash, KeyHasher, KeySettings, keyed};
use slackwater_core::policy::{Event, Explanation, Policy, Query, Random, Settings};
use slackwater_core::{Instant, ReplicaId, ReplicaIds, SplitMix64};

/// Lengths of keys around the words of the hash, and long ones. Beyond 255 the length wraps.
const LENGTHS: [u32; 15] = [0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 300];

/// Keys for each fleet.
const KEYS: u32 = 12;

/// The table with this number.
pub(crate) fn text(number: u64) -> String {
    let mut chance = Chance::new(fnv1a("keys-hashes").wrapping_add(number));
    let mut lines = hashes(&mut chance);
    lines.extend(names(&mut chance));
    for _ in 0..12 {
        lines.extend(orders(&mut chance));
    }
    lines.extend(clients(number));
    let texts = lines.into_iter().map(Object::finish);
    texts.flat_map(|line| [line, "\n".to_owned()]).collect()
}

fn line(op: &str) -> Object {
    let mut line = Object::new();
    line.text("op", op);
    line
}

fn bytes(chance: &mut Chance, len: u32) -> Vec<u8> {
    (0..len)
        .map(|_| chance.within(0, 255).to_le_bytes()[0])
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Hashes with the default seed, with others, and with secrets.
fn hashes(chance: &mut Chance) -> Vec<Object> {
    let mut lines = Vec::new();
    for len in LENGTHS {
        let key = bytes(chance, len);
        let with = |hasher: KeyHasher, mut line: Object| {
            line.text("bytes", &hex(&key))
                .number("hash", hasher.hash(&key).to_bits());
            line
        };
        lines.push(with(KeyHasher::default(), line("hash")));
        let (first, second) = (chance.number(), chance.number());
        let mut seeded = line("hash");
        seeded.numbers("seed", [first, second].into_iter());
        lines.push(with(KeyHasher::with_seed(first, second), seeded));
        let secret_len = chance.one_of(&[0, 1, 8, 16, 33]);
        let secret = bytes(chance, secret_len);
        let mut secretly = line("hash");
        secretly.text("secret", &hex(&secret));
        lines.push(with(KeyHasher::with_secret(&secret), secretly));
    }
    lines
}

/// Addresses as users write them, in files of this proxy and in URLs of Go's clients.
fn addresses(chance: &mut Chance, count: u32) -> Vec<String> {
    let addresses = (0..count).map(|number| match chance.within(0, 5) {
        0 => format!("[2001:db8::{:x}]:8080", number + 1),
        1 => format!("replica-{number}.search.svc:80"),
        2 => format!("unix:/run/search-{number}.sock"),
        _ => {
            let port = chance.one_of(&[80, 443, 8000]);
            format!("10.0.{}.{number}:{port}", chance.within(0, 3))
        }
    });
    addresses.collect()
}

fn names(chance: &mut Chance) -> Vec<Object> {
    let addresses = addresses(chance, 8).into_iter();
    let lines = addresses.map(|address| {
        let mut line = line("name");
        line.text("address", &address);
        line.number("name", Identity::new(address.as_bytes(), 0).name);
        line
    });
    lines.collect()
}

/// A fleet, and the order of its servers for some keys.
fn orders(chance: &mut Chance) -> Vec<Object> {
    let count = chance.one_of(&[1, 2, 3, 5, 8, 20, 40]);
    let addresses = addresses(chance, count);
    let weights: Vec<u32> = addresses
        .iter()
        .map(|_| chance.one_of(&[1, 1, 1, 2, 5]))
        .collect();
    let partitions = chance.one_of(&[0, 0, 3, 256]);
    let keys: Vec<KeyHash> = (0..KEYS)
        .map(|_| KeyHash::from_bits(chance.number()))
        .collect();
    let fleet = line("fleet");
    ordered(
        fleet,
        &addresses,
        &weights,
        partitions,
        keys.into_iter().map(|key| (key, line("order"))),
    )
}

/// Addresses of servers and values of requests, as clients and the proxy have them.
fn clients(number: u64) -> Vec<Object> {
    let hosts = (1..=9).map(|host| format!("10.0.0.{host}:8000"));
    let addresses: Vec<String> = hosts.chain(["[2001:db8::1]:8000".to_owned()]).collect();
    let mut fleet = line("fleet");
    fleet.flag("clients", true);
    let keys = (0..20).map(|user| {
        let value = format!("user {}", number * 100 + user);
        let mut line = line("order");
        line.text("value", &value);
        (KeyHasher::default().hash(value.as_bytes()), line)
    });
    ordered(fleet, &addresses, &[1; 10], 0, keys)
}

/// Completes the line of a fleet, and those of keys with the order of its servers.
fn ordered(
    mut fleet: Object,
    addresses: &[String],
    weights: &[u32],
    partitions: u16,
    keys: impl Iterator<Item = (KeyHash, Object)>,
) -> Vec<Object> {
    let settings = KeySettings {
        balance_factor_millionths: 0,
        set: 16,
        partitions,
        ..KeySettings::default()
    };
    let config = settings.validate().unwrap_or_default();
    let mut policy = keyed(Box::new(Random::new()), &config);
    let servers = join(&mut *policy, addresses, weights);
    let pairs = addresses.iter().zip(weights);
    let pairs: Vec<String> = pairs
        .map(|(address, weight)| format!("[\"{address}\",{weight}]"))
        .collect();
    fleet.raw("servers", &format!("[{}]", pairs.join(",")));
    fleet.number("partitions", partitions);
    let mut lines = vec![fleet];
    let mut draws = SplitMix64::new(1);
    let mut explanation = Explanation::new();
    for (key, mut line) in keys {
        let query = Query::first().with_key(key);
        let _ = policy.choose(Instant::EPOCH, query, &mut draws, Some(&mut explanation));
        let Some(choice) = explanation.key() else {
            continue;
        };
        let order = choice.set().iter().filter_map(|server| {
            let of = servers
                .iter()
                .find(|(replica, _)| *replica == server.replica);
            of.map(|(_, place)| *place as u64)
        });
        line.number("key", key.to_bits());
        line.maybe("partition", choice.partition);
        line.numbers("order", order);
        lines.push(line);
    }
    lines
}

/// Adds all parts of all servers. Returns the place of each replica's server.
fn join(policy: &mut dyn Policy, addresses: &[String], weights: &[u32]) -> Vec<(ReplicaId, usize)> {
    let mut ids = ReplicaIds::new();
    let mut servers = Vec::new();
    for (place, (address, &weight)) in addresses.iter().zip(weights).enumerate() {
        for part in 0..weight {
            let Some(replica) = ids.allocate() else {
                continue;
            };
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
            let identity = Identity::new(address.as_bytes(), part);
            policy.handle(
                Instant::EPOCH,
                Event::Identified(replica, identity),
                &mut NoDraw,
            );
            servers.push((replica, place));
        }
    }
    servers
}
