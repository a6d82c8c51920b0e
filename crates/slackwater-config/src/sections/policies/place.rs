//! Adapts the core's keys to the table: how each is read, shown and described. Ranges and their
//! descriptions are the core's.

use crate::table::{
    self, Boolean, Core, Factor, Judge, Key, Meaning, Number, PerQuery, Place, Share, Span,
};
use crate::toml_reader::Reader;
use slackwater_core::policy::{Field, Kind, Section};

/// The table's key for a key of the core.
pub(super) fn key_of<S: Section>(field: &'static Field<S>) -> Key<S> {
    Key {
        name: field.name,
        doc: field.doc,
        unsaid: field.unsaid,
        // A reload builds the service again with its new settings.
        fixed: false,
        place: &field.kind,
    }
}

/// Where a value of the core is stored, and its kind.
struct At<S, T, K> {
    place: fn(&mut S) -> &mut T,
    kind: K,
}

impl<S: Section, T: Clone, K: table::Kind<T>> At<S, T, K> {
    fn judged<R>(&self, ask: impl FnOnce(&Judge<'_, T>) -> R) -> R {
        let refusal = |value: &T| {
            let mut alone = S::default();
            *(self.place)(&mut alone) = value.clone();
            alone.check().err().map(|error| error.expected)
        };
        ask(&Judge {
            default: Some(&|| (self.place)(&mut S::default()).clone()),
            refusal: &refusal,
        })
    }
}

impl<S: Section, T: Clone, K: table::Kind<T>> Place<S> for At<S, T, K> {
    fn read(&self, reader: &mut Reader<'_>, field: &str, settings: &mut S) {
        if let Some(value) = self.judged(|judge| self.kind.take(reader, field, judge)) {
            *(self.place)(settings) = value;
        }
    }

    fn show(&self, settings: &S) -> Option<String> {
        self.kind.show((self.place)(&mut settings.clone()))
    }

    fn meaning(&self) -> Meaning {
        self.judged(|judge| self.kind.meaning(judge))
    }
}

fn with<S: Section, R>(kind: &Kind<S>, ask: impl FnOnce(&dyn Place<S>) -> R) -> R {
    const fn at<S, T, K>(place: fn(&mut S) -> &mut T, kind: K) -> At<S, T, K> {
        At { place, kind }
    }
    match *kind {
        Kind::Boolean(place) => ask(&at(place, Boolean)),
        Kind::Duration(place) => ask(&at(place, Core(Span))),
        Kind::Factor(place) => ask(&at(place, Core(Factor))),
        Kind::Quantile(place) => ask(&at(place, Core(Share))),
        Kind::Rate(place) => ask(&at(place, Core(PerQuery))),
        Kind::U8(place) => ask(&at(place, Core(Number))),
        Kind::U16(place) => ask(&at(place, Core(Number))),
        Kind::U32(place) => ask(&at(place, Core(Number))),
    }
}

impl<S: Section> Place<S> for Kind<S> {
    fn read(&self, reader: &mut Reader<'_>, field: &str, settings: &mut S) {
        with(self, |place| place.read(reader, field, settings));
    }

    fn show(&self, settings: &S) -> Option<String> {
        with(self, |place| place.show(settings))
    }

    fn meaning(&self) -> Meaning {
        with(self, |place| place.meaning())
    }
}
