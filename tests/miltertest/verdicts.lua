-- Every action, several messages in one connection: nothing of one is left for the next.

local conn = open()
for _ = 1, 3 do
    judge(conn, "innocent", { from = "<innocent@elsewhere.test>" }, "accepted")
    judge(conn, "listed", { from = "<spammer@listed.test>" }, SMFIR_REPLYCODE, "rcpt")
    judge(conn, "listed domain", { from = "x@LISTED-domain.test" }, SMFIR_REPLYCODE, "rcpt")
    judge(conn, "null sender", { from = "<>" }, "accepted")
    judge(conn, "whitelisted", { from = "<friend@listed-domain.test>" }, "accepted")
    judge(conn, "tempfail", { from = "<later@listed.test>" }, SMFIR_REPLYCODE, "rcpt")
    judge(conn, "listed From", { from = "<>", header = {
        { "Subject", "hello" }, { "from", "\"A\" <spammer@listed.test>" } } }, SMFIR_REPLYCODE, "eoh")
    judge(conn, "folded", { from = "<>", header = {
        { "Reply-To", "a@elsewhere.test,\n\tspammer@listed.test" } } }, SMFIR_REPLYCODE, "eoh")
    judge(conn, "one exempt recipient", { from = "<spammer@listed.test>",
        to = { "<reader@local.test>", "<postmaster@local.test>" } }, "accepted")
end
mt.disconnect(conn)

-- What the end of a message asks for.
conn = open()
judge(conn, "tag", { from = "<marked@listed.test>", header = {
    { "X-Sender-Blocklist", "forged" }, { "From", "innocent@elsewhere.test" } } }, "accepted")
if not (mt.eom_check(conn, MT_HDRADD, "X-Sender-Blocklist")
        or mt.eom_check(conn, MT_HDRINSERT, "X-Sender-Blocklist")) then
    error("tag: no header was added")
end
if not mt.eom_check(conn, MT_HDRDELETE, "X-Sender-Blocklist") then
    error("tag: the forged header stays")
end
judge(conn, "quarantine", { from = "<held@listed.test>" }, "accepted")
if not mt.eom_check(conn, MT_QUARANTINE) then error("quarantine: not asked for") end
mt.disconnect(conn)

conn = open()
local reply = play(conn, { from = "<gone@listed.test>" })
if reply ~= SMFIR_DISCARD then error("discard: got " .. string.char(reply)) end
mt.disconnect(conn)

-- Left in the middle of a message, politely and not.
for _, polite in ipairs({ true, false }) do
    conn = open()
    ok(mt.mailfrom(conn, "<spammer@listed.test>"), "mailfrom")
    mt.disconnect(conn, polite)
end

-- An aborted message counts for nothing.
conn = open()
ok(mt.mailfrom(conn, "<spammer@listed.test>"), "mailfrom")
ok(mt.abort(conn), "abort")
judge(conn, "after an abort", { from = "<innocent@elsewhere.test>" }, "accepted")
mt.disconnect(conn)
