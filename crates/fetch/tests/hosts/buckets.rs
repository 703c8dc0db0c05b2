//! The programs with buckets: S3, simulated by moto (`pip install 'moto[server]'`), Azure,
//! simulated by its emulator Azurite (`npm install azurite`), and Google Cloud Storage, of which
//! `google.py` simulates what a store needs. A test is skipped if its simulator is missing;
//! `tests/run` installs moto.
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use blocklist_fetch::store::{Access, Got, Small, Store};

use crate::support::Site;
use crate::tools::{Killed, usable};

/// The environment variables with the settings of a store.
type Settings = Vec<(&'static str, String)>;

/// A simulated provider on this host.
struct Provider {
    child: Killed,
    address: String,
}

impl Provider {
    /// Starts `command`, which gets the port, and waits until `bucket` has made a bucket `lists`.
    /// `None` if it is not installed.
    fn start(command: impl FnOnce(u16) -> Command, bucket: impl Fn(&str) -> bool) -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let mut command = command(address.port());
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut provider = match started {
            Ok(child) => Self {
                child: Killed(child),
                address: address.to_string(),
            },
            Err(_) => {
                let name = command.get_program().to_string_lossy().into_owned();
                let name = Path::new(&name).file_name().unwrap().to_string_lossy();
                usable(&name, Some("not installed".to_owned()));
                return None;
            }
        };
        for _ in 0..240 {
            if bucket(&provider.address) {
                return Some(provider);
            }
            let ended = provider.child.0.try_wait().unwrap();
            assert!(ended.is_none(), "{:?} has ended: {ended:?}", command);
            sleep(Duration::from_millis(500));
        }
        panic!("{command:?} does not answer");
    }
}

/// Returns a program that `tests/run` installs below `target/stores`, or that is installed
/// elsewhere.
fn program(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let installed = target.join("stores/bin").join(name);
    Command::new(if installed.exists() {
        installed
    } else {
        name.into()
    })
}

/// Returns the first line of the answer to a request, if there is one.
fn answer(address: &str, request: &str) -> Option<String> {
    let mut connection = TcpStream::connect(address).ok()?;
    connection.write_all(request.as_bytes()).ok()?;
    let mut said = String::new();
    connection.read_to_string(&mut said).ok()?;
    said.lines().next().map(str::to_owned)
}

/// Publishes to a place and fetches from it: the whole filter, a delta, nothing. Of two publishers
/// the later one is refused.
fn assert_is_a_store(place: &str, settings: &Settings) {
    let site = Site::new();
    let run = |program: &str, words: &[&str]| {
        let done = Command::new(program)
            .args(words)
            .args(["--list", "spammers"])
            .current_dir(site.folder.path())
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        let said = [done.stdout, done.stderr].map(|said| String::from_utf8(said).unwrap());
        assert_eq!(done.status.code(), Some(0), "{}", said.concat());
        said.concat()
    };
    let publish = || {
        let words = ["--to", place, "--key", "publisher.key", "spammers.blf"];
        run(env!("CARGO_BIN_EXE_blocklist-publish"), &words)
    };
    let fetch = || {
        let words = ["--from", place, "--key", "publisher.pub", "-o", "host.blf"];
        run(env!("CARGO_BIN_EXE_blocklist-fetch"), &words)
    };
    site.build(0..1_000);
    publish();
    assert!(fetch().contains(", whole file: "));
    site.build(3..1_004);
    publish();
    assert!(fetch().contains("1001 entries, 1 delta: "));
    assert!(site.is_up_to_date());
    assert_eq!(fetch(), "host.blf: unchanged\n");

    // In a separate process, because a store takes its settings from the environment.
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "buckets::only_what_was_read_is_replaced"])
        .arg("--ignored")
        .env(PLACE, place)
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

const PLACE: &str = "BLOCKLIST_FETCH_TEST_PLACE";

/// Of two publishers to a bucket, the later one is refused.
#[test]
#[ignore = "run for each provider, with the settings that it needs"]
fn only_what_was_read_is_replaced() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let store = Store::open(&place, &Access::default()).unwrap();
    let read = || match store.read("x.json", 100, None).unwrap() {
        Got::File(file) => file,
        other => panic!("{other:?}"),
    };
    let refused = |old: Option<&Small>| {
        let error = store.replace("x.json", old, b"lost").unwrap_err();
        assert!(
            error.to_string().contains("another publisher was faster"),
            "{error}"
        );
    };
    store.replace("x.json", None, b"1").unwrap();
    refused(None);
    let seen = read();
    store.replace("x.json", Some(&seen), b"2").unwrap();
    refused(Some(&seen));
    assert_eq!(read().bytes, b"2");
}

#[test]
fn a_bucket_of_s3_is_a_store() {
    let moto = Provider::start(
        |port| {
            let mut moto = program("moto_server");
            moto.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            moto
        },
        |address| {
            let request = format!(
                "PUT /lists HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\
                 Authorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x\r\n\r\n"
            );
            answer(address, &request).is_some_and(|said| said.contains(" 200 "))
        },
    );
    let Some(moto) = moto else { return };
    let settings = vec![
        ("AWS_ACCESS_KEY_ID", "a".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "b".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ENDPOINT_URL", format!("http://{}", moto.address)),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
    ];
    assert_is_a_store("s3://lists/mail", &settings);
}

#[test]
fn a_bucket_of_google_is_a_store() {
    let google = Provider::start(
        |port| {
            let mut python = Command::new("python3");
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts/google.py");
            python.arg(script).arg(port.to_string());
            python
        },
        |address| TcpStream::connect(address).is_ok(),
    );
    let Some(google) = google else { return };
    let settings = vec![
        ("GOOGLE_BASE_URL", format!("http://{}", google.address)),
        ("GOOGLE_BEARER_TOKEN", "secret".to_owned()),
    ];
    assert_is_a_store("gs://lists/mail", &settings);
}

/// Makes the container; Azurite requires a signature. The key is the same in every Azurite.
const MAKE_CONTAINER: &str = r#"
import base64, email.utils, hashlib, hmac, sys, urllib.request
account, key = "devstoreaccount1", ("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"
    "K1SZFPTOtr/KBHBeksoGMGw==")
date = email.utils.formatdate(usegmt=True)
signed = ("PUT\n" + "\n" * 11 + "x-ms-date:" + date + "\nx-ms-version:2021-08-06\n"
    "/" + account + "/" + account + "/lists\nrestype:container")
signature = base64.b64encode(hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()).decode()
headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Content-Length": "0",
    "Authorization": "SharedKey %s:%s" % (account, signature)}
url = "http://%s/%s/lists?restype=container" % (sys.argv[1], account)
urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers))
"#;

#[test]
fn a_container_of_azure_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let azurite = Provider::start(
        |port| {
            let mut azurite = program("azurite-blob");
            azurite.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
            azurite.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"]);
            azurite.arg("--location").arg(folder.path());
            azurite
        },
        |address| {
            let mut python = Command::new("python3");
            let made = python.args(["-c", MAKE_CONTAINER, address]).output();
            made.is_ok_and(|made| made.status.success())
        },
    );
    let Some(azurite) = azurite else { return };
    let url = format!("http://{}", azurite.address);
    let settings = vec![
        ("AZURE_STORAGE_USE_EMULATOR", "true".to_owned()),
        ("AZURITE_BLOB_STORAGE_URL", url),
    ];
    assert_is_a_store("az://lists/mail", &settings);
}
