//! What a client says about itself.

use crate::messages::{self, Kind, ListValue, Struct, Value};

/// The client, as the control plane sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name, by which a control plane chooses what to send.
    pub id: String,
    /// The group of clients that it belongs to; may be empty.
    pub cluster: String,
    /// Where it runs.
    pub locality: Locality,
    /// Anything else that the control plane expects, as a JSON object.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// The client's program, and its version.
    pub user_agent: (String, String),
}

/// A place: region, zone and sub-zone. Each may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locality {
    /// Region.
    pub region: String,
    /// Zone in the region.
    pub zone: String,
    /// Part of the zone.
    pub sub_zone: String,
}

impl Node {
    /// The node as a message.
    pub(crate) fn message(&self) -> messages::Node {
        let Locality {
            region,
            zone,
            sub_zone,
        } = self.locality.clone();
        let has_locality = self.locality != Locality::default();
        messages::Node {
            id: self.id.clone(),
            cluster: self.cluster.clone(),
            metadata: (!self.metadata.is_empty()).then(|| of_object(&self.metadata)),
            locality: has_locality.then_some(messages::Locality {
                region,
                zone,
                sub_zone,
            }),
            user_agent_name: self.user_agent.0.clone(),
            user_agent_version: self.user_agent.1.clone(),
            // A resource may come with a name, a version and a time to live around it.
            client_features: vec!["xds.config.resource-in-sotw".to_owned()],
        }
    }
}

fn of_object(object: &serde_json::Map<String, serde_json::Value>) -> Struct {
    let fields = object.iter();
    Struct {
        fields: fields
            .map(|(name, value)| (name.clone(), of_value(value)))
            .collect(),
    }
}

fn of_value(value: &serde_json::Value) -> Value {
    let kind = match value {
        serde_json::Value::Null => Kind::Null(0),
        serde_json::Value::Bool(yes) => Kind::Bool(*yes),
        serde_json::Value::Number(number) => Kind::Number(number.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(text) => Kind::Text(text.clone()),
        serde_json::Value::Array(values) => Kind::List(ListValue {
            values: values.iter().map(of_value).collect(),
        }),
        serde_json::Value::Object(object) => Kind::Struct(of_object(object)),
    };
    Value { kind: Some(kind) }
}
