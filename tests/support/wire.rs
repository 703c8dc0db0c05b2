//! A mail server's connection to the milter, packet by packet.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The offer of Postfix: version 6, all actions, all steps that a milter may omit.
pub(crate) const OFFER: &[u8] = b"\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff";

/// Returns a packet as sent: its length, the letter of its command, and the rest.
///
/// # Panics
/// If its length does not fit.
pub(crate) fn packet(command: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 1).expect("a short packet");
    [&length.to_be_bytes()[..], &[command], payload].concat()
}

/// A connection at any point in a session. Each answer must come within two minutes.
///
/// # Panics
/// Its functions panic if the daemon ends the connection.
pub(crate) struct Wire(UnixStream);

impl Wire {
    /// Connects, and sends nothing.
    pub(crate) fn open(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("the daemon listens");
        let patience = Some(Duration::from_secs(120));
        stream.set_read_timeout(patience).expect("a socket");
        Self(stream)
    }

    /// Connects and negotiates.
    pub(crate) fn negotiated(path: &Path) -> Self {
        let mut wire = Self::open(path);
        assert_eq!(wire.ask(&[(b'O', OFFER)]), b'O');
        wire
    }

    /// Sends a part of a packet, or several.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the session is open");
    }

    /// Sends packets in one write.
    pub(crate) fn send(&mut self, packets: &[(u8, &[u8])]) {
        let packets: Vec<_> = packets
            .iter()
            .map(|(command, of)| packet(*command, of))
            .collect();
        self.write(&packets.concat());
    }

    /// Returns the letter of the next answer.
    ///
    /// # Errors
    /// If the connection ends, or after two minutes.
    pub(crate) fn try_answer(&mut self) -> io::Result<u8> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut answer)?;
        Ok(answer[0])
    }

    /// Returns the letter of the next answer.
    pub(crate) fn answer(&mut self) -> u8 {
        self.try_answer().expect("an answer")
    }

    /// Sends packets, of which only the last is answered. Returns the letter of the answer.
    pub(crate) fn ask(&mut self, packets: &[(u8, &[u8])]) -> u8 {
        self.send(packets);
        self.answer()
    }
}

/// A connection whose packets are sent as Postfix sends them.
pub(crate) struct Postfix(Wire);

impl Postfix {
    /// Connects for a client.
    pub(crate) fn connect(path: &Path) -> Self {
        let mut wire = Wire::negotiated(path);
        // Not answered.
        wire.send(&[
            (b'D', b"Cv\0Postfix 3.7.11\0"),
            (b'C', b"mail-ed1-f42.shop.example\x004\x1a\x8e192.0.2.142\0"),
        ]);
        Self(wire)
    }

    /// Sends an ordinary message, which is accepted; each of its senders must be read and looked up.
    pub(crate) fn message(&mut self) {
        let answer = self.0.ask(&[
            (b'D', b"M{mail_addr}\0bounce-1234@shop.example\0"),
            (b'M', b"<bounce-1234@shop.example>\0SIZE=23456\0"),
            (
                b'D',
                b"Ri\x004XyZ1k2lQzz9v8\0{rcpt_addr}\0bob@our.example\0",
            ),
            (b'R', b"<bob@our.example>\0"),
        ]);
        assert_eq!(answer, b'c');
        let answer = self.0.ask(&[
            (b'D', b"Li\x004XyZ1k2lQzz9v8\0"),
            (b'L', b"Message-ID\0<20261121050000.1234@shop.example>\0"),
            (b'L', b"From\0Jane Roe <jane.roe@shop.example>\0"),
            (b'L', b"Sender\0newsletter@shop.example\0"),
            (
                b'L',
                b"Reply-To\0\"Customer service\" <service@shop.example>\0",
            ),
            (b'L', b"Subject\0Your order\0"),
            (b'D', b"Ni\x004XyZ1k2lQzz9v8\0"),
            (b'N', b""),
        ]);
        assert_eq!(answer, b'a');
        self.0.send(&[(b'A', b"")]);
    }
}
