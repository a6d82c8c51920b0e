//! Node's own HTTP/2, whose `destroy()` sends `RST_STREAM(NO_ERROR)` in the middle of a message.

use super::peers::{Reader, Replica, Watch, get};
use super::table::{Ends, HALF};
use crate::proxy::Proxy;
use core::net::SocketAddr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Sends half of a request, and destroys the stream on command.
const CLIENT: &str = "
const session = require('node:http2').connect(process.argv[1]);
session.on('error', () => {});
const request = session.request({ ':method': 'PUT', ':path': '/' });
request.on('error', () => {});
request.write('half');
process.stdin.on('data', () => request.destroy());
process.stdin.on('end', () => process.exit());
";

/// Sends half of a response, and destroys the stream on command.
const SERVER: &str = "
let last;
const server = require('node:http2').createServer();
server.on('stream', (stream) => {
  stream.on('error', () => {});
  stream.respond({ ':status': 200 });
  stream.write('half');
  last = stream;
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('data', () => last.destroy());
process.stdin.on('end', () => process.exit());
";

/// A running script; killed when dropped.
struct Node {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Node {
    /// Runs the script; `None` if Node is not installed, which is printed.
    fn run(script: &str, argument: &str) -> Option<Self> {
        let mut command = Command::new("node");
        command.args(["-e", script, argument]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let mut stderr = std::io::stderr();
            writeln!(stderr, "SKIPPED, there is no `node` here: {name}").unwrap();
            return None;
        };
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Some(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    fn tell(&mut self) {
        self.input.write_all(b"now\n").unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) async fn a_client_destroys_its_request() {
    for (protocol, reader, expected) in [
        ("http1", Reader::Http11, "cut off"),
        ("h2c", Reader::Http2, "RST_STREAM CANCEL"),
    ] {
        let replica = Replica::reads(reader).await;
        let settings = format!("[replica]\nprotocol = \"{protocol}\"");
        let proxy = Proxy::start(&[replica.address], &settings);
        let mut seen = replica.expects(HALF, Ends::CutOff);
        let Some(mut node) = Node::run(CLIENT, &format!("http://{}", proxy.address)) else {
            return;
        };
        assert!(seen.came().await);
        node.tell();
        assert_eq!(seen.end().await, expected, "{protocol}");
        proxy.settled().await;
    }
}

pub(super) async fn a_server_destroys_its_response() {
    let Some(mut node) = Node::run(SERVER, "") else {
        return;
    };
    let mut port = String::new();
    node.output.read_line(&mut port).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port.trim().parse().unwrap()));
    let proxy = Proxy::start(&[address], "[replica]\nprotocol = \"h2c\"");
    for (reader, expected) in [
        (Reader::Http11, "cut off"),
        (Reader::Http10, "cut off by a reset"),
        (Reader::Http2, "RST_STREAM INTERNAL_ERROR"),
    ] {
        let (watch, mut seen) = Watch::new(HALF, Ends::CutOff);
        let reading = tokio::spawn(get(proxy.address, reader, watch));
        assert!(seen.came().await);
        node.tell();
        assert_eq!(seen.end().await, expected, "{reader:?}");
        reading.await.unwrap();
    }
    proxy.settled().await;
}
