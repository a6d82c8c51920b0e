//! Sequences with clusters, in the form of those in `sequences`. Their requests begin with `cds`.

use super::machine::Step::{Answer, Clusters, Lose, Open, Subscribe, Unsubscribe, Wait};
use super::sequences::Sequence;

pub(super) const STATE_OF_THE_WORLD: &[Sequence] = &[
    (
        "a cluster leads to its endpoints",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (
                Clusters("1", "a", &["web>eds", "other>x"]),
                &["cds v1 na web", "v n eds"],
            ),
            (
                Answer("7", "b", &["eds:80", "web:1"]),
                &["v7 nb eds", "cluster web 7 [80]"],
            ),
            (
                Answer("8", "c", &["eds:81"]),
                &["v8 nc eds", "cluster web 8 [81]"],
            ),
            (
                Clusters("2", "d", &["web~eds"]),
                &[
                    "cds v2 nd web",
                    "cluster web 8 [81] (lb_policy LEAST_REQUEST is not supported and ignored)",
                ],
            ),
            (Subscribe("@api"), &["cds v2 nd api,web"]),
            (
                Clusters("3", "e", &["api>", "web>eds"]),
                &["cds v3 ne api,web", "v8 nc api,eds", "cluster web 8 [81]"],
            ),
            (Unsubscribe("@web"), &["cds v3 ne api", "v8 nc api"]),
            (Unsubscribe("@api"), &["cds v3 ne ", "v8 nc "]),
            (Subscribe("@web"), &["cds v ne web"]),
            (
                Clusters("3", "f", &["web>eds"]),
                &["cds v3 nf web", "v nc eds"],
            ),
        ],
    ),
    (
        "the endpoints before are followed until the new ones are there",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (
                Clusters("1", "a", &["web>one"]),
                &["cds v1 na web", "v n one"],
            ),
            (
                Answer("1", "b", &["one:80"]),
                &["v1 nb one", "cluster web 1 [80]"],
            ),
            (
                Clusters("2", "c", &["web>two"]),
                &["cds v2 nc web", "v1 nb one,two"],
            ),
            (
                Answer("2", "d", &["one:81"]),
                &["v2 nd one,two", "cluster web 2 [81]"],
            ),
            (
                Answer("3", "e", &["one:0", "two:0"]),
                &[
                    "v2 ne one,two NACK 3: one: {bad}; two: {bad}",
                    "cluster web failed: EDS resource \"two\": resource rejected: {bad}",
                ],
            ),
            (
                Answer("4", "f", &["two:90"]),
                &["v4 nf two", "cluster web 4 [90]"],
            ),
            (
                Clusters("3", "g", &["web>three"]),
                &["cds v3 ng web", "v4 nf three,two"],
            ),
            (
                Clusters("4", "h", &["web>four"]),
                &["cds v4 nh web", "v4 nf four,two"],
            ),
            (
                Clusters("5", "i", &["web>two"]),
                &["cds v5 ni web", "v4 nf two", "cluster web 4 [90]"],
            ),
        ],
    ),
    (
        "new endpoints that are missing are reported, and the fleet stays",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (
                Clusters("1", "a", &["web>one"]),
                &["cds v1 na web", "v n one"],
            ),
            (
                Answer("1", "b", &["one:80"]),
                &["v1 nb one", "cluster web 1 [80]"],
            ),
            (
                Clusters("2", "c", &["web>two"]),
                &["cds v2 nc web", "v1 nb one,two"],
            ),
            (Wait(14), &[]),
            (
                Wait(1),
                &[
                    "cluster web failed: EDS resource \"two\": the resource does not exist: no answer within 15 s",
                ],
            ),
            (
                Answer("2", "d", &["one:81"]),
                &[
                    "v2 nd one,two",
                    "cluster web 2 [81]",
                    "cluster web failed: EDS resource \"two\": the resource does not exist: no answer within 15 s",
                ],
            ),
            (
                Answer("3", "e", &["two:90"]),
                &["v3 ne two", "cluster web 3 [90]"],
            ),
        ],
    ),
    (
        "a rejected cluster leaves its endpoints in use",
        &[
            (Subscribe("@web"), &[]),
            (Subscribe("@api"), &[]),
            (Open, &["cds v n api,web from us"]),
            (
                Clusters("1", "a", &["web>eds", "api:90"]),
                &["cds v1 na api,web", "v n eds", "cluster api 1 [90]"],
            ),
            (
                Answer("1", "b", &["eds:80"]),
                &["v1 nb eds", "cluster web 1 [80]"],
            ),
            (
                Clusters("2", "c", &["web:1", "api:91"]),
                &[
                    "cds v1 nc api,web NACK 3: web: type is STRICT_DNS, expected EDS or STATIC",
                    "cluster web failed: cluster rejected: type is STRICT_DNS, expected EDS or STATIC",
                    "cluster api 2 [91]",
                ],
            ),
            (
                Answer("2", "d", &["eds:81"]),
                &[
                    "v2 nd eds",
                    "cluster web 2 [81]",
                    "cluster web failed: cluster rejected: type is STRICT_DNS, expected EDS or STATIC",
                ],
            ),
            (
                Clusters("3", "e", &["web>eds", "api:0"]),
                &[
                    "cluster web 2 [81]",
                    "cluster api failed: cluster rejected: load_assignment: {bad}",
                ],
            ),
            (
                Wait(1),
                &["cds v1 ne api,web NACK 3: api: load_assignment: {bad}"],
            ),
            (
                Clusters("4", "f", &["web>*", "api:92"]),
                &[
                    "cluster web failed: cluster rejected: eds_cluster_config.service_name is \"*\", expected the name of one EDS resource, of 1 to 1024 bytes of text",
                    "cluster api 4 [92]",
                ],
            ),
        ],
    ),
    (
        "a cluster that a response leaves out is removed, and its fleet stays",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (Clusters("1", "a", &[]), &["cds v1 na web"]),
            (
                Clusters("2", "b", &["web>eds"]),
                &["cds v2 nb web", "v n eds"],
            ),
            (
                Answer("1", "c", &["eds:80"]),
                &["v1 nc eds", "cluster web 1 [80]"],
            ),
            (
                Clusters("3", "d", &["other>x"]),
                &[
                    "cds v3 nd web",
                    "cluster web failed: the control plane has removed the cluster",
                ],
            ),
            (Clusters("4", "e", &[]), &["cds v4 ne web"]),
            (
                Answer("2", "f", &["eds:81"]),
                &[
                    "v2 nf eds",
                    "cluster web 2 [81]",
                    "cluster web failed: the control plane has removed the cluster",
                ],
            ),
            (Lose, &["cluster web failed: lost"]),
            (Open, &["cds v n web from us", "v2 n eds"]),
            (
                Clusters("5", "g", &["web>eds"]),
                &["cds v5 ng web", "cluster web 2 [81]"],
            ),
        ],
    ),
    (
        "neither a heartbeat nor a rejected response removes clusters, an empty one does",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (
                Clusters("1", "a", &["web:80"]),
                &["cds v1 na web", "cluster web 1 [80]"],
            ),
            (Clusters("1", "b", &["other!7"]), &["cds v1 nb web"]),
            (Clusters("1", "b", &["other!7", "x>y"]), &["cds v1 nb web"]),
            (
                Clusters("2", "c", &["*"]),
                &[
                    "cds v1 nc web NACK 3: resources[0] has the type \"\", expected \"type.googleapis.com/envoy.config.cluster.v3.Cluster\"",
                ],
            ),
            (
                Clusters("3", "d", &["?web"]),
                &[
                    "cds v3 nd web",
                    "cluster web failed: the control plane reports: not for you (code 7)",
                ],
            ),
            (
                Clusters("4", "e", &[]),
                &[
                    "cds v4 ne web",
                    "cluster web failed: the control plane has removed the cluster",
                ],
            ),
        ],
    ),
    (
        "a cluster may have its endpoints inside",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (
                Clusters("1", "a", &["web:80"]),
                &["cds v1 na web", "cluster web 1 [80]"],
            ),
            (
                Clusters("2", "b", &["web>eds"]),
                &["cds v2 nb web", "v n eds"],
            ),
            (
                Answer("1", "c", &["eds:90"]),
                &["v1 nc eds", "cluster web 1 [90]"],
            ),
            (
                Clusters("3", "d", &["web:81"]),
                &["cds v3 nd web", "v1 nc ", "cluster web 3 [81]"],
            ),
            (Answer("2", "e", &["eds:91"]), &[]),
            (
                Clusters("4", "f", &["web>eds"]),
                &["cds v4 nf web", "v ne eds"],
            ),
            (
                Answer("2", "g", &["eds:91"]),
                &["v2 ng eds", "cluster web 2 [91]"],
            ),
        ],
    ),
    (
        "endpoints that pass from one cluster to another are requested again",
        &[
            (Subscribe("@web"), &[]),
            (Subscribe("@api"), &[]),
            (Open, &["cds v n api,web from us"]),
            (
                Clusters("1", "a", &["web>eds", "api:80"]),
                &["cds v1 na api,web", "v n eds", "cluster api 1 [80]"],
            ),
            (
                Answer("1", "b", &["eds:90"]),
                &["v1 nb eds", "cluster web 1 [90]"],
            ),
            (
                Clusters("2", "c", &["web:81", "api>eds"]),
                &[
                    "cds v2 nc api,web",
                    "v1 nb ",
                    "v nb eds",
                    "cluster web 2 [81]",
                ],
            ),
            (Subscribe("one"), &["v1 nb eds,one"]),
            (
                Answer("1", "d", &["eds:90", "one:70"]),
                &["v1 nd eds,one", "cluster api 1 [90]", "one 1 [70]"],
            ),
            (
                Clusters("3", "e", &["api:80", "web>eds"]),
                &[
                    "cds v3 ne api,web",
                    "v1 nd one",
                    "v1 nd eds,one",
                    "cluster api 3 [80]",
                ],
            ),
        ],
    ),
    (
        "the next stream begins with clusters, and with the versions of both types",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (
                Clusters("1", "a", &["web>eds"]),
                &["cds v1 na web", "v n eds"],
            ),
            (
                Answer("7", "b", &["eds:80"]),
                &["v7 nb eds", "cluster web 7 [80]"],
            ),
            (Lose, &[]),
            (Lose, &["cluster web failed: lost"]),
            (Open, &["cds v1 n web from us", "v7 n eds"]),
            (Wait(1), &[]),
            // Once for the cluster, once for its endpoints.
            (Wait(1), &["cluster web 7 [80]", "cluster web 7 [80]"]),
            (Lose, &[]),
            (Open, &["cds v1 n web from us", "v7 n eds"]),
            (
                Clusters("2", "a", &["web>two"]),
                &["cds v2 na web", "v7 n eds,two"],
            ),
            (Lose, &["cluster web failed: lost"]),
            (Open, &["cds v2 n web from us", "v n eds,two"]),
        ],
    ),
    (
        "the failure of a stream is over when the next one brings the cluster",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (
                Clusters("1", "a", &["web>eds"]),
                &["cds v1 na web", "v n eds"],
            ),
            (
                Answer("7", "b", &["eds:80"]),
                &["v7 nb eds", "cluster web 7 [80]"],
            ),
            (Lose, &[]),
            (Lose, &["cluster web failed: lost"]),
            (Open, &["cds v1 n web from us", "v7 n eds"]),
            (
                Clusters("2", "c", &["web>eds"]),
                &["cds v2 nc web", "cluster web 7 [80]"],
            ),
            (Wait(2), &["cluster web 7 [80]"]),
        ],
    ),
    (
        "a stream that brings nothing is one failure",
        &[
            (Subscribe("@web"), &[]),
            (Lose, &["cluster web failed: lost"]),
            (Open, &["cds v n web from us"]),
            (Lose, &["cluster web failed: lost"]),
        ],
    ),
    (
        "no answer within 15 s",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (Wait(14), &[]),
            (
                Wait(1),
                &["cluster web failed: the cluster does not exist: no answer within 15 s"],
            ),
            (
                Clusters("1", "a", &["web:80"]),
                &["cds v1 na web", "cluster web 1 [80]"],
            ),
        ],
    ),
    (
        "the time to live of a cluster expires, or is renewed",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (
                Clusters("1", "a", &["web>eds!7"]),
                &["cds v1 na web", "v n eds"],
            ),
            (
                Answer("1", "b", &["eds:80"]),
                &["v1 nb eds", "cluster web 1 [80]"],
            ),
            (
                Wait(7),
                &["cluster web failed: the cluster's time to live has expired"],
            ),
            (
                Clusters("1", "c", &["web!7"]),
                &["cds v1 nc web", "cluster web 1 [80]"],
            ),
        ],
    ),
    (
        "clusters and services share an EDS resource",
        &[
            (Subscribe("eds"), &[]),
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us", "v n eds"]),
            (Answer("1", "a", &["eds:80"]), &["v1 na eds", "eds 1 [80]"]),
            (
                Clusters("1", "b", &["web>eds"]),
                &["cds v1 nb web", "cluster web 1 [80]"],
            ),
            (
                Answer("2", "c", &["eds:81"]),
                &["v2 nc eds", "eds 2 [81]", "cluster web 2 [81]"],
            ),
            (Unsubscribe("eds"), &[]),
            (
                Answer("3", "d", &["eds:0"]),
                &[
                    "v2 nd eds NACK 3: eds: {bad}",
                    "cluster web failed: EDS resource \"eds\": resource rejected: {bad}",
                ],
            ),
            (
                Subscribe("eds"),
                &["eds 2 [81]", "eds failed: resource rejected: {bad}"],
            ),
            (
                Clusters("2", "e", &["web:1"]),
                &[
                    "cds v1 ne web NACK 3: web: type is STRICT_DNS, expected EDS or STATIC",
                    "cluster web failed: cluster rejected: type is STRICT_DNS, expected EDS or STATIC",
                ],
            ),
            // The cluster's own failure stands.
            (
                Answer("4", "f", &["?eds"]),
                &[
                    "v4 nf eds",
                    "eds failed: the control plane reports: not for you (code 7)",
                ],
            ),
            (
                Clusters("3", "g", &["web>eds"]),
                &[
                    "cds v3 ng web",
                    "cluster web 2 [81]",
                    "cluster web failed: EDS resource \"eds\": the control plane reports: not for you (code 7)",
                ],
            ),
            (Unsubscribe("@web"), &["cds v3 ng "]),
            (Answer("5", "h", &["eds:82"]), &["v5 nh eds", "eds 5 [82]"]),
        ],
    ),
    (
        "endpoints that were not requested are not answered",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds v n web from us"]),
            (Answer("1", "a", &["web:80"]), &[]),
            (Clusters("1", "b", &["web>"]), &["cds v1 nb web", "v n web"]),
        ],
    ),
];

pub(super) const INCREMENTAL: &[Sequence] = &[
    (
        "a cluster leads to its endpoints, and to others",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds +web from us"]),
            (Clusters("s", "a", &["web=1>one"]), &["cds na", "+one"]),
            (
                Answer("s", "b", &["one=7:80"]),
                &["nb", "cluster web 7 [80]"],
            ),
            (Clusters("t", "c", &["web=2>two"]), &["cds nc", "+two"]),
            (
                Answer("t", "d", &["one=8:81"]),
                &["nd", "cluster web 8 [81]"],
            ),
            // The cluster does not lead there any more.
            (Answer("u", "e", &["-one"]), &["ne"]),
            (
                Answer("v", "f", &["two=1:90"]),
                &["nf", "-one", "cluster web 1 [90]"],
            ),
            (
                Clusters("u", "g", &["web=3:91"]),
                &["cds ng", "-two", "cluster web 3 [91]"],
            ),
            (Unsubscribe("@web"), &["cds -web"]),
        ],
    ),
    (
        "a rejected cluster is not claimed, and its fleet stays",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds +web from us"]),
            (Clusters("s", "a", &["web=1>eds"]), &["cds na", "+eds"]),
            (
                Answer("s", "b", &["eds=7:80"]),
                &["nb", "cluster web 7 [80]"],
            ),
            (
                Clusters("t", "c", &["web=2:1"]),
                &[
                    "cds nc NACK 3: web: type is STRICT_DNS, expected EDS or STATIC",
                    "cluster web failed: cluster rejected: type is STRICT_DNS, expected EDS or STATIC",
                ],
            ),
            (Lose, &[]),
            (Open, &["cds +web web=1 from us", "+eds eds=7"]),
            (Wait(2), &["cluster web 7 [80]", "cluster web 7 [80]"]),
        ],
    ),
    (
        "a removed cluster leaves its endpoints in use",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds +web from us"]),
            (Clusters("s", "a", &["web=1>eds"]), &["cds na", "+eds"]),
            (
                Answer("s", "b", &["eds=7:80"]),
                &["nb", "cluster web 7 [80]"],
            ),
            // What a response leaves out is unchanged.
            (Clusters("t", "c", &[]), &["cds nc"]),
            (
                Clusters("u", "d", &["-web", "-x"]),
                &[
                    "cds nd",
                    "cluster web failed: the control plane has removed the cluster",
                ],
            ),
            (Wait(60), &[]),
            (
                Clusters("v", "e", &["web=2>eds"]),
                &["cds ne", "cluster web 7 [80]"],
            ),
            (
                Answer("t", "f", &["-eds"]),
                &[
                    "nf",
                    "cluster web failed: EDS resource \"eds\": the control plane has removed the resource",
                ],
            ),
        ],
    ),
    (
        "no answer within 15 s, about the cluster or its endpoints",
        &[
            (Subscribe("@web"), &[]),
            (Open, &["cds +web from us"]),
            (
                Wait(15),
                &["cluster web failed: the cluster does not exist: no answer within 15 s"],
            ),
            (Clusters("s", "a", &["web=1>eds"]), &["cds na", "+eds"]),
            (
                Wait(15),
                &[
                    "cluster web failed: EDS resource \"eds\": the resource does not exist: no answer within 15 s",
                ],
            ),
            (Lose, &["cluster web failed: lost"]),
            (Open, &["cds +web web=1 from us", "+eds"]),
        ],
    ),
    (
        "a change that is taken back before it was sent is never sent",
        &[
            (Subscribe("@web"), &[]),
            (Unsubscribe("@web"), &[]),
            (Open, &[]),
            (Subscribe("eds"), &["+eds from us"]),
            (Subscribe("@web"), &["cds +web"]),
        ],
    ),
];
