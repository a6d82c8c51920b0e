//! The policy that a cluster chooses: `load_balancing_policy`, as gRPC's proposal A52 has it.
//!
//! The field is a list of alternatives. A client takes the first one that it knows, so one cluster
//! can serve different clients. Known here is a `TypedStruct` of the type `slackwater`, on its own
//! or inside of `wrr_locality`, which gRPC needs around it. Nothing is known about its keys: the
//! client's owner [checks](PolicyCheck) them.

use crate::content::{BadResource, brief};
use crate::messages::{
    Kind, LoadBalancingPolicy, Struct, TypedStruct, Value as Message, WrrLocality,
};
use crate::policy_config::{PolicyCheck, PolicyConfig};
use crate::wire;
use bytes::Bytes;
use prost::Message as _;
use serde_json::{Map, Number, Value};
use std::sync::Arc;

/// The last part of the type URL of a `TypedStruct` that is known.
pub const POLICY_NAME: &str = "slackwater";

/// The most entries of a list.
pub const POLICIES_MAX: usize = 32;

/// How deep lists may be in one another. gRPC has the same bound.
pub const NESTED_MAX: usize = 16;

/// The longest configuration, in bytes as encoded.
pub const CONFIG_BYTES_MAX: usize = 16 * 1024;

/// The most fields and elements of a configuration, at all depths.
pub const FIELDS_MAX: usize = 256;

/// How deep objects and lists of a configuration may be in one another.
pub const DEPTH_MAX: usize = 4;

/// The longest text and the longest name of a field, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;

const TYPED_STRUCT: [&str; 2] = [
    "type.googleapis.com/xds.type.v3.TypedStruct",
    "type.googleapis.com/udpa.type.v1.TypedStruct",
];

const WRR_LOCALITY: &str = "type.googleapis.com/envoy.extensions.load_balancing_policies.\
                            wrr_locality.v3.WrrLocality";

/// The policy that a cluster chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPolicy {
    /// Its configuration.
    pub config: Arc<PolicyConfig>,
    /// The field of the cluster that has the configuration.
    field: String,
}

impl NamedPolicy {
    /// Checks the configuration. A mistake names its field in the cluster.
    pub(crate) fn check(&self, check: PolicyCheck) -> Result<(), BadResource> {
        check(&self.config).map_err(|mistake| {
            let field = join(&self.field, &mistake.field);
            BadResource::new(&field, mistake.message)
        })
    }

    /// Reads the first known entry of an encoded `LoadBalancingPolicy`; `None` if there is none.
    pub(crate) fn read(list: Bytes) -> Result<Option<Self>, BadResource> {
        read_list(list, "load_balancing_policy", 1)
    }
}

fn read_list(list: Bytes, path: &str, depth: usize) -> Result<Option<NamedPolicy>, BadResource> {
    let malformed = |field: &str| {
        let field = field.to_owned();
        move |error| BadResource::new(&field, format_args!("is malformed: {error}"))
    };
    let count = wire::count(&list, &[1]);
    let count = count.map_err(|error| BadResource::new(path, error))?;
    if count > POLICIES_MAX {
        let message = format!("has {count} entries, expected at most {POLICIES_MAX}");
        return Err(BadResource::new(&format!("{path}.policies"), message));
    }
    let list = LoadBalancingPolicy::decode(list).map_err(malformed(path))?;
    for (index, policy) in list.policies.into_iter().enumerate() {
        let config = policy.typed_extension_config;
        let Some(any) = config.and_then(|config| config.typed_config) else {
            continue;
        };
        let field = || format!("{path}.policies[{index}].typed_extension_config.typed_config");
        if TYPED_STRUCT.contains(&any.type_url.as_str()) {
            let field = field();
            let config = TypedStruct::decode(any.value).map_err(malformed(&field))?;
            if config.type_url.rsplit('/').next() == Some(POLICY_NAME) {
                let field = format!("{field}.value");
                let config = Arc::new(read_config(config.value.unwrap_or_default(), &field)?);
                return Ok(Some(NamedPolicy { config, field }));
            }
        } else if any.type_url == WRR_LOCALITY {
            let field = field();
            let around = WrrLocality::decode(any.value).map_err(malformed(&field))?;
            let field = format!("{field}.endpoint_picking_policy");
            if depth == NESTED_MAX {
                let message =
                    format!("is too deep, expected at most {NESTED_MAX} lists in another");
                return Err(BadResource::new(&field, message));
            }
            let inner = around.endpoint_picking_policy.unwrap_or_default();
            if let Some(found) = read_list(inner, &field, depth + 1)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

fn read_config(bytes: Bytes, field: &str) -> Result<PolicyConfig, BadResource> {
    let length = bytes.len();
    if length > CONFIG_BYTES_MAX {
        let message = format!("has {length} bytes, expected at most {CONFIG_BYTES_MAX}");
        return Err(BadResource::new(field, message));
    }
    let count = wire::count(&bytes, &[1]);
    let count = count.map_err(|error| BadResource::new(field, error))?;
    let mut budget = Budget { left: FIELDS_MAX };
    if count > FIELDS_MAX {
        return Err(Budget::exceeded(field));
    }
    let message = Struct::decode(bytes);
    let message = message.map_err(|error| BadResource::new(field, error))?;
    let fields = budget.fields(message, field, 1)?;
    Ok(PolicyConfig::new(fields))
}

/// Counts what a configuration may still have.
struct Budget {
    left: usize,
}

impl Budget {
    fn exceeded(field: &str) -> BadResource {
        BadResource::new(field, format_args!("has more than {FIELDS_MAX} fields"))
    }

    fn take(&mut self, field: &str) -> Result<(), BadResource> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or_else(|| Self::exceeded(field))?;
        Ok(())
    }

    fn fields(
        &mut self,
        message: Struct,
        field: &str,
        depth: usize,
    ) -> Result<Map<String, Value>, BadResource> {
        if depth > DEPTH_MAX {
            let message = format!("is too deep, expected at most {DEPTH_MAX} objects in another");
            return Err(BadResource::new(field, message));
        }
        let mut fields = Map::new();
        for (name, value) in message.fields {
            self.take(field)?;
            text_fits(&name, field)?;
            let value = self.value(value, &join(field, &brief(&name)), depth)?;
            fields.insert(name, value);
        }
        Ok(fields)
    }

    fn value(&mut self, message: Message, field: &str, depth: usize) -> Result<Value, BadResource> {
        Ok(match message.kind {
            None | Some(Kind::Null(_)) => Value::Null,
            Some(Kind::Bool(value)) => value.into(),
            Some(Kind::Text(text)) => {
                text_fits(&text, field)?;
                text.into()
            }
            Some(Kind::Number(number)) => {
                let read = Number::from_f64(number).map(Value::Number);
                read.ok_or_else(|| {
                    BadResource::new(field, format_args!("is {number}, expected a finite number"))
                })?
            }
            Some(Kind::Struct(inner)) => self.fields(inner, field, depth + 1)?.into(),
            Some(Kind::List(list)) => {
                if depth == DEPTH_MAX {
                    let message = format!("is too deep, expected at most {DEPTH_MAX} in another");
                    return Err(BadResource::new(field, message));
                }
                let mut values = Vec::with_capacity(list.values.len().min(self.left));
                for (index, value) in list.values.into_iter().enumerate() {
                    self.take(field)?;
                    let field = format!("{field}[{index}]");
                    values.push(self.value(value, &field, depth + 1)?);
                }
                values.into()
            }
        })
    }
}

fn text_fits(text: &str, field: &str) -> Result<(), BadResource> {
    let length = text.len();
    if length <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let message = format!("has a text of {length} bytes, expected at most {TEXT_BYTES_MAX}");
    Err(BadResource::new(field, message))
}

fn join(field: &str, name: &str) -> String {
    if name.is_empty() {
        return field.to_owned();
    }
    format!("{field}.{name}")
}

#[cfg(test)]
pub(crate) mod tests;
