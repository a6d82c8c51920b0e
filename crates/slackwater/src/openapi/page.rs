//! The page of the admin interface for people, made from the document for programs:
//! `docs/reference/api.md`.

use core::fmt::Write as _;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The beginning of the page.
const TOP: &str = "\
# Admin API

Every path of the admin server, `127.0.0.1:9900` by default. This page is made from
[openapi.json](openapi.json), which has each field and status code of each answer. The server
returns it at `/openapi.json`. [The admin interface](admin.md) explains the answers, and
`slackwater admin` requests them from a shell.
`BLESS=1 cargo test -p slackwater --bin slackwater openapi` makes both pages anew.

| request | answer | parameters |
|---|---|---|
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}

fn page(document: &Value) -> String {
    let mut page = TOP.to_owned();
    let paths = document["paths"].as_object().into_iter().flatten();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let names = parameters.filter_map(|parameter| parameter["name"].as_str());
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            let _ = writeln!(
                page,
                "| `{} {path}` | {} | {} |",
                method.to_uppercase(),
                operation["summary"].as_str().unwrap_or_default(),
                names.join(", "),
            );
        }
    }
    page
}

#[test]
fn page_of_the_openapi_document_is_fresh() {
    let text = fs::read_to_string(folder().join("openapi.json")).unwrap();
    let page = page(&serde_json::from_str(&text).unwrap());
    assert!(page.contains("`GET /readyz`"), "{page}");
    let file = folder().join("api.md");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&file).is_ok_and(|text| text == page),
        "docs/reference/api.md is not what openapi.json says; \
         BLESS=1 cargo test -p slackwater --bin slackwater openapi, twice if both are old"
    );
}
