//! Every path of the admin server: who serves it, what it takes, what it answers.

use crate::admin::control::{
    Clear, Overrides, Reload, Reloaded, ReplicaChange, ReplicaOverridden, SettingsChange,
    SettingsChanged,
};
use crate::admin::live::messages::{Fleet, ReplicaHistory, ServiceHistory, Tick};
use crate::admin::status::Status;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The sub-commands that have an admin server.
pub(super) const ALL: &[&str] = &["serve", "agent", "demo"];
pub(super) const SERVE: &[&str] = &["serve"];

/// A path, and what is asked of it.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// Who serves it.
    pub(super) roles: &'static [&'static str],
    pub(super) summary: &'static str,
    pub(super) parameters: &'static [Parameter],
    /// What it takes; `None`: no body.
    pub(super) body: Option<Shape>,
    /// What it answers with 200.
    pub(super) answer: Shape,
    /// What else, with what that means.
    pub(super) others: &'static [(u16, &'static str)],
    /// Whoever asks has to know the token.
    pub(super) needs_token: bool,
}

/// A parameter after the `?`.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) is_required: bool,
    /// JSON Schema's name of its type.
    pub(super) kind: &'static str,
    pub(super) about: &'static str,
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

/// What a body is.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// Of one of these types, with nothing to be said of what is in it.
    Plain(&'static [&'static str]),
    /// JSON of a type of ours.
    Json(Schemas),
    /// JSON that has a description of its own.
    AnyJson,
    /// A stream of events: the name of each, and its JSON.
    Events(&'static [(&'static str, Schemas)]),
}

const fn json<T: JsonSchema>() -> Shape {
    Shape::Json(SchemaGenerator::subschema_for::<T>)
}

const TEXT: Shape = Shape::Plain(&["text/plain"]);
const SILENT: (u16, &str) = (503, "The workers have not told their part within 2 s");

/// What everything that changes something may be answered.
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

const fn text(name: &'static str, about: &'static str) -> Parameter {
    Parameter {
        name,
        is_required: false,
        kind: "string",
        about,
    }
}

/// A knob of the demo: docs/live.md has what it takes and what it answers.
const fn knob(path: &'static str, summary: &'static str) -> Operation {
    Operation {
        method: "post",
        roles: &["demo"],
        body: Some(Shape::AnyJson),
        others: &[
            (400, "It cannot be done; the body says why"),
            (
                403,
                "Another site's page has sent it, or the host is no address",
            ),
            (415, "The body is not said to be JSON"),
        ],
        ..read(path, summary, Shape::AnyJson)
    }
}

/// All of them.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        others: &[SILENT],
        ..read(
            "/status",
            "The status of the process, of its services and replicas",
            json::<Status>(),
        )
    },
    Operation {
        others: &[SILENT],
        ..read(
            "/metrics",
            "The same in numbers, for Prometheus",
            Shape::Plain(&["text/plain", "application/openmetrics-text"]),
        )
    },
    read("/healthz", "200 as long as the process runs", TEXT),
    Operation {
        others: &[(
            503,
            "Requests are not taken, or not taken yet; the body says why",
        )],
        ..read("/readyz", "200 while requests are taken", TEXT)
    },
    Operation {
        others: &[(503, "As many readers as there may be are listening")],
        ..read(
            "/events",
            "The fleet, and how it does, as long as somebody reads",
            Shape::Events(&[
                ("fleet", SchemaGenerator::subschema_for::<Fleet>),
                ("tick", SchemaGenerator::subschema_for::<Tick>),
            ]),
        )
    },
    Operation {
        parameters: &[
            Parameter {
                name: "service",
                is_required: true,
                kind: "string",
                about: "Its name, as in the fleet",
            },
            Parameter {
                name: "replica",
                is_required: false,
                kind: "string",
                about: "The name of one of its replicas, as in the fleet; left out: the service as a whole",
            },
        ],
        others: &[
            (400, "A parameter is missing or strange"),
            (404, "There is no such service or replica"),
        ],
        ..read(
            "/history",
            "A service or a replica over the last minutes",
            json::<History>(),
        )
    },
    Operation {
        roles: &["serve", "demo"],
        parameters: &[
            text("id", "Of the request with this id"),
            text("service", "Of this service"),
            text("replica", "Of requests that this replica had, among others"),
            text(
                "reason",
                "With an attempt that was sent there for this reason",
            ),
            text("attempt", "With an attempt of this kind"),
            text("failed", "Of requests that failed, or not: true or false"),
            text("slower_than", "Of requests that took longer, such as 100ms"),
            text("limit", "At most so many, the newest"),
            text("format", "json, or text: in sentences"),
        ],
        others: &[(400, "A parameter is strange; the body says which")],
        ..read(
            "/decisions",
            "Why replicas were picked: docs/decisions.md has the fields",
            Shape::AnyJson,
        )
    },
    knob("/demo/load", "Requests/s to each side"),
    knob("/demo/replica", "A replica's troubles, on both sides"),
    knob("/demo/policy", "A side's policy"),
    knob("/demo/weather", "Whether slow episodes come by themselves"),
    knob("/demo/reset", "Everything as it was at the start"),
    Operation {
        roles: &["demo"],
        others: &[(503, "There is no picture yet")],
        ..read(
            "/demo/status.json",
            "What the demo's page shows",
            Shape::AnyJson,
        )
    },
    read("/openapi.json", "This document", Shape::AnyJson),
    Operation {
        roles: SERVE,
        ..read(
            "/overrides",
            "What is changed at run time, and since when",
            json::<Overrides>(),
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
        json::<ReplicaChange>(),
        json::<ReplicaOverridden>(),
    ),
    change(
        "/settings",
        "Sets keys of a service over what the file and the flags say",
        json::<SettingsChange>(),
        json::<SettingsChanged>(),
    ),
    change(
        "/reload",
        "Reads the configuration again, as SIGHUP does",
        json::<Reload>(),
        json::<Reloaded>(),
    ),
    change(
        "/overrides/clear",
        "Takes back what was changed at run time; answers what that was",
        json::<Clear>(),
        json::<Overrides>(),
    ),
];
