//! Counts fields of an encoded message before it is decoded.
//!
//! A repeated field of two bytes on the wire becomes a hundred in memory. So the entries are
//! counted first, and a message with too many is not decoded at all.

/// The bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a protobuf message")]
pub(crate) struct Malformed;

/// Counts the length-delimited fields at `path`: at `[2, 3]` the fields 3 of all fields 2.
pub(crate) fn count(mut message: &[u8], path: &[u32]) -> Result<usize, Malformed> {
    let Some((wanted, inner)) = path.split_first() else {
        return Ok(1);
    };
    let mut count = 0;
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed)?;
        match key & 7 {
            0 => {
                varint(&mut message)?;
            }
            1 => skip(&mut message, 8)?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).map_err(|_| Malformed)?;
                let (field, rest) = message.split_at_checked(length).ok_or(Malformed)?;
                message = rest;
                if number == *wanted {
                    count += self::count(field, inner)?;
                }
            }
            5 => skip(&mut message, 4)?,
            // Groups are not used in any message of xDS.
            _ => return Err(Malformed),
        }
    }
    Ok(count)
}

fn skip(message: &mut &[u8], count: usize) -> Result<(), Malformed> {
    *message = message.get(count..).ok_or(Malformed)?;
    Ok(())
}

fn varint(message: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first().ok_or(Malformed)?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};
    use proptest::prelude::*;
    use prost::Message;

    #[test]
    fn fields_are_counted_at_every_depth() {
        let locality = |count| LocalityLbEndpoints {
            lb_endpoints: vec![LbEndpoint::default(); count],
            priority: 3,
            ..LocalityLbEndpoints::default()
        };
        let assignment = ClusterLoadAssignment {
            cluster_name: "web".to_owned(),
            endpoints: vec![locality(3), locality(0), locality(4)],
            policy: None,
        };
        let bytes = assignment.encode_to_vec();
        assert_eq!(count(&bytes, &[2]), Ok(3));
        assert_eq!(count(&bytes, &[2, 2]), Ok(7));
        assert_eq!(count(&bytes, &[4]), Ok(0));
        assert_eq!(count(&bytes[..bytes.len() - 1], &[2, 2]), Err(Malformed));
    }

    #[test]
    fn wire_types_are_skipped_and_groups_refused() {
        let fixed = [0x09, 1, 2, 3, 4, 5, 6, 7, 8, 0x0d, 1, 2, 3, 4, 0x12, 0];
        assert_eq!(count(&fixed, &[2]), Ok(1));
        for wrong in [&[0x0b][..], &[0x09, 1], &[0x08], &[0x80; 11], &[0x12, 2, 0]] {
            assert_eq!(count(wrong, &[2]), Err(Malformed), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn a_message_that_is_decoded_was_counted(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let (Ok(decoded), Ok(localities)) =
                (ClusterLoadAssignment::decode(&bytes[..]), count(&bytes, &[2]))
            {
                prop_assert_eq!(decoded.endpoints.len(), localities);
            }
        }
    }
}
