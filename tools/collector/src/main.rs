//! A collector for inspection: it receives OTLP over gRPC and HTTP until it is ended, and returns
//! traces at `GET /traces/ID`.
//!
//! `slackwater-collector [GRPC_ADDRESS [HTTP_ADDRESS]]`; by default the usual ports at 127.0.0.1. A
//! line on standard output shows its addresses.

use core::error::Error;
use core::net::SocketAddr;
use slackwater_collector::Collector;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut address = |usual: &str| -> Result<SocketAddr, Box<dyn Error>> {
        let said = arguments.next().unwrap_or_else(|| usual.to_owned());
        said.parse()
            .map_err(|_| format!("{said} is no address, expected one such as {usual}").into())
    };
    let (grpc, http) = (address("127.0.0.1:4317")?, address("127.0.0.1:4318")?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let collector = Collector::default();
        let (grpc, http) = (
            collector.serve_grpc(grpc).await?,
            collector.serve_http(http).await?,
        );
        writeln!(std::io::stdout(), "grpc={grpc} http={http}")?;
        core::future::pending::<()>().await;
        Ok(())
    })
}
