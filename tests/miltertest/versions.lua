-- Old servers: each version of the protocol, with no more steps and actions than it knew.

local offers = {
    -- version, actions, steps
    { 2, 0x1f, 0x7f },
    { 3, 0x1f, 0xff },
    { 4, 0x3f, 0x1ff },
    { 6, 0x1ff, 0x1fffff },
    -- a server that lets nothing be skipped
    { 6, 0x1ff, 0 },
}
for _, offer in ipairs(offers) do
    local name = string.format("version %d, steps %x: ", offer[1], offer[3])
    local conn = open(offer[1], offer[2], offer[3])
    judge(conn, name .. "innocent", { from = "<innocent@elsewhere.test>" }, "accepted")
    judge(conn, name .. "listed", { from = "<spammer@listed.test>" }, SMFIR_REPLYCODE, "rcpt")
    judge(conn, name .. "listed From", { from = "<>",
        header = { { "From", "spammer@listed.test" } } }, SMFIR_REPLYCODE, "eoh")
    mt.disconnect(conn)
end
