//! The list of what is in a binary, in the format `CycloneDX` 1.6.

use crate::bytes::sha256;
use crate::compile::Versions;
use crate::packages::{Id, Package, Packages};
use crate::source::Source;
use crate::target::{Target, Variant};
use serde_json::{Value, json};

/// The C library that Rust links into programs for musl, by its version.
const MUSL: &str = "1.2.5";

/// Returns the document for a binary. `versions` are those of the compiler.
pub(crate) fn document(
    source: &Source,
    (target, variant): (Target, Variant),
    packages: &Packages,
    binary: &[u8],
    versions: &Versions,
) -> String {
    let mut main = Value::Null;
    let mut components = Vec::new();
    for (id, package) in &packages.all {
        if id.0 == "slackwater" {
            main = component(package, "application");
            main["hashes"] = json!([{ "alg": "SHA-256", "content": sha256(binary) }]);
            main["properties"] = json!([
                { "name": "slackwater:target", "value": target.triple },
                { "name": "slackwater:variant", "value": variant.name() },
                { "name": "slackwater:commit", "value": source.commit },
            ]);
        } else {
            components.push(component(package, "library"));
        }
    }
    components.push(json!({
        "type": "library", "name": "rust-std", "version": versions.rust, "bom-ref": "rust-std",
        "description": "Rust's standard library, with the crates in it",
        "licenses": [{ "expression": "MIT OR Apache-2.0" }],
    }));
    let mut runtime = vec!["rust-std"];
    if target.triple.ends_with("-musl") {
        components.push(json!({
            "type": "library", "name": "musl", "version": MUSL, "bom-ref": "musl",
            "description": "The C library",
            "licenses": [{ "expression": "MIT" }],
        }));
        components.push(json!({
            "type": "library", "name": "libunwind", "version": versions.llvm,
            "bom-ref": "libunwind",
            "description": "LLVM's unwinder",
            "licenses": [{ "expression": "Apache-2.0 WITH LLVM-exception" }],
        }));
        runtime.extend(["musl", "libunwind"]);
    }
    let mut dependencies = Vec::new();
    for (id, needs) in &packages.needs {
        let mut needs: Vec<String> = needs.iter().map(purl).collect();
        if id.0 == "slackwater" {
            needs.extend(runtime.iter().map(|&it| it.to_owned()));
        }
        dependencies.push(json!({ "ref": purl(id), "dependsOn": needs }));
    }
    let mut document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": source.timestamp,
            "tools": { "components": [{
                "type": "application", "name": "slackwater-release", "version": source.version,
            }] },
            "component": main,
        },
        "components": components,
        "dependencies": dependencies,
    });
    // The number has to differ between documents, and to be the same for the same document.
    document["serialNumber"] = format!("urn:uuid:{}", uuid(&document.to_string())).into();
    format!("{document:#}\n")
}

fn component(package: &Package, kind: &str) -> Value {
    let id = (package.name.clone(), package.version.clone());
    let mut component = json!({
        "type": kind,
        "name": package.name,
        "version": package.version,
        "bom-ref": purl(&id),
        "purl": purl(&id),
        "licenses": [{ "expression": package.licence }],
    });
    if let Some(checksum) = &package.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

/// The crate's address in registries of packages.
fn purl((name, version): &Id) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// A UUID of version 8 (RFC 9562): its bits come from a digest.
fn uuid(text: &str) -> String {
    let digits = sha256(text.as_bytes());
    format!(
        "{}-{}-8{}-8{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[12..15],
        &digits[15..18],
        &digits[18..30]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::tests::three;
    use crate::source::tests::source;
    use crate::target::TARGETS;

    fn made(binary: &[u8]) -> Value {
        let what = (TARGETS[0], Variant::Full);
        let versions = Versions {
            rust: "1.95.0".to_owned(),
            llvm: "22.1.2".to_owned(),
        };
        let text = document(&source(), what, &three(), binary, &versions);
        assert_eq!(text, document(&source(), what, &three(), binary, &versions));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn document_lists_every_crate_the_standard_library_and_the_c_library() {
        let document = made(b"binary");
        let components = document["components"].as_array().unwrap();
        let names: Vec<_> = components
            .iter()
            .map(|it| {
                format!(
                    "{} {}",
                    it["name"].as_str().unwrap(),
                    it["version"].as_str().unwrap()
                )
            })
            .collect();
        let expected = [
            "base64 0.22.1",
            "base64 0.23.1",
            "clock 1.0.0",
            "tls 2.0.0",
            "rust-std 1.95.0",
            "musl 1.2.5",
            "libunwind 22.1.2",
        ];
        assert_eq!(names, expected);
        assert_eq!(components[0]["hashes"][0]["content"], "a".repeat(64));
        assert_eq!(
            document["metadata"]["component"]["hashes"][0]["content"],
            sha256(b"binary")
        );
        let dependencies = document["dependencies"].as_array().unwrap();
        let main = dependencies
            .iter()
            .find(|it| it["ref"] == "pkg:cargo/slackwater@0.1.0");
        assert_eq!(main.unwrap()["dependsOn"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn serial_number_is_of_the_content() {
        let (one, other) = (made(b"binary"), made(b"another"));
        let number = one["serialNumber"].as_str().unwrap();
        assert_ne!(one["serialNumber"], other["serialNumber"]);
        let digits = number.strip_prefix("urn:uuid:").unwrap();
        let lengths: Vec<_> = digits.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }
}
