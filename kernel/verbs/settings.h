/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The administrator's settings of a device, as its files in sysfs say.
 */
#ifndef KW_SETTINGS_H
#define KW_SETTINGS_H

#include "stream/stream.h"

struct kw_device;

/* Limits of an FPDU limit: room for the smallest MULPDU, and the largest. */
#define KW_FPDU_LIMIT_MIN	256
#define KW_FPDU_LIMIT_MAX	65535

/* A shorter message has no payload that could be sent without a copy. */
#define KW_ZCOPY_LIMIT_MIN	512

/* Pairs in the setting port_map, and how one is stored; 0 is none. */
#define KW_PORT_MAPS			8
#define KW_PORT_MAP(_port, _wire)	((u32)(_port) << 16 | (_wire))
#define KW_PORT_MAP_PORT(_map)		((u16)((_map) >> 16))
#define KW_PORT_MAP_WIRE(_map)		((u16)(_map))

/**
 * struct kw_settings - the administrator's settings of a device
 * @mpa_rev: revision asked for first: 2, 1 or 0
 * @mpa_rev_accept: BIT(revision) of those served, and fallen back to
 * @crc: ask for CRC32C
 * @markers: ask for markers in what the peer sends
 * @large_fpdu: announce that FPDUs may be larger than a TCP segment
 * @p2p: offer the peer-to-peer model (RTR) when connecting
 * @rtr: BIT(enum kw_rtr) of the RTR kinds offered and chosen from
 * @ird_max: bound on a connection's IRD
 * @ord_max: bound on a connection's ORD
 * @connect_timeout_ms: bound on TCP's handshake
 * @start_timeout_ms: bound on each wait for an MPA frame but the reply
 * @reply_timeout_ms: bound on the wait for the reply, which the peer's consumer
 *	gives
 * @offer_timeout_ms: bound on the wait for the consumer's answer to a request
 * @keepalive_idle_s: TCP_KEEPIDLE; 0: no keepalive
 * @keepalive_interval_s: TCP_KEEPINTVL
 * @keepalive_probes: TCP_KEEPCNT
 * @user_timeout_ms: TCP_USER_TIMEOUT; 0: the system's
 * @stream: the data path's settings
 * @port_map: KW_PORT_MAP() of the ports that have another number on the wire
 *
 * A change concerns later connections only. All are u32: settings.c handles
 * them by offset.
 */
struct kw_settings {
	u32 mpa_rev;
	u32 mpa_rev_accept;
	u32 crc;
	u32 markers;
	u32 large_fpdu;
	u32 p2p;
	u32 rtr;
	u32 ird_max;
	u32 ord_max;
	u32 connect_timeout_ms;
	u32 start_timeout_ms;
	u32 reply_timeout_ms;
	u32 offer_timeout_ms;
	u32 keepalive_idle_s;
	u32 keepalive_interval_s;
	u32 keepalive_probes;
	u32 user_timeout_ms;
	struct kw_stream_settings stream;
	u32 port_map[KW_PORT_MAPS];
};

/* settings.c: called by cm/ */
void kw_settings_get(struct kw_device *dev, struct kw_settings *s);
__be16 kw_settings_wire_port(const struct kw_settings *s, __be16 port);

#endif
