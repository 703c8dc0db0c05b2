#!/usr/bin/env python3
"""Compiles a list that is too large for one machine, on Apache Spark.

    spark-submit --files blocklist-compile,seed.blf blocklist_spark.py \\
        --input s3://lists/senders/ --format plain --parts s3://lists/parts/ --output big.blf

The driver divides the input into pieces: ranges of bytes of text files, whole compressed files, row
groups of Parquet files. Each task runs `blocklist-compile build --part` on its piece and stores the
part; the driver merges all parts with `blocklist-compile merge --expect`. No row passes through the
JVM, the driver or a shuffle: Spark only schedules the pieces, retries them if a machine is lost, and
shows the progress. See docs/large.md.

Needs Python 3.9 or later, pyspark 3.4 or later, and pyarrow, which reads and writes local folders,
S3, Google Cloud Storage, Azure and HDFS.
"""

import argparse
import datetime
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

import pyarrow.fs
from pyspark import SparkConf, SparkContext, SparkFiles, TaskContext

COMPILER = "blocklist-compile"
BLOCK_BYTES = 1 << 20
# Parts and filters contain the seed.
UMASK = 0o027
# The compiler decompresses these files. They cannot be split into pieces.
PACKED = (".gz", ".zst", ".bz2", ".xz", ".zip", ".tar", ".tgz", ".7z")


def arguments():
    parser = argparse.ArgumentParser(description="Compile a list on Apache Spark.")
    add = parser.add_argument
    add("--input", action="append", required=True, metavar="PATH",
        help="a file or folder of lists, or its URI; may be repeated")
    add("--output", required=True, metavar="FILE", help="the filter file to write, on the driver")
    add("--parts", required=True, metavar="FOLDER",
        help="folder or URI for the parts; the driver and all workers must reach it")
    add("--column", metavar="NAME", help="the inputs are Parquet files: read this column")
    add("--format", metavar="FORMAT", help="format of the lists, as for blocklist-compile build")
    add("--source", metavar="NAME", help="name of the list in the filter [default: the first --input]")
    add("--name", metavar="NAME", help="name of the list in logs and replies")
    add("--seed-file", default="seed.blf", metavar="NAME",
        help="the filter given by --files whose seed is used [default: seed.blf]")
    add("--date", metavar="DATE", help="build date [default: SOURCE_DATE_EPOCH, or today]")
    add("--piece", type=size, default=size("256M"), metavar="SIZE",
        help="bytes of text in a piece [default: 256M]")
    add("--memory", default="512M", metavar="SIZE", help="memory of the compiler in a task [default: 512M]")
    add("--max-rejects", type=int, metavar="N", help="write nothing if more lines than this are rejected")
    add("--report", metavar="FILE", help="write the report of the merge to this file, as JSON")
    add("--statistics", metavar="FILE", help="write time and size of each piece to this file, as JSON")
    add("--option", action="append", default=[], metavar="OPTION",
        help="a further option of blocklist-compile build, such as --option=--plus; may be repeated")
    add("--keep-parts", action="store_true", help="do not remove the parts at the end")
    args = parser.parse_args()
    # URIs are visible on Spark's pages and in the process list.
    if any(re.search("://[^/@]*:[^/@]*@", place) for place in [*args.input, args.parts]):
        parser.error("a URI must not contain a password: use environment variables or configuration files of the provider")
    args.source = args.source or args.input[0]
    args.format = args.format or ("plain" if args.column else None)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    args.date = args.date or datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).date().isoformat()
    return args


def size(text):
    units = {"K": 10, "M": 20, "G": 30}
    unit = units.get(text[-1:].upper())
    return int(text[:-1]) << unit if unit else int(text)


def file_system(path):
    """Returns the file system of a path or URI, and the path in it."""
    if "://" not in path:
        path = os.path.abspath(path)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    # pyarrow does not know these variables of the AWS command line.
    if path.startswith("s3://") and endpoint and "endpoint_override=" not in path:
        scheme, _, host = endpoint.rstrip("/").rpartition("://")
        mark = "&" if "?" in path else "?"
        path += f"{mark}scheme={scheme or 'https'}&endpoint_override={urllib.parse.quote(host)}"
    return pyarrow.fs.FileSystem.from_uri(path)


def below(folder, name):
    """Returns the path or URI of a file in a folder. In a URI, the parts before and after the path stay."""
    if "://" not in folder:
        return f"{folder.rstrip('/')}/{name}"
    folder, mark, query = folder.partition("?")
    return f"{folder.rstrip('/')}/{urllib.parse.quote(name)}{mark}{query}"


# ---------------------------------------------------------------- the pieces, on the driver


def files_of(path):
    """Yields the files of an input, with their sizes. In a folder, skips hidden files and files in hidden folders."""
    system, inside = file_system(path)
    info = system.get_file_info(inside)
    if info.type == pyarrow.fs.FileType.NotFound:
        sys.exit(f"{path}: not found")
    if info.type == pyarrow.fs.FileType.File:
        yield path if "://" in path else inside, info.size
        return
    for info in system.get_file_info(pyarrow.fs.FileSelector(inside, recursive=True)):
        name = info.path[len(inside.rstrip("/")) + 1:]
        is_hidden = any(part.startswith((".", "_")) for part in name.split("/"))
        if info.type == pyarrow.fs.FileType.File and not is_hidden:
            yield below(path if "://" in path else inside, name), info.size


def pieces_of(args):
    """Returns all pieces: a number, a file, and the start and end in the file (None for the whole file)."""
    pieces = []
    for path, length in sorted(set(file for path in args.input for file in files_of(path))):
        if args.column:
            pieces += row_groups(path, args.piece)
        elif is_packed(path) or length <= args.piece:
            pieces.append((path, None, None))
        elif not args.format:
            sys.exit(f"{path}: larger than --piece; give --format, because it can be detected only in the first piece")
        else:
            pieces += [(path, start, min(start + args.piece, length))
                       for start in range(0, length, args.piece)]
    return [(number, *piece) for number, piece in enumerate(pieces)]


def is_packed(path):
    return (path.partition("?")[0] if "://" in path else path).lower().endswith(PACKED)


def row_groups(path, piece_bytes):
    """Divides a Parquet file into ranges of row groups with at least `piece_bytes` bytes, except the last."""
    import pyarrow.parquet

    system, inside = file_system(path)
    with system.open_input_file(inside) as file:
        metadata = pyarrow.parquet.ParquetFile(file).metadata
        start, taken = 0, 0
        for group in range(metadata.num_row_groups):
            taken += metadata.row_group(group).total_byte_size
            if taken >= piece_bytes or group + 1 == metadata.num_row_groups:
                yield (path, start, group + 1)
                start, taken = group + 1, 0


# ---------------------------------------------------------------- one piece, on a worker


def lines_of(path, start, end):
    """Yields blocks of the lines that begin at or after `start` and before `end`."""
    system, inside = file_system(path)
    with system.open_input_file(inside) as file:
        at, block = start, b"\n"
        # A line that continues here belongs to the previous piece.
        if start > 0:
            file.seek(start - 1)
            at += rest_of_line(file)[0] - 1
        while at < end:
            block = file.read(min(BLOCK_BYTES, end - at))
            if not block:
                return
            at += len(block)
            yield block
        if at == end and not block.endswith(b"\n"):
            yield from rest_of_line(file)[1]


def rest_of_line(file):
    """Reads the rest of a line. Returns its length with the line end, and its blocks."""
    length, blocks = 0, []
    while True:
        before = file.tell()
        block = file.read(1 << 16)
        end = block.find(b"\n") + 1
        if end > 0:
            file.seek(before + end)
            return length + end, [*blocks, block[:end]]
        length += len(block)
        blocks.append(block)
        if not block:
            return length, blocks


def column_of(path, column, start, end):
    """Yields blocks of lines, one line for each row of a Parquet column."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet

    system, inside = file_system(path)
    with system.open_input_file(inside) as file:
        table = pyarrow.parquet.ParquetFile(file)
        for batch in table.iter_batches(row_groups=range(start, end), columns=[column]):
            rows = batch.column(0)
            if pa.types.is_dictionary(rows.type):
                rows = rows.dictionary_decode()
            rows = rows.cast(pa.string())
            # A row is one line: replace line breaks, so that the text after one does not become an entry.
            if pc.any(pc.match_substring_regex(rows, "[\r\n]")).as_py():
                rows = pc.replace_substring_regex(rows, "[\r\n]", " ")
            lines = pc.binary_join_element_wise(
                rows, "", "\n", null_handling="replace", null_replacement="")
            length = pc.sum(pc.binary_length(lines)).as_py() or 0
            yield memoryview(lines.buffers()[2] or b"")[:length]


def compile_piece(piece, job):
    """Builds the part of a piece, stores it, and returns a description of it."""
    os.umask(UMASK)
    number, path, start, end = piece
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    own = time.process_time()
    compiler, seed = compiler_here(), SparkFiles.get(job["seed_file"])
    place = "" if start is None else f" {start}-{end}"
    with tempfile.TemporaryDirectory(prefix="blocklist-") as folder:
        part = os.path.join(folder, "part")
        text = text_of(piece, job["column"], folder)
        report = json.loads(run([
            compiler, "build", f"--part={number:06} {path[-160:]}{place}", "--json", "--seed-from", seed,
            "--source", job["source"], "--date", job["date"], "--threads", "1", "--memory", job["memory"],
            *(["--format", job["format"]] if job["format"] else []),
            *job["options"], "-o", part, text,
        ]))
        # Each attempt has its own name; only one of them is reported to the driver.
        name = f"{number:06}.{TaskContext.get().taskAttemptId()}.part"
        store(part, job["parts"], name)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "file": name,
        "piece": report["part"]["piece"],
        "digest": report["part"]["digest"],
        "bytes": report["part"]["bytes"],
        "lines": sum(read["lines"] for read in report["inputs"]),
        "rejected": report["rejected"],
        "first_rejects": [line for reject in report["rejects"] for line in reject["first"]][:3],
        "compiler_cpu_s": spent,
        "python_cpu_s": time.process_time() - own,
        "seconds": time.monotonic() - began,
        "host": os.uname().nodename,
    }


def compiler_here():
    """Returns the path of the compiler that --files copied to this machine."""
    compiler = SparkFiles.get(COMPILER)
    if not os.access(compiler, os.X_OK):
        os.chmod(compiler, 0o755)
    return compiler


def text_of(piece, column, folder):
    """Returns a local file with the text of a piece. The compiler can read a file twice, so it needs less time than
    for a pipe, and half the memory."""
    _, path, start, end = piece
    system, inside = file_system(path)
    if start is None and isinstance(system, pyarrow.fs.LocalFileSystem):
        return inside
    # Keep its name: messages show it, and it helps to recognize archives and some formats.
    place = "" if start is None else f".{start}-{end}"
    local = os.path.join(folder, os.path.basename(inside) + place)
    if start is None:
        fetch(path, local)
        return local
    with open(local, "wb") as file:
        for block in column_of(path, column, start, end) if column else lines_of(path, start, end):
            file.write(block)
    return local


def run(command, folder=None):
    """Runs a command. Returns its standard output."""
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[:4096].decode(errors="replace").strip() or f"exit code {done.returncode}")
    return done.stdout


def fetch(path, local):
    system, inside = file_system(path)
    with system.open_input_stream(inside, compression=None) as source, open(local, "wb") as target:
        while block := source.read(BLOCK_BYTES):
            target.write(block)


def store(local, folder, name):
    """Stores a file in the common folder; it never appears there incomplete."""
    system, inside = file_system(folder)
    hidden = f"{inside}/.{name}" if isinstance(system, pyarrow.fs.LocalFileSystem) else f"{inside}/{name}"
    with open(local, "rb") as source, system.open_output_stream(hidden, compression=None) as target:
        while block := source.read(BLOCK_BYTES):
            target.write(block)
    if hidden != f"{inside}/{name}":
        os.chmod(hidden, 0o640)
        system.move(hidden, f"{inside}/{name}")


# ---------------------------------------------------------------- the driver


def watch(context, total, ended):
    """Prints a progress line every ten seconds."""
    while not ended.wait(10):
        stages = map(context.statusTracker().getStageInfo, context.statusTracker().getActiveStageIds())
        done = sum(stage.numCompletedTasks for stage in stages if stage)
        print(f"parts: {done} of {total}", file=sys.stderr, flush=True)


def make_parts(context, args, folder):
    """Runs a task for each piece. Returns the description of each completed part."""
    pieces = pieces_of(args)
    if not pieces:
        sys.exit("no file to read")
    job = {
        "seed_file": args.seed_file, "source": args.source, "date": args.date, "memory": args.memory,
        "format": args.format, "options": args.option, "column": args.column, "parts": folder,
    }
    context.setJobGroup("parts", f"blocklist {args.source}: {len(pieces)} parts")
    ended = threading.Event()
    watcher = threading.Thread(target=watch, args=(context, len(pieces), ended), daemon=True)
    watcher.start()
    try:
        return context.parallelize(pieces, len(pieces)).map(lambda piece: compile_piece(piece, job)).collect()
    finally:
        ended.set()


def merge(args, folder, done):
    """Merges the parts that the tasks reported."""
    files = [part["file"] for part in done]
    with tempfile.TemporaryDirectory(prefix="blocklist-", dir=os.path.dirname(os.path.abspath(args.output))) as local:
        system, inside = file_system(folder)
        here = inside
        if not isinstance(system, pyarrow.fs.LocalFileSystem):
            here = local
            for file in files:
                fetch(below(folder, file), os.path.join(local, file))
        expected = os.path.join(local, "pieces.txt")
        with open(expected, "w", encoding="utf-8") as names:
            names.writelines(f"{part['digest']} {part['piece']}\n" for part in done)
        command = [
            compiler_here(), "merge", "--date", args.date, "--source", args.source, "--expect", expected,
            "-o", os.path.abspath(args.output),
            *(["--name", args.name] if args.name else []),
            *(["--report", os.path.abspath(args.report)] if args.report else []),
            *files,
        ]
        # Run in the folder of the parts: with short names, one command line can have thousands of parts.
        return subprocess.run(command, cwd=here, check=False).returncode


def main():
    os.umask(UMASK)
    args = arguments()
    context = SparkContext(conf=SparkConf().setAppName(f"blocklist {args.source}"))
    folder = below(args.parts, context.applicationId)
    system, inside = file_system(folder)
    system.create_dir(inside, recursive=True)
    folder = folder if "://" in folder else os.path.abspath(folder)
    try:
        began = time.monotonic()
        done = make_parts(context, args, folder)
        parts_s = time.monotonic() - began
        rejected = sum(part["rejected"] for part in done)
        for line in [line for part in done for line in part["first_rejects"]][:8]:
            print(f"rejected  {line}", file=sys.stderr)
        if args.max_rejects is not None and rejected > args.max_rejects:
            print(f"refused   {rejected} rejected lines; {args.output} is unchanged", file=sys.stderr)
            return 1
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        status = merge(args, folder, done)
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
    finally:
        if not args.keep_parts:
            system.delete_dir(inside)
        context.stop()


if __name__ == "__main__":
    sys.exit(main())
