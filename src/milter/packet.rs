//! Splits the byte stream into length-prefixed packets.
//!
//! A packet that is complete in the input is returned in place. Only an incomplete one is copied,
//! and only as much as its kind may keep: memory is allocated for received bytes, never for an
//! announced length. Unwanted bytes and the payload of unwanted packets are skipped, and only
//! counted: closing the connection because of a long packet would let the message pass unchecked.

use super::error::ProtocolError;
use super::protocol::Command;

/// Most bytes kept of a header packet: name, value and their two NULs. Postfix sends up to
/// `header_size_limit`, 102,400 bytes by default.
pub const HEADER_BYTES_MAX: usize = 128 << 10;

/// Longest payload of any kind; mail servers never announce more. It allows the largest chunks with
/// which Sendmail can be built.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;

const PREFIX_BYTES: usize = 5;

/// A buffer of an incomplete packet that is larger than this is freed.
const HELD_BYTES_KEPT: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'p> {
    /// A command, and its payload as far as it is kept.
    Packet(Command, &'p [u8]),
    /// A part of a packet, or nothing. It is taken.
    Incomplete,
    TooLong,
}

#[derive(Debug, Default)]
pub(super) struct Packets {
    /// The received part of an incomplete packet, with its prefix.
    held: Vec<u8>,
    /// Whether the packet in `held` was returned; the next call frees its memory.
    handed_out: bool,
    /// Bytes of the last packet that must still be skipped.
    excess: usize,
}

impl Packets {
    pub(super) fn is_inside(&self) -> bool {
        self.excess > 0 || (!self.handed_out && !self.held.is_empty())
    }

    /// Returns the received part of an incomplete packet, and how many bytes to skip.
    pub(super) fn unfinished(&self) -> (&[u8], u32) {
        let begun = if self.handed_out { &[] } else { &*self.held };
        (begun, u32::try_from(self.excess).unwrap_or(u32::MAX))
    }

    pub(super) fn skip(&mut self, bytes: u32) {
        self.excess += bytes as usize;
    }

    pub(super) fn renew(&mut self) {
        self.drop_held();
        self.excess = 0;
    }

    fn drop_held(&mut self) {
        self.handed_out = false;
        if self.held.capacity() > HELD_BYTES_KEPT {
            self.held = Vec::new();
        } else {
            self.held.clear();
        }
    }

    /// Takes the next packet from the start of `input`. `keep` returns the number of payload bytes
    /// wanted of a command; a packet with more than `most` bytes, without those, is not taken.
    pub(super) fn next<'p, 'i: 'p>(
        &'p mut self,
        input: &mut &'i [u8],
        keep: impl Fn(Command) -> usize,
        most: usize,
    ) -> Result<Next<'p>, ProtocolError> {
        if self.handed_out {
            self.drop_held();
        }
        if self.excess > 0 {
            self.excess -= take(input, self.excess).len();
            if self.excess > 0 {
                return Ok(Next::Incomplete);
            }
        }
        if self.held.is_empty()
            && let Some(prefix) = input.first_chunk()
        {
            let shape = Shape::read(*prefix, &keep)?;
            if input.len() >= shape.length {
                if shape.length > most {
                    return Ok(Next::TooLong);
                }
                self.excess = shape.excess;
                return Ok(shape.packet(take(input, shape.length)));
            }
        }
        self.top_up(input, PREFIX_BYTES);
        let Some(prefix) = self.held.first_chunk() else {
            return Ok(Next::Incomplete);
        };
        let shape = Shape::read(*prefix, keep)?;
        self.top_up(input, shape.length);
        if self.held.len() < shape.length {
            return Ok(Next::Incomplete);
        }
        if shape.length > most {
            return Ok(Next::TooLong);
        }
        self.excess = shape.excess;
        self.handed_out = true;
        Ok(shape.packet(&self.held))
    }

    /// Moves input to the held bytes until there are `len` of them.
    fn top_up(&mut self, input: &mut &[u8], len: usize) {
        let missing = len.saturating_sub(self.held.len());
        let more = take(input, missing);
        // Double the capacity, as a vector does, but to no more than the whole packet.
        let wanted = self.held.len() + more.len();
        if wanted > self.held.capacity() {
            let capacity = (self.held.capacity() * 2).clamp(wanted, len);
            self.held.reserve_exact(capacity - self.held.len());
        }
        self.held.extend_from_slice(more);
    }
}

/// The command of a packet, and how much of it is wanted.
struct Shape {
    command: Command,
    /// Bytes that are kept, with the prefix.
    length: usize,
    /// Bytes of the payload that are skipped.
    excess: usize,
}

impl Shape {
    fn read(
        prefix: [u8; PREFIX_BYTES],
        keep: impl Fn(Command) -> usize,
    ) -> Result<Self, ProtocolError> {
        let [a, b, c, d, code] = prefix;
        let length = u32::from_be_bytes([a, b, c, d]);
        let payload = (length as usize)
            .checked_sub(1)
            .filter(|&payload| payload <= PAYLOAD_BYTES_MAX)
            .ok_or(ProtocolError::Length { code, length })?;
        let command = Command::of_code(code).ok_or(ProtocolError::Unknown(code))?;
        let keep = payload.min(keep(command));
        Ok(Self {
            command,
            length: PREFIX_BYTES + keep,
            excess: payload - keep,
        })
    }

    fn packet<'p>(&self, bytes: &'p [u8]) -> Next<'p> {
        let payload = bytes.get(PREFIX_BYTES..).unwrap_or_default();
        Next::Packet(self.command, payload)
    }
}

/// Appends one packet whose payload is the concatenation of these parts.
pub(super) fn write_packet(out: &mut Vec<u8>, code: u8, payload: &[&[u8]]) {
    let len = 1 + payload.iter().map(|part| part.len()).sum::<usize>();
    let len = u32::try_from(len).expect("replies and edits are bounded far below 4 GiB");
    out.extend_from_slice(&len.to_be_bytes());
    out.push(code);
    for part in payload {
        out.extend_from_slice(part);
    }
}

/// Divides packets before the first of this command.
pub(super) fn split_at(packets: &[u8], command: Command) -> (&[u8], &[u8]) {
    let mut rest = packets;
    while let Some([a, b, c, d, code, ..]) = rest.first_chunk::<PREFIX_BYTES>()
        && *code != command.code()
    {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        rest = rest.get(4 + length..).unwrap_or_default();
    }
    packets.split_at(packets.len() - rest.len())
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (front, rest) = input.split_at(len.min(input.len()));
    *input = rest;
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(bytes: &[u8]) -> Result<usize, ProtocolError> {
        let mut packets = Packets::default();
        for piece in bytes.chunks(3) {
            packets.next(&mut &*piece, |_| PAYLOAD_BYTES_MAX, usize::MAX)?;
        }
        Ok(packets.held.capacity())
    }

    #[test]
    fn lengths_out_of_bounds_are_refused_and_others_take_no_memory() {
        for (prefix, code, length) in [
            (b"\0\0\0\0M", b'M', 0),
            (b"\0\x10\0\x02B", b'B', 0x0010_0002),
            (b"\xff\xff\xff\xffZ", b'Z', u32::MAX),
        ] {
            let expected = ProtocolError::Length { code, length };
            assert_eq!(next(prefix), Err(expected));
        }
        let held = next(b"\0\x10\0\x01Labc").expect("the longest packet");
        assert!(held < 64, "{held}");
    }
}
