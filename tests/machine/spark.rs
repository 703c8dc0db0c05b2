//! `contrib/spark/blocklist_spark.py` on Spark itself gives the bytes of one build.
//!
//! pyspark, pandas and pyarrow are in the virtual environment `target/pyspark`, where `tests/run`
//! installs them. The connector of S3 is not there: viewfs stands for schemes that only Spark can
//! open. The long form has a master with two workers, one of which is killed.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::compile::{addresses, folder};
use crate::support::tools::Killed;
use crate::support::{
    Scratch, end_processes_in, find_program, free_port, has, has_all, root, rows, until, usable,
};

const COMPILER: &str = env!("CARGO_BIN_EXE_blocklist-compile");
const DATE: &str = "2026-11-01";
const MORE: &str = include_str!("spark/more.py");

/// Returns the environment with pyspark, if Spark can run here.
fn spark() -> Option<PathBuf> {
    let place = Path::new(COMPILER).ancestors().nth(2).unwrap();
    let place = place.join("pyspark");
    let mut pandas = Command::new(place.join("bin/python"));
    pandas.args(["-c", "import pandas"]).stderr(Stdio::null());
    let missing = if find_program("java").is_none() {
        Some("Java is not installed".to_owned())
    } else if !place.join("bin/spark-submit").exists() {
        Some(format!("pyspark is not installed in {}", place.display()))
    } else if !pandas.status().is_ok_and(|status| status.success()) {
        Some(format!("pandas is not installed in {}", place.display()))
    } else {
        None
    };
    usable("pyspark", missing).then_some(place)
}

/// Folders of a site, also under viewfs://far/.
const FOLDERS: [&str; 3] = ["lists", "parts", "out"];

fn job() -> PathBuf {
    root("contrib/spark/blocklist_spark.py")
}

struct Site {
    spark: PathBuf,
    dir: Scratch,
}

impl Site {
    /// Creates two lists, one of them compressed; a table; a seed.
    fn new(spark: PathBuf, lines: u32) -> Self {
        let dir = folder(&[
            ("rows.txt", &addresses(0..3_000)),
            ("more.txt", &addresses(lines / 2..lines / 2 + 2_000)),
        ]);
        for name in FOLDERS {
            fs::create_dir(dir.at(name)).unwrap();
        }
        let big = format!("# Licence: CC0-1.0\n{}no line end", addresses(0..lines));
        dir.write("lists/big.txt", big);
        let site = Self { spark, dir };
        let path = site.dir.path().to_owned();
        let python = site.spark.join("bin/python");
        site.run(Command::new(python).args(["-c", MORE]).arg(&path));
        site.compile("build -q -o seed.blf --allow-empty /dev/null");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.at(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        self.dir.read(name)
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

    /// Checks that a filter has the bytes of one build with these words.
    fn is_one_build(&self, filter: &str, words: &str) {
        let options = format!("--seed-from seed.blf --date {DATE} --name x");
        let one = format!("one-{}", filter.replace('/', "-"));
        self.compile(&format!("build -q {options} -o {one} {words}"));
        assert!(self.read(filter) == self.read(&one), "{filter}");
    }

    /// Checks that the statistics tell of several pieces.
    fn has_pieces(&self) {
        let pieces: Value = serde_json::from_slice(&self.read("pieces.json")).unwrap();
        assert!(pieces["pieces"].as_array().unwrap().len() > 5, "{pieces}");
    }

    /// Returns the number of parts that are left.
    fn parts_left(&self) -> usize {
        fs::read_dir(self.path("parts")).unwrap().count()
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
            .args(FOLDERS.map(|name| {
                let link = "spark.hadoop.fs.viewfs.mounttable.far.link";
                format!("--conf={link}./{name}=file://{}", self.path(name).display())
            }))
            .args(["--files", &format!("{COMPILER},seed.blf")])
            .arg(job())
            .args(["--date", DATE, "--name", "x"])
            .args(words.split_whitespace());
        submit
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
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
    assert_eq!(mode(Path::new(kept.trim_start_matches("file:"))), 0o750);
    site.run(&mut site.submit(
        "local[2]",
        &format!("--resume {kept} --output all.blf --report report.json --statistics pieces.json"),
    ));
    site.is_one_build("all.blf", "--source big.txt --format plain lists");
    site.has_pieces();
    let report: Value = serde_json::from_slice(&site.read("report.json")).unwrap();
    assert_eq!(report["rejected"], 1);
    assert_eq!(site.parts_left(), 0, "parts are removed");

    site.run(&mut site.submit(
        "local[2]",
        "--input rows.parquet --column sender --source rows.txt --piece 10K --parts parts --output table.blf",
    ));
    site.is_one_build("table.blf", "rows.txt");
}

/// Spark reads the lists and stores the parts and the filter: every byte stays, also of a line that
/// is not UTF-8, and of a file with a name that must be escaped.
#[test]
fn what_only_spark_can_open() {
    let Some(spark) = spark() else { return };
    let site = Site::new(spark, 3_000);
    let odd = "a %20?#b.txt";
    fs::rename(site.path("lists/big.txt"), site.path("lists").join(odd)).unwrap();
    let bytes = b"z\xe9@bad.example\r\ny@bad.example\r\n";
    site.dir.write("lists/bytes.txt", bytes);
    site.run(Command::new("xz").args(["-k", "more.txt"]));
    fs::rename(site.path("more.txt.xz"), site.path("lists/other.txt.xz")).unwrap();
    // Another program is still writing it.
    site.dir.write("lists/_temporary/half.txt", addresses(0..9));
    let far =
        "--input viewfs://far/lists --parts viewfs://far/parts --output viewfs://far/out/all.blf";
    let words =
        format!("{far} --format plain --source big.txt --piece 20K --statistics pieces.json");
    for generation in [1, 2] {
        site.run(&mut site.submit("local[2]", &words));
        site.has_pieces();
        if generation == 1 {
            fs::remove_dir_all(site.path("lists/_temporary")).unwrap();
        }
        site.is_one_build("out/all.blf", "--source big.txt --format plain lists");
        assert_eq!(mode(&site.path("out/all.blf")), 0o640);
        // Hadoop's checksums of local files are hidden files.
        assert_eq!(site.parts_left(), 0, "parts are removed");
        assert!(!site.path("out/all.blf.writing").exists());
    }
}

/// Runs the job once for each line of a file, in one JVM.
const EACH: &str = include_str!("spark/each.py");

#[test]
fn what_cannot_work_is_one_line_before_the_work() {
    let Some(spark) = spark() else { return };
    let site = Site::new(spark, 10);
    fs::create_dir_all(site.path("delta/_delta_log")).unwrap();
    site.dir.write("iceberg/metadata/v1.metadata.json", "{}");
    let cases = rows::<2>(
        "
        --input gone --output x.blf                                   | Path does not exist
        --input delta --output x.blf                                  | a table of Delta
        --input iceberg --column a --output x.blf                     | a table of Iceberg
        --input rows.parquet --column sendr --output x.blf            | no column sendr; there are id, sender
        --input rows.parquet --column id --output x.blf               | the column id has the type bigint
        --input lists --seed-file other.blf --output x.blf            | other.blf: not among the files
        --input lists --output gone/x.blf                             | gone/x.blf: cannot be written
        --input lists --piece 10 --output x.blf                       | larger than --piece; give --format
        --resume lists --output x.blf                                 | not the complete parts of a job
        // Locations are visible on Spark's pages.
        --input s3a://key:hidden@lists/in --output x.blf              | a URI must not contain a password
        ",
    );
    let lines = cases
        .iter()
        .map(|[words, _]| format!("{words} --parts parts\n"));
    site.dir.write("cases.txt", lines.collect::<String>());
    let each = EACH.replace("JOB", &format!("{:?}", job()));
    site.dir.write("each.py", each);
    let mut submit = site.submit("local[1]", "");
    let words: Vec<_> = submit.get_args().map(ToOwned::to_owned).collect();
    let options = words.iter().take_while(|word| **word != *job().as_os_str());
    submit = site.in_spark("spark-submit");
    submit.args(options).arg("each.py").arg("-");
    let done = site.run(&mut submit);
    let [said, also] = [&done.stdout, &done.stderr].map(|all| String::from_utf8_lossy(all));
    assert!(
        !said.contains("hidden") && !also.contains("hidden"),
        "{said}{also}"
    );
    let starts = ["blocklist_spark: ", "blocklist_spark.py: error: ", "exit "];
    let is_ours = |line: &&str| starts.iter().any(|start| line.starts_with(start));
    let said: Vec<_> = said.lines().filter(is_ours).collect();
    assert_eq!(said.len(), 2 * cases.len(), "{said:#?}");
    for (pair, [_, why]) in said.chunks(2).zip(cases) {
        has(pair[0], why);
        assert_eq!(pair[1], "exit 2", "{why}");
    }
    assert!(!site.path("x.blf").exists());
    assert_eq!(site.parts_left(), 0);
}

/// Ends the processes that Spark started in the folder of the test.
impl Drop for Site {
    fn drop(&mut self) {
        end_processes_in(self.dir.path());
    }
}

impl Site {
    fn server(&self, name: &str, class: &str, words: &str) -> Killed {
        let log = File::create(self.path(&format!("{name}.log"))).unwrap();
        // The script replaces itself by Java, so that a signal reaches it.
        let mut command = self.in_spark("spark-class");
        let class = format!("org.apache.spark.deploy.{}.{class}", class.to_lowercase());
        command.arg(class).args(words.split_whitespace());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Killed(command.spawn().unwrap())
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
    let words = format!("--host 127.0.0.1 --port {port} --webui-port {page}");
    let _master = site.server("master", "Master", &words);
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
    submit.stdout(log.try_clone().unwrap()).stderr(log);
    let mut job = Killed(submit.spawn().unwrap());
    let parts = || committed(&site.path("parts"));
    // Three of thirty. Java needs time to start.
    let deadline = Instant::now() + Duration::from_secs(300);
    while parts() < 3 {
        let log = || site.dir.text("submit.log");
        let is_late = Instant::now() > deadline;
        assert!(!is_late, "no parts after 5 minutes: {}", log());
        thread::sleep(Duration::from_millis(50));
    }
    drop(first);
    let status = job.0.wait().unwrap();
    let log = site.dir.text("submit.log");
    assert!(status.success(), "{log}");
    has(&log, "Lost executor");
    site.is_one_build("all.blf", "--source big.txt --format plain lists");
}
