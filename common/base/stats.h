/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Counters: the table of all counters. They are always on. Each costs one increment, under the endpoint's lock. X(name,
 * unit, level, help). level 1: a current value, not a sum. Each reason to drop a frame has a counter named drop_*; enum
 * emx_drop in core/format/frame.h has the same names.
 */
#ifndef EMX_BASE_STATS_H
#define EMX_BASE_STATS_H

#include <stdint.h>

/* clang-format off */
#define EMX_COUNTERS(X) \
    X(msgs_sent, "messages", 0, "Messages given to send, of all classes.") \
    X(msgs_received, "messages", 0, "Receives completed.") \
    X(bytes_sent, "bytes", 0, "Data bytes of messages given to send.") \
    X(bytes_received, "bytes", 0, "Data bytes of receives completed.") \
    X(sent_small, "messages", 0, "Sent in one frame.") \
    X(senders_away, "messages", 0, "Large messages whose sender was silent for so long that their requests no longer count towards pull_window.") \
    X(rails_found, "times", 0, "Rails of peers that were found to carry data of large messages, beside the way of all other frames.") \
    X(rails_failed, "times", 0, "Rails set aside, because data did not arrive over them while that of others did.") \
    X(bytes_railed, "bytes", 0, "Of bytes_received, those of large messages that arrived over rails other than the first.") \
    X(timeouts_undone, "times", 0, "Frames that counted as lost after a time-out, and had arrived.") \
    X(sent_coalesced, "messages", 0, "Of sent_small, those in a frame with several messages.") \
    X(frames_coalesced, "frames", 0, "Frames made for several small messages.") \
    X(sent_medium, "messages", 0, "Sent eagerly in several frames.") \
    X(sent_large, "messages", 0, "Sent by rendezvous.") \
    X(sent_pushed, "messages", 0, "Of sent_large, those whose first data left with the announcement, before a receiver had asked for it.") \
    X(sent_held, "messages", 0, "Sent by rendezvous although short, because the peer's unexpected memory was used up.") \
    X(am_sent, "messages", 0, "Active messages sent.") \
    X(am_received, "messages", 0, "Active messages handed to handlers.") \
    X(match_posted, "messages", 0, "Arrived after their receive was posted.") \
    X(match_unexpected, "messages", 0, "Arrived before their receive was posted.") \
    X(posted_now, "requests", 1, "Receives waiting for a message.") \
    X(unexpected_now, "messages", 1, "Messages waiting for a receive.") \
    X(unexpected_bytes, "bytes", 1, "Memory held by unexpected eager messages.") \
    X(unexpected_promised, "bytes", 1, "Unexpected memory promised to peers.") \
    X(credit_recalled, "bytes", 0, "Unexpected memory that idle peers gave back for others.") \
    X(unexpected_peak, "bytes", 1, "Most memory ever held by unexpected eager messages.") \
    X(rma_puts, "operations", 0, "One-sided: puts begun.") \
    X(rma_gets, "operations", 0, "One-sided: gets begun.") \
    X(rma_atomics, "operations", 0, "One-sided: accumulates, fetches, and compare and swaps begun.") \
    X(rma_direct, "operations", 0, "Of the puts, gets and atomics: done in memory of a process of this host that this one has mapped.") \
    X(rma_bytes, "bytes", 0, "Data of one-sided puts and gets begun.") \
    X(rma_served, "operations", 0, "One-sided operations of peers done, or begun if they are long.") \
    X(rma_refused, "operations", 0, "One-sided operations of peers refused: they named no exposed memory, or it was withdrawn.") \
    X(rma_regions, "regions", 1, "Regions of memory exposed to one-sided operations.") \
    X(frames_sent, "frames", 0, "Frames handed to wires.") \
    X(frames_received, "frames", 0, "Frames accepted.") \
    X(frames_resent, "frames", 0, "Frames sent again.") \
    X(frames_held, "frames", 0, "Frames that arrived early and were kept for their turn.") \
    X(resent_gap, "frames", 0, "Sent again early because later ones were acknowledged.") \
    X(resent_timeout, "frames", 0, "Sent again because no acknowledgement came in time.") \
    X(frames_ce, "frames", 0, "Frames that arrived with a mark of congestion (ECN).") \
    X(ce_responses, "times", 0, "Times that the congestion window or the pull limit was reduced because frames had arrived with marks.") \
    X(acks_sent, "frames", 0, "Frames that carried nothing but an acknowledgement.") \
    X(pulls_sent, "frames", 0, "Requests for blocks of large messages.") \
    X(pulls_resent, "frames", 0, "Requests for parts of blocks that did not arrive.") \
    X(pulls_reordered, "times", 0, "Parts of blocks were requested again for a gap, and were only out of order.") \
    X(bytes_copied, "bytes", 0, "Data of pulled messages that was copied once more on receipt, instead of being received into its place.") \
    X(messages_shortened, "messages", 0, "Large messages whose remaining chunks were shortened, because an MTU was lowered.") \
    X(fragments_sent, "frames", 0, "Fragments of frames that had become too long, because an MTU was lowered.") \
    X(bytes_read, "bytes", 0, "Data of large messages read directly from the sender's memory (shm and verbs wires).") \
    X(bytes_read_helped, "bytes", 0, "Of these, written by the sender, which helped (shm wire).") \
    X(bytes_helped, "bytes", 0, "Data of large messages that this process wrote to the receivers' memory to help them (shm wire).") \
    X(bytes_written, "bytes", 0, "Data of large messages that this host's device wrote directly into the receiver's memory (verbs wire).") \
    X(bytes_unread, "bytes", 0, "Data of messages that a device should have moved (verbs wire), but that were pulled in frames, copied twice. Messages that went eagerly because that was cheaper do not count.") \
    X(reads_failed, "times", 0, "Reads of a peer's memory that failed: its large messages come in frames from then on.") \
    X(writes_failed, "times", 0, "Writes into a peer's memory by a device that failed (verbs wire).") \
    X(pings_sent, "frames", 0, "Frames that check whether a silent peer is alive.") \
    X(peers_known, "peers", 1, "Peers known.") \
    X(peers_connected, "peers", 1, "Peers connected.") \
    X(peers_dead, "peers", 0, "Peers declared dead.") \
    X(failovers, "times", 0, "Connections that went on over another wire or card, because the one in use did not reach the peer any more.") \
    X(interfaces_lost, "times", 0, "Interfaces in use that were removed, went down, or lost their carrier or their IP address.") \
    X(gso_packets_sent, "packets", 0, "Many frames handed to the kernel as one IP packet (packet and xdp wires).") \
    X(gso_packets_received, "packets", 0, "IP packets of several frames received (packet and xdp wires).") \
    X(tso_packets_sent, "packets", 0, "Those of gso_packets_sent that were TSO packets, and single frames sent like them.") \
    X(tso_packets_received, "packets", 0, "TSO packets received, with those that the path has cut.") \
    X(reg_made, "registrations", 0, "Parts of the program's memory registered with a device.") \
    X(reg_hits, "times", 0, "Memory was still registered from an earlier message.") \
    X(reg_once, "registrations", 0, "Registrations that were not kept: nothing reports when that memory is unmapped, or recent registrations were not reused.") \
    X(reg_faulted, "registrations", 0, "Registrations whose absent pages were faulted in first, which is cheaper.") \
    X(reg_evicted, "registrations", 0, "Registrations given up to make room for others.") \
    X(reg_invalidated, "registrations", 0, "Registrations given up because the program unmapped, moved or discarded the memory.") \
    X(reg_refused, "times", 0, "Memory could not be registered: too much of it was, or it was of the wrong kind.") \
    X(reg_bytes, "bytes", 1, "Memory registered for messages.") \
    X(reg_bytes_peak, "bytes", 1, "Most memory ever registered for messages at once.") \
    X(verbs_idle_ended, "connections", 0, "Connections that were closed to make room for others (verbs wire, ETHMX_VERBS_PEERS).") \
    X(verbs_ends_unsure, "connections", 0, "Connections that ended without the device's report that all their receives are back in the shared queue: some may be missing (verbs wire).") \
    X(fanout_ranks, "ranks", 1, "Ranks of this node that this endpoint has brought into one fanout group (packet wire): it is the first of them, or 0.") \
    X(wire_full, "times", 0, "A wire had no room and frames had to wait.") \
    X(wire_lost, "frames", 0, "Frames the kernel says it dropped on receipt (ring or socket buffer full).") \
    X(xdp_passed, "frames", 0, "Frames for endpoints of this host's xdp wires that came in on a queue of the card without sockets, and were left to the kernel.") \
    X(wire_tx_errors, "frames", 0, "Frames the kernel refused to send.") \
    X(yields, "times", 0, "A waiting program yielded its core to others.") \
    X(sleeps, "times", 0, "A waiting program slept until a frame arrived, or for a limited time.") \
    X(helper_runs, "times", 0, "The helper thread took over because the program computed without calling MPI.") \
    X(drop_short, "frames", 0, "Dropped: shorter than its headers say.") \
    X(drop_version, "frames", 0, "Dropped: not ethmx, or another protocol version.") \
    X(drop_not_mine, "frames", 0, "Dropped: for another endpoint, or a former one at this address.") \
    X(drop_cookie, "frames", 0, "Dropped: of another job.") \
    X(drop_check, "frames", 0, "Dropped: the checksum does not fit.") \
    X(drop_forged, "frames", 0, "Dropped: altered, or not of this job: the tag does not fit or is missing (ETHMX_AUTH=on).") \
    X(drop_replayed, "frames", 0, "Dropped: its number was seen before or is too old (ETHMX_AUTH=on).") \
    X(drop_type, "frames", 0, "Dropped: unknown frame type.") \
    X(drop_malformed, "frames", 0, "Dropped: fields contradict each other or a limit.") \
    X(drop_no_session, "frames", 0, "Dropped: from an endpoint that is not connected.") \
    X(drop_duplicate, "frames", 0, "Dropped: arrived before.") \
    X(drop_window, "frames", 0, "Dropped: beyond the receive window.") \
    X(drop_stale, "frames", 0, "Dropped: for an operation that has ended, or older than what is known.") \
    X(drop_memory, "frames", 0, "Dropped for want of memory; will be sent again.")
/* clang-format on */

#define EMX_COUNTER_FIELD(name, unit, level, help) uint64_t name;
#define EMX_COUNTER_INDEX(name, unit, level, help) EMX_C_##name,

enum emx_counter { EMX_COUNTERS(EMX_COUNTER_INDEX) EMX_C_COUNT };

/* A struct of uint64_t in table order: readable as an array of EMX_C_COUNT. */
struct emx_stats {
    EMX_COUNTERS(EMX_COUNTER_FIELD)
};

static inline void emx_stats_add(struct emx_stats *s, enum emx_counter i, uint64_t n)
{
    ((uint64_t *)s)[i] += n;
}

#endif
