//! All paths of the admin server: which sub-commands serve them, their parameters, and their
//! answers.

use crate::demo::{InForce, LoadBody, PolicyBody, ReplicaBody, ResetBody, WeatherBody};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};
use slackwater_admin::messages::{Fleet, ReplicaHistory, ServiceHistory, Tick};
use slackwater_admin::{
    Clear, Overrides, Reload, Reloaded, ReplicaChange, ReplicaOverridden, SettingsChange,
    SettingsChanged, Status,
};
use slackwater_core::policy::PickReason;
use slackwater_proxy::decisions::{Found, LIMIT_MAX};
use slackwater_proxy::request_record::AttemptKind;

/// The sub-commands that have an admin server.
pub(super) const ALL: &[&str] = &["serve", "agent", "demo"];
pub(super) const SERVE: &[&str] = &["serve"];

/// A path, and the requests to it.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// The sub-commands that serve it.
    pub(super) roles: &'static [&'static str],
    pub(super) summary: &'static str,
    pub(super) parameters: &'static [Parameter],
    /// The type of its body; `None` if it takes no body.
    pub(super) body: Option<Shape>,
    /// The body may be empty.
    pub(super) may_be_empty: bool,
    /// The answer with status 200.
    pub(super) answer: Shape,
    /// Other statuses, and their meanings.
    pub(super) others: &'static [(u16, &'static str)],
    /// The request needs the token.
    pub(super) needs_token: bool,
}

/// A parameter after the `?`.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) is_required: bool,
    /// The kind of its value.
    pub(super) kind: Kind,
    pub(super) about: &'static str,
}

/// The kind of a parameter's value.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    YesOrNo,
    /// A whole number, from 1 to this one.
    UpTo(usize),
    /// One of these names.
    OneOf(fn() -> Vec<&'static str>),
}

impl Kind {
    pub(super) fn schema(self) -> Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::YesOrNo => json!({ "type": "boolean" }),
            Self::UpTo(most) => json!({ "type": "integer", "minimum": 1, "maximum": most }),
            Self::OneOf(names) => json!({ "type": "string", "enum": names() }),
        }
    }
}

/// Makes the schema of a type.
pub(super) type Schemas = fn(&mut SchemaGenerator) -> Schema;

/// Either answer of `/history`.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it stands for a schema")]
enum History {
    Service(ServiceHistory),
    Replica(ReplicaHistory),
}

/// The content of a body.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// One of these content types, without a description of the content.
    Plain(&'static [&'static str]),
    /// JSON of a type of ours.
    Json(Schemas),
    /// JSON that describes itself.
    AnyJson,
    /// JSON of a type of ours, or text.
    JsonOrText(Schemas),
    /// A stream of events: the name of each, and its JSON.
    Events(&'static [(&'static str, Schemas)]),
}

const fn of<T: JsonSchema>() -> Shape {
    Shape::Json(SchemaGenerator::subschema_for::<T>)
}

const TEXT: Shape = Shape::Plain(&["text/plain"]);

/// The error responses of all operations that change something.
const REFUSALS: &[(u16, &str)] = &[
    (400, "The body is no JSON, or there are parameters"),
    (401, "The token is missing or wrong"),
    (
        403,
        "There is no token (`admin.token_file`), or another site's page has sent it",
    ),
    (404, "There is no such service or replica"),
    (408, "The body was not here in time"),
    (409, "It does not go together with what is there"),
    (413, "The body is too long"),
    (415, "The body is not said to be JSON"),
    (422, "It is mistaken: a line for each mistake"),
    (
        503,
        "Something that it needs cannot be had, too much waits for its turn, or the process is stopping",
    ),
];

const fn read(path: &'static str, summary: &'static str, answer: Shape) -> Operation {
    Operation {
        method: "get",
        path,
        roles: ALL,
        summary,
        parameters: &[],
        body: None,
        may_be_empty: false,
        answer,
        others: &[],
        needs_token: false,
    }
}

const fn change(
    path: &'static str,
    summary: &'static str,
    body: Shape,
    answer: Shape,
) -> Operation {
    Operation {
        method: "post",
        roles: SERVE,
        body: Some(body),
        others: REFUSALS,
        needs_token: true,
        ..read(path, summary, answer)
    }
}

const fn parameter(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter {
        name,
        is_required: false,
        kind,
        about,
    }
}

/// A knob of the demo. Its answer is what is in force afterwards.
const fn knob(path: &'static str, summary: &'static str, body: Shape) -> Operation {
    Operation {
        method: "post",
        roles: &["demo"],
        body: Some(body),
        others: &[
            (
                400,
                "It cannot be had; the body says why, and nothing has changed",
            ),
            (
                403,
                "Another site's page has sent it, or the host is no address",
            ),
            (408, "The body was not here in time"),
            (413, "The body is too long"),
            (415, "The body is not said to be JSON"),
            (
                500,
                "It could not be done, or not all of it; the body says why",
            ),
            (
                503,
                "The demo is over, or it took too long and may still come",
            ),
        ],
        ..read(path, summary, of::<InForce>())
    }
}

/// All operations.
pub(super) const OPERATIONS: &[Operation] = &[
    read(
        "/status",
        "The status of the process, of its services and replicas",
        of::<Status>(),
    ),
    read(
        "/metrics",
        "The same in numbers, for Prometheus",
        Shape::Plain(&["text/plain", "application/openmetrics-text"]),
    ),
    read("/healthz", "200 as long as the process runs", TEXT),
    Operation {
        parameters: &[
            parameter(
                "services",
                Kind::OneOf(|| vec!["any", "all"]),
                "200 only if any service, or every one, has a replica that can answer; not together with `service`",
            ),
            parameter(
                "service",
                Kind::Text,
                "200 only if this service has a replica that can answer",
            ),
        ],
        others: &[
            (400, "A parameter is unknown or has another value"),
            (404, "There is no such service"),
            (
                503,
                "Requests are not taken, or not taken yet, or a service that was asked for cannot answer; the body says why",
            ),
        ],
        ..read("/readyz", "200 while requests are taken", TEXT)
    },
    Operation {
        others: &[(503, "As many readers as there may be are listening")],
        ..read(
            "/events",
            "The fleet and its figures, as a stream",
            Shape::Events(&[
                ("fleet", SchemaGenerator::subschema_for::<Fleet>),
                ("tick", SchemaGenerator::subschema_for::<Tick>),
            ]),
        )
    },
    Operation {
        parameters: &[
            Parameter {
                is_required: true,
                ..parameter("service", Kind::Text, "Its name, as in the fleet")
            },
            parameter(
                "replica",
                Kind::Text,
                "The name of one of its replicas, as in the fleet; left out: the service as a whole",
            ),
        ],
        others: &[
            (400, "A parameter is missing or strange"),
            (404, "There is no such service or replica"),
            (503, "Nothing is known yet"),
        ],
        ..read(
            "/history",
            "A service or a replica over the last minutes",
            of::<History>(),
        )
    },
    Operation {
        roles: &["serve", "demo"],
        parameters: &[
            parameter("id", Kind::Text, "Of the request with this id"),
            parameter("service", Kind::Text, "Of this service"),
            parameter(
                "replica",
                Kind::Text,
                "Of requests that this replica had, among others",
            ),
            parameter(
                "reason",
                Kind::OneOf(|| PickReason::ALL.map(PickReason::as_str).to_vec()),
                "With an attempt that was sent there for this reason",
            ),
            parameter(
                "attempt",
                Kind::OneOf(|| AttemptKind::ALL.map(AttemptKind::as_str).to_vec()),
                "With an attempt of this kind",
            ),
            parameter("failed", Kind::YesOrNo, "Of requests that failed, or not"),
            parameter(
                "slower_than",
                Kind::Text,
                "Of requests that waited so long or longer for the head of a response, such as 100ms",
            ),
            parameter(
                "limit",
                Kind::UpTo(LIMIT_MAX),
                "At most so many, the newest; 100 unless told",
            ),
            parameter(
                "format",
                Kind::OneOf(|| vec!["json", "text"]),
                "Data, or sentences (text/plain)",
            ),
        ],
        others: &[(400, "A parameter is strange; the body says which")],
        ..read(
            "/decisions",
            "Why replicas were picked",
            Shape::JsonOrText(SchemaGenerator::subschema_for::<Found<'static>>),
        )
    },
    knob("/demo/load", "Requests/s to each side", of::<LoadBody>()),
    knob(
        "/demo/replica",
        "A replica's troubles, on both sides",
        of::<ReplicaBody>(),
    ),
    knob("/demo/policy", "A side's policy", of::<PolicyBody>()),
    knob(
        "/demo/weather",
        "Whether slow episodes come by themselves",
        of::<WeatherBody>(),
    ),
    knob(
        "/demo/reset",
        "Everything as it was at the start",
        of::<ResetBody>(),
    ),
    read("/openapi.json", "This document", Shape::AnyJson),
    Operation {
        roles: SERVE,
        ..read(
            "/overrides",
            "What is changed at run time, and since when",
            of::<Overrides>(),
        )
    },
    Operation {
        roles: SERVE,
        needs_token: true,
        others: &[
            (401, "The token is missing or wrong"),
            (
                403,
                "There is no token (`admin.token_file`), or another site's page has sent it",
            ),
        ],
        ..read(
            "/config",
            "The configuration in force, as a file",
            Shape::Plain(&["application/toml"]),
        )
    },
    change(
        "/replica",
        "Drains a replica, or gives it another weight",
        of::<ReplicaChange>(),
        of::<ReplicaOverridden>(),
    ),
    change(
        "/settings",
        "Sets keys of a service over what the file and the flags say",
        of::<SettingsChange>(),
        of::<SettingsChanged>(),
    ),
    Operation {
        may_be_empty: true,
        ..change(
            "/reload",
            "Reads the configuration again, as SIGHUP does",
            of::<Reload>(),
            of::<Reloaded>(),
        )
    },
    Operation {
        may_be_empty: true,
        ..change(
            "/overrides/clear",
            "Takes back what was changed at run time; answers what that was",
            of::<Clear>(),
            of::<Overrides>(),
        )
    },
];
