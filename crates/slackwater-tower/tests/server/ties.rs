//! Tied requests between two replicas in this process, with real datagrams. The replica that starts
//! notifies the other one, which drops its copy, whether that waits or has not arrived yet.

use crate::eventually;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU32;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Request, Response};
use slackwater_core::tail::TieName;
use slackwater_tower::server::admission::{
    Admission, AdmissionLayer, ConcurrencyLimit, Entry, Peers, Permit, QueueConfig, Shed,
    TieCounts, TiesConfig, Waiting,
};
use slackwater_tower::server::{Load, respond_udp_tied};
use slackwater_tower::wire::datagram::{
    DATAGRAM_BYTES_MAX, Malformed, ProbeRequest, decode_begun, encode_begun, encode_request,
};
use slackwater_tower::wire::tie::{TIE, Tie};
use slackwater_tower::wire::{ProbeKey, shed};
use tokio::net::UdpSocket;
use tower::{Layer, ServiceExt, service_fn};

const NAME: TieName = TieName(0x1234_5678_9abc_def0);
const LOCAL: &str = "127.0.0.1:0";

/// A replica that runs one query at a time.
struct Replica {
    load: Load,
    admission: Admission,
    address: SocketAddr,
    key: Option<ProbeKey>,
}

impl Replica {
    async fn new() -> Self {
        Self::at(LOCAL, None, |_| true).await
    }

    async fn at(
        address: &str,
        key: Option<ProbeKey>,
        is_peer: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        let socket = UdpSocket::bind(address).await.unwrap();
        let address = socket.local_addr().unwrap();
        let peers = Peers::new(TiesConfig::default(), key.clone(), is_peer);
        let peers = peers.speak_by(&socket).unwrap();
        let limit = ConcurrencyLimit::fixed(NonZeroU32::MIN);
        let admission = Admission::tied(QueueConfig::default(), limit, peers);
        let load = Load::new();
        let responder = respond_udp_tied(socket, load.clone(), key.clone(), admission.clone());
        tokio::spawn(responder);
        Self {
            load,
            admission,
            address,
            key,
        }
    }

    /// Sends it a copy whose other copy went to `other_copy`.
    fn come(&self, other_copy: SocketAddr) -> Entry {
        let mut headers = HeaderMap::new();
        Tie {
            name: NAME,
            other_copy,
        }
        .write(&mut headers);
        let tie = self.admission.tie(&headers);
        self.admission.arrive(self.admission.asks(&headers), tie)
    }

    /// As [`come`](Self::come), for a copy that may start at once.
    fn admits(&self, other_copy: SocketAddr) -> Permit {
        match self.come(other_copy) {
            Entry::Begin(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    fn begins(&self, other_copy: SocketAddr) -> Permit {
        let permit = self.admits(other_copy);
        permit.begin();
        permit
    }

    fn waits(&self, other_copy: SocketAddr) -> Waiting {
        match self.come(other_copy) {
            Entry::Wait(waiting) => waiting,
            other => panic!("{other:?}"),
        }
    }

    /// Takes its only permit, without a tie.
    fn fill(&self) -> Permit {
        let headers = HeaderMap::new();
        match self.admission.arrive(self.admission.asks(&headers), None) {
            Entry::Begin(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    /// Returns when it has handled every datagram sent to it so far.
    async fn has_heard(&self) {
        let client = UdpSocket::bind(LOCAL).await.unwrap();
        let before = self.load.counts().udp_answered;
        let mut probe = [0; DATAGRAM_BYTES_MAX];
        let asked = ProbeRequest {
            nonce: 1,
            hint: b"",
        };
        let bytes = encode_request(&asked, self.key.as_ref(), &mut probe).unwrap();
        client.send_to(&probe[..bytes], self.address).await.unwrap();
        eventually("the probe is answered", || {
            self.load.counts().udp_answered > before
        })
        .await;
    }

    /// Sends it the message that the other copy has started.
    async fn is_told(&self, by: &UdpSocket, key: Option<&ProbeKey>) {
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        let bytes = encode_begun(NAME, key, &mut datagram);
        by.send_to(&datagram[..bytes], self.address).await.unwrap();
        self.has_heard().await;
    }

    fn ties(&self) -> TieCounts {
        self.admission.tie_counts().unwrap()
    }

    /// Copies that were dropped, and those that ran twice.
    fn dropped_and_doubled(&self) -> (u64, u64) {
        let copies = self.ties().copies;
        (copies.dropped, copies.doubled)
    }
}

fn key(byte: u8) -> ProbeKey {
    ProbeKey::from_bytes(&[byte; 32]).unwrap()
}

#[tokio::test]
async fn waiting_copy_is_dropped_when_the_other_starts() {
    for (address, key) in [(LOCAL, None), ("[::1]:0", None), (LOCAL, Some(key(1)))] {
        let [one, other] = [
            Replica::at(address, key.clone(), |_| true).await,
            Replica::at(address, key, |_| true).await,
        ];
        let full = other.fill();
        let waiting = other.waits(one.address);
        let _begun = one.begins(other.address);
        assert_eq!(waiting.await.err(), Some(Shed::CopyStarted));
        assert_eq!((one.ties().notified, other.ties().notified), (1, 0));
        assert_eq!(other.dropped_and_doubled(), (1, 0));
        assert_eq!(one.dropped_and_doubled(), (0, 0));
        let view = other.admission.view();
        assert_eq!(view.shed[Shed::CopyStarted.index()], 1);
        assert_eq!((view.rif, view.waiting), (1, [0; 3]));
        drop(full);
        assert_eq!(other.admission.view().rif, 0);
    }
}

#[tokio::test]
async fn a_copy_that_waited_notifies_when_it_starts() {
    let [one, other] = [Replica::new().await, Replica::new().await];
    let [full, also_full] = [one.fill(), other.fill()];
    let first = one.waits(other.address);
    let second = other.waits(one.address);
    drop(also_full);
    let second = second.await.expect("its turn");
    second.begin();
    assert_eq!(first.await.err(), Some(Shed::CopyStarted));
    assert_eq!(other.ties().notified, 1);
    drop((second, full));
    assert_eq!(
        (one.admission.view().rif, other.admission.view().rif),
        (0, 0)
    );
}

#[tokio::test]
async fn copy_that_arrives_after_the_notice_is_dropped_immediately() {
    let [one, other] = [Replica::new().await, Replica::new().await];
    let begun = one.begins(other.address);
    other.has_heard().await;
    assert!(matches!(
        other.come(one.address),
        Entry::Shed(Shed::CopyStarted)
    ));
    assert_eq!(other.admission.view().rif, 0, "though there is room");
    assert_eq!(other.dropped_and_doubled(), (1, 0));
    // The message was for one copy. A copy that has ended drops no other.
    drop(begun);
    let again = other.begins(one.address);
    one.has_heard().await;
    drop(again);
    assert_eq!(one.dropped_and_doubled(), (0, 0));
}

#[tokio::test]
async fn request_started_on_both_replicas_runs_twice_and_is_counted() {
    let [one, other] = [Replica::new().await, Replica::new().await];
    let [begun, also_begun] = [one.begins(other.address), other.begins(one.address)];
    one.has_heard().await;
    other.has_heard().await;
    // It does not matter which of the two messages arrived in time to be kept: neither drops a
    // copy.
    assert_eq!(one.dropped_and_doubled(), (0, 1));
    assert_eq!(other.dropped_and_doubled(), (0, 1));
    drop((begun, also_begun));
}

#[tokio::test]
async fn a_copy_that_leaves_the_queue_is_forgotten() {
    let [one, other] = [Replica::new().await, Replica::new().await];
    let full = other.fill();
    drop(other.waits(one.address));
    let _begun = one.begins(other.address);
    other.has_heard().await;
    assert_eq!(other.dropped_and_doubled(), (0, 0));
    // It does not start in place of another query either.
    drop(full);
    assert_eq!(other.ties().notified, 0);
}

#[tokio::test]
async fn copy_dropped_before_it_starts_sends_no_notice() {
    let [one, other] = [Replica::new().await, Replica::new().await];
    let full = other.fill();
    let mut waiting = Box::pin(other.waits(one.address));
    assert!((&mut waiting).now_or_never().is_none());
    drop(waiting);
    drop(full);
    assert_eq!((other.ties().notified, other.admission.view().rif), (0, 0));
}

#[tokio::test]
async fn a_permit_that_is_not_used_leaves_the_other_copy_waiting() {
    let [one, other] = [Replica::new().await, Replica::new().await];
    let full = other.fill();
    let waiting = other.waits(one.address);
    drop(one.admits(other.address));
    other.has_heard().await;
    assert_eq!(one.ties().notified, 0);
    drop(full);
    waiting.await.expect("its turn").begin();
    one.has_heard().await;
    assert_eq!(one.dropped_and_doubled(), (0, 0));
}

#[tokio::test]
async fn copy_with_a_name_in_use_is_not_tied() {
    let [one, other] = [Replica::new().await, Replica::new().await];
    let full = other.fill();
    let first = other.waits(one.address);
    let same = other.waits(one.address);
    assert_eq!(other.ties().copies.untied, 1);
    drop(same);
    let _begun = one.begins(other.address);
    assert_eq!(
        first.await.err(),
        Some(Shed::CopyStarted),
        "its own tie holds"
    );
    drop(full);
}

#[tokio::test]
async fn unknown_addresses_get_no_notices_and_theirs_are_ignored() {
    let stranger = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    let peer = UdpSocket::bind(LOCAL).await.unwrap();
    let is_peer = |address: IpAddr| address == IpAddr::from([127, 0, 0, 1]);
    let replica = Replica::at(LOCAL, None, is_peer).await;
    // It starts, and the address that its client named gets no message.
    drop(replica.begins(stranger.local_addr().unwrap()));
    assert_eq!((replica.ties().notified, replica.ties().strange), (0, 1));
    let full = replica.fill();
    let mut waiting = Box::pin(replica.waits(peer.local_addr().unwrap()));
    replica.is_told(&stranger, None).await;
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(replica.ties().strange, 2);
    replica.is_told(&peer, None).await;
    assert_eq!(waiting.await.err(), Some(Shed::CopyStarted));
    drop(full);
}

#[tokio::test]
async fn only_notices_signed_with_the_key_are_accepted() {
    let peer = UdpSocket::bind(LOCAL).await.unwrap();
    let replica = Replica::at(LOCAL, Some(key(1)), |_| true).await;
    let full = replica.fill();
    let mut waiting = Box::pin(replica.waits(peer.local_addr().unwrap()));
    replica.is_told(&peer, None).await;
    replica.is_told(&peer, Some(&key(2))).await;
    assert!((&mut waiting).now_or_never().is_none());
    let counts = replica.load.counts();
    assert_eq!(counts.udp_refused(Malformed::Unkeyed), 1);
    assert_eq!(counts.udp_refused(Malformed::Authentication), 1);
    replica.is_told(&peer, Some(&key(1))).await;
    assert_eq!(waiting.await.err(), Some(Shed::CopyStarted));
    drop(full);
    // The message that it sends has a tag.
    drop(replica.begins(peer.local_addr().unwrap()));
    let mut datagram = [0; DATAGRAM_BYTES_MAX];
    let bytes = peer.recv(&mut datagram).await.unwrap();
    assert_eq!(decode_begun(&datagram[..bytes], Some(&key(1))), Ok(NAME));
}

#[tokio::test]
async fn notice_is_refused_if_ties_are_off() {
    let socket = UdpSocket::bind(LOCAL).await.unwrap();
    let address = socket.local_addr().unwrap();
    let load = Load::new();
    let limit = ConcurrencyLimit::fixed(NonZeroU32::MIN);
    let admission = Admission::new(QueueConfig::default(), limit);
    let replica = Replica {
        load: load.clone(),
        admission: admission.clone(),
        address,
        key: None,
    };
    tokio::spawn(slackwater_tower::server::respond_udp(
        socket,
        load.clone(),
        None,
    ));
    replica
        .is_told(&UdpSocket::bind(LOCAL).await.unwrap(), None)
        .await;
    assert_eq!(load.counts().udp_refused(Malformed::Kind), 1);
    assert_eq!(admission.tie_counts(), None);
    drop(replica.begins(address));
}

#[tokio::test]
async fn layer_reads_the_tie_header_and_answers_for_a_dropped_copy() {
    let [one, other] = [Replica::new().await, Replica::new().await];
    let app = service_fn(async |_: Request<String>| {
        Ok::<_, core::convert::Infallible>(Response::new(String::new()))
    });
    let layer = AdmissionLayer::new(one.admission.clone());
    let ask = || {
        let request = Request::get("/");
        let other_copy = format!("123456789abcdef0; twin={}", other.address);
        let request = request.header(TIE, other_copy).body(String::new()).unwrap();
        layer.layer(app).oneshot(request)
    };
    let answer = ask().await.unwrap();
    assert_eq!((answer.status().as_u16(), one.ties().notified), (200, 1));
    drop(answer);
    other.has_heard().await;
    assert!(matches!(
        other.come(one.address),
        Entry::Shed(Shed::CopyStarted)
    ));
    one.is_told(&UdpSocket::bind(LOCAL).await.unwrap(), None)
        .await;
    let answer = ask().await.unwrap();
    assert_eq!(answer.status(), 503);
    let mark = HeaderValue::from_static("shed_twin_started");
    assert_eq!(answer.headers()[shed::ERROR], mark);
}
