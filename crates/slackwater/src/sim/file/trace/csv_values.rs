//! A trace as CSV: one value per line, or one column out of several.

use super::{Unit, VALUE_EXPECTED, VALUES_MAX};
use core::time::Duration;
use csv::{ReaderBuilder, StringRecord, Trim};
use slackwater_config::toml_reader::{Mistake, Source, nearest};

/// Reads the values of `column`, or of the only column. Lines that begin with `#` are comments.
pub(super) fn read(
    source: &Source,
    column: Option<&str>,
    unit: Unit,
) -> Result<Vec<Duration>, Mistake> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .trim(Trim::All)
        .from_reader(source.text().as_bytes());
    let mut records = reader.records();
    let mut next = || {
        let record = records.next()?;
        Some(record.map_err(|error| at_line(source, 0, "", format!("is no CSV: {error}"))))
    };
    let index = match column {
        None => 0,
        Some(name) => match next() {
            None => return Ok(Vec::new()),
            Some(head) => index_of(source, &head?, name)?,
        },
    };
    let mut values = Vec::new();
    while let Some(record) = next() {
        let record = record?;
        let field = column.unwrap_or("value");
        let mistake = |message| at_line(source, start(&record), field, message);
        if column.is_none() && record.len() > 1 {
            return Err(mistake(format!(
                "found {} columns, expected one value a line, or trace_column with a column's name",
                record.len()
            )));
        }
        let text = record.get(index).unwrap_or_default();
        let value = text.parse().ok().and_then(|value| unit.duration(value));
        let Some(value) = value else {
            let hint = if values.is_empty() && column.is_none() {
                "; if the first line names columns, say which one with trace_column"
            } else {
                ""
            };
            return Err(mistake(format!(
                "found {text:?}, expected {VALUE_EXPECTED}{hint}"
            )));
        };
        if values.len() == VALUES_MAX {
            return Err(mistake(format!(
                "is one too many, expected at most {VALUES_MAX} values"
            )));
        }
        values.push(value);
    }
    Ok(values)
}

fn index_of(source: &Source, head: &StringRecord, name: &str) -> Result<usize, Mistake> {
    head.iter()
        .position(|column| column == name)
        .ok_or_else(|| {
            let hint = match nearest(name, head) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "the first line has to name the columns".to_owned(),
            };
            at_line(
                source,
                start(head),
                name,
                format!("there is no such column, {hint}"),
            )
        })
}

fn start(record: &StringRecord) -> usize {
    let byte = record.position().map_or(0, csv::Position::byte);
    usize::try_from(byte).unwrap_or(usize::MAX)
}

/// A mistake at the line that contains byte `start`. A record's position is the end of the previous
/// one, so blank lines and comments may follow it.
fn at_line(source: &Source, start: usize, field: &str, message: String) -> Mistake {
    let mut start = start;
    let rest = source.text().get(start..).unwrap_or_default();
    for line in rest.split_inclusive('\n') {
        let text = line.trim();
        if !(text.is_empty() || text.starts_with('#')) {
            break;
        }
        start += line.len();
    }
    let line = source.text().get(start..).unwrap_or_default();
    let end = start + line.lines().next().unwrap_or_default().len();
    Mistake {
        place: source.place(start..end),
        field: field.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::super::UNITS;
    use super::*;
    use std::path::PathBuf;

    const MS: Unit = UNITS[2].1;

    fn read_text(text: &str, column: Option<&str>) -> Result<Vec<Duration>, String> {
        let source = Source::new(PathBuf::from("a.csv"), text.to_owned());
        read(&source, column, MS).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn values_are_read_by_line_or_by_column() {
        let expected = Ok(vec![Duration::from_micros(1_500), Duration::ZERO]);
        for (text, column) in [
            ("1.5\n0\n", None),
            ("# head\n\n 1.5 \r\n0e0", None),
            ("ms,name\n1.5,x\n0,\"y,z\"\n", Some("ms")),
            ("name,ms\na\"b,1.5\n# no\nb,0,more\n", Some("ms")),
        ] {
            assert_eq!(read_text(text, column), expected, "{text}");
        }
        assert_eq!(read_text("", None), Ok(Vec::new()));
        assert_eq!(read_text("", Some("ms")), Ok(Vec::new()));
    }

    #[test]
    fn an_invalid_time_is_reported_with_its_line() {
        for (text, column, expected) in [
            ("1\n\n# no\n-1\n", None, "a.csv:4:1: value: found \"-1\""),
            ("1\nnan\n", None, "a.csv:2:1: value: found \"nan\""),
            (
                "1\n99999999999\n",
                None,
                "a.csv:2:1: value: found \"99999999999\", expected a time from 0 to 24 h",
            ),
            (
                "latency\n1\n",
                None,
                "a.csv:1:1: value: found \"latency\", expected a time from 0 to 24 h in its unit; if",
            ),
            ("1,2\n", None, "a.csv:1:1: value: found 2 columns"),
            ("a,b\n1,2\n3\n", Some("b"), "a.csv:3:1: b: found \"\""),
            ("a,b\n", Some("c"), "a.csv:1:1: c: there is no such column"),
        ] {
            let told = read_text(text, column).expect_err(text);
            assert!(told.starts_with(expected), "{told}");
        }
    }

    #[test]
    fn number_of_values_is_limited() {
        let most = "1\n".repeat(VALUES_MAX);
        assert_eq!(
            read_text(&most, None).map(|values| values.len()),
            Ok(VALUES_MAX)
        );
        let told = read_text(&format!("{most}1\n"), None).expect_err("one more");
        assert!(
            told.starts_with("a.csv:1000001:1: value: is one too many"),
            "{told}"
        );
    }
}
