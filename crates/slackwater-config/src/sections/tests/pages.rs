//! What pages say of keys is so.

use super::*;
use crate::sections::pages::{of_process, of_service};
use crate::table::rows::Row;
use std::collections::BTreeMap;

fn page(name: &str) -> PathBuf {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    docs.join(name)
}

/// The key in a row of a table of keys.
fn key_of(line: &str) -> Option<&str> {
    let key = line.strip_prefix("| `")?.split('`').next();
    key.filter(|key| !key.starts_with("--"))
}

/// The page with its rows made from the tables: each where it stands, new ones behind the key that
/// is before them in their table, and none of keys that are gone.
fn with_rows(page: &str, rows: &[Row]) -> String {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    lines.retain(|line| key_of(line).is_none_or(|key| rows.iter().any(|row| row.key == key)));
    let mut before = 0;
    for row in rows {
        let Row {
            key,
            default,
            effect,
            meaning,
            ..
        } = row;
        let effect = effect.trim_end_matches('.');
        let words = &meaning.words;
        let made = format!("| `{key}` | {words} | {default} | {effect} |").replace("|  |", "| |");
        let place = lines.iter().position(|line| key_of(line) == Some(key));
        match place {
            Some(place) => lines[place] = made,
            None => lines.insert(before + 1, made),
        }
        before = place.unwrap_or(before + 1);
    }
    lines.join("\n") + "\n"
}

/// Compares a page with what is made of the tables, or makes it anew.
fn is_fresh(name: &str, made: &str) {
    let file = page(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, made).expect("docs can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let stale = format!("docs/{name} is stale: UPDATE_DOCS=1 cargo test -p slackwater-config page");
    assert!(found == made, "{stale}");
}

#[test]
fn the_page_of_keys_and_the_schemas_are_made_from_the_tables() {
    let mut rows = of_process();
    // Of the timeouts that a service may have there are rows already.
    rows.extend(
        of_service()
            .into_iter()
            .filter(|row| !row.key.starts_with("timeouts.")),
    );
    let name = "reference/configuration.md";
    let text = std::fs::read_to_string(page(name)).expect("the page");
    is_fresh(name, &with_rows(&text, &rows));
    is_fresh("reference/configuration.schema.json", &json_schema());
    is_fresh("reference/agent.schema.json", &agent_json_schema());
}

#[test]
fn what_takes_a_restart_is_what_a_reload_leaves_alone() {
    let keys: Vec<_> = restart_keys().collect();
    let sections: BTreeSet<_> = (keys.iter())
        .map(|key| key.split('.').next().expect("a section"))
        .collect();
    let page = std::fs::read_to_string(page("how-to/reload.md")).expect("the page");
    let told = (page.split("\n## "))
        .find(|section| section.starts_with("What needs a restart\n"))
        .expect("the section");
    for section in sections {
        assert!(told.contains(&format!("`{section}")), "{section}");
    }
    for free in [
        "admin.token_file",
        "tracing.sample",
        "tracing.parent",
        "limits.streams_max",
    ] {
        assert!(!keys.iter().any(|key| key == free), "{free}");
    }
}

#[test]
fn the_tables_have_every_key_that_is_asked_for_and_no_other() {
    let rows = of_process().into_iter().chain(of_service());
    let keys: BTreeSet<String> = rows.map(|row| row.key).collect();
    assert_eq!(keys, all_fields());
}

/// What stands in backticks in tables' cells.
fn cells(text: &str) -> impl Iterator<Item = Vec<Vec<&str>>> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells = row.split('|').skip(1);
        cells
            .map(|cell| cell.split('`').skip(1).step_by(2).collect())
            .collect()
    })
}

#[test]
fn what_the_page_on_resilience_names_is_there() {
    let page = |name: &str| {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        std::fs::read_to_string(docs.join(name)).expect("a page")
    };
    let (text, admin, metrics_page, log) = (
        page("explanation/resilience.md"),
        page("reference/admin.md"),
        page("reference/metrics.md"),
        page("reference/access-log.md"),
    );
    let (keys, mut named) = (all_fields(), BTreeMap::<&str, usize>::new());
    for row in cells(&text) {
        let Some(key) = row.first().and_then(|cell| cell.first()) else {
            continue;
        };
        // Of tables that begin with a key, not with a policy's name.
        assert!(keys.contains(*key), "{key}");
        *named.entry(key).or_default() += 1;
        if let [_, status, metrics, logged, ..] = &row[..]
            && !metrics.is_empty()
        {
            for shown in status {
                assert!(admin.contains(&format!("`{shown}`")), "{key}: {shown}");
            }
            for shown in metrics {
                assert!(
                    metrics_page.contains(&format!("`{shown}`")),
                    "{key}: {shown}"
                );
            }
            for field in logged.iter().filter(|field| **field != "trial") {
                assert!(log.contains(&format!("\n| `{field}` |")), "{key}: {field}");
            }
        }
    }
    // Each is explained, and it is said where it is seen.
    assert!(
        named.len() >= 9 && named.values().all(|&rows| rows == 2),
        "{named:?}"
    );
    for (number, sample) in text.split("```toml").skip(1).enumerate() {
        let toml = sample.split("```").next().unwrap_or_default();
        let source = Source::new(format!("sample {number}").into(), toml.to_owned());
        let problem = if toml.contains("the agent's file") {
            let flags = AgentOverrides {
                listen: owned(&["127.0.0.1:8080"]),
                to: Some("127.0.0.1:9001".to_owned()),
                ..AgentOverrides::default()
            };
            let loaded = AgentConfig::load_source(Some(&source), &flags);
            loaded.err().map(|mistakes| mistakes.to_string())
        } else {
            let loaded = Config::load_source(Some(&source), &two_replicas());
            loaded.err().map(|mistakes| mistakes.to_string())
        };
        assert_eq!(problem, None, "{toml}");
    }
}
