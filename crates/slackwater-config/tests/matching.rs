//! Finding a request's route neither allocates nor frees, for any routes and any request.
//!
//! This is a separate test binary, because it counts through the global allocator.

#![expect(clippy::expect_used, reason = "tests and their helpers")]

use http::header::HeaderName;
use http::uri::{Authority, Uri};
use http::{HeaderValue, Method, StatusCode};
use slackwater_config::routes::{
    Action, Conditions, FixedResponse, Found, Head, HeaderChanges, HeaderRule, HeaderTest,
    HostRule, PathRule, Route, Router,
};
use slackwater_counting_allocator::calls_of;
use slackwater_http::Fields;

fn answered(status: u16, when: Conditions) -> Route {
    Route {
        when,
        then: Action::Respond(FixedResponse {
            status: StatusCode::from_u16(status).expect("a status"),
            body: bytes::Bytes::new(),
            content_type: HeaderValue::from_static("text/plain"),
        }),
        response_headers: HeaderChanges::default(),
    }
}

#[test]
fn matching_a_request_allocates_nothing() {
    let strict = Conditions {
        listeners: vec![0, 1],
        hosts: vec![HostRule::Below("example.com".to_owned())],
        path: Some(PathRule::prefix("/api")),
        methods: vec![Method::GET],
        headers: vec![HeaderRule {
            name: HeaderName::from_static("x-canary"),
            test: HeaderTest::Exact("1".to_owned()),
        }],
    };
    let loose = Conditions {
        path: Some(PathRule::prefix("/")),
        ..Conditions::default()
    };
    let router = Router::new(&[answered(201, strict), answered(202, loose)]);
    let local = Authority::from_static("192.0.2.1:80");
    let mut headers = Fields::new();
    headers.insert("host", HeaderValue::from_static("www.example.com:8080"));
    headers.insert("x-canary", HeaderValue::from_static("1"));
    for (target, expected) in [
        ("/api/x?y", Some(201)),
        ("/web", Some(202)),
        ("/api%2Fx", None),
        ("/api/../x", None),
        ("http://other.example/api", Some(202)),
    ] {
        let uri: Uri = target.parse().expect("a target");
        let head = Head {
            listener: 0,
            method: &Method::GET,
            uri: &uri,
            headers: &headers,
            local: &local,
        };
        let (calls, found) = calls_of(|| router.find(&head));
        assert_eq!(calls, 0, "{target}");
        let status = match found {
            Found::Route(_, route) => match &route.then {
                Action::Respond(response) => Some(response.status.as_u16()),
                _ => None,
            },
            Found::Doubtful | Found::None => None,
        };
        assert_eq!(status, expected, "{target}");
    }
}
