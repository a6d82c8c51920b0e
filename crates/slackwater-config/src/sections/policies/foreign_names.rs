//! The names that nginx, `HAProxy`, Envoy and gRPC have for policies, and names that this software
//! had for them.

use crate::table::{ForeignValue, choice_with, foreign_names};
use crate::toml_reader::ForeignName;
use crate::toml_reader::is_same;
use crate::toml_reader::values::Unfit;
use toml::de::DeValue;

/// The key `policy`.
pub(in crate::sections) const KEYS: &[ForeignName] = foreign_names! {
    "balance" | "lb_policy" | "lb" | "load_balancing" | "load_balancer" | "load_balancing_policy"
        | "algorithm" | "strategy" => "policy" = r#""least_loaded""#;
    // Its section had the same keys.
    "capacity" in "" => "shortest_expected_delay.probe_rate" = "0.5";
};

const POLICIES: &[ForeignValue] = &[
    (
        &[
            "leastconn",
            "least_request",
            "least_requests",
            "least_connections",
            "least_outstanding_requests",
            "lor",
            "jsq",
        ],
        "least_loaded",
    ),
    (&["rr", "roundrobin", "static_rr"], "round_robin"),
    (
        &[
            "wrr",
            "weighted_roundrobin",
            "client_side_weighted_round_robin",
        ],
        "weighted_round_robin",
    ),
    (
        &[
            "p2c",
            "pow2",
            "power_of_two",
            "power_of_two_choices",
            "random_two",
        ],
        "power_of_d",
    ),
    (&["ewma", "least_latency", "least_time"], "peak_ewma"),
    (&["sed", "default"], "shortest_expected_delay"),
];

/// Policies that were removed, and the policy that does what each did.
const REMOVED: &[(&str, &str)] = &[("capacity", "shortest_expected_delay")];

/// Policies of other software that are stickiness here.
const STICKY: &[&str] = &["ip_hash", "source"];

/// Policies of other software that are keys of requests here.
const KEYED: &[&str] = &[
    "hash",
    "ring_hash",
    "maglev",
    "uri",
    "consistent_hash",
    "generic_hash",
];

/// Reads the name of a policy. The error for a removed policy names the one that replaces it. Hash
/// policies decide which replica belongs to which client, not which replica has room, so the error
/// for their names points to `[sticky]` or `[key]`.
pub(in crate::sections) fn policy<T: Copy>(
    value: &DeValue<'_>,
    names: &[(&str, T)],
) -> Result<T, Unfit> {
    choice_with(value, names, POLICIES).map_err(|unfit| {
        let name = value.as_str().unwrap_or_default();
        if let Some((_, successor)) = REMOVED.iter().find(|(known, _)| is_same(known, name)) {
            return Unfit::Other(format!(
                "found {name:?}, which was removed: write {successor:?}, the default, which replaces it"
            ));
        }
        let is_one_of = |known: &[&str]| known.iter().any(|known| is_same(known, name));
        let instead = match () {
            () if is_one_of(STICKY) => "by = \"address\" in [sticky]",
            () if is_one_of(KEYED) => "by = \"header:x-user\" in [key]",
            () => return unfit,
        };
        Unfit::Other(format!(
            "found {name:?}, which is no policy here: write {instead}, and leave policy out"
        ))
    })
}
