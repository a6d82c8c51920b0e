//! A trace as an HDR histogram log: intervals with compressed histograms (format V2), as the log
//! writers of `HdrHistogram` in many languages make them. All intervals are merged.

use super::{Unit, VALUE_EXPECTED};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use core::time::Duration;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogHistogram, IntervalLogIterator, LogEntry, LogIteratorError,
};
use slackwater_config::toml_reader::{Mistake, Source};
use std::collections::BTreeMap;
use std::io::Read;

/// The beginning of each histogram of this format in base 64.
const MARK: &str = "HISTF";
/// Most values that a log is converted into. A larger number is thinned out evenly by rank.
const SAMPLES_MAX: u64 = 100_000;
/// Largest size of one decompressed histogram.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;
/// Cookie and length, before the compressed part. The decompressed form has another 32 bytes before
/// the counts.
const HEAD_BYTES: usize = 8;
const UNPACKED_HEAD_BYTES: usize = 40;

/// Returns whether the text is such a log.
pub(super) fn is_one(text: &str) -> bool {
    text.contains(MARK)
}

/// Returns the values of all intervals, each as often as it was counted. If there are too many,
/// returns a sample that is evenly spaced by rank.
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

/// The position at which `part`, a slice of `text`, begins in it.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// Decodes one interval's histogram. Its decompressed size is limited before decoding, because the
/// lengths in it cannot be trusted.
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

#[cfg(test)]
mod tests {
    use super::super::UNITS;
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
    use std::path::PathBuf;

    const MS: Unit = UNITS[2].1;

    fn histogram(values: &[(u64, u64)]) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).expect("3 digits");
        for &(value, count) in values {
            histogram.record_n(value, count).expect("it grows");
        }
        histogram
    }

    fn log(histograms: &[Histogram<u64>]) -> String {
        let mut serializer = V2DeflateSerializer::new();
        let mut text = Vec::new();
        let mut writer = IntervalLogWriterBuilder::new()
            .add_comment("a comment")
            .begin_log_with(&mut text, &mut serializer)
            .expect("a vector takes it");
        let second = Duration::from_secs(1);
        for histogram in histograms {
            let tag = Tag::new("web");
            writer
                .write_histogram(histogram, second, second, tag)
                .expect("a vector takes it");
        }
        String::from_utf8(text).expect("a log is text")
    }

    fn read_text(text: &str) -> Result<Vec<Duration>, String> {
        let source = Source::new(PathBuf::from("a.hlog"), text.to_owned());
        read(&source, MS).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn all_intervals_are_merged() {
        let text = log(&[histogram(&[(3, 2), (500, 1)]), histogram(&[(3, 1), (7, 1)])]);
        assert!(is_one(&text));
        let ms: Vec<_> = read_text(&text)
            .expect("a log")
            .iter()
            .map(Duration::as_millis)
            .collect();
        assert_eq!(ms, [3, 3, 3, 7, 500]);
    }

    #[test]
    fn large_histograms_are_sampled_by_rank() {
        let text = log(&[histogram(&[
            (1, 9_000_000_000),
            (2, 999_000_000),
            (3, 1_000_000),
        ])]);
        let values = read_text(&text).expect("a log");
        let count = |ms| {
            values
                .iter()
                .filter(|value| value.as_millis() == ms)
                .count()
        };
        assert_eq!((count(1), count(2), count(3)), (90_000, 9_990, 10));
        // The upper one of each two, because a sample is the middle of its share.
        let text = log(&[histogram(&[(1, 199_999), (2, 1)])]);
        let last = read_text(&text).expect("a log").pop();
        assert_eq!(last.map(|value| value.as_millis()), Some(2));
    }

    #[test]
    fn false_length_in_a_histogram_is_rejected() {
        let mut plain = Vec::new();
        V2Serializer::new()
            .serialize(&histogram(&[(5, 1)]), &mut plain)
            .expect("a vector takes it");
        let packed = |plain: &[u8]| {
            let mut packed = 0x1c84_9314_u32.to_be_bytes().to_vec();
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, plain).expect("a vector takes it");
            let compressed = encoder.finish().expect("a vector takes it");
            packed.extend(
                u32::try_from(compressed.len())
                    .expect("short")
                    .to_be_bytes(),
            );
            packed.extend(compressed);
            format!("0.0,1.0,2.0,{}\n", STANDARD.encode(packed))
        };
        assert_eq!(read_text(&packed(&plain)).map(|values| values.len()), Ok(1));
        let mut liar = plain.clone();
        liar[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        let bomb = vec![0; 65 << 20];
        for (bytes, expected) in [
            (&liar[..], "histogram: is cut off"),
            (&plain[..20], "histogram: is cut off"),
            (&bomb[..], "unpacks to more than 64 MiB"),
        ] {
            let told = read_text(&packed(bytes)).expect_err(expected);
            assert!(
                told.starts_with("a.hlog:1:13: ") && told.contains(expected),
                "{told}"
            );
        }
    }

    #[test]
    fn a_broken_line_is_reported_with_its_position() {
        let good = log(&[histogram(&[(3, 2)])]);
        let lines = good.lines().count();
        for (line, expected) in [
            ("0.0,1.0,2.0,HISTF*", "is not base 64"),
            ("0.0,1.0,2.0,HISTFAAAAAAAAA==", "cannot be unpacked"),
            ("0.0,1.0,2.0,SElTVA==", "is cut off"),
            ("0,1,HISTF", "is no line of an HDR log"),
            ("\u{1}HISTF", "is no line of an HDR log"),
        ] {
            let told = read_text(&format!("{good}{line}\n")).expect_err(line);
            assert!(
                told.starts_with(&format!("a.hlog:{}:", lines + 1)),
                "{told}"
            );
            assert!(told.contains(expected), "{line}: {told}");
        }
    }
}
