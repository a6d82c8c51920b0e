//! The numbers of the committed scenarios. Most are chosen because a changed rule breaks them
//! (`results/vectors-mutants.md`), the others are the first ones.

pub(crate) const DELAY_GUARDED: [u64; 33] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 25, 37, 38, 49, 54, 64,
    100, 101, 128, 134, 100_004, 100_010, 100_011, 100_035,
];
pub(crate) const RATES: [u64; 8] = [1, 2, 3, 5, 6, 7, 20, 35];
pub(crate) const PREQUAL: [u64; 49] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 25, 26, 27, 28, 30, 31,
    32, 33, 35, 36, 37, 38, 40, 41, 42, 43, 81, 89, 98, 99, 104, 105, 106, 108, 110, 139, 147, 184,
    209, 1119,
];
pub(crate) const PREQUAL_SYNC: [u64; 20] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 65, 91,
];
pub(crate) const PREQUAL_SYNC_GUARDED: [u64; 10] = [1, 2, 3, 5, 6, 7, 8, 10, 11, 41];
pub(crate) const RANDOM_GUARDED: [u64; 30] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 19, 22, 24, 25, 34, 44, 88, 113, 139, 144,
    364, 4024, 100_010, 100_017, 100_029,
];
pub(crate) const TRACKER: [u64; 30] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 25, 26, 27, 28, 30, 31,
    32, 33, 35, 36, 140,
];
pub(crate) const RANDOM: [u64; 5] = [1, 2, 3, 5, 6];
pub(crate) const DELAY: [u64; 50] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30,
    31, 32, 33, 35, 36, 37, 38, 40, 41, 42, 43, 45, 46, 73, 77, 98, 156, 174, 185, 186, 191, 223,
    383, 484, 100_008,
];
pub(crate) const LEAST_LOADED: [u64; 10] = [1, 2, 3, 5, 6, 7, 8, 10, 11, 21];
pub(crate) const CAPACITY: [u64; 25] = [
    1, 2, 3, 5, 6, 7, 8, 14, 31, 38, 50, 56, 57, 66, 74, 84, 103, 158, 644, 674, 739, 2993,
    100_001, 100_003, 100_014,
];
pub(crate) const LEAST_LOADED_GUARDED: [u64; 20] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 29, 30, 39, 59, 99, 100_011, 100_016,
];
pub(crate) const PREQUAL_GUARDED: [u64; 23] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 20, 54, 169, 274, 404, 100_001, 100_058,
    100_103,
];

pub(crate) const KEYS_PREQUAL: [u64; 8] = [1, 2, 3, 5, 6, 7, 8, 10];
pub(crate) const KEYS_PREQUAL_SYNC: [u64; 14] = [1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 46, 1011];
pub(crate) const KEYS_PREQUAL_SYNC_GUARDED: [u64; 5] = [1, 2, 3, 5, 6];
pub(crate) const KEYS_DELAY: [u64; 18] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 69, 74, 100_000, 100_003, 100_007, 100_083,
];
pub(crate) const KEYS_DELAY_GUARDED: [u64; 8] = [1, 2, 3, 5, 6, 7, 8, 833];
pub(crate) const KEYS_LEAST_LOADED: [u64; 12] = [1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 1004, 1044];
pub(crate) const KEYS_RANDOM: [u64; 17] = [
    1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 1008, 1009, 1054,
];
pub(crate) const KEYS_RANDOM_GUARDED: [u64; 8] = [1, 2, 3, 5, 6, 492, 1001, 100_003];
