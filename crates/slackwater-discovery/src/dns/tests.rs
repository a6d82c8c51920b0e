//! Tests of the DNS source against a name server of their own.

use super::*;
use crate::Discovery;
use crate::testing::{holding, whole};
use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, SRV};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Deadline for events that must happen; far longer than they take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

type Zone = Vec<(&'static str, u32, RData)>;

/// A name server on loopback.
struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    zone: Zone,
    /// Names whose lookup fails.
    broken: Vec<&'static str>,
    asked: Vec<String>,
}

impl Server {
    async fn start(zone: Zone) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let address = socket.local_addr().expect("bound");
        let state = Arc::new(Mutex::new(State {
            zone,
            ..State::default()
        }));
        let server = Self {
            address,
            state: Arc::clone(&state),
        };
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((size, from)) = socket.recv_from(&mut buffer).await {
                let asked = Message::from_vec(&buffer[..size]).expect("a question");
                let answer = answer(&state, &asked).to_vec().expect("encoded");
                let _ = socket.send_to(&answer, from).await;
            }
        });
        server
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn discovery(&self, name: DnsName, ttl: TtlBounds) -> Discovery {
        let source = self.source(name, ttl);
        Discovery::follow("web", source, whole(), None, holding(&[]))
    }

    /// A resolver whose system searches this domain.
    fn searching(&self, domain: &str) -> Resolver {
        let domain = Name::from_ascii(domain).expect("a name");
        let servers = vec![name_server(self.address)];
        let config = ResolverConfig::from_parts(None, vec![domain], servers);
        Resolver::with_settings(config, ResolverOpts::default(), PATIENCE).expect("usable")
    }

    fn source(&self, name: DnsName, ttl: TtlBounds) -> DnsSource {
        let resolver = Resolver::new(&DnsServers {
            servers: vec![self.address],
            timeout: Duration::from_secs(5),
        })
        .expect("usable");
        let own = OwnAddresses::new([([10, 0, 0, 99], 80).into()]);
        DnsSource::new(resolver, name, None, None, own, ttl, 1)
    }
}

fn answer(state: &Mutex<State>, asked: &Message) -> Message {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let mut message = Message::response(asked.metadata.id, asked.metadata.op_code);
    message.metadata.recursion_desired = true;
    message.metadata.recursion_available = true;
    let query = asked.queries[0].clone();
    let name = query.name().to_ascii();
    let name = name.trim_end_matches('.').to_owned();
    state.asked.push(format!("{} {name}", query.query_type()));
    message.add_query(query.clone());
    if state.broken.contains(&name.as_str()) {
        message.metadata.response_code = ResponseCode::ServFail;
        return message;
    }
    let known = state.zone.iter().filter(|(owner, ..)| *owner == name);
    let mut is_known = false;
    for (_, ttl, data) in known {
        is_known = true;
        if data.record_type() == query.query_type() {
            let record = Record::from_rdata(query.name().clone(), *ttl, data.clone());
            message.add_answer(record);
        }
    }
    if !is_known {
        message.metadata.response_code = ResponseCode::NXDomain;
    }
    message
}

fn four(last: u8) -> RData {
    RData::A(A::new(10, 0, 0, last))
}

fn six(last: u16) -> RData {
    RData::AAAA(AAAA::new(0xfd00, 0, 0, 0, 0, 0, 0, last))
}

fn srv(priority: u16, port: u16, target: &str) -> RData {
    weighted(priority, 1, port, target)
}

fn weighted(priority: u16, weight: u16, port: u16, target: &str) -> RData {
    let target = Name::from_ascii(target).expect("a name");
    RData::SRV(SRV::new(priority, weight, port, target))
}

/// Looks up again as soon as possible.
const AT_ONCE: TtlBounds = TtlBounds {
    min: Duration::from_millis(2),
    max: Duration::from_millis(4),
};

fn host(name: &str) -> DnsName {
    DnsName::Host(name.to_owned(), 80)
}

async fn names(discovery: &Discovery) -> Vec<String> {
    timeout(PATIENCE, discovery.spoken()).await.expect("spoken");
    let fleet = discovery.fleet();
    let replicas = fleet.replicas().iter();
    replicas.map(|replica| replica.name.clone()).collect()
}

/// Waits until the source has sent two more queries and has received their answers.
async fn asked_again(server: &Server) {
    let before = server.state().asked.len();
    let again = async {
        while server.state().asked.len() < before + 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("looked up again");
}

#[tokio::test]
async fn each_address_is_a_replica_and_order_is_ignored() {
    let server = Server::start(vec![
        ("web.test", 0, four(2)),
        ("web.test", 0, four(1)),
        ("web.test", 0, six(1)),
    ])
    .await;
    let discovery = server.discovery(host("web.test."), AT_ONCE);
    assert_eq!(names(&discovery).await, ["10.0.0.1:80", "10.0.0.2:80"]);
    assert!(!server.state().asked.contains(&"AAAA web.test".to_owned()));

    let fleet = discovery.fleet();
    server.state().zone.reverse();
    server.state().zone.push(("web.test", 0, four(2)));
    asked_again(&server).await;
    assert!(Arc::ptr_eq(&fleet, &discovery.fleet()), "the same value");

    let mut fleets = discovery.fleets().subscribe();
    server.state().zone.push(("web.test", 0, four(9)));
    timeout(PATIENCE, fleets.changed())
        .await
        .expect("in time")
        .expect("followed");
    let expected = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.9:80"];
    assert_eq!(names(&discovery).await, expected);
}

#[tokio::test]
async fn without_ipv4_addresses_ipv6_addresses_are_used() {
    let server = Server::start(vec![("web.test", 0, six(2)), ("web.test", 0, six(1))]).await;
    let discovery = server.discovery(host("web.test."), AT_ONCE);
    assert_eq!(names(&discovery).await, ["[fd00::1]:80", "[fd00::2]:80"]);
}

#[tokio::test]
async fn failures_and_empty_answers_keep_the_last_fleet() {
    let server = Server::start(vec![("web.test", 0, four(1)), ("web.test", 0, six(1))]).await;
    let discovery = server.discovery(host("web.test."), AT_ONCE);
    assert_eq!(names(&discovery).await, ["10.0.0.1:80"]);

    server.state().broken.push("web.test");
    let failed = async |expected: &str| loop {
        let failure = discovery.state().failure;
        if failure.is_some_and(|failure| failure.contains(expected)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    timeout(PATIENCE, failed("web.test.: "))
        .await
        .expect("told");
    assert_eq!(names(&discovery).await, ["10.0.0.1:80"], "not to IPv6");

    server.state().broken.clear();
    server.state().zone.clear();
    let told = timeout(PATIENCE, failed("web.test.:80 has no addresses"));
    told.await.expect("told");
    assert_eq!(names(&discovery).await, ["10.0.0.1:80"]);

    let mut fleets = discovery.fleets().subscribe();
    server.state().zone.push(("web.test", 0, four(2)));
    timeout(PATIENCE, fleets.changed())
        .await
        .expect("in time")
        .expect("followed");
    assert_eq!(names(&discovery).await, ["10.0.0.2:80"]);
}

#[tokio::test]
async fn a_name_without_a_final_dot_is_absent_only_if_each_domain_answers_so() {
    let server = Server::start(Vec::new()).await;
    let resolver = server.searching("corp.test.");
    let found = async |name| resolver.addresses(name).await.map(|(found, _)| found);
    assert_eq!(found("api.web").await, Ok(Vec::new()));
    let searched = ["A api.web", "A api.web.corp.test"].map(str::to_owned);
    assert_eq!(server.state().asked[..2], searched);

    // The first name in the order of lookups fails: with fewer labels than `ndots` asks for, that
    // is the one in the domain.
    let failing = ["api.web", "web.corp.test", "_http._tcp.web"];
    server.state().broken.extend(failing);
    for (name, failing) in ["api.web", "web"].into_iter().zip(failing) {
        let Unknown(why) = found(name).await.expect_err("a failed lookup");
        assert!(why.starts_with(&format!("{failing}.: ")), "{why}");
    }
    let service = || service_addresses(&resolver, "_http._tcp.web");
    service().await.expect_err("a failed lookup");

    // Records in another domain count.
    server.state().zone = vec![
        ("api.web.corp.test", 0, four(1)),
        ("web", 0, four(2)),
        ("_http._tcp.web.corp.test", 0, srv(1, 80, "a.test.")),
        ("a.test", 0, four(3)),
    ];
    assert_eq!(found("api.web").await, Ok(vec![[10, 0, 0, 1].into()]));
    assert_eq!(found("web").await, Ok(vec![[10, 0, 0, 2].into()]));
    let (targets, _) = service().await.expect("found");
    assert_eq!(targets.len(), 1);
}

#[tokio::test]
async fn unusable_addresses_are_left_out() {
    let nowhere = || RData::A(A::new(0, 0, 0, 0));
    let server = Server::start(vec![("web.test", 0, four(1)), ("web.test", 0, nowhere())]).await;
    let discovery = server.discovery(host("web.test."), AT_ONCE);
    assert_eq!(names(&discovery).await, ["10.0.0.1:80"]);

    server.state().zone = vec![("web.test", 0, nowhere())];
    let failed = async {
        loop {
            if let Some(failure) = discovery.state().failure {
                return failure;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let failure = timeout(PATIENCE, failed).await.expect("told");
    assert_eq!(
        failure,
        "web.test.:80 has no usable address: 0.0.0.0:80 is every address of this machine, expected one address of the \
         replica"
    );
    assert_eq!(names(&discovery).await, ["10.0.0.1:80"]);
}

#[tokio::test]
async fn own_addresses_are_left_out() {
    let server = Server::start(vec![("web.test", 0, four(99)), ("web.test", 0, four(1))]).await;
    let discovery = server.discovery(host("web.test."), AT_ONCE);
    assert_eq!(names(&discovery).await, ["10.0.0.1:80"]);
    // At another port it is a different server.
    let other = server.discovery(DnsName::Host("web.test.".to_owned(), 81), AT_ONCE);
    assert_eq!(names(&other).await, ["10.0.0.1:81", "10.0.0.99:81"]);

    let mut source = server.source(host("web.test."), AT_ONCE);
    source.next().await.expect("one is usable");
    assert_eq!(
        source.remarks.last(),
        [
            "address ignored: 10.0.0.99:80 is this process itself, which listens at 10.0.0.99:80; requests would go round in circles"
        ]
    );
    server.state().zone = vec![("web.test", 0, four(1))];
    source.next().await.expect("usable");
    assert_eq!(source.remarks.last(), [""; 0]);
    server.state().zone = vec![("web.test", 0, four(99))];
    let failure = source.next().await.expect_err("no address is left");
    assert!(
        failure.contains("no usable address: 10.0.0.99:80 is this process"),
        "{failure}"
    );
}

#[tokio::test]
async fn srv_targets_are_replicas_and_priorities_are_tiers() {
    let server = Server::start(vec![
        ("_http._tcp.web.test", 0, srv(20, 8003, "c.test.")),
        ("_http._tcp.web.test", 0, srv(10, 8002, "b.test.")),
        ("_http._tcp.web.test", 0, srv(10, 8001, "a.test.")),
        ("_http._tcp.web.test", 0, srv(5, 8000, "gone.test.")),
        ("_http._tcp.web.test", 0, srv(0, 0, ".")),
        ("a.test", 0, four(1)),
        ("a.test", 0, four(4)),
        ("b.test", 0, four(2)),
        ("c.test", 0, four(3)),
    ])
    .await;
    let service = DnsName::Service("_http._tcp.web.test.".to_owned());
    let discovery = server.discovery(service, AT_ONCE);
    let tiers = || {
        let fleet = discovery.fleet();
        let tiers = fleet.replicas().iter().map(|replica| replica.tier);
        tiers.collect::<Vec<_>>()
    };
    let expected = [
        "10.0.0.1:8001",
        "10.0.0.2:8002",
        "10.0.0.4:8001",
        "10.0.0.3:8003",
    ];
    assert_eq!(names(&discovery).await, expected);
    assert_eq!(
        tiers(),
        [0, 0, 0, 1],
        "a target without addresses is no tier"
    );

    // An incomplete answer counts as none.
    server.state().broken.push("b.test");
    server.state().zone.retain(|(owner, ..)| *owner != "a.test");
    let failed = async {
        while discovery.state().failure.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, failed).await.expect("told");
    assert_eq!(names(&discovery).await, expected);

    // The next priority becomes tier 0 once the first has no addresses left.
    server.state().broken.clear();
    server.state().zone.retain(|(owner, ..)| *owner != "b.test");
    let mut fleets = discovery.fleets().subscribe();
    timeout(PATIENCE, fleets.changed())
        .await
        .expect("in time")
        .expect("followed");
    assert_eq!(names(&discovery).await, ["10.0.0.3:8003"]);
    assert_eq!(tiers(), [0]);
}

#[tokio::test]
async fn srv_targets_have_weights() {
    let server = Server::start(vec![
        ("_http._tcp.web.test", 0, weighted(1, 10, 80, "a.test.")),
        ("_http._tcp.web.test", 0, weighted(1, 0, 80, "b.test.")),
        ("_http._tcp.web.test", 0, weighted(2, 0, 80, "c.test.")),
        ("a.test", 0, four(1)),
        ("a.test", 0, four(4)),
        ("b.test", 0, four(2)),
        ("c.test", 0, four(3)),
    ])
    .await;
    let service = DnsName::Service("_http._tcp.web.test.".to_owned());
    let discovery = server.discovery(service, AT_ONCE);
    names(&discovery).await;
    let fleet = discovery.fleet();
    let weights: Vec<_> = (fleet.replicas().iter())
        .map(|replica| (replica.address.to_string(), replica.weight))
        .collect();
    let weight = |address: &str, weight| (address.to_owned(), weight);
    // Beside other weights, 0 is very rarely chosen; alone, 0 is as good as 1.
    let expected = [
        weight("10.0.0.1:80", 160),
        weight("10.0.0.2:80", 1),
        weight("10.0.0.4:80", 160),
        weight("10.0.0.3:80", 1),
    ];
    assert_eq!(weights, expected);
}

#[tokio::test]
async fn name_is_looked_up_again_only_after_its_ttl() {
    let server = Server::start(vec![("web.test", 3600, four(1)), ("now.test", 0, four(1))]).await;
    let bounds = TtlBounds {
        min: AT_ONCE.min,
        max: Duration::from_hours(24),
    };
    let long = server.discovery(host("web.test."), bounds);
    assert_eq!(names(&long).await, ["10.0.0.1:80"]);
    let short = server.discovery(host("now.test."), bounds);
    assert_eq!(names(&short).await, ["10.0.0.1:80"]);
    for _ in 0..5 {
        asked_again(&server).await;
    }
    let asked = server.state().asked.clone();
    let count = |name| asked.iter().filter(|asked| asked.ends_with(name)).count();
    assert_eq!(count("web.test"), 1, "{asked:?}");
    assert!(count("now.test") > 5, "{asked:?}");
}

#[tokio::test]
async fn next_lookup_is_due_after_the_shortest_ttl() {
    let server = Server::start(vec![
        ("four.test", 300, four(1)),
        ("four.test", 100, four(2)),
        ("six.test", 200, six(1)),
        ("_long._tcp.test", 400, srv(1, 80, "four.test.")),
        ("_short._tcp.test", 50, srv(1, 80, "four.test.")),
    ])
    .await;
    let bounds = TtlBounds {
        min: Duration::from_secs(1),
        max: Duration::from_hours(1),
    };
    let service = |name: &str| DnsName::Service(name.to_owned());
    for (name, due_s) in [
        (host("four.test."), 100),
        // Without an IPv4 address, which may come soon.
        (host("six.test."), 5),
        (host("none.test."), 5),
        (service("_long._tcp.test."), 100),
        (service("_short._tcp.test."), 50),
    ] {
        let mut source = server.source(name, bounds);
        let _ = source.next().await;
        let due = Duration::from_secs(due_s);
        let wait = source.wait;
        assert!((due * 9 / 10..=due).contains(&wait), "{source:?}");
    }
}
