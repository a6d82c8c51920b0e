//! A buffer of fixed size for lines. Adding a line allocates nothing.

use wide::u8x16;

/// Capacity in bytes: about 3,000 lines, which the writer fetches many times a second.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Bytes that are checked at once.
const BLOCK: usize = 16;

/// Whole lines, each with its newline.
#[derive(Debug)]
pub(super) struct LineBuffer {
    bytes: Box<[u8]>,
    used: usize,
}

impl LineBuffer {
    /// Makes an empty buffer. Its memory is touched only as far as lines fill it.
    pub(super) fn new() -> Self {
        Self {
            // A line that fits leaves the last byte.
            bytes: vec![0; BYTES_MAX + 1].into(),
            used: 0,
        }
    }

    /// Adds the line that `write` puts together. Returns `false` and adds nothing if it does not
    /// fit.
    pub(super) fn add(&mut self, write: impl FnOnce(Line<'_>) -> Line<'_>) -> bool {
        let line = Line(self.bytes.get_mut(self.used..).unwrap_or_default());
        let left = write(line).0.len();
        if left > 0 {
            self.used = self.bytes.len() - left;
        }
        left > 0
    }

    /// The bytes of all lines.
    pub(super) const fn used(&self) -> usize {
        self.used
    }

    pub(super) fn lines(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
    }
}

/// A line that is being put together: the rest of the buffer, which is empty once something has not
/// fit. It is passed and returned by value, in two registers.
#[derive(Debug)]
pub(super) struct Line<'a>(&'a mut [u8]);

impl Line<'_> {
    /// Adds bytes to the line.
    #[inline]
    pub(super) fn put(self, bytes: &[u8]) -> Self {
        match self.0.split_at_mut_checked(bytes.len()) {
            Some((to, rest)) => {
                to.copy_from_slice(bytes);
                Line(rest)
            }
            None => Line(&mut []),
        }
    }

    /// Adds bytes. Most often their number is `BYTES`: then they are a few stores.
    #[inline]
    pub(super) fn put_mostly<const BYTES: usize>(self, bytes: &[u8]) -> Self {
        match bytes.try_into() {
            Ok(bytes) => self.put_array::<BYTES>(bytes),
            Err(_) => self.put_other(bytes),
        }
    }

    /// Not inlined: the compiler would merge both copies into one, which is a call.
    #[cold]
    #[inline(never)]
    fn put_other(self, bytes: &[u8]) -> Self {
        self.put(bytes)
    }

    /// Adds bytes, unless a byte among them is marked. Then, or if there is little room, the line
    /// is returned as it was. `marks` must not mark spaces.
    ///
    /// It is the copy that is checked: spaces behind it complete its last block, so that a short
    /// text is a block as well.
    #[inline]
    pub(super) fn put_unmarked(
        self,
        bytes: &[u8],
        marks: impl Fn(u8x16) -> u8x16,
    ) -> Result<Self, Self> {
        let length = bytes.len();
        let room = self.0.get_mut(..length + BLOCK);
        let Some((copy, behind)) = room.and_then(<[u8]>::split_last_chunk_mut) else {
            return Err(self);
        };
        copy.copy_from_slice(bytes);
        *behind = [b' '; BLOCK];
        let is_marked = |block: &[u8; BLOCK]| marks(u8x16::new(*block)).to_bitmask() != 0;
        let blocks = self.0.as_chunks().0.get(..=length / BLOCK);
        if blocks.is_none_or(|blocks| blocks.iter().any(is_marked)) {
            return Err(self);
        }
        Ok(Line(&mut self.0[length..]))
    }

    /// Adds bytes whose number is known when this is compiled, which makes them a few stores.
    #[inline]
    pub(super) fn put_array<const BYTES: usize>(self, bytes: &[u8; BYTES]) -> Self {
        match self.0.split_first_chunk_mut() {
            Some((to, rest)) => {
                *to = *bytes;
                Line(rest)
            }
            None => Line(&mut []),
        }
    }

    /// Adds three arrays, one after the other.
    #[inline]
    pub(super) fn put_arrays<const A: usize, const B: usize, const C: usize>(
        self,
        (first, second, third): (&[u8; A], &[u8; B], &[u8; C]),
    ) -> Self {
        self.with_room(A + B + C, |line| {
            line.put_array(first).put_array(second).put_array(third)
        })
    }

    /// Adds arrays of that many bytes in all. After this check of the rest, the compiler leaves out
    /// those of each array.
    #[inline]
    pub(super) fn with_room(self, bytes: usize, put: impl FnOnce(Self) -> Self) -> Self {
        if self.0.len() < bytes {
            return Line(&mut []);
        }
        put(self)
    }
}
