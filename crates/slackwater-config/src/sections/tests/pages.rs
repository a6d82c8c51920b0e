//! The pages of documentation match the tables of keys.

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

/// A value's description in the narrow column: `1 ms to 24 h` becomes `1ms–24h`.
fn in_short(words: &str) -> String {
    let mut short = words.to_owned();
    for (long, narrow) in [
        ("`true`, `false`", "boolean"),
        ("the name of a file", "file"),
        ("the name of a service", "service"),
        ("the name of a field", "header name"),
        ("a list of", "list of"),
        ("above 0 to ", ">0 to "),
        ("from 1 to", "1 to"),
    ] {
        short = short.replace(long, narrow);
    }
    let is_number = |word: &str| {
        word.trim_start_matches('>')
            .starts_with(|it: char| it.is_ascii_digit())
    };
    let is_unit = |word: &str| {
        let word = word.trim_end_matches(',');
        ["ms", "s", "min", "h", "KiB", "MiB"].contains(&word)
    };
    // A range is one word: a number, its unit, a dash, a number, its unit.
    let mut narrow = Vec::<String>::new();
    let mut words = short.split(' ').peekable();
    while let Some(word) = words.next() {
        let follows_number = narrow.last().is_some_and(|last| is_number(last));
        let is_range = word == "to" && words.peek().is_some_and(|next| is_number(next));
        match narrow.last_mut() {
            Some(last) if follows_number && is_range => {
                last.push('–');
                last.extend(words.next());
            }
            Some(last) if follows_number && is_unit(word) => last.push_str(word),
            _ => narrow.push(word.to_owned()),
        }
    }
    narrow.join(" ")
}

/// The page with its rows generated from the tables. Each row stays in its place, a new row follows
/// its predecessor of the table, and rows of removed keys are dropped.
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
        let effect = effect.replace("A change takes a restart", "*Restart*");
        let words = in_short(&meaning.words);
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

/// Compares a page with the generated one, or writes it again.
fn is_fresh(name: &str, made: &str) {
    let file = page(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, made).expect("docs can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let stale = format!("docs/{name} is stale: BLESS=1 cargo test -p slackwater-config page");
    assert!(found == made, "{stale}");
}

#[test]
fn the_page_of_keys_and_the_schemas_are_made_from_the_tables() {
    let mut rows = of_process();
    // The process's own rows already cover the timeouts that a service may have.
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
fn each_row_stands_under_the_heading_of_its_section() {
    let text = std::fs::read_to_string(page("reference/configuration.md")).expect("the page");
    for part in text.split("\n## ").skip(1) {
        let title = part.lines().next().unwrap_or_default();
        for key in part.lines().filter_map(key_of) {
            let headings = match key.split_once(['.', '[']) {
                None | Some(("replicas", _)) => ["at the top".to_owned(), String::from("no other")],
                Some((section, _)) => [format!("[{section}]"), format!("[{section}.")],
            };
            assert!(
                headings.iter().any(|heading| title.contains(heading)),
                "`{key}` stands under {title}"
            );
        }
    }
}

#[test]
fn every_example_of_the_page_is_a_valid_configuration() {
    let text = std::fs::read_to_string(page("reference/configuration.md")).expect("the page");
    for section in text.split("\n## ").skip(1) {
        let has_keys = section.lines().any(|line| key_of(line).is_some());
        let title = section.lines().next().unwrap_or_default();
        assert!(
            !has_keys || section.contains("```toml"),
            "no example: {title}"
        );
    }
    let found = mistakes_in(&text, |source| {
        let loaded = Config::load_source(Some(source), &Overrides::default());
        loaded.map(|_| ())
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_example_of_the_pages_on_serve_and_agent_is_valid() {
    let text = |name| std::fs::read_to_string(page(name)).expect("the page");
    let found = mistakes_in(&text("reference/serve.md"), |source| {
        let loaded = Config::load_source(Some(source), &Overrides::default());
        loaded.map(|_| ())
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
    let found = mistakes_in(&text("reference/agent.md"), |source| {
        let loaded = AgentConfig::load_source(Some(source), &AgentOverrides::default());
        loaded.map(|_| ())
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The mistakes in the examples of a page. `listen` or `replicas` are added where an example has
/// none.
fn mistakes_in(page: &str, load: impl Fn(&Source) -> Result<(), Mistakes>) -> Vec<String> {
    let mut mistakes = Vec::new();
    let samples = page.split("```toml\n").skip(1);
    assert!(samples.clone().count() > 1, "no examples");
    for sample in samples {
        let toml = sample.split("```").next().unwrap_or_default();
        let table: toml::Table = toml.parse().expect("TOML");
        let has = |names: &[&str]| names.iter().any(|name| table.contains_key(*name));
        let mut whole = String::new();
        if !has(&["listen", "listeners"]) {
            whole += "listen = \"127.0.0.1:8080\"\n";
        }
        if !has(&["replicas", "services", "discovery", "to"]) {
            whole += "replicas = [\"127.0.0.1:9001\"]\n";
        }
        // File names start from the folder of the fixtures.
        let source = Source::new(fixture("good/example.toml"), whole + toml);
        mistakes.extend(load(&source).err().map(|it| it.to_string()));
    }
    mistakes
}

#[test]
fn page_on_reload_lists_the_keys_that_need_a_restart() {
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
fn the_tables_have_exactly_the_keys_that_are_read() {
    let rows = of_process().into_iter().chain(of_service());
    let keys: BTreeSet<String> = rows.map(|row| row.key).collect();
    assert_eq!(keys, all_fields());
}

/// The text in backticks in the cells of tables.
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
fn names_on_the_resilience_page_exist() {
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
        // Only in tables whose rows begin with a key, not with a policy's name.
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
    // The text explains each key in one table, and another table says where its effect is shown.
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
