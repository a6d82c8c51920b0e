//! A connection by what goes in and what comes out.
