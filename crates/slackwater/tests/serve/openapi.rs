//! `/openapi.json` is correct: each path in it is served as described, and each served path is in
//! it.

use crate::clients::Answer;
use crate::control::{TOKEN, Token};
use crate::proxy::{Proxy, slackwater, until};
use crate::reload::{Written, config};
use crate::replicas::Replica;
use core::net::SocketAddr;
use serde_json::{Value, json};
use slackwater_tower::server::{Load, respond_udp};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Sends a request to an admin server, and reads the whole answer.
async fn ask(admin: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let body = body.map_or_else(String::new, Value::to_string);
    let length = body.len();
    let mut text = format!(
        "{method} {path} HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\nauthorization: Bearer {TOKEN}\r\n"
    );
    if method != "GET" {
        text += "content-type: application/json\r\n";
        text += "content-length: ";
        text += &length.to_string();
        text += "\r\n";
    }
    stream
        .write_all(format!("{text}\r\n{body}").as_bytes())
        .await
        .unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    let end = all.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    Answer {
        status: head[9..12].parse().unwrap(),
        head,
        body: all[end + 4..].to_vec(),
    }
}

async fn document(admin: SocketAddr) -> Value {
    serde_json::from_slice(&ask(admin, "GET", "/openapi.json", None).await.body).unwrap()
}

/// The methods of each path of a role in the document.
fn described(document: &Value, role: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut paths = BTreeMap::<_, BTreeSet<_>>::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if operation["tags"].as_array().unwrap().contains(&json!(role)) {
                let methods = paths.entry(path.clone()).or_default();
                methods.insert(method.to_uppercase());
            }
        }
    }
    paths
}

/// The methods of each path that the process itself lists.
async fn served(admin: SocketAddr) -> BTreeMap<String, BTreeSet<String>> {
    let absent = ask(admin, "GET", "/absent", None).await;
    let (_, listing) = absent.text().trim_end().split_once("there are ").unwrap();
    let mut paths = BTreeMap::new();
    for path in listing.split(", ") {
        let refused = ask(admin, "TRACE", path, None).await;
        assert_eq!(refused.status, 405, "{path}");
        let allowed = refused.field("allow").unwrap().split(", ");
        let methods = allowed
            .filter(|method| *method != "HEAD")
            .map(str::to_owned);
        paths.insert(path.to_owned(), methods.collect());
    }
    paths
}

/// A validator of one schema in the document that rejects fields without a description.
fn closed(document: &Value, schema: &Value) -> jsonschema::Validator {
    let mut whole = schema.clone();
    whole["components"] = document["components"].clone();
    close(&mut whole);
    jsonschema::draft202012::new(&whole).unwrap()
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(values) => values.iter_mut().for_each(close),
        _ => {}
    }
}

/// Checks that an answer matches its operation.
fn check(document: &Value, operation: &Value, what: &str, answer: &Answer) {
    let described = &operation["responses"][answer.status.to_string()]["content"];
    let kind = answer
        .field("content-type")
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    let schema = &described[kind]["schema"];
    assert!(
        schema.is_object(),
        "{what}: {} {kind} is not described",
        answer.status
    );
    if kind == "application/json" {
        let found: Value = serde_json::from_slice(&answer.body).unwrap();
        let validator = closed(document, schema);
        let mistakes: Vec<_> = validator
            .iter_errors(&found)
            .map(|it| format!("{}: {it}", it.instance_path()))
            .collect();
        assert!(mistakes.is_empty(), "{what}: {mistakes:#?}");
    }
}

/// Requests each path of a role that reads, and once with an unknown parameter.
async fn check_reads(admin: SocketAddr, role: &str, service: &str) {
    let document = document(admin).await;
    assert_eq!(served(admin).await, described(&document, role), "{role}");
    for path in described(&document, role).into_keys() {
        let operation = &document["paths"][&path]["get"];
        let content = &operation["responses"]["200"]["content"];
        if operation.is_null() || content["text/event-stream"].is_object() {
            continue;
        }
        let parameters = operation["parameters"].as_array();
        let needs_service = parameters.is_some_and(|all| {
            all.iter()
                .any(|it| it["name"] == "service" && it["required"] == true)
        });
        let target = if needs_service {
            format!("{path}?service={service}")
        } else {
            path.clone()
        };
        let answer = ask(admin, "GET", &target, None).await;
        check(&document, operation, &target, &answer);
    }
}

#[tokio::test]
async fn openapi_document_matches_the_endpoints_of_serve() {
    let replicas = [Replica::echo("one").await, Replica::echo("two").await];
    let token = Token::new("openapi");
    let written = Written::new(
        "openapi",
        &config(&[&replicas[0], &replicas[1]], &token.section()),
    );
    let proxy = written.serve(&[]);
    assert_eq!(crate::clients::get(proxy.address, "/").await.status, 200);
    let admin = proxy.admin;
    let document = document(admin).await;
    let replica = replicas[0].address.to_string();
    let mut asked = BTreeSet::new();
    for (path, body, status) in [
        (
            "/replica",
            json!({"replica": replica, "drained": true, "weight": 7}),
            200,
        ),
        ("/replica", json!({"replica": "nobody"}), 404),
        (
            "/settings",
            json!({"set": {"policy": "random", "hedge.enabled": true}, "dry_run": true}),
            200,
        ),
        (
            "/settings",
            json!({"set": {"policy": "random", "hedge.enabled": true}}),
            200,
        ),
        ("/settings", json!({"set": {"policy": "best"}}), 422),
        ("/reload", json!({"dry_run": true}), 200),
        ("/reload", json!({}), 200),
        ("/reload", json!([3]), 422),
        ("/overrides/clear", json!({"service": "default"}), 200),
    ] {
        if path == "/overrides/clear" {
            // There is an entry in each list.
            check_reads(admin, "serve", "default").await;
        }
        let operation = &document["paths"][path]["post"];
        let answer = ask(admin, "POST", path, Some(&body)).await;
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.text());
        check(&document, operation, path, &answer);
        let takes = &operation["requestBody"]["content"]["application/json"]["schema"];
        let is_described = closed(&document, takes).is_valid(&body);
        assert_eq!(is_described, body.is_object(), "{path} {body}");
        asked.insert(path);
    }
    let asked: BTreeSet<_> = asked.into_iter().map(str::to_owned).collect();
    assert_eq!(asked, changes(&document, "serve"));
}

/// The paths of a role that change something.
fn changes(document: &Value, role: &str) -> BTreeSet<String> {
    let changes = described(document, role).into_iter();
    changes
        .filter(|(_, methods)| methods.contains("POST"))
        .map(|(path, _)| path)
        .collect()
}

#[tokio::test]
async fn events_match_the_openapi_document() {
    let replica = Replica::echo("one").await;
    let proxy = Proxy::start(&[replica.address], "");
    let document = document(proxy.admin).await;
    first_events(proxy.admin, &document).await;
}

/// Reads the stream until each described event has arrived, and checks it.
async fn first_events(admin: SocketAddr, document: &Value) -> BTreeSet<String> {
    let content = &document["paths"]["/events"]["get"]["responses"]["200"]["content"];
    let events = content["text/event-stream"]["x-events"]
        .as_object()
        .unwrap();
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let request = format!("GET /events HTTP/1.1\r\nhost: {admin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let mut seen = BTreeSet::new();
    until("each event has come", async || {
        let mut bytes = vec![0; 64 << 10];
        let read = stream.read(&mut bytes).await.unwrap();
        text += core::str::from_utf8(&bytes[..read]).unwrap();
        while let Some(end) = text.find("\n\n") {
            let event: String = text.drain(..end + 2).collect();
            let mut lines = event.lines();
            let name = lines
                .find_map(|line| line.strip_prefix("event: "))
                .map(str::to_owned);
            let data = lines.find_map(|line| line.strip_prefix("data: "));
            if let Some((name, data)) = name.zip(data) {
                let data: Value = serde_json::from_str(data).unwrap();
                let validator = closed(document, &events[&name]);
                let mistakes: Vec<_> = validator
                    .iter_errors(&data)
                    .map(|it| format!("{}: {it}", it.instance_path()))
                    .collect();
                assert!(mistakes.is_empty(), "{name}: {mistakes:#?}");
                seen.insert(name);
            }
        }
        (seen.len() == events.len()).then_some(())
    })
    .await;
    seen
}

/// A replica with a separate socket for probes.
async fn probed(replica: &Replica) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let probe = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let _ = respond_udp(socket, Load::new(), None).await;
    });
    let address = replica.address;
    format!("{{ address = \"{address}\", probe = \"{probe}\" }}")
}

#[tokio::test]
async fn decisions_match_the_openapi_document() {
    let failing = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            let refusal = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
            connection.send(refusal).await;
        }
    });
    let replicas = [
        Replica::echo("one").await,
        Replica::echo("two").await,
        failing.await,
    ];
    let mut list = Vec::new();
    for replica in &replicas {
        list.push(probed(replica).await);
    }
    let proxy = Proxy::of_file(&format!(
        "replicas = [{}]\ndiscovery.warm_up = 0\n[decisions]\nsample = 1\n",
        list.join(", ")
    ));
    let document = document(proxy.admin).await;
    let operation = &document["paths"]["/decisions"]["get"];
    // A decision of each of these kinds, so that few parts of the description remain unchecked.
    let wanted: [&dyn Fn(&Value) -> bool; 3] = [
        &|decision| decision["attempts"][1]["kind"] == "retry",
        &|decision| decision["attempts"][0]["runner_up"]["rif"].is_u64(),
        &|decision| decision["attempts"][0]["candidates"][1]["rif"].is_u64(),
    ];
    until("there are decisions of all kinds", async || {
        crate::clients::get(proxy.address, "/").await;
        let answer = ask(proxy.admin, "GET", "/decisions?limit=1000", None).await;
        check(&document, operation, "/decisions", &answer);
        let found: Value = serde_json::from_slice(&answer.body).unwrap();
        let all = found["decisions"].as_array().unwrap();
        let has = |is: &&dyn Fn(&Value) -> bool| all.iter().any(is);
        wanted.iter().all(has).then_some(())
    })
    .await;
    for path in ["/decisions?format=text", "/decisions?reason=why"] {
        let answer = ask(proxy.admin, "GET", path, None).await;
        check(&document, operation, path, &answer);
    }
}

#[tokio::test]
async fn openapi_document_matches_the_endpoints_of_an_agent() {
    let server = Replica::echo("server").await;
    let to = server.address.to_string();
    let agent = Proxy::spawn(&[
        "agent",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &to,
        "--admin",
        "127.0.0.1:0",
    ]);
    let status: Value =
        serde_json::from_slice(&ask(agent.admin, "GET", "/status", None).await.body).unwrap();
    let service = status["services"][0]["name"].as_str().unwrap();
    check_reads(agent.admin, "agent", service).await;
}

/// A demo; killed when dropped.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn openapi_document_matches_the_endpoints_of_a_demo() {
    let mut command = slackwater(&["demo", "--admin", "127.0.0.1:0", "--rate", "20"]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut demo = Demo(command.spawn().unwrap());
    let mut lines = BufReader::new(demo.0.stdout.take().unwrap()).lines();
    let admin = lines.find_map(|line| {
        let line = line.unwrap();
        line.strip_prefix("page http://")?
            .split('/')
            .next()?
            .parse()
            .ok()
    });
    let admin: SocketAddr = admin.unwrap();
    // Otherwise its output would block.
    std::thread::spawn(move || lines.for_each(drop));
    let service = until("there is a service", async || {
        let status: Value =
            serde_json::from_slice(&ask(admin, "GET", "/status", None).await.body).ok()?;
        Some(status["services"][0]["name"].as_str()?.to_owned())
    })
    .await;
    check_reads(admin, "demo", &service).await;
    let document = document(admin).await;
    let mut asked = BTreeSet::new();
    for (path, body, status) in [
        ("/demo/load", json!({"rate": 30}), 200),
        ("/demo/load", json!({"rate": 1e9}), 400),
        (
            "/demo/replica",
            json!({"replica": 1, "taken_percent": 50, "fault": "failing", "failing_percent": 9}),
            200,
        ),
        ("/demo/replica", json!({"replica": 1, "fault": "gone"}), 400),
        ("/demo/policy", json!({"side": 1, "policy": "random"}), 200),
        ("/demo/policy", json!({"side": 2, "policy": "random"}), 400),
        ("/demo/weather", json!({"on": false}), 200),
        ("/demo/reset", json!({}), 200),
        ("/demo/reset", json!({"all": true}), 400),
    ] {
        let operation = &document["paths"][path]["post"];
        let answer = ask(admin, "POST", path, Some(&body)).await;
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.text());
        check(&document, operation, path, &answer);
        let takes = &operation["requestBody"]["content"]["application/json"]["schema"];
        let is_described = closed(&document, takes).is_valid(&body);
        assert_eq!(is_described, status == 200, "{path} {body}");
        asked.insert(path.to_owned());
    }
    assert_eq!(asked, changes(&document, "demo"));
    let first = first_events(admin, &document).await;
    assert!(first.contains("tick"), "{first:?}");
}
