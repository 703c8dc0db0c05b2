#!/usr/bin/env python3
"""Compiles a list that is too large for one machine, on Apache Spark.

    spark-submit --files blocklist-compile,seed.blf blocklist_spark.py \\
        --input s3a://lists/senders/ --format plain --parts s3a://lists/parts/ --output big.blf

Spark lists and reads the input, whatever its scheme, so the cluster's connectors and credentials
count. Only files that every machine can open by their path are read without Spark. Each task runs
`blocklist-compile build --part` on one piece: a range of a text file, a whole file, or some row
groups of a Parquet file. The part is stored as rows of a Parquet file in --parts. The driver
fetches all parts and merges them with `blocklist-compile merge --expect`. See docs/large.md.

Needs Python 3.9 or later with pyarrow, and Spark 3.4 or later. The program should be the static
one, because the machines of a cluster may have another C library.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import pyarrow
import pyarrow.compute
import pyarrow.parquet
from py4j.protocol import Py4JError
from pyspark import SparkFiles, TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Observation, SparkSession, functions

COMPILER = "blocklist-compile"
BLOCK_BYTES = 1 << 20
# Parts and filters contain the seed.
UMASK = 0o027
# The compiler decompresses these files. They cannot be split into pieces.
PACKED = (".gz", ".zst", ".bz2", ".xz", ".zip", ".tar", ".tgz", ".7z")
# Spark passes such a file as one value.
MAX_PACKED_BYTES = 1 << 30
# Tables of which the files alone do not say which rows count.
TABLES = {"_delta_log": "Delta", "metadata/*.metadata.json": "Iceberg", ".hoodie": "Hudi"}
FETCHES = 8
PART = pyarrow.schema([("data", pyarrow.binary()), ("report", pyarrow.string())])


class Refused(Exception):
    """One line for the user."""


def arguments():
    parser = argparse.ArgumentParser(description="Compile a list on Apache Spark.")
    add = parser.add_argument
    add("--input", action="append", default=[], metavar="PATH",
        help="a file or folder of lists, or its URI, as Spark reads it; may be repeated")
    add("--output", required=True, metavar="FILE", help="the filter file to write, on the driver, or its URI")
    add("--parts", metavar="FOLDER", help="folder or URI for the parts; the driver and all workers must reach it")
    add("--resume", metavar="FOLDER", help="merge the parts that an earlier job has kept in this folder")
    add("--column", metavar="NAME", help="the inputs are Parquet files: read this column")
    add("--format", metavar="FORMAT", help="format of the lists, as for blocklist-compile build")
    add("--source", metavar="NAME", help="name of the list in the filter [default: the first --input]")
    add("--name", metavar="NAME", help="name of the list in logs and replies")
    add("--seed-file", default="seed.blf", metavar="NAME",
        help="the filter given by --files whose seed is used [default: seed.blf]")
    add("--date", metavar="DATE", help="build date [default: that of --source-date-epoch]")
    add("--source-date-epoch", type=int, default=int(os.environ.get("SOURCE_DATE_EPOCH", time.time())),
        metavar="SECONDS", help="time of the build, since 1970 [default: SOURCE_DATE_EPOCH, or now]")
    add("--piece", type=size, default=size("256M"), metavar="SIZE",
        help="bytes of text in a piece [default: 256M]")
    add("--memory", default="512M", metavar="SIZE", help="memory of the compiler in a task [default: 512M]")
    add("--max-rejects", default="1%", metavar="N|N%",
        help="write nothing if more lines than this are rejected, of all pieces together [default: 1%%]")
    add("--report", metavar="FILE", help="write the report of the merge to this file, as JSON")
    add("--statistics", metavar="FILE", help="write time and size of each piece to this file, as JSON")
    add("--option", action="append", default=[], metavar="OPTION",
        help="a further option of blocklist-compile build, such as --option=--plus; may be repeated")
    add("--keep-parts", action="store_true", help="do not remove the parts at the end")
    args = parser.parse_args()
    if not args.resume and not (args.input and args.parts):
        parser.error("--input and --parts are needed, or --resume")
    # URIs are visible on Spark's pages and in the process list.
    places = [*args.input, args.parts or "", args.resume or "", args.output]
    if any(re.search("://[^/@]*:[^/@]*@", place) for place in places):
        parser.error("a URI must not contain a password: use the configuration of the cluster")
    args.source = args.source or (args.input or [""])[0]
    args.format = args.format or ("plain" if args.column else None)
    return args


def size(text):
    units = {"K": 10, "M": 20, "G": 30}
    unit = units.get(text[-1:].upper())
    return int(text[:-1]) << unit if unit else int(text)


def most_rejects(text, lines):
    return lines * int(text[:-1]) // 100 if text.endswith("%") else int(text)


def shipped(name):
    """Returns the path of a file that --files copied to this machine. YARN puts it into the working directory."""
    path = next(filter(os.path.exists, [SparkFiles.get(name), os.path.abspath(name)]), None)
    if not path:
        raise Refused(f"{name}: not among the files given by --files")
    if name == COMPILER and not os.access(path, os.X_OK):
        os.chmod(path, 0o755)
    return path


def run(command, **options):
    """Runs a command. Returns its standard output."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, **options)
    except OSError as error:
        raise Refused(f"{os.uname().nodename} cannot run {COMPILER} ({error}): give the static program") from error
    if done.returncode != 0:
        said = done.stderr[:4096].decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise Refused(said + (": give the static program" if "GLIBC_" in said else ""))
    return done.stdout


# ---------------------------------------------------------------- Hadoop's file systems, on the driver


class Place:
    """A path or URI, and its file system."""

    def __init__(self, spark, text):
        self.spark = spark
        path = self.path_of(text)
        self.system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self.path = self.system.makeQualified(path)
        self.text = self.path.toString()

    def path_of(self, text):
        return self.spark.sparkContext._jvm.org.apache.hadoop.fs.Path(text)

    def file(self, name):
        return Place(self.spark, f"{self.text.rstrip('/')}/{name}")

    def exists(self):
        return self.system.exists(self.path)

    def matches(self, pattern):
        return bool(self.system.globStatus(self.path_of(f"{self.text.rstrip('/')}/{pattern}")))

    def create_folder(self):
        """Local files get the umask of the JVM, so the folder has to protect them."""
        self.system.mkdirs(self.path)
        self.system.setPermission(self.path, self.mode_of(0o777))

    def mode_of(self, mode):
        permission = self.spark.sparkContext._jvm.org.apache.hadoop.fs.permission.FsPermission
        return permission(f"{mode & ~UMASK:o}")

    def write(self, data):
        with contextlib.closing(self.system.create(self.path)) as file:
            file.write(bytearray(data))

    def fetch(self, local):
        self.system.copyToLocalFile(False, self.path, self.path_of(f"file:{local}"), True)

    def replace_by(self, local):
        """Stores a local file here. Only some file systems can replace a file in one step."""
        half = self.path_of(f"{self.text}.writing")
        self.system.copyFromLocalFile(False, True, self.path_of(f"file:{local}"), half)
        self.system.setPermission(half, self.mode_of(0o666))
        self.system.delete(self.path, False)
        if not self.system.rename(half, self.path):
            raise Refused(f"{self.text}: cannot be replaced; the new one is {self.text}.writing")

    def remove(self):
        self.system.delete(self.path, True)


# ---------------------------------------------------------------- the pieces, on the driver


def files_of(spark, path):
    """Returns the files of an input, with their sizes. Spark skips hidden files, and those in hidden folders."""
    for mark, kind in TABLES.items():
        if Place(spark, path).matches(mark):
            raise Refused(f"{path}: a table of {kind}, and some of its files have rows that no longer count: write its "
                          "present rows to Parquet files first, with that column, and give these with --column")
    files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
    return [(row.path, row.length) for row in files.select("path", "length").collect()]


def pieces_of(spark, args):
    """Returns a table in which each partition is one piece, with the way to read it."""
    conf = {"maxPartitionBytes": args.piece, "openCostInBytes": args.piece, "minPartitionNum": 1}
    for key, value in conf.items():
        # A file costs a whole partition to open, so Spark never puts two into one.
        spark.conf.set(f"spark.sql.files.{key}", value)
    files = sorted(set(file for path in args.input for file in files_of(spark, path)))
    if args.column:
        yield rows_of, column_of(spark, args)
        return
    here, lines, whole = [], [], []
    for path, length in files:
        is_packed = path.lower().endswith(PACKED)
        if length > args.piece and not is_packed and not args.format:
            raise Refused(f"{path}: larger than --piece; give --format, because it can be detected only in the first piece")
        if path.startswith("file:") and is_packed:
            here.append((path[len("file:"):], None, None))
        elif path.startswith("file:"):
            here += [(path[len("file:"):], start, min(start + args.piece, length))
                     for start in range(0, length, args.piece)]
        elif is_packed and not path.lower().endswith(".gz") or path.lower().endswith(".tar.gz"):
            whole.append(path)
            if length > MAX_PACKED_BYTES:
                raise Refused(f"{path}: larger than 1 GiB, and Spark cannot unpack it line by line: give the text, or gzip")
        elif length > 0:
            lines.append(path)
    if here:
        rows = spark.sparkContext.parallelize(here, len(here))
        yield file_of, spark.createDataFrame(rows, "path string, start long, end long")
    if lines:
        # Bytes, not text: a line need not be UTF-8. Only the first row of a piece names it.
        table = spark.read.option("lineSep", "\n").text([as_glob(path) for path in lines])
        name = "if(monotonically_increasing_id() & 8589934591 = 0, " \
               "concat(input_file_name(), ' ', input_file_block_start()), null)"
        yield lines_of, table.select(functions.col("value").cast("binary"), functions.expr(name).alias("name"))
    if whole:
        table = spark.read.format("binaryFile").load([as_glob(path) for path in whole])
        yield content_of, table.select("path", "content")


def as_glob(path):
    """Returns a pattern that matches only this path."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def column_of(spark, args):
    table = spark.read.parquet(*args.input)
    try:
        rows = table.select(functions.col(args.column).alias("row"))
    except AnalysisException:
        raise Refused(f"no column {args.column}; there are {', '.join(table.columns)}") from None
    kind = rows.schema["row"].dataType.simpleString()
    if not re.match("string|varchar|char", kind):
        raise Refused(f"the column {args.column} has the type {kind}, and not text")
    return rows.withColumn("name", functions.input_file_name())


# ---------------------------------------------------------------- one piece, on a worker
# Each of these functions returns the name of a piece, and the path of a local file with its text. The compiler can
# read a file twice, so it needs less time than for a pipe, and half the memory.


def file_of(batches, folder):
    path, start, end = [column[0].as_py() for batch in batches for column in batch.columns]
    if start is None or (start == 0 and end >= os.path.getsize(path)):
        return path, path
    name = f"{path} {start}"
    # Keep its name: messages show it, and it helps to recognize some formats.
    local = os.path.join(folder, f"{os.path.basename(path)}.{start}-{end}")
    with open(path, "rb") as source, open(local, "wb") as target:
        # A line that continues here belongs to the previous piece.
        if start > 0:
            source.seek(start - 1)
            source.readline()
        while (left := end - source.tell()) > 0:
            block = source.read(min(BLOCK_BYTES, left))
            if not block:
                break
            target.write(block)
            if source.tell() >= end and not block.endswith(b"\n"):
                target.write(source.readline())
    return name, local


def lines_of(batches, folder):
    name, local = None, os.path.join(folder, "piece")
    with open(local, "wb") as target:
        for batch in batches:
            name = name or (batch.num_rows and batch.column(1)[0].as_py())
            write_rows(target, batch.column(0))
    if not name:
        return None, None
    path, _, start = name.rpartition(" ")
    base = urllib.parse.unquote(path.rpartition("/")[2])
    # Spark has unpacked it.
    base = base[:-3] if base.lower().endswith(".gz") else base
    named = os.path.join(folder, base if start == "0" else f"{base}.{start}")
    os.rename(local, named)
    return urllib.parse.unquote(path) + ("" if start == "0" else f" {start}"), named


def rows_of(batches, folder):
    name, local = None, os.path.join(folder, "rows")
    with open(local, "wb") as target:
        for batch in batches:
            name = name or (batch.num_rows and batch.column(1)[0].as_py())
            rows = batch.column(0)
            # A row is one line: replace line breaks, so that the text after one does not become an entry.
            rows = pyarrow.compute.replace_substring_regex(rows, "[\r\n]", " ")
            write_rows(target, rows.cast(pyarrow.binary()))
    return (name, local) if name else (None, None)


def content_of(batches, folder):
    path, content = [column[0] for batch in batches for column in batch.columns]
    local = os.path.join(folder, os.path.basename(path.as_py()))
    with open(local, "wb") as target:
        target.write(content.as_buffer())
    return path.as_py(), local


def write_rows(target, rows):
    """Writes each value as a line."""
    lines = pyarrow.compute.binary_join_element_wise(
        rows, b"", b"\n", null_handling="replace", null_replacement=b"")
    length = pyarrow.compute.sum(pyarrow.compute.binary_length(lines)).as_py() or 0
    target.write(memoryview(lines.buffers()[2] or b"")[:length])


def parts_of(text_of, job):
    """Returns the function that builds the part of a partition, and yields it in blocks, the report last."""

    def part_of(batches):
        os.umask(UMASK)
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        own = time.process_time()
        batches = (batch for batch in batches if batch.num_rows)
        with tempfile.TemporaryDirectory(prefix="blocklist-") as folder:
            first = next(batches, None)
            if first is None:
                return
            name, text = text_of((batch for group in ([first], batches) for batch in group), folder)
            piece = f"{TaskContext.get().partitionId():06} {name[-160:]}"
            part = os.path.join(folder, "part.built")
            report = json.loads(run([
                shipped(COMPILER), "build", f"--part={piece}", "--json", "--seed-from", shipped(job["seed_file"]),
                "--source", job["source"], "--threads", "1", "--memory", job["memory"], *job["options"],
                "-o", part, text,
            ], env={**os.environ, **job["env"]}))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            with open(part, "rb") as file:
                while block := file.read(BLOCK_BYTES):
                    yield pyarrow.RecordBatch.from_arrays([[block], pyarrow.nulls(1, pyarrow.string())], schema=PART)
        done = {
            "piece": report["part"]["piece"],
            "digest": report["part"]["digest"],
            "bytes": report["part"]["bytes"],
            "lines": sum(read["lines"] for read in report["inputs"]),
            "rejected": report["rejected"],
            "first_rejects": [line for reject in report["rejects"] for line in reject["first"]][:3],
            "compiler_cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "python_cpu_s": time.process_time() - own,
            "seconds": time.monotonic() - began,
            "host": os.uname().nodename,
        }
        yield pyarrow.RecordBatch.from_arrays([pyarrow.nulls(1, pyarrow.binary()), [json.dumps(done)]], schema=PART)

    return part_of


# ---------------------------------------------------------------- the driver


def watch(context, ended):
    """Prints a progress line every ten seconds."""
    while not ended.wait(10):
        for stage in map(context.statusTracker().getStageInfo, context.statusTracker().getActiveStageIds()):
            if stage:
                print(f"pieces: {stage.numCompletedTasks} of {stage.numTasks}", file=sys.stderr, flush=True)


def make_parts(spark, args, place):
    """Runs a task for each piece. A file in the folder then says what there must be."""
    describe = spark.sparkContext.setJobDescription
    describe(f"{args.source}: list the files")
    date = ["--date", args.date] if args.date else []
    job = {
        "seed_file": args.seed_file, "source": args.source, "memory": args.memory,
        # They are counted over all pieces.
        "options": ["--max-rejects=100%", *date, *(["--format", args.format] if args.format else []), *args.option],
        "env": {"SOURCE_DATE_EPOCH": str(args.source_date_epoch)},
    }
    parts = None
    for text_of, table in pieces_of(spark, args):
        part = table.mapInArrow(parts_of(text_of, job), "data binary, report string")
        parts = part if parts is None else parts.union(part)
    if parts is None:
        raise Refused("no file to read")
    describe(f"{args.source}: compile the pieces")
    place.create_folder()
    ended = threading.Event()
    threading.Thread(target=watch, args=(spark.sparkContext, ended), daemon=True).start()
    seen = Observation()
    try:
        parts = parts.observe(seen, functions.count("report").alias("parts"),
                              functions.coalesce(functions.sum(functions.length("data")), functions.lit(0)).alias("bytes"))
        # Keys cannot be compressed. Small row groups need little memory.
        parts.write.option("compression", "none").option("parquet.block.size", 16 << 20).parquet(place.file("parts").text)
    finally:
        ended.set()
    job.update(seen.get, name=args.name, date=date)
    place.file("job.json").write(json.dumps(job).encode())


def fetch_part(file, local, number):
    """Writes the part in a Parquet file to a local file. Returns its name and its report."""
    copy, part, report = os.path.join(local, f"{number}.parquet"), os.path.join(local, f"{number}.part"), None
    file.fetch(copy)
    with pyarrow.parquet.ParquetFile(copy) as rows, open(part, "wb") as target:
        for batch in rows.iter_batches(batch_size=16):
            for data, said in zip(*batch.columns):
                if data.is_valid:
                    target.write(data.as_buffer())
                report = json.loads(said.as_py()) if said.is_valid else report
    os.remove(copy)
    return report and {**report, "file": os.path.basename(part)}


def fetch_parts(place, job, local):
    """Fetches all parts, some at a time. Returns their reports."""
    files = [status.getPath().getName() for status in place.system.listStatus(place.file("parts").path)]
    files = sorted(file for file in files if file.endswith(".parquet"))
    with concurrent.futures.ThreadPoolExecutor(FETCHES) as pool:
        tasks = [pool.submit(fetch_part, place.file(f"parts/{file}"), local, number) for number, file in enumerate(files)]
        done = [task.result() for task in tasks if task.result()]
    if len({part["piece"] for part in done}) != job["parts"] or sum(part["bytes"] for part in done) < job["bytes"]:
        raise Refused(f"{place.text}: has {len(done)} parts, but the job made {job['parts']}")
    return done


def merge(args, job, done, local, output):
    """Merges the parts that the tasks reported."""
    expected = os.path.join(local, "pieces.txt")
    with open(expected, "w", encoding="utf-8") as names:
        names.writelines(f"{part['digest']} {part['piece']}\n" for part in done)
    name = args.name or job["name"]
    command = [
        shipped(COMPILER), "merge", *job["date"], "--source", job["source"], "--expect", expected, "-o", output,
        *(["--name", name] if name else []), *(["--report", os.path.abspath(args.report)] if args.report else []),
        *(part["file"] for part in done),
    ]
    # Run in the folder of the parts: with short names, one command line can have thousands of parts.
    return subprocess.run(command, cwd=local, env={**os.environ, **job["env"]}, check=False).returncode


@contextlib.contextmanager
def output_of(spark, args):
    """Yields a folder for the parts and the path of the output, after a check that it can be written."""
    is_remote = "://" in args.output
    output = os.path.abspath(args.output)
    for path in [output] * (not is_remote) + [os.path.abspath(path) for path in (args.report, args.statistics) if path]:
        if os.path.isdir(path) or not os.access(os.path.dirname(path), os.W_OK):
            raise Refused(f"{path}: cannot be written")
    place = Place(spark, args.output) if is_remote else None
    with tempfile.TemporaryDirectory(prefix="blocklist-", dir=None if is_remote else os.path.dirname(output)) as local:
        if is_remote:
            # The next generation follows that of the present filter.
            output = os.path.join(local, os.path.basename(place.text))
            place.file(f"../{place.path.getName()}.writing").write(b"")
            if place.exists():
                place.fetch(output)
        yield local, output, place


def finish(args, place, local, output, began):
    """Merges the complete parts in a folder, and prints what it cost."""
    parts_s, began = time.monotonic() - began, time.monotonic()
    if not place.file("job.json").exists():
        raise Refused(f"{place.text}: not the complete parts of a job")
    place.file("job.json").fetch(os.path.join(local, "job.json"))
    with open(os.path.join(local, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    done = fetch_parts(place, job, local)
    rejected = sum(part["rejected"] for part in done)
    for line in [line for part in done for line in part["first_rejects"]][:8]:
        print(f"rejected  {line}", file=sys.stderr)
    if rejected > most_rejects(args.max_rejects, sum(part["lines"] for part in done)):
        print(f"refused   {rejected} rejected lines; {args.output} is unchanged", file=sys.stderr)
        return 1
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status = merge(args, job, done, local, output)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    merge_cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    totals = {key: sum(part[key] for part in done)
              for key in ("lines", "bytes", "compiler_cpu_s", "python_cpu_s")}
    lines = max(totals["lines"], 1)
    cpu_s = totals["compiler_cpu_s"] + totals["python_cpu_s"] + merge_cpu_s
    print(f"pieces    {len(done)} on {len({part['host'] for part in done})} hosts, {parts_s:.1f} s; "
          f"merge {time.monotonic() - began:.1f} s\n"
          f"cost      {cpu_s / lines * 1e9:.0f} CPU ns a line, "
          f"{totals['bytes'] / lines:.1f} bytes of parts a line", file=sys.stderr)
    if args.statistics:
        with open(args.statistics, "w", encoding="utf-8") as file:
            json.dump({"parts_s": parts_s, "merge_cpu_s": merge_cpu_s, **totals, "pieces": done}, file, indent=1)
    return status


def compile_list(spark, args):
    shipped(COMPILER)
    with output_of(spark, args) as (local, output, remote):
        began = time.monotonic()
        place = Place(spark, args.resume or f"{args.parts.rstrip('/')}/{spark.sparkContext.applicationId}")
        is_needed = bool(args.resume)
        try:
            if not args.resume:
                shipped(args.seed_file)
                make_parts(spark, args, place)
            is_needed = True
            spark.sparkContext.setJobDescription("merge the parts")
            status = finish(args, place, local, output, began)
            if status == 0 and remote:
                remote.replace_by(output)
            is_needed = status != 0
            return status
        finally:
            if is_needed:
                print(f"kept      {place.text}: to merge these parts, give --resume", file=sys.stderr)
            elif not args.keep_parts:
                place.remove()


def one_line(error):
    """Returns what a task or Spark says is wrong, without the traces of Python and Java around it."""
    said = str(error)
    told = re.findall(r"\bRefused: (.+)", said) or re.findall(r"^Caused by: (.+)", said, re.MULTILINE)[-1:]
    return told[0] if told else said.partition("\n")[0]


def main():
    os.umask(UMASK)
    args = arguments()
    spark = SparkSession.builder.appName(f"blocklist {args.source}") \
        .config("spark.hadoop.fs.permissions.umask-mode", f"{UMASK:03o}").getOrCreate()
    try:
        return compile_list(spark, args)
    except (Refused, OSError, PySparkException, Py4JError) as error:
        print(f"blocklist_spark: {one_line(error)}", file=sys.stderr)
        return 2
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
