//! Work grows in proportion to the text, whatever is repeated in it.
//!
//! A reader that searches back, or forward from each byte, is fast on every real text, and very
//! slow on one that is made for it. Nobody can think of all such texts, so they are generated: one
//! to five tokens, from all that have a meaning for some reader, are repeated between a beginning
//! and an end, and each reader gets the same text in several lengths.
//!
//! The test measures the processor time of this thread. Other programs do not add to it, and other
//! effects (a cold cache, a slow clock) are small: for a text four times as long, a linear reader
//! takes four times as long, a quadratic one sixteen times, and [`MOST_GROWTH`] is between these. A
//! text fails only if the *shortest* of several times is too long. Lengths grow step by step, and
//! the first failure ends the trial, so it takes a second, not the minutes that a quadratic reader
//! needs for a long text.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::fmt;
use std::io::{self, Read};
use std::time::Duration;

use blocklist_milter::address::{Canonical, Entry, Rules};
use blocklist_milter::compile::Block;
use blocklist_milter::list::{self, Declared, Format, Reader, Reading, Row};
use blocklist_milter::sender::{Identity, Senders};
use rustix::time::{ClockId, clock_gettime};

/// Tokens with a meaning for some reader, including bytes that are not UTF-8.
const TOKENS: &[&[u8]] = &[
    b"\x80",
    b"\xbf",
    b"\xc3",
    b"\xe2\x80",
    b"\xf0\x9f",
    b"\xff",
    b"\xed\xa0\x80",
    b"\"",
    b"\\",
    b"(",
    b")",
    b"<",
    b">",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b";",
    b":",
    b"@",
    b".",
    b" ",
    b"\t",
    b"\r\n ",
    b"\n",
    b"\r",
    b"\0",
    b"\x7f",
    b"=?utf-8?q?",
    b"=?utf-8?b?",
    b"=?a?q?",
    b"=?",
    b"?=",
    b"=",
    b"=?utf-8?q?a?=",
    b"=?utf-8?b?YQ==?=",
    b"=?utf-8?q?=40?=",
    b"a",
    b"b",
    b"x",
    b"1",
    b"5",
    b"-",
    b"+",
    b"_",
    b"*",
    b"!",
    b"#",
    b"/",
    b"|",
    b"^",
    b"$",
    b"&",
    b"%",
    b"'",
    b"?",
    b"~",
    b"a@b",
    b"a@b.c",
    b"x.example",
    b"<a@b>",
    b"\"x\"",
    b"(x)",
    b"\"a\"@b",
    b"mailto:",
    b"prvs=1=",
    b"srs0=",
    b"[192.0.2.1]",
    b"::",
    b"xn--",
    b"xn--bcher-kva.",
    b"gmail.com",
    b"\xc3\xa9",
    b"e\xcc\x81",
    b"\xcc\x81",
    b"\xcc\xa3",
    b"\xcd\xa0",
    b"\xe2\x80\x8b",
    b"\xe2\x80\x8d",
    b"\xc2\xad",
    b"\xef\xbb\xbf",
    b"\xc2\xa0",
    b"\xe3\x80\x80",
    b"\xe3\x80\x82",
    b"\xef\xbc\xa0",
    b"\xef\xbc\x8e",
    b"\xef\xbc\xa1",
    b"\xef\xbc\x8c",
    b"\xea\xb0\x80",
    b"\xe1\x84\x80",
    b"\xe1\x85\xa1",
    b"\xe1\x86\xa8",
    b"\xce\xa3",
    b"\xc3\x9f",
    b"\xf0\x9f\x98\x80",
    b"\xd8\xa7",
    b"\xe0\xa4\x95\xe0\xa5\x8d",
    b"\xef\xb7\xba",
    b"REJECT",
    b"OK",
    b"CNAME .",
    b"CNAME",
    b"$ORIGIN ",
    b"SOA",
    b"||",
    b"@@",
    b"##",
    b"://",
    b"blocklist_from ",
    b"127.0.0.1 ",
    b"address=/",
    b"\"email\":",
    b"\"action\":\"x\",",
    b"\"a\":[],",
    b"\"a@b\":{}",
    b"[]",
    b"{}",
    b"\\u00e9",
    b"\\ud83d",
    b"2026-01-01",
    b"endif",
    b"if /",
    b"From:",
];

/// Texts before the repeated part.
const BEGINNINGS: &[&[u8]] = &[
    b"",
    b"a@",
    b"a@b",
    b"<",
    b"<a@",
    b"\"",
    b"(",
    b"a@b (",
    b"<\"",
    b"=?utf-8?q?",
    b"\"a\"@",
    b"[",
    b"{",
    b"[\"",
    b"{\"",
    b"@",
    b"a:",
    b"email,action\n",
    b"address=/",
    b"127.0.0.1 ",
    b"||",
    b"$ORIGIN a.\n",
    b"/",
    b"a ",
    b"a@[",
    b"\\",
    b"<a@b>,",
    b"srs0=a=b=c=",
];

/// Texts after it.
const ENDS: &[&[u8]] = &[
    b"",
    b">",
    b"\"",
    b")",
    b"@b",
    b"@b.example>",
    b"?=",
    b"]",
    b"}",
    b"\"]",
    b"\n",
    b" CNAME .",
    b"\"@b>",
    b" <a@b>",
    b",",
];

/// A text of variable length.
#[derive(Clone)]
struct Repeated {
    beginning: &'static [u8],
    unit: Vec<u8>,
    end: &'static [u8],
}

impl Repeated {
    fn at_random(dice: &mut Dice) -> Self {
        let one_of = |dice: &mut Dice, all: &[&'static [u8]]| all[dice.below(all.len())];
        let beginning = if dice.below(3) == 0 {
            b""
        } else {
            one_of(dice, BEGINNINGS)
        };
        let end = if dice.below(2) == 0 {
            b""
        } else {
            one_of(dice, ENDS)
        };
        let tokens = 1 + dice.below(5);
        let unit = (0..tokens).flat_map(|_| one_of(dice, TOKENS)).copied();
        Self {
            beginning,
            unit: unit.collect(),
            end,
        }
    }

    fn of_bytes(size: usize, beginning: &[u8], unit: &[u8], end: &[u8]) -> Vec<u8> {
        let times = size / unit.len();
        [beginning, &unit.repeat(times), end].concat()
    }

    fn text(&self, size: usize) -> Vec<u8> {
        Self::of_bytes(size, self.beginning, &self.unit, self.end)
    }
}

impl fmt::Debug for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [beginning, unit, end] =
            [self.beginning, &self.unit, self.end].map(|part| part.escape_ascii());
        write!(f, "\"{beginning}\" \"{unit}\"... \"{end}\"")
    }
}

/// Random numbers that are the same for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ mixed >> 31) % end as u64).unwrap()
    }
}

/// A reader under test.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Header,
    MailFrom,
    /// Every address in a header, in its canonical form.
    Message,
    Address,
    Entry,
    List(Format),
    /// Lines of a list, as the compiler reads them.
    Lines,
    Detection,
}

const SENDERS: &[Subject] = &[Subject::Header, Subject::MailFrom, Subject::Message];
const ADDRESSES: &[Subject] = &[Subject::Address, Subject::Entry];
const LISTS: &[Subject] = &[
    Subject::Lines,
    Subject::Detection,
    Subject::List(Format::Plain),
    Subject::List(Format::Addresses),
    Subject::List(Format::Hosts),
    Subject::List(Format::PostfixAccess),
    Subject::List(Format::SendmailAccess),
    Subject::List(Format::SpamAssassin),
    Subject::List(Format::Rspamd),
    Subject::List(Format::Amavis),
    Subject::List(Format::Exim),
    Subject::List(Format::Rpz),
    Subject::List(Format::Rbldnsd),
    Subject::List(Format::Dnsmasq),
    Subject::List(Format::Adblock),
];

/// The rules that need the most work.
const ALL_RULES: Rules = Rules {
    providers: true,
    plus: true,
    srs: true,
    nfkc: true,
};

impl Subject {
    fn read(self, text: &[u8]) {
        match self {
            Self::Header => {
                let mut senders = Senders::new();
                senders.add_header(Identity::From, text);
            }
            Self::MailFrom => {
                let mut senders = Senders::new();
                senders.add_mail_from(text);
            }
            Self::Message => {
                let mut senders = Senders::new();
                senders.add_header(Identity::From, text);
                let mut form = Canonical::new();
                for sender in senders.iter() {
                    let _ = form.read(sender.address, Rules::default());
                }
            }
            Self::Address => {
                let mut form = Canonical::new();
                let _ = form.read(text, Rules::default());
                let _ = form.read(text, ALL_RULES);
            }
            Self::Entry => {
                let mut entry = Entry::new();
                let _ = entry.read(text, Rules::default());
                let _ = entry.read(text, ALL_RULES);
            }
            Self::List(format) => {
                let mut bytes = 0;
                let mut count = |_, row: Row<'_>| {
                    if let Row::Entry(raw) = row {
                        bytes += raw.text.len();
                    }
                };
                Reader::new(&Reading::given(format))
                    .read_all(text, &mut count)
                    .unwrap();
                // The output must be read, too.
                assert!(
                    bytes <= 32 * text.len() + 1024,
                    "{format:?} multiplies a text"
                );
            }
            Self::Lines => {
                let mut reader = Reader::new(&Reading::given(Format::Plain));
                let mut entry = Entry::new();
                Block::new().lines(text, Rules::default(), |line| {
                    if line.entry.is_none() {
                        reader.read(line.written, true, &mut |_, row| {
                            if let Row::Entry(raw) = row {
                                let _ = entry.read(raw.text, Rules::default());
                            }
                        });
                    }
                });
            }
            Self::Detection => {
                let _ = list::reading(text, true, &Declared::default());
            }
        }
    }

    /// Returns the processor time for a text.
    fn time(self, text: &[u8]) -> Duration {
        let start = thread_time();
        self.read(text);
        thread_time() - start
    }
}

/// Returns the processor time of this thread so far.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap(),
        time.tv_nsec.try_into().unwrap(),
    )
}

/// Bytes of the shorter and the longer text in the first comparison. Both are longer than what
/// mail-parser reads of a header, which takes longer than our code.
const SIGHT: [usize; 2] = [2_200, 6_600];

/// Bytes of the texts in the decisive comparisons, each four times as long as the one before. A
/// longer value is not scanned for senders.
const PROOF: [usize; 4] = [15 << 6, 15 << 8, 15 << 10, 60 << 10];

/// Between the growth of a linear and of a quadratic reader, for a text four times as long.
const MOST_GROWTH: u32 = 8;

/// How often a text is read before it fails.
const TRIALS: usize = 6;

/// A time that no disturbance causes twice, so it need not be confirmed.
const NO_CHANCE: Duration = Duration::from_millis(200);

/// Most failing texts shown, so that a failing test does not take hours.
const MOST_SHOWN: usize = 3;

/// Returns whether a text of four times the length takes too long.
fn grows(short: Duration, long: Duration) -> bool {
    /// Shorter times are dominated by the clock.
    const FLOOR: Duration = Duration::from_micros(50);
    long > short.max(FLOOR) * MOST_GROWTH
}

/// Returns a description if the time grows faster than the text.
fn excess(subject: Subject, repeated: &Repeated) -> Option<String> {
    let time = |size: usize| subject.time(&repeated.text(size));
    let [short, long] = SIGHT.map(time);
    // For a text three times as long, a smaller growth is enough for a suspicion.
    if !grows(short, long * 4 / 3) {
        return None;
    }
    PROOF.windows(2).find_map(|sizes| {
        let mut best = [Duration::MAX; 2];
        for trial in 1..=TRIALS {
            for (best, &size) in best.iter_mut().zip(sizes) {
                *best = time(size).min(*best);
            }
            if !grows(best[0], best[1]) {
                return None;
            }
            if trial > 1 && best[1] > NO_CHANCE {
                break;
            }
        }
        let [short, long] = best;
        Some(format!(
            "{subject:?} takes {short:?} for {} bytes of {repeated:?}, and {long:?} for {}",
            sizes[0], sizes[1]
        ))
    })
}

/// Gives random texts to random readers.
fn check(subjects: &[Subject], texts: usize, seed: u64) {
    let mut dice = Dice(seed);
    let mut wrong = Vec::new();
    for _ in 0..texts {
        if wrong.len() == MOST_SHOWN {
            break;
        }
        let repeated = Repeated::at_random(&mut dice);
        let subject = subjects[dice.below(subjects.len())];
        wrong.extend(excess(subject, &repeated));
    }
    assert!(
        wrong.is_empty(),
        "the work grows faster than the text:\n{}",
        wrong.join("\n")
    );
}

/// Texts for which some version of a reader took quadratic time.
const KNOWN: &[(&[u8], &[u8], &[u8])] = &[
    (b"a@", b"\x80", b""),
    (b"<a@", b"\x80", b">"),
    (b"", b"\\,(", b""),
    (b"", b"\\<(", b""),
    (b"a", b"|", b""),
    (b"{", b"\"action\":\"x\",\"a\":[],", b"}"),
    (b"", b"$ORIGIN a\n", b""),
    (b"$ORIGIN a\n", b"$ORIGIN b.c\nd CNAME .\n", b""),
    (b"", b"\"", b""),
    (b"", b"(", b""),
    (b"", b"<", b""),
];

#[test]
fn known_texts() {
    let mut wrong = Vec::new();
    for &(beginning, unit, end) in KNOWN {
        let unit = unit.to_vec();
        let repeated = Repeated {
            beginning,
            unit,
            end,
        };
        for &subject in [SENDERS, ADDRESSES, LISTS].iter().copied().flatten() {
            if wrong.len() == MOST_SHOWN {
                break;
            }
            wrong.extend(excess(subject, &repeated));
        }
    }
    assert!(
        wrong.is_empty(),
        "the work grows faster than the text:\n{}",
        wrong.join("\n")
    );
}

/// A pipe to which somebody writes byte by byte.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(1);
        self.0.read(&mut buffer[..length])
    }
}

#[test]
fn a_record_is_not_read_anew_with_each_byte() {
    let text = b"a@b,\"x".repeat(2 << 10);
    let time = |text: &[u8]| {
        let times = (0..TRIALS).map(|_| {
            let start = thread_time();
            let mut reader = Reader::new(&Reading::given(Format::Plain));
            reader.read_all(Trickle(text), &mut |_, _| ()).unwrap();
            thread_time() - start
        });
        times.min().unwrap()
    };
    let (short, long) = (time(&text[..text.len() / 4]), time(&text));
    // The buffer needs constant time, even for a short text.
    assert!(long < short * MOST_GROWTH, "{short:?}, then {long:?}");
}

#[test]
fn header_values_and_mail_arguments() {
    check(SENDERS, texts(1000), seed(1));
}

#[test]
fn addresses_and_entries() {
    check(ADDRESSES, texts(400), seed(2));
}

#[test]
fn lists() {
    check(LISTS, texts(2500), seed(3));
}

fn texts(usual: usize) -> usize {
    number("GROWTH_TEXTS").unwrap_or(usual)
}

fn seed(usual: u64) -> u64 {
    number("GROWTH_SEED").map_or(usual, |seed| seed as u64)
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}
