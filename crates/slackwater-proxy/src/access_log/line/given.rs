//! Facts of lines that tests make up.

use super::*;

/// Fields of a request that a line shows.
#[derive(Debug)]
pub(super) struct GivenRequest<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a [u8],
    pub(super) query: Option<&'a [u8]>,
    pub(super) protocol: &'static [u8; 8],
    pub(super) host: Option<&'a [u8]>,
    pub(super) referer: Option<&'a [u8]>,
    pub(super) user_agent: Option<&'a [u8]>,
    pub(super) id: Id<'a>,
}

/// Facts of a line.
#[derive(Debug)]
pub(super) struct GivenFacts<'a> {
    pub(super) request: &'a GivenRequest<'a>,
    pub(super) at: SystemTime,
    pub(super) client: IpAddr,
    pub(super) listener: &'a str,
    pub(super) service: &'a str,
    pub(super) replica: Option<&'a str>,
    pub(super) attempts: u32,
    pub(super) hedge: Option<&'static str>,
    pub(super) tie: Option<&'static str>,
    pub(super) shadow: Option<&'a str>,
    /// Why that replica was picked.
    pub(super) pick: Option<&'a PickView>,
    pub(super) status: u16,
    /// Status of a gRPC call, if known.
    pub(super) grpc_status: Option<u8>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) queue: Option<Duration>,
    pub(super) connect: Option<Duration>,
    pub(super) first_byte: Option<Duration>,
    pub(super) total: Duration,
    pub(super) end: &'static str,
    pub(super) error: Option<&'a [u8]>,
    /// Trace id of a sampled request.
    pub(super) trace: Option<TraceId>,
}

impl Facts for GivenFacts<'_> {
    fn at(&self) -> SystemTime {
        self.at
    }

    fn client(&self) -> IpAddr {
        self.client
    }

    fn listener(&self) -> &str {
        self.listener
    }

    fn service(&self) -> &str {
        self.service
    }

    fn replica(&self) -> Option<&str> {
        self.replica
    }

    fn attempts(&self) -> u32 {
        self.attempts
    }

    fn hedge(&self) -> Option<&'static str> {
        self.hedge
    }

    fn tie(&self) -> Option<&'static str> {
        self.tie
    }

    fn shadow(&self) -> Option<&str> {
        self.shadow
    }

    fn pick(&self) -> Option<&PickView> {
        self.pick
    }

    fn status(&self) -> u16 {
        self.status
    }

    fn grpc_status(&self) -> Option<u8> {
        self.grpc_status
    }

    fn bytes_in(&self) -> u64 {
        self.bytes_in
    }

    fn bytes_out(&self) -> u64 {
        self.bytes_out
    }

    fn queue(&self) -> Option<Duration> {
        self.queue
    }

    fn connect(&self) -> Option<Duration> {
        self.connect
    }

    fn first_byte(&self) -> Option<Duration> {
        self.first_byte
    }

    fn total(&self) -> Duration {
        self.total
    }

    fn end(&self) -> &'static str {
        self.end
    }

    fn error(&self) -> Option<&[u8]> {
        self.error
    }

    fn trace(&self) -> Option<TraceId> {
        self.trace
    }

    fn method(&self) -> &str {
        self.request.method
    }

    fn path(&self) -> &[u8] {
        self.request.path
    }

    fn query(&self) -> Option<&[u8]> {
        self.request.query
    }

    fn protocol(&self) -> &'static [u8; 8] {
        self.request.protocol
    }

    fn host(&self) -> Option<&[u8]> {
        self.request.host
    }

    fn referer(&self) -> Option<&[u8]> {
        self.request.referer
    }

    fn user_agent(&self) -> Option<&[u8]> {
        self.request.user_agent
    }

    fn id(&self) -> Id<'_> {
        self.request.id
    }
}
