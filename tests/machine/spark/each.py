import runpy, sys
for line in open('cases.txt'):
    sys.argv = ['blocklist_spark', *line.split()]
    try:
        runpy.run_path(JOB, run_name='__main__')
    except SystemExit as end:
        print('exit', end.code)
    sys.stdout.flush()
    sys.stderr.flush()
