//! Compressed lists: gzip, zstd, bzip2 and xz.
//!
//! A compressed list is recognized by its first bytes, never by its name: feeds get renamed. All
//! members, frames or streams of a file are read, one after the other (`cat a.gz b.gz`). A damaged or
//! truncated file is an error, never a shorter list, and so is one that unpacks to far more than any
//! list does ([`MAX_RATIO`]).

use std::error::Error;
use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// A list that unpacks to more than this many times its size is refused: addresses shrink to a
/// tenth or less, the zeros of a decompression bomb to a thousandth (gzip) or a millionth (xz).
pub(super) const MAX_RATIO: u64 = 250;
/// Below this size the ratio does not matter. Tests use less.
pub(super) const MIN_BOMB_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };
/// Maximum memory for an xz stream, in KiB; `xz -9` needs 65 MiB.
const MAX_XZ_MEMORY_KIB: u32 = 256 << 10;

/// Number of bytes that tell how an input is compressed.
const HEAD_BYTES: u64 = 6;

/// Formats that are not supported, by their first bytes.
pub(super) const NOT_READ: &[(&[u8], &str)] = &[
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x04\x22\x4d\x18", "an lz4 file"),
    // Supported only in a file, where the directory at the end can be read first.
    (b"PK\x03\x04", "a ZIP archive on standard input"),
    (b"PK\x05\x06", "a ZIP archive on standard input"),
];

/// Text, or bytes of which it is made.
type Input = Box<dyn Read + Send>;
type Unpack = fn(Input) -> Input;

/// Returns how an input with these first bytes is compressed, and what unpacks it.
fn packed(head: &[u8]) -> Option<(&'static str, Unpack)> {
    Some(match head {
        [0x1f, 0x8b, 8, ..] => ("gzip", |input| Box::new(MultiGzDecoder::new(input))),
        // The latter is a skippable frame; parallel zstd compressors write one first.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => ("zstd", |input| {
            Box::new(Zstd {
                input,
                decoder: FrameDecoder::new(),
            })
        }),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => {
            ("bzip2", |input| Box::new(MultiBzDecoder::new(input)))
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => ("xz", |input| {
            Box::new(XzReader::new_mem_limit(input, true, MAX_XZ_MEMORY_KIB))
        }),
        _ => return None,
    })
}

/// Returns whether the first bytes are those of a tar archive.
pub(super) fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

pub(super) fn is_packed(head: &[u8]) -> bool {
    packed(head).is_some() || NOT_READ.iter().any(|(start, _)| head.starts_with(start))
}

/// Returns `input`, unpacked if its first bytes say that it is compressed.
pub(crate) fn unpacked(mut input: impl Read + Send + 'static) -> io::Result<Input> {
    let head = first_bytes(&mut input, HEAD_BYTES)?;
    if let Some((_, what)) = NOT_READ.iter().find(|(start, _)| head.starts_with(start)) {
        return Err(invalid(format!("{what} is not read; unpack it first")));
    }
    let packed = packed(&head);
    let input = Metered::new(input);
    let bytes_in = Arc::clone(&input.bytes);
    let whole = Box::new(Cursor::new(head).chain(input));
    Ok(match packed {
        None => whole,
        Some((format, decoder)) => Box::new(Unpacked {
            decoder: decoder(whole),
            format,
            bytes_in,
            bytes_out: 0,
        }),
    })
}

/// Reads the first `most` bytes, or all if there are fewer.
pub(super) fn first_bytes(input: &mut impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    input.take(most).read_to_end(&mut head)?;
    Ok(head)
}

/// Counts the bytes that are read.
pub(super) struct Metered<R> {
    input: R,
    pub(super) bytes: Arc<AtomicU64>,
}

impl<R> Metered<R> {
    pub(super) fn new(input: R) -> Self {
        let bytes = Arc::default();
        Self { input, bytes }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The output of a decoder; its errors are reworded to say what to do.
struct Unpacked {
    decoder: Input,
    format: &'static str,
    bytes_in: Arc<AtomicU64>,
    bytes_out: u64,
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(buffer).map_err(|error| {
            let what = match error.kind() {
                io::ErrorKind::UnexpectedEof => "is truncated, or other data follows it",
                io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                    "is damaged, or other data follows it"
                }
                // The file could not be read: not an error of the decoder.
                _ => return error,
            };
            let format = self.format;
            let message = format!("its {format} data {what} ({error}); download it again");
            io::Error::new(error.kind(), message)
        })?;
        self.bytes_out += count as u64;
        refuse_bomb(self.bytes_in.load(Ordering::Relaxed), self.bytes_out)?;
        Ok(count)
    }
}

/// Refuses a decompression bomb: no list unpacks from so few bytes to so many.
pub(super) fn refuse_bomb(packed_bytes: u64, bytes: u64) -> io::Result<()> {
    if bytes < MIN_BOMB_BYTES || bytes / MAX_RATIO < packed_bytes {
        return Ok(());
    }
    Err(invalid(format!(
        "decompresses to more than {MAX_RATIO} times its size, like a decompression bomb; decompress it first if it is a list"
    )))
}

pub(super) fn invalid(what: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Several zstd frames one after the other, read as one stream.
struct Zstd {
    input: Input,
    decoder: FrameDecoder,
}

impl Zstd {
    /// Goes to the next frame with data; returns false at the end of the input.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            let mut first = [0];
            if self.input.read(&mut first)? == 0 {
                return Ok(false);
            }
            let mut rest = Cursor::new(first).chain(&mut self.input);
            match self.decoder.reset(&mut rest) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut self.input.by_ref().take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(invalid(error)),
            }
        }
    }
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.decoder.can_collect() == 0 && !buffer.is_empty() {
            if !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(invalid)?;
                continue;
            }
            let written = self.decoder.get_checksum_from_data();
            if written.is_some() && written != self.decoder.get_calculated_checksum() {
                return Err(invalid("wrong checksum of a zstd frame"));
            }
            if !self.next_frame()? {
                return Ok(0);
            }
        }
        self.decoder.read(buffer)
    }
}
