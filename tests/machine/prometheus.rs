//! The dashboard and the alerts in `contrib/`: a real Prometheus reads the daemon under load, and
//! every query of both returns data.

use crate::support;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use blocklist_milter::daemon::fetch;
use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::endpoint::Endpoint;
use serde_json::Value;
use support::rig::Rig;
use support::{Scratch, find_program, free_port, run, show_on_failure, until, usable};

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("contrib")
        .join(name)
}

struct Prometheus {
    process: Child,
    endpoint: Endpoint,
    log: PathBuf,
}

impl Prometheus {
    /// Starts a Prometheus that reads the daemon at this port twice a second.
    fn start(program: &Path, folder: &Path, target: u16) -> Self {
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}}\n\
             rule_files: [\"{}\"]\n\
             scrape_configs:\n- job_name: blocklist-milter\n  static_configs: [{{targets: [\"127.0.0.1:{target}\"]}}]\n",
            contrib("prometheus/alerts.yml").display()
        );
        fs::write(&config, text).expect("a file");
        let port = free_port();
        let log = folder.join("prometheus.log");
        let output = File::create(&log).expect("a file");
        let process = Command::new(program)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .expect("Prometheus starts");
        Self {
            process,
            endpoint: Endpoint::Inet {
                host: "127.0.0.1".to_owned(),
                port,
                v6: false,
            },
            log,
        }
    }

    /// Returns the answer of its API at this path; `None` if it does not answer yet.
    fn api(&self, path: &str) -> Option<Value> {
        let (code, body) = fetch(&self.endpoint, path).ok()?;
        let answer: Value = serde_json::from_slice(&body).ok()?;
        assert_eq!(code, 200, "{path}: {answer}");
        Some(answer["data"].clone())
    }

    /// Returns the number of series in the result of a query.
    fn series(&self, query: &str) -> usize {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.api(&format!("/api/v1/query?query={escaped}"));
        answer.map_or(0, |data| data["result"].as_array().map_or(0, Vec::len))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        show_on_failure(
            "prometheus",
            &fs::read_to_string(&self.log).unwrap_or_default(),
        );
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the queries of the dashboard, with all variables set to everything.
fn dashboard_queries() -> Vec<String> {
    let text = fs::read_to_string(contrib("grafana/blocklist-milter.json")).expect("it is there");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets
        .map(|target| target["expr"].as_str().expect("a query"))
        .map(|query| {
            query
                .replace("$__rate_interval", "5s")
                .replace("$instance", ".*")
                .replace("$list", ".*")
        })
        .collect()
}

/// Returns the expression of an alert as a query that also has a result when there is no problem.
fn without_threshold(query: &str) -> String {
    [" == ", " > ", " < "]
        .iter()
        .fold(query.to_owned(), |query, comparison| {
            query.replace(comparison, &format!("{comparison}bool "))
        })
}

#[test]
fn the_alerts_are_valid() {
    let promtool = find_program("promtool");
    let obstacle = promtool.is_none().then(|| "not installed".to_owned());
    if !usable("promtool", obstacle) {
        return;
    }
    let rules = contrib("prometheus/alerts.yml");
    run(Command::new("promtool").args(["check", "rules"]).arg(rules));
}

#[test]
fn every_query_of_dashboard_and_alerts_has_data() {
    let program = find_program("prometheus");
    let obstacle = program.is_none().then(|| "not installed".to_owned());
    if !usable("prometheus", obstacle) {
        return;
    }
    let port = free_port();
    let rig = Rig::new(
        &[("spam.list", "@bad.example\n")],
        &format!(
            "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[status]\nlisten = 'inet:{port}@127.0.0.1'\n"
        ),
    );
    let scratch = Scratch::new();
    let prometheus = Prometheus::start(&program.expect("just asked"), scratch.path(), port);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut peer = rig.peer();
            while !done.load(Ordering::Relaxed) {
                for sender in ["<a@ok.example>", "<a@bad.example>"] {
                    let letter =
                        TestMail::new(sender, &["<bob@our.example>"], &["From: a@bad.example"]);
                    peer.deliver(&letter).expect("the daemon answers");
                }
                std::thread::yield_now();
            }
        });
        let end = End(&done);
        let rules = until("Prometheus has the rules", || {
            prometheus.api("/api/v1/rules")
        });
        let rules = rules["groups"][0]["rules"]
            .as_array()
            .expect("rules")
            .clone();
        let alerts = rules
            .iter()
            .map(|rule| without_threshold(rule["query"].as_str().expect("a query")));
        let queries: Vec<String> = dashboard_queries().into_iter().chain(alerts).collect();
        assert!(rules.len() > 10 && queries.len() > 30, "{queries:?}");
        for query in queries {
            until(&query, || (prometheus.series(&query) > 0).then_some(()));
        }
        drop(end);
        load.join().expect("no panic");
    });
    assert_eq!(prometheus.series("up{job=\"blocklist-milter\"} == 1"), 1);
}

/// Ends the load, also if the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
