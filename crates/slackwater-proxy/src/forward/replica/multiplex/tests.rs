//! Tests of which requests open connections, and which share the result.

use super::*;
use core::net::SocketAddr;
use futures_util::FutureExt;
use http::{HeaderName, HeaderValue};
use rustix::io::Errno;
use slackwater_config::ReplicaAddress;
use slackwater_config::{Limits, ReplicaProtocol, ReplicaSettings, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::LocalSet;

/// Connections that carry one stream at a time.
fn multiplex() -> (Multiplex, ReplicaOptions) {
    let limits = Limits {
        streams_max: 1,
        ..Limits::default()
    };
    let settings = ReplicaSettings {
        protocol: ReplicaProtocol::H2c,
        idle_connections_max: 0,
        connections_max: None,
        tls: None,
        proxy_protocol: None,
    };
    let options = ReplicaOptions::new(&settings, &Timeouts::default(), &limits);
    let deadlines = Deadlines::new(Duration::from_secs(1));
    (Multiplex::new(&options, false, &deadlines), options)
}

/// A stream for a request without a body.
async fn find(
    multiplex: &Multiplex,
    target: &Target,
    options: &ReplicaOptions,
) -> Result<StreamPermit, NoStream> {
    let waits = (options.connect, options.connect);
    let found = multiplex.find_or_open(target, options, Length::None, waits);
    found.await
}

/// Starts three concurrent requests that find no connection to `address`. Returns how many got a
/// stream, and the connections.
async fn three_at(address: SocketAddr) -> (usize, Multiplex) {
    let (multiplex, options) = multiplex();
    let target = Target::new(ReplicaAddress::Tcp(address), None);
    let found = LocalSet::new()
        .run_until(async {
            let find = || find(&multiplex, &target, &options);
            let found = tokio::join!(find(), find(), find());
            // The streams are released only when all requests are done.
            [found.0, found.1, found.2]
                .iter()
                .filter(|it| it.is_ok())
                .count()
        })
        .await;
    (found, multiplex)
}

#[tokio::test]
async fn request_beyond_the_streams_of_a_connection_opens_another() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let (found, multiplex) = three_at(address).await;
    assert_eq!((found, multiplex.failures.get()), (3, 0));
    assert_eq!(multiplex.open.borrow().len(), 3);
}

#[tokio::test]
async fn requests_that_wait_for_a_connection_share_its_failure() {
    // It never listens, and no other process can at its port.
    let held = TcpSocket::new_v4().expect("a socket");
    held.bind(SocketAddr::from(([127, 0, 0, 1], 0)))
        .expect("a port");
    let address = held.local_addr().expect("bound");
    let (found, multiplex) = three_at(address).await;
    assert_eq!((found, multiplex.failures.get()), (0, 1));
    let failure = multiplex.last_failure();
    assert_eq!(
        failure.raw_os_error(),
        Some(Errno::CONNREFUSED.raw_os_error())
    );
}

#[tokio::test]
async fn connections_that_a_replica_is_closing_are_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let (multiplex, options) = multiplex();
    let target = Target::new(ReplicaAddress::Tcp(address), None);
    let replaced = async {
        let find = || find(&multiplex, &target, &options);
        let both = (find().await, find().await);
        assert!(both.0.is_ok() && both.1.is_ok());
        drop(both);
        // SETTINGS, and GOAWAY with the last stream 0 and no error.
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let goaway = [&[0, 0, 8, 7][..], &[0; 13]].concat();
        for link in &*multiplex.open.borrow() {
            let octets = Bytes::from([&settings[..], &goaway].concat());
            let unread = link.connection.borrow_mut().receive(octets);
            assert!(unread.is_empty());
            assert!(link.check().is_err());
        }
        let third = find().await.expect("a stream");
        assert!(third.check().is_ok());
        assert_eq!(multiplex.open.borrow().len(), 1);
    };
    LocalSet::new().run_until(replaced).await;
}

#[test]
fn a_replica_has_at_most_256_connections() {
    let (_, mut options) = multiplex();
    let deadlines = Deadlines::new(Duration::from_secs(1));
    for (wanted, allowed) in [(0, 1), (2, 2), (256, 256), (257, 256)] {
        options.connections_max = wanted;
        let multiplex = Multiplex::new(&options, false, &deadlines);
        assert_eq!(multiplex.connections_max, allowed);
    }
}

#[tokio::test]
async fn at_most_256_requests_wait_for_a_stream() {
    let (multiplex, options) = multiplex();
    let until = Instant::now() + options.connect;
    let wait = || Box::pin(multiplex.wait(Length::None, until));
    let mut waiting: Vec<_> = (0..256).map(|_| wait()).collect();
    assert!(waiting.iter_mut().all(|it| it.now_or_never().is_none()));
    let beyond = wait().now_or_never();
    assert!(matches!(beyond, Some(Err(NoStream::Full))));
    waiting.pop();
    assert!(wait().now_or_never().is_none(), "one has left");
}

#[tokio::test]
async fn streams_go_to_requests_with_and_without_a_body_in_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let (_, mut options) = multiplex();
    options.connections_max = 1;
    let multiplex = Multiplex::new(&options, false, &Deadlines::new(Duration::from_secs(1)));
    let target = Target::new(ReplicaAddress::Tcp(address), None);
    let (served, waits) = (RefCell::new(Vec::new()), (options.connect, options.connect));
    let all = Rc::new((multiplex, options, target, served));
    let served = async {
        let held = find(&all.0, &all.2, &all.1).await.expect("a stream");
        let (none, any) = (Length::None, Length::Any);
        let requests = [none, none, none, any, any].map(|body| {
            let all = Rc::clone(&all);
            tokio::task::spawn_local(async move {
                let (multiplex, options, target, served) = &*all;
                let found = multiplex.find_or_open(target, options, body, waits).await;
                let _permit = found.expect("a stream, some time");
                served.borrow_mut().push(body == any);
                tokio::task::yield_now().await;
            })
        });
        while all.0.freed.waiting.get() < requests.len() {
            tokio::task::yield_now().await;
        }
        drop(held);
        for request in requests {
            request.await.expect("no panic");
        }
        all.3.take()
    };
    let served = LocalSet::new().run_until(served).await;
    assert_eq!(served, [false, true, false, true, false]);
}

/// A replica that answers PINGs, but no request, and in the end not even PINGs.
#[tokio::test]
async fn silent_connection_gets_pings_and_is_closed_if_one_is_not_answered() {
    const PING: u8 = 6;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let (_, options) = multiplex();
    let deadlines = Deadlines::new(Duration::from_millis(100));
    let multiplex = Multiplex::new(&options, false, &deadlines);
    let target = Target::new(ReplicaAddress::Tcp(address), None);
    let asked = async {
        tokio::task::spawn_local(async move { deadlines.run(|| ()).await });
        let permit = find(&multiplex, &target, &options).await;
        let permit = permit.expect("a stream");
        let (mut replica, _) = listener.accept().await.expect("a connection");
        let uri = Uri::from_static("http://replica/");
        let _request = permit.begin(&Method::GET, &uri, &Fields::default(), true);
        tokio::time::pause();
        let began = Instant::now();
        replica.read_exact(&mut [0; 24]).await.expect("a preface");
        // SETTINGS.
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        replica.write_all(&settings).await.expect("it is read");
        let (mut head, mut asked) = ([0; 9], Vec::new());
        while replica.read_exact(&mut head).await.is_ok() {
            let mut payload = vec![0; usize::from(head[2])];
            replica.read_exact(&mut payload).await.expect("a frame");
            if head[3] == PING {
                asked.push(began.elapsed().as_secs());
                head[4] = 1;
                let answer = [&head[..], &payload].concat();
                if asked.len() < 4 {
                    replica.write_all(&answer).await.expect("it is read");
                }
            }
        }
        (asked, began.elapsed().as_secs())
    };
    let asked = tokio::time::timeout(Duration::from_hours(1), asked);
    let asked = LocalSet::new().run_until(asked).await;
    assert_eq!(asked, Ok((vec![10, 20, 350, 680], 685)));
}

/// A stopped process: its kernel takes what it can, and acknowledges that for ever.
#[tokio::test]
async fn connection_that_is_left_ends_though_the_replica_reads_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let (multiplex, options) = multiplex();
    let target = Target::new(ReplicaAddress::Tcp(address), None);
    let left = async {
        let deadlines = Rc::clone(&multiplex.deadlines);
        tokio::task::spawn_local(async move { deadlines.run(|| ()).await });
        let permit = find(&multiplex, &target, &options).await;
        let permit = permit.expect("a stream");
        let _replica = listener.accept().await.expect("a connection");
        let load = Rc::downgrade(&permit.0.load);
        let mut fields = Fields::default();
        // More than the buffers of both sockets.
        let long = HeaderValue::try_from("x".repeat(16 << 20)).expect("a value");
        fields.append(HeaderName::from_static("x-long"), &long);
        let uri = Uri::from_static("http://replica/");
        drop(permit.begin(&Method::GET, &uri, &fields, true));
        drop(permit);
        multiplex.open.borrow_mut().clear();
        tokio::time::pause();
        while load.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let left = tokio::time::timeout(Duration::from_mins(1), left);
    assert!(LocalSet::new().run_until(left).await.is_ok());
}
