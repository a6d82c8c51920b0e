//! What pages say of keys is so.

use super::*;
use std::collections::BTreeMap;

#[test]
fn the_documentation_has_every_key_and_no_other() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(docs).expect("docs/configuration.md");
    let documented: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .filter(|key| !key.starts_with("--"))
        .map(str::to_owned)
        .collect();
    assert_eq!(documented, all_fields());
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
        page("resilience.md"),
        page("admin.md"),
        page("metrics.md"),
        page("operations.md"),
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
