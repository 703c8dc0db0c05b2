//! `contrib/spark/blocklist_spark.py` on Spark itself gives the bytes of one build.
//!
//! pyspark and pyarrow are in the virtual environment `target/pyspark`, where `tests/run` installs
//! them; `moto_server`, which simulates S3, is in `target/stores`. The long form has a master with
//! two workers, one of which is killed.

use crate::support as machine;
use crate::support::compile as support;

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use machine::{end_processes_in, find_program, free_port, until, usable};
use support::{addresses, folder};

use crate::support::{has, has_all};

const COMPILER: &str = env!("CARGO_BIN_EXE_blocklist-compile");
const DATE: &str = "2026-11-01";
const MORE: &str = "\
import gzip, pathlib, sys
import pyarrow, pyarrow.parquet
folder = pathlib.Path(sys.argv[1])
rows = (folder / 'rows.txt').read_text().splitlines()
table = pyarrow.table({'id': range(len(rows)), 'sender': rows})
pyarrow.parquet.write_table(table, folder / 'rows.parquet', row_group_size=500)
(folder / 'lists/more.txt.gz').write_bytes(gzip.compress((folder / 'more.txt').read_bytes()))
";

/// Returns the path of a virtual environment that `tests/run` creates.
fn environment(name: &str) -> PathBuf {
    Path::new(COMPILER).ancestors().nth(2).unwrap().join(name)
}

/// Returns the environment with pyspark, if Spark can run here.
fn spark() -> Option<PathBuf> {
    let place = environment("pyspark");
    let missing = if find_program("java").is_none() {
        Some("Java is not installed".to_owned())
    } else if !place.join("bin/spark-submit").exists() {
        Some(format!("pyspark is not installed in {}", place.display()))
    } else {
        None
    };
    usable("pyspark", missing).then_some(place)
}

struct Site {
    spark: PathBuf,
    dir: crate::support::compile::Dir,
}

impl Site {
    /// Creates two lists, one of them compressed; a table; a seed.
    fn new(spark: PathBuf, lines: u32) -> Self {
        let dir = folder(&[
            ("rows.txt", &addresses(0..3_000)),
            ("more.txt", &addresses(lines / 2..lines / 2 + 2_000)),
        ]);
        fs::create_dir(dir.path().join("lists")).unwrap();
        fs::write(
            dir.path().join("lists/big.txt"),
            format!("# Licence: CC0-1.0\n{}no line end", addresses(0..lines)),
        )
        .unwrap();
        let site = Self { spark, dir };
        let path = site.dir.path().to_owned();
        let python = site.spark.join("bin/python");
        site.run(Command::new(python).args(["-c", MORE]).arg(&path));
        site.compile("build -q -o seed.blf --allow-empty /dev/null");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn run(&self, command: &mut Command) -> Output {
        let done = command.current_dir(self.dir.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command:?}\n{stderr}");
        done
    }

    fn compile(&self, words: &str) {
        self.run(Command::new(COMPILER).args(words.split_whitespace()));
    }

    fn in_spark(&self, program: &str) -> Command {
        let mut command = Command::new(self.spark.join("bin").join(program));
        command
            .current_dir(self.dir.path())
            .env("PYSPARK_PYTHON", self.spark.join("bin/python"))
            .env("SPARK_LOCAL_IP", "127.0.0.1")
            .env("SPARK_LOCAL_DIRS", self.dir.path())
            .env("SPARK_WORKER_DIR", self.path("work"))
            .env_remove("SPARK_HOME")
            .stdin(Stdio::null());
        command
    }

    fn submit(&self, master: &str, words: &str) -> Command {
        let mut submit = self.in_spark("spark-submit");
        submit
            .args(["--master", master, "--conf", "spark.ui.enabled=false"])
            .args(["--conf", "spark.driver.host=127.0.0.1"])
            .args(["--conf", "spark.driver.memory=512m"])
            .args(["--conf", "spark.executor.memory=512m"])
            .args(["--conf", "spark.executor.cores=1"])
            .args(["--files", &format!("{COMPILER},seed.blf")])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/spark/blocklist_spark.py"))
            .args(["--date", DATE, "--name", "x", "--parts", "parts"])
            .args(words.split_whitespace());
        submit
    }
}

#[test]
fn spark_gives_the_bytes_of_one_build() {
    let Some(spark) = spark() else { return };
    let site = Site::new(spark, 9_000);
    let text = "--input lists --format plain --source big.txt --piece 40K";
    let done = site.run(&mut site.submit(
        "local[2]",
        &format!("{text} --output all.blf --report report.json --statistics pieces.json"),
    ));
    site.compile(&format!(
        "build -q --seed-from seed.blf --date {DATE} --name x --source big.txt --format plain -o one.blf lists"
    ));
    assert!(site.read("all.blf") == site.read("one.blf"));
    // spark-submit prints both streams of the program to one.
    let printed = String::from_utf8_lossy(&done.stdout);
    let rejected = "/big.txt.";
    has_all(&printed, &[rejected, "no line end"]);
    let pieces: serde_json::Value = serde_json::from_slice(&site.read("pieces.json")).unwrap();
    assert!(pieces["pieces"].as_array().unwrap().len() > 5, "{pieces}");
    let report: serde_json::Value = serde_json::from_slice(&site.read("report.json")).unwrap();
    assert_eq!(report["rejected"], 1);
    assert_eq!(
        fs::read_dir(site.path("parts")).unwrap().count(),
        0,
        "parts are removed"
    );

    // Rejected lines of all pieces together; the filter stays.
    let refused = site
        .submit(
            "local[2]",
            &format!("{text} --output all.blf --max-rejects 0"),
        )
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(site.read("all.blf") == site.read("one.blf"));

    site.run(&mut site.submit(
        "local[2]",
        "--input rows.parquet --column sender --source rows.txt --piece 10K --output table.blf",
    ));
    site.compile(&format!(
        "build -q --seed-from seed.blf --date {DATE} --name x -o rows.blf rows.txt"
    ));
    assert!(site.read("table.blf") == site.read("rows.blf"));
}

const TO_S3: &str = "\
import pathlib, sys
from pyarrow import fs
system, _ = fs.FileSystem.from_uri(sys.argv[1])
system.create_dir('lists')
for name in sys.argv[2:]:
    with system.open_output_stream('lists/in/' + name, compression=None) as file:
        file.write(pathlib.Path('lists/' + name).read_bytes())
";
const LEFT_IN_S3: &str = "\
import sys
from pyarrow import fs
system, _ = fs.FileSystem.from_uri(sys.argv[1])
files = system.get_file_info(fs.FileSelector('lists', recursive=True))
print(*sorted(file.path for file in files if file.type == fs.FileType.File), sep=',')
";

impl Site {
    /// Runs a program that fills or checks a bucket of S3, simulated by moto.
    fn in_s3(&self, endpoint: &str, program: &str, names: &[&str]) -> String {
        let mut python = Command::new(self.spark.join("bin/python"));
        python.args(["-c", program]);
        python.arg(format!(
            "s3://lists?scheme=http&endpoint_override={endpoint}&allow_bucket_creation=true"
        ));
        python
            .args(names)
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "b")
            .env("AWS_REGION", "us-east-1");
        String::from_utf8(self.run(&mut python).stdout).unwrap()
    }
}

/// Lists and parts are in a bucket: the result has the bytes of one build, and only the lists
/// remain there.
#[test]
fn lists_and_parts_may_lie_in_s3() {
    let Some(spark) = spark() else { return };
    let moto = environment("stores").join("bin/moto_server");
    let missing = (!moto.exists()).then(|| format!("{} is not there", moto.display()));
    if !usable("moto_server", missing) {
        return;
    }
    let site = Site::new(spark, 3_000);
    // Names that must be escaped in a URI; and a file that another program is still writing.
    let odd = "a %20?#b.txt";
    fs::rename(site.path("lists/big.txt"), site.path("lists").join(odd)).unwrap();
    fs::create_dir(site.path("lists/_temporary")).unwrap();
    fs::write(site.path("lists/_temporary/half.txt"), addresses(0..9)).unwrap();
    let endpoint = format!("127.0.0.1:{}", free_port());
    let log = File::create(site.path("moto.log")).unwrap();
    let _moto = Server(
        Command::new(moto)
            .args(["-H", "127.0.0.1", "-p", endpoint.split_once(':').unwrap().1])
            .current_dir(site.dir.path())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap(),
    );
    until("moto listens", || TcpStream::connect(&endpoint).ok());
    let names = [odd, "more.txt.gz", "_temporary/half.txt"];
    site.in_s3(&endpoint, TO_S3, &names);

    let words = "--input s3://lists/in --format plain --source big.txt --piece 20K --parts s3://lists/parts \
                 --statistics pieces.json";
    let mut submit = site.submit("local[2]", &format!("{words} --output all.blf"));
    submit
        .env("AWS_ACCESS_KEY_ID", "a")
        .env("AWS_SECRET_ACCESS_KEY", "b")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", format!("http://{endpoint}"));
    site.run(&mut submit);
    let pieces: serde_json::Value = serde_json::from_slice(&site.read("pieces.json")).unwrap();
    assert!(pieces["pieces"].as_array().unwrap().len() > 3, "{pieces}");
    fs::remove_dir_all(site.path("lists/_temporary")).unwrap();
    site.compile(&format!(
        "build -q --seed-from seed.blf --date {DATE} --name x --source big.txt --format plain -o one.blf lists"
    ));
    assert!(site.read("all.blf") == site.read("one.blf"));
    let left = site.in_s3(&endpoint, LEFT_IN_S3, &[]);
    let expected = format!("lists/in/_temporary/half.txt,lists/in/{odd},lists/in/more.txt.gz\n");
    assert_eq!(left, expected, "parts are removed");
}

/// Locations are visible on Spark's pages.
#[test]
fn a_password_in_a_uri_is_refused() {
    let Some(spark) = spark() else { return };
    let site = Site::new(spark, 10);
    let mut submit = site.submit(
        "local[1]",
        "--input s3://key:hidden@lists/in --output all.blf",
    );
    let refused = submit.output().unwrap();
    let said = [refused.stdout, refused.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(!refused.status.success());
    has(&said, "a URI must not contain a password");
    assert!(!said.contains("hidden"), "{said}");
}

/// Ends the processes that Spark started in the folder of the test.
impl Drop for Site {
    fn drop(&mut self) {
        end_processes_in(self.dir.path());
    }
}

/// A server that ends with its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Site {
    fn server(&self, name: &str, class: &str, words: &str) -> Server {
        let log = File::create(self.path(&format!("{name}.log"))).unwrap();
        // The script replaces itself by Java, so that a signal reaches it.
        let mut command = self.in_spark("spark-class");
        let class = format!("org.apache.spark.deploy.{}.{class}", class.to_lowercase());
        command.arg(class).args(words.split_whitespace());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Server(command.spawn().unwrap())
    }
}

#[test]
#[ignore = "a Spark cluster: some minutes"]
fn a_killed_worker_changes_no_byte() {
    let Some(spark) = spark() else { return };
    let site = Site::new(spark, 200_000);
    let (port, page) = (free_port(), free_port());
    let master = format!("spark://127.0.0.1:{port}");
    let _master = site.server(
        "master",
        "Master",
        &format!("--host 127.0.0.1 --port {port} --webui-port {page}"),
    );
    let listens = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok();
    until("the master listens", listens);
    let worker = |name| {
        let page = free_port();
        let words =
            format!("--host 127.0.0.1 --cores 1 --memory 600m --webui-port {page} {master}");
        site.server(name, "Worker", &words)
    };
    let (first, _second) = (worker("first"), worker("second"));
    let mut submit = site.submit(
        &master,
        "--input lists --format plain --source big.txt --piece 250K --output all.blf --statistics pieces.json",
    );
    let log = File::create(site.path("submit.log")).unwrap();
    let mut job = Server(
        submit
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap(),
    );
    let parts = || {
        let folders = fs::read_dir(site.path("parts"))
            .into_iter()
            .flatten()
            .flatten();
        let parts = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
        parts.count()
    };
    // Three of thirty. Java needs time to start.
    let deadline = Instant::now() + Duration::from_secs(300);
    while parts() < 3 {
        let log = || fs::read_to_string(site.path("submit.log")).unwrap();
        assert!(
            Instant::now() < deadline,
            "no parts after 5 minutes: {}",
            log()
        );
        thread::sleep(Duration::from_millis(50));
    }
    drop(first);
    let status = job.0.wait().unwrap();
    let log = fs::read_to_string(site.path("submit.log")).unwrap();
    assert!(status.success(), "{log}");
    has(&log, "Lost executor");
    site.compile(&format!(
        "build -q --seed-from seed.blf --date {DATE} --name x --source big.txt --format plain -o one.blf lists"
    ));
    assert!(site.read("all.blf") == site.read("one.blf"));
}
