//! Splits the byte stream into length-prefixed packets.
//!
//! A packet that is complete in the input is returned in place. Only an incomplete one is copied,
//! and only as much as its kind may keep: memory is allocated for received bytes, never for an
//! announced length. Unwanted bytes and the payload of unwanted packets are skipped, and only
//! counted: closing the connection because of a long packet would let the message pass unchecked.
//!
//! ```text
//!            | 4 bytes: N, big-endian | code | payload, N - 1 bytes          |
//!  kept                                       | up to `keep` | skipped       |
//! ```

use super::error::ProtocolError;
use super::protocol::Command;

/// Most bytes kept of a header packet: name, value and their two NULs. Postfix sends up to
/// `header_size_limit`, 102,400 bytes by default.
pub const HEADER_BYTES_MAX: usize = 128 << 10;

/// Longest payload of any kind; mail servers never announce more. It allows the largest chunks with
/// which Sendmail can be built.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// The length of a packet's length field and code.
const PREFIX_BYTES: usize = 5;

/// A buffer of an incomplete packet that is larger than this is freed.
const HELD_BYTES_KEPT: usize = 1024;

/// One packet: its command, and the part of its payload that is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packet<'p> {
    pub(super) command: Command,
    pub(super) payload: &'p [u8],
}

/// What there is at the start of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'p> {
    Packet(Packet<'p>),
    /// A part of a packet, or nothing. It is taken.
    Incomplete,
    TooLong,
}

/// Splits the stream of one connection into packets.
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
    /// Returns whether the stream is inside an incomplete packet.
    pub(super) fn is_inside(&self) -> bool {
        self.excess > 0 || (!self.handed_out && !self.held.is_empty())
    }

    /// Returns the received part of an incomplete packet, and how many bytes of the last one must
    /// still be skipped.
    pub(super) fn unfinished(&self) -> (&[u8], u32) {
        let begun = if self.handed_out { &[] } else { &*self.held };
        (begun, u32::try_from(self.excess).unwrap_or(u32::MAX))
    }

    /// Skips the next bytes.
    pub(super) fn skip(&mut self, bytes: u32) {
        self.excess += bytes as usize;
    }

    /// Begins a new stream.
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
        self.excess -= take(input, self.excess).len();
        if self.excess > 0 {
            return Ok(Next::Incomplete);
        }
        if self.held.is_empty() {
            if let Some(prefix) = input.first_chunk() {
                let shape = Shape::read(*prefix, keep)?;
                if let Some(packet) = input.get(..PREFIX_BYTES + shape.keep) {
                    if packet.len() > most {
                        return Ok(Next::TooLong);
                    }
                    take(input, packet.len());
                    self.excess = shape.excess;
                    let payload = packet.get(PREFIX_BYTES..).unwrap_or_default();
                    return Ok(Next::Packet(Packet {
                        command: shape.command,
                        payload,
                    }));
                }
            }
            self.held.extend_from_slice(take(input, input.len()));
            return Ok(Next::Incomplete);
        }
        self.top_up(input, PREFIX_BYTES);
        let Some(prefix) = self.held.first_chunk() else {
            return Ok(Next::Incomplete);
        };
        let shape = Shape::read(*prefix, keep)?;
        self.top_up(input, PREFIX_BYTES + shape.keep);
        if self.held.len() < PREFIX_BYTES + shape.keep {
            return Ok(Next::Incomplete);
        }
        if self.held.len() > most {
            return Ok(Next::TooLong);
        }
        self.excess = shape.excess;
        self.handed_out = true;
        let payload = self.held.get(PREFIX_BYTES..).unwrap_or_default();
        Ok(Next::Packet(Packet {
            command: shape.command,
            payload,
        }))
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

/// The command of a packet, and how many bytes of its payload are kept and skipped.
struct Shape {
    command: Command,
    keep: usize,
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
            keep,
            excess: payload - keep,
        })
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

/// Takes up to `len` bytes from the start of `input`.
fn take<'a>(input: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (front, rest) = input.split_at(len.min(input.len()));
    *input = rest;
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(command: Command) -> usize {
        match command {
            Command::Mail => 16,
            Command::Header => 4,
            _ => 0,
        }
    }

    /// Returns all packets of `stream`, given in pieces of `step` bytes.
    fn packets(stream: &[u8], step: usize) -> Result<Vec<(Command, Vec<u8>)>, ProtocolError> {
        let mut packets = Packets::default();
        let mut found = Vec::new();
        for mut piece in stream.chunks(step) {
            while let Next::Packet(packet) = packets.next(&mut piece, keep, usize::MAX)? {
                found.push((packet.command, packet.payload.to_vec()));
            }
            assert!(piece.is_empty(), "an incomplete packet takes all there is");
        }
        Ok(found)
    }

    #[test]
    fn every_split_gives_the_same_packets() {
        let stream = b"\0\0\0\x05M<a>\0\0\0\0\x09Labcdefgh\0\0\0\x06Bxxxxx\0\0\0\x01A";
        let expected = vec![
            (Command::Mail, b"<a>\0".to_vec()),
            (Command::Header, b"abcd".to_vec()),
            (Command::Body, Vec::new()),
            (Command::Abort, Vec::new()),
        ];
        for step in 1..=stream.len() {
            assert_eq!(
                packets(stream, step).as_ref(),
                Ok(&expected),
                "pieces of {step}"
            );
        }
    }

    #[test]
    fn a_packet_that_is_too_long_is_left_for_later() {
        let stream = b"\0\0\0\x05M<a>\0\0\0\0\x09Labcdefgh";
        for split in 0..stream.len() {
            let (mut before, mut after) = stream.split_at(split);
            let mut packets = Packets::default();
            let mut found = Vec::new();
            for piece in [&mut before, &mut after] {
                // Of the second packet, nine bytes are kept.
                for most in [8, 9] {
                    while let Next::Packet(packet) = packets.next(piece, keep, most).unwrap() {
                        found.push((most, packet.command));
                    }
                }
            }
            assert_eq!(found, [(9, Command::Mail), (9, Command::Header)], "{split}");
        }
    }

    #[test]
    fn lengths_out_of_bounds_are_refused_before_any_payload_is_kept() {
        for (prefix, code, length) in [
            (*b"\0\0\0\0M", b'M', 0),
            (*b"\0\x10\0\x02M", b'M', 0x0010_0002),
            (*b"\0\x10\0\x02B", b'B', 0x0010_0002),
            (*b"\xff\xff\xff\xffZ", b'Z', u32::MAX),
        ] {
            for step in [1, 5] {
                let expected = ProtocolError::Length { code, length };
                assert_eq!(packets(&prefix, step), Err(expected));
            }
        }
    }

    #[test]
    fn an_announced_length_takes_no_memory() {
        let mut packets = Packets::default();
        let mut input: &[u8] = b"\0\x0f\xff\xffL";
        assert_eq!(
            packets.next(&mut input, keep, usize::MAX),
            Ok(Next::Incomplete)
        );
        assert!(packets.is_inside());
        assert!(packets.held.capacity() < 64);
    }

    #[test]
    fn the_memory_of_a_large_packet_is_given_back() {
        let large = |_| PAYLOAD_BYTES_MAX;
        let most = usize::MAX;
        let mut packets = Packets::default();
        let mut stream = 60_001_u32.to_be_bytes().to_vec();
        stream.resize(4 + 60_001, b'L');
        let (mut head, mut tail) = stream.split_at(30_000);
        assert_eq!(packets.next(&mut head, large, most), Ok(Next::Incomplete));
        assert!(matches!(
            packets.next(&mut tail, large, most),
            Ok(Next::Packet(_))
        ));
        assert!(!packets.is_inside());
        assert_eq!(packets.next(&mut tail, large, most), Ok(Next::Incomplete));
        assert_eq!(packets.held.capacity(), 0);
    }
}
