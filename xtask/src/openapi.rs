//! `cargo xtask openapi`: checks our `OpenAPI` document with a third-party validator.
//!
//! Tests check that the document matches the server; this checks that other tools can read it. CI
//! does not run it, because it needs Python and a package.

use crate::command::{first_line, root};
use crate::output::say;
use std::process::Command;

const DOCUMENT: &str = "docs/reference/openapi.json";

/// Runs it.
pub(crate) fn run() -> Result<(), String> {
    const VALIDATOR: &str = "openapi-spec-validator";
    let version = first_line(VALIDATOR, &["--version"]);
    if !version.starts_with(VALIDATOR) {
        return Err(format!(
            "there is no {VALIDATOR}, so {DOCUMENT} cannot be checked; install it (pipx install {VALIDATOR})"
        ));
    }
    let output = Command::new(VALIDATOR)
        .args(["--schema", "3.1", "--validation-errors", "all", DOCUMENT])
        .current_dir(root())
        .output()
        .map_err(|error| format!("{VALIDATOR}: {error}"))?;
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        return Err(String::from_utf8_lossy(&text).into_owned());
    }
    say(&format!("{version}: {DOCUMENT} is valid"));
    Ok(())
}
