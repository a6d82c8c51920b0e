//! A trace as an HDR histogram log: intervals with compressed histograms (format V2), as HdrHistogram's log writers of
//! many languages make them. All intervals are taken together.

use super::{Unit, VALUE_EXPECTED};
use crate::toml_reader::{Mistake, Source};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use core::time::Duration;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogHistogram, IntervalLogIterator, LogEntry, LogIteratorError,
};
use std::collections::BTreeMap;
use std::io::Read;

/// How every histogram of this format begins in base 64.
const MARK: &str = "HISTF";
/// The most values that a log is turned into; more are thinned out evenly by rank.
const SAMPLES_MAX: u64 = 100_000;
/// The most bytes that one histogram may unpack to.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;
/// Cookie and length, before what is compressed; before what is counted, in the unpacked form, another 32 bytes.
const HEAD_BYTES: usize = 8;
const UNPACKED_HEAD_BYTES: usize = 40;

/// Whether the text is such a log.
pub(super) fn is_one(text: &str) -> bool {
    text.contains(MARK)
}

/// The values of all intervals, each as often as it was counted; of very many, a sample evenly spaced by rank.
pub(super) fn read(source: &Source, unit: Unit) -> Result<Vec<Duration>, Mistake> {
    let text = source.text();
    let mistake = |at: usize, message: String| {
        let line = text.get(at..).unwrap_or_default().lines().next();
        Mistake {
            place: source.place(at..at + line.unwrap_or_default().len()),
            field: "histogram".to_owned(),
            message,
        }
    };
    let mut counts = BTreeMap::<u64, u64>::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        match entry {
            Ok(LogEntry::Interval(interval)) => {
                let at = offset(text, interval.encoded_histogram());
                let histogram = unpack(&interval).map_err(|why| mistake(at, why))?;
                for value in histogram.iter_recorded() {
                    let value_count = counts.entry(value.value_iterated_to()).or_default();
                    *value_count = value_count.saturating_add(value.count_since_last_iteration());
                }
                if unit.duration(interval_max(&histogram)).is_none() {
                    return Err(mistake(
                        at,
                        format!("found {}, expected {VALUE_EXPECTED}", histogram.max()),
                    ));
                }
            }
            Ok(LogEntry::StartTime(_) | LogEntry::BaseTime(_)) => {}
            Err(LogIteratorError::ParseError { offset }) => {
                return Err(mistake(
                    offset,
                    "is no line of an HDR log, expected \"start,length,max,histogram\"".to_owned(),
                ));
            }
        }
    }
    Ok(spread(&counts)
        .into_iter()
        .filter_map(|value| unit.duration(value as f64))
        .collect())
}

fn interval_max(histogram: &Histogram<u64>) -> f64 {
    histogram.max() as f64
}

/// Where `part`, a piece of `text`, begins in it.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// Decodes one interval's histogram. What it unpacks to is bounded before it is decoded, since the lengths that it says
/// of itself are anybody's.
fn unpack(interval: &IntervalLogHistogram<'_>) -> Result<Histogram<u64>, String> {
    let packed = STANDARD
        .decode(interval.encoded_histogram())
        .map_err(|error| format!("is not base 64: {error}"))?;
    let compressed = packed.get(HEAD_BYTES..).ok_or("is cut off")?;
    let mut unpacked = Vec::new();
    ZlibDecoder::new(compressed)
        .take(UNPACKED_BYTES_MAX + 1)
        .read_to_end(&mut unpacked)
        .map_err(|error| format!("cannot be unpacked: {error}"))?;
    if unpacked.len() as u64 > UNPACKED_BYTES_MAX {
        return Err("unpacks to more than 64 MiB".to_owned());
    }
    let counted = unpacked.len().saturating_sub(UNPACKED_HEAD_BYTES);
    let said = unpacked.get(4..8).and_then(|bytes| bytes.try_into().ok());
    if said
        .map(u32::from_be_bytes)
        .is_none_or(|said| said as usize > counted)
    {
        return Err("is cut off".to_owned());
    }
    Deserializer::new()
        .deserialize(&mut unpacked.as_slice())
        .map_err(|error| format!("is no histogram of format V2: {error}"))
}

/// Values by rank, evenly, at most [`SAMPLES_MAX`].
fn spread(counts: &BTreeMap<u64, u64>) -> Vec<u64> {
    let total: u128 = counts.values().copied().map(u128::from).sum();
    let samples = total.min(u128::from(SAMPLES_MAX));
    let mut spread = Vec::new();
    let (mut below, mut sample) = (0, 0);
    for (&value, &count) in counts {
        below += u128::from(count);
        // The rank of a sample is the middle of its share.
        while sample < samples && (2 * sample + 1) * total < 2 * samples * below {
            spread.push(value);
            sample += 1;
        }
    }
    spread
}
