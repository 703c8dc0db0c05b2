import gzip, pathlib, sys
import pyarrow, pyarrow.parquet
folder = pathlib.Path(sys.argv[1])
rows = (folder / 'rows.txt').read_text().splitlines()
table = pyarrow.table({'id': range(len(rows)), 'sender': rows})
pyarrow.parquet.write_table(table, folder / 'rows.parquet', row_group_size=500)
(folder / 'lists/more.txt.gz').write_bytes(gzip.compress((folder / 'more.txt').read_bytes()))
