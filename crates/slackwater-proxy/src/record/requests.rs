//! Records the properties of requests in the streams of the policies that picked for them.

use crate::request_record::{Consumer, Detail, Interest, RequestRecord};
use http::{HeaderName, HeaderValue};
use slackwater_http::Fields;
use slackwater_recording::Request;
use std::sync::Arc;

/// One worker's requests.
#[derive(Debug)]
pub(crate) struct Requests {
    fields: Arc<[HeaderName]>,
}

impl Requests {
    /// Makes a consumer that also records the values of these fields.
    pub(super) const fn new(fields: Arc<[HeaderName]>) -> Self {
        Self { fields }
    }
}

impl Consumer for Requests {
    /// Every request is recorded.
    fn wants(&self, _headers: &Fields) -> Option<Interest> {
        Some(Interest {
            detail: Detail::Summary,
            mark: 0,
        })
    }

    fn fields(&self) -> &[HeaderName] {
        &self.fields
    }

    /// A request without a pick is in no stream.
    fn over(&self, record: &RequestRecord, _mark: u8) {
        let stream = record.directory.as_ref();
        if let Some(stream) = stream.and_then(|directory| directory.recording())
            && let Some(picked_at) = record.first_picked
        {
            stream.request(picked_at, &request(record));
        }
    }
}

fn request(record: &RequestRecord) -> Request {
    let text = |value: &HeaderValue| {
        let bytes = value.as_bytes();
        let kept = bytes.get(..Request::TEXT_MAX).unwrap_or(bytes);
        String::from_utf8_lossy(kept).into_owned()
    };
    let values = record.values.iter().flatten();
    Request {
        method: record.method.as_str().to_owned(),
        status: record.status.map(|status| status.as_u16()),
        bytes_in: (record.upload.as_ref()).map_or(0, |upload| upload.bytes()),
        bytes_out: record.bytes_out,
        fields: values.map(|value| value.as_ref().map(text)).collect(),
    }
}
