//! The floods. Each is one connection that sends as much as it can until the test is over or the
//! proxy closes it.

use crate::siege::site::Proxy;
use crate::siege::wire::{frames, http1, http2};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::io;
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

/// A flood.
pub(super) struct Flood {
    pub(super) name: &'static str,
    /// Whether its replica floods, instead of the client.
    pub(super) by_replica: bool,
    pub(super) play: fn(&Proxy, &AtomicBool) -> io::Result<()>,
}

impl core::fmt::Debug for Flood {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

const fn flood(name: &'static str, play: fn(&Proxy, &AtomicBool) -> io::Result<()>) -> Flood {
    Flood {
        name,
        by_replica: false,
        play,
    }
}

pub(super) const FLOODS: &[Flood] = &[
    flood(
        "INITIAL_WINDOW_SIZE flipped 1/0, 200 streams wait",
        flipped_windows,
    ),
    flood("WINDOW_UPDATE of 1 byte on 200 streams", small_windows),
    flood("long Huffman strings", huffman),
    flood("HPACK table churn", churn),
    flood("HPACK size updates, thousands a block", size_updates),
    flood("PING", pings),
    flood("plain requests, for comparison", plain),
    Flood {
        name: "a replica that sends chunks of 1 byte",
        by_replica: true,
        play: drip,
    },
];

/// Streams that wait for a window.
const WAITING: u32 = 200;

/// Open requests of one connection; below every proxy's limit.
const OPEN_MAX: u32 = 90;

/// After a longer write, the proxy counts as no longer reading.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// Bytes of one write.
const PIECE: usize = 64 << 10;

fn flipped_windows(proxy: &Proxy, over: &AtomicBool) -> io::Result<()> {
    let flip = [1, 0]
        .map(|window| frames::settings(&[(frames::INITIAL_WINDOW_SIZE, window)]))
        .concat();
    waiting(proxy, over, &flip.repeat(PIECE / flip.len()))
}

fn small_windows(proxy: &Proxy, over: &AtomicBool) -> io::Result<()> {
    let round: Vec<_> = (0..WAITING)
        .flat_map(|index| frames::window_update(frames::stream(index), 1))
        .collect();
    waiting(proxy, over, &round.repeat(PIECE / round.len()))
}

fn pings(proxy: &Proxy, over: &AtomicBool) -> io::Result<()> {
    let (connection, _) = open(proxy)?;
    pour(connection, over, &frames::ping().repeat(PIECE / 17));
    Ok(())
}

/// Sends requests whose responses wait for a window, and then the same bytes repeatedly.
fn waiting(proxy: &Proxy, over: &AtomicBool, piece: &[u8]) -> io::Result<()> {
    let mut connection = http2::Connection::open(proxy.at.http2, 0, WRITE_MAX)?;
    drain(&connection, None)?;
    // The connection's own window must not hold the streams back.
    connection.send(&frames::window_update(0, 1 << 30))?;
    let requests: Vec<_> = (0..WAITING)
        .flat_map(|index| frames::get(frames::stream(index), "/large?bytes=1048576"))
        .collect();
    connection.send(&requests)?;
    std::thread::sleep(Duration::from_millis(100));
    pour(connection, over, piece);
    Ok(())
}

/// Writes until the test or the connection is over.
fn pour(mut connection: http2::Connection, over: &AtomicBool, piece: &[u8]) {
    while !over.load(Ordering::Relaxed) && connection.send(piece).is_ok() {}
    connection.close();
}

fn plain(proxy: &Proxy, over: &AtomicBool) -> io::Result<()> {
    requests(proxy, over, &frames::request("GET", "/flood"))
}

/// 60,000 characters of five bits each, below the default limit for a head.
fn huffman(proxy: &Proxy, over: &AtomicBool) -> io::Result<()> {
    let mut block = frames::request("GET", "/flood");
    block.extend(frames::huffman_field(b"x-long", 37_500));
    requests(proxy, over, &block)
}

/// Fields that each enter the table and evict others.
fn churn(proxy: &Proxy, over: &AtomicBool) -> io::Result<()> {
    let mut block = frames::request("GET", "/flood");
    for index in 0..80 {
        let name = format!("x-churn-{index}");
        block.extend(frames::indexed_field(name.as_bytes(), &[b'v'; 60]));
    }
    requests(proxy, over, &block)
}

/// The table's size goes to zero and back, thousands of times before the first field.
fn size_updates(proxy: &Proxy, over: &AtomicBool) -> io::Result<()> {
    let mut block = [frames::integer(0x20, 5, 0), frames::integer(0x20, 5, 4_096)]
        .concat()
        .repeat(3_500);
    block.extend(frames::request("GET", "/flood"));
    requests(proxy, over, &block)
}

/// Sends the same request on stream after stream, within the proxy's limit of open ones.
fn requests(proxy: &Proxy, over: &AtomicBool, block: &[u8]) -> io::Result<()> {
    let (mut connection, ended) = open(proxy)?;
    for index in 0..u32::MAX >> 2 {
        while index - ended.load(Ordering::Relaxed).min(index) >= OPEN_MAX {
            if over.load(Ordering::Relaxed) || ended.load(Ordering::Relaxed) == u32::MAX {
                connection.close();
                return Ok(());
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let frames = frames::headers(frames::stream(index), block, true);
        if over.load(Ordering::Relaxed) || connection.send(&frames).is_err() {
            break;
        }
    }
    connection.close();
    Ok(())
}

/// Opens a connection; returns it with the number of its ended streams, which becomes `u32::MAX`
/// when the connection ends.
fn open(proxy: &Proxy) -> io::Result<(http2::Connection, Arc<AtomicU32>)> {
    let mut connection = http2::Connection::open(proxy.at.http2, 65_535, WRITE_MAX)?;
    connection.send(&frames::window_update(0, 1 << 30))?;
    let ended = Arc::new(AtomicU32::new(0));
    drain(&connection, Some(Arc::clone(&ended)))?;
    Ok((connection, ended))
}

/// Reads and discards everything, on a thread that ends with the connection.
fn drain(connection: &http2::Connection, ended: Option<Arc<AtomicU32>>) -> io::Result<()> {
    let mut reader = connection.reader()?;
    std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_mins(2);
        while let Ok(Some(frame)) = reader.next(until) {
            if let Some(ended) = &ended
                && frame.ends()
            {
                ended.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(ended) = &ended {
            ended.store(u32::MAX, Ordering::Relaxed);
        }
        let _ = reader.stream.shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}

/// An honest client of a replica that sends its response byte by byte.
fn drip(proxy: &Proxy, over: &AtomicBool) -> io::Result<()> {
    let mut stream = std::net::TcpStream::connect(proxy.at.http1)?;
    stream.set_read_timeout(Some(WRITE_MAX))?;
    io::Write::write_all(&mut stream, &http1::get("/drip"))?;
    let mut piece = vec![0; PIECE];
    while !over.load(Ordering::Relaxed) {
        if stream.read(&mut piece)? == 0 {
            break;
        }
    }
    Ok(())
}
