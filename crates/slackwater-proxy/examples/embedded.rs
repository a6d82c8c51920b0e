//! A proxy inside a program: two servers, and Slackwater in front of them.
//!
//! `cargo run -p slackwater-proxy --example embedded`
#![expect(clippy::print_stdout, reason = "it shows what it does")]

use core::net::SocketAddr;
use slackwater_config::{Config, Fault};
use slackwater_proxy::{OpenedAnew, Outside, Proxy, find};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fault> {
    let servers = [server("one")?, server("two")?].map(|address| address.to_string());
    let text = format!("listen = '127.0.0.1:0'\nreplicas = {servers:?}\nprobe.transport = 'none'");
    let config = Config::of_text("embedded", text)?;
    let fleets = find(&config).await?;
    let mut proxy = Proxy::start(&config, fleets, Outside::default(), &mut OpenedAnew)?;
    let answer = ask(proxy.addresses()[0])?;
    println!("{answer}");
    proxy.drain();
    proxy.ended().await
}

/// Starts a server that answers every request with its name, and returns its address.
fn server(name: &'static str) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let mut greet = move |mut client: TcpStream| {
        let _ = client.read(&mut [0; 1024])?;
        write!(client, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{name}")
    };
    std::thread::spawn(move || listener.incoming().flatten().try_for_each(&mut greet));
    Ok(address)
}

fn ask(address: SocketAddr) -> io::Result<String> {
    let (mut proxy, mut answer) = (TcpStream::connect(address)?, String::new());
    proxy.write_all(b"GET / HTTP/1.1\r\nhost: example\r\nconnection: close\r\n\r\n")?;
    proxy.read_to_string(&mut answer).map(|_| answer)
}
