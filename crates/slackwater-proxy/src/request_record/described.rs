//! Values of the fields that every record has.

use core::ops::Range;
use slackwater_http::Fields;

/// Longer texts are not kept for another record.
const KEPT_BYTES_MAX: usize = 1 << 10;

/// The first value of each of these fields, copied into one text.
#[derive(Debug, Default)]
pub(crate) struct Described {
    text: Vec<u8>,
    host: Option<Range<usize>>,
    referer: Option<Range<usize>>,
    user_agent: Option<Range<usize>>,
}

impl Described {
    /// Copies the values, in place of those of an earlier record.
    pub(super) fn read(&mut self, headers: &Fields) {
        let mut text = core::mem::take(&mut self.text);
        text.clear();
        *self = Self::default();
        for (name, value) in headers.iter() {
            let place = match name {
                b"host" => &mut self.host,
                b"referer" => &mut self.referer,
                b"user-agent" => &mut self.user_agent,
                _ => continue,
            };
            if place.is_none() {
                let start = text.len();
                text.extend_from_slice(value.as_bytes());
                *place = Some(start..text.len());
            }
        }
        self.text = text;
    }

    fn at(&self, place: Option<&Range<usize>>) -> Option<&[u8]> {
        self.text.get(place?.clone())
    }

    pub(super) fn host(&self) -> Option<&[u8]> {
        self.at(self.host.as_ref())
    }

    pub(crate) fn referer(&self) -> Option<&[u8]> {
        self.at(self.referer.as_ref())
    }

    pub(crate) fn user_agent(&self) -> Option<&[u8]> {
        self.at(self.user_agent.as_ref())
    }

    /// Returns its memory for another record, unless that is much.
    pub(super) fn without_long_text(self) -> Self {
        match self.text.capacity() {
            0..=KEPT_BYTES_MAX => self,
            _ => Self::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_values_are_copied_and_those_of_an_earlier_record_are_gone() {
        let mut described = Described::default();
        described.read(&Fields::from_iter([
            ("user-agent", "a browser"),
            ("host", "x.example"),
            ("host", "y.example"),
            ("cookie", "secret"),
            ("referer", ""),
        ]));
        assert_eq!(described.host(), Some(&b"x.example"[..]));
        assert_eq!(described.user_agent(), Some(&b"a browser"[..]));
        assert_eq!(described.referer(), Some(&b""[..]));
        described.read(&Fields::from_iter([("referer", "z")]));
        assert_eq!(described.referer(), Some(&b"z"[..]));
        assert_eq!((described.host(), described.user_agent()), (None, None));
        let described = described.without_long_text();
        assert_eq!(described.referer(), Some(&b"z"[..]));
        let long = http::HeaderValue::from_bytes(&[b'x'; KEPT_BYTES_MAX + 1]).expect("a value");
        let mut described = described;
        described.read(&Fields::from_iter([("host", long)]));
        assert_eq!(described.without_long_text().text.capacity(), 0);
    }
}
