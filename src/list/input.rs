//! Where the bytes of a list come from: a file or standard input, packed or not.
//!
//! Whether a list is packed is told by its first bytes, never by its name: feeds
//! are renamed on their way. Both formats may hold several members or frames one
//! after the other (`cat a.gz b.gz`); all of them are read.

use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Opens a list for reading; `-` is standard input.
///
/// # Errors
///
/// What opening the file or reading its first bytes gave.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if path.as_os_str() == "-" {
        unpack(io::stdin())
    } else {
        unpack(File::open(path)?)
    }
}

/// Reads `input`, unpacking it when its first bytes say gzip or zstd.
///
/// # Errors
///
/// What reading the first bytes gave. A damaged or cut-off archive is an error
/// when it is read, never a shorter list.
pub fn unpack(mut input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::with_capacity(4);
    input.by_ref().take(4).read_to_end(&mut head)?;
    let packed = Packed::of(&head);
    let whole = Cursor::new(head).chain(input);
    Ok(match packed {
        Packed::Not => Box::new(whole),
        Packed::Gzip => Box::new(MultiGzDecoder::new(whole)),
        Packed::Zstd => Box::new(Zstd::new(whole)),
    })
}

#[derive(Clone, Copy)]
enum Packed {
    Not,
    Gzip,
    Zstd,
}

impl Packed {
    fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Self::Zstd,
            // A skippable frame, as parallel zstd writers put first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Self::Zstd,
            _ => Self::Not,
        }
    }
}

/// Several zstd frames one after the other, read as one stream.
struct Zstd<R> {
    input: Chain<Cursor<Vec<u8>>, R>,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: Read> Zstd<R> {
    fn new(input: Chain<Cursor<Vec<u8>>, R>) -> Self {
        Self {
            input,
            decoder: FrameDecoder::new(),
            in_frame: false,
        }
    }

    /// Goes to the next frame that holds data; false at the end of the input.
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
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame {
                if !self.next_frame()? {
                    return Ok(0);
                }
                self.in_frame = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            self.in_frame = false;
        }
    }
}
