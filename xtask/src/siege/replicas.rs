//! Hostile replicas of one service, and their effect on clients of another: errors, and CPU time
//! after the client of the hostile one has left.

use super::innocents::Innocents;
use super::meters::{Watch, cpu_time, mib};
use super::rogue::{self, Conduct, Rogue};
use super::scores::{Score, Scores};
use super::setup::Protocol;
use super::setup::Setup;
use super::site::Site;
use super::wire::http1;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use rustix::process::Pid;
use std::io::{Read, Write};
use std::net::TcpStream;

const PART: &str = "replicas";

/// Concurrent clients of the hostile replica.
const CLIENTS: usize = 4;

/// CPU time in a second without requests.
const IDLE_CPU_MAX: Duration = Duration::from_millis(100);

/// Growth of the process's memory that a hostile replica may cause.
const GROWTH_MAX_KIB: u64 = 64 << 10;

/// Replicas of the short form.
const SHORT: [&str; 4] = [
    "chunks of 1 byte",
    "endless 1xx",
    "SETTINGS flood",
    "endless 1xx over h2c",
];

pub(super) fn run(site: &Site<'_>, scores: &mut Scores) -> Result<(), String> {
    let protocols = [(Protocol::Http1, rogue::HTTP1), (Protocol::H2c, rogue::H2C)];
    for (protocol, kinds) in protocols {
        for &(name, conduct) in kinds {
            if !site.short || SHORT.contains(&name) {
                besiege(site, (protocol, name, conduct), scores)?;
            }
        }
    }
    Ok(())
}

fn besiege(
    site: &Site<'_>,
    (protocol, name, conduct): (Protocol, &'static str, Conduct),
    scores: &mut Scores,
) -> Result<(), String> {
    let honest = [Rogue::start(rogue::honest)?, Rogue::start(rogue::honest)?];
    let hostile = Rogue::start(conduct)?;
    let replicas = honest.each_ref().map(|replica| replica.address);
    let proxy = site.start_ours(&Setup {
        services: &format!(
            "[services.hostile]\nreplicas = [\"{}\"]\nreplica.protocol = \"{}\"\nprobe.transport = \"none\"\n\
             [[routes]]\npath_prefix = \"/hostile\"\nservice = \"hostile\"\n[[routes]]\nservice = \"default\"\n",
            hostile.address,
            match protocol {
                Protocol::Http1 => "http1",
                Protocol::H2c => "h2c",
            }
        ),
        ..Setup::new(1, &replicas, Protocol::Http1)
    })?;
    proxy.warm_up()?;
    let before = proxy.resident_kib();
    let watch = Watch::start(proxy.pid());
    let innocents = Innocents {
        requests: site.pick(12, 60),
        per_second: 20,
        timeout: Duration::from_secs(5),
        posts: true,
        prefix: "",
    };
    let over = AtomicBool::new(false);
    let tally = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // The answer does not matter.
                    let _ = look_and_leave(proxy.at.http1);
                }
            });
        }
        let tally = innocents.send(proxy.at.http1);
        over.store(true, Ordering::Relaxed);
        tally
    });
    let idle = idle_cpu(proxy.pid());
    let growth = watch.most_kib().saturating_sub(before);
    let met = tally.failed == 0 && idle <= IDLE_CPU_MAX && growth <= GROWTH_MAX_KIB;
    scores.add(Score::alone(
        PART,
        if name.starts_with("endless 1xx") {
            "5"
        } else {
            ""
        },
        format!("a replica of another service: {name}"),
        "0 innocents fail, 100 ms of CPU in a second soon after its clients have left, 64 MiB at most",
        (
            met,
            format!("{tally}; {} ms; {} more", idle.as_millis(), mib(growth)),
        ),
    ));
    Ok(())
}

/// The CPU time of the first idle second of five, or of the last one: on a busy machine the end of
/// the clients' own work may be in the first, and a loop without an end is in each.
fn idle_cpu(process: Pid) -> Duration {
    let mut used = Duration::ZERO;
    for _ in 0..5 {
        let begun = cpu_time(process);
        std::thread::sleep(Duration::from_secs(1));
        used = cpu_time(process).saturating_sub(begun);
        if used <= IDLE_CPU_MAX {
            break;
        }
    }
    used
}

/// Sends a request to the hostile replica, reads for a while and leaves.
fn look_and_leave(proxy: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    stream.write_all(&http1::get("/hostile"))?;
    let mut piece = vec![0; 65_536];
    for _ in 0..20 {
        if stream.read(&mut piece)? == 0 {
            break;
        }
    }
    // A pause, so that requests do not repeat in a tight loop.
    std::thread::sleep(Duration::from_millis(20));
    Ok(())
}
