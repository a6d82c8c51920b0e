//! Parses the values on the command line: addresses, durations, counts, headers.
//!
//! Each mistake is a [`Fault::usage`] that names the argument, its value and what is accepted.

use super::LATENCY_MAX;
use core::num::NonZeroUsize;
use core::time::Duration;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use slackwater_config::Fault;

const SECONDS_MAX: f64 = 604_800.0;

/// An address to which a request can be sent.
pub(super) fn url(text: &str) -> Result<Uri, Fault> {
    let fault = |why: &str| Fault::usage(format!("URL {text:?}: {why}"));
    let url: Uri = text.parse().map_err(|error| fault(&format!("{error}")))?;
    match url.scheme_str() {
        Some("http" | "https") => {}
        Some(scheme) => {
            return Err(fault(&format!("the scheme {scheme} is not http or https")));
        }
        None => return Err(fault("must begin with http:// or https://")),
    }
    let authority = url.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err(fault(
            "user and password are not supported here; use --header 'authorization: ...'",
        ));
    }
    if url.host().is_none_or(str::is_empty) {
        return Err(fault("has no host"));
    }
    // `http` treats a port that is too large as no port at all.
    let bare_host = authority.len() == url.host().map_or(0, str::len);
    if !bare_host && url.port_u16().is_none_or(|port| port == 0) {
        return Err(fault("the port must be a number from 1 to 65535"));
    }
    Ok(url)
}

/// A duration for the option `name`; 0 is allowed.
pub(super) fn seconds(name: &str, value: f64) -> Result<Duration, Fault> {
    let duration = Duration::try_from_secs_f64(value).ok();
    duration.filter(|_| value <= SECONDS_MAX).ok_or_else(|| {
        Fault::usage(format!(
            "{name} {value}: must be from 0 to {SECONDS_MAX} seconds"
        ))
    })
}

/// A count from 1 to `max` for the option `name`.
pub(super) fn count(name: &str, value: usize, max: usize) -> Result<NonZeroUsize, Fault> {
    NonZeroUsize::new(value)
        .filter(|_| value <= max)
        .ok_or_else(|| Fault::usage(format!("{name} {value}: must be from 1 to {max}")))
}

/// A number with a unit: `ms`, `s`, `m` or `h`; a bare number is seconds.
pub(super) fn timeout(text: &str) -> Result<Duration, Fault> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds_per_unit = match unit.trim() {
        "ms" => Some(1e-3),
        "s" | "" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3_600.0),
        _ => None,
    };
    let number: Option<f64> = number.trim().parse().ok();
    number
        .zip(seconds_per_unit)
        .and_then(|(number, unit)| Duration::try_from_secs_f64(number * unit).ok())
        .filter(|timeout| !timeout.is_zero() && *timeout <= LATENCY_MAX)
        .ok_or_else(|| {
            Fault::usage(format!(
                "--timeout {text:?}: must be a time above 0 and at most 1h, such as 250ms or 5s"
            ))
        })
}

/// Header lines, `NAME: VALUE` each.
pub(super) fn headers(lines: &[String]) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let fault = |why: &str| Fault::usage(format!("--header {line:?}: {why}"));
        let Some((name, value)) = line.split_once(':') else {
            return Err(fault("must be NAME: VALUE"));
        };
        let name: HeaderName = name
            .trim()
            .parse()
            .map_err(|_| fault("the name is not a valid header name"))?;
        if name == CONTENT_LENGTH || name == TRANSFER_ENCODING {
            return Err(fault("set by the generator from the body; leave it out"));
        }
        let value = HeaderValue::from_str(value.trim())
            .map_err(|_| fault("the value has characters that a header cannot hold"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_with_their_units() {
        for (text, ms) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("2", 2_000),
            ("1.5m", 90_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(timeout(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
    }

    #[test]
    fn headers_are_trimmed_and_may_repeat() {
        let read = headers(&["a: b:c ".into(), "a:d".into()]).unwrap();
        let values: Vec<_> = read.get_all("a").iter().collect();
        assert_eq!(values, ["b:c", "d"]);
    }
}
