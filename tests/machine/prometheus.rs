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
use support::tools::End;
use support::{Scratch, free_port, installed, root, rows, run, show_on_failure, until};

const ALERTS: &str = "contrib/prometheus/alerts.yml";

struct Prometheus {
    process: Child,
    endpoint: Endpoint,
    log: PathBuf,
}

impl Prometheus {
    /// Starts a Prometheus that reads the daemon at this port twice a second.
    fn start(folder: &Path, target: u16) -> Self {
        let text = format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}}\n\
             rule_files: [\"{}\"]\n\
             scrape_configs:\n- job_name: blocklist-milter\n  static_configs: [{{targets: [\"127.0.0.1:{target}\"]}}]\n",
            root(ALERTS).display()
        );
        fs::write(folder.join("prometheus.yml"), text).expect("a file");
        let port = free_port();
        let log = folder.join("prometheus.log");
        let output = File::create(&log).expect("a file");
        let process = Command::new("prometheus")
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
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
        let log = fs::read_to_string(&self.log);
        show_on_failure("prometheus", &log.unwrap_or_default());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the queries of the dashboard, with all variables set to everything.
fn dashboard_queries() -> Vec<String> {
    let text =
        fs::read_to_string(root("contrib/grafana/blocklist-milter.json")).expect("it is there");
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

/// Returns the expression of an alert as a query that also has a result when there is no problem, in
/// a Prometheus that has just been started.
fn without_threshold(query: &str) -> String {
    [" == ", " > ", " < "]
        .iter()
        .fold(query.replace(" offset 1d", ""), |query, comparison| {
            query.replace(comparison, &format!("{comparison}bool "))
        })
}

#[test]
fn the_alerts_are_valid() {
    if !installed("promtool") {
        return;
    }
    let rules = root(ALERTS);
    run(Command::new("promtool").args(["check", "rules"]).arg(rules));
}

#[test]
fn each_alert_fires_when_it_should_and_only_then() {
    if !installed("promtool") {
        return;
    }
    let rules = root(ALERTS);
    let alerts = rows(include_str!("alerts.txt"));
    let written = fs::read_to_string(&rules).expect("it is there");
    assert_eq!(written.matches("- alert: ").count(), alerts.len());
    // Each rule is evaluated for every interval of a day, in each test: a minute would take a minute of the processor.
    let mut text = format!(
        "rule_files: [\"{}\"]\nevaluation_interval: 5m\ntests:\n",
        rules.display()
    );
    for [alert, firing, quiet] in alerts {
        for (series, expected) in [(firing, "[{labels: '{}', value: 1}]"), (quiet, "[]")] {
            text += "- interval: 1m\n  input_series:\n";
            for one in series.split(" ; ") {
                let (name, values) = one.split_once(' ').expect("values");
                let is_other = name.starts_with("up{") || name.starts_with("node_");
                let prefix = if is_other { "" } else { "blocklist_milter_" };
                text += &format!("  - {{series: '{prefix}{name}', values: '{values}'}}\n");
            }
            text += &format!(
                "  promql_expr_test:\n  - {{expr: 'count(ALERTS{{alertname=\"BlocklistMilter{alert}\",alertstate=\"firing\"}})', eval_time: 1560m, exp_samples: {expected}}}\n"
            );
        }
    }
    let scratch = Scratch::new();
    let file = scratch.write("alerts_test.yml", &text);
    run(Command::new("promtool").args(["test", "rules"]).arg(file));
}

#[test]
fn every_query_of_dashboard_and_alerts_has_data() {
    if !installed("prometheus") {
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
    let prometheus = Prometheus::start(scratch.path(), port);
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
