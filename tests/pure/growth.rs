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

use std::fmt;
use std::io::{self, Read};
use std::sync::LazyLock;
use std::time::Duration;

use blocklist_compile::compile::Block;
use blocklist_compile::list::{self, Declared, Format, Purpose, Reader, Reading, Row};
use blocklist_filter::address::{Canonical, Entry, Rules};
use blocklist_milter::sender::{Identity, Senders};

use crate::list::FORMATS;
use crate::support::check::Random;
use crate::support::table::{byte_words, bytes};
use crate::support::{rows, thread_time};

/// Tokens with a meaning for some reader, including bytes that are not UTF-8.
static TOKENS: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| byte_words(include_str!("growth/tokens.txt")));

/// Texts before the repeated part.
static BEGINNINGS: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| byte_words(include_str!("growth/beginnings.txt")));

/// Texts after it.
static ENDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| byte_words(include_str!("growth/ends.txt")));

/// A text of variable length.
#[derive(Clone)]
struct Repeated {
    beginning: Vec<u8>,
    unit: Vec<u8>,
    end: Vec<u8>,
}

impl Repeated {
    fn at_random(dice: &mut Random) -> Self {
        let some = |dice: &mut Random, one_in, all: &[Vec<u8>]| match dice.below(one_in) {
            0 => Vec::new(),
            _ => dice.one_of(all),
        };
        let beginning = some(dice, 3, &BEGINNINGS);
        let end = some(dice, 2, &ENDS);
        let tokens = 1 + dice.index(5);
        let unit = (0..tokens).flat_map(|_| dice.one_of(&TOKENS)).collect();
        Self {
            beginning,
            unit,
            end,
        }
    }

    fn text(&self, size: usize) -> Vec<u8> {
        let times = size / self.unit.len();
        [&*self.beginning, &self.unit.repeat(times), &self.end].concat()
    }
}

impl fmt::Debug for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.beginning, &self.unit, &self.end];
        let [beginning, unit, end] = parts.map(|part| part.escape_ascii());
        write!(f, "\"{beginning}\" \"{unit}\"... \"{end}\"")
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
    List(Format, Purpose),
    /// Lines of a list, as the compiler reads them.
    Lines,
    Detection,
}

const SENDERS: &[Subject] = &[Subject::Header, Subject::MailFrom, Subject::Message];
const ADDRESSES: &[Subject] = &[Subject::Address, Subject::Entry];

fn readers_of_lists() -> Vec<Subject> {
    let formats = FORMATS.iter();
    let formats = formats.map(|&format| Subject::List(format, Purpose::List));
    let others = [
        Subject::List(Format::Plain, Purpose::Whitelist),
        Subject::List(Format::SendmailAccess, Purpose::Removal),
    ];
    [Subject::Lines, Subject::Detection]
        .into_iter()
        .chain(formats)
        .chain(others)
        .collect()
}
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
            Self::List(format, purpose) => {
                let mut bytes = 0;
                let mut count = |_, row: Row<'_>| {
                    if let Row::Entry(raw) = row {
                        bytes += raw.text.len();
                    }
                };
                let reading = Reading {
                    purpose,
                    ..Reading::given(format)
                };
                Reader::new(&reading).read_all(text, &mut count).unwrap();
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

/// Gives texts to readers, until some have failed.
fn check<'r>(trials: impl Iterator<Item = (Subject, &'r Repeated)>) {
    let wrong = trials.filter_map(|(subject, repeated)| excess(subject, repeated));
    let wrong: Vec<String> = wrong.take(MOST_SHOWN).collect();
    let wrong = wrong.join("\n");
    assert!(
        wrong.is_empty(),
        "the work grows faster than the text:\n{wrong}"
    );
}

/// Gives random texts to random readers.
fn check_random(subjects: &[Subject], texts: usize, seed: u64) {
    let mut dice = Random(seed);
    for _ in 0..texts {
        let repeated = Repeated::at_random(&mut dice);
        check([(dice.one_of(subjects), &repeated)].into_iter());
    }
}

/// Texts for which some version of a reader took quadratic time.
#[test]
fn known_texts() {
    for parts in rows::<3>(include_str!("growth/known.txt")) {
        let [beginning, unit, end] = parts.map(bytes);
        let repeated = Repeated {
            beginning,
            unit,
            end,
        };
        let subjects = [SENDERS, ADDRESSES, &readers_of_lists()].concat();
        check(subjects.into_iter().map(|subject| (subject, &repeated)));
    }
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
    check_random(SENDERS, texts(1000), seed(1));
}

#[test]
fn addresses_and_entries() {
    check_random(ADDRESSES, texts(400), seed(2));
}

#[test]
fn lists() {
    check_random(&readers_of_lists(), texts(3000), seed(3));
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
