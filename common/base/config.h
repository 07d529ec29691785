/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Configuration: the table of parameters. ETHMX_* variables, MCA parameters (mtl_ethmx_*), ethmx_info and
 * docs/parameters.md are generated from EMX_PARAMS below. Values are read once, when an endpoint is opened. The rooms
 * below the API get a const struct emx_config, which needs no lock.
 */
#ifndef EMX_BASE_CONFIG_H
#define EMX_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ethmx.h"

/* Types of parameters and their C types. SIZE takes the suffixes k, m, g (powers of 1024), TIME takes ns, us, ms, s. */
enum emx_param_type {
    EMX_PARAM_BOOL,   /* bool: yes/no, on/off, true/false, 1/0 */
    EMX_PARAM_UINT,   /* uint64_t: decimal or 0x */
    EMX_PARAM_SIZE,   /* uint64_t, bytes */
    EMX_PARAM_TIME,   /* uint64_t, ns */
    EMX_PARAM_STRING, /* char[EMX_STRING_MAX] */
    EMX_PARAM_CHOICE, /* uint64_t: index into the words of the range, "a|b|c" */
    EMX_PARAM_TOS,    /* uint64_t: a byte without its ECN bits, as a number or the name of a DSCP */
};

#define EMX_STRING_MAX 128

enum emx_gso_sockets { EMX_GSO_AUTO, EMX_GSO_PACKET, EMX_GSO_UDP, EMX_GSO_OFF };
enum emx_packet_frames { EMX_FRAMES_AUTO, EMX_FRAMES_ETHERTYPE, EMX_FRAMES_UDP };
enum emx_wait_mode { EMX_WAIT_SPIN, EMX_WAIT_YIELD, EMX_WAIT_SLEEP, EMX_WAIT_AUTO };
enum emx_progress_mode { EMX_PROGRESS_CALLER, EMX_PROGRESS_THREAD };
enum emx_verbs_move { EMX_MOVE_READ, EMX_MOVE_WRITE };
enum emx_checksum { EMX_CHECKSUM_OFF, EMX_CHECKSUM_HEADER, EMX_CHECKSUM_FULL };

/* X(type, name, default, minimum, maximum, range for people, help). min and max bind UINT, SIZE, TIME and TOS. */
/* clang-format off */
#define EMX_PARAMS(X) \
    X(STRING, wires, "shm,packet,udp", 0, 0, "comma list of shm, verbs, xdp, packet, udp", \
      "Wires to use, best first. A pair of processes uses the first that both have and that reaches.") \
    X(STRING, if, "", 0, 0, "names or subnets, comma list; empty: automatic", \
      "Interfaces to use, such as eth2, 10.1.0.0/16, 2001:db8::/64 or fe80::%eth2/10. A subnet chooses its family of addresses, too. Automatic: the interface of the route to each peer, never a container or virtual-machine bridge.") \
    X(UINT, ethertype, "0x88b5", 0x0600, 0xffff, "0x0600 to 0xffff", \
      "EtherType of the packet wire's frames. The same on all nodes.") \
    X(UINT, xdp_ethertype, "0x88b6", 0x0600, 0xffff, "0x0600 to 0xffff", \
      "EtherType of the xdp wire's frames; another than the packet wire's. The same on all nodes.") \
    X(UINT, xdp_ranks, "16", 1, 64, "1 to 64", \
      "Ranks of a host that may share an interface through the xdp wire; memory is reserved for so many.") \
    X(CHOICE, xdp_mode, "auto", 0, 0, "auto|native|copy|generic", \
      "How the xdp wire uses an interface: in the driver (native) with zero copy if possible, in the driver without it (copy), or by the kernel's slower generic hook. auto: the first of these that works; on veth generic, which is the fastest there.") \
    X(TIME, verbs_ack_timeout, "60ms", 100000, 10000000000, "100us to 10s", \
      "How long a RoCE or InfiniBand device of the verbs wire waits for an acknowledgement before it sends again; it takes the next power of two of 4.096 us.") \
    X(UINT, verbs_credits, "16", 4, 1024, "4 to 1024", \
      "Frames that a peer may have in flight to this process through the verbs wire; each has a registered buffer.") \
    X(CHOICE, verbs_move, "read", 0, 0, "read|write", \
      "How the verbs wire's devices move large messages to this process: its own reads the sender's memory, or the sender's writes its memory (iWARP, or devices with a shared receive queue in use; with others the messages then come in frames).") \
    X(UINT, verbs_peers, "256", 1, 65536, "1 to 65536", \
      "Peers that may be connected through the verbs wire at once; for a further one the least recently used connection is closed.") \
    X(BOOL, verbs_read, "yes", 0, 0, "yes or no", \
      "Whether the verbs wire's devices move large messages by themselves. no: they are copied into frames, as without a device.") \
    X(SIZE, verbs_read_bytes, "1m", 4096, 1073741824, "4k to 1g", \
      "Bytes of a large message that a device reads or writes at a time.") \
    X(UINT, verbs_reads, "4", 1, 16, "1 to 16", \
      "Such reads or writes under way with one peer; less if the device allows less.") \
    X(BOOL, verbs_srq, "yes", 0, 0, "yes or no", \
      "Whether the verbs wire's connections share a receive queue where the device has such.") \
    X(STRING, udp_ports, "0", 0, 0, "0, a port, or a range such as 20000-20999", \
      "Local ports of the udp wire. 0: any free one. A range suits firewalls.") \
    X(UINT, busy_poll, "0", 0, 1024, "0 (off) to 1024", \
      "Packets that the kernel takes from a network card when the udp or xdp wire finds none that has arrived (busy polling). It saves the interrupt and costs time in each poll. CAP_NET_ADMIN permits it, on older kernels otherwise net.core.busy_read. docs/tuning.md says when it pays.") \
    X(SIZE, mtu, "0", 0, 65535, "0, or 576 to 65535", \
      "Upper limit of the frame length on every interface; 0: the interface's MTU.") \
    X(SIZE, eager_max, "128k", 0, 1048576, "0 to 1m", \
      "Longest message sent eagerly; longer ones are pulled by the receiver (rendezvous). Messages above 32k are also pulled while frames to that peer get lost, and contiguous ones above 88k, where TSO packets are used, if not all of the message can leave at once, or if several cards carry data to that peer. Between processes of one node read_min decides instead, where it applies.") \
    X(SIZE, read_min, "129k", 1, 1073741824, "1 to 1g", \
      "Messages of so many bytes and more between processes of one node are read by the receiver directly from the sender's memory; shorter ones are sent eagerly, copied through shared memory.") \
    X(UINT, window, "128", 8, 1024, "8 to 1024", \
      "Frames a sender may have unacknowledged to one peer.") \
    X(UINT, pull_frames, "64", 1, 64, "1 to 64", \
      "Frames in one pulled block of a large message; fewer if a quarter of pull_window or a GSO packet is less.") \
    X(SIZE, pull_window, "1m", 4096, 1073741824, "4k to 1g", \
      "Most bytes of large messages that an endpoint has requested and not yet received, over all peers; fewer while frames get lost, up to four times as many from a single sender whose responses take long and lose nothing.") \
    X(CHOICE, rails, "auto", 0, 0, "auto|1|2|3|4", \
      "How many network cards carry the data of large messages to one peer at the same time, at most. auto: all over which the peer is reached, up to four; 1: one, as for all other messages.") \
    X(SIZE, unexpected_max, "64m", 65536, 1099511627776, "64k to 1t", \
      "Memory for eager messages whose receive is not posted yet. Beyond it senders must use rendezvous.") \
    X(SIZE, unexpected_peer, "64k", 0, 1073741824, "0 to 1g", \
      "First share of unexpected_max that a peer may use; it doubles on demand while there is room.") \
    X(UINT, ack_every, "32", 1, 512, "1 to 512", \
      "Frames acknowledged by one acknowledgement at the latest; an eighth of it at first, and while frames get lost.") \
    X(TIME, ack_delay, "100us", 0, 1000000000, "0 to 1s", \
      "How long an acknowledgement waits for another frame that can carry it.") \
    X(TIME, rto_min, "2ms", 1000, 10000000000, "1us to 10s", \
      "Shortest time without acknowledgement before a frame is sent again.") \
    X(TIME, rto_max, "500ms", 1000000, 60000000000, "1ms to 60s", \
      "Longest time between two tries of a frame.") \
    X(TIME, peer_timeout, "30s", 100000000, 86400000000000, "100ms to 1 day", \
      "A peer that does not answer for so long is declared dead and its requests fail.") \
    X(TIME, connect_timeout, "4s", 10000000, 3600000000000, "10ms to 1h", \
      "How long each wire is tried when a peer is first reached, in turn until peer_timeout has passed.") \
    X(TIME, linger, "2s", 0, 3600000000000, "0 to 1h", \
      "How long closing an endpoint waits for frames not yet acknowledged.") \
    X(TIME, heartbeat, "500ms", 0, 60000000000, "0 (off) to 60s", \
      "How often a helper thread checks whether the program computes without calling MPI, and then answers peers.") \
    X(CHOICE, wait, "auto", 0, 0, "spin|yield|sleep|auto", \
      "What a rank does while it waits: spin polls; yield lets others on its core run, and sleeps for 50 us now and then in a long wait; sleep sleeps until a frame arrives; auto detects whether others want its core: if not it spins, otherwise it yields and then sleeps, or only sleeps if they never wait. In a virtual machine auto also sleeps in waits of more than 50 us for a large message: the host may need the core to carry its frames. With more ranks than cores, auto and sleep also sleep in MPI_Init and MPI_Finalize, up to 4 ms at a time: the cores are for the ranks that still start or end.") \
    X(CHOICE, progress, "caller", 0, 0, "caller|thread", \
      "What moves messages while the program computes: caller: nothing, except the helper thread of heartbeat; thread: a thread that wakes up when a frame arrives. It pays if a core is free for it.") \
    X(CHOICE, checksum, "header", 0, 0, "off|header|full", \
      "What the CRC-32C of each frame covers: nothing, the headers, or headers and data. Frames in shared memory have none; those that RDMA devices carry, which check them themselves, only with full.") \
    X(BOOL, auth, "no", 0, 0, "on or off", \
      "Whether frames between hosts carry a keyed tag, by which forged, altered and replayed ones are dropped. The same in all processes of a job. docs/security.md says what it stops.") \
    X(BOOL, ecn, "yes", 0, 0, "on or off", \
      "Whether frames that travel in IP packets (the udp wire's, those of the packet wire in UDP, and GSO packets) may be marked by switches and routers whose queues grow, instead of being dropped (ECN). off: for networks that drop packets that may be marked, or mark all.") \
    X(TOS, tos, "0", 0, 255, "0 to 252 in steps of 4, or a DSCP: cs0 to cs7, af11 to af43, ef, va, le", \
      "Type of service (traffic class) of frames that travel in IP packets: the udp and verbs wires', those of the packet wire in UDP, and GSO packets. A number is the whole byte, so a DSCP times 4; its two lowest bits are set by ecn.") \
    X(UINT, so_priority, "0", 0, 15, "0 to 15; above 6 needs CAP_NET_ADMIN", \
      "Priority (SO_PRIORITY) of the frames of the packet and udp wires, by which queueing disciplines and VLAN devices sort them. 0: the kernel's choice, which may follow tos.") \
    X(SIZE, ring, "4m", 65536, 1073741824, "64k to 1g", \
      "Receive ring (packet wire) or socket buffer (udp wire) of each process. The ranks of a host share the ring: each has its part, but room for at least 640 frames.") \
    X(SIZE, gso_buffer, "4m", 65536, 1073741824, "64k to 1g", \
      "Ring, and socket buffer, of the packet and xdp wires, each its own, for received GSO packets, the 64 KB packets in which large messages travel. The ranks of a host share both: each has its part, but at least 1m. Without CAP_NET_ADMIN the system limits the socket buffer (net.core.rmem_max).") \
    X(CHOICE, gso, "auto", 0, 0, "auto|packet|udp|off", \
      "Which GSO packets the packet and xdp wires use: of UDP through packet sockets (need Linux 6.2) or through UDP sockets (any kernel). auto: the first of these that works, and TSO packets, which have the form of TCP segments (fastest, any kernel, IPv4), for large messages. off: large messages travel frame by frame.") \
    X(CHOICE, packet_frames, "auto", 0, 0, "auto|ethertype|udp", \
      "Format of the packet wire's single frames: of its own EtherType, or in UDP packets, which network cards and bonds spread over queues and links, and which switches may mark (ECN). auto: in UDP through a network card with several receive queues, and through a bond that selects links by a hash. Peers that do not accept frames in UDP get frames of the EtherType. ethertype: frames in UDP are not accepted.") \
    X(BOOL, fanout, "yes", 0, 0, "yes or no", \
      "Whether the ranks of a job on one node let the kernel find the one socket that a frame of the packet wire is for (a fanout group), instead of asking each rank's.") \
    X(BOOL, qdisc_bypass, "yes", 0, 0, "yes or no", \
      "Whether the packet wire bypasses the interface's queueing discipline (faster, but not subject to traffic shaping). GSO packets never do.") \
    X(CHOICE, reg_cache, "auto", 0, 0, "auto|uffd|host|off", \
      "Whether memory that was registered with a device stays registered after its message, and what reports that it is unmapped: the kernel (uffd), the MPI library's hooks (host), or the first of these that works (auto). off: nothing is kept.") \
    X(SIZE, reg_max, "1g", 65536, 1099511627776, "64k to 1t", \
      "Most memory registered with a device at once; less where RLIMIT_MEMLOCK says so.") \
    X(SIZE, reg_min, "0", 0, 1099511627776, "0 (measured) to 1t", \
      "Messages of so many bytes and more are registered where they lie; shorter ones are copied into memory that is always registered. 0: the size from which registering is cheaper, measured once on each host; messages up to eager_max, which need no rendezvous if they are copied, are registered only if that is worth the measured round trips to the peer.") \
    X(STRING, reg_file, "", 0, 0, "a path, none, or empty", \
      "Where the measured costs are kept for later jobs. Empty: a file for each host and device under ~/.cache/ethmx. none: measured each time.") \
    X(BOOL, reg_overlap, "yes", 0, 0, "yes or no", \
      "Whether the sender of a large message announces it before it registers its memory, so that both happen at the same time. no: it registers first.") \
    X(CHOICE, reg_fault_in, "auto", 0, 0, "auto|yes|no", \
      "Whether absent pages are faulted in before they are registered. auto: if that was measured to be cheaper.") \
    X(UINT, reg_entries, "1024", 1, 65536, "1 to 65536", \
      "Most registrations that are kept.") \
    X(SIZE, reg_piece, "4m", 4096, 1073741824, "4k to 1g", \
      "Longer buffers are registered in parts of so many bytes (a power of 2), while the earlier parts are in flight.") \
    X(BOOL, stats, "yes", 0, 0, "on or off", \
      "Whether the counters of this process are kept where ethmx_top can read them: in a page of shared memory without a name, for processes of the same user and root.") \
    X(CHOICE, log, "warn", 0, 0, "error|warn|info|debug|trace", \
      "What goes to stderr. info tells which wire each peer got.")
/* clang-format on */

#define EMX_CTYPE_BOOL(n)                                   bool n;
#define EMX_CTYPE_UINT(n)                                   uint64_t n;
#define EMX_CTYPE_SIZE(n)                                   uint64_t n;
#define EMX_CTYPE_TIME(n)                                   uint64_t n;
#define EMX_CTYPE_STRING(n)                                 char n[EMX_STRING_MAX];
#define EMX_CTYPE_CHOICE(n)                                 uint64_t n;
#define EMX_CTYPE_TOS(n)                                    uint64_t n;
#define EMX_FIELD(type, name, deflt, min, max, range, help) EMX_CTYPE_##type(p_##name)
#define EMX_INDEX(type, name, deflt, min, max, range, help) EMX_P_##name,

enum emx_param { EMX_PARAMS(EMX_INDEX) EMX_P_COUNT };

struct ethmx_config {
    EMX_PARAMS(EMX_FIELD)            /* p_window, p_eager_max, ... */
    const char *source[EMX_P_COUNT]; /* who set it */
};
#define emx_config ethmx_config /* the rooms below the api say struct emx_config */

/* Fills cfg with the defaults. Never fails (a unit test parses every default). */
void emx_config_defaults(struct emx_config *cfg);

/* Sets parameter i from text. On ETHMX_ERR_PARAM writes a sentence (value, parameter, legal range) to err. */
int emx_config_parse(struct emx_config *cfg, unsigned i, const char *text, const char *source, char *err,
                     size_t err_len_bytes);

/* Index of a parameter by its lower-case name, or -1. */
int emx_config_find(const char *name);

/* Reads every ETHMX_<NAME> of environ (an array as environ(7)). Unknown ETHMX_ names: warn(arg, sentence), which
 * names the nearest known one. First malformed value: ETHMX_ERR_PARAM and its sentence in err. */
int emx_config_environ(struct emx_config *cfg, char *const *environ, void (*warn)(void *arg, const char *sentence),
                       void *arg, char *err, size_t err_len_bytes);

/* Writes parameter i as a user would ("32k", "100us", "header"). */
void emx_config_format(const struct emx_config *cfg, unsigned i, char *text, size_t text_len_bytes);

#endif
