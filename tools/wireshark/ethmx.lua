-- SPDX-License-Identifier: BSD-3-Clause
--
-- A Wireshark dissector for frames of ethmx: in Ethernet frames (EtherTypes 0x88b5 and 0x88b6) and in UDP packets, one
-- or several in a packet, and in TSO packets. See docs/wireshark.md for its use and docs/protocol.md for the frames.
--
-- Frames are found in UDP by their content: byte of version, type, lengths and checksum. What spans frames (messages,
-- retransmissions, credit, fragments) is derived once, when Wireshark first sees a packet, and kept by packet and frame.

local ethmx = Proto("ethmx", "ethmx: MPI messages over Ethernet")

ethmx.prefs.verify = Pref.bool("Verify checksums", true, "Compute the CRC-32C of each frame that has one")

local HEAD_BYTES, TAG_BYTES, SHORT_HEAD_BYTES = 32, 24, 32
local V_OFF, V_HEADER, V_FULL, V_TAGGED, V_SHORT = 0xe1, 0xd2, 0xb4, 0x78, 0x87
local MESSAGE_COST_BYTES = 128 -- credit that an eager message takes beside its length

-- ---- Fields ----

local versions = { [V_OFF] = "1, no checksum", [V_HEADER] = "1, checksum of headers", [V_FULL] = "1, checksum of all",
    [V_TAGGED] = "tag", [V_SHORT] = "1, short header" }
local put_statuses = { [0] = "written", "refused: pull the rest", "stale key", "the write failed" }
local rma_statuses = { [0] = "done", "refused" }
local rma_ops = { [0] = "REPLACE", "NO_OP", "SUM", "PROD", "MIN", "MAX", "LAND", "LOR", "LXOR", "BAND", "BOR", "BXOR",
    "MINLOC", "MAXLOC" }
local rma_types = { [0] = "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float", "double",
    "long double", "complex float", "complex double", "complex long double", "short and int", "int and int",
    "long and int", "float and int", "double and int", "long double and int" }
local part_types = { [0] = "host name", "packet", "udp", "shm", "xdp", "verbs" }

-- The types of frames: name; sequenced; the fields of the header, each with its bytes ("-": reserved).
local types = {
    [1] = { "hello", false, "addr_bytes:2 frame_bytes:2 max_bytes:2 window:2 probe:4 ack_delay:2 timeout:2" },
    [2] = { "hello_ack", false, "addr_bytes:2 frame_bytes:2 max_bytes:2 window:2 probe:4 ack_delay:2 timeout:2" },
    [3] = { "ack", false, "early:8 joined:4 marked:4" },
    [4] = { "ping", false, "" },
    [5] = { "pong", false, "" },
    [6] = { "close", false, "" },
    [7] = { "eager", true, "bits:8 total_bytes:4 op:4 am_header_bytes:2 flags:2 joined:4" },
    [8] = { "more", true, "offset:4 -:4" },
    [9] = { "rts", true, "bits:8 total_bytes:8 op:4 am_header_bytes:2 flags:2 chunk_bytes:2 pushed:2 -:4" },
    [10] = { "pull", false, "op:4 rop:4 first:8 wanted:8 round:1 rail_more:1 chunk_bytes:2 joined:4" },
    [11] = { "data", false, "rop:4 round:1 rail_pushed:1 chunk_bytes:2 chunk:8" },
    [12] = { "fin", true, "op:4 -:4 pulled_bytes:8" },
    [13] = { "matched", true, "op:4 -:4" },
    [14] = { "coalesced", true, "-:8" },
    [15] = { "fragment", false, "fragment.number:4 fragment.offset:2 fragment.total_bytes:2" },
    [16] = { "rkey_request", true, "op:4 rop:4 offset:8 done_bytes:8 again:4 -:4" },
    [17] = { "rkey_reply", true, "rop:4 -:4 offset:8 key:8 len_bytes:8" },
    [18] = { "shorter", false, "rop:4 chunk_bytes:2 -:2" },
    [19] = { "compact", true, "bits:8" },
    [20] = { "rtr", true, "op:4 rop:4 remote:8 key:8 offset:8 len_bytes:8" },
    [21] = { "put_done", true, "rop:4 put.status:4 put.end:8" },
    [22] = { "recall", false, "limit:4 -:4" },
    [23] = { "given", true, "limit:4 -:4" },
    [24] = { "rma_put", true, "rma.id:4 rma.op:1 rma.type:1 rma.flags:2 key:8 offset:8 len_bytes:8" },
    [25] = { "rma_get", true, "rma.id:4 rma.op:1 rma.type:1 rma.flags:2 key:8 offset:8 len_bytes:8" },
    [26] = { "rma_atomic", true, "rma.id:4 rma.op:1 rma.type:1 rma.flags:2 key:8 offset:8 len_bytes:8" },
    [27] = { "rma_put_rts", true, "rma.id:4 op:4 key:8 offset:8 len_bytes:8 remote:8 chunk_bytes:2 -:6" },
    [28] = { "rma_get_rts", true, "rma.id:4 op:4 chunk_bytes:2 -:6 remote:8" },
    [29] = { "rma_reply", true, "rma.id:4 -:4" },
    [30] = { "rma_done", true, "rma.id:4 rma.count:4 rma.status:4 -:4" },
    [31] = { "route_probe", false, "route.number:4 route.route:1 route.searches:1 route.lost:2" },
    [32] = { "route_reply", false, "route.number:4 route.route:1 route.searches:1 route.lost:2" },
    [33] = { "rail", false, "rail.rail:1 rail.answer:1 -:2 rail.number:4" },
    [34] = { "doubled", false, "doubled.frames:4 -:4" },
    [35] = { "moved", false, "route.number:4 route.route:1 route.searches:1 route.lost:2 moves:4 addr_bytes:2 -:2" },
    [36] = { "chunk", true, "total_low:2 total_high:1 index:1 joined:2 chunk_bytes:2 bits:8" },
}

local type_names = {}
for number, t in pairs(types) do type_names[number] = t[1] end

-- Name of the filter behind "ethmx.", form, text, names of values.
local fields = {}
for _, row in ipairs({
    { "version", "x8", "Version", versions }, { "type", "u8", "Type", type_names },
    { "body_bytes", "u16", "Bytes behind the header" }, { "dst_id", "x32", "Receiver" },
    { "cookie", "x32", "Cookie" }, { "src_id", "x32", "Sender" }, { "seq", "u32", "Sequence number" },
    { "ack", "u32", "Expects next" }, { "credit", "u32", "Credit" }, { "check", "x32", "Checksum" },
    { "tag.version", "x8", "Version", versions },
    { "tag.key", "u8", "Key of", { [0] = "the receiver", "the sender" } },
    { "tag.frame_bytes", "u16", "Bytes of the frame" }, { "tag.dst_id", "x32", "Receiver" },
    { "tag.tag", "x64", "Tag" }, { "tag.number", "u64", "Number" },
    { "addr_bytes", "u16", "Bytes of the address" }, { "frame_bytes", "u16", "Bytes of this frame" },
    { "max_bytes", "u16", "Longest frame" }, { "window", "u16", "Window" }, { "probe", "u32", "Probe" },
    { "ack_delay", "u16", "Delay of acknowledgements (16 us)" }, { "timeout", "u16", "Time-out of the peer (100 ms)" },
    { "early", "x64", "Early frames" }, { "joined", "u32", "GSO packets that arrived joined" },
    { "marked", "u32", "Frames with a congestion mark" }, { "bits", "x64", "Match bits" },
    { "total_bytes", "u64", "Bytes of the message" }, { "total_low", "u16", "Bytes of the message, bits 0 to 15" },
    { "total_high", "u8", "Bytes of the message, bits 16 to 23" }, { "index", "u8", "Chunk of the eager message" },
    { "op", "x32", "Operation of the sender" },
    { "rop", "x32", "Operation of the receiver" }, { "am_header_bytes", "u16", "Bytes of the active message's header" },
    { "flags", "x16", "Flags" }, { "offset", "u64", "Offset" }, { "chunk_bytes", "u16", "Bytes of a chunk" },
    { "first", "u64", "First chunk" }, { "wanted", "x64", "Wanted chunks" }, { "round", "u8", "Round" },
    { "pushed", "u16", "Chunks that follow without a pull" },
    { "rail_pushed", "x8", "Rail (lower half), 1 if pushed (upper half)" },
    { "rail_more", "x8", "Rail (lower half), further blocks (upper half)" },
    { "chunk", "u64", "Chunk" }, { "pulled_bytes", "u64", "Bytes taken" },
    { "fragment.number", "u32", "Sequence number of the frame" }, { "fragment.offset", "u16", "Offset in the frame" },
    { "fragment.total_bytes", "u16", "Bytes of the frame" }, { "done_bytes", "u64", "Bytes that have arrived" },
    { "again", "u32", "Earlier keys are invalid" }, { "key", "x64", "Key" }, { "len_bytes", "u64", "Bytes" },
    { "remote", "x64", "Address in the other's memory" }, { "put.status", "u32", "Status", put_statuses },
    { "put.end", "u64", "End of the part" }, { "limit", "u32", "Limit of credit" },
    { "rma.id", "u32", "One-sided operation" }, { "rma.op", "u8", "Operation", rma_ops },
    { "rma.type", "u8", "Type of elements", rma_types }, { "rma.flags", "x16", "Flags" },
    { "rma.count", "u32", "Operations" }, { "rma.status", "u32", "Status", rma_statuses },
    { "route.number", "u32", "Search" }, { "route.route", "u8", "Route" },
    { "route.searches", "u8", "The sender hears nothing" }, { "route.lost", "x16", "Its interfaces that carry nothing" },
    { "moves", "u32", "New addresses of its interfaces" }, { "rail.rail", "u8", "Rail" },
    { "rail.answer", "u8", "Kind", { [0] = "question", "reply" } }, { "rail.number", "u32", "Number" },
    { "doubled.frames", "u32", "Frames that arrived twice" },
    { "lent.remote", "x64", "Address in the sender's memory" }, { "lent.key", "x64", "Key" },
    { "lent.len_bytes", "u64", "Bytes that the key covers" }, { "part.bits", "x64", "Match bits" },
    { "part.len_bytes", "u16", "Bytes" }, { "part.flags", "x16", "Flags" },
    { "address.magic", "string", "Magic" }, { "address.version", "u8", "Version" }, { "address.counts", "x8", "Counts" },
    { "address.interfaces", "u8", "Interfaces" }, { "address.auth", "bool", "Authentication" },
    { "address.secret", "bytes", "Secret" }, { "address.id", "x32", "Endpoint" }, { "address.cookie", "x32", "Cookie" },
    { "address.host_id", "bytes", "Host and network namespace" }, { "address.form", "u8", "Form" },
    { "address.ip", "ipv4", "Address" }, { "address.ip6", "ipv6", "Address" },
    { "address.ip6_half", "bytes", "First half of the address" }, { "address.prefix", "u8", "Bits of the prefix" },
    { "address.mac", "ether", "MAC" }, { "address.max_bytes", "u16", "Longest frame" },
    { "address.part", "u8", "Part", part_types }, { "address.part_value", "bytes", "Value" },
    { "address.host", "string", "Host name" }, { "address.ring_bytes", "u16", "Longest frame of the ring" },
    { "address.ethertype", "x16", "EtherType" }, { "address.gso_port", "u16", "Port of GSO packets" },
    { "address.frame_port", "u16", "Port of frames" }, { "address.udp_port", "u16", "Port" },
    { "address.tso", "bool", "TSO packets are accepted" },
    { "tso.offset", "u32", "Offset of the data in the packet that was sent, or in the eager message" },
    { "tso.chunk", "u64", "First chunk of the packet that was sent" },
    { "tso.seq", "u32", "Sequence number of the message's first chunk" },
    { "reserved", "bytes", "Reserved" }, { "payload", "bytes", "Data" }, { "padding", "bytes", "Padding" },
    { "am_header", "bytes", "Header of the active message" },
    -- What is derived.
    { "frames", "u32", "Frames in the packet" }, { "job", "x32", "Job" }, { "sequenced", "bool", "Sequenced" },
    { "header_bytes", "u32", "Bytes of the header of the type" },
    { "check.status", "u8", "Status of the checksum", { [0] = "wrong", "correct", "none", "not verified" } },
    { "check.computed", "x32", "Computed checksum" }, { "msg", "u32", "Message" },
    { "msg.begin", "frame", "Begins in" }, { "msg.bytes", "u64", "Bytes of the message" },
    { "retransmission", "bool", "Sent again" }, { "retransmission.of", "frame", "First sent in" },
    { "credit.raised", "u32", "Credit given" }, { "credit.used", "u32", "Credit used" },
    { "credit.left", "i32", "Credit left" }, { "fragment.reassembled", "bytes", "Reassembled frame" },
    { "fragment.count", "u32", "Fragments" }, { "flags.sync", "bool", "SYNC: reply with matched" },
    { "flags.am", "bool", "AM: an active message" }, { "flags.starved", "bool", "STARVED: credit is missing" },
    { "flags.remote", "bool", "REMOTE: with remote data" }, { "flags.untagged", "bool", "UNTAGGED" },
    { "flags.read", "bool", "READ: the memory can be read" }, { "flags.lent", "bool", "LENT: a device can read" },
    { "rma.flags.fetch", "bool", "FETCH: reply with what was there" }, { "rma.flags.swap", "bool", "SWAP" },
}) do
    local name, form, text, values = row[1], row[2], row[3], row[4]
    local make = { x = base.HEX, u = base.DEC, i = base.DEC }
    local filter = "ethmx." .. name
    local bits = form:match("^[xui](%d+)$")
    if bits then
        local kind = (form:sub(1, 1) == "i" and "int" or "uint") .. bits
        fields[name] = ProtoField[kind](filter, text, make[form:sub(1, 1)], values)
    elseif form == "frame" then
        fields[name] = ProtoField.framenum(filter, text)
    else
        fields[name] = ProtoField[form](filter, text)
    end
end
ethmx.fields = fields

local expert_rows = {
    check = { "The checksum is wrong", expert.group.CHECKSUM, expert.severity.ERROR },
    again = { "Sent again", expert.group.SEQUENCE, expert.severity.NOTE },
    starved = { "Announced only because credit is missing", expert.group.SEQUENCE, expert.severity.NOTE },
    beyond = { "Exceeds the credit", expert.group.PROTOCOL, expert.severity.WARN },
    type = { "The type is unknown", expert.group.UNDECODED, expert.severity.WARN },
    malformed = { "Malformed", expert.group.MALFORMED, expert.severity.ERROR },
}
local experts = {}
for name, row in pairs(expert_rows) do
    experts[name] = ProtoExpert.new("ethmx.expert." .. name, row[1], row[2], row[3])
end
ethmx.experts = experts

-- The layouts of headers, from their texts: name, offset, bytes; and their lengths.
for _, t in pairs(types) do
    local at, layout = 0, {}
    for name, bytes in t[3]:gmatch("(%S+):(%d)") do
        layout[#layout + 1] = { name == "-" and "reserved" or name, at, tonumber(bytes) }
        at = at + tonumber(bytes)
    end
    t.layout, t.bytes = layout, at
end

-- ---- Checksums ----

local crc_table = {}
for i = 0, 255 do
    local c = i
    for _ = 1, 8 do
        c = bit.band(c, 1) == 1 and bit.bxor(bit.rshift(c, 1), 0x82f63b78) or bit.rshift(c, 1)
    end
    crc_table[i] = c
end

local function crc32c(text)
    local c, band, bxor, rshift, byte = -1, bit.band, bit.bxor, bit.rshift, string.byte
    for i = 1, #text do
        c = bxor(crc_table[band(bxor(c, byte(text, i)), 255)], rshift(c, 8))
    end
    return bit.bnot(c) % 0x100000000
end

-- How many bytes of the frame its checksum covers; all: of a frame of this length.
local function covered_bytes(version, number, all)
    local name = type_names[number]
    if version == V_FULL or name == "hello" or name == "hello_ack" or name == "coalesced" or name == "moved" then
        return all
    end
    return HEAD_BYTES + (types[number] and types[number].bytes or 0)
end

-- The checksum of a frame that begins there. nil: not all that it covers was captured.
local function computed_check(tvb, at, version, number, all)
    local bytes = covered_bytes(version, number, all)
    if bytes > all or at + bytes > tvb:len() then return nil end
    return crc32c(tvb:raw(at, HEAD_BYTES - 4) .. "\0\0\0\0" .. tvb:raw(at + HEAD_BYTES, bytes - HEAD_BYTES))
end

-- ---- What is known of the conversation ----

local known

-- Everything is by ids of endpoints: seq[src dst seq], op[sender receiver op], rop[sender receiver rop], rma[origin
-- target id]: messages. eager[src dst]: the one whose `more` frames follow. chunks[src dst seq]: those in chunk frames,
-- by the sequence number of their first chunk. used, lost, credit: of eager bytes. notes: by packet and frame, what was
-- derived.
function ethmx.init()
    known = { messages = 0, seq = {}, op = {}, rop = {}, rma = {}, eager = {}, chunks = {}, chunk = {}, used = {},
        lost = {}, credit = {}, fragments = {}, notes = {} }
end

local function key(a, b, c) return a .. ">" .. b .. ":" .. c end

local function new_message(bytes)
    known.messages = known.messages + 1
    return { number = known.messages, bytes = bytes, begin = nil }
end

-- The message under this key of a table, made if the capture lacks its beginning.
local function message(in_table, k)
    in_table[k] = in_table[k] or new_message()
    return in_table[k]
end

-- Which messages a frame is about: a function for each type, of the frame's header v. h: src, dst.
local message_of = {}

function message_of.eager(v, h)
    local m = new_message(v.total_bytes)
    known.eager[h.src .. ">" .. h.dst] = m
    if bit.band(v.flags, 1) ~= 0 then known.op[key(h.src, h.dst, v.op)] = m end
    return { m }
end

function message_of.more(_, h) return { message(known.eager, h.src .. ">" .. h.dst) } end

function message_of.chunk(v, h)
    local m = message(known.chunks, key(h.src, h.dst, (h.seq - v.index) % 0x100000000))
    m.bytes = v.total_bytes
    return { m }
end

function message_of.compact(_, h) return { new_message(h.data_bytes) } end

function message_of.coalesced(_, h)
    local list = {}
    for _, bytes in ipairs(h.part_bytes) do list[#list + 1] = new_message(bytes) end
    return list
end

function message_of.rts(v, h)
    local m = new_message(v.total_bytes)
    known.op[key(h.src, h.dst, v.op)] = m
    return { m }
end

local function by_op_back(v, h)
    local m = message(known.op, key(h.dst, h.src, v.op))
    if v.rop then known.rop[key(h.dst, h.src, v.rop)] = m end
    return { m }
end
message_of.pull, message_of.fin, message_of.matched = by_op_back, by_op_back, by_op_back
message_of.rkey_request, message_of.rtr = by_op_back, by_op_back

local function by_rop(v, h) return { message(known.rop, key(h.src, h.dst, v.rop)) } end
local PUSHED = 16 -- in the field rail_pushed: there was no pull, and rop is the sender's operation
function message_of.data(v, h)
    return v.rail_pushed >= PUSHED and { message(known.op, key(h.src, h.dst, v.rop)) } or by_rop(v, h)
end
message_of.shorter = by_rop
message_of.rkey_reply, message_of.put_done = by_rop, by_rop

-- A put in several frames is one operation.
local function by_id(v, h)
    local m = message(known.rma, key(h.src, h.dst, v["rma.id"]))
    m.bytes = m.bytes or v.len_bytes
    if v.op then known.op[key(h.src, h.dst, v.op)] = m end
    return { m }
end
message_of.rma_put, message_of.rma_get, message_of.rma_atomic, message_of.rma_put_rts = by_id, by_id, by_id, by_id

local function by_id_back(v, h)
    local list = {}
    for i = 0, math.min(v["rma.count"] or 1, 128) - 1 do
        list[#list + 1] = message(known.rma, key(h.dst, h.src, (v["rma.id"] + i) % 0x100000000))
    end
    if v.op then known.op[key(h.src, h.dst, v.op)] = list[1] end
    return list
end
message_of.rma_get_rts, message_of.rma_reply, message_of.rma_done = by_id_back, by_id_back, by_id_back

-- Bytes of credit that the frame's messages take; nil: it takes none. A message in chunks takes it with its first one.
local function credit_cost(name, v, h)
    local cost = 0
    if name == "eager" or name == "chunk" and v.index == 0 then return v.total_bytes + MESSAGE_COST_BYTES end
    if name == "compact" then return h.data_bytes + MESSAGE_COST_BYTES end
    if name ~= "coalesced" then return nil end
    for _, bytes in ipairs(h.part_bytes) do cost = cost + bytes + MESSAGE_COST_BYTES end
    return cost
end

local function signed(n) return n >= 0x80000000 and n - 0x100000000 or n end

-- Credit: what this frame gives and takes. Known from the beginning of a session on only.
local function note_credit(note, name, v, h, is_new)
    local there, back = h.src .. ">" .. h.dst, h.dst .. ">" .. h.src
    local before, cost = known.credit[there], credit_cost(name, v, h)
    if name == "hello" or name == "hello_ack" then
        known.used[there] = known.used[there] or 0
        known.used[back] = known.used[back] or 0
    end
    if h.has_credit and (not before or signed((h.credit - before) % 0x100000000) > 0) then
        note.raised = before and (h.credit - before) % 0x100000000
        known.credit[there] = h.credit
    end
    if name == "given" and is_new then known.credit[back] = v.limit end
    if h.is_cut then known.lost[there] = true end -- what its messages take is not known
    if not cost or not known.used[there] or known.lost[there] then return end
    if is_new then known.used[there] = (known.used[there] + cost) % 0x100000000 end
    note.used = known.used[there]
    note.left = known.credit[back] and signed((known.credit[back] - note.used) % 0x100000000)
end

local CHUNK_LEAST, CHUNKS_MOST, CHUNK_FRAME_BYTES = 8, 256, 9216

-- How many chunks of an eager message a frame has; 0: its length does not fit the others.
local function chunk_count(v, data_bytes)
    local left, most = v.total_bytes - v.index * v.chunk_bytes, CHUNK_FRAME_BYTES - HEAD_BYTES - types[36].bytes
    if v.chunk_bytes < CHUNK_LEAST or v.chunk_bytes > most or v.total_bytes > CHUNKS_MOST * v.chunk_bytes or
        data_bytes == 0 or data_bytes > left or data_bytes % v.chunk_bytes > 0 and data_bytes ~= left then
        return 0
    end
    return math.ceil(data_bytes / v.chunk_bytes)
end

-- Keeps what has the frame's sequence numbers: each of its chunks has one.
local function note_seq(name, v, h, what)
    local count = name == "chunk" and h.complete and chunk_count(v, h.data_bytes) or 1
    for i = 0, math.max(count, 1) - 1 do
        local k = key(h.src, h.dst, (h.seq + i) % 0x100000000)
        known.seq[k] = known.seq[k] or what
    end
end

-- Derives what is said of a frame, once.
local function derive(pinfo, t, v, h)
    local note, name = {}, t and t[1]
    local sequenced = t and t[2]
    local first = sequenced and known.seq[key(h.src, h.dst, h.seq)]
    if not t then return note end
    if first then
        note.of, note.messages = first.frame, first.messages
    elseif message_of[name] and h.complete then
        note.messages = message_of[name](v, h)
    end
    if sequenced then note_seq(name, v, h, { frame = pinfo.number, messages = note.messages }) end
    if name == "data" and h.complete then
        local pushed = v.rail_pushed >= PUSHED and "pushed:" or ""
        local c = key(h.src, h.dst, pushed .. v.rop .. ":" .. v.chunk_bytes .. ":" .. v.chunk)
        note.of = known.chunk[c]
        known.chunk[c] = known.chunk[c] or pinfo.number
    elseif name == "pull" and h.complete then
        local c = key(h.src, h.dst, "pull:" .. v.rop .. ":" .. v.chunk_bytes .. ":" .. v.first)
        if v.round > 0 then note.of = known.chunk[c] or 0 end
        known.chunk[c] = known.chunk[c] or pinfo.number
    elseif name == "fragment" then
        local whole = known.seq[key(h.src, h.dst, v["fragment.number"])]
        note.messages, note.of = whole and whole.messages, whole and whole.frame
    end
    for _, m in ipairs(note.messages or {}) do m.begin = m.begin or pinfo.number end
    if h.complete then note_credit(note, name, v, h, not first) end
    return note
end

-- ---- Parts of the tree ----

local function put(tree, name, range) return tree:add_le(fields[name], range) end

local function told(tree, name, value)
    local item = tree:add(fields[name], value)
    item:set_generated()
    return item
end

-- As told(), for fields of 64 bits.
local function told_long(tree, name, n)
    return told(tree, name, UInt64(n % 0x100000000, math.floor(n / 0x100000000)))
end

local function malformed(tree, what) tree:add_proto_expert_info(experts.malformed, "Malformed: " .. what) end

local function value_of(range, bytes)
    if bytes <= 4 then return range:le_uint() end
    return range:le_uint64()
end

local flag_rows = {
    flags = { { 1, "flags.sync" }, { 2, "flags.am" }, { 4, "flags.starved" }, { 8, "flags.read" }, { 16, "flags.lent" },
        { 32, "flags.remote" }, { 64, "flags.untagged" } },
    ["rma.flags"] = { { 1, "rma.flags.fetch" }, { 2, "rma.flags.swap" } },
}

-- Adds the fields of a header and returns their values: numbers, those of 8 bytes as UInt64 unless they are lengths.
local lengths = { total_bytes = true, pulled_bytes = true, len_bytes = true, offset = true, done_bytes = true,
    ["put.end"] = true, chunk = true, first = true }

local function put_layout(tree, layout, tvb, at)
    local v = {}
    for _, f in ipairs(layout) do
        local name, range = f[1], tvb(at + f[2], f[3])
        local item = put(tree, name, range)
        local value = name ~= "reserved" and value_of(range, f[3])
        if type(value) == "userdata" and lengths[name] then value = value:tonumber() end
        v[name] = value
        for _, row in ipairs(flag_rows[name] or {}) do
            if bit.band(value, row[1]) ~= 0 then item:add(fields[row[2]], range, true) end
        end
    end
    return v
end

local function hex(v) return "0x" .. v:tohex() end

-- "0-3, 7": the numbers of the bits that are set, from first on.
local function bit_ranges(map, first)
    local parts, begin = {}, nil
    for i = 0, 64 do
        local word = i < 32 and map:lower() or map:higher()
        local set = i < 64 and bit.band(bit.rshift(word, i % 32), 1) == 1
        if set and not begin then
            begin = i
        elseif not set and begin then
            local from, to = string.format("%.0f", first + begin), string.format("%.0f", first + i - 1)
            parts[#parts + 1] = from == to and from or from .. "-" .. to
            begin = nil
        end
    end
    return table.concat(parts, ", ")
end

-- ---- Addresses ----

-- An interface; returns its length. The last ones, with an IP only, follow one byte 63.
local function put_interface(tree, tvb, at, stop)
    local first = tvb(at, 1):uint()
    local form, v6 = first % 64, nil
    local item = tree:add(ethmx, tvb(at, 1), "Interface")
    local begin, ip_bytes, text = at, 4, ""
    item:add(fields["address.form"], tvb(at, 1), form)
    at = at + 1
    if form > 38 then return nil end
    if form > 32 then
        v6 = form - 33
        ip_bytes = v6 < 3 and 16 or 8
        if v6 % 3 == 2 and at < stop then
            put(item, "address.prefix", tvb(at, 1))
            at = at + 1
        end
    end
    if at + ip_bytes + (bit.band(first, 64) ~= 0 and 6 or 0) + (bit.band(first, 128) ~= 0 and 2 or 0) > stop then
        return nil
    end
    if ip_bytes == 4 then
        item:add(fields["address.ip"], tvb(at, 4))
        told(item, "address.prefix", form)
        text = tostring(tvb(at, 4):ipv4())
    elseif ip_bytes == 16 then
        item:add(fields["address.ip6"], tvb(at, 16))
        text = tostring(tvb(at, 16):ipv6())
    else
        item:add(fields["address.ip6_half"], tvb(at, 8))
        text = "IPv6 by its MAC"
    end
    at = at + ip_bytes
    if bit.band(first, 64) ~= 0 then
        item:add(fields["address.mac"], tvb(at, 6))
        at = at + 6
    end
    if bit.band(first, 128) ~= 0 then
        put(item, "address.max_bytes", tvb(at, 2))
        at = at + 2
    end
    item:append_text(" " .. text)
    item:set_len(at - begin)
    return at
end

local function put_interfaces(tree, tvb, at, stop, count)
    while count > 0 do
        if at >= stop then return nil end
        if tvb(at, 1):uint() == 63 then
            if at + 1 + 4 * count > stop then return nil end
            for i = 0, count - 1 do tree:add(fields["address.ip"], tvb(at + 1 + 4 * i, 4)) end
            return at + 1 + 4 * count
        end
        at = put_interface(tree, tvb, at, stop)
        if not at then return nil end
        count = count - 1
    end
    return at
end

-- What the parts of wires have, by type: fields of two bytes, from an offset on; address.tso has one.
local part_values = {
    [1] = { 0, "address.ring_bytes", "address.ethertype", "address.gso_port", "address.frame_port", "address.tso" },
    [2] = { 0, "address.udp_port" },
    [4] = { 1, "address.ring_bytes", "address.ethertype", "address.gso_port", "address.frame_port", "address.tso" },
    [5] = { 0, "address.udp_port" },
}

local function put_part(tree, tvb, at, stop)
    local head, bytes, begin = tvb(at, 1):uint(), tvb(at, 1):uint() % 8, at
    at = at + 1
    if bytes == 7 then
        if at >= stop then return nil end
        bytes = tvb(at, 1):uint()
        at = at + 1
    end
    if at + bytes > stop then return nil end
    local kind = bit.rshift(head, 3)
    local item = tree:add(fields["address.part"], tvb(begin, at + bytes - begin), kind)
    if kind == 0 and bytes > 0 then
        item:add(fields["address.host"], tvb(at, bytes))
        tree:append_text(" of " .. tvb(at, bytes):string())
    elseif bytes > 0 then
        item:add(fields["address.part_value"], tvb(at, bytes))
    end
    for i, name in ipairs(part_values[kind] or {}) do
        local from = (part_values[kind][1]) + 2 * (i - 2)
        local size = name == "address.tso" and 1 or 2
        if i > 1 and from + size <= bytes then put(item, name, tvb(at + from, size)) end
    end
    return at + bytes
end

local address_layout = { { "address.id", 4, 4 }, { "address.cookie", 8, 4 } }

local function put_address(tree, tvb, at, bytes)
    local item, stop = tree:add(ethmx, tvb(at, bytes), "Address"), at + bytes
    if bytes < 18 then return malformed(item, "the address is too short") end
    item:add(fields["address.magic"], tvb(at, 2))
    item:add(fields["address.version"], tvb(at + 2, 1))
    local counts = tvb(at + 3, 1):uint()
    local line = item:add(fields["address.counts"], tvb(at + 3, 1))
    line:add(fields["address.interfaces"], tvb(at + 3, 1), counts % 8)
    line:add(fields["address.auth"], tvb(at + 3, 1), bit.band(counts, 8) ~= 0)
    put_layout(item, address_layout, tvb, at)
    item:add(fields["address.host_id"], tvb(at + 12, 6))
    at = at + 18
    if bit.band(counts, 16) ~= 0 and at + 16 <= stop then
        item:add(fields["address.secret"], tvb(at, 16))
        at = at + 16
    end
    at = put_interfaces(item, tvb, at, stop, counts % 8)
    while at and at < stop do at = put_part(item, tvb, at, stop) end
    if not at then malformed(item, "the address ends too early") end
end

-- ---- What follows the headers ----

local rest_of = {}

local function put_bytes(tree, name, tvb, at, bytes)
    if bytes > 0 and at < tvb:len() then tree:add(fields[name], tvb(at, math.min(bytes, tvb:len() - at))) end
end

function rest_of.hello(tree, tvb, at, bytes, v)
    if v.addr_bytes > bytes then return malformed(tree, "the address is longer than the frame") end
    if at + v.addr_bytes > tvb:len() then return end
    put_address(tree, tvb, at, v.addr_bytes)
    put_bytes(tree, "padding", tvb, at + v.addr_bytes, bytes - v.addr_bytes)
end
rest_of.hello_ack = rest_of.hello
rest_of.moved = rest_of.hello

function rest_of.rail(tree, tvb, at, bytes) put_bytes(tree, "padding", tvb, at, bytes) end

local function put_am_header(tree, tvb, at, bytes, v)
    local head = math.min(v.am_header_bytes, bytes)
    put_bytes(tree, "am_header", tvb, at, head)
    return at + head, bytes - head
end

function rest_of.eager(tree, tvb, at, bytes, v)
    if bytes > v.total_bytes then malformed(tree, "there is more data than the message has") end
    at, bytes = put_am_header(tree, tvb, at, bytes, v)
    put_bytes(tree, "payload", tvb, at, bytes)
end

-- The length of a message in chunks, of its two parts.
local function put_total(tree, v)
    v.total_bytes = v.total_high * 0x10000 + v.total_low
    told_long(tree, "total_bytes", v.total_bytes)
end

function rest_of.chunk(tree, tvb, at, bytes, v)
    put_total(tree, v)
    if chunk_count(v, bytes) == 0 then malformed(tree, "the data is not that of chunks of this message") end
    put_bytes(tree, "payload", tvb, at, bytes)
end

local lent_layout = { { "lent.remote", 0, 8 }, { "lent.key", 8, 8 }, { "lent.len_bytes", 16, 8 } }
local read_layout = { { "lent.remote", 0, 8 } }

function rest_of.rts(tree, tvb, at, bytes, v)
    local layout = bit.band(v.flags, 16) ~= 0 and lent_layout or bit.band(v.flags, 8) ~= 0 and read_layout
    if bit.band(v.flags, 4) ~= 0 then tree:add_proto_expert_info(experts.starved) end
    at, bytes = put_am_header(tree, tvb, at, bytes, v)
    if not layout then return put_bytes(tree, "payload", tvb, at, bytes) end
    local need = 8 * #layout
    if bytes < need then return malformed(tree, "the end of the rts is missing") end
    if at + bytes > tvb:len() then return end
    put_layout(tree, layout, tvb, at + bytes - need)
end

local part_layout = { { "part.bits", 0, 8 }, { "part.len_bytes", 8, 2 }, { "part.flags", 10, 2 } }

function rest_of.coalesced(tree, tvb, at, bytes)
    local stop, n, is_whole = math.min(at + bytes, tvb:len()), 0, at + bytes <= tvb:len()
    while at + 12 <= stop do
        local len = tvb(at + 8, 2):le_uint()
        if at + 12 + len > stop then break end
        n = n + 1
        local item = tree:add(ethmx, tvb(at, 12 + len), string.format("Part %d: %d bytes", n, len))
        put_layout(item, part_layout, tvb, at)
        put_bytes(item, "payload", tvb, at + 12, len)
        at = at + 12 + len
    end
    if is_whole and (at ~= stop or n == 0) then malformed(tree, "the parts do not fill the frame") end
end

-- The lengths of the parts of a coalesced frame.
local function parts_of(tvb, at, stop)
    local list = {}
    while at + 12 <= stop do
        local len = tvb(at + 8, 2):le_uint()
        if at + 12 + len > stop then break end
        list[#list + 1] = len
        at = at + 12 + len
    end
    return list
end

-- ---- The line of a frame ----

local line_of = {}
local function size(n) return string.format("%.0f byte%s", n, n == 1 and "" or "s") end

function line_of.hello(v, h)
    return string.format("%s bytes, window %d, longest frame %d", h.all, v.window, v.max_bytes)
end
line_of.hello_ack = line_of.hello

function line_of.ack(v, h)
    local early = bit_ranges(v.early, h.ack + 1)
    return "expects " .. h.ack .. (early ~= "" and ", has " .. early or "")
end

local function flag_text(v)
    local text = ""
    for _, row in ipairs(flag_rows.flags) do
        if bit.band(v.flags, row[1]) ~= 0 then text = text .. ", " .. row[2]:sub(7):upper() end
    end
    return text
end

function line_of.eager(v, h)
    local part = h.data_bytes < v.total_bytes and string.format("%d of ", h.data_bytes) or ""
    return part .. size(v.total_bytes) .. ", bits " .. hex(v.bits) .. flag_text(v)
end

function line_of.chunk(v) return string.format("%s, bits %s, chunk %d", size(v.total_bytes), hex(v.bits), v.index) end
function line_of.more(v, h) return size(h.data_bytes) .. " at " .. string.format("%.0f", v.offset) end
function line_of.compact(v, h) return size(h.data_bytes) .. ", bits " .. hex(v.bits) end
function line_of.rts(v) return size(v.total_bytes) .. ", bits " .. hex(v.bits) .. flag_text(v) end

function line_of.pull(v)
    local rail, more = v.rail_more % 16, math.floor(v.rail_more / 16)
    local over = rail > 0 and ", over rail " .. rail or ""
    local behind = more > 0 and ", and " .. more .. " blocks behind them" or ""
    local again = v.round > 0 and ", round " .. v.round or ""
    local chunks = bit_ranges(v.wanted, v.first)
    return string.format("chunks %s of %d bytes%s%s%s", chunks, v.chunk_bytes, behind, over, again)
end

function line_of.data(v)
    local way = v.rail_pushed >= PUSHED and ", pushed" or v.rail_pushed > 0 and ", rail " .. v.rail_pushed or ""
    return string.format("chunk %.0f%s", v.chunk, way)
end

function line_of.fin(v) return size(v.pulled_bytes) .. " taken" end
function line_of.coalesced(_, h) return #h.part_bytes .. (h.is_cut and " or more" or "") .. " messages" end

function line_of.fragment(v, h)
    return string.format("of frame %d, %d bytes at %d of %d", v["fragment.number"], h.data_bytes, v["fragment.offset"],
        v["fragment.total_bytes"])
end

function line_of.rkey_request(v) return string.format("from %.0f on", v.offset) end
function line_of.rkey_reply(v) return v.len_bytes == 0 and "none: pull the rest" or size(v.len_bytes) end
function line_of.shorter(v) return "chunks of " .. size(v.chunk_bytes) end
function line_of.rtr(v) return string.format("%s at %.0f", size(v.len_bytes), v.offset) end
function line_of.put_done(v) return string.format("up to %.0f: %s", v["put.end"], put_statuses[v["put.status"]] or "?") end
function line_of.recall(v) return "down to " .. v.limit end
function line_of.given(v) return "limit " .. v.limit end

function line_of.rma_put(v, h) return string.format("%s of %s at %.0f", h.data_bytes, size(v.len_bytes), v.offset) end
function line_of.rma_get(v) return string.format("%s at %.0f", size(v.len_bytes), v.offset) end

function line_of.rma_atomic(v)
    local fetch, swap = bit.band(v["rma.flags"], 1) ~= 0, bit.band(v["rma.flags"], 2) ~= 0
    local what = swap and "compare and swap" or rma_ops[v["rma.op"]] or "?"
    return string.format("%s%s of %s at %.0f, %s", fetch and "fetch and " or "", what, rma_types[v["rma.type"]] or "?",
        v.offset, size(v.len_bytes))
end

line_of.rma_put_rts = line_of.rma_get
function line_of.rma_get_rts(v) return "chunks of " .. size(v.chunk_bytes) end
function line_of.rma_reply(_, h) return size(h.data_bytes) end
function line_of.rma_done(v)
    return string.format("%d operations: %s", v["rma.count"], rma_statuses[v["rma.status"]] or "?")
end

function line_of.route_probe(v) return string.format("search %d, route %d", v["route.number"], v["route.route"]) end
line_of.route_reply = line_of.route_probe
line_of.moved = line_of.route_probe
function line_of.doubled(v) return string.format("%d frames arrived twice", v["doubled.frames"]) end
function line_of.rail(v) return string.format("%d, %s", v["rail.rail"], v["rail.answer"] == 0 and "question" or "reply") end

-- ---- A frame ----

local dissect_frame

-- Keeps a fragment. When all are there, the frame's bytes are kept with the note of the packet that completes it.
local function note_fragment(note, tvb, at, h, v)
    local k = key(h.src, h.dst, v["fragment.number"])
    local whole = known.fragments[k] or { parts = {} }
    if note.reassembled or at + h.data_bytes > tvb:len() then return end
    known.fragments[k] = whole
    whole.parts[v["fragment.offset"]] = tvb:raw(at, h.data_bytes)
    local text, count = "", 0
    while whole.parts[#text] and #whole.parts[#text] > 0 do
        text = text .. whole.parts[#text]
        count = count + 1
    end
    if #text == v["fragment.total_bytes"] then
        note.reassembled, note.count = text, count
        known.fragments[k] = nil
    end
end

local function put_reassembled(tree, pinfo, note, index)
    local bytes = ByteArray.new(note.reassembled, true)
    local inner = bytes:tvb("Reassembled frame")
    told(tree, "fragment.count", note.count)
    local line = dissect_frame(inner, pinfo, tree, 0, index .. "r")
    return line and line.text
end

local function put_check(tree, item, tvb, at, h)
    local status, computed = 3, nil
    if h.version == V_OFF then
        status = h.check == 0 and 2 or 0
    elseif ethmx.prefs.verify then
        computed = computed_check(tvb, at, h.version, h.type, h.all)
        if computed then status = computed == h.check and 1 or 0 end
    end
    told(item, "check.status", status)
    if status == 0 then
        if computed then told(item, "check.computed", computed) end
        tree:add_proto_expert_info(experts.check)
    end
    return status ~= 0
end

-- What was derived of the frame, into its tree.
local function put_note(tree, note)
    for _, m in ipairs(note.messages or {}) do
        local item = told(tree, "msg", m.number)
        if m.begin then told(item, "msg.begin", m.begin) end
        if m.bytes then told_long(item, "msg.bytes", m.bytes) end
    end
    if note.of then
        local item = told(tree, "retransmission", true)
        if note.of > 0 then told(item, "retransmission.of", note.of) end
        tree:add_proto_expert_info(experts.again)
    end
    if note.raised then told(tree, "credit.raised", note.raised) end
    if note.used then told(tree, "credit.used", note.used) end
    if note.left then
        told(tree, "credit.left", note.left)
        if note.left < 0 then tree:add_proto_expert_info(experts.beyond) end
    end
end

local function message_text(list)
    if not list or #list == 0 then return "" end
    if #list == 1 then return " #" .. list[1].number end
    return string.format(" #%d-%d", list[1].number, list[#list].number)
end

local header_layout = { { "version", 0, 1 }, { "type", 1, 1 }, { "body_bytes", 2, 2 }, { "dst_id", 4, 4 },
    { "cookie", 8, 4 }, { "src_id", 12, 4 }, { "seq", 16, 4 }, { "ack", 20, 4 }, { "credit", 24, 4 } }
local short_layout = { { "version", 0, 1 }, { "type", 1, 1 }, { "body_bytes", 2, 2 }, { "dst_id", 4, 4 },
    { "cookie", 8, 4 }, { "src_id", 12, 4 }, { "seq", 16, 4 }, { "credit", 20, 4 }, { "bits", 24, 8 } }

-- The header of a frame as read by put_layout().
local function head_of(v, tag_bytes)
    return { version = v.version, type = v.type, all = HEAD_BYTES + v.body_bytes, src = string.format("%08x", v.src_id),
        dst = string.format("%08x", v.dst_id), seq = v.seq, ack = v.ack, credit = v.credit,
        has_credit = type_names[v.type] ~= "hello", part_bytes = {}, tag_bytes = tag_bytes }
end

local function finish(item, h, note, name, detail, is_good)
    local text = name .. message_text(note.messages) .. (detail and ": " .. detail or "")
    if note.raised then text = text .. ", credit +" .. note.raised end
    if note.of then text = "[again] " .. text end
    if not is_good then text = "[wrong checksum] " .. text end
    item:append_text(", " .. text)
    item:set_len(h.tag_bytes + h.all)
    return { text = text, name = name, h = h, note = note }
end

local function noted(pinfo, index, t, v, h)
    local k = pinfo.number .. ":" .. index
    known.notes[k] = known.notes[k] or derive(pinfo, t, v, h)
    return known.notes[k]
end

local function dissect_short(tvb, pinfo, item, at, index)
    local v = put_layout(item, short_layout, tvb, at)
    local h = head_of(v, 0)
    h.data_bytes, h.complete = v.body_bytes, true
    told(item, "job", v.cookie)
    told(item, "sequenced", true)
    v.total_bytes, v.flags = v.body_bytes, 0
    local note = noted(pinfo, index, types[7], v, h)
    put_note(item, note)
    put_bytes(item, "payload", tvb, at + SHORT_HEAD_BYTES, v.body_bytes)
    return finish(item, h, note, "eager", line_of.eager(v, h), true)
end

local tag_layout = { { "tag.version", 0, 1 }, { "tag.key", 1, 1 }, { "tag.frame_bytes", 2, 2 }, { "tag.dst_id", 4, 4 },
    { "tag.tag", 8, 8 }, { "tag.number", 16, 8 } }

-- The body of a frame behind its header. Returns the values and the type's own line.
local function put_body(item, tvb, at, t, h, body_bytes)
    local v, rest = {}, at + t.bytes
    if body_bytes < t.bytes then
        malformed(item, "the header of the type is cut off")
        return v
    end
    if rest > tvb:len() then return v end
    h.complete, h.data_bytes = true, body_bytes - t.bytes
    told(item, "header_bytes", t.bytes)
    v = put_layout(item, t.layout, tvb, at)
    if t[1] == "coalesced" then
        h.is_cut = rest + h.data_bytes > tvb:len()
        h.part_bytes = parts_of(tvb, rest, math.min(rest + h.data_bytes, tvb:len()))
    end
    if rest_of[t[1]] then
        rest_of[t[1]](item, tvb, rest, h.data_bytes, v)
    else
        put_bytes(item, "payload", tvb, rest, h.data_bytes)
    end
    return v
end

-- Dissects the frame at this place. nil: there is none. Otherwise what the line of the packet says of it.
function dissect_frame(tvb, pinfo, tree, at, index)
    local tag_bytes, begin = 0, at
    if at + HEAD_BYTES > tvb:len() then return nil end
    local item = tree:add(ethmx, tvb(at), "ethmx")
    if tvb(at, 1):uint() == V_TAGGED then
        if at + TAG_BYTES + HEAD_BYTES > tvb:len() then return nil end
        put_layout(item:add(ethmx, tvb(at, TAG_BYTES), "Tag"), tag_layout, tvb, at)
        tag_bytes = TAG_BYTES
        at = at + TAG_BYTES
    end
    local version = tvb(at, 1):uint()
    if version == V_SHORT then return dissect_short(tvb, pinfo, item, at, index) end
    if not versions[version] then
        malformed(item, "the version is unknown")
        return nil
    end
    local head = put_layout(item, header_layout, tvb, at)
    local h, t = head_of(head, tag_bytes), types[head.type]
    local check = put(item, "check", tvb(at + 28, 4))
    h.check = tvb(at + 28, 4):le_uint()
    told(item, "job", head.cookie)
    if begin + tag_bytes + h.all > tvb:reported_len() then malformed(item, "the frame is cut off") end
    if not t then
        item:add_proto_expert_info(experts.type)
        put_bytes(item, "payload", tvb, at + HEAD_BYTES, head.body_bytes)
        return finish(item, h, {}, "type " .. head.type, nil, put_check(item, check, tvb, at, h))
    end
    told(item, "sequenced", t[2])
    local is_good = put_check(item, check, tvb, at, h)
    local v = put_body(item, tvb, at + HEAD_BYTES, t, h, head.body_bytes)
    local note = is_good and noted(pinfo, index, t, v, h) or {}
    put_note(item, note)
    local detail = h.complete and line_of[t[1]] and line_of[t[1]](v, h) or nil
    if t[1] == "fragment" and h.complete and is_good then
        if not pinfo.visited then note_fragment(note, tvb, at + HEAD_BYTES + t.bytes, h, v) end
        if note.reassembled then detail = detail .. " = " .. (put_reassembled(item, pinfo, note, index) or "?") end
    end
    return finish(item, h, note, t[1], detail, is_good)
end

-- ---- A packet ----

local has_chunks = { data = true, chunk = true }

-- "chunk 0 to 43 (44 frames)": many frames of a message in one entry. Returns how many lines from i on it takes, and
-- the entry.
local function chunk_run(lines, i)
    local first, n = lines[i], 1
    if not has_chunks[first.name] or not first.note.messages then return 1, first.text end
    while lines[i + n] and lines[i + n].name == first.name and lines[i + n].note.messages and
        lines[i + n].note.messages[1] == first.note.messages[1] do
        n = n + 1
    end
    if n == 1 then return 1, first.text end
    local to = string.format(" to %s (%d frames)", lines[i + n - 1].text:match("chunk (%d+)"), n)
    return n, (first.text:gsub("chunk %d+", "%0" .. to, 1))
end

local function put_info(pinfo, lines)
    local parts, i = {}, 1
    while i <= #lines and #parts < 4 do
        local n, text = chunk_run(lines, i)
        parts[#parts + 1] = text
        i = i + n
    end
    if i <= #lines then parts[#parts + 1] = (#lines - i + 1) .. " more frames" end
    pinfo.cols.protocol:set("ethmx")
    pinfo.cols.info:set(lines[1].h.src .. " > " .. lines[1].h.dst .. "  " .. table.concat(parts, "; "))
end

-- All frames of a packet; several: of the length of the first, the last may be shorter.
local function dissect(tvb, pinfo, root, several)
    local at, lines, step = 0, {}, nil
    local tree = root:add(ethmx, tvb())
    while at < tvb:len() do
        local line = dissect_frame(tvb, pinfo, tree, at, #lines)
        if not line then break end
        lines[#lines + 1] = line
        step = step or line.h.tag_bytes + line.h.all
        at = at + step
        if not several then break end
    end
    if #lines == 0 then
        pinfo.cols.protocol:set("ethmx")
        pinfo.cols.info:set("[no frame of ethmx]")
        malformed(tree, "no frame of a known version")
        return tvb:len()
    end
    told(tree, "frames", #lines)
    local is_cut = tvb:len() < tvb:reported_len() and at + TAG_BYTES + HEAD_BYTES > tvb:len()
    if several and at < tvb:len() and not is_cut then malformed(tree, "bytes without a frame follow") end
    put_info(pinfo, lines)
    return tvb:len()
end

-- ---- TSO packets ----

local IP_BYTES, TCP_BYTES, OPTION_AT, OPTION_BYTES, TSO_CHUNKS = 20, 60, 20, 40, 64

local tso_data_layout = { { "version", 2, 1 }, { "dst_id", 4, 4 }, { "cookie", 8, 4 }, { "src_id", 12, 4 },
    { "ack", 16, 4 }, { "credit", 20, 4 }, { "rop", 24, 4 }, { "round", 28, 1 }, { "rail_pushed", 29, 1 },
    { "chunk_bytes", 30, 2 }, { "tso.chunk", 32, 8 } }
local tso_eager_layout = { { "version", 2, 1 }, { "total_high", 3, 1 }, { "dst_id", 4, 4 }, { "cookie", 8, 4 },
    { "src_id", 12, 4 }, { "ack", 16, 4 }, { "credit", 20, 4 }, { "tso.seq", 24, 4 }, { "total_low", 28, 2 },
    { "chunk_bytes", 30, 2 }, { "bits", 32, 8 } }

-- By the kind of TCP's option: the type of the frames, and the option.
local tso_kinds = { [254] = { type = 11, layout = tso_data_layout }, [253] = { type = 36, layout = tso_eager_layout } }

-- The length of the data of a TSO packet whose TCP header is there; nil: it is none.
local function tso_data_bytes(tvb, at)
    local ip, option = at - IP_BYTES, at + OPTION_AT
    if ip < 0 or at + TCP_BYTES > tvb:len() or tvb(ip, 1):uint() ~= 0x45 or tvb(ip + 9, 1):uint() ~= 6 or
        tvb(ip + 16, 4):uint() ~= 0 or tvb(at + 12, 1):uint() ~= 0xf0 or not tso_kinds[tvb(option, 1):uint()] or
        tvb(option + 1, 1):uint() ~= OPTION_BYTES then
        return nil
    end
    local version, bytes = tvb(option + 2, 1):uint(), tvb(ip + 2, 2):uint() - IP_BYTES - TCP_BYTES
    return (version == V_OFF or version == V_HEADER) and bytes > 0 and bytes or nil
end

-- What the types of frames differ in. v: the values of the packet's head.
local tso_of = { data = {}, chunk = {} }

-- The fields that are not in the option.
function tso_of.data.put_rest() end

function tso_of.chunk.put_rest(item, tvb, at, v)
    item:add(fields.joined, tvb(at + 14, 2))
    v.joined = tvb(at + 14, 2):uint()
    put_total(item, v)
end

-- How much data is in the frame at offset 0, the one with the checksum.
function tso_of.data.first_bytes(v, offset, data_bytes)
    return math.min(offset > 0 and v.chunk_bytes or data_bytes, v.chunk_bytes)
end

function tso_of.chunk.first_bytes(v) return math.min(v.total_bytes, v.chunk_bytes) end

-- Its sequence number, and the header of its type.
function tso_of.data.first_header(tvb, at) return "\0\0\0\0", tvb:raw(at + OPTION_AT + 24, 16) end

function tso_of.chunk.first_header(tvb, at)
    local option = at + OPTION_AT
    local joined = tvb:raw(at + 15, 1) .. tvb:raw(at + 14, 1)
    return tvb:raw(option + 24, 4),
        tvb:raw(option + 28, 2) .. tvb:raw(option + 3, 1) .. "\0" .. joined .. tvb:raw(option + 30, 10)
end

-- The header of chunk i behind offset 0, as put_layout() returns it, and the frame's sequence number.
function tso_of.data.chunk_header(v, i)
    return { rop = v.rop, round = v.round, rail_pushed = v.rail_pushed, chunk_bytes = v.chunk_bytes,
        chunk = v["tso.chunk"]:tonumber() + i }, 0
end

function tso_of.chunk.chunk_header(v, i)
    return { total_bytes = v.total_bytes, index = i, joined = v.joined, chunk_bytes = v.chunk_bytes, bits = v.bits },
        (v["tso.seq"] + i) % 0x100000000
end

-- Its fields.
function tso_of.data.put_chunk(item, v) told_long(item, "chunk", v.chunk) end

function tso_of.chunk.put_chunk(item, v, seq)
    told(item, "seq", seq)
    told(item, "index", v.index)
end

-- Whether so much data can begin with chunk i.
function tso_of.data.fits() return true end

function tso_of.chunk.fits(v, i, data_bytes)
    return chunk_count({ index = i, total_bytes = v.total_bytes, chunk_bytes = v.chunk_bytes }, data_bytes) > 0
end

-- The head of the frame at offset 0, without its checksum.
local function tso_first_head(tvb, at, kind, body_bytes)
    local option = at + OPTION_AT
    local seq, header = tso_of[type_names[kind.type]].first_header(tvb, at)
    return tvb:raw(option + 2, 1) .. string.char(kind.type, body_bytes % 256, math.floor(body_bytes / 256)) ..
        tvb:raw(option + 4, 12) .. seq .. tvb:raw(option + 16, 8) .. "\0\0\0\0" .. header
end

local function put_tso_check(tree, item, tvb, at, kind, v, body_bytes)
    local check, computed = tvb(at + 8, 4):uint(), 0
    local line = item:add(fields.check, tvb(at + 8, 4))
    if v.version == V_HEADER then
        if not ethmx.prefs.verify then return told(line, "check.status", 3) end
        computed = crc32c(tso_first_head(tvb, at, kind, body_bytes))
    end
    local status = computed ~= check and 0 or v.version == V_OFF and 2 or 1
    told(line, "check.status", status)
    if status ~= 0 then return true end
    told(line, "check.computed", computed)
    tree:add_proto_expert_info(experts.check)
    return false
end

-- Chunk i behind offset 0, as a frame.
local function put_tso_frame(tree, pinfo, tvb, at, bytes, i, kind, first, is_good)
    local item, t = tree:add(ethmx, tvb(math.min(at, tvb:len() - 1)), "ethmx"), types[kind.type]
    local v, seq = tso_of[t[1]].chunk_header(first, i)
    local h = { src = string.format("%08x", first.src_id), dst = string.format("%08x", first.dst_id), seq = seq,
        ack = first.ack, credit = first.credit, has_credit = true, part_bytes = {}, tag_bytes = 0, complete = true,
        all = math.max(math.min(bytes, tvb:len() - at), 0), data_bytes = bytes }
    told(item, "type", kind.type)
    told(item, "sequenced", t[2])
    tso_of[t[1]].put_chunk(item, v, seq)
    local note = is_good and noted(pinfo, "t" .. i, t, v, h) or {}
    put_note(item, note)
    put_bytes(item, "payload", tvb, at, bytes)
    return finish(item, h, note, t[1], line_of[t[1]](v), is_good)
end

local function put_tso(tvb, pinfo, root, at, data_bytes)
    local tree, kind = root:add(ethmx, tvb(at), "ethmx, TSO packet"), tso_kinds[tvb(at + OPTION_AT, 1):uint()]
    local item, t = tree:add(ethmx, tvb(at, TCP_BYTES), "Head"), types[kind.type]
    local own = tso_of[t[1]]
    local v, offset = put_layout(item, kind.layout, tvb, at + OPTION_AT), tvb(at + 4, 4):uint()
    item:add(fields["tso.offset"], tvb(at + 4, 4))
    own.put_rest(item, tvb, at, v)
    told(item, "job", v.cookie)
    told(item, "header_bytes", t.bytes)
    local is_good = put_tso_check(tree, item, tvb, at, kind, v, t.bytes + own.first_bytes(v, offset, data_bytes))
    if v.chunk_bytes < CHUNK_LEAST or offset % v.chunk_bytes > 0 or data_bytes > TSO_CHUNKS * v.chunk_bytes or
        not own.fits(v, offset / v.chunk_bytes, data_bytes) then
        return malformed(tree, "its data is not that of chunks")
    end
    local lines, from, first = {}, 0, math.floor(offset / v.chunk_bytes)
    while from < data_bytes do
        lines[#lines + 1] = put_tso_frame(tree, pinfo, tvb, at + TCP_BYTES + from,
            math.min(v.chunk_bytes, data_bytes - from), first + #lines, kind, v, is_good)
        from = from + v.chunk_bytes
    end
    told(tree, "frames", #lines)
    pinfo.cols.info:clear_fence() -- what TCP has written
    put_info(pinfo, lines)
end

-- TSO packets look like repeated segments to Wireshark's TCP, which gives these to no other dissector. So they are
-- looked for when all others are done, and other TCP is shown as without this file.
local tso, tcp_port = Proto("ethmx_tso", "ethmx: TSO packets"), Field.new("tcp.srcport")

function tso.dissector(tvb, pinfo, root)
    for _, found in ipairs({ tcp_port() }) do
        local data_bytes = tso_data_bytes(tvb, found.offset)
        if data_bytes then put_tso(tvb, pinfo, root, found.offset, data_bytes) end
    end
end

register_postdissector(tso)

function ethmx.dissector(tvb, pinfo, root) return dissect(tvb, pinfo, root, pinfo.match_uint ~= nil and pinfo.port_type ~= 0) end

-- Whether a UDP packet begins with a frame.
local function is_frame(tvb)
    local at, length = 0, tvb:reported_len()
    if tvb:len() < HEAD_BYTES then return false end
    if tvb(0, 1):uint() == V_TAGGED then
        at = TAG_BYTES
        if tvb:len() < at + HEAD_BYTES or tvb(1, 1):uint() > 1 or tvb(4, 4):uint() ~= tvb(at + 4, 4):uint() then
            return false
        end
    end
    local version, number = tvb(at, 1):uint(), tvb(at + 1, 1):uint()
    local body, check = tvb(at + 2, 2):le_uint(), tvb(at + 28, 4):le_uint()
    if at + HEAD_BYTES + body > length or not types[number] or body < types[number].bytes then return false end
    if version == V_OFF then return check == 0 end
    if at > 0 or (version ~= V_HEADER and version ~= V_FULL) then return false end
    local computed = computed_check(tvb, at, version, number, HEAD_BYTES + body)
    return not computed or computed == check
end

ethmx:register_heuristic("udp", function(tvb, pinfo, root)
    if not is_frame(tvb) then return false end
    pinfo.conversation = ethmx
    dissect(tvb, pinfo, root, true)
    return true
end)

local ethertypes = DissectorTable.get("ethertype")
ethertypes:add(0x88b5, ethmx)
ethertypes:add(0x88b6, ethmx)
ethertypes:add_for_decode_as(ethmx)
DissectorTable.get("udp.port"):add_for_decode_as(ethmx)
