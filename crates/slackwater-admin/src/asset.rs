//! Files of the binary's own pages. They load nothing from elsewhere, and browsers revalidate their
//! copies.

use super::reply::{Reply, reply};
use data_encoding::HEXLOWER;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, REFERRER_POLICY};
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

/// Content security policy: only files from the same origin, and no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file that never changes while the process runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asset {
    /// The file's path.
    pub(super) path: &'static str,
    /// The file's content type.
    pub(super) content_type: &'static str,
    /// The file's text.
    pub(super) body: &'static str,
}

/// An asset with its entity tag.
#[derive(Clone, Debug)]
pub(super) struct Tagged {
    asset: Asset,
    tag: HeaderValue,
}

impl Tagged {
    pub(super) fn new(asset: Asset) -> Self {
        let digest = Sha256::digest(asset.body);
        let tag = format!("\"{}\"", HEXLOWER.encode(&digest[..8]));
        Self {
            asset,
            tag: HeaderValue::try_from(tag).unwrap_or_else(|_| HeaderValue::from_static("\"\"")),
        }
    }

    pub(super) const fn path(&self) -> &'static str {
        self.asset.path
    }

    /// Returns the file, or 304 if the browser's copy is current.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Reply {
        let known = headers.get_all(IF_NONE_MATCH).iter();
        let known = known.filter_map(|tags| tags.to_str().ok());
        let is_known = known
            .flat_map(|tags| tags.split(','))
            .map(|tag| tag.trim().trim_start_matches("W/"))
            .any(|tag| tag == "*" || self.tag == *tag);
        let mut reply = if is_known {
            reply(StatusCode::NOT_MODIFIED, self.asset.content_type, "")
        } else {
            reply(StatusCode::OK, self.asset.content_type, self.asset.body)
        };
        let headers = reply.headers_mut();
        headers.insert(ETAG, self.tag.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        reply
    }
}
