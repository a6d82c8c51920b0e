//! The protocol between an old and a new process: short messages over a pair of sockets, some with
//! a socket attached.
//!
//! The old process begins with a greeting that names the version of the protocol, sends each socket
//! with its purpose, and ends the list. The new one answers once, when it serves. An unknown
//! message ends the exchange: incompatible versions must have another greeting. A message that an
//! older version does not know is sent, and announced in the greeting, only if it is needed, so
//! that versions otherwise stay compatible.

use core::mem::MaybeUninit;
use core::time::Duration;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use socket2::{Domain, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most bytes of a message: a purpose and an address.
const MESSAGE_BYTES_MAX: usize = 256;

const GREETING: &str = "slackwater hand-over 1";
/// The greeting when a file with overrides follows.
const GREETING_WITH_OVERRIDES: &str = "slackwater hand-over 2";
const END: &str = "end";
const SERVING: &str = "serving";

/// The purpose of a descriptor that is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Requests, with the address as configured; with port 0 it differs from the socket's.
    Requests(core::net::SocketAddr),
    /// Status and metrics, with the address as configured.
    Admin(core::net::SocketAddr),
    /// Probes over UDP, with the address as configured.
    Probes(core::net::SocketAddr),
    /// Overrides: not a socket but a file in memory.
    Overrides,
}

const OVERRIDES: &str = "overrides";

impl Purpose {
    fn to_message(&self) -> String {
        match self {
            Self::Requests(address) => format!("requests {address}"),
            Self::Admin(address) => format!("admin {address}"),
            Self::Probes(address) => format!("probes {address}"),
            Self::Overrides => OVERRIDES.to_owned(),
        }
    }

    fn of_message(message: &str) -> Option<Self> {
        if message == OVERRIDES {
            return Some(Self::Overrides);
        }
        let (purpose, address) = message.split_once(' ')?;
        let address = address.parse().ok()?;
        match purpose {
            "requests" => Some(Self::Requests(address)),
            "admin" => Some(Self::Admin(address)),
            "probes" => Some(Self::Probes(address)),
            _ => None,
        }
    }
}

/// One end of the channel.
#[derive(Debug)]
pub(super) struct Channel(Socket);

/// Ends a channel from another thread when it is dropped: a call that waits on the channel then
/// returns as if the peer were gone.
#[derive(Debug)]
pub(super) struct Hold(Socket);

impl Drop for Hold {
    fn drop(&mut self) {
        // An error means that the channel has ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Channel {
    /// Returns both ends. A wait on one that is longer than `patience` fails.
    pub(super) fn pair(patience: Duration) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
        let ours = Self::bounded(ours, patience)?;
        Ok((ours, theirs.into()))
    }

    /// Returns a handle that ends the channel from another thread.
    pub(super) fn hold(&self) -> io::Result<Hold> {
        Ok(Hold(self.0.try_clone()?))
    }

    /// Wraps an end that was inherited from another process.
    pub(super) fn of(socket: OwnedFd, patience: Duration) -> io::Result<Self> {
        Self::bounded(socket.into(), patience)
    }

    fn bounded(socket: Socket, patience: Duration) -> io::Result<Self> {
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        Ok(Self(socket))
    }

    /// Sends all sockets.
    pub(super) fn send_sockets<'a>(
        &self,
        sockets: impl IntoIterator<Item = (&'a Purpose, BorrowedFd<'a>)>,
    ) -> io::Result<()> {
        let sockets: Vec<_> = sockets.into_iter().collect();
        let has_overrides = sockets.iter().any(|(it, _)| **it == Purpose::Overrides);
        let greeting = if has_overrides {
            GREETING_WITH_OVERRIDES
        } else {
            GREETING
        };
        self.send(greeting, None)?;
        for (purpose, socket) in sockets {
            self.send(&purpose.to_message(), Some(socket))?;
        }
        self.send(END, None)
    }

    /// Receives all sockets.
    pub(super) fn receive_sockets(&self) -> io::Result<Vec<(Purpose, OwnedFd)>> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let (greeting, _) = self.receive()?;
        if ![GREETING, GREETING_WITH_OVERRIDES].contains(&greeting.as_str()) {
            return Err(invalid(format!(
                "sockets come in a form that this version does not know: {greeting:?}"
            )));
        }
        let mut sockets = Vec::new();
        loop {
            let (message, socket) = self.receive()?;
            if message == END {
                return Ok(sockets);
            }
            let known = Purpose::of_message(&message).zip(socket);
            sockets.push(known.ok_or_else(|| invalid(format!("{message:?} is not understood")))?);
        }
    }

    /// Reports that the new process serves.
    pub(super) fn send_serving(&self) -> io::Result<()> {
        self.send(SERVING, None)
    }

    /// Waits for the report that the new process serves.
    pub(super) fn receive_serving(&self) -> io::Result<()> {
        match self.receive()? {
            (message, _) if message == SERVING => Ok(()),
            (message, _) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{message:?} is not understood"),
            )),
        }
    }

    fn send(&self, message: &str, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut attached = SendAncillaryBuffer::new(&mut space);
        let sockets: Vec<_> = socket.into_iter().collect();
        if !sockets.is_empty() {
            attached.push(SendAncillaryMessage::ScmRights(&sockets));
        }
        let text = [IoSlice::new(message.as_bytes())];
        // A peer that is gone is an error here, not a signal.
        let flags = SendFlags::NOSIGNAL;
        retried(|| sendmsg(self.0.as_fd(), &text, &mut attached, flags))?;
        Ok(())
    }

    fn receive(&self) -> io::Result<(String, Option<OwnedFd>)> {
        let mut text = [0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut attached = RecvAncillaryBuffer::new(&mut space);
        let received = retried(|| {
            let text = &mut [IoSliceMut::new(&mut text)];
            recvmsg(self.0.as_fd(), text, &mut attached, RecvFlags::CMSG_CLOEXEC)
        })?;
        let socket = attached.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let is_cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
        if received.flags.intersects(is_cut) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message was cut off",
            ));
        }
        let message = String::from_utf8_lossy(&text[..received.bytes]).into_owned();
        Ok((message, socket))
    }
}

fn retried<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            done => return Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    const PATIENCE: Duration = Duration::from_mins(1);

    fn ends(patience: Duration) -> (Channel, Channel) {
        let (ours, theirs) = Channel::pair(patience).expect("sockets");
        (ours, Channel::of(theirs, patience).expect("a socket"))
    }

    #[test]
    fn sockets_arrive_with_their_purpose_and_their_queue() {
        let (old, new) = ends(PATIENCE);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut client = TcpStream::connect(address).expect("it waits in the queue");
        client.write_all(b"hello").expect("sent");
        let purposes = [
            Purpose::Requests(address),
            Purpose::Admin("[::1]:9900".parse().expect("an address")),
            Purpose::Probes(address),
        ];
        let sending = purposes.iter().map(|purpose| (purpose, listener.as_fd()));
        old.send_sockets(sending).expect("sent");
        drop(listener);
        let received = new.receive_sockets().expect("received");
        let (names, sockets): (Vec<_>, Vec<_>) = received.into_iter().unzip();
        assert_eq!(names, purposes);
        let listener = TcpListener::from(sockets.into_iter().next().expect("a socket"));
        let (mut accepted, _) = listener.accept().expect("who waited is not lost");
        let mut text = [0; 5];
        accepted.read_exact(&mut text).expect("read");
        assert_eq!(&text, b"hello");
        new.send_serving().expect("sent");
        old.receive_serving().expect("received");
    }

    #[test]
    fn only_messages_unknown_to_older_versions_change_the_greeting() {
        let file = File::open("/dev/null").expect("on every system");
        let requests = Purpose::Requests("[::1]:80".parse().expect("an address"));
        for (purposes, greeting) in [
            (vec![], "slackwater hand-over 1"),
            (vec![requests.clone()], "slackwater hand-over 1"),
            (vec![requests, Purpose::Overrides], "slackwater hand-over 2"),
        ] {
            let send = |old: &Channel| {
                old.send_sockets(purposes.iter().map(|it| (it, file.as_fd())))
                    .expect("sent");
            };
            let (old, new) = ends(PATIENCE);
            send(&old);
            let (said, _) = new.receive().expect("a greeting");
            assert_eq!(said, greeting);
            let (old, new) = ends(PATIENCE);
            send(&old);
            let received = new.receive_sockets().expect("understood");
            let names: Vec<_> = received.into_iter().map(|(purpose, _)| purpose).collect();
            assert_eq!(names, purposes);
        }
    }

    #[test]
    fn closed_idle_or_unknown_channel_is_an_error() {
        let (old, new) = ends(Duration::from_millis(20));
        let error = old.receive_serving().expect_err("nothing was said");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        old.send("slackwater hand-over 3", None).expect("sent");
        let error = new.receive_sockets().expect_err("another form");
        assert!(error.to_string().contains("hand-over 3"), "{error}");
        new.send("sorry", None).expect("sent");
        let error = old.receive_serving().expect_err("no such word");
        assert!(error.to_string().contains("sorry"), "{error}");
        drop(new);
        let error = old.receive_serving().expect_err("it has gone");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(old.send_serving().is_err());
    }

    #[test]
    fn a_wait_ends_when_the_channel_is_cancelled() {
        let (old, _new) = ends(PATIENCE);
        let hold = old.hold().expect("a descriptor");
        let waiting = std::thread::spawn(move || old.receive_serving());
        drop(hold);
        let error = waiting.join().expect("no panic").expect_err("cancelled");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn message_without_a_valid_purpose_or_socket_is_refused() {
        for message in [
            "requests 127.0.0.1:80",
            "sounds 127.0.0.1:80",
            "requests here",
        ] {
            let (old, new) = ends(PATIENCE);
            old.send(GREETING, None).expect("sent");
            old.send(message, None).expect("sent");
            let error = new.receive_sockets().expect_err("not complete");
            assert!(error.to_string().contains(message), "{error}");
        }
        let (old, new) = ends(PATIENCE);
        old.send(&"x".repeat(MESSAGE_BYTES_MAX + 1), None)
            .expect("sent");
        assert!(new.receive_sockets().is_err());
    }
}
