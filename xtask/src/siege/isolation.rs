//! Uploads that a replica does not read, and their effect on other uploads to the same replicas.
//!
//! All clients of a worker share connections to an HTTP/2 replica, and with them their windows. A
//! body that is not read fills the window. Unless the proxy detects that, no other body passes.

use super::contenders::Contender;
use super::innocents::{Innocents, Tally};
use super::scores::{Score, Scores};
use super::setup::Protocol;
use super::setup::Setup;
use super::site::Site;
use super::wire::http1;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::Write;
use std::net::TcpStream;

const PART: &str = "isolation";

/// Enough to fill the windows of three replicas' connections, for each of two workers.
const UPLOADS: usize = 18;

/// More than the window of a connection to Go, which is 1 MiB.
const UPLOAD_BYTES: usize = 1_200 << 10;

/// Time for the bytes of one upload; after that the rest is not sent.
const WRITE_MAX: Duration = Duration::from_millis(300);

pub(super) fn run(site: &Site<'_>, scores: &mut Scores) -> Result<(), String> {
    for (stays, attack) in [
        (
            false,
            "18 uploads of 1.2 MiB that are not read; clients leave",
        ),
        (
            true,
            "18 uploads of 1.2 MiB that are not read; clients stay",
        ),
    ] {
        let go = match site.start_go(3) {
            Ok(go) => go,
            Err(why) => {
                scores.not_run(PART, attack, why);
                continue;
            }
        };
        let ours = besiege(site, Contender::Slackwater, &go.addresses, stays)?;
        let mut score = Score::alone(
            PART,
            "1",
            attack,
            "0 innocent POSTs fail",
            (ours.failed == 0, ours.to_string()),
        );
        for &peer in site.peers() {
            let found = besiege(site, peer, &go.addresses, stays);
            let found = found.map_or_else(|why| why, |tally| tally.to_string());
            score = score.beside(peer, Some(found));
        }
        scores.add(score);
    }
    Ok(())
}

fn besiege(
    site: &Site<'_>,
    contender: Contender,
    replicas: &[SocketAddr],
    stays: bool,
) -> Result<Tally, String> {
    let proxy = site.start(contender, &Setup::new(2, replicas, Protocol::H2c))?;
    proxy.warm_up()?;
    let innocents = Innocents {
        requests: site.pick(300, 1_500),
        per_second: 100,
        timeout: Duration::from_secs(3),
        posts: true,
        prefix: "",
    };
    // Without an attack nothing may fail, or the results below are meaningless.
    let before = Innocents {
        requests: 50,
        ..innocents
    };
    let before = before.send(proxy.at.http1);
    if before.failed > 0 {
        return Err(format!("before the attack: {before}"));
    }
    let kept = upload(proxy.at.http1, stays)?;
    let tally = innocents.send(proxy.at.http1);
    drop(kept);
    Ok(tally)
}

/// Sends all uploads; returns the connections that stay open.
pub(super) fn upload(proxy: SocketAddr, stays: bool) -> Result<Vec<TcpStream>, String> {
    let request = http1::post("/hang", UPLOAD_BYTES);
    let mut kept = Vec::new();
    for _ in 0..UPLOADS {
        let wrong = |error: std::io::Error| format!("an upload: {error}");
        let mut stream = TcpStream::connect(proxy).map_err(wrong)?;
        stream.set_write_timeout(Some(WRITE_MAX)).map_err(wrong)?;
        // The rest that the proxy does not accept is not sent.
        let _ = stream.write_all(&request);
        if stays {
            kept.push(stream);
        }
    }
    Ok(kept)
}
