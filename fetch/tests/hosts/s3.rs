//! The programs with S3, played by moto (`pip install 'moto[server]'`); left out where there is no `moto_server`.
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use blocklist_fetch::store::{Access, Got, Small, Store};

use crate::support::Site;

struct Moto {
    child: Child,
    address: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    /// With a bucket `lists`. `None`: it is not installed.
    fn start() -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let started = Command::new("moto_server")
            .args(["-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let moto = Self {
            child: started.ok()?,
            address: address.to_string(),
        };
        for _ in 0..240 {
            sleep(Duration::from_millis(500));
            if moto
                .create_bucket()
                .is_some_and(|said| said.contains(" 200 "))
            {
                return Some(moto);
            }
        }
        panic!("moto_server does not answer");
    }

    fn create_bucket(&self) -> Option<String> {
        let mut connection = TcpStream::connect(&self.address).ok()?;
        let request = format!(
            "PUT /lists HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x\r\n\r\n",
            self.address
        );
        connection.write_all(request.as_bytes()).ok()?;
        let mut said = String::new();
        connection.read_to_string(&mut said).ok()?;
        Some(said)
    }
}

#[test]
fn a_bucket_is_a_store() {
    let Some(moto) = Moto::start() else {
        eprintln!("moto_server is not installed: S3 is not tested");
        return;
    };
    let site = Site::new();
    let run = |program: &str, words: &[&str]| {
        let done = Command::new(program)
            .args(words)
            .current_dir(site.folder.path())
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "b")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL", format!("http://{}", moto.address))
            .env("AWS_ALLOW_HTTP", "true")
            .output()
            .unwrap();
        let said = [done.stdout, done.stderr].map(|said| String::from_utf8(said).unwrap());
        assert_eq!(done.status.code(), Some(0), "{}", said.concat());
        said.concat()
    };
    let publish = || {
        let words = [
            "--to",
            "s3://lists/mail",
            "--list",
            "spammers",
            "--key",
            "publisher.key",
            "spammers.blf",
        ];
        run(env!("CARGO_BIN_EXE_blocklist-publish"), &words)
    };
    let fetch = || {
        let words = [
            "--from",
            "s3://lists/mail",
            "--list",
            "spammers",
            "--key",
            "publisher.pub",
            "-o",
            "host.blf",
        ];
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

    // In a process of its own, because a store takes its settings from the environment.
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "s3::only_what_was_read_is_replaced", "--ignored"])
        .env("AWS_ACCESS_KEY_ID", "a")
        .env("AWS_SECRET_ACCESS_KEY", "b")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", format!("http://{}", moto.address))
        .env("AWS_ALLOW_HTTP", "true")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

/// Of two publishers to a bucket the later one is refused.
#[test]
#[ignore = "run by a_bucket_is_a_store, with the address of its server"]
fn only_what_was_read_is_replaced() {
    if std::env::var_os("AWS_ENDPOINT_URL").is_none() {
        return;
    }
    let store = Store::open("s3://lists/race", &Access::default()).unwrap();
    let read = || match store.read("x.json", 100, None).unwrap() {
        Got::File(file) => file,
        other => panic!("{other:?}"),
    };
    let refused = |old: Option<&Small>| {
        let error = store.replace("x.json", old, b"lost").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("somebody else has published meanwhile"),
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
