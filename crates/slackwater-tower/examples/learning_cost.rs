//! A server for counting what it costs to learn and to report: `bench/proxies/signals.py` runs it
//! under callgrind.
//!
//! ```text
//! $ cargo run --profile quick -p slackwater-tower --example learning_cost -- 127.0.0.1:8080 latency
//! ```
//!
//! The second argument selects the server:
//!
//! - `bare`: hyper alone.
//! - `counted`: with the layer, which learns nothing.
//! - `latency`: the layer learns capacity and cost by RIF and latency, the default.
//! - `cpu`: it learns from the CPU of its only thread, too.
//! - `responses`: like `cpu`, and each response carries a report.
//!
//! Twenty times a second a caller requests a report, as probes do, which makes the layer learn.
//! Queries are answered immediately with a few bytes, so that their own cost hides nothing.
//! `/wait` is never answered: it keeps the server busy without work.

use core::convert::Infallible;
use core::future::pending;
use core::time::Duration;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use slackwater_tower::server::{Load, LoadLayer};
use slackwater_tower::tracker::{CapacityEstimator, CpuTotals, ThreadTotals};
use std::env::args;
use std::fs::File;
use std::os::unix::fs::FileExt;
use tokio::net::TcpListener;
use tower::{Layer, service_fn};

type Error = Box<dyn core::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = args().skip(1).collect();
    let [address, level] = &arguments[..] else {
        return Err("usage: learning_cost ADDRESS bare|counted|latency|cpu|responses".into());
    };
    let listener = TcpListener::bind(address).await?;
    let app = service_fn(answer);
    let load = match level.as_str() {
        "bare" => return serve(listener, TowerToHyperService::new(app)).await,
        "counted" => Load::builder().learn_capacity(false),
        "latency" => Load::builder(),
        "cpu" | "responses" => {
            let file = File::open("/proc/self/schedstat")?;
            Load::builder().cpu_totals(move || read_cpu(&file))
        }
        _ => return Err(format!("{level:?} is none of what there is to be counted").into()),
    };
    let load = load.build();
    let asked = load.clone();
    tokio::spawn(async move {
        loop {
            asked.report(None);
            tokio::time::sleep(CapacityEstimator::STEP).await;
        }
    });
    let layer = LoadLayer::new(load).report_with_responses(level == "responses");
    serve(listener, TowerToHyperService::new(layer.layer(app))).await
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/wait" {
        return pending().await;
    }
    Ok(Response::new(Full::new(Bytes::from_static(b"ok"))))
}

/// CPU time of this thread, the only one. The file stays open, as `slackwater-signals` keeps
/// it.
fn read_cpu(file: &File) -> Option<CpuTotals> {
    let mut buffer = [0; 64];
    let length = file.read_at(&mut buffer, 0).ok()?;
    let text = str::from_utf8(buffer.get(..length)?).ok()?;
    let mut fields = text
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok());
    let used = Duration::from_nanos(fields.next()?);
    let waited = Duration::from_nanos(fields.next()?);
    Some(CpuTotals {
        used,
        threads: Some(ThreadTotals { used, waited }),
        limit_millicores: Some(1_000),
        quota_period: None,
    })
}

/// One task for each connection.
async fn serve<S, B>(listener: TcpListener, app: S) -> Result<(), Error>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>,
    S: Clone + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn core::error::Error + Send + Sync>>> + Send + 'static,
{
    loop {
        let (socket, _) = listener.accept().await?;
        let served = http1::Builder::new().serve_connection(TokioIo::new(socket), app.clone());
        // A connection that breaks is its client's affair.
        tokio::spawn(async move { drop(served.await) });
    }
}
