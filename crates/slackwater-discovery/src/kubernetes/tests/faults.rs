//! What an API server does wrong: the fleet stays, the failure says why, and the source goes on.

use super::*;
use crate::kubernetes::lines::EVENT_BYTES_MAX;
use crate::kubernetes::slices::ENDPOINTS_MAX;
use crate::testing::{holding, whole};
use tokio::time::{sleep, timeout};

fn failure(result: Result<Fleet, String>) -> String {
    let told = result.expect_err("a failure");
    assert!(!told.contains("s3cret"), "the token: {told}");
    told
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_leads_to_a_new_list_at_once() {
    let (mut cluster, watch) = Cluster::watching(&[1]).await;
    // In the stream: a new list, without a failure and without a wait.
    let began = Instant::now();
    let (fleet, watch) = cluster
        .next(async |server| {
            watch.event(
                "ERROR",
                &json!({"kind": "Status", "code": 410, "reason": "Expired"}),
            );
            let asked = server.asked().await;
            assert!(asked.is_streaming_list());
            let watch = asked.send(200);
            watch.event("ADDED", &web(50, &[1, 2]));
            watch.initial_events_end(51);
            watch
        })
        .await;
    assert_eq!(names(&fleet), expected(&[1, 2]));
    assert!(began.elapsed() <= SECOND, "{:?}", began.elapsed());
    let (fleet, ()) = cluster.next(async |_| watch.bookmark(52)).await;
    assert_eq!(names(&fleet), expected(&[1, 2]));

    // As a status of the next watch.
    drop(watch);
    let (fleet, ()) = cluster.next(async |_| ()).await;
    assert_eq!(names(&fleet), expected(&[1, 2]));
    let (fleet, watch) = cluster
        .next(async |server| {
            let asked = server.asked().await;
            assert!(asked.target.ends_with("&resourceVersion=52"));
            asked.refuse(410, "too old resource version: 52 (90)");
            let asked = server.asked().await;
            assert!(asked.is_streaming_list());
            let watch = asked.send(200);
            watch.event("ADDED", &web(91, &[3]));
            watch.initial_events_end(92);
            watch
        })
        .await;
    assert_eq!(names(&fleet), expected(&[3]));

    // Once more without anything between: that is reported, and slower.
    let began = Instant::now();
    watch.event("ERROR", &json!({"kind": "Status", "code": 410}));
    let (fleet, ()) = cluster.next(async |_| ()).await;
    assert!(failure(fleet).contains("410 again"));
    let (_, watch) = cluster
        .next(async |server| {
            let watch = server.asked().await.send(200);
            watch.event("ADDED", &web(93, &[3]));
            watch.initial_events_end(94);
            watch
        })
        .await;
    assert!(began.elapsed() >= SECOND * 8 / 5, "{:?}", began.elapsed());

    // A server that was away has forgotten the version: its first 410 is no failure of its own.
    let (_, ()) = cluster.next(async |_| watch.bookmark(95)).await;
    watch.cut();
    let (fleet, ()) = cluster.next(async |_| ()).await;
    failure(fleet);
    let (fleet, _watch) = cluster
        .next(async |server| {
            server.asked().await.refuse(410, "too old resource version");
            let asked = server.asked().await;
            assert!(asked.is_streaming_list());
            let watch = asked.send(200);
            watch.event("ADDED", &web(96, &[4]));
            watch.initial_events_end(97);
            watch
        })
        .await;
    assert_eq!(names(&fleet), expected(&[4]));
}

#[tokio::test(start_paused = true)]
async fn statuses_say_what_is_missing_and_the_source_keeps_trying() {
    let mut cluster = Cluster::new();
    let forbidden = "endpointslices.discovery.k8s.io is forbidden: User \"x\" cannot list\nit";
    for (status, message, words) in [
        (
            401,
            "Unauthorized",
            vec![
                "answered 401",
                "does not accept the credentials of",
                "config",
                "renew",
            ],
        ),
        (
            403,
            forbidden,
            vec![
                "answered 403: no right to watch endpointslices.discovery.k8s.io",
                "the verbs list and watch",
                "User \"x\" cannot list it",
            ],
        ),
        (404, "not found", vec!["answered 404", "Kubernetes 1.21"]),
        (500, "etcd is away", vec!["answered 500 (etcd is away)"]),
        (503, "", vec!["answered 503"]),
    ] {
        let (fleet, ()) = cluster
            .next(async |server| server.asked().await.refuse(status, message))
            .await;
        let told = failure(fleet);
        for word in words {
            assert!(told.contains(word), "{told}");
        }
    }
    // The right to watch is there, the one to list is not.
    let (fleet, ()) = cluster
        .next(async |server| {
            server.asked().await.refuse(422, "no streams");
            server.asked().await.refuse(403, "");
        })
        .await;
    let told = failure(fleet);
    assert!(told.contains("no right to list endpointslices"), "{told}");
    let (fleet, ()) = cluster
        .next(async |server| {
            server
                .asked()
                .await
                .answer(200, &list(20, &[web(15, &[1])]));
        })
        .await;
    assert_eq!(names(&fleet), expected(&[1]));
    // The other way round, what was listed stays valid.
    let (fleet, ()) = cluster
        .next(async |server| server.asked().await.refuse(403, ""))
        .await;
    assert!(failure(fleet).contains("no right to watch endpointslices"));
    let (fleet, _watch) = cluster
        .next(async |server| {
            let asked = server.asked().await;
            assert!(asked.target.ends_with("&resourceVersion=20"));
            asked.send(200)
        })
        .await;
    assert_eq!(names(&fleet), expected(&[1]));
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_is_reported_and_goes_on() {
    // A connection that breaks loses nothing; after an event that is none, everything is listed.
    type Break = fn(Sending) -> Option<Sending>;
    let ways: [(&str, &str, bool, Break); 6] = [
        ("cut", "broke off the watch", false, |watch| {
            watch.text("{\"type\":\"MODI");
            watch.cut();
            None
        }),
        (
            "half an event",
            "in the middle of an event",
            false,
            |watch| {
                watch.text("{\"type\":\"MODI");
                None
            },
        ),
        ("garbage", "sent no valid event: byte 2", true, |watch| {
            watch.text("{]\n");
            Some(watch)
        }),
        (
            "an unknown type",
            "the unknown type \"WHAT\"",
            true,
            |watch| {
                watch.event("WHAT", &web(11, &[2]));
                Some(watch)
            },
        ),
        ("no version", "without a resourceVersion", true, |watch| {
            watch.event("MODIFIED", &json!({"metadata": {"name": "web-abc"}}));
            Some(watch)
        }),
        ("an error", "answered 500 (etcd is away)", true, |watch| {
            let status = json!({"kind": "Status", "code": 500, "message": "etcd is away"});
            watch.event("ERROR", &status);
            Some(watch)
        }),
    ];
    for (way, words, lists, broken) in ways {
        let (mut cluster, watch) = Cluster::watching(&[1]).await;
        let (fleet, _watch) = cluster.next(async |_| broken(watch)).await;
        let told = failure(fleet);
        assert!(told.contains(words), "{way}: {told}");
        let began = Instant::now();
        let (fleet, _watch) = cluster
            .next(async |server| {
                let asked = server.asked().await;
                assert_eq!(asked.is_streaming_list(), lists, "{way}");
                let watch = asked.send(200);
                if lists {
                    watch.event("ADDED", &web(12, &[1]));
                    watch.initial_events_end(13);
                }
                watch
            })
            .await;
        assert_eq!(names(&fleet), expected(&[1]), "{way}");
        let wait = began.elapsed();
        assert!(
            (SECOND * 4 / 5..SECOND * 8 / 5).contains(&wait),
            "{way}: {wait:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_event_is_refused() {
    let (mut cluster, watch) = Cluster::watching(&[1]).await;
    let (fleet, ()) = cluster
        .next(async |_| {
            let piece = "x".repeat(1 << 20);
            for _ in 0..=EVENT_BYTES_MAX >> 20 {
                watch.text(&piece);
            }
        })
        .await;
    assert!(failure(fleet).contains("sent an event of more than 4194304 bytes"));
    timeout(SECOND, watch.closed())
        .await
        .expect("the connection is closed");
}

#[tokio::test(start_paused = true)]
async fn more_than_10_000_endpoints_are_refused() {
    let part = |name: &str, from: usize, count: usize| {
        let endpoints = (from..from + count)
            .map(|at| endpoint(&format!("10.1.{}.{}", at / 250, at % 250), "p"));
        slice(name, 5, 80, &endpoints.collect::<Vec<_>>())
    };
    let mut cluster = Cluster::new();
    let (fleet, watch) = cluster
        .next(async |server| {
            let watch = server.asked().await.send(200);
            for at in 0..10 {
                watch.event("ADDED", &part(&format!("s{at}"), at * 1000, 1000));
            }
            watch.initial_events_end(10);
            watch
        })
        .await;
    assert_eq!(names(&fleet).len(), ENDPOINTS_MAX);
    let (fleet, ()) = cluster
        .next(async |_| watch.event("ADDED", &part("more", 10_000, 1)))
        .await;
    let told = failure(fleet);
    assert!(
        told.contains("the service has 10001 endpoints and more"),
        "{told}"
    );
    // In a list, too.
    let (fleet, ()) = cluster
        .next(async |server| {
            server.asked().await.refuse(400, "");
            let items = [part("a", 0, 6000), part("b", 6000, 4001)];
            server.asked().await.answer(200, &list(20, &items));
        })
        .await;
    assert!(failure(fleet).contains("the service has 10001 endpoints and more"));
    // No more than that is kept of one slice.
    let (fleet, ()) = cluster
        .next(async |server| {
            let many = "{\"addresses\":[\"10.0.0.1\"]},".repeat(ENDPOINTS_MAX + 100);
            let text = format!(
                "{{\"items\":[{{\"metadata\":{{\"name\":\"a\"}},\"addressType\":\"IPv4\",\
                 \"endpoints\":[{{}},{many}{{}}]}}]}}"
            );
            server.asked().await.send(200).text(&text);
        })
        .await;
    assert!(failure(fleet).contains("the service has 10001 endpoints and more"));
    // Fewer again, and the source recovers.
    let _watch = cluster.list_and_watch(&[1]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_given_up_in_time() {
    let mut cluster = Cluster::new();
    let began = Instant::now();
    let (fleet, asked) = cluster.next(async |server| server.asked().await).await;
    assert!(failure(fleet).contains("gave no response within 10s"));
    assert!((SECOND * 10..SECOND * 11).contains(&began.elapsed()));
    drop(asked);
    // A list that never ends.
    let began = Instant::now();
    let (fleet, sending) = cluster
        .next(async |server| {
            server.asked().await.refuse(400, "");
            let sending = server.asked().await.send(200);
            sending.text("{\"items\": [");
            sending
        })
        .await;
    assert!(failure(fleet).contains("sent no whole list within 30s"));
    assert!(began.elapsed() < SECOND * 33, "{:?}", began.elapsed());
    drop(sending);
    // A watch that the server does not end.
    let watch = cluster.list_and_watch(&[1]).await;
    let began = Instant::now();
    let told = loop {
        let (fleet, ()) = cluster
            .next(async |_| {
                sleep(SECOND * 5).await;
                watch.bookmark(20);
            })
            .await;
        if fleet.is_err() {
            break failure(fleet);
        }
    };
    assert!(told.contains("did not end the watch in time"), "{told}");
    let span = began.elapsed();
    assert!((SECOND * 260..SECOND * 325).contains(&span), "{span:?}");
    timeout(SECOND, watch.closed())
        .await
        .expect("the connection is closed");
    let _watch = cluster.watch_again().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_replaced_after_the_time_of_two_bookmarks() {
    let mut cluster = Cluster::new();
    let (_, ()) = cluster
        .next(async |server| {
            server.asked().await.refuse(400, "");
            let page = list(20, &[web(15, &[1])]);
            server.asked().await.answer(200, &page);
        })
        .await;
    let watch = cluster.watch_again().await;
    // A word puts the end off.
    let (fleet, ()) = cluster
        .next(async |_| {
            sleep(SECOND * 100).await;
            watch.bookmark(20);
        })
        .await;
    assert_eq!(names(&fleet), expected(&[1]));
    // The server is there, and has no bookmarks: that is no failure.
    let silent = Duration::from_secs(150)..Duration::from_secs(152);
    let began = Instant::now();
    let next = cluster.watch_again().await;
    assert!(silent.contains(&began.elapsed()), "{:?}", began.elapsed());
    timeout(SECOND, watch.closed())
        .await
        .expect("the connection is closed");
    // It has gone behind a connection that stays open: that is one, and the slices stay.
    let began = Instant::now();
    let (fleet, asked) = cluster.next(async |server| server.asked().await).await;
    assert!(failure(fleet).contains("gave no response within 10s"));
    let span = began.elapsed();
    assert!((SECOND * 160..SECOND * 162).contains(&span), "{span:?}");
    drop((asked, next));
    let _watch = cluster.watch_again().await;
}

#[tokio::test(start_paused = true)]
async fn lists_that_are_none_are_refused() {
    let mut cluster = Cluster::new();
    let (fleet, ()) = cluster
        .next(async |server| {
            server.asked().await.refuse(400, "");
            server.asked().await.send(200).text("<html>");
        })
        .await;
    assert!(failure(fleet).contains("sent no valid list: byte 1 of line 1"));
    let (fleet, ()) = cluster
        .next(async |server| {
            let sending = server.asked().await.send(200);
            for _ in 0..17 {
                sending.text(&" ".repeat(1 << 20));
            }
        })
        .await;
    assert!(failure(fleet).contains("sent no whole list: length limit exceeded"));
    let (fleet, ()) = cluster
        .next(async |server| {
            let nameless = json!({"metadata": {"resourceVersion": "1"}, "items": [{}]});
            server.asked().await.answer(200, &nameless);
        })
        .await;
    assert!(failure(fleet).contains("sent an EndpointSlice without a name"));
    let (fleet, ()) = cluster
        .next(async |server| server.asked().await.answer(200, &json!({"items": null})))
        .await;
    assert!(failure(fleet).contains("without a resourceVersion"));
    let (fleet, ()) = cluster
        .next(async |server| {
            let endless = json!({"metadata": {"continue": "more"}, "items": []});
            for _ in 0..1000 {
                server.asked().await.answer(200, &endless);
            }
        })
        .await;
    assert!(failure(fleet).contains("sent a list that does not end"));
    let _watch = cluster.list_and_watch(&[1]).await;
}

async fn token(server: &mut ApiServer, expected: &str) -> testing::Asked {
    let asked = server.asked().await;
    assert_eq!(asked.authorization.as_deref(), Some(expected));
    asked
}

#[tokio::test(start_paused = true)]
async fn a_replaced_token_counts_from_the_next_request_on() {
    let (mut cluster, watch) = Cluster::watching(&[1]).await;
    cluster.folder.write("token", "s3cret-2\n");
    watch.cut();
    let (fleet, ()) = cluster.next(async |_| ()).await;
    failure(fleet);
    let (_, ()) = cluster
        .next(async |server| token(server, "Bearer s3cret-2").await.refuse(401, ""))
        .await;
    cluster.folder.write("token", "s3cret-3");
    let (fleet, watch) = cluster
        .next(async |server| token(server, "Bearer s3cret-3").await.send(200))
        .await;
    assert_eq!(names(&fleet), expected(&[1]));
    watch.cut();
    let (fleet, ()) = cluster.next(async |_| ()).await;
    failure(fleet);
    std::fs::remove_file(cluster.folder.path("token")).expect("removed");
    let (fleet, ()) = cluster.next(async |_| ()).await;
    let told = fleet.expect_err("no token");
    assert!(told.contains("/token: "), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_not_repeated_in_a_loop() {
    let mut cluster = Cluster::new();
    let (_, ()) = cluster
        .next(async |server| {
            server.asked().await.refuse(400, "");
            server
                .asked()
                .await
                .answer(200, &list(20, &[web(15, &[1])]));
        })
        .await;
    let began = Instant::now();
    let mut waits = Vec::new();
    for _ in 0..6 {
        let (fleet, ()) = cluster
            .next(async |server| {
                drop(server.asked().await.send(200));
            })
            .await;
        waits.push(began.elapsed());
        assert_eq!(names(&fleet), expected(&[1]), "it was open");
        let (fleet, ()) = cluster.next(async |_| ()).await;
        assert!(failure(fleet).contains("ended the watch at once"));
    }
    let first = waits
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .next();
    assert!(first >= Some(SECOND * 4 / 5), "{waits:?}");
    assert!(waits[5] >= SECOND * 24, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn the_fleet_stays_while_the_server_is_away() {
    let Cluster {
        server,
        source,
        folder,
    } = Cluster::new();
    drop(server);
    let discovery = Discovery::follow_pods("web", source, whole(), None, holding(&[1, 2]));
    let answer = discovery.first_answer().expect("none yet");
    discovery.spoken().await;
    sleep(Duration::from_mins(2)).await;
    let state = discovery.state();
    let told = state.failure.expect("a failure");
    assert!(
        told.starts_with("127.0.0.1:1 cannot be reached: "),
        "{told}"
    );
    // Waits of 0.8 to 1.6 s, 1.6 to 3.2 s and so on up to 15 to 30 s.
    assert!((7..=14).contains(&state.failures), "{}", state.failures);
    assert_eq!(state.answered_at, None);
    assert_eq!(discovery.fleet().len(), 2);
    assert!(answer.now_or_never().is_none(), "a failure is no answer");
    drop(folder);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_slices_is_the_first_answer_and_a_failure() {
    let Cluster {
        mut server,
        source,
        folder,
    } = Cluster::new();
    let discovery = Discovery::follow_pods("web", source, whole(), None, holding(&[]));
    let answer = discovery.first_answer().expect("none yet");
    server.asked().await.refuse(503, "");
    let watch = server.asked().await.send(200);
    watch.initial_events_end(10);
    answer.await;
    assert!(discovery.first_answer().is_none());
    sleep(SECOND).await;
    let told = discovery.state().failure.expect("no slice");
    assert!(told.contains("has no EndpointSlice"), "{told}");
    let list = Discovery::of_list(Fleet::default(), &whole().subset, holding(&[]));
    assert!(list.first_answer().is_none());
    drop((folder, watch));
}
