//! A very cheap HTTP/1.1 keep-alive responder: one thread, several ports. `/` returns 2 bytes,
//! `/1k` 1 KiB, `/64k` 64 KiB. A request body with Content-Length is skipped. It also answers UDP
//! probes at the same ports (docs/reference/probe-protocol.md), with no request in flight and a
//! latency from 50 to 178 µs that is derived from the nonce: the benchmark measures a proxy's cost
//! of probing, not its benefit. The query rate is real, as that of every agent.
use proxybench_tools::*;
use std::collections::{HashMap, VecDeque};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Requests of a port in the last four seconds.
#[derive(Default)]
struct Recent {
    requests: u64,
    /// When there were how many, each tenth of a second.
    marks: VecDeque<(Instant, u64)>,
}

impl Recent {
    /// Requests a second, in thousandths.
    fn rate_millis(&mut self) -> u32 {
        let now = Instant::now();
        if self.marks.back().is_none_or(|last| now - last.0 >= Duration::from_millis(100)) {
            self.marks.push_back((now, self.requests));
        }
        while self.marks.get(1).is_some_and(|second| now - second.0 >= Duration::from_secs(4)) {
            self.marks.pop_front();
        }
        let (since, before) = self.marks[0];
        let rate = (self.requests - before) as f64 / (now - since).as_secs_f64().max(0.1);
        (rate * 1_000.0) as u32
    }
}

struct Conn {
    inbuf: Vec<u8>,
    skip: usize,
    out: Vec<u8>,
    off: usize,
    port_idx: usize,
    want_out: bool,
}

fn response(idx: usize, len: usize) -> Vec<u8> {
    let body = if len == 2 { b"ok".to_vec() } else { vec![b'x'; len] };
    let mut r = format!(
        "HTTP/1.1 200 OK\r\nserver: backend\r\ncontent-type: text/plain\r\nx-backend: {idx}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    r.extend_from_slice(&body);
    r
}

fn content_length(head: &[u8]) -> usize {
    for line in head.split(|b| *b == b'\n') {
        if line.len() > 15 && line[..15].eq_ignore_ascii_case(b"content-length:") {
            return std::str::from_utf8(&line[15..]).ok().and_then(|s| s.trim().parse().ok()).unwrap_or(0);
        }
    }
    0
}

/// Version 1, without a key.
fn answer_probes(socket: &UdpSocket, recent: &mut Recent, buf: &mut [u8]) {
    while let Ok((n, from)) = socket.recv_from(buf) {
        if n < 96 || buf[..6] != *b"SLWP\x01\x01" {
            continue;
        }
        let mut reply = [0u8; 96];
        reply[..5].copy_from_slice(&buf[..5]);
        reply[5] = 2;
        reply[8..16].copy_from_slice(&buf[8..16]);
        reply[19] = 1 | 1 << 5; // latency and query rate are present
        let latency_ns = 50_000 + u64::from(buf[15] & 127) * 1_000;
        reply[24..32].copy_from_slice(&latency_ns.to_be_bytes());
        reply[56..60].copy_from_slice(&recent.rate_millis().to_be_bytes());
        let _ = socket.send_to(&reply, from);
    }
}

fn main() {
    let ports = arg_list("ports", "19001,19002,19003,19004");
    let mut ep = Epoll::new();
    let mut listeners = Vec::new();
    let mut canned = Vec::new();
    for (i, p) in ports.iter().enumerate() {
        let l = listen(format!("127.0.0.1:{p}").parse().unwrap());
        ep.add(l, IN, i as u64);
        listeners.push(l);
        canned.push([response(i, 2), response(i, 1024), response(i, 65536)]);
    }
    let probes = 1_000u64;
    let sockets: Vec<UdpSocket> = ports
        .iter()
        .map(|p| UdpSocket::bind(format!("127.0.0.1:{p}")).expect("the UDP port of a backend"))
        .collect();
    for (i, s) in sockets.iter().enumerate() {
        s.set_nonblocking(true).expect("a socket");
        ep.add(s.as_raw_fd(), IN, probes + i as u64);
    }
    let mut recent: Vec<Recent> = ports.iter().map(|_| Recent::default()).collect();
    let base = 1_000_000u64;
    let mut conns: HashMap<i32, Conn> = HashMap::new();
    let mut buf = vec![0u8; 65536];
    loop {
        let n = ep.wait(None);
        for e in 0..n {
            let (token, ev) = ep.at(e);
            if (probes..base).contains(&token) {
                let port_idx = (token - probes) as usize;
                answer_probes(&sockets[port_idx], &mut recent[port_idx], &mut buf);
                continue;
            }
            if token < base {
                while let Some(fd) = accept(listeners[token as usize]) {
                    conns.insert(
                        fd,
                        Conn { inbuf: Vec::new(), skip: 0, out: Vec::new(), off: 0, port_idx: token as usize, want_out: false },
                    );
                    ep.add(fd, IN, base + fd as u64);
                }
                continue;
            }
            let fd = (token - base) as i32;
            let Some(c) = conns.get_mut(&fd) else { continue };
            let mut dead = false;
            if ev & !OUT != 0 {
                match read(fd, &mut buf) {
                    Io::Done(k) => c.inbuf.extend_from_slice(&buf[..k]),
                    Io::Again => {}
                    Io::Closed => dead = true,
                }
                loop {
                    if c.skip > 0 {
                        let k = c.skip.min(c.inbuf.len());
                        c.inbuf.drain(..k);
                        c.skip -= k;
                        if c.skip > 0 {
                            break;
                        }
                    }
                    let Some(end) = find_head_end(&c.inbuf) else { break };
                    recent[c.port_idx].requests += 1;
                    let r = &canned[c.port_idx];
                    let body = if c.inbuf.starts_with(b"GET /64k ") {
                        &r[2]
                    } else if c.inbuf.starts_with(b"GET /1k ") {
                        &r[1]
                    } else {
                        c.skip = content_length(&c.inbuf[..end]);
                        &r[0]
                    };
                    c.out.extend_from_slice(body);
                    c.inbuf.drain(..end);
                }
            }
            while !dead && c.off < c.out.len() {
                match write(fd, &c.out[c.off..]) {
                    Io::Done(k) => c.off += k,
                    Io::Again => break,
                    Io::Closed => dead = true,
                }
            }
            if dead {
                conns.remove(&fd);
                close(fd);
                continue;
            }
            let want = c.off < c.out.len();
            if !want {
                c.out.clear();
                c.off = 0;
            }
            if want != c.want_out {
                c.want_out = want;
                ep.modify(fd, if want { IN | OUT } else { IN }, token);
            }
        }
    }
}
