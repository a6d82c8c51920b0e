//! Tables of sequences: what happens, and what the client sends and reports after each step.
//!
//! A request is shown as its version (`v`), its nonce (`n`) and its names; an incremental one as
//! its nonce, the names that it adds (`+`) and takes back (`-`), and the versions that are known. A
//! report is shown as the resource, its version and its ports. `{bad}` stands for the mistake of a
//! bad resource.

use super::machine::Step::{self, Answer, Lose, Open, Subscribe, Unsubscribe, Wait};

/// Its name, and its steps with what comes out of each.
pub(super) type Sequence = (&'static str, &'static [(Step, &'static [&'static str])]);

pub(super) const STATE_OF_THE_WORLD: &[Sequence] = &[
    (
        "subscribe, accept, change",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (Answer("1", "a", &["web:80"]), &["v1 na web", "web 1 [80]"]),
            (Answer("2", "b", &["web:81"]), &["v2 nb web", "web 2 [81]"]),
            (Subscribe("api"), &["v2 nb api,web"]),
            (Subscribe("api"), &[]),
            (
                Answer("3", "c", &["api:90"]),
                &["v3 nc api,web", "api 3 [90]"],
            ),
            (Unsubscribe("web"), &["v3 nc api"]),
            (Unsubscribe("api"), &["v3 nc "]),
        ],
    ),
    (
        "the last name goes and comes back",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (Answer("1", "a", &["web:80"]), &["v1 na web", "web 1 [80]"]),
            (Unsubscribe("web"), &["v1 na "]),
            (Subscribe("web"), &["v na web"]),
            (Answer("1", "b", &["web:80"]), &["v1 nb web", "web 1 [80]"]),
            (Unsubscribe("web"), &["v1 nb "]),
            // Answers without names would bring everything at some control planes.
            (Answer("2", "c", &["web:81"]), &[]),
            (Answer("3", "d", &["web:0", "*"]), &[]),
            (Subscribe("web"), &["v nd web"]),
            (Answer("3", "e", &["web:82"]), &["v3 ne web", "web 3 [82]"]),
        ],
    ),
    (
        "what a response leaves out is unchanged, what it adds is ignored",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (
                Answer("1", "a", &["web:80", "x:1"]),
                &["v1 na web", "web 1 [80]"],
            ),
            (Answer("2", "b", &[]), &["v2 nb web"]),
            (Answer("3", "c", &["x:0"]), &["v3 nc web"]),
            (Wait(60), &[]),
        ],
    ),
    (
        "the good resources of a rejected response are used",
        &[
            (Subscribe("web"), &[]),
            (Subscribe("api"), &[]),
            (Open, &["v n api,web from us"]),
            (
                Answer("1", "a", &["web:80", "api:90"]),
                &["v1 na api,web", "web 1 [80]", "api 1 [90]"],
            ),
            (
                Answer("2", "b", &["web:0", "api:91"]),
                &[
                    "v1 nb api,web NACK 3: web: {bad}",
                    "web failed: resource rejected: {bad}",
                    "api 2 [91]",
                ],
            ),
            (
                Answer("3", "c", &["web:82"]),
                &["v3 nc api,web", "web 3 [82]"],
            ),
        ],
    ),
    (
        "a first response that is rejected leaves no version",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (
                Answer("1", "a", &["*"]),
                &[
                    "v na web NACK 3: resources[0] has the type \"\", expected \"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\"",
                ],
            ),
            (
                Answer("2", "b", &["web:80", "web:81"]),
                &[
                    "web 2 [80]",
                    "web failed: resource rejected: is given twice",
                ],
            ),
            (Wait(1), &["v nb web NACK 3: web: is given twice"]),
        ],
    ),
    (
        "nonces and versions are opaque: the last response counts",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (Answer("9", "z", &["web:80"]), &["v9 nz web", "web 9 [80]"]),
            (Answer("1", "z", &["web:81"]), &["v1 nz web", "web 1 [81]"]),
            (Answer("", "", &["web:82"]), &["v n web", "web  [82]"]),
        ],
    ),
    (
        "a lost stream changes nothing, the next begins with the version",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (Answer("1", "a", &["web:80"]), &["v1 na web", "web 1 [80]"]),
            (Lose, &[]),
            (Answer("2", "b", &["web:81"]), &[]),
            (Lose, &["web failed: lost"]),
            (Open, &["v1 n web from us"]),
            (Wait(1), &[]),
            (Wait(1), &["web 1 [80]"]),
            (Answer("2", "a", &["web:81"]), &["v2 na web", "web 2 [81]"]),
        ],
    ),
    (
        "the next stream begins without a version if anything is unknown",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (Answer("1", "a", &["web:80"]), &["v1 na web", "web 1 [80]"]),
            (Lose, &[]),
            (Subscribe("api"), &[]),
            (Open, &["v n api,web from us"]),
            (
                Answer("1", "b", &["api:90", "web:80"]),
                &["v1 nb api,web", "api 1 [90]", "web 1 [80]"],
            ),
        ],
    ),
    (
        "a stream that brings nothing is a failure",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (Lose, &["web failed: lost"]),
        ],
    ),
    (
        "no answer within 15 s",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (Wait(14), &[]),
            (
                Wait(1),
                &["web failed: the resource does not exist: no answer within 15 s"],
            ),
            (Wait(60), &[]),
            (Answer("1", "a", &["web:80"]), &["v1 na web", "web 1 [80]"]),
        ],
    ),
    (
        "a time to live expires, or is renewed",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (
                Answer("1", "a", &["web:80!7"]),
                &["v1 na web", "web 1 [80]"],
            ),
            (Wait(6), &[]),
            (Answer("1", "b", &["web!7"]), &["v1 nb web"]),
            (Wait(6), &[]),
            (
                Wait(1),
                &["web failed: the resource's time to live has expired"],
            ),
            (Wait(60), &[]),
            (Answer("1", "c", &["web!7"]), &["v1 nc web", "web 1 [80]"]),
            (Answer("2", "d", &["web:81"]), &["v2 nd web", "web 2 [81]"]),
            (Wait(60), &[]),
        ],
    ),
    (
        "what has expired is requested again by the next stream",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (
                Answer("1", "a", &["web:80!7"]),
                &["v1 na web", "web 1 [80]"],
            ),
            (
                Wait(7),
                &["web failed: the resource's time to live has expired"],
            ),
            (Lose, &[]),
            (Open, &["v n web from us"]),
            (Answer("1", "b", &["web:80"]), &["v1 nb web", "web 1 [80]"]),
        ],
    ),
    (
        "an error of a resource ends the wait for it",
        &[
            (Subscribe("web"), &[]),
            (Open, &["v n web from us"]),
            (
                Answer("1", "a", &["?web"]),
                &[
                    "v1 na web",
                    "web failed: the control plane reports: not for you (code 7)",
                ],
            ),
            (Wait(15), &[]),
        ],
    ),
];

pub(super) const INCREMENTAL: &[Sequence] = &[
    (
        "subscribe, accept, change, unsubscribe",
        &[
            (Subscribe("web"), &[]),
            (Open, &["+web from us"]),
            (Answer("s", "a", &["web=1:80"]), &["na", "web 1 [80]"]),
            (Subscribe("api"), &["+api"]),
            (Answer("s", "b", &["api=7:90"]), &["nb", "api 7 [90]"]),
            (Unsubscribe("web"), &["-web"]),
            (Subscribe("web"), &["+web"]),
            (Answer("s", "c", &["web=1:80"]), &["nc", "web 1 [80]"]),
        ],
    ),
    (
        "the next stream begins with the versions that are known",
        &[
            (Subscribe("web"), &[]),
            (Subscribe("api"), &[]),
            (Open, &["+api +web from us"]),
            (Answer("s", "a", &["web=1:80"]), &["na", "web 1 [80]"]),
            (Lose, &["api failed: lost"]),
            (Open, &["+api +web web=1 from us"]),
            (Wait(2), &["web 1 [80]"]),
            (
                Wait(13),
                &["api failed: the resource does not exist: no answer within 15 s"],
            ),
            (Answer("s", "b", &["api=1:90"]), &["nb", "api 1 [90]"]),
        ],
    ),
    (
        "a rejected version is not claimed",
        &[
            (Subscribe("web"), &[]),
            (Subscribe("api"), &[]),
            (Open, &["+api +web from us"]),
            (Answer("s", "a", &["web=1:80"]), &["na", "web 1 [80]"]),
            (
                Answer("t", "b", &["web=2:0", "api=2:90"]),
                &[
                    "nb NACK 3: web: {bad}",
                    "web failed: resource rejected: {bad}",
                    "api 2 [90]",
                ],
            ),
            (Lose, &[]),
            (Open, &["+api +web api=2 web=1 from us"]),
        ],
    ),
    (
        "a version that has expired is not claimed",
        &[
            (Subscribe("web"), &[]),
            (Open, &["+web from us"]),
            (Answer("s", "a", &["web=1:80!7"]), &["na", "web 1 [80]"]),
            (
                Wait(7),
                &["web failed: the resource's time to live has expired"],
            ),
            (Lose, &[]),
            (Open, &["+web from us"]),
            (Answer("s", "b", &["web=1:80"]), &["nb", "web 1 [80]"]),
        ],
    ),
    (
        "removal is reported once, and undone by a new version",
        &[
            (Subscribe("web"), &[]),
            (Open, &["+web from us"]),
            (Answer("s", "a", &["web=1:80"]), &["na", "web 1 [80]"]),
            (
                Answer("t", "b", &["-web", "-x"]),
                &[
                    "nb",
                    "web failed: the control plane has removed the resource",
                ],
            ),
            (Wait(60), &[]),
            (Lose, &["web failed: lost"]),
            (Open, &["+web from us"]),
            (
                Answer("u", "c", &["-web"]),
                &["nc", "web failed: the resource does not exist"],
            ),
            (Answer("v", "d", &["web=3:81"]), &["nd", "web 3 [81]"]),
        ],
    ),
    (
        "a name that is taken back before it was sent is never sent",
        &[
            (Subscribe("web"), &[]),
            (Unsubscribe("web"), &[]),
            (Open, &[]),
            (Subscribe("api"), &["+api from us"]),
        ],
    ),
    (
        "a resource with another name inside is rejected",
        &[
            (Subscribe("web"), &[]),
            (Open, &["+web from us"]),
            (
                Answer("s", "a", &["*"]),
                &[
                    "na NACK 3: resources[0] has the type \"\", expected \"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\"",
                ],
            ),
        ],
    ),
];
