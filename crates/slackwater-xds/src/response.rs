//! Responses of both variants of the protocol in one form, with each mistake by its resource.

use crate::content::{Content, shown};
use crate::messages::{
    self, Any, DeltaDiscoveryResponse, DiscoveryResponse, NameAlone, Resource, ResourceError,
    ResponseHead,
};
use crate::policy_config::PolicyCheck;
use crate::wire;
use bytes::Bytes;
use core::time::Duration;
use prost::Message;
use std::collections::BTreeSet;

/// The most resources of a response.
pub(crate) const RESOURCES_MAX: usize = 4096;

/// The longest nonce or version, in bytes. Both are kept, and sent back whole.
const TOKEN_BYTES_MAX: usize = 1024;

/// The longest time to live, in seconds: 10,000 years, protobuf's own bound.
const TTL_SECONDS_MAX: u64 = 315_576_000_000;

/// Type URL of the wrapper that gives a resource of a state-of-the-world response a name, a version
/// and a time to live.
const WRAPPER_TYPE: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";

/// A response with resources of one type.
#[derive(Debug)]
pub(crate) struct Response<C> {
    pub(crate) nonce: String,
    /// The version of all resources; for people only if resources have their own.
    pub(crate) version: String,
    /// The resources that are subscribed to.
    pub(crate) resources: Vec<Item<C>>,
    /// Names of resources that no longer exist.
    pub(crate) removed: Vec<String>,
    /// Names of resources that the control plane cannot send, and why.
    pub(crate) errors: Vec<(String, String)>,
    /// Mistakes that belong to no resource with a name.
    pub(crate) mistakes: Vec<String>,
    /// Whether it only renews times to live: resources without one are not in it.
    pub(crate) is_heartbeat: bool,
}

/// A resource of a response.
#[derive(Debug)]
pub(crate) struct Item<C> {
    pub(crate) name: String,
    /// Its own version, in the incremental variant.
    pub(crate) version: String,
    pub(crate) ttl: Option<Duration>,
    /// `None`: only the time to live is renewed.
    pub(crate) content: Option<Result<C, String>>,
}

/// What a response of either variant is made of.
struct Parts {
    nonce: String,
    version: String,
    resources: Vec<Resource>,
    removed: Vec<String>,
    errors: Vec<ResourceError>,
}

/// Returns the type of a response's resources. `Err`: it is no response.
pub(crate) fn type_of(message: &[u8]) -> Result<String, String> {
    Ok(head_of(message)?.type_url)
}

fn head_of(message: &[u8]) -> Result<ResponseHead, String> {
    ResponseHead::decode(message).map_err(|error| format!("is not a response: {error}"))
}

impl<C: Content> Response<C> {
    /// Reads a response of this type. Resources that are not wanted are not decoded. `Err`: it is
    /// no response, so that it cannot even be rejected.
    pub(crate) fn read(
        message: Bytes,
        is_incremental: bool,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, String> {
        if let Some(refused) = refuse_large(&message)? {
            return Ok(refused);
        }
        let no_response = |error: prost::DecodeError| format!("is not a response: {error}");
        let parts = if is_incremental {
            DeltaDiscoveryResponse::decode(message).map(Parts::from)
        } else {
            DiscoveryResponse::decode(message).map(Parts::from)
        }
        .map_err(no_response)?;
        let versions = parts.resources.iter().map(|it| ("version", &it.version));
        let tokens = [("nonce", &parts.nonce), ("version", &parts.version)];
        for (what, token) in tokens.into_iter().chain(versions) {
            if token.len() > TOKEN_BYTES_MAX {
                return Err(format!(
                    "a {what} has {} bytes, expected at most {TOKEN_BYTES_MAX}",
                    token.len()
                ));
            }
        }
        let mut response = Self {
            nonce: parts.nonce,
            version: parts.version,
            resources: Vec::new(),
            removed: parts.removed,
            errors: Vec::new(),
            mistakes: Vec::new(),
            is_heartbeat: parts.resources.iter().any(|it| it.any.is_none()),
        };
        let mut seen = BTreeSet::new();
        for (index, resource) in parts.resources.into_iter().enumerate() {
            match Item::read(resource, &is_wanted) {
                Ok(None) => (),
                Ok(Some(mut item)) => {
                    if !seen.insert(item.name.clone()) {
                        item.content = Some(Err("is given twice".to_owned()));
                    }
                    response.resources.push(item);
                }
                Err(told) => response.mistakes.push(format!("resources[{index}] {told}")),
            }
        }
        let errors = parts.errors.into_iter();
        response.errors = errors
            .filter_map(|error| Some((error.resource_name?.name, error.error_detail?)))
            .map(|(name, status)| {
                let message = shown(&status.message);
                (name, format!("{message} (code {})", status.code))
            })
            .collect();
        Ok(response)
    }
}

/// Returns a rejected response if the message has too many entries.
fn refuse_large<C>(message: &[u8]) -> Result<Option<Response<C>>, String> {
    for (number, field) in [
        (2, "resources"),
        (6, "removed_resources"),
        (7, "resource_errors"),
        (9, "resource_errors"),
    ] {
        let count = wire::count(message, &[number]);
        let count = count.map_err(|error| error.to_string())?;
        if count > RESOURCES_MAX {
            return Ok(Some(Response {
                nonce: head_of(message)?.nonce,
                version: String::new(),
                resources: Vec::new(),
                removed: Vec::new(),
                errors: Vec::new(),
                mistakes: vec![format!(
                    "{field} has {count} entries, expected at most {RESOURCES_MAX}"
                )],
                is_heartbeat: false,
            }));
        }
    }
    Ok(None)
}

impl From<DiscoveryResponse> for Parts {
    fn from(response: DiscoveryResponse) -> Self {
        let resources = response.resources.into_iter();
        let wrapped = |any: Any| {
            let is_wrapper = any.type_url == WRAPPER_TYPE;
            let inner = is_wrapper
                .then(|| Resource::decode(any.value.clone()))
                .and_then(Result::ok);
            inner.unwrap_or(Resource {
                any: Some(any),
                ..Resource::default()
            })
        };
        Self {
            nonce: response.nonce,
            version: response.version_info,
            resources: resources.map(wrapped).collect(),
            removed: Vec::new(),
            errors: response.resource_errors,
        }
    }
}

impl From<DeltaDiscoveryResponse> for Parts {
    fn from(response: DeltaDiscoveryResponse) -> Self {
        Self {
            nonce: response.nonce,
            version: response.system_version_info,
            resources: response.resources,
            removed: response.removed_resources,
            errors: response.resource_errors,
        }
    }
}

impl<C: Content> Item<C> {
    /// The resource after the check of its owner, which may find a mistake.
    pub(crate) fn checked(self, check: PolicyCheck) -> Self {
        let checked = |content: C| match content.check(check) {
            Ok(()) => Ok(content),
            Err(mistake) => Err(mistake.to_string()),
        };
        Self {
            content: self.content.map(|read| read.and_then(checked)),
            ..self
        }
    }

    /// `None` if the resource is not wanted.
    fn read(resource: Resource, is_wanted: impl Fn(&str) -> bool) -> Result<Option<Self>, String> {
        let Resource {
            version,
            any,
            mut name,
            ttl,
        } = resource;
        let ttl = match ttl {
            None => None,
            Some(ttl) => Some(
                span(ttl)
                    .ok_or("has a ttl that is not a positive duration of at most 10,000 years")?,
            ),
        };
        let content = match any {
            None if name.is_empty() => return Err("has neither a name nor a resource".to_owned()),
            None => is_wanted(&name).then_some(None),
            Some(any) if any.type_url != C::TYPE => {
                let found: String = any.type_url.chars().take(200).collect();
                return Err(format!("has the type {found:?}, expected {:?}", C::TYPE));
            }
            Some(any) => {
                let inner = NameAlone::decode(any.value.clone());
                let inner = inner.map_err(|error| error.to_string())?.name;
                if name.is_empty() {
                    name.clone_from(&inner);
                }
                is_wanted(&name).then(|| {
                    Some(if inner == name {
                        C::read(any.value).map_err(|error| error.to_string())
                    } else {
                        let field = C::NAME_FIELD;
                        Err(format!("has the {field} {inner:?}, expected its name"))
                    })
                })
            }
        };
        Ok(content.map(|content| Self {
            name,
            version,
            ttl,
            content,
        }))
    }
}

fn span(duration: messages::Duration) -> Option<Duration> {
    let seconds = u64::try_from(duration.seconds).ok()?;
    if seconds > TTL_SECONDS_MAX {
        return None;
    }
    let nanos = u32::try_from(duration.nanos).ok()?;
    let span = Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanos.into()))?;
    (!span.is_zero()).then_some(span)
}
