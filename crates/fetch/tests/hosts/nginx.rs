//! The programs with nginx as the web server; skipped if it is not installed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use blocklist_fetch::store::Login;
use blocklist_fetch::{Fetch, Outcome, fetch, publish};

use crate::check::has;
use crate::support::{Site, updated};
use crate::tools::installed;

struct Nginx {
    child: Child,
    address: String,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM also ends its workers, which SIGKILL would leave.
        let id = i32::try_from(self.child.id()).unwrap();
        let id = rustix::process::Pid::from_raw(id).unwrap();
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// Serves a folder; below `/private` only for a user, below `/compressed` with gzip for clients
    /// that request it.
    fn start(site: &Site) -> Option<Self> {
        if !installed("nginx") {
            return None;
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let folder = site.folder.path().display();
        let user = if rustix::process::geteuid().is_root() {
            "user root;"
        } else {
            ""
        };
        // The password is "secret".
        fs::write(site.path("users"), "mx:{PLAIN}secret\n").unwrap();
        let configuration = format!(
            "daemon off; {user} pid {folder}/pid; error_log {folder}/errors;
             events {{ worker_connections 64; }}
             http {{
               log_format short '$request_method $uri $status $http_range $remote_user';
               access_log {folder}/requests short;
               client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
               uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
               server {{
                 listen {address};
                 location /mail/ {{ alias {folder}/store/; }}
                 location /private/ {{ alias {folder}/store/; auth_basic lists; auth_basic_user_file {folder}/users; }}
                 location /compressed/ {{ alias {folder}/store/; gzip on; gzip_types *; gzip_min_length 1; }}
               }}
             }}"
        );
        fs::write(site.path("nginx.conf"), configuration).unwrap();
        let started = Command::new("nginx")
            .arg("-c")
            .arg(site.path("nginx.conf"))
            .arg("-p")
            .arg(site.folder.path())
            .stderr(Stdio::null())
            .spawn();
        let nginx = Self {
            child: started.unwrap(),
            address,
        };
        for _ in 0..600 {
            if TcpStream::connect(&nginx.address).is_ok() {
                return Some(nginx);
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!(
            "nginx does not answer: {:?}",
            fs::read_to_string(site.path("errors"))
        );
    }
}

/// Forwards one connection after the other; cuts off the first answer that is longer than `at`.
fn cutting(to: &str, at: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let to = to.to_owned();
    // It ends with the test.
    thread::spawn(move || {
        let mut has_cut = false;
        for mut client in listener.incoming().flatten() {
            let Ok(mut server) = TcpStream::connect(&to) else {
                continue;
            };
            let (mut from_client, mut to_server) =
                (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
            let (mut sent, mut buffer) = (0, [0; 1_000]);
            while let Ok(count @ 1..) = server.read(&mut buffer) {
                sent += count;
                if client.write_all(&buffer[..count]).is_err() {
                    break;
                }
                if sent > at && !has_cut {
                    has_cut = true;
                    break;
                }
            }
            let _ = client.shutdown(std::net::Shutdown::Both);
            let _ = server.shutdown(std::net::Shutdown::Both);
        }
    });
    address
}

fn requests(path: &Path) -> String {
    // nginx writes a line when it has answered.
    thread::sleep(Duration::from_millis(300));
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn nginx_serves_a_store() {
    let site = Site::new();
    let Some(nginx) = Nginx::start(&site) else {
        return;
    };
    site.release(0..20_000);
    let at = |address: &str, path: &str| Fetch {
        from: format!("http://{address}/{path}"),
        ..site.to_fetch()
    };
    let wanted = at(&nginx.address, "mail");
    assert_eq!(updated(&fetch(&wanted).unwrap()), (1, 0));
    site.release(5..20_000);
    assert_eq!(updated(&fetch(&wanted).unwrap()), (2, 1));
    assert!(site.is_up_to_date());
    // With ETag and If-None-Match.
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
    let said = requests(&site.path("requests"));
    assert!(
        said.trim_end().ends_with("GET /mail/spammers.json 304 - -"),
        "{said}"
    );
    // An interrupted connection, after which the rest is requested.
    let address = cutting(&nginx.address, 30_000);
    fs::remove_file(&wanted.output).unwrap();
    fetch(&at(&address, "mail")).unwrap();
    assert!(site.is_up_to_date());
    let said = requests(&site.path("requests"));
    has(&said, ".blf 206 bytes=");
    // With a compression that we do not request.
    site.release(6..20_000);
    fetch(&at(&nginx.address, "compressed")).unwrap();
    assert!(site.is_up_to_date());
    // A folder for one user only.
    let mut private = at(&nginx.address, "private");
    private.output = site.path("private.blf");
    site.refused(
        &private,
        &["private/spammers.json: ", "asks for a user and a password"],
    );
    for wrong in ["mx:wrong", "somebody:secret"] {
        private.access.login = Some(Login::new(wrong).unwrap());
        let error = site
            .refused(&private, &["asks for a user and a password"])
            .to_string();
        assert!(
            !error.contains("wrong") && !error.contains("secret"),
            "{error}"
        );
    }
    private.access.login = Some(Login::new("mx:secret").unwrap());
    assert_eq!(updated(&fetch(&private).unwrap()).0, 3);
    assert_eq!(fetch(&private).unwrap(), Outcome::Unchanged);
    // The same with the program, which uses the clock of this machine.
    publish(&site.to_publish_for_years(), &site.signer).unwrap();
    let program = |login: &str| {
        let done = Command::new(env!("CARGO_BIN_EXE_blocklist-fetch"))
            .args([
                "--from",
                &private.from,
                "--list",
                "spammers",
                "--key",
                &private.key,
            ])
            .arg("-o")
            .arg(site.path("by-program.blf"))
            .env("STORE_LOGIN", login)
            .output()
            .unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        (done.status.code(), said)
    };
    assert_eq!(program("mx:secret"), (Some(0), String::new()));
    let (code, said) = program("mx:hidden");
    assert!(code == Some(2) && !said.contains("hidden"), "{said}");
    let (code, said) = program("hidden");
    assert!(
        code == Some(2) && said.contains("USER:PASSWORD") && !said.contains("hidden"),
        "{said}"
    );
    // The message for a missing file.
    site.refused(
        &at(&nginx.address, "nothing"),
        &["the store does not have it"],
    );
}
