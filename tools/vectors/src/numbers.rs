//! The numbers of the committed scenarios. Most are chosen because a changed rule breaks them
//! (`results/vectors-mutants.md`), the others are the first ones.

pub(crate) const DELAY_GUARDED: [u64; 24] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 25, 37, 64, 100, 101,
];
pub(crate) const RATES: [u64; 8] = [1, 2, 3, 5, 6, 7, 20, 35];
pub(crate) const PREQUAL: [u64; 43] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 25, 26, 27, 28, 30, 31,
    32, 33, 35, 36, 37, 38, 40, 41, 42, 43, 98, 104, 105, 106, 108, 110, 147, 1119,
];
pub(crate) const PREQUAL_SYNC: [u64; 20] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 65, 91,
];
pub(crate) const PREQUAL_SYNC_GUARDED: [u64; 10] = [1, 2, 3, 5, 6, 7, 8, 10, 11, 41];
pub(crate) const RANDOM_GUARDED: [u64; 22] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 19, 22, 24, 25, 34, 88, 364,
];
pub(crate) const TRACKER: [u64; 30] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 25, 26, 27, 28, 30, 31,
    32, 33, 35, 36, 140,
];
pub(crate) const RANDOM: [u64; 5] = [1, 2, 3, 5, 6];
pub(crate) const DELAY: [u64; 41] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30,
    31, 32, 33, 35, 36, 37, 38, 40, 41, 42, 43, 45, 46, 156, 185, 186,
];
pub(crate) const LEAST_LOADED: [u64; 10] = [1, 2, 3, 5, 6, 7, 8, 10, 11, 21];
pub(crate) const CAPACITY: [u64; 13] = [1, 2, 3, 5, 6, 7, 8, 14, 31, 50, 56, 57, 84];
pub(crate) const LEAST_LOADED_GUARDED: [u64; 16] =
    [1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 29, 30, 59];
pub(crate) const PREQUAL_GUARDED: [u64; 19] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 169, 274, 404,
];

pub(crate) const KEYS_PREQUAL: [u64; 8] = [1, 2, 3, 5, 6, 7, 8, 10];
pub(crate) const KEYS_PREQUAL_SYNC: [u64; 13] = [1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 1011];
pub(crate) const KEYS_PREQUAL_SYNC_GUARDED: [u64; 5] = [1, 2, 3, 5, 6];
pub(crate) const KEYS_DELAY: [u64; 12] = [1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15];
pub(crate) const KEYS_DELAY_GUARDED: [u64; 6] = [1, 2, 3, 5, 6, 7];
pub(crate) const KEYS_LEAST_LOADED: [u64; 12] = [1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 1004, 1044];
pub(crate) const KEYS_RANDOM: [u64; 17] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 1008, 1009, 1054,
];
pub(crate) const KEYS_RANDOM_GUARDED: [u64; 6] = [1, 2, 3, 5, 6, 1001];
