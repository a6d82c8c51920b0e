//! The core among sockets: tower middleware for clients and servers, and the probe protocol over
//! UDP and HTTP.
//!
//! # The problem
//!
//! Replicas of one service are not equal from one moment to the next: a neighbour takes the
//! processor, a cache is cold, a collector runs. Prequal (NSDI 2024) sends each query to the
//! replica that has room for it, and learns who has by asking: small probes, off the query's path,
//! answered by the replicas themselves with their requests in flight and the latency that the next
//! query would meet. `slackwater-core` decides; this crate carries questions and answers.
//!
//! # A server that answers probes
//!
//! Five lines around the service that you have: a [`Load`](server::Load), the
//! [`LoadLayer`](server::LoadLayer) that counts requests and answers probes over HTTP, and a
//! [responder](server::respond_udp) for the much cheaper probes over UDP.
//!
//! ```
//! use http_body_util::Full;
//! use slackwater_tower::server::{Load, LoadLayer, respond_udp};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn core::error::Error>> {
//! # type Body = Full<bytes::Bytes>;
//! let app = service_fn(async |_request: http::Request<Body>| {
//!     Ok::<_, core::convert::Infallible>(http::Response::new(Body::from("hello")))
//! });
//!
//! let load = Load::new();
//! let app = LoadLayer::new(load.clone()).layer(app);
//! let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
//! let key = Some("000102030405060708090a0b0c0d0e0f".parse()?); // shared with the clients
//! tokio::spawn(respond_udp(socket, load.clone(), key));
//!
//! // Give `app` to hyper, axum or tonic. It answers this itself:
//! let probe = http::Request::get("/prequal/probe").body(Body::default())?;
//! let answer = app.oneshot(probe).await?;
//! assert_eq!(answer.headers()["x-prequal-rif"], "0");
//! # Ok(())
//! # }
//! ```
//!
//! `examples/server.rs` is a whole server. [`wire`] is the protocol for those who bring their own
//! sockets, and `docs/reference/probe-protocol.md` its specification for those who bring their own
//! language.
//!
//! # Time
//!
//! The core takes `now` as an argument; a [`Clock`](clock::Clock) reads it. It follows tokio's
//! paused time, so tests of services behind these layers need not sleep.

pub mod client;
pub mod clock;
mod datagrams;
pub mod response;
pub mod server;
mod watched_body;
pub mod wire;
