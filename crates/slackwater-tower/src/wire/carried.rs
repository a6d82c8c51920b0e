//! The load that a response carries: RIF, capacity and cost, in one header.
//!
//! Every response pays for it, so it is cheap: one header to insert, send and remove, and a value
//! is encoded again only when a number changes. Its form is in `docs/reference/probe-protocol.md`.
//! Probes are answered with other headers.

use bytes::Bytes;
use core::cell::RefCell;
use core::fmt::Write;
use core::time::Duration;
use http::header::{HeaderName, HeaderValue};
use slackwater_core::{LoadReport, Rif};
use slackwater_http::FieldMap;
use std::sync::Arc;

/// RIF, capacity in thousandths of a request in flight, and cost in nanoseconds: `3;4500;2000`. The
/// last two are empty if not known.
pub const LOAD: HeaderName = HeaderName::from_static(NAME);
const NAME: &str = "x-slackwater-load";

/// The size of the cache of values. RIFs below it do not share a slot.
const KEPT: usize = 64;

/// The longest line: the name, two numbers of ten digits, and one of twenty.
const LINE_MOST: usize = NAME.len() + 2 + 10 + 1 + 10 + 1 + 20 + 2;

/// The numbers in a value. They are plain because they are compared for each response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CarriedLoad {
    pub(crate) rif: u32,
    pub(crate) capacity_millirif: Option<u32>,
    pub(crate) cost_ns: Option<u64>,
}

thread_local! {
    /// Capacity and cost change with a reading, some twenty times a second, and RIF is small and
    /// repeats. So most responses carry a value that was sent before, and copying it only adds a
    /// reference.
    static FIELDS: RefCell<[Option<CarriedField>; KEPT]> = const { RefCell::new([const { None }; KEPT]) };
}

/// The load that a response carries, in encoded form. For servers that write heads themselves:
/// putting a header into a map and finding it there costs more than writing it. Clones share it.
#[derive(Clone, Debug)]
pub struct CarriedField(Arc<Written>);

#[derive(Debug)]
struct Written {
    load: CarriedLoad,
    line: Bytes,
    /// A slice of `line`.
    value: HeaderValue,
}

impl CarriedField {
    /// Encodes RIF, capacity and cost of `report`. A cost beyond 2^64 − 1 ns is written as 2^64 −
    /// 1.
    pub fn new(report: &LoadReport) -> Self {
        Self::saying(CarriedLoad::of(report))
    }

    #[inline]
    pub(crate) fn saying(said: CarriedLoad) -> Self {
        said.with_field(Self::clone)
    }

    /// The value of [`LOAD`].
    pub fn value(&self) -> &HeaderValue {
        &self.0.value
    }

    /// The header as a line of an HTTP/1 head, with its line end.
    pub fn line(&self) -> &[u8] {
        &self.0.line
    }
}

impl CarriedLoad {
    fn of(report: &LoadReport) -> Self {
        let narrow = |cost: Duration| u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        Self {
            rif: report.rif.count(),
            capacity_millirif: report.capacity_millirif,
            cost_ns: report.cost.map(narrow),
        }
    }

    /// Rare, and therefore kept out of the code that every response runs.
    #[cold]
    #[inline(never)]
    fn write_to(self, place: &mut Option<CarriedField>) -> &CarriedField {
        place.insert(self.write())
    }

    #[cold]
    fn write(self) -> CarriedField {
        let mut line = String::with_capacity(LINE_MOST);
        line.push_str(NAME);
        line.push_str(": ");
        let begins = line.len();
        // Writing to a string does not fail.
        let _ = write!(line, "{};", self.rif);
        if let Some(capacity) = self.capacity_millirif {
            let _ = write!(line, "{capacity}");
        }
        line.push(';');
        if let Some(cost_ns) = self.cost_ns {
            let _ = write!(line, "{cost_ns}");
        }
        let ends = line.len();
        line.push_str("\r\n");
        let line = Bytes::from(line);
        // Digits and semicolons always make a header value.
        let value = HeaderValue::from_maybe_shared(line.slice(begins..ends))
            .unwrap_or_else(|_| HeaderValue::from_static(""));
        CarriedField(Arc::new(Written {
            load: self,
            line,
            value,
        }))
    }

    /// Passes the encoded field for these numbers to `show`.
    #[inline]
    fn with_field<T>(self, show: impl Fn(&CarriedField) -> T) -> T {
        let shown = FIELDS.try_with(|fields| {
            let mut fields = fields.try_borrow_mut().ok()?;
            match &mut fields[self.rif as usize % KEPT] {
                Some(field) if field.0.load == self => Some(show(field)),
                place => Some(show(self.write_to(place))),
            }
        });
        // A thread that is about to end has no cache.
        (shown.ok().flatten()).unwrap_or_else(|| show(&self.write()))
    }
}

/// Puts the header for `report`, as encoded by [`CarriedField`], into `headers`, replacing any that
/// is there.
pub fn write_carried_report(report: &LoadReport, headers: &mut impl FieldMap) {
    write_load(CarriedLoad::of(report), headers);
}

pub(crate) fn write_load(said: CarriedLoad, headers: &mut impl FieldMap) {
    headers.set(&LOAD, said.with_field(|field| field.value().clone()));
}

/// Removes the load header from a response's `headers`, so that it goes no further. Returns `None`
/// if there is none, and an error if it is invalid; it is removed all the same.
pub fn take_carried_report(headers: &mut impl FieldMap) -> Option<Result<LoadReport, BadLoad>> {
    let name = LOAD;
    let mut values = headers.all(&name);
    let read = read(values.next()?.as_bytes()).filter(|_| values.next().is_none());
    drop(values);
    headers.unset(&name);
    Some(read.ok_or(BadLoad))
}

fn read(text: &[u8]) -> Option<LoadReport> {
    let mut fields = text.split(|byte| *byte == b';');
    let rif = u32::try_from(number(fields.next()?)??).ok()?;
    let capacity = number(fields.next()?)?.map(u32::try_from);
    let cost_ns = number(fields.next()?)?;
    // Further fields are ignored, for later versions.
    let mut report = LoadReport::new(Rif::new(rif), None);
    report.capacity_millirif = capacity.transpose().ok()?;
    report.cost = cost_ns.map(Duration::from_nanos);
    Some(report)
}

/// Reads a plain number, or an empty text as absent. Returns `None` for anything else.
#[expect(clippy::option_option, reason = "absent is not wrong")]
fn number(text: &[u8]) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    super::headers::parse(text).map(Some)
}

/// The header `x-slackwater-load` is invalid, or occurs more than once, as if from two replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the header {LOAD} is not one of three numbers between semicolons, the first of them at most {}, the second too, the \
     third at most {}; only the first has to be there",
    u32::MAX,
    u64::MAX
)]
pub struct BadLoad;

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    fn report(rif: u32, capacity_millirif: Option<u32>, cost_ns: Option<u64>) -> LoadReport {
        let mut report = LoadReport::new(Rif::new(rif), None);
        report.capacity_millirif = capacity_millirif;
        report.cost = cost_ns.map(Duration::from_nanos);
        report
    }

    fn written(report: &LoadReport) -> HeaderValue {
        let mut headers = HeaderMap::new();
        write_carried_report(report, &mut headers);
        headers.remove(LOAD).expect("it was written")
    }

    #[test]
    fn unchanged_value_is_encoded_once() {
        let first = written(&report(3, Some(4_500), Some(2_000)));
        let second = written(&report(3, Some(4_500), Some(2_000)));
        assert_eq!(first.as_bytes().as_ptr(), second.as_bytes().as_ptr());
        let field = CarriedField::new(&report(3, Some(4_500), Some(2_000)));
        assert_eq!(first.as_bytes().as_ptr(), field.value().as_bytes().as_ptr());
        // Each of these replaces the one before in its slot.
        for (other, text) in [
            (report(3, Some(4_501), Some(2_000)), "3;4501;2000"),
            (report(3, Some(4_501), Some(2_001)), "3;4501;2001"),
            (report(67, Some(4_501), Some(2_001)), "67;4501;2001"),
            (report(3, None, Some(2_001)), "3;;2001"),
            (report(3, None, None), "3;;"),
            (report(3, Some(0), Some(0)), "3;0;0"),
        ] {
            assert_eq!(written(&other), text);
        }
        assert_eq!(first, "3;4500;2000");
    }

    #[test]
    fn carried_report_is_removed_and_valid_only_if_single() {
        let carried = report(3, Some(4_500), Some(2_000));
        let mut headers = HeaderMap::new();
        headers.insert("date", HeaderValue::from_static("today"));
        assert_eq!(take_carried_report(&mut headers), None);
        headers.append(LOAD, HeaderValue::from_static("1;;"));
        headers.append(LOAD, HeaderValue::from_static("2;;"));
        let twice = take_carried_report(&mut headers.clone());
        assert_eq!(twice, Some(Err(BadLoad)));
        write_carried_report(&carried, &mut headers);
        assert_eq!(headers.len(), 2, "an earlier report is replaced");
        assert_eq!(take_carried_report(&mut headers), Some(Ok(carried)));
        assert_eq!(headers.len(), 1, "the date is not of it");
        headers.insert(LOAD, HeaderValue::from_static("many"));
        assert_eq!(take_carried_report(&mut headers), Some(Err(BadLoad)));
        assert_eq!(headers.len(), 1, "what cannot be read is taken out, too");
    }

    #[test]
    fn largest_numbers_are_read_and_larger_ones_rejected() {
        let most = report(u32::MAX, Some(u32::MAX), Some(u64::MAX));
        let text = written(&most);
        assert_eq!(text, "4294967295;4294967295;18446744073709551615");
        let line = b"x-slackwater-load: 4294967295;4294967295;18446744073709551615\r\n";
        assert_eq!(CarriedField::new(&most).line(), line);
        assert_eq!(LINE_MOST, line.len());
        assert_eq!(read(text.as_bytes()), Some(most));
        let mut longer = report(0, None, None);
        longer.cost = Some(Duration::MAX);
        assert_eq!(written(&longer), "0;;18446744073709551615");
        for bad in [
            "",
            "3",
            "3;",
            "3;4",
            ";;",
            ";4;5",
            "-1;;",
            "+1;;",
            " 1;;",
            "1;2.5;",
            "1;;2e3",
            "1, 2, 3",
            "4294967296;;",
            "1;4294967296;",
            "1;;18446744073709551616",
        ] {
            assert_eq!(read(bad.as_bytes()), None, "{bad:?}");
        }
        let later = read(b"1;2;3;4;five");
        assert_eq!(
            later,
            Some(report(1, Some(2), Some(3))),
            "for later versions"
        );
    }
}
