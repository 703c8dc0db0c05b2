# Messages with header blocks of real sizes, while the daemon is restarted: each gets its answer, at the first try.
import smtplib, subprocess, threading
done = threading.Event()
restarts = 0


def restart():
    global restarts
    while not done.wait(0.5):
        subprocess.run(["systemctl", "restart", "blocklist-milter"], check=True)
        restarts += 1


listed, innocent = "spammer@listed.test", "innocent@elsewhere.test"
# Envelope sender, author, recipients; the code for each recipient, and that of the message.
cases = [
    (innocent, innocent, ["reader"], [250], 250),
    (listed, innocent, ["reader"], [550], None),
    (innocent, listed, ["reader", "other"], [250, 250], 550),
    (listed, innocent, ["postmaster"], [250], 250),
    (innocent, listed, ["postmaster"], [250], 250),
    (listed, innocent, ["reader", "postmaster", "other"], [550, 250, 550], 250),
    ('"a b"@listed.test', innocent, ["reader"], [550], None),
]


def send(smtp, kib, sender, author, names):
    smtp.docmd("MAIL", "FROM:<%s>" % sender)
    got = [smtp.docmd("RCPT", "TO:<%s@local.test>" % name)[0] for name in names]
    last = None
    if 250 in got:
        padding = ("X-Padding: " + "y" * 900 + "\r\n") * (kib * 1024 // 913)
        last = smtp.data(padding + "From: A <%s>\r\nSubject: x\r\n\r\ntext\r\n" % author)[0]
    smtp.docmd("RSET")
    return got, last


def play(sizes, wrong, counts):
    while restarts < 4 and restarter.is_alive():
        play_once(sizes, wrong, counts)


def play_once(sizes, wrong, counts):
    for kib in sizes:
        # A connection for each message, and one for all of them.
        for is_kept in False, True:
            smtp = None
            for sender, author, names, codes, end in cases:
                if smtp is None or not is_kept:
                    smtp = smtplib.SMTP("127.0.0.1", 25, "client.test", 120, ("127.0.0.2", 0))
                    smtp.ehlo()
                got, last = send(smtp, kib, sender, author, names)
                counts.append(1)
                if (got, last) != (codes, end):
                    wrong.append((kib, is_kept, sender, author, names, got, last))


wrong, counts = [], []
restarter = threading.Thread(target=restart)
restarter.start()
clients = [threading.Thread(target=play, args=([0, 10, 30, 100], wrong, counts)) for _ in range(3)]
for client in clients:
    client.start()
for client in clients:
    client.join()
done.set()
restarter.join()
print(len(counts), "messages,", restarts, "restarts", *wrong)
assert not wrong and len(counts) >= 3 * 4 * 2 * len(cases) and restarts > 3
