//! `[tracing]` and the environment: precedence, and what is never shown.

use super::*;
use crate::sections::variables::tests::variables;
use crate::toml_reader::Severity;

/// Loads a file with this section, with these variables set.
fn load(section: &str, set: &[(&str, &str)]) -> Result<Loaded, Mistakes> {
    let text = format!("listen = \"127.0.0.1:0\"\nreplicas = [\"127.0.0.1:1\"]\n{section}");
    let source = Source::new("file.toml".into(), text);
    let flags = Overrides {
        variables: variables(set),
        ..Overrides::default()
    };
    Config::load_source(Some(&source), &flags)
}

fn settings(section: &str, set: &[(&str, &str)]) -> TracingSettings {
    let loaded = load(section, set).expect("valid");
    loaded.config.tracing
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://10.0.0.9:4317");

#[test]
fn without_a_section_the_environment_has_no_effect() {
    let all = [ENDPOINT, ("OTEL_SERVICE_NAME", "edge")];
    assert_eq!(settings("", &all), TracingSettings::default());
    let said = settings("[tracing]", &all);
    let endpoint = said.endpoint.expect("said").to_string();
    assert_eq!(
        (endpoint.as_str(), said.service_name.as_str()),
        ("http://10.0.0.9:4317/", "edge")
    );
}

#[test]
fn the_file_takes_precedence_over_the_environment() {
    let section = "[tracing]\nendpoint = \"http://10.0.0.1:4318\"\nprotocol = \"http\"\nsample = 0.5\n\
                   service_name = \"mine\"\ntimeout = \"2s\"\nresource = { a = \"file\" }\n";
    let all = [
        ENDPOINT,
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_SAMPLER", "parentbased_always_on"),
        ("OTEL_SERVICE_NAME", "theirs"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "3000"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=variable,b=variable"),
    ];
    let said = settings(section, &all);
    let endpoint = said.endpoint.expect("said");
    assert_eq!(
        (endpoint.port(), endpoint.path().as_str()),
        (4318, "/v1/traces")
    );
    assert_eq!(said.protocol, CollectorProtocol::Http);
    assert_eq!(
        (said.sample.millionths(), said.service_name.as_str()),
        (500_000, "mine")
    );
    assert_eq!(said.timeout.as_secs(), 2);
    let resource: Vec<_> = (said.resource.iter())
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(resource, [("b", "variable"), ("a", "file")]);
    // Variables set the keys that the file leaves out.
    let said = settings("[tracing]", &all);
    assert_eq!(said.protocol, CollectorProtocol::Grpc);
    assert_eq!(
        (said.sample.millionths(), said.timeout.as_secs()),
        (1_000_000, 3)
    );
}

#[test]
fn environment_can_disable_tracing_and_invalid_variables_are_ignored() {
    let off = [ENDPOINT, ("OTEL_SDK_DISABLED", "true")];
    let loaded = load("[tracing]\nsample = 1\n", &off).expect("valid");
    assert_eq!(loaded.config.tracing.endpoint, None);
    assert!(
        loaded.remarks.is_empty(),
        "it is meant: {:?}",
        loaded.remarks
    );
    for (name, said, told) in [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "http/json",
            "OTEL_EXPORTER_OTLP_PROTOCOL: tracing.protocol: found",
        ),
        (
            "OTEL_TRACES_SAMPLER",
            "always_on",
            "OTEL_TRACES_SAMPLER: tracing.sample: found \"always_on\", expected parentbased_always_on",
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "0",
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: tracing.timeout: found",
        ),
    ] {
        let loaded = load("[tracing]\n", &[ENDPOINT, (name, said)]).expect("valid");
        let [remark] = &loaded.remarks[..] else {
            panic!("one remark: {:?}", loaded.remarks);
        };
        assert_eq!(remark.severity, Severity::Warning);
        let about = remark.about.to_string();
        assert!(about.starts_with(told), "{about}");
        assert!(about.ends_with("; it is left aside"), "{about}");
        let without = settings("[tracing]\n", &[ENDPOINT]);
        assert_eq!(loaded.config.tracing, without, "{name}");
    }
    // Without a usable endpoint, tracing is off.
    for (name, said) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector/v1"),
    ] {
        let loaded = load("[tracing]\n", &[(name, said)]).expect("valid");
        assert_eq!(loaded.config.tracing.endpoint, None);
        assert_eq!(loaded.remarks.len(), 2, "{:?}", loaded.remarks);
    }
    for (name, said) in [
        ("OTEL_EXPORTER_OTLP_HEADERS", "grpc-timeout=1"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem"),
    ] {
        let loaded = load("[tracing]\n", &[ENDPOINT, (name, said)]).expect("valid");
        let told = loaded.remarks.iter().map(|it| it.about.to_string());
        let told: Vec<_> = told.filter(|it| it.starts_with(name)).collect();
        assert_eq!(told.len(), 1, "{:?}", loaded.remarks);
        let tracing = loaded.config.tracing;
        assert!(tracing.endpoint.is_some() && tracing.tls.ca.is_none());
        assert_eq!(tracing.headers.read(), Ok(Vec::new()));
    }
    let many: Vec<_> = (0..65).map(|at| format!("k{at}=v")).collect();
    let many = [ENDPOINT, ("OTEL_RESOURCE_ATTRIBUTES", &*many.join(","))];
    let loaded = load("[tracing]\nresource = { a = \"file\" }\n", &many).expect("valid");
    assert_eq!(loaded.remarks.len(), 1);
    assert_eq!(loaded.config.tracing.resource.len(), 1);
    // A wrong value in the file is a mistake.
    assert!(load("[tracing]\nsample = \"always_on\"\n", &[ENDPOINT]).is_err());
}

#[test]
fn invalid_endpoints_are_rejected() {
    for (written, secure, host, port) in [
        ("http://collector:4317", false, "collector", 4317),
        ("https://collector", true, "collector", 443),
        ("http://[::1]:4317", false, "::1", 4317),
    ] {
        let endpoint = Endpoint::parse(written).expect(written);
        assert_eq!(
            (endpoint.is_secure(), endpoint.host(), endpoint.port()),
            (secure, host, port)
        );
    }
    for wrong in [
        "collector:4317",
        "ftp://collector",
        "http://",
        "http://user:secret@collector:4317",
        "http://collector:99999",
        "http://collector:4317?a=b",
        "/v1/traces",
        "",
    ] {
        assert_eq!(Endpoint::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn headers_for_the_collector_are_not_shown() {
    let secret = [
        ENDPOINT,
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret"),
    ];
    let loaded = load("[tracing]\n", &secret).expect("valid");
    let fields = loaded.config.tracing.headers.read().expect("there");
    assert_eq!(fields[0].1, "s3cret");
    let shown = format!("{} {:?}", loaded.config.to_toml(), loaded.config);
    assert!(!shown.contains("s3cret"), "{shown}");
}
