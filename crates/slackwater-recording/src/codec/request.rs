//! Records of requests as bytes. Texts that recur are written once.

use crate::bytes::{Bytes, Malformed, put_text, put_varint};
use crate::entry::Request;

/// Texts seen lately. The slot of a text follows from its bytes.
#[derive(Debug, Default)]
pub(super) struct Texts(Vec<Option<Box<str>>>);

/// Number of slots for texts.
const PLACES: usize = 256;

/// How a text is written: none, a new text that follows and is stored in its slot, or the text of a
/// slot. The slot's number is this number less [`text::KEPT`].
mod text {
    pub(super) const NONE: u64 = 0;
    pub(super) const NEW: u64 = 1;
    pub(super) const KEPT: u64 = 2;
}

impl Texts {
    fn place(text: &str) -> usize {
        // FNV-1a: texts are short, and a text whose slot another text has taken is only written
        // again.
        let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        hash as usize % PLACES
    }

    fn at(&self, place: usize) -> Option<&str> {
        self.0.get(place)?.as_deref()
    }

    fn keep(&mut self, place: usize, text: &str) {
        if self.0.is_empty() {
            self.0.resize(PLACES, None);
        }
        self.0[place] = Some(text.into());
    }

    fn put(&mut self, to: &mut Vec<u8>, said: Option<&str>) {
        let Some(said) = said else {
            return put_varint(to, text::NONE);
        };
        let said = &said[..said.floor_char_boundary(Request::TEXT_MAX)];
        let place = Self::place(said);
        if self.at(place) == Some(said) {
            return put_varint(to, text::KEPT + place as u64);
        }
        put_varint(to, text::NEW);
        put_text(to, said, Request::TEXT_MAX);
        self.keep(place, said);
    }

    fn take(&mut self, bytes: &mut Bytes<'_>) -> Result<Option<String>, Malformed> {
        match bytes.varint()? {
            text::NONE => Ok(None),
            text::NEW => {
                let said = bytes.text()?;
                if said.len() > Request::TEXT_MAX {
                    return Err(Malformed("a text of a request is too long"));
                }
                self.keep(Self::place(said), said);
                Ok(Some(said.to_owned()))
            }
            kept => {
                let place = usize::try_from(kept - text::KEPT).unwrap_or(usize::MAX);
                let said = self.at(place);
                let said = said.ok_or(Malformed("a request refers to a text that never was"))?;
                Ok(Some(said.to_owned()))
            }
        }
    }
}

pub(super) fn put_request(to: &mut Vec<u8>, texts: &mut Texts, request: &Request) {
    texts.put(to, Some(&request.method));
    put_varint(to, request.status.unwrap_or(0).into());
    put_varint(to, request.bytes_in);
    put_varint(to, request.bytes_out);
    let fields = request.fields.iter().take(Request::FIELDS_MAX);
    put_varint(to, fields.len() as u64);
    for field in fields {
        texts.put(to, field.as_deref());
    }
}

pub(super) fn request(bytes: &mut Bytes<'_>, texts: &mut Texts) -> Result<Request, Malformed> {
    let method = texts.take(bytes)?;
    let method = method.ok_or(Malformed("a request has no method"))?;
    let status: u16 = bytes.number()?;
    let (bytes_in, bytes_out) = (bytes.varint()?, bytes.varint()?);
    let count: usize = bytes.number()?;
    if count > Request::FIELDS_MAX {
        return Err(Malformed("a request has more fields than are recorded"));
    }
    let fields = (0..count).map(|_| texts.take(bytes));
    Ok(Request {
        method,
        status: (status > 0).then_some(status),
        bytes_in,
        bytes_out,
        fields: fields.collect::<Result<_, _>>()?,
    })
}
