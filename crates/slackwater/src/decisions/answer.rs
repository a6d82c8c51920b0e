//! What the admin server answers to whoever asks for decisions.

use super::archive::Archive;
use super::decision::Decision;
use super::sentences::tell;
use super::wanted::{Form, Wanted};
use crate::admin::{AdminServer, Query, reply};
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;

const TEXT: &str = "text/plain; charset=utf-8";

/// The answer in JSON.
#[derive(Serialize)]
struct Found<'a> {
    /// How many are in memory.
    kept: usize,
    /// How many of them are what was asked for.
    matching: usize,
    /// Of these the newest, newest first.
    decisions: Vec<&'a Decision>,
}

/// The server, with the path at which it tells of all that is in `archives`.
pub(crate) fn add_path(server: AdminServer, archives: Vec<Arc<Archive>>) -> AdminServer {
    server.get("/decisions", move |asked| {
        let (status, content_type, body) = answer(&archives, &asked.query);
        Box::pin(core::future::ready(reply(status, content_type, body)))
    })
}

/// Status, content type and body of the answer to `query`, from all of `archives`.
pub(super) fn answer(
    archives: &[Arc<Archive>],
    query: &Query,
) -> (StatusCode, &'static str, String) {
    let wanted = match Wanted::read(query) {
        Ok(wanted) => wanted,
        Err(mistake) => return (StatusCode::BAD_REQUEST, TEXT, format!("{mistake}\n")),
    };
    let all: Vec<_> = archives.iter().flat_map(|it| it.decisions()).collect();
    let kept = all.len();
    let mut found: Vec<_> = all.into_iter().filter(|it| wanted.takes(it)).collect();
    let matching = found.len();
    found.sort_by_key(|decision| core::cmp::Reverse(decision.time));
    found.truncate(wanted.limit);
    match wanted.form {
        Form::Text => (StatusCode::OK, TEXT, told(archives, &found)),
        Form::Json => {
            let found = Found {
                kept,
                matching,
                decisions: found.iter().map(|decision| &**decision).collect(),
            };
            match serde_json::to_string_pretty(&found) {
                Ok(body) => (StatusCode::OK, "application/json", body + "\n"),
                Err(error) => {
                    let text = format!("the decisions could not be written: {error}\n");
                    (StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
                }
            }
        }
    }
}

fn told(archives: &[Arc<Archive>], found: &[Arc<Decision>]) -> String {
    if archives.is_empty() {
        return "no decisions are kept: see [decisions] in the configuration\n".to_owned();
    }
    if found.is_empty() {
        return "none of the decisions in memory is like that\n".to_owned();
    }
    let told: Vec<_> = found.iter().map(|decision| tell(decision)).collect();
    told.join("\n")
}
