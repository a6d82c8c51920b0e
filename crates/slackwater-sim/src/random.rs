//! Seeded streams of draws, one for each purpose, so that no two purposes disturb each other: what arrivals draw does not
//! depend on what a policy draws.
