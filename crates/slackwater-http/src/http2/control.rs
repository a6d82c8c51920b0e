//! Frames about the connection: settings, pings, its end. RFC 9113 §6.5, §6.7, §6.8

use super::connection::{Connection, LEAVING, Role, State};
use super::frame::{self, FrameHead, flag, kind};
use super::reason::{Lost, Reason};
use super::settings::Settings;
use super::streams::Key;

impl Connection {
    pub(super) fn settings(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Reason> {
        if head.stream != 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if head.has(flag::ACK) {
            let is_empty = payload.is_empty();
            return is_empty.then_some(()).ok_or(Reason::FRAME_SIZE_ERROR);
        }
        let is_client = self.config.role == Role::Server;
        let before: Settings = self.theirs;
        let encoder = &mut self.encoder;
        let of_table = |bytes_max| encoder.set_table_bytes_max(bytes_max);
        self.theirs.read(payload, is_client, of_table)?;
        self.reading.awaits_settings = false;
        // Each change visits all streams, so the number of changes is limited.
        if self.theirs.stream_window != before.stream_window {
            self.count_fault()?;
        }
        let answer = FrameHead {
            length: 0,
            kind: kind::SETTINGS,
            flags: flag::ACK,
            stream: 0,
        };
        answer.write(self.out.text());
        Ok(())
    }

    /// Applies the window of the last settings to all streams. Must be called once for all frames
    /// that were read together: windows of settings in between do not matter.
    pub(super) fn apply_window_of_streams(&mut self) -> Result<(), Reason> {
        let before = core::mem::replace(&mut self.stream_window, self.theirs.stream_window);
        let more = i64::from(self.stream_window) - i64::from(before);
        if more != 0 {
            // The windows of closed streams are no longer kept.
            let open = self.streams.iter_mut().map(|(_, stream)| stream);
            for stream in open.filter(|stream| !stream.is_closed()) {
                let grown = stream.sends.grow(more);
                grown.map_err(|_| Reason::FLOW_CONTROL_ERROR)?;
                if stream.sends.room() > 0 && core::mem::take(&mut stream.is_shut) {
                    stream.wake_writer();
                }
            }
        }
        Ok(())
    }

    pub(super) fn ping(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Reason> {
        if head.stream != 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let opaque: [u8; 8] = payload.try_into().map_err(|_| Reason::FRAME_SIZE_ERROR)?;
        if !head.has(flag::ACK) {
            frame::write_ping(self.out.text(), flag::ACK, opaque);
        } else if opaque == LEAVING && self.state == State::Announced {
            self.leave_now();
        }
        Ok(())
    }

    /// Handles GOAWAY. RFC 9113 §6.8
    pub(super) fn goaway(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Reason> {
        if head.stream != 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let (last, reason) = payload
            .split_first_chunk::<4>()
            .and_then(|(last, rest)| Some((u32::from_be_bytes(*last), frame::number(rest)?)))
            .ok_or(Reason::FRAME_SIZE_ERROR)?;
        self.goaway = Some(Reason(reason));
        if self.config.role == Role::Client {
            let last = last & 0x7fff_ffff;
            let turned_away: Vec<Key> = self
                .streams
                .iter_mut()
                .filter(|(_, stream)| !stream.is_closed() && stream.id > last)
                .map(|(key, _)| key)
                .collect();
            for key in turned_away {
                self.streams[key].lose(Lost::TurnedAway);
                self.settle(key);
            }
        }
        Ok(())
    }
}
