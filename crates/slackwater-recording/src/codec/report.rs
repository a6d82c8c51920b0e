//! Reports as bytes: RIF and latency each time, rarely changing fields once.

use crate::bytes::{Bytes, Malformed, put_varint};
use core::time::Duration;
use slackwater_core::{LoadReport, LoadScale, Rif};
use std::collections::BTreeMap;

const LATENCY: u8 = 1;
const DRAINING: u8 = 2;
const SCALED: u8 = 4;
/// The rarer fields equal those in a slot, whose number follows.
const SEEN: u8 = 8;
/// The rarer fields follow and are stored in a slot.
const NEW: u8 = 16;

/// The rarer fields, in the order of their bits.
const FIELDS: usize = 6;
type Rare = [Option<u64>; FIELDS];

/// Rarer fields seen lately. The slot follows from the replica's incarnation.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<u16, Rare>);

/// Number of slots for rarer fields: a power of two.
const PLACES: u16 = 1_024;

/// Multiplier that spreads incarnations over slots.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

fn place(rare: &Rare) -> u16 {
    let [incarnation, ..] = rare;
    let spread = incarnation.unwrap_or(0).wrapping_mul(SPREAD);
    u16::try_from(spread >> 54).unwrap_or(0) % PLACES
}

pub(super) fn put_report(to: &mut Vec<u8>, seen: &mut Seen, report: &LoadReport) {
    let rare = rare_of(report);
    let has_rare = rare != Rare::default();
    let place = place(&rare);
    let is_known = has_rare && seen.0.get(&place) == Some(&rare);
    let mut flags = 0;
    for (flag, is_set) in [
        (LATENCY, report.latency.is_some()),
        (DRAINING, report.draining),
        (SCALED, report.load_scale != LoadScale::ONE),
        (SEEN, is_known),
        (NEW, has_rare && !is_known),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    to.push(flags);
    put_varint(to, report.rif.count().into());
    if let Some(latency) = report.latency {
        put_varint(to, whole_ns(latency));
    }
    if flags & SCALED != 0 {
        put_varint(to, report.load_scale.in_1024ths().into());
    }
    if has_rare {
        put_varint(to, place.into());
    }
    if flags & NEW != 0 {
        put_rare(to, &rare);
        seen.0.insert(place, rare);
    }
}

fn put_rare(to: &mut Vec<u8>, rare: &Rare) {
    let present = rare.iter().rev();
    let bits = present.fold(0, |bits, field| bits << 1 | u8::from(field.is_some()));
    to.push(bits);
    for field in rare.iter().flatten() {
        put_varint(to, *field);
    }
}

pub(super) fn report(bytes: &mut Bytes<'_>, seen: &mut Seen) -> Result<LoadReport, Malformed> {
    let flags = bytes.byte()?;
    if flags & !(LATENCY | DRAINING | SCALED | SEEN | NEW) != 0
        || flags & (SEEN | NEW) == SEEN | NEW
    {
        return Err(Malformed("a report has fields that are not known"));
    }
    let rif = Rif::new(bytes.number()?);
    let latency = if flags & LATENCY == 0 {
        None
    } else {
        Some(Duration::from_nanos(bytes.varint()?))
    };
    let mut report = LoadReport::new(rif, latency);
    report.draining = flags & DRAINING != 0;
    if flags & SCALED != 0 {
        report.load_scale = LoadScale::from_1024ths(bytes.number()?);
    }
    if flags & (SEEN | NEW) != 0 {
        let place: u16 = bytes.number()?;
        if flags & NEW != 0 {
            let fields = rare(bytes)?;
            seen.0.insert(place % PLACES, fields);
        }
        let fields = seen.0.get(&(place % PLACES));
        let fields = fields.ok_or(Malformed("a report refers to one that never was"))?;
        fill(&mut report, fields)?;
    }
    Ok(report)
}

fn rare(bytes: &mut Bytes<'_>) -> Result<Rare, Malformed> {
    let bits = bytes.byte()?;
    let mut rare = Rare::default();
    for (index, field) in rare.iter_mut().enumerate() {
        if bits >> index & 1 == 1 {
            *field = Some(bytes.varint()?);
        }
    }
    Ok(rare)
}

fn rare_of(report: &LoadReport) -> Rare {
    [
        report.incarnation,
        report.error_millionths.map(u64::from),
        report.cpu_millionths.map(u64::from),
        report.query_rate_millis.map(u64::from),
        report.capacity_millirif.map(u64::from),
        report.cost.map(whole_ns),
    ]
}

fn fill(report: &mut LoadReport, rare: &Rare) -> Result<(), Malformed> {
    let [incarnation, errors, cpu, query_rate, capacity, cost] = *rare;
    let small = |field: Option<u64>| {
        let small = field.map(u32::try_from).transpose();
        small.map_err(|_| Malformed("a number in a report is too large"))
    };
    report.incarnation = incarnation;
    report.error_millionths = small(errors)?;
    report.cpu_millionths = small(cpu)?;
    report.query_rate_millis = small(query_rate)?;
    report.capacity_millirif = small(capacity)?;
    report.cost = cost.map(Duration::from_nanos);
    Ok(())
}

/// Converts to nanoseconds. More than 584 years count as 584 years, as in the core.
pub(super) fn whole_ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
