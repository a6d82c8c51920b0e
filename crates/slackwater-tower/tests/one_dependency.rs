//! A program that names no other crate of the repository, and what it sees by `{:?}`.

use core::convert::Infallible;
use core::future::ready;
use core::net::SocketAddr;
use http::{Request, Response};
use http_body_util::BodyExt;
use slackwater_tower::client::balance::Copies;
use slackwater_tower::client::{Balance, Balancer, InsertError, NoProber, Picked};
use slackwater_tower::policy::{Outcome, POLICIES, PolicySettings, Query, policy_named};
use slackwater_tower::server::{Load, LoadLayer};
use slackwater_tower::{Rif, default_policy};
use tower::{Layer, Service, ServiceExt, service_fn};

fn addr(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

/// A replica that answers with its number.
fn replica(
    last: u8,
) -> impl Service<Request<String>, Response = Response<String>, Error = Infallible, Future: Send> + Clone
{
    service_fn(move |_: Request<String>| ready(Ok(Response::new(last.to_string()))))
}

#[tokio::test]
async fn balancer_made_in_one_line_uses_the_default_policy_of_serve() {
    let replicas = [1, 2].map(|last| (addr(last), replica(last)));
    let balance = Balance::over(Balancer::probing_udp().expect("a socket"), replicas);
    let balance = balance.expect("two addresses");
    let request = Request::new(String::new());
    let response = balance.clone().oneshot(request).await.expect("an answer");
    let body = response.into_body().collect().await.expect("a body");
    assert!(["1", "2"].contains(&&*String::from_utf8_lossy(&body.to_bytes())));
    let balancer = balance.balancer();
    assert_eq!(balancer.policy_name(), default_policy().name());
    assert_eq!(balancer.snapshot().health.len(), 2, "with health around it");
}

#[tokio::test]
async fn duplicate_address_is_an_error_and_none_of_the_list_stays() {
    let replicas = [1, 2, 1].map(|last| (addr(last), replica(last)));
    let balancer = Balancer::with_default_policy(NoProber);
    let before = balancer.insert(addr(3)).expect("new");
    let balance = Balance::<_, String>::over(balancer.clone(), replicas);
    assert!(matches!(balance, Err(InsertError::Duplicate { addr: at, .. }) if at == addr(1)));
    let views = balancer.snapshot().replicas;
    assert_eq!(
        views.iter().map(|view| view.replica).collect::<Vec<_>>(),
        [before]
    );
}

#[tokio::test]
async fn timer_task_of_a_default_balancer_ends_with_it() {
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let balancer = Balancer::with_default_policy(NoProber);
    assert_eq!(tasks(), before + 1);
    drop(balancer);
    while tasks() > before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn retry_goes_to_another_replica_and_is_no_hedge() {
    let replicas = [1, 2].map(|last| (addr(last), replica(last)));
    let balancer = Balancer::with_default_policy(NoProber);
    let balance = Balance::over(balancer.clone(), replicas).expect("two addresses");
    let [one, two] = &balancer.snapshot().replicas[..] else {
        panic!("two replicas");
    };
    // A retry may go to a replica that is out of the choice, which a second copy may not.
    balancer.set_available(two.replica, false);
    for (copies, sent) in [(Copies::for_retries(), 2), (Copies::new(), 1)] {
        for _ in 0..2 {
            let mut request = Request::new(String::new());
            request.extensions_mut().insert(copies.clone());
            drop(balance.clone().oneshot(request).await);
        }
        let expected = [one.replica, two.replica];
        assert_eq!(copies.replicas(&balancer), expected[..sent]);
    }
}

/// The replicas of both balancers have the same id.
#[tokio::test]
async fn request_that_passes_two_balancers_is_a_first_copy_for_each() {
    let inner = Balancer::with_default_policy(NoProber);
    let cell = Balance::over(inner.clone(), [(addr(1), replica(1))]).expect("one address");
    let outer = Balancer::with_default_policy(NoProber);
    let balance = Balance::over(outer.clone(), [(addr(2), cell)]).expect("one address");
    let only = |balancer: &Balancer| balancer.snapshot().replicas[0].replica;
    for copies in [Copies::new(), Copies::for_retries()] {
        let mut request = Request::new(String::new());
        request.extensions_mut().insert(copies.clone());
        let response = balance.clone().oneshot(request).await;
        assert!(response.is_ok(), "{:?}", response.err());
        for balancer in [&outer, &inner] {
            assert_eq!(copies.replicas(balancer), [only(balancer)]);
        }
    }
}

#[test]
fn a_balancer_shows_names_and_states() {
    for entry in POLICIES {
        let policy = (entry.build)(&PolicySettings::default());
        let shown = format!("{policy:?}");
        assert!(shown.contains(entry.name) && shown.len() < 200, "{shown}");
    }
    let policy = policy_named("round_robin").expect("it is one");
    let policy = (policy.build)(&PolicySettings::default());
    let balancer = Balancer::with_seed(policy, NoProber, 1);
    let replicas = [1, 2].map(|last| balancer.insert(addr(last)).expect("there is room"));
    balancer.set_available(replicas[1], false);
    let Picked::Ready(lease) = balancer.pick(Query::first()) else {
        panic!("a replica is available");
    };
    assert_eq!(
        format!("{balancer:?}"),
        "Balancer { policy: \"round_robin\", in_flight: 1, replicas: \
         {10.0.0.1:80: available, 1 in flight, 10.0.0.2:80: taken out, 0 in flight}, \
         prober: NoProber, .. }"
    );
    assert_eq!(
        format!("{lease:?}"),
        "Lease { replica: r0, addr: 10.0.0.1:80, reason: Turn, .. }"
    );
    lease.finish(Outcome::Success);
    for last in 3..=200 {
        balancer.insert(addr(last)).expect("there is room");
    }
    let shown = format!("{balancer:?}");
    assert!(
        shown.contains("10.0.0.16:80") && shown.len() < 1000,
        "{shown}"
    );
}

#[test]
fn debug_output_of_load_shows_rif() {
    let load = Load::new();
    let query = load.arrive();
    let layered = LoadLayer::new(load.clone()).layer(());
    let shown = format!("{layered:?}");
    assert!(
        shown.contains("Load { rif: Rif(1), draining: false"),
        "{shown}"
    );
    drop(query);
    assert_eq!(load.rif(), Rif::ZERO);
}
