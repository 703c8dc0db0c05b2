//! `contrib/spark/blocklist_spark.py` on Spark itself gives the bytes of one build.
//!
//! pyspark, pandas and pyarrow are in the virtual environment `target/pyspark`, where `tests/run`
//! installs them. The connector of S3 is not there: viewfs stands for schemes that only Spark can
//! open. The long form has a master with two workers, one of which is killed.

use crate::support as machine;
use crate::support::compile as support;

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
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
    } else if !Command::new(place.join("bin/python"))
        .args(["-c", "import pandas"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        Some(format!("pandas is not installed in {}", place.display()))
    } else {
        None
    };
    usable("pyspark", missing).then_some(place)
}

/// Folders under viewfs://far/.
const VIEWFS: [(&str, &str); 3] = [("lists", "lists"), ("parts", "parts"), ("out", "out")];

fn job() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/spark/blocklist_spark.py")
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
        for name in ["lists", "parts", "out"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
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
            .args(VIEWFS.map(|(name, below)| {
                let folder = self.path(below);
                format!(
                    "--conf=spark.hadoop.fs.viewfs.mounttable.far.link./{name}=file://{}",
                    folder.display()
                )
            }))
            .args(["--files", &format!("{COMPILER},seed.blf")])
            .arg(job())
            .args(["--date", DATE, "--name", "x"])
            .args(words.split_whitespace());
        submit
    }
}

#[test]
fn spark_gives_the_bytes_of_one_build() {
    let Some(spark) = spark() else { return };
    let site = Site::new(spark, 9_000);
    let text = "--input lists --format plain --source big.txt --piece 40K --parts parts";
    // Rejected lines of all pieces together; nothing is written, and the parts are kept.
    let refused = site.submit(
        "local[2]",
        &format!("{text} --output all.blf --max-rejects 0"),
    );
    let refused = { refused }.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(!site.path("all.blf").exists());
    let said = String::from_utf8_lossy(&refused.stdout);
    // spark-submit prints both streams of the program to one.
    has_all(&said, &["/big.txt.", "no line end"]);
    let kept = said
        .lines()
        .find_map(|line| line.strip_prefix("kept      "));
    let (kept, _) = kept.expect(&said).split_once(": ").expect(&said);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(Path::new(kept.trim_start_matches("file:"))), 0o750);
    site.run(&mut site.submit(
        "local[2]",
        &format!("--resume {kept} --output all.blf --report report.json --statistics pieces.json"),
    ));
    site.compile(&format!(
        "build -q --seed-from seed.blf --date {DATE} --name x --source big.txt --format plain -o one.blf lists"
    ));
    assert!(site.read("all.blf") == site.read("one.blf"));
    let pieces: serde_json::Value = serde_json::from_slice(&site.read("pieces.json")).unwrap();
    assert!(pieces["pieces"].as_array().unwrap().len() > 5, "{pieces}");
    let report: serde_json::Value = serde_json::from_slice(&site.read("report.json")).unwrap();
    assert_eq!(report["rejected"], 1);
    let left = fs::read_dir(site.path("parts")).unwrap().count();
    assert_eq!(left, 0, "parts are removed");

    site.run(&mut site.submit(
        "local[2]",
        "--input rows.parquet --column sender --source rows.txt --piece 10K --parts parts --output table.blf",
    ));
    site.compile(&format!(
        "build -q --seed-from seed.blf --date {DATE} --name x -o rows.blf rows.txt"
    ));
    assert!(site.read("table.blf") == site.read("rows.blf"));
}

/// Spark reads the lists and stores the parts and the filter: every byte stays, also of a line that
/// is not UTF-8, and of a file with a name that must be escaped.
#[test]
fn what_only_spark_can_open() {
    let Some(spark) = spark() else { return };
    let site = Site::new(spark, 3_000);
    let odd = "a %20?#b.txt";
    fs::rename(site.path("lists/big.txt"), site.path("lists").join(odd)).unwrap();
    fs::write(
        site.path("lists/bytes.txt"),
        b"z\xe9@bad.example\r\ny@bad.example\r\n",
    )
    .unwrap();
    site.run(Command::new("xz").args(["-k", "more.txt"]));
    fs::rename(site.path("more.txt.xz"), site.path("lists/other.txt.xz")).unwrap();
    // Another program is still writing it.
    fs::create_dir(site.path("lists/_temporary")).unwrap();
    fs::write(site.path("lists/_temporary/half.txt"), addresses(0..9)).unwrap();
    let far =
        "--input viewfs://far/lists --parts viewfs://far/parts --output viewfs://far/out/all.blf";
    let words =
        format!("{far} --format plain --source big.txt --piece 20K --statistics pieces.json");
    for generation in [1, 2] {
        site.run(&mut site.submit("local[2]", &words));
        let pieces: serde_json::Value = serde_json::from_slice(&site.read("pieces.json")).unwrap();
        assert!(pieces["pieces"].as_array().unwrap().len() > 5, "{pieces}");
        if generation == 1 {
            fs::remove_dir_all(site.path("lists/_temporary")).unwrap();
        }
        site.compile(&format!(
            "build -q --seed-from seed.blf --date {DATE} --name x --source big.txt --format plain -o one.blf lists"
        ));
        assert!(
            site.read("out/all.blf") == site.read("one.blf"),
            "{generation}"
        );
        let left = |name| fs::read_dir(site.path(name)).unwrap().count();
        let mode = fs::metadata(site.path("out/all.blf"))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o640);
        // Hadoop's checksums of local files are hidden files.
        assert_eq!(left("parts"), 0, "parts are removed");
        assert!(!site.path("out/all.blf.writing").exists());
    }
}

/// Runs the job once for each line of a file, in one JVM.
const EACH: &str = "\
import runpy, sys
for line in open('cases.txt'):
    sys.argv = ['blocklist_spark', *line.split()]
    try:
        runpy.run_path(JOB, run_name='__main__')
    except SystemExit as end:
        print('exit', end.code)
    sys.stdout.flush()
    sys.stderr.flush()
";

#[test]
fn what_cannot_work_is_one_line_before_the_work() {
    let Some(spark) = spark() else { return };
    let site = Site::new(spark, 10);
    fs::create_dir_all(site.path("delta/_delta_log")).unwrap();
    fs::create_dir_all(site.path("iceberg/metadata")).unwrap();
    fs::write(site.path("iceberg/metadata/v1.metadata.json"), "{}").unwrap();
    let cases = [
        ("--input gone --output x.blf", "Path does not exist"),
        ("--input delta --output x.blf", "a table of Delta"),
        (
            "--input iceberg --column a --output x.blf",
            "a table of Iceberg",
        ),
        (
            "--input rows.parquet --column sendr --output x.blf",
            "no column sendr; there are id, sender",
        ),
        (
            "--input rows.parquet --column id --output x.blf",
            "the column id has the type bigint",
        ),
        (
            "--input lists --seed-file other.blf --output x.blf",
            "other.blf: not among the files",
        ),
        (
            "--input lists --output gone/x.blf",
            "gone/x.blf: cannot be written",
        ),
        (
            "--input lists --piece 10 --output x.blf",
            "larger than --piece; give --format",
        ),
        (
            "--resume lists --output x.blf",
            "not the complete parts of a job",
        ),
    ];
    let lines = cases.map(|(words, _)| format!("{words} --parts parts\n"));
    fs::write(site.path("cases.txt"), lines.concat()).unwrap();
    let each = EACH.replace("JOB", &format!("{:?}", job()));
    fs::write(site.path("each.py"), each).unwrap();
    let mut submit = site.submit("local[1]", "");
    let words: Vec<_> = submit.get_args().map(ToOwned::to_owned).collect();
    let options = words.iter().take_while(|word| **word != *job().as_os_str());
    submit = site.in_spark("spark-submit");
    submit.args(options).arg("each.py").arg("-");
    let done = site.run(&mut submit);
    let said = String::from_utf8_lossy(&done.stdout);
    let said: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("blocklist_spark: ") || line.starts_with("exit "))
        .collect();
    assert_eq!(said.len(), 2 * cases.len(), "{said:#?}");
    for (pair, (_, why)) in said.chunks(2).zip(cases) {
        has(pair[0], why);
        assert_eq!(pair[1], "exit 2", "{why}");
    }
    assert!(!site.path("x.blf").exists());
    assert_eq!(fs::read_dir(site.path("parts")).unwrap().count(), 0);
}

/// Locations are visible on Spark's pages.
#[test]
fn a_password_in_a_uri_is_refused() {
    let Some(spark) = spark() else { return };
    let site = Site::new(spark, 10);
    let mut submit = site.submit(
        "local[1]",
        "--input s3a://key:hidden@lists/in --parts parts --output all.blf",
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

/// Counts the parts below a folder, which Spark renames when a task has ended.
fn committed(folder: &Path) -> usize {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |path: PathBuf| match path.is_dir() {
        true => committed(&path),
        false => {
            let is_part = path.extension().is_some_and(|ending| ending == "parquet");
            usize::from(is_part && !path.to_string_lossy().contains("/_temporary/0/_temporary/"))
        }
    };
    files.map(|file| count(file.path())).sum()
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
        "--input lists --format plain --source big.txt --piece 250K --parts parts --output all.blf --statistics pieces.json",
    );
    let log = File::create(site.path("submit.log")).unwrap();
    let mut job = Server(
        submit
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap(),
    );
    let parts = || committed(&site.path("parts"));
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
