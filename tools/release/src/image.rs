//! Container images without a daemon: an archive in OCI's image layout, which `docker load` reads,
//! too.
//!
//! An image has one layer: the program, the licences, and Mozilla's certificate authorities,
//! because nothing else in it brings some.

use crate::bytes::{gzip, sha256};
use crate::command::read;
use crate::source::Source;
use crate::target::{Target, Variant};
use crate::tree::Tree;
use core::fmt::Write as _;
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::io;

/// The program inside an image.
const PROGRAM: &str = "usr/local/bin/slackwater";
/// Where a program for Linux looks for the certificates of authorities.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Without a name, as in other images without a shell.
const USER: &str = "65532:65532";

/// What docker puts before a name without a registry when it looks for the image. containerd takes
/// the name in an archive as it is.
const LIBRARY: &str = "docker.io/library/";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// What an image needs of a build.
#[derive(Debug)]
pub(crate) struct Build<'a> {
    pub(crate) target: Target,
    pub(crate) binary: &'a [u8],
    pub(crate) licences: &'a str,
}

/// An archive, and the sizes of its layers by architecture.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) archive: Vec<u8>,
    /// Architecture, compressed bytes, bytes.
    pub(crate) layers: Vec<(&'static str, usize, usize)>,
    /// The digest under which a registry will have it.
    pub(crate) digest: String,
}

/// Returns an image for all builds of a variant.
///
/// # Errors
///
/// A file of the repository cannot be read.
pub(crate) fn image(
    source: &Source,
    variant: Variant,
    builds: &[Build<'_>],
) -> Result<Image, String> {
    let licences = ["LICENSE-APACHE", "LICENSE-MIT"].map(|name| {
        let bytes = read(&source.root.join(name));
        bytes.map(|bytes| (name, bytes))
    });
    let licences = licences.into_iter().collect::<Result<Vec<_>, _>>()?;
    write(source, variant, builds, &licences).map_err(|error| format!("the image: {error}"))
}

fn write(
    source: &Source,
    variant: Variant,
    builds: &[Build<'_>],
    licences: &[(&str, Vec<u8>)],
) -> io::Result<Image> {
    let mut archive = Tree::default();
    let mut layers = Vec::new();
    let mut manifests = Vec::new();
    let mut docker = Vec::new();
    for build in builds {
        let tar = layer(build, licences).tar(source.time)?;
        let compressed = gzip(&tar)?;
        layers.push((build.target.architecture, compressed.len(), tar.len()));
        let config = config(source, variant, build.target, &sha256(&tar)).to_string();
        let (config, config_blob) = add(&mut archive, CONFIG, config.into_bytes());
        let (layer, layer_blob) = add(&mut archive, LAYER, compressed);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer],
            "annotations": annotations(source),
        });
        let (mut manifest, _) = add(&mut archive, MANIFEST, manifest.to_string().into_bytes());
        manifest["platform"] = platform(build.target);
        manifests.push(manifest);
        let tag = format!(
            "{}:{}-{}",
            variant.name(),
            source.version,
            build.target.architecture
        );
        docker.push(json!({ "Config": config_blob, "RepoTags": [tag], "Layers": [layer_blob] }));
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": manifests,
        "annotations": annotations(source),
    });
    let (mut index, _) = add(&mut archive, INDEX, index.to_string().into_bytes());
    let digest = index["digest"].as_str().unwrap_or_default().to_owned();
    index["annotations"] = json!({
        "org.opencontainers.image.ref.name": source.version,
        "io.containerd.image.name": format!("{LIBRARY}{}:{}", variant.name(), source.version),
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [index] });
    archive.file("index.json", index.to_string().into_bytes());
    archive.file("oci-layout", *br#"{"imageLayoutVersion":"1.0.0"}"#);
    // The older format of `docker save`, over the same files.
    archive.file(
        "manifest.json",
        Value::from(docker).to_string().into_bytes(),
    );
    Ok(Image {
        archive: archive.tar(source.time)?,
        layers,
        digest,
    })
}

/// Adds a blob, and returns what refers to it, and its path.
fn add(archive: &mut Tree, kind: &str, bytes: Vec<u8>) -> (Value, String) {
    let digest = sha256(&bytes);
    let path = format!("blobs/sha256/{digest}");
    let descriptor = json!({
        "mediaType": kind,
        "digest": format!("sha256:{digest}"),
        "size": bytes.len(),
    });
    archive.file(&path, bytes);
    (descriptor, path)
}

fn layer(build: &Build<'_>, licences: &[(&str, Vec<u8>)]) -> Tree {
    let mut tree = Tree::default();
    tree.program(PROGRAM, build.binary);
    tree.folder("etc/slackwater");
    tree.file(CERTIFICATES, authorities().into_bytes());
    let docs = "usr/local/share/doc/slackwater";
    for (name, bytes) in licences {
        tree.file(&format!("{docs}/{name}"), &bytes[..]);
    }
    let others = format!("{docs}/THIRD-PARTY-LICENSES.txt");
    tree.file(&others, build.licences.as_bytes());
    tree
}

/// Mozilla's certificate authorities for servers, as PEM.
fn authorities() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text += "-----BEGIN CERTIFICATE-----\n";
        // RFC 7468: lines of 64 characters.
        for line in certificate.as_ref().chunks(48) {
            let _ = writeln!(text, "{}", BASE64.encode(line));
        }
        text += "-----END CERTIFICATE-----\n";
    }
    text
}

fn config(source: &Source, variant: Variant, target: Target, layer: &str) -> Value {
    let program = format!("/{PROGRAM}");
    let (ports, arguments) = match variant {
        Variant::Full => (
            json!({ "8080/tcp": {} }),
            ["serve", "--config", "/etc/slackwater/serve.toml"],
        ),
        Variant::Agent => (
            json!({ "8000/tcp": {}, "8000/udp": {} }),
            ["agent", "--config", "/etc/slackwater/agent.toml"],
        ),
    };
    let mut config = platform(target);
    config["created"] = source.timestamp.as_str().into();
    config["config"] = json!({
        "User": USER,
        "ExposedPorts": ports,
        "Env": [],
        "Entrypoint": [program],
        "Cmd": arguments,
        "WorkingDir": "/",
        "StopSignal": "SIGTERM",
        "Labels": annotations(source),
    });
    // An agent has no admin server unless its configuration says so.
    if variant == Variant::Full {
        // Not of OCI. Docker reads it here; podman only from its own format.
        config["config"]["Healthcheck"] = json!({
            "Test": ["CMD", program, "ready"],
            "Interval": 5_000_000_000_u64,
            "Timeout": 3_000_000_000_u64,
            "StartPeriod": 5_000_000_000_u64,
            "Retries": 3,
        });
    }
    config["rootfs"] = json!({ "type": "layers", "diff_ids": [format!("sha256:{layer}")] });
    config["history"] = json!([{
        "created": source.timestamp,
        "created_by": format!("cargo xtask release ({})", variant.name()),
    }]);
    config
}

fn platform(target: Target) -> Value {
    let mut platform = json!({ "architecture": target.architecture, "os": "linux" });
    // Without it, containerd does not take an image for arm64 as equal to its own machine's.
    if target.architecture == "arm64" {
        platform["variant"] = "v8".into();
    }
    platform
}

fn annotations(source: &Source) -> Value {
    json!({
        "org.opencontainers.image.title": "slackwater",
        "org.opencontainers.image.version": source.version,
        "org.opencontainers.image.revision": source.commit,
        "org.opencontainers.image.source": "https://github.com/slackwater/slackwater",
        "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::source;
    use crate::target::TARGETS;
    use std::collections::BTreeMap;
    use std::io::Read;

    fn made(binary: &[u8]) -> Image {
        let builds = TARGETS.map(|target| Build {
            target,
            binary,
            licences: "theirs",
        });
        let licences = [("LICENSE-MIT", b"ours".to_vec())];
        write(&source(), Variant::Agent, &builds, &licences).unwrap()
    }

    fn files(tar: impl Read) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(tar).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(entry.path().unwrap().display().to_string(), bytes);
        }
        files
    }

    /// Follows a reference, and checks size and digest.
    fn blob<'a>(files: &'a BTreeMap<String, Vec<u8>>, reference: &Value) -> &'a [u8] {
        let digest = reference["digest"].as_str().unwrap();
        let bytes = &files[&format!("blobs/{}", digest.replace(':', "/"))];
        assert_eq!(reference["size"], bytes.len());
        assert_eq!(digest, format!("sha256:{}", sha256(bytes)));
        bytes
    }

    fn json_of(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn references_lead_from_the_index_to_the_program_of_each_machine() {
        let image = made(b"program");
        let files = files_of(&image);
        let top = json_of(&files["index.json"]);
        assert_eq!(top["manifests"][0]["digest"], image.digest);
        let name = &top["manifests"][0]["annotations"]["io.containerd.image.name"];
        assert_eq!(name, "docker.io/library/slackwater-agent:0.1.0");
        let index = json_of(blob(&files, &top["manifests"][0]));
        let docker = json_of(&files["manifest.json"]);
        for (number, target) in TARGETS.iter().enumerate() {
            let entry = &index["manifests"][number];
            assert_eq!(entry["platform"]["architecture"], target.architecture);
            let manifest = json_of(blob(&files, entry));
            let config = json_of(blob(&files, &manifest["config"]));
            assert_eq!(config["architecture"], target.architecture);
            assert_eq!(config["config"]["User"], "65532:65532");
            let compressed = blob(&files, &manifest["layers"][0]);
            let mut tar = Vec::new();
            let mut reader = flate2::read::GzDecoder::new(compressed);
            reader.read_to_end(&mut tar).unwrap();
            let of_tar = format!("sha256:{}", sha256(&tar));
            assert_eq!(config["rootfs"]["diff_ids"], json!([of_tar]));
            let layer = self::files(&tar[..]);
            let program = config["config"]["Entrypoint"][0].as_str().unwrap();
            assert_eq!(layer[program.trim_start_matches('/')], b"program");
            assert_eq!(image.layers[number].1, compressed.len());
            let old = &docker[number];
            let tag = format!("slackwater-agent:0.1.0-{}", target.architecture);
            assert_eq!(old["RepoTags"], json!([tag]));
            assert_eq!(files[old["Layers"][0].as_str().unwrap()], compressed);
        }
    }

    fn files_of(image: &Image) -> BTreeMap<String, Vec<u8>> {
        files(&image.archive[..])
    }

    #[test]
    fn an_image_runs_what_it_is_for() {
        let config = |variant| config(&source(), variant, TARGETS[0], "0")["config"].clone();
        let (full, agent) = (config(Variant::Full), config(Variant::Agent));
        assert_eq!(full["Cmd"][0], "serve");
        assert_eq!(full["ExposedPorts"], json!({ "8080/tcp": {} }));
        assert_eq!(full["Healthcheck"]["Test"][2], "ready");
        assert_eq!(agent["Cmd"][0], "agent");
        assert_eq!(
            agent["ExposedPorts"],
            json!({ "8000/tcp": {}, "8000/udp": {} })
        );
        assert_eq!(agent["Healthcheck"], Value::Null, "it has no admin server");
    }

    #[test]
    fn digest_is_of_the_content_alone() {
        assert_eq!(made(b"program").archive, made(b"program").archive);
        assert_ne!(made(b"program").digest, made(b"another").digest);
    }

    #[test]
    fn authorities_are_certificates_in_lines_that_every_reader_takes() {
        let text = authorities();
        let count = text.matches("-----BEGIN CERTIFICATE-----\n").count();
        assert_eq!(count, webpki_root_certs::TLS_SERVER_ROOT_CERTS.len());
        assert!(count > 100, "{count}");
        assert!(text.lines().all(|line| line.len() <= 64));
    }
}
