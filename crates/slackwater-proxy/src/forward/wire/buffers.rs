//! Memory that a worker lends to its connections, so that idle connections hold none.
//!
//! All data is read into one buffer of the worker. Short data is copied out of it, and the shortest
//! into blocks that many pieces share. Long data takes the buffer along and the worker allocates
//! another, so that large bodies are never copied. Write buffers come from a stock, and so does the
//! text of heads. All of it belongs to the worker's thread, so it is kept in thread-locals.

use bytes::{BufMut, Bytes, BytesMut};
use core::cell::RefCell;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use slackwater_http::Fields;
use slackwater_http::http2::Stock;
use std::io;
use tokio::io::AsyncRead;
use tokio_util::io::poll_read_buf;

/// Maximum size of one read: a body of 64 KiB with its head. Bodies of exactly that size are
/// common, and a second read for the last octets would also need a second write.
pub(crate) const READ_BYTES: usize = 72 << 10;

/// Longer data is handed on as it is: above this size a copy costs more than another buffer.
const COPIED_BYTES_MAX: usize = 8 << 10;

/// Data up to this size, such as a usual head, becomes a piece of a block. A full block is filled
/// again if all of its pieces are gone, else another one is allocated.
const PIECE_BYTES_MAX: usize = 1 << 10;

/// Size of a block. It is freed with the last of its pieces, so this is the most memory that a
/// piece can hold.
const BLOCK_BYTES: usize = 4 << 10;

/// Space for a usual head and a short body.
const TEXT_BYTES: usize = 4 << 10;

/// Larger buffers are not kept.
const KEPT_BYTES_MAX: usize = 32 << 10;

/// Maximum number of kept buffers of each kind.
const KEPT_MAX: usize = 64;

/// The fields of longer heads are not kept.
const KEPT_HEAD_BYTES_MAX: usize = 8 << 10;

/// The memory of HTTP/2 connections.
pub(crate) const STOCK: Stock = Stock {
    lend_headers,
    take_headers_back,
    lend_text,
    take_text_back,
};

thread_local! {
    static READING: RefCell<BytesMut> = RefCell::default();
    static BLOCK: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(BLOCK_BYTES));
    static TEXTS: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
    static HEADERS: RefCell<Vec<Fields>> = const { RefCell::new(Vec::new()) };
}

/// Reads what is available. The result is empty if the other side has ended the stream.
pub(crate) fn poll_read<S>(stream: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>>
where
    S: AsyncRead + Unpin,
{
    poll_read_some(stream, cx, READ_BYTES)
}

/// Like [`poll_read`], but reads at most `bytes_max` octets.
pub(crate) fn poll_read_some<S>(
    stream: &mut S,
    cx: &mut Context<'_>,
    bytes_max: usize,
) -> Poll<io::Result<Bytes>>
where
    S: AsyncRead + Unpin,
{
    READING.with_borrow_mut(|reading| {
        reading.reserve(READ_BYTES);
        let mut room = reading.limit(bytes_max);
        let read = ready!(poll_read_buf(Pin::new(stream), cx, &mut room))?;
        if read > COPIED_BYTES_MAX {
            return Poll::Ready(Ok(core::mem::take(reading).freeze()));
        }
        let bytes = copy(reading);
        reading.clear();
        Poll::Ready(Ok(bytes))
    })
}

fn copy(read: &[u8]) -> Bytes {
    if read.len() > PIECE_BYTES_MAX {
        return Bytes::copy_from_slice(read);
    }
    BLOCK.with_borrow_mut(|block| {
        block.extend_from_slice(read);
        block.split().freeze()
    })
}

/// Returns an empty buffer for output.
pub(super) fn lend_text() -> BytesMut {
    let kept = TEXTS.with_borrow_mut(Vec::pop);
    kept.unwrap_or_else(|| BytesMut::with_capacity(TEXT_BYTES))
}

/// Takes a buffer back.
pub(super) fn take_text_back(mut text: BytesMut) {
    text.clear();
    // What was written before the rest, or split off, is memory of the buffer, too.
    let is_fit = text.try_reclaim(TEXT_BYTES) && !text.try_reclaim(KEPT_BYTES_MAX + 1);
    TEXTS.with_borrow_mut(|texts| {
        if is_fit && texts.len() < KEPT_MAX {
            texts.push(text);
        }
    });
}

/// Returns an empty list of fields, with space if there is some left.
pub(crate) fn lend_headers() -> Fields {
    HEADERS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Takes the space of fields back.
pub(crate) fn take_headers_back(mut headers: Fields) {
    if headers.capacity() == 0 || headers.capacity() > KEPT_HEAD_BYTES_MAX {
        return;
    }
    headers.clear();
    HEADERS.with_borrow_mut(|kept| {
        if kept.len() < KEPT_MAX {
            kept.push(headers);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf;
    use core::task::Waker;
    use http::HeaderValue;

    fn read(mut wire: &[u8]) -> Bytes {
        let mut cx = Context::from_waker(Waker::noop());
        match poll_read(&mut wire, &mut cx) {
            Poll::Ready(Ok(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn short_and_long_reads_return_what_was_sent() {
        for length in [0, 1, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1, READ_BYTES] {
            let wire: Vec<u8> = (0_u8..=255).cycle().take(length).collect();
            assert_eq!(read(&wire), wire, "{length}");
        }
        assert_eq!(read(&vec![1; READ_BYTES + 1]).len(), READ_BYTES);
    }

    #[test]
    fn reads_respect_the_limit() {
        let mut wire: &[u8] = &[1; 100];
        let mut cx = Context::from_waker(Waker::noop());
        for expected in [60, 40, 0] {
            let read = poll_read_some(&mut wire, &mut cx, 60);
            assert!(matches!(read, Poll::Ready(Ok(bytes)) if bytes.len() == expected));
        }
    }

    #[test]
    fn short_reads_use_the_same_buffer_again() {
        let kept = |()| READING.with_borrow(|reading| reading.as_ptr());
        read(b"first");
        let before = kept(());
        assert_eq!(read(b"second"), "second");
        assert_eq!(kept(()), before);
    }

    #[test]
    fn shortest_reads_share_a_block_that_is_filled_again_once_they_are_gone() {
        let piece = || read(&[1; PIECE_BYTES_MAX]);
        let pieces = BLOCK_BYTES / PIECE_BYTES_MAX;
        let held: Vec<Bytes> = (0..pieces).map(|_| piece()).collect();
        let starts: Vec<_> = held.iter().map(|piece| piece.as_ptr()).collect();
        let is_in_row = |pair: &[*const u8]| pair[0].wrapping_add(PIECE_BYTES_MAX) == pair[1];
        assert!(starts.windows(2).all(is_in_row), "one after the other");
        let other = piece();
        assert!(!starts.contains(&other.as_ptr()), "the block is in use");
        let at = other.as_ptr();
        drop(other);
        (1..pieces).for_each(|_| drop(piece()));
        assert_eq!(piece().as_ptr(), at, "the new block, from its start");
    }

    #[test]
    fn a_buffer_counts_as_a_whole_when_a_part_was_written_or_split_off() {
        let kept_texts = || TEXTS.with_borrow(Vec::len);
        let parts: [fn(&mut BytesMut, usize); 2] = [
            |text, at| text.advance(at),
            |text, at| drop(text.split_to(at).freeze()),
        ];
        for remove in parts {
            for (bytes, left, is_kept) in [
                (TEXT_BYTES, 100, true),
                (KEPT_BYTES_MAX + 1, TEXT_BYTES, false),
            ] {
                let mut text = BytesMut::with_capacity(bytes);
                text.resize(bytes, b'x');
                let at = text.as_ptr();
                remove(&mut text, bytes - left);
                let before = kept_texts();
                take_text_back(text);
                assert_eq!(kept_texts() - before, usize::from(is_kept), "{bytes}");
                let text = lend_text();
                // A new buffer may get the address of one that was freed.
                assert!(!is_kept || text.as_ptr() == at, "{bytes}");
                assert!(text.is_empty() && text.capacity() >= TEXT_BYTES);
            }
        }
    }

    #[test]
    fn returned_buffers_are_empty_and_reused() {
        let mut text = lend_text();
        text.extend_from_slice(b"a secret");
        let at = text.as_ptr();
        take_text_back(text);
        let text = lend_text();
        assert!(text.is_empty() && text.as_ptr() == at);
        take_text_back(text);
        take_text_back(BytesMut::with_capacity(KEPT_BYTES_MAX + 1));
        assert_eq!(lend_text().as_ptr(), at, "the long one is not kept");

        let mut headers = Fields::new();
        headers.insert("cookie", "a secret");
        let space = headers.capacity();
        take_headers_back(headers);
        let headers = lend_headers();
        assert!(headers.is_empty() && headers.capacity() == space && space > 0);
        let long = HeaderValue::from_bytes(&[b'x'; KEPT_HEAD_BYTES_MAX]).expect("a value");
        take_headers_back(Fields::from_iter([("cookie", long)]));
        assert_eq!(lend_headers().capacity(), 0);
    }
}
