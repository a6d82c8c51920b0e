//! What the types of resources have in common: how one is read, and why one cannot be used.

use crate::policy_config::PolicyCheck;
use bytes::Bytes;

/// The longest part of the control plane's own message that is shown, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// The longest name or value that is shown within a sentence, in characters.
const BRIEF_CHARS_MAX: usize = 64;

/// A type of resources.
pub(crate) trait Content: Sized {
    /// Its type URL.
    const TYPE: &'static str;
    /// What the log calls one resource.
    const NOUN: &'static str;
    /// The field with a resource's name.
    const NAME_FIELD: &'static str;
    /// Whether a response of the state of the world has all resources that exist, so that it
    /// removes those that it leaves out.
    const IS_WHOLE: bool;

    /// Reads an encoded resource.
    fn read(bytes: Bytes) -> Result<Self, BadResource>;

    /// Checks what only the client's owner can: the configuration of a policy.
    fn check(&self, check: PolicyCheck) -> Result<(), BadResource>;
}

/// Why a resource cannot be used: the field, and what is wrong about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadResource(String);

impl BadResource {
    pub(crate) fn new(field: &str, message: impl core::fmt::Display) -> Self {
        Self(format!("{field} {message}"))
    }

    /// A mistake of the resource as a whole.
    pub(crate) fn whole(error: &dyn core::fmt::Display) -> Self {
        Self(error.to_string())
    }

    /// The mistake of an assignment in this field of another resource.
    pub(crate) fn within(self, field: &str) -> Self {
        Self(format!("{field}: {}", self.0))
    }
}

/// The part of the control plane's own message that is shown: one line of bounded length.
pub fn shown(message: &str) -> String {
    let line = message.chars().filter(|it| !it.is_control());
    line.take(MESSAGE_CHARS_MAX).collect()
}

/// A name or a value of the control plane's within a sentence: one line, cut if it is long.
pub fn brief(text: &str) -> String {
    let mut chars = text.chars().filter(|it| !it.is_control());
    let mut shown: String = chars.by_ref().take(BRIEF_CHARS_MAX).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}
