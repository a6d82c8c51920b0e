//! All keys, from the tables of all sections: for `docs/reference/configuration.md` and for
//! editors.
//!
//! `BLESS=1 cargo test -p slackwater-config page` generates the page's rows and the schemas
//! again.

use super::agent::{AgentKeys, AgentRows};
use super::agent_queue::AgentQueue;
use super::assemble::ServeKeys;
use super::fleet::ReplicaKeys;
use super::listeners::ListenerRows;
use super::passive_health::passive_health_rows;
use super::policies::policy_rows;
use super::probe::ProbeKeys;
use super::routes::RouteRows;
use super::services::ServiceKeys;
use super::tls::ListenerKeys;
use super::upgrade_protocols::BeyondRequests;
use super::{
    AccessLogSettings, AdminSettings, DecisionSettings, DiscoverySettings, DnsServers,
    ForwardedSettings, HealthSettings, HedgingSettings, HintSettings, KeyRouting,
    KubernetesSettings, Limits, LogSettings, QueueSettings, ReplicaSettings, RequestIdSettings,
    RetrySettings, StickySettings, SubsetSettings, Timeouts, TracingSettings, TyingSettings,
    XdsSettings, ZoneSettings,
};
use crate::routes::{Bounds, Mirror, RetryRules};
use crate::table::rows::{Row, rows, schema};
use crate::tls::ClientTls;
use serde_json::{Value, json};
use slackwater_core::overload::GradientSettings;

/// The keys of a service.
pub(super) fn of_service() -> Vec<Row> {
    let timeouts = rows::<Timeouts>("").into_iter();
    let own = |row: &Row| {
        Timeouts::OF_SERVICE
            .iter()
            .any(|name| row.key.ends_with(name))
    };
    [
        rows::<ServiceKeys>(""),
        rows::<ReplicaKeys>("replicas[]."),
        rows::<DiscoverySettings>(""),
        rows::<SubsetSettings>(""),
        rows::<ReplicaSettings>(""),
        rows::<ClientTls>(""),
        rows::<ProbeKeys>(""),
        timeouts.filter(own).collect(),
        rows::<RetryRules>(""),
        rows::<RetrySettings>(""),
        rows::<HedgingSettings>(""),
        rows::<TyingSettings>(""),
        rows::<QueueSettings>(""),
        rows::<HealthSettings>(""),
        passive_health_rows(),
        rows::<StickySettings>(""),
        rows::<KeyRouting>(""),
        policy_rows(),
    ]
    .concat()
}

/// The flags whose keys take one of a few names, with these names.
pub(super) fn choices_of(
    flags: &[(&'static str, &'static str)],
) -> Vec<(&'static str, Vec<String>)> {
    let rows = [of_process(), of_service()].concat();
    let names = |key: &str| {
        let row = rows.iter().find(|row| row.key == key)?;
        let names = row.meaning.schema.get("enum")?.as_array()?.iter();
        let names: Option<Vec<_>> = names.map(|name| name.as_str().map(str::to_owned)).collect();
        names
    };
    let flag = |(flag, key): &(&'static str, &'static str)| {
        Some((flag.trim_start_matches('-'), names(key)?))
    };
    flags.iter().filter_map(flag).collect()
}

/// The keys of `serve`'s process.
pub(super) fn of_process() -> Vec<Row> {
    let mut retries = rows::<RetryRules>("routes[].");
    for row in &mut retries {
        row.effect = format!("As `{}`", row.key.trim_start_matches("routes[]."));
        "the service's".clone_into(&mut row.default);
    }
    [
        rows::<ServeKeys>(""),
        rows::<BeyondRequests>(""),
        rows::<ListenerRows>(""),
        rows::<ListenerKeys>(""),
        rows::<RouteRows>(""),
        rows::<Bounds>("routes[]."),
        retries,
        rows::<Mirror>("routes[]."),
        rows::<DnsServers>(""),
        rows::<XdsSettings>(""),
        rows::<KubernetesSettings>(""),
        rows::<ZoneSettings>(""),
        rows::<ForwardedSettings>(""),
        rows::<Timeouts>(""),
        rows::<Limits>(""),
        rows::<AdminSettings>(""),
        rows::<LogSettings>(""),
        rows::<AccessLogSettings>(""),
        rows::<RequestIdSettings>(""),
        rows::<DecisionSettings>(""),
        rows::<TracingSettings>(""),
    ]
    .concat()
}

/// The keys of an agent.
fn of_agent() -> Vec<Row> {
    let not = |others: &'static [&str]| move |row: &Row| !others.contains(&row.key.as_str());
    let replica = rows::<ReplicaSettings>("").into_iter();
    let replica = replica.filter(not(&["replica.connections_max", "replica.proxy_protocol"]));
    let admin = rows::<AdminSettings>("").into_iter();
    let admin = admin.filter(not(&["admin.token_file", "admin.metrics_replicas_max"]));
    let probe = rows::<ProbeKeys>("").into_iter();
    let probe = probe.filter(not(&[
        "probe.transport",
        "probe.port",
        "probe.tls",
        "probe.hint",
        "probe.hint_homes",
    ]));
    [
        rows::<AgentKeys>(""),
        rows::<AgentRows>(""),
        rows::<BeyondRequests>(""),
        rows::<ListenerKeys>(""),
        replica.collect(),
        rows::<ClientTls>(""),
        probe.collect(),
        rows::<AgentQueue>(""),
        rows::<GradientSettings>(""),
        rows::<HintSettings>(""),
        rows::<Timeouts>(""),
        rows::<Limits>(""),
        admin.collect(),
        rows::<LogSettings>(""),
    ]
    .concat()
}

/// The keys of `serve` whose change needs a restart: a reload leaves them unchanged.
pub fn restart_keys() -> impl Iterator<Item = String> {
    let fixed = of_process().into_iter().filter(|row| row.fixed);
    fixed.map(|row| row.key)
}

/// A JSON Schema (draft 7) of `slackwater serve`'s file, with which editors complete and check
/// keys.
pub fn json_schema() -> String {
    let mut keys = of_process();
    keys.extend(rows::<ListenerKeys>("listeners[]."));
    let mut root = schema(keys);
    let service = schema(of_service());
    let sections = service["properties"].as_object();
    for name in sections.into_iter().flat_map(|sections| sections.keys()) {
        // The top-level section for all services has more keys than a service's own.
        if root["properties"][name].is_null() {
            let place = format!("#/definitions/service/properties/{name}");
            root["properties"][name] = json!({"$ref": place});
        }
    }
    root["definitions"] = json!({"service": service});
    root["properties"]["services"] = json!({
        "type": "object",
        "additionalProperties": {"$ref": "#/definitions/service"},
        "description": "Several services, each with its name."
    });
    finished(root, "The configuration of `slackwater serve`")
}

/// A JSON Schema (draft 7) of `slackwater agent`'s file.
pub fn agent_json_schema() -> String {
    finished(
        schema(of_agent()),
        "The configuration of `slackwater agent`",
    )
}

fn finished(mut root: Value, title: &str) -> String {
    root["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    root["title"] = title.into();
    format!("{root:#}\n")
}
