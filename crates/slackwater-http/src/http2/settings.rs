//! Settings that each side sends. RFC 9113 §6.5

use super::Reason;
use super::frame::{FrameHead, kind};
use super::window::{WINDOW_FIRST, WINDOW_MAX};
use bytes::{BufMut, BytesMut};

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;

/// The size of one setting in octets.
const SETTING_BYTES: usize = 6;

/// Frames up to this length are always allowed, and we do not allow longer ones. RFC 9113 §4.2
pub(super) const FRAME_BYTES_FIRST: usize = 16 << 10;

const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;

/// The peer's settings, as far as we use them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// `None`: no limit.
    pub(super) streams_max: Option<u32>,
    pub(super) stream_window: u32,
    pub(super) frame_bytes_max: usize,
}

impl Settings {
    /// The defaults until the peer's settings arrive.
    pub(super) const FIRST: Self = Self {
        streams_max: None,
        stream_window: WINDOW_FIRST,
        frame_bytes_max: FRAME_BYTES_FIRST,
    };

    /// Reads a frame's payload into `self`. `is_client`: the peer is a client. `of_table` is called
    /// for every size of the header table, since a small one matters even if a larger one follows.
    /// RFC 7541 §4.2
    pub(super) fn read(
        &mut self,
        payload: &[u8],
        is_client: bool,
        mut of_table: impl FnMut(u32),
    ) -> Result<(), Reason> {
        let settings = payload.chunks_exact(SETTING_BYTES);
        if !settings.remainder().is_empty() {
            return Err(Reason::FRAME_SIZE_ERROR);
        }
        for setting in settings {
            let &[i0, i1, v0, v1, v2, v3] = setting else {
                continue;
            };
            let value = u32::from_be_bytes([v0, v1, v2, v3]);
            match u16::from_be_bytes([i0, i1]) {
                HEADER_TABLE_SIZE => of_table(value),
                // A server has nothing to allow. RFC 9113 §6.5.2
                ENABLE_PUSH if value > u32::from(is_client) => return Err(Reason::PROTOCOL_ERROR),
                MAX_CONCURRENT_STREAMS => self.streams_max = Some(value),
                INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                    return Err(Reason::FLOW_CONTROL_ERROR);
                }
                INITIAL_WINDOW_SIZE => self.stream_window = value,
                MAX_FRAME_SIZE => {
                    if value > FRAME_BYTES_MAX || (value as usize) < FRAME_BYTES_FIRST {
                        return Err(Reason::PROTOCOL_ERROR);
                    }
                    self.frame_bytes_max = value as usize;
                }
                // The advisory limit for heads is left to the code that makes heads; other settings
                // have no meaning to us.
                _ => (),
            }
        }
        Ok(())
    }
}

/// Our own settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours {
    pub(super) is_client: bool,
    pub(super) streams_max: u32,
    pub(super) stream_window: u32,
    pub(super) head_bytes_max: u32,
}

impl Ours {
    pub(super) fn write(self, out: &mut BytesMut) {
        let ours = [
            if self.is_client {
                (ENABLE_PUSH, 0)
            } else {
                (MAX_CONCURRENT_STREAMS, self.streams_max)
            },
            (INITIAL_WINDOW_SIZE, self.stream_window),
            (MAX_HEADER_LIST_SIZE, self.head_bytes_max),
        ];
        let head = FrameHead {
            length: ours.len() * SETTING_BYTES,
            kind: kind::SETTINGS,
            flags: 0,
            stream: 0,
        };
        head.write(out);
        for (id, value) in ours {
            out.put_u16(id);
            out.put_u32(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: u16, value: u32, is_client: bool) -> Result<Settings, Reason> {
        let mut settings = Settings::FIRST;
        let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        settings
            .read(&payload, is_client, |_| ())
            .map(|()| settings)
    }

    #[test]
    fn setting_values_are_checked() {
        let refused = |id, value, is_client| read(id, value, is_client).err();
        let protocol = Some(Reason::PROTOCOL_ERROR);
        assert_eq!(refused(ENABLE_PUSH, 1, true), None);
        assert_eq!(refused(ENABLE_PUSH, 2, true), protocol);
        assert_eq!(refused(ENABLE_PUSH, 0, false), None);
        assert_eq!(refused(ENABLE_PUSH, 1, false), protocol);
        assert_eq!(refused(INITIAL_WINDOW_SIZE, WINDOW_MAX, true), None);
        let flow = Some(Reason::FLOW_CONTROL_ERROR);
        assert_eq!(refused(INITIAL_WINDOW_SIZE, WINDOW_MAX + 1, true), flow);
        assert_eq!(refused(MAX_FRAME_SIZE, 16_383, true), protocol);
        assert_eq!(refused(MAX_FRAME_SIZE, 16_384, true), None);
        assert_eq!(refused(MAX_FRAME_SIZE, FRAME_BYTES_MAX, true), None);
        assert_eq!(refused(MAX_FRAME_SIZE, FRAME_BYTES_MAX + 1, true), protocol);
        assert_eq!(refused(0xfafa, u32::MAX, true), None);
    }

    #[test]
    fn truncated_settings_are_rejected() {
        let mut settings = Settings::FIRST;
        let read = settings.read(&[0; 5], true, |_| ());
        assert_eq!(read, Err(Reason::FRAME_SIZE_ERROR));
    }

    #[test]
    fn last_duplicate_setting_wins_except_table_size() {
        let mut settings = Settings::FIRST;
        let payload = [
            [0, 3, 0, 0, 0, 7],
            [0, 1, 0, 0, 0, 0],
            [0, 3, 0, 0, 0, 9],
            [0, 1, 0, 0, 0, 5],
        ]
        .concat();
        let mut of_table = Vec::new();
        let read = settings.read(&payload, true, |bytes_max| of_table.push(bytes_max));
        assert_eq!(read, Ok(()));
        assert_eq!(settings.streams_max, Some(9));
        assert_eq!(of_table, [0, 5]);
    }
}
