//! What the probes for a request carry: the key `probe.hint`.

use crate::table::Written;
use crate::toml_reader::values::Unfit;
use core::fmt;
use http::HeaderName;

/// What the probes for a request carry, so that replicas that have its data at hand report less
/// load. `[S3]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProbeHint {
    /// Nothing.
    #[default]
    None,
    /// The hash of the request's key: 8 bytes.
    Key,
    /// The value of a header, if it has at most 256 bytes.
    Header(HeaderName),
}

impl fmt::Display for ProbeHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Key => f.write_str("key"),
            Self::Header(name) => write!(f, "header:{name}"),
        }
    }
}

const HINT_EXPECTED: &str = "\"none\", \"key\" or \"header:NAME\"";

/// The hint of probes.
pub(super) const HINT: Written<ProbeHint> = Written {
    what: HINT_EXPECTED,
    expected: HINT_EXPECTED,
    parse: |text| match text {
        "none" => Ok(ProbeHint::None),
        "key" => Ok(ProbeHint::Key),
        _ => {
            let name = text.strip_prefix("header:").ok_or(Unfit::Range)?;
            let name = HeaderName::try_from(name).map_err(|_| Unfit::Range)?;
            Ok(ProbeHint::Header(name))
        }
    },
    text: ProbeHint::to_string,
};
