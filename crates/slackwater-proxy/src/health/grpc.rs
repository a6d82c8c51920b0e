//! The gRPC health checking protocol, version 1 (`grpc.health.v1.Health/Check`), as far as a client
//! needs it.
//!
//! A message on the wire is a byte for compression, the length in four bytes, and the message.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

/// Path of the method.
pub(super) const PATH: &str = "/grpc.health.v1.Health/Check";

/// Maximum size of an answer, which has only a few bytes.
pub(super) const ANSWER_BYTES_MAX: usize = 1024;

const PREFIX_BYTES: usize = 5;
const SERVING: i32 = 1;

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, Eq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`, with its enum as a number.
#[derive(Clone, PartialEq, Eq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// Encodes the request for `service`; an empty name stands for the whole server.
pub(super) fn question(service: &str) -> Bytes {
    let message = HealthCheckRequest {
        service: service.to_owned(),
    };
    framed(&message.encode_to_vec())
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// Checks that the status in an answer is SERVING. The error states the other status.
pub(super) fn read_answer(answer: &[u8]) -> Result<(), String> {
    let message = match answer.split_at_checked(PREFIX_BYTES) {
        Some(([0, length @ ..], message)) if is_length(length, message.len()) => message,
        Some(([1, ..], _)) => return Err("the answer is compressed".to_owned()),
        _ => return Err("the answer is not a gRPC message".to_owned()),
    };
    let status = match HealthCheckResponse::decode(message) {
        Ok(response) => response.status,
        Err(error) => return Err(format!("the answer is not a health status: {error}")),
    };
    match status {
        SERVING => Ok(()),
        0 => Err("its health status is UNKNOWN".to_owned()),
        2 => Err("its health status is NOT_SERVING".to_owned()),
        3 => Err("its health status is SERVICE_UNKNOWN".to_owned()),
        other => Err(format!("{other} is not a health status")),
    }
}

fn is_length(length: &[u8], bytes: usize) -> bool {
    u32::try_from(bytes).is_ok_and(|bytes| bytes.to_be_bytes() == length)
}

/// Describes a `grpc-status` other than OK.
pub(super) fn status_name(status: &str) -> Option<String> {
    match status {
        "0" => None,
        "5" => Some("the service is unknown (NOT_FOUND)".to_owned()),
        "12" => Some("the health protocol is not supported (UNIMPLEMENTED)".to_owned()),
        other => Some(format!("grpc-status {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_encoded_as_the_protocol_requires() {
        assert_eq!(&question("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(&question("ab")[..], b"\0\0\0\0\x04\x0a\x02ab");
    }

    #[test]
    fn only_serving_passes_the_grpc_check() {
        assert_eq!(read_answer(b"\0\0\0\0\x02\x08\x01"), Ok(()));
        for (answer, says) in [
            (&b"\0\0\0\0\x00"[..], "UNKNOWN"),
            (b"\0\0\0\0\x02\x08\x02", "NOT_SERVING"),
            (b"\0\0\0\0\x02\x08\x03", "SERVICE_UNKNOWN"),
            (b"\0\0\0\0\x02\x08\x09", "9"),
            (b"\x01\0\0\0\x02\x08\x01", "compressed"),
            (b"\0\0\0\0\x03\x08\x01", "not a gRPC message"),
            (b"\0\0\0\0\x02\x08\x01\x00", "not a gRPC message"),
            (b"", "not a gRPC message"),
            (b"\0\0\0\0\x02\xff\xff", "not a health status"),
        ] {
            let why = read_answer(answer).expect_err("not serving");
            assert!(why.contains(says), "{why}");
        }
    }

    #[test]
    fn grpc_statuses_are_described() {
        assert_eq!(status_name("0"), None);
        assert!(status_name("12").is_some_and(|told| told.contains("UNIMPLEMENTED")));
        assert_eq!(status_name("14").as_deref(), Some("grpc-status 14"));
    }
}
