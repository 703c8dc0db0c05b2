//! A list that is published and fetched, and a web server that can send wrong answers.
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use blocklist_compile::compile::{self, Plan, Progress, Seed};
use blocklist_fetch::keys::Signer;
use blocklist_fetch::manifest::{self, Manifest};
use blocklist_fetch::store::{Access, Patience};
use blocklist_fetch::{Error, Fetch, Outcome, Publish, Published, fetch, publish};
use minisign::KeyPair;
use tempfile::TempDir;

pub(crate) fn updated(outcome: &Outcome) -> (u64, usize) {
    match outcome {
        Outcome::Updated { by, deltas, .. } => (by.generation, *deltas),
        Outcome::Unchanged => panic!("unchanged"),
    }
}

pub(crate) const NOW: u64 = 1_790_000_000;

/// A publisher with its store, and a host.
pub(crate) struct Site {
    pub(crate) folder: TempDir,
    pub(crate) signer: Signer,
}

/// Creates a new key: the file of the secret key, and the public key.
pub(crate) fn new_key(folder: &Path, name: &str) -> Signer {
    let pair = KeyPair::generate_unencrypted_keypair().unwrap();
    let path = folder.join(name);
    fs::write(&path, pair.sk.to_box(None).unwrap().into_string()).unwrap();
    fs::write(
        path.with_extension("pub"),
        pair.pk.to_box().unwrap().into_string(),
    )
    .unwrap();
    Signer::open(&path, None).unwrap()
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    /// Creates a site in the first of these folders that is writable.
    pub(crate) fn in_folder(folders: &[&str]) -> Self {
        let mut folders = folders.iter().map(tempfile::tempdir_in);
        Self::of(folders.find_map(Result::ok).unwrap())
    }

    fn of(folder: TempDir) -> Self {
        fs::create_dir(folder.path().join("store")).unwrap();
        let signer = new_key(folder.path(), "publisher.key");
        Self { folder, signer }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds the next generation of the list.
    pub(crate) fn build(&self, users: std::ops::Range<u32>) {
        let list = self.path("list.txt");
        let lines = users.map(|n| format!("user{n}@bad.example\n"));
        fs::write(&list, lines.collect::<String>()).unwrap();
        let mut plan = Plan::new(self.path("spammers.blf"), vec![list]);
        plan.name = "spammers".to_owned();
        plan.seed = Seed::Fixed(0x5eed);
        plan.built = NOW;
        plan.resources.threads = 1;
        plan.resources.memory_bytes = 64 << 20;
        compile::build(&plan, &Progress::new()).unwrap();
    }

    pub(crate) fn to_publish(&self) -> Publish {
        Publish {
            to: self.path("store").display().to_string(),
            list: "spammers".to_owned(),
            filter: self.path("spammers.blf"),
            rings: Vec::new(),
            only: None,
            promote_after_s: None,
            all: false,
            check_store: false,
            valid_s: 48 * 3600,
            keep: 48,
            next_key: None,
            previous_key: None,
            now: NOW,
            access: Access::default(),
        }
    }

    /// Returns settings for the programs, which use the clock of this machine.
    pub(crate) fn to_publish_for_years(&self) -> Publish {
        Publish {
            valid_s: 50 * 365 * 86_400,
            ..self.to_publish()
        }
    }

    pub(crate) fn publish(&self) -> Published {
        publish(&self.to_publish(), &self.signer).unwrap()
    }

    /// Builds a generation and publishes it.
    pub(crate) fn release(&self, users: std::ops::Range<u32>) -> Published {
        self.build(users);
        self.publish()
    }

    /// Publishes the last build to a store that was lost.
    pub(crate) fn release_anew(&self) {
        fs::remove_dir_all(self.path("store")).unwrap();
        fs::create_dir(self.path("store")).unwrap();
        let mut again = self.to_publish();
        again.now += 10;
        publish(&again, &self.signer).unwrap();
    }

    /// Signs any manifest and puts it into the store.
    pub(crate) fn put(&self, manifest: &Manifest) {
        let bytes = serde_json::to_vec(manifest).unwrap();
        let signature = self.signer.sign(&bytes, "test").unwrap();
        let name = manifest::signature_name("spammers", &bytes);
        fs::write(self.path("store").join(name), &signature).unwrap();
        fs::write(self.path("store/spammers.json"), &bytes).unwrap();
    }

    pub(crate) fn to_fetch(&self) -> Fetch {
        Fetch {
            from: self.path("store").display().to_string(),
            list: "spammers".to_owned(),
            key: self.signer.public.clone(),
            output: self.path("host.blf"),
            host: "mx1".to_owned(),
            max_shrink: None,
            max_growth: None,
            now: NOW + 60,
            access: Access {
                login: None,
                patience: Patience {
                    connect: Duration::from_secs(1),
                    stall: Duration::from_secs(1),
                    request: Duration::from_secs(3),
                    pause: Duration::from_millis(10),
                    bytes_a_second: 1 << 20,
                },
            },
        }
    }

    /// Returns a web server with the store, and the settings to fetch from it.
    pub(crate) fn over_http(&self) -> (Server, Fetch) {
        let server = Server::start(&self.path("store"));
        let wanted = Fetch {
            from: server.url.clone(),
            ..self.to_fetch()
        };
        (server, wanted)
    }

    pub(crate) fn fetch(&self) -> Result<Outcome, Error> {
        fetch(&self.to_fetch())
    }

    /// Returns whether the host has the last build.
    pub(crate) fn is_up_to_date(&self) -> bool {
        fs::read(self.path("host.blf")).unwrap() == fs::read(self.path("spammers.blf")).unwrap()
    }

    /// Runs a fetch that must be refused: the filter in place stays, and nothing is left behind.
    pub(crate) fn refused(&self, wanted: &Fetch, words: &[&str]) -> Error {
        let before = fs::read(&wanted.output).ok();
        let error = fetch(wanted).expect_err("it must be refused");
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(fs::read(&wanted.output).ok() == before, "{text}");
        self.assert_clean();
        error
    }

    /// Checks that no temporary files are left.
    pub(crate) fn assert_clean(&self) {
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_left = name.contains(".writing") || name.contains(".fetching");
            assert!(!is_left && !name.contains("lock"), "{name}");
        }
    }
}

/// The answer of a server to a request for an existing file.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The correct answer.
    Honest,
    /// Another file.
    Other(Vec<u8>),
    /// This number of bytes of it, with the length of the whole.
    Truncated(usize),
    /// The same, but the rest for a client that requests it.
    Cut(usize),
    /// This number of bytes of what was asked for, with the length of the whole.
    Dying(usize),
    /// The file without an end.
    Endless,
    /// The file twice, as one.
    Twice,
    /// A redirect to this URL.
    Redirect(String),
    /// An error of the server, with this number of bytes of text.
    Broken(&'static str, usize),
    /// The correct answer, with a tag of this number of bytes.
    Tagged(usize),
    /// Nothing at all.
    Silence,
    /// This number of bytes, and then nothing.
    Stalled(usize),
    /// One byte from time to time: of the head, or of the body.
    Drops { of_head: bool },
    /// With a header that says it is compressed.
    Encoded,
    /// More headers than anybody needs.
    Headers,
    /// Not HTTP.
    Garbage,
}

type Judge = Box<dyn Fn(&str) -> Answer + Send>;

/// A web server on this host, which serves a folder.
pub(crate) struct Server {
    pub(crate) url: String,
    judge: Arc<Mutex<Judge>>,
    /// The requests and their answers.
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let judge: Arc<Mutex<Judge>> = Arc::new(Mutex::new(Box::new(|_| Answer::Honest)));
        let log = Arc::default();
        let (judges, logs, folder) = (Arc::clone(&judge), Arc::clone(&log), folder.to_owned());
        // It ends with the test.
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (judges, logs, folder) =
                    (Arc::clone(&judges), Arc::clone(&logs), folder.clone());
                thread::spawn(move || serve(&connection, &folder, &judges, &logs));
            }
        });
        Self { url, judge, log }
    }

    pub(crate) fn lie(&self, judge: impl Fn(&str) -> Answer + Send + 'static) {
        *self.judge.lock().unwrap() = Box::new(judge);
    }

    /// Gives wrong answers for files whose names have this ending.
    pub(crate) fn lie_about(&self, ending: &'static str, answer: Answer) {
        self.lie(move |path| {
            if path.ends_with(ending) {
                answer.clone()
            } else {
                Answer::Honest
            }
        });
    }

    pub(crate) fn be_honest(&self) {
        self.lie(|_| Answer::Honest);
    }
}

fn serve(
    mut connection: &TcpStream,
    folder: &Path,
    judge: &Mutex<Judge>,
    log: &Mutex<Vec<String>>,
) -> Option<()> {
    const FOREVER: Duration = Duration::from_secs(60);
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    let request = lines.next()?;
    let path = request
        .split(' ')
        .nth(1)?
        .trim_start_matches('/')
        .to_owned();
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let header = |wanted: &str| {
        headers.iter().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case(wanted).then(|| value.to_owned())
        })
    };
    let asked = header("if-none-match");
    let range = header("range").and_then(|range| {
        let (from, _) = range.strip_prefix("bytes=")?.split_once('-')?;
        from.parse::<usize>().ok()
    });
    let answer = (judge.lock().unwrap())(&path);
    let file = match &answer {
        Answer::Other(bytes) => Some(bytes.clone()),
        _ => fs::read(folder.join(&path)).ok(),
    };
    let Some(file) = file else {
        log.lock().unwrap().push(format!("{path} 404"));
        return connection
            .write_all(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .ok();
    };
    let tag = match answer {
        Answer::Tagged(count) => format!("\"{}\"", "t".repeat(count)),
        _ => format!("\"{}\"", blocklist_filter::filter::Digest::of(&file)),
    };
    let text = |status: &str, length: &str, more: &str| {
        log.lock().unwrap().push(format!("{path} {}", &status[..3]));
        format!(
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\netag: {tag}\r\nlast-modified: Sun, 22 Nov 2026 08:00:00 GMT\r\nconnection: close\r\n{more}\r\n"
        )
    };
    let mut write = |bytes: &[u8]| connection.write_all(bytes).ok();
    let length = file.len().to_string();
    let fine = || text("200 Fine", &length, "");
    match answer {
        Answer::Honest if asked.as_ref() == Some(&tag) => {
            write(text("304 Same", "0", "").as_bytes())
        }
        Answer::Honest | Answer::Cut(_) | Answer::Dying(_) if range.is_some() => {
            let from = range?.min(file.len());
            let rest = &file[from..];
            let more = format!(
                "content-range: bytes {from}-{}/{length}\r\n",
                file.len() - 1
            );
            write(text("206 Rest", &rest.len().to_string(), &more).as_bytes())?;
            let sent = match answer {
                Answer::Dying(count) => count.min(rest.len()),
                _ => rest.len(),
            };
            write(&rest[..sent])
        }
        Answer::Honest | Answer::Other(_) | Answer::Tagged(_) => {
            write(fine().as_bytes())?;
            write(&file)
        }
        Answer::Truncated(count) | Answer::Cut(count) | Answer::Dying(count) => {
            write(fine().as_bytes())?;
            write(&file[..count.min(file.len())])
        }
        Answer::Endless => {
            write(text("200 Fine", "1000000000000000", "").as_bytes())?;
            loop {
                write(&file)?;
            }
        }
        Answer::Twice => {
            write(text("200 Fine", &(2 * file.len()).to_string(), "").as_bytes())?;
            write(&file)?;
            write(&file)
        }
        Answer::Redirect(place) => {
            let more = format!("location: {place}\r\n");
            write(text("302 Elsewhere", "0", &more).as_bytes())
        }
        Answer::Broken(status, count) => {
            write(text(status, &count.to_string(), "").as_bytes())?;
            for _ in 0..count / 1_000 {
                write(&[b'\x1b'; 1_000])?;
            }
            Some(())
        }
        Answer::Silence => {
            thread::sleep(FOREVER);
            Some(())
        }
        Answer::Stalled(count) => {
            write(fine().as_bytes())?;
            write(&file[..count.min(file.len())])?;
            thread::sleep(FOREVER);
            Some(())
        }
        Answer::Drops { of_head } => {
            let head = fine();
            let (at_once, slowly) = if of_head {
                (&[][..], head.as_bytes())
            } else {
                (head.as_bytes(), &file[..])
            };
            write(at_once)?;
            for byte in slowly.chunks(1) {
                write(byte)?;
                thread::sleep(Duration::from_millis(100));
            }
            Some(())
        }
        Answer::Encoded => {
            write(text("200 Fine", &length, "content-encoding: gzip\r\n").as_bytes())?;
            write(&file)
        }
        Answer::Headers => {
            let more: String = (0..10_000).map(|n| format!("x-{n}: y\r\n")).collect();
            write(text("200 Fine", &length, &more).as_bytes())?;
            write(&file)
        }
        Answer::Garbage => write(&[0xff; 100_000]),
    }
}
