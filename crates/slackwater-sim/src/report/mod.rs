//! What came out, written down: CSV with fixed columns, and an HTML page that needs nothing else.
