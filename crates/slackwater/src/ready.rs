//! The sub-command `slackwater ready`: queries a running `serve` or `agent` whether it accepts
//! requests. It is for supervisors that run commands and for images that have no other tool.

use crate::output::{cannot_connect, print};
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_config::Fault;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// The default of `serve`. An agent has none; this is what all our examples give it.
const ADMIN: &str = if cfg!(feature = "serve") {
    "127.0.0.1:9900"
} else {
    "127.0.0.1:9901"
};

#[cfg(not(feature = "serve"))]
const EXAMPLES: &str = "\
Examples:
  slackwater ready                            queries an agent with --admin 127.0.0.1:9901

Exit codes: 0 it accepts requests, 1 it does not: it starts, it stops, or it does not answer.";

#[cfg(feature = "serve")]
const EXAMPLES: &str = "\
Examples:
  slackwater ready                            queries 127.0.0.1:9900, the default of serve
  slackwater ready --admin 127.0.0.1:9901

Exit codes: 0 it accepts requests, 1 it does not: it starts, it stops, or it does not answer.";

/// Longer answers do not come from an admin server.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

/// Arguments of `slackwater ready`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Admin address: admin.listen of a serve or agent
    #[arg(long, value_name = "ADDR:PORT", default_value = ADMIN)]
    admin: SocketAddr,
    /// Timeout of the answer, in seconds
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
}

/// Runs `slackwater ready`.
pub(crate) fn run(args: &Args) -> Result<(), Fault> {
    let admin = args.admin;
    let timeout = Duration::from_secs(args.timeout);
    let stream = TcpStream::connect_timeout(&admin, timeout)
        .map_err(|error| cannot_connect(&admin.to_string(), &error))?;
    let answer = ask(stream, admin, timeout)
        .map_err(|error| Fault::runtime(format!("no answer from {admin}: {error}")))?;
    let (status, phase) = parse(&answer).ok_or_else(|| {
        Fault::runtime(format!(
            "what answers at {admin} is not slackwater's admin server"
        ))
    })?;
    if status == 200 {
        print(&format!("{phase}\n"))
    } else {
        Err(Fault::runtime(format!("not ready: {phase}")))
    }
}

fn ask(mut stream: TcpStream, admin: SocketAddr, timeout: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    // A long answer may be cut within a character.
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns the status, and the body without its line break.
fn parse(answer: &str) -> Option<(u16, &str)> {
    let status = answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((status, body.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn only_http_responses_are_parsed() {
        let serving = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nserving\n";
        assert_eq!(parse(serving), Some((200, "serving")));
        let draining = "HTTP/1.1 503 Service Unavailable\r\n\r\ndraining\n";
        assert_eq!(parse(draining), Some((503, "draining")));
        for other in [
            "",
            "HTTP/1.1",
            "HTTP/1.1 200 OK",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 x\r\n\r\n",
        ] {
            assert_eq!(parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn long_answer_may_be_cut_within_a_character() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let admin = listener.local_addr().expect("bound");
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut read = Vec::new();
            while !read.ends_with(b"\r\n\r\n") {
                let mut octet = [0];
                stream.read_exact(&mut octet).expect("a request");
                read.extend(octet);
            }
            let body = "é".repeat(usize::try_from(ANSWER_BYTES_MAX).expect("small"));
            for part in ["HTTP/1.1 200 OK\r\n\r\n", &body] {
                // The client may have read enough.
                let _ = stream.write_all(part.as_bytes());
            }
        });
        let stream = TcpStream::connect(admin).expect("it listens");
        let answer = ask(stream, admin, Duration::from_mins(1)).expect("an answer");
        let (status, body) = parse(&answer).expect("HTTP");
        assert_eq!(status, 200);
        assert!(body.ends_with('\u{fffd}'), "cut within a character");
        answering.join().expect("it ended");
    }
}
