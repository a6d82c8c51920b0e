//! Rows that are not yet answered as the table demands, and what becomes of them instead. None of them may do harm: what
//! two readers could read in two ways is framed anew before it reaches a replica. A row that is answered as demanded has
//! to be taken out of here.

type Today = (&'static str, &'static str, &'static [&'static str]);

/// Name, answer, and what the replica sees.
const TODAY: &[Today] = &[];

pub(crate) fn of(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    let today = TODAY.iter().find(|today| today.0 == name)?;
    Some((today.1, today.2))
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TODAY.iter().map(|today| today.0)
}
