//! The fleets of the papers and of the small-fleets study, ready to play: numbers and where they come from.
