//! The cells of the figure, and each claim on both sides of its bound.
