-- What every script here starts with. The global `socket` names the daemon's socket.

-- Opens a connection for one SMTP client, negotiating what is given or else miltertest's defaults.
function open(version, actions, steps)
    local conn = mt.connect(socket)
    if conn == nil then error("cannot connect to " .. socket) end
    if version ~= nil then ok(mt.negotiate(conn, version, actions, steps), "negotiate") end
    if not mt.test_option(conn, SMFIP_NOCONNECT) then
        ok(mt.conninfo(conn, "mail.remote.test", "192.0.2.1"), "conninfo")
        expect(conn, SMFIR_CONTINUE, "connect")
    end
    return conn
end

function ok(message, what)
    if message ~= nil then error(what .. ": " .. message, 2) end
end

function expect(conn, reply, what)
    local got = mt.getreply(conn)
    if got ~= reply then
        error(string.format("%s: expected %s, got %s", what, string.char(reply), string.char(got)), 2)
    end
end

-- Sends one message as far as it gets, and returns the reply that ended it and the step it came at.
function play(conn, message)
    ok(mt.macro(conn, SMFIC_MAIL, "i", message.id or "1A2B3C"), "macro")
    ok(mt.mailfrom(conn, message.from), "mailfrom")
    if mt.getreply(conn) ~= SMFIR_CONTINUE then return mt.getreply(conn), "mail" end
    local accepted = 0
    for _, recipient in ipairs(message.to or { "<reader@local.test>" }) do
        ok(mt.rcptto(conn, recipient), "rcptto")
        if mt.getreply(conn) == SMFIR_CONTINUE then accepted = accepted + 1 end
    end
    if accepted == 0 then
        ok(mt.abort(conn), "abort")
        return SMFIR_REPLYCODE, "rcpt"
    end
    for _, field in ipairs(message.header or { { "From", "innocent@elsewhere.test" } }) do
        ok(mt.header(conn, field[1], field[2]), "header")
        if mt.getreply(conn) ~= SMFIR_CONTINUE then return mt.getreply(conn), "header" end
    end
    if not mt.test_option(conn, SMFIP_NOEOH) then
        ok(mt.eoh(conn), "eoh")
        if mt.getreply(conn) ~= SMFIR_CONTINUE then return mt.getreply(conn), "eoh" end
    end
    if not mt.test_option(conn, SMFIP_NOBODY) then
        ok(mt.bodystring(conn, "Hello.\r\n"), "body")
        if mt.getreply(conn) ~= SMFIR_CONTINUE then return mt.getreply(conn), "body" end
    end
    ok(mt.eom(conn), "eom")
    return mt.getreply(conn), "eom"
end

-- Plays a message and checks how it ended.
function judge(conn, name, message, reply, step)
    local got, at = play(conn, message)
    local accepted = got == SMFIR_ACCEPT or got == SMFIR_CONTINUE
    if reply == "accepted" then
        if not accepted then error(name .. ": " .. string.char(got) .. " at " .. at, 2) end
    elseif got ~= reply or at ~= step then
        error(string.format("%s: expected %s at %s, got %s at %s", name,
            string.char(reply), step, string.char(got), at), 2)
    end
end
