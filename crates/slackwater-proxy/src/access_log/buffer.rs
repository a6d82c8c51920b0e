//! A buffer of fixed size for lines. Adding a line allocates nothing.

/// Capacity in bytes: about 3,000 lines, which the writer fetches many times a second.
pub(super) const BYTES_MAX: usize = 1 << 20;

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
            bytes: vec![0; BYTES_MAX].into(),
            used: 0,
        }
    }

    /// Adds the line that `write` puts together. Returns `false` and adds nothing if it does not
    /// fit.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Line<'_>)) -> bool {
        let room = self.bytes.get_mut(self.used..).unwrap_or_default();
        let before = room.len();
        let mut line = Line { room, fits: true };
        write(&mut line);
        if line.fits {
            self.used += before - line.room.len();
        }
        line.fits
    }

    pub(super) fn lines(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
    }
}

/// A line that is being put together.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// The rest of the buffer.
    room: &'a mut [u8],
    fits: bool,
}

impl Line<'_> {
    /// Adds bytes to the line.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        let room = core::mem::take(&mut self.room);
        match room.split_at_mut_checked(bytes.len()) {
            Some((to, rest)) => {
                to.copy_from_slice(bytes);
                self.room = rest;
            }
            None => self.fits = false,
        }
    }

    /// Adds bytes whose number is known when this is compiled, which makes them a few stores.
    #[inline]
    pub(super) fn put_array<const BYTES: usize>(&mut self, bytes: &[u8; BYTES]) {
        let room = core::mem::take(&mut self.room);
        match room.split_first_chunk_mut() {
            Some((to, rest)) => {
                *to = *bytes;
                self.room = rest;
            }
            None => self.fits = false,
        }
    }

    /// Adds three arrays, one after the other.
    #[inline]
    pub(super) fn put_arrays<const A: usize, const B: usize, const C: usize>(
        &mut self,
        (first, second, third): (&[u8; A], &[u8; B], &[u8; C]),
    ) {
        // One check of the room, after which the compiler leaves out those of each array.
        if self.room.len() < A + B + C {
            self.room = &mut [];
            self.fits = false;
            return;
        }
        self.put_array(first);
        self.put_array(second);
        self.put_array(third);
    }
}
