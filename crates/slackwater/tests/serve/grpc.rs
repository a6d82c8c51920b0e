//! What becomes of gRPC statuses, which come with HTTP status 200 whatever they say.

use crate::clients::Client;
use crate::proxy::Proxy;
use crate::replicas::Replica;

/// A replica that answers everything with the gRPC status, in the head if there is no body, or else in the trailers.
async fn says(status: &'static str, has_body: bool) -> Replica {
    let fields = "content-type: application/grpc\r\n";
    let last = format!("grpc-status: {status}\r\n");
    let answer = if has_body {
        format!("{fields}transfer-encoding: chunked\r\n\r\n5\r\n\0\0\0\0\0\r\n0\r\n{last}\r\n")
    } else {
        format!("{fields}{last}content-length: 0\r\n\r\n")
    };
    Replica::scripted(move |mut connection| {
        let answer = answer.clone();
        async move {
            while connection.head().await.is_some() {
                connection
                    .send(&format!("HTTP/1.1 200 OK\r\n{answer}"))
                    .await;
            }
        }
    })
    .await
}

/// How many of 100 calls the first of two replicas gets, and how many failures of its are counted.
async fn calls(first: &Replica, second: &Replica) -> (u64, u64) {
    let toml = "policy = \"els\"\n[retries]\nattempts_max = 1\n";
    let proxy = Proxy::start(&[first.address, second.address], toml);
    for _ in 0..100 {
        let mut client = Client::connect(proxy.address).await;
        let fields = "host: x\r\nte: trailers\r\nconnection: close, te\r\n";
        client
            .send(&format!("GET / HTTP/1.1\r\n{fields}\r\n"))
            .await;
        let answer = String::from_utf8(client.rest().await).unwrap();
        assert!(answer.contains("grpc-status"), "{answer}");
    }
    proxy.settled().await;
    let status: serde_json::Value =
        serde_json::from_str(&proxy.admin_page("/status").await).unwrap();
    let of = |name| {
        let requests = &status["replicas"][0]["requests"];
        requests[name].as_u64().unwrap()
    };
    (of("sent"), of("grpc_failures"))
}

#[tokio::test]
async fn a_status_that_blames_the_server_is_a_failure() {
    for has_body in [false, true] {
        let (bad, well) = (says("13", has_body).await, says("0", has_body).await);
        let (sent, failed) = calls(&bad, &well).await;
        assert!(
            sent < 20,
            "the policy keeps away from it: {sent}, body: {has_body}"
        );
        assert_eq!(failed, sent, "body: {has_body}");
    }
}

#[tokio::test]
async fn a_status_that_blames_the_caller_is_none() {
    for has_body in [false, true] {
        let (one, other) = (says("5", has_body).await, says("0", has_body).await);
        let (sent, failed) = calls(&one, &other).await;
        assert!((20..=80).contains(&sent), "as good as any: {sent}");
        assert_eq!(failed, 0);
    }
}
