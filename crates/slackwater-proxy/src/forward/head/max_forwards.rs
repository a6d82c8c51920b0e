//! `Max-Forwards`: the number of hops that TRACE and OPTIONS may still take. RFC 9110 §7.6.2

use super::refusal::{Refusal, bad_request, not_implemented};
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use slackwater_http::Request;

/// Decrements the hop count. At zero, the proxy answers the request as its final recipient. It does
/// not reflect a TRACE, because that would show a browser's scripts data that they must not see.
/// Other methods have no such count.
pub(super) fn count_down<B>(request: &mut Request<B>) -> Result<(), Refusal> {
    let is_trace = *request.method() == Method::TRACE;
    if !is_trace && *request.method() != Method::OPTIONS {
        return Ok(());
    }
    let value = {
        let mut values = request.headers().get_all(header::MAX_FORWARDS);
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(bad_request("more than one max-forwards field"));
        };
        value
    };
    let digits = value.to_str().unwrap_or_default();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let left = match digits.parse::<u64>() {
        Ok(left) if is_number => left,
        // The number is too large to be reached.
        Err(_) if is_number => return Ok(()),
        _ => return Err(bad_request("max-forwards is not a number")),
    };
    match left.checked_sub(1) {
        Some(left) => {
            let left = HeaderValue::from(left);
            request.headers_mut().insert(header::MAX_FORWARDS, left);
            Ok(())
        }
        None if is_trace => Err(not_implemented("TRACE is not answered here")),
        None => Err(Refusal {
            status: StatusCode::OK,
            reason: "max-forwards ends here; what the server behind offers is not known here",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(method: Method, value: &'static str) -> Result<String, u16> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        request.headers_mut().insert("max-forwards", value);
        count_down(&mut request).map_err(|refusal| refusal.status.as_u16())?;
        let left = request.headers().get("max-forwards").expect("one");
        Ok(left.to_str().expect("text").to_owned())
    }

    #[test]
    fn max_forwards_is_decremented_and_answered_at_zero() {
        for (method, last) in [(Method::OPTIONS, 200), (Method::TRACE, 501)] {
            assert_eq!(counted(method.clone(), "10"), Ok("9".to_owned()));
            assert_eq!(counted(method.clone(), "1"), Ok("0".to_owned()));
            assert_eq!(counted(method.clone(), "0"), Err(last));
            let huge = "99999999999999999999";
            assert_eq!(counted(method.clone(), huge), Ok(huge.to_owned()));
            for bad in ["", "+1", "-1", "1 ", "a"] {
                assert_eq!(counted(method.clone(), bad), Err(400), "{bad:?}");
            }
        }
    }

    #[test]
    fn max_forwards_is_ignored_for_other_methods() {
        assert_eq!(counted(Method::GET, "0"), Ok("0".to_owned()));
    }
}
