//! The document, made from the table and the types. Descriptions of the status come from
//! `docs/reference/admin.md`.

use super::table::{ALL, OPERATIONS, Operation, Shape};
use crate::demo::{DemoFleet, DemoTick};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use slackwater_admin::DOCUMENT;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SCHEMAS: &str = "/components/schemas";
/// The content type of error responses, which have no type of ours.
const REFUSAL: &str = "text/plain";

/// Makes schemas of what is sent, and of what is received.
struct Schemas {
    sent: SchemaGenerator,
    read: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = SCHEMAS.into();
                settings.meta_schema = None;
            })
        };
        Self {
            sent: settings().for_serialize().into_generator(),
            read: settings().for_deserialize().into_generator(),
        }
    }

    fn content(shape: Shape, generator: &mut SchemaGenerator) -> Value {
        match shape {
            Shape::Plain(kinds) => kinds
                .iter()
                .map(|&kind| (kind.to_owned(), json!({ "schema": { "type": "string" } })))
                .collect::<Map<_, _>>()
                .into(),
            Shape::AnyJson => json!({ "application/json": { "schema": { "type": "object" } } }),
            Shape::Json(schema) => {
                let schema = schema(generator).to_value();
                json!({ "application/json": { "schema": schema } })
            }
            Shape::JsonOrText(schema) => {
                let schema = schema(generator).to_value();
                json!({
                    "application/json": { "schema": schema },
                    REFUSAL: { "schema": { "type": "string" } },
                })
            }
            Shape::Events(events) => {
                let events = events.iter();
                let schemas: Map<_, _> = events
                    .map(|(name, schema)| ((*name).to_owned(), schema(generator).to_value()))
                    .collect();
                json!({ "text/event-stream": { "schema": { "type": "string" }, "x-events": schemas } })
            }
        }
    }

    fn operation(&mut self, operation: &Operation) -> Value {
        let content = Self::content(operation.answer, &mut self.sent);
        let mut answers = Map::new();
        answers.insert(
            "200".to_owned(),
            json!({ "description": "Done", "content": content }),
        );
        for (status, about) in operation.others {
            let content = json!({ REFUSAL: { "schema": { "type": "string" } } });
            let answer = json!({ "description": about, "content": content });
            answers.insert(status.to_string(), answer);
        }
        for (status, about) in [
            (
                "400",
                "There is a body, or the query is no list of parameters",
            ),
            (
                "403",
                "Over loopback: the host that is asked for is another machine's",
            ),
        ] {
            let content = json!({ REFUSAL: { "schema": { "type": "string" } } });
            let answer = json!({ "description": about, "content": content });
            answers.entry(status).or_insert(answer);
        }
        let mut told = json!({
            "operationId": id(operation),
            "summary": operation.summary,
            "tags": operation.roles,
            "responses": answers,
        });
        if !operation.parameters.is_empty() {
            let parameters = operation.parameters.iter().map(|parameter| {
                json!({
                    "name": parameter.name,
                    "in": "query",
                    "required": parameter.is_required,
                    "description": parameter.about,
                    "schema": parameter.kind.schema(),
                })
            });
            told["parameters"] = parameters.collect();
        }
        if let Some(body) = operation.body {
            let content = Self::content(body, &mut self.read);
            told["requestBody"] =
                json!({ "content": content, "required": !operation.may_be_empty });
        }
        if operation.needs_token {
            told["security"] = json!([{ "token": [] }]);
        }
        told
    }

    /// Returns all schemas that were made.
    fn into_definitions(mut self) -> Map<String, Value> {
        // To the admin server, additions to live data are opaque values. Those of the demo are
        // known here.
        let demo = [
            ("Fleet", self.sent.subschema_for::<Option<DemoFleet>>()),
            ("Tick", self.sent.subschema_for::<Option<DemoTick>>()),
        ];
        let mut all = self.sent.take_definitions(true);
        for (name, schema) in demo {
            all[name]["properties"]["demo"] = schema.to_value();
        }
        // Later versions may send more fields.
        for schema in all.values_mut().filter_map(Value::as_object_mut) {
            schema.remove("additionalProperties");
        }
        for (name, schema) in self.read.take_definitions(true) {
            assert!(
                !all.contains_key(&name),
                "{name} is sent and read: give one of them a name of its own"
            );
            all.insert(name, schema);
        }
        all
    }
}

/// `post /overrides/clear` is `postOverridesClear`.
fn id(operation: &Operation) -> String {
    let words = operation.path.split(|c: char| !c.is_ascii_alphanumeric());
    let mut id = operation.method.to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        id += &first.to_ascii_uppercase();
        id += rest;
    }
    id
}

fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in OPERATIONS {
        let told = schemas.operation(operation);
        let path = paths.entry(operation.path).or_default();
        let before = path.insert(operation.method.to_owned(), told);
        assert!(
            before.is_none(),
            "{} {} twice",
            operation.method,
            operation.path
        );
    }
    let mut schemas = schemas.into_definitions();
    describe(&mut schemas, "Status", "", &meanings());
    let tags = ALL.iter().map(
        |role| json!({ "name": role, "description": format!("Served by `slackwater {role}`") }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Slackwater's admin server",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "How a process does, and what can be changed of it at run time. Fields are only ever added: ignore those \
                            that you do not know. docs/reference/admin.md says more.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:9900", "description": "Where it is unless `admin.listen` says otherwise" }],
        "security": [],
        "tags": tags.collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token in the file `admin.token_file`",
                },
            },
        },
    })
}

/// The descriptions of the status's fields in `docs/reference/admin.md`.
fn meanings() -> BTreeMap<String, String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/admin.md");
    let text = std::fs::read_to_string(docs).expect("docs/reference/admin.md");
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with("`GET /status`\n"));
    let rows = section.expect("a section on the status").lines();
    let row = |line: &str| {
        let cells = line.strip_prefix("| ")?.trim_end_matches('|');
        let (names, meaning) = cells.split_once(" | ")?;
        let meaning = without_links(meaning.trim());
        let quoted = names.split('`').skip(1).step_by(2);
        let mut first = None::<&str>;
        let of_row = quoted.map(|name| {
            // A name that begins with a dot replaces the end of the first.
            let parent = first.get_or_insert(name).rsplit_once('.');
            let parent = parent.map_or("", |(parent, _)| parent);
            let whole = if name.starts_with('.') {
                format!("{parent}{name}")
            } else {
                name.to_owned()
            };
            (whole, meaning.clone())
        });
        Some(of_row.collect::<Vec<_>>())
    };
    rows.filter_map(row).flatten().collect()
}

/// `[text](address)` is `text`.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain += before;
        rest = link;
        if let Some((shown, after)) = link.split_once("](")
            && let Some((_, after)) = after.split_once(')')
            && !shown.contains(']')
        {
            plain += shown;
            rest = after;
        } else {
            plain.push('[');
        }
    }
    plain + rest
}

/// Adds the descriptions of the documentation to fields that have none.
fn describe(
    schemas: &mut Map<String, Value>,
    name: &str,
    prefix: &str,
    meanings: &BTreeMap<String, String>,
) {
    let Some(fields) = schemas
        .get(name)
        .and_then(|schema| schema["properties"].as_object())
    else {
        return;
    };
    for (field, schema) in fields.clone() {
        let path = format!("{prefix}{field}");
        if let Some(meaning) = meanings.get(&path) {
            schemas[name]["properties"][&field]["description"] = json!(meaning);
        }
        let (inner, is_list) = match schema.get("items") {
            Some(items) => (items, true),
            None => (&schema, false),
        };
        let one_of = inner["anyOf"].as_array().into_iter().flatten();
        let mut refs = one_of.chain([inner]).filter_map(|it| it["$ref"].as_str());
        if let Some((_, inner)) = refs.next().and_then(|it| it.rsplit_once('/')) {
            let (inner, opening) = (inner.to_owned(), if is_list { "[]." } else { "." });
            describe(schemas, &inner, &format!("{path}{opening}"), meanings);
        }
    }
}

/// The file with the document; the other path is a link to it.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json")
}

#[test]
fn the_document_matches_the_types() {
    let text = serde_json::to_string_pretty(&document()).expect("JSON") + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file(), &text).expect("written");
        return;
    }
    let docs = std::fs::read_to_string(file()).expect("docs/reference/openapi.json");
    assert!(
        text == DOCUMENT && docs == text,
        "made anew by: BLESS=1 cargo test -p slackwater --bin slackwater openapi"
    );
}

#[test]
fn schemas_are_valid_and_status_fields_are_described() {
    let document = document();
    let schemas = document["components"]["schemas"]
        .as_object()
        .expect("schemas");
    assert!(schemas.len() > 20, "{}", schemas.len());
    for (name, schema) in schemas {
        let mut whole = schema.clone();
        whole["components"] = document["components"].clone();
        assert!(jsonschema::meta::is_valid(schema), "{name}");
        jsonschema::draft202012::new(&whole).expect("every reference leads somewhere");
    }
    let fields = schemas["Status"]["properties"].as_object().expect("fields");
    let leaves = fields
        .iter()
        .filter(|(_, schema)| schema.get("type").is_some_and(|it| it != "array"));
    for (field, schema) in leaves {
        assert!(schema["description"].is_string(), "{field}");
    }
    let told = (schemas.iter())
        .filter(|(name, _)| name.starts_with("Decision") || name.starts_with("Demo"));
    for (name, schema) in told {
        let fields = schema["properties"].as_object().into_iter().flatten();
        for (field, schema) in fields {
            assert!(schema["description"].is_string(), "{name}.{field}");
        }
    }
    let undescribed = (document["paths"].as_object().expect("paths").iter())
        .flat_map(|(path, operations)| {
            let operations = operations.as_object().expect("operations").values();
            operations.map(move |operation| (path, operation.to_string()))
        })
        .filter(|(_, operation)| operation.contains(r#""schema":{"type":"object"}"#))
        .map(|(path, _)| path.as_str());
    assert_eq!(undescribed.collect::<Vec<_>>(), ["/openapi.json"]);
}

#[test]
fn links_are_removed_and_rule_ids_kept() {
    assert_eq!(
        without_links("a [b c](d.md#e) [A13] f [g](h)"),
        "a b c [A13] f g"
    );
}
