//! Heads and trailers: decoding a header block to a message, and encoding it. RFC 9113 §8.1–8.3
//!
//! A connection has one [`Decoder`] for received blocks and one [`Encoder`] for sent blocks. Every
//! block must pass through them in order, since a block may refer to fields of earlier ones.
//! [`Connection`](super::Connection) does all of this itself.
//!
//! Decoding is strict: anything that an HTTP/1.1 replica could read in another way is refused here.
//! Whether a target exists is not checked (see `forward/target`), only whether its form is valid.

use super::hpack::{Broken, Fault, Field, Kind};
use crate::content_length;
use crate::fields::{FieldMap, Fields};
use bytes::BytesMut;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{self, Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode, Uri};
use std::borrow::Cow;

pub use super::hpack::{Decoder, Encoder};
pub use crate::HeadLimits;

/// A head of more than this many times the allowed size counts as an attack.
const ABUSE_FACTOR: usize = 4;

/// The head of a request.
#[derive(Debug)]
pub struct RequestHead {
    /// `:method`.
    pub method: Method,
    /// The target. It has no scheme if no `:authority` was sent, because there is no such URI.
    pub uri: Uri,
    /// All fields except pseudo-header fields.
    pub headers: Fields,
    /// The value of `content-length`.
    pub length: Option<u64>,
    /// Octets of all names and values, plus 32 for each field, as in [`HeadLimits`].
    pub bytes: usize,
}

/// The head of a response, final or not.
#[derive(Debug)]
pub struct ResponseHead {
    /// `:status`.
    pub status: StatusCode,
    /// All fields except pseudo-header fields.
    pub headers: Fields,
    /// The value of `content-length`. After HEAD, or with 304, no body follows even so.
    pub length: Option<u64>,
}

/// Why a block is not a valid head. Texts are for people: lower-case, no trailing stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// The block's fields cannot be determined, so no later block can be read. The connection ends
    /// with `COMPRESSION_ERROR`.
    #[error("{0}")]
    Compression(&'static str),
    /// It contains octets that no field has, and that are not sent by mistake. The table is in
    /// step.
    #[error("{0}")]
    Octets(&'static str),
    /// It is malformed. Its stream ends with `PROTOCOL_ERROR`. The table is in step.
    #[error("{0}")]
    Malformed(&'static str),
    /// It is a request that is answered with 431. The table is in step.
    #[error("the head is too large")]
    TooLarge,
    /// It is so large that the rest was not read. The connection ends with `ENHANCE_YOUR_CALM`.
    #[error("the head is far too large")]
    FarTooLarge,
}

impl From<Broken> for BadHead {
    fn from(Broken(reason): Broken) -> Self {
        Self::Compression(reason)
    }
}

/// Decodes the head of a request. `headers` is empty; it may have capacity from an earlier head.
pub fn decode_request(
    decoder: &mut Decoder,
    block: &[u8],
    limits: HeadLimits,
    headers: Fields,
) -> Result<RequestHead, BadHead> {
    let gathered = Gathered::from_block(decoder, block, limits, headers)?;
    if gathered.status.is_some() {
        return Err(BadHead::Malformed("a request has no :status"));
    }
    let method = (gathered.method).ok_or(BadHead::Malformed("the request has no :method"))?;
    let mut parts = uri::Parts::default();
    if method == Method::CONNECT {
        if gathered.scheme.is_some() || gathered.path.is_some() {
            return Err(BadHead::Malformed("CONNECT has neither :scheme nor :path"));
        }
        if gathered.authority.is_none() {
            return Err(BadHead::Malformed("CONNECT names no host"));
        }
    } else {
        let scheme = (gathered.scheme).ok_or(BadHead::Malformed("the request has no :scheme"))?;
        let path = (gathered.path).ok_or(BadHead::Malformed("the request has no :path"))?;
        parts.scheme = gathered.authority.is_some().then_some(scheme);
        parts.path_and_query = Some(path);
    }
    parts.authority = gathered.authority;
    let uri = Uri::from_parts(parts).map_err(|_| BadHead::Malformed("the target is not valid"))?;
    let mut headers = gathered.headers;
    // Many streams may be open for a long time.
    headers.shrink_long();
    Ok(RequestHead {
        method,
        uri,
        headers,
        length: gathered.length,
        bytes: gathered.size,
    })
}

/// Decodes the head of a response. `headers` is empty; it may have capacity from an earlier head.
pub fn decode_response(
    decoder: &mut Decoder,
    block: &[u8],
    limits: HeadLimits,
    headers: Fields,
) -> Result<ResponseHead, BadHead> {
    let gathered = Gathered::from_block(decoder, block, limits, headers)?;
    if gathered.has_request_part() {
        return Err(BadHead::Malformed("a response has a part of a request"));
    }
    let status = (gathered.status).ok_or(BadHead::Malformed("the response has no :status"))?;
    Ok(ResponseHead {
        status,
        headers: gathered.headers,
        length: gathered.length,
    })
}

/// Decodes trailers.
pub fn decode_trailers(
    decoder: &mut Decoder,
    block: &[u8],
    limits: HeadLimits,
) -> Result<HeaderMap, BadHead> {
    let gathered = Gathered::from_block(decoder, block, limits, HeaderMap::new())?;
    if gathered.status.is_some() || gathered.has_request_part() {
        return Err(BadHead::Malformed("trailers have a pseudo-header field"));
    }
    Ok(gathered.headers)
}

/// Decodes a block that is no longer needed, because later ones may depend on it.
pub fn skip_block(decoder: &mut Decoder, block: &[u8], limits: HeadLimits) -> Result<(), BadHead> {
    let mut size = 0;
    decoder.decode(block, |_, field_size| {
        size += field_size;
        check_abuse(size, limits)
    })
}

fn check_abuse(size: usize, limits: HeadLimits) -> Result<(), BadHead> {
    if size > limits.bytes_max.saturating_mul(ABUSE_FACTOR) {
        return Err(BadHead::FarTooLarge);
    }
    Ok(())
}

/// The combined fields of a block.
#[derive(Debug, Default)]
struct Gathered<F> {
    method: Option<Method>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    path: Option<PathAndQuery>,
    status: Option<StatusCode>,
    headers: F,
    length: Option<u64>,
    /// The size of the fields.
    size: usize,
    /// The number of fields without pseudo-header fields.
    count: usize,
    /// The most severe fault.
    fault: Option<Fault>,
}

impl<F: FieldMap + Default> Gathered<F> {
    /// `headers` is empty.
    fn from_block(
        decoder: &mut Decoder,
        block: &[u8],
        limits: HeadLimits,
        headers: F,
    ) -> Result<Self, BadHead> {
        let mut gathered = Self {
            headers,
            ..Self::default()
        };
        decoder.decode(block, |field, size| gathered.take(field, size, limits))?;
        match gathered.fault {
            None => Ok(gathered),
            Some(Fault::Octets(reason)) => Err(BadHead::Octets(reason)),
            Some(Fault::Malformed(reason)) => Err(BadHead::Malformed(reason)),
            Some(Fault::TooLong) => Err(BadHead::TooLarge),
        }
    }

    fn take(
        &mut self,
        field: Cow<'_, Field>,
        size: usize,
        limits: HeadLimits,
    ) -> Result<(), BadHead> {
        self.size += size;
        if self.size > limits.bytes_max {
            check_abuse(self.size, limits)?;
            self.note(Fault::TooLong);
        }
        // Fields of the table are borrowed: only the parts that are needed are cloned.
        match field {
            Cow::Borrowed(Field::Header(name, value)) => {
                self.append(name, value, limits.fields_max);
            }
            Cow::Owned(Field::Header(name, value)) => {
                self.append(&name, &value, limits.fields_max);
            }
            part => match part.into_owned() {
                Field::Method(method) => self.pseudo(|head| &mut head.method, method),
                Field::Scheme(scheme) => self.pseudo(|head| &mut head.scheme, scheme),
                Field::Authority(host) => self.pseudo(|head| &mut head.authority, host),
                Field::Path(path) => self.pseudo(|head| &mut head.path, path),
                Field::Status(status) => self.pseudo(|head| &mut head.status, status),
                Field::Bad(_, fault) => self.note(fault),
                Field::Header(..) => (),
            },
        }
        Ok(())
    }

    fn pseudo<T>(&mut self, place: impl Fn(&mut Self) -> &mut Option<T>, part: T) {
        if self.count > 0 {
            self.note(Fault::Malformed(
                "a pseudo-header field stands behind another field",
            ));
        }
        if place(self).replace(part).is_some() {
            self.note(Fault::Malformed("a pseudo-header field comes twice"));
        }
    }

    fn append(&mut self, name: &HeaderName, value: &HeaderValue, fields_max: usize) {
        if self.admits(name, value, fields_max) && !self.headers.add(name, value) {
            self.note(Fault::TooLong);
        }
    }

    /// Checks a field. Returns whether it goes into the head.
    fn admits(&mut self, name: &HeaderName, value: &HeaderValue, fields_max: usize) -> bool {
        self.count += 1;
        if *name == header::CONTENT_LENGTH {
            match content_length::parse(value.as_bytes()) {
                Some(length) if self.length.is_none() => self.length = Some(length),
                Some(_) => self.note(Fault::Malformed("more than one content-length")),
                None => self.note(Fault::Malformed("the content-length is not a number")),
            }
        }
        if self.count > fields_max {
            self.note(Fault::TooLong);
        }
        self.fault.is_none()
    }

    fn note(&mut self, fault: Fault) {
        let is_worse = match self.fault {
            None | Some(Fault::TooLong) => true,
            Some(Fault::Malformed(_)) => matches!(fault, Fault::Octets(_)),
            Some(Fault::Octets(_)) => false,
        };
        if is_worse {
            self.fault = Some(fault);
        }
    }

    const fn has_request_part(&self) -> bool {
        self.method.is_some()
            || self.scheme.is_some()
            || self.authority.is_some()
            || self.path.is_some()
    }
}

/// Appends the head of a request to `out`.
pub fn encode_request(
    encoder: &mut Encoder,
    out: &mut BytesMut,
    method: &Method,
    (scheme, uri): (&Scheme, &Uri),
    headers: &Fields,
) {
    encoder.encode(Kind::Head, out, |block| {
        block.method(method);
        if *method != Method::CONNECT {
            block.scheme(scheme);
        }
        if let Some(authority) = uri.authority() {
            block.authority(authority.as_str());
        }
        if *method != Method::CONNECT {
            match uri.path_and_query().map_or("", PathAndQuery::as_str) {
                "" if *method == Method::OPTIONS => block.path("*"),
                "" => block.path("/"),
                query if query.starts_with('?') => block.path(&format!("/{query}")),
                path => block.path(path),
            }
        }
        block.headers(headers);
    });
}

/// Appends the head of a response, final or not, to `out`.
pub fn encode_response(
    encoder: &mut Encoder,
    out: &mut BytesMut,
    status: StatusCode,
    headers: &Fields,
) {
    encoder.encode(Kind::Head, out, |block| {
        block.status(status);
        block.headers(headers);
    });
}

/// Appends trailers to `out`.
pub fn encode_trailers(encoder: &mut Encoder, out: &mut BytesMut, trailers: &HeaderMap) {
    encoder.encode(Kind::Trailers, out, |block| block.headers(trailers));
}

#[cfg(test)]
mod tests;
