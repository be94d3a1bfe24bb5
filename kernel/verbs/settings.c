// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Settings: module parameters as defaults of later devices, and files under
 * /sys/class/infiniband/<device>/settings for each device. Both come from the
 * one table below; Documentation/administration.md says what they mean.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "verbs/ops.h"

enum kw_setting_kind {
	KW_SETTING_NUMBER,	/* from min to max, or 0 where that means "none" */
	KW_SETTING_SWITCH,	/* 0 or 1, in any spelling of kstrtobool() */
	KW_SETTING_SET,		/* one or more names; a bit mask */
	KW_SETTING_MAP,		/* pairs of ports; KW_PORT_MAPS words */
};

/**
 * struct kw_setting - a setting
 * @attr: its file
 * @off: offset in struct kw_settings, of a u32 or several
 * @kind: enum kw_setting_kind
 * @zero: a number may also be 0
 * @min: smallest other number
 * @max: largest number
 * @names: a set's names by bit; NULL where a bit has none
 * @nr_names: entries of @names
 */
struct kw_setting {
	struct device_attribute attr;
	size_t off;
	u8 kind;
	bool zero;
	u32 min;
	u32 max;
	const char *const *names;
	u32 nr_names;
};

static struct kw_settings kw_defaults = {
	.mpa_rev = 2,
	.mpa_rev_accept = BIT(1) | BIT(2),
	.crc = 1,
	.p2p = 1,
	.rtr = BIT(KW_RTR_WRITE) | BIT(KW_RTR_READ),
	.ird_max = KW_MAX_QP_RD_ATOM,
	.ord_max = KW_MAX_QP_RD_ATOM,
	.stream.ack_segments = 4,
	.connect_timeout_ms = 20000,
	.start_timeout_ms = 10000,
	.reply_timeout_ms = 60000,
	.offer_timeout_ms = 60000,
	.stream.first_fpdu_timeout_ms = 200,
	.stream.linger_timeout_ms = 60000,
	.keepalive_idle_s = 7200,
	.keepalive_interval_s = 75,
	.keepalive_probes = 9,
};

/* A setting of several words must not be read half changed. */
static DEFINE_SPINLOCK(kw_settings_lock);

static u32 kw_setting_words(const struct kw_setting *st)
{
	return st->kind == KW_SETTING_MAP ? KW_PORT_MAPS : 1;
}

static u32 *kw_setting_at(const struct kw_setting *st, struct kw_settings *s)
{
	return (void *)s + st->off;
}

static int kw_setting_bit(const struct kw_setting *st, const char *name)
{
	u32 bit;

	for (bit = 0; bit < st->nr_names; bit++)
		if (st->names[bit] && !strcmp(st->names[bit], name))
			return bit;
	return -EINVAL;
}

static int kw_setting_parse_set(const struct kw_setting *st, const char *text,
				u32 *val)
{
	char *copy, *rest, *name;
	int bit = -EINVAL;	/* an empty set is not valid */

	copy = kstrdup(text, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	*val = 0;
	rest = copy;
	while ((name = strsep(&rest, " ,\n"))) {
		if (!*name)
			continue;
		bit = kw_setting_bit(st, name);
		if (bit < 0)
			break;
		*val |= BIT(bit);
	}
	kfree(copy);
	return min(bit, 0);
}

/* Parse a pair. Neither of its ports may be in one of the @nr before it. */
static int kw_setting_parse_pair(char *text, u32 *map, u32 nr)
{
	char *second = text;
	u16 port, wire;
	u32 i;

	strsep(&second, ":");
	if (nr == KW_PORT_MAPS || !second || kstrtou16(text, 10, &port) ||
	    kstrtou16(second, 10, &wire) || !port || !wire)
		return -EINVAL;
	for (i = 0; i < nr; i++)
		if (KW_PORT_MAP_PORT(map[i]) == port ||
		    KW_PORT_MAP_WIRE(map[i]) == wire)
			return -EINVAL;
	map[nr] = KW_PORT_MAP(port, wire);
	return 0;
}

static int kw_setting_parse_map(const char *text, u32 *map)
{
	char *copy, *rest, *pair;
	int ret = -EINVAL;	/* an empty map is not valid */
	u32 nr = 0;

	if (sysfs_streq(text, "none"))
		return 0;
	copy = kstrdup(text, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	rest = copy;
	while ((pair = strsep(&rest, " ,\n"))) {
		if (!*pair)
			continue;
		ret = kw_setting_parse_pair(pair, map, nr++);
		if (ret)
			break;
	}
	kfree(copy);
	return ret;
}

static int kw_setting_parse_number(const struct kw_setting *st,
				   const char *text, u32 *val)
{
	if (kstrtou32(text, 0, val))
		return -EINVAL;
	if (st->zero && !*val)
		return 0;
	return *val < st->min || *val > st->max ? -EINVAL : 0;
}

static int kw_setting_parse(const struct kw_setting *st, const char *text,
			    u32 *val)
{
	bool on = false;
	int ret;

	switch (st->kind) {
	case KW_SETTING_SET:
		return kw_setting_parse_set(st, text, val);
	case KW_SETTING_MAP:
		return kw_setting_parse_map(text, val);
	case KW_SETTING_SWITCH:
		ret = kstrtobool(text, &on);
		*val = on;
		return ret;
	default:
		return kw_setting_parse_number(st, text, val);
	}
}

static int kw_setting_print_set(const struct kw_setting *st, u32 val, char *buf,
				size_t room)
{
	int at = 0;
	u32 bit;

	for (bit = 0; bit < st->nr_names; bit++)
		if (val & BIT(bit) && st->names[bit])
			at += scnprintf(buf + at, room - at, "%s%s",
					at ? " " : "", st->names[bit]);
	return at;
}

static int kw_setting_print_map(const u32 *map, char *buf, size_t room)
{
	int at = 0;
	u32 i;

	if (!map[0])
		return scnprintf(buf, room, "none");
	for (i = 0; i < KW_PORT_MAPS && map[i]; i++)
		at += scnprintf(buf + at, room - at, "%s%u:%u", i ? " " : "",
				KW_PORT_MAP_PORT(map[i]),
				KW_PORT_MAP_WIRE(map[i]));
	return at;
}

static int kw_setting_print(const struct kw_setting *st, const u32 *val,
			    char *buf, size_t room)
{
	switch (st->kind) {
	case KW_SETTING_SET:
		return kw_setting_print_set(st, *val, buf, room);
	case KW_SETTING_MAP:
		return kw_setting_print_map(val, buf, room);
	default:
		return scnprintf(buf, room, "%u", *val);
	}
}

static void kw_setting_complain(const struct kw_setting *st, const char *where,
				const char *text)
{
	int len = min_t(size_t, strcspn(text, "\n"), 40);
	char want[96];
	int at;

	switch (st->kind) {
	case KW_SETTING_SET:
		at = scnprintf(want, sizeof(want), "one or more of ");
		kw_setting_print_set(st, ~0U, want + at, sizeof(want) - at);
		break;
	case KW_SETTING_MAP:
		scnprintf(want, sizeof(want),
			  "none, or up to %u different pairs of ports like 3260:13260",
			  KW_PORT_MAPS);
		break;
	case KW_SETTING_SWITCH:
		strscpy(want, "0 or 1");
		break;
	default:
		scnprintf(want, sizeof(want), "%s%u to %u",
			  st->zero ? "0, or " : "", st->min, st->max);
	}
	pr_warn_ratelimited("%s: %s: \"%.*s\" is not %s\n", where,
			    st->attr.attr.name, len, text, want);
}

static int kw_setting_store(const struct kw_setting *st, const char *where,
			    const char *text, struct kw_settings *s)
{
	u32 val[KW_PORT_MAPS] = {};
	int ret = kw_setting_parse(st, text, val);

	if (ret == -EINVAL)
		kw_setting_complain(st, where, text);
	if (ret)
		return ret;
	spin_lock(&kw_settings_lock);
	memcpy(kw_setting_at(st, s), val, kw_setting_words(st) * sizeof(*val));
	spin_unlock(&kw_settings_lock);
	return 0;
}

static void kw_settings_copy(struct kw_settings *to,
			     const struct kw_settings *from)
{
	spin_lock(&kw_settings_lock);
	*to = *from;
	spin_unlock(&kw_settings_lock);
}

static int kw_setting_show(const struct kw_setting *st, struct kw_settings *s,
			   char *buf)
{
	struct kw_settings now;
	int at;

	kw_settings_copy(&now, s);
	at = kw_setting_print(st, kw_setting_at(st, &now), buf, PAGE_SIZE - 1);
	return at + scnprintf(buf + at, PAGE_SIZE - at, "\n");
}

static int kw_param_set(const char *val, const struct kernel_param *kp)
{
	return kw_setting_store(kp->arg, "module parameter", val, &kw_defaults);
}

static int kw_param_get(char *buf, const struct kernel_param *kp)
{
	return kw_setting_show(kp->arg, &kw_defaults, buf);
}

static const struct kernel_param_ops kw_param_ops = {
	.set = kw_param_set,
	.get = kw_param_get,
};

static struct kw_device *kw_sysfs_dev(struct device *d)
{
	return rdma_device_to_drv_device(d, struct kw_device, ib);
}

static ssize_t kw_file_show(struct device *d, struct device_attribute *attr,
			    char *buf)
{
	return kw_setting_show(container_of(attr, struct kw_setting, attr),
			       &kw_sysfs_dev(d)->settings, buf);
}

static ssize_t kw_file_store(struct device *d, struct device_attribute *attr,
			     const char *buf, size_t n)
{
	struct kw_device *dev = kw_sysfs_dev(d);
	int ret;

	ret = kw_setting_store(container_of(attr, struct kw_setting, attr),
			       dev_name(d), buf, &dev->settings);
	return ret ? ret : n;
}

/* The table: the file, module parameter and range of each setting. */
#define KW_SETTING_AT(_name, _member, ...)				\
	static struct kw_setting kw_set_##_name = {			\
		.attr = {						\
			.attr = { .name = __stringify(_name), .mode = 0644 }, \
			.show = kw_file_show,				\
			.store = kw_file_store,				\
		},							\
		.off = offsetof(struct kw_settings, _member),		\
		__VA_ARGS__						\
	}

#define KW_SETTING(_name, ...)						\
	KW_SETTING_AT(_name, _name, __VA_ARGS__)
#define KW_SWITCH(_name)						\
	KW_SETTING(_name, .kind = KW_SETTING_SWITCH)
#define KW_NUMBER(_name, _min, _max)					\
	KW_SETTING(_name, .min = _min, .max = _max)
#define KW_NUMBER_OR_0(_name, _min, _max)				\
	KW_SETTING(_name, .zero = true, .min = _min, .max = _max)
#define KW_STREAM_NUMBER(_name, _min, _max)				\
	KW_SETTING_AT(_name, stream._name, .zero = true, .min = _min,	\
		      .max = _max)

static const char *const kw_rev_names[] = { "0", "1", "2" };

static const char *const kw_rtr_names[] = {
	[KW_RTR_SEND] = "send",
	[KW_RTR_WRITE] = "write",
	[KW_RTR_READ] = "read",
};

KW_NUMBER(mpa_rev, 0, 2);
module_param_cb(mpa_rev, &kw_param_ops, &kw_set_mpa_rev, 0644);
MODULE_PARM_DESC(mpa_rev, "MPA revision asked for first: 2, 1 or 0 [2]");

KW_SETTING(mpa_rev_accept, .kind = KW_SETTING_SET, .names = kw_rev_names,
	   .nr_names = ARRAY_SIZE(kw_rev_names));
module_param_cb(mpa_rev_accept, &kw_param_ops, &kw_set_mpa_rev_accept, 0644);
MODULE_PARM_DESC(mpa_rev_accept,
		 "MPA revisions to serve and to fall back to [1 2]");

KW_SWITCH(crc);
module_param_cb(crc, &kw_param_ops, &kw_set_crc, 0644);
MODULE_PARM_DESC(crc, "Ask for CRC32C [1]");

KW_SWITCH(markers);
module_param_cb(markers, &kw_param_ops, &kw_set_markers, 0644);
MODULE_PARM_DESC(markers, "Ask for markers in what the peer sends [0]");

KW_SWITCH(large_fpdu);
module_param_cb(large_fpdu, &kw_param_ops, &kw_set_large_fpdu, 0644);
MODULE_PARM_DESC(large_fpdu,
		 "Agree to FPDUs larger than a TCP segment, as siw does [0]");

KW_SWITCH(p2p);
module_param_cb(p2p, &kw_param_ops, &kw_set_p2p, 0644);
MODULE_PARM_DESC(p2p, "Offer the peer-to-peer model when connecting [1]");

KW_SETTING(rtr, .kind = KW_SETTING_SET, .names = kw_rtr_names,
	   .nr_names = ARRAY_SIZE(kw_rtr_names));
module_param_cb(rtr, &kw_param_ops, &kw_set_rtr, 0644);
MODULE_PARM_DESC(rtr,
		 "Ready-to-receive messages to offer and to choose from [write read]");

KW_NUMBER(ird_max, 0, KW_MAX_QP_RD_ATOM);
module_param_cb(ird_max, &kw_param_ops, &kw_set_ird_max, 0644);
MODULE_PARM_DESC(ird_max,
		 "Most inbound RDMA Reads of a connection [128]");

KW_NUMBER(ord_max, 0, KW_MAX_QP_RD_ATOM);
module_param_cb(ord_max, &kw_param_ops, &kw_set_ord_max, 0644);
MODULE_PARM_DESC(ord_max,
		 "Most outbound RDMA Reads of a connection [128]");

KW_STREAM_NUMBER(fpdu_max, KW_FPDU_LIMIT_MIN, KW_FPDU_LIMIT_MAX);
module_param_cb(fpdu_max, &kw_param_ops, &kw_set_fpdu_max, 0644);
MODULE_PARM_DESC(fpdu_max,
		 "Longest FPDU to send, in bytes; 0: as long as a TCP segment [0]");

KW_STREAM_NUMBER(zcopy_min, KW_ZCOPY_LIMIT_MIN, KW_MAX_MSG_SIZE);
module_param_cb(zcopy_min, &kw_param_ops, &kw_set_zcopy_min, 0644);
MODULE_PARM_DESC(zcopy_min,
		 "Send messages of so many bytes and more without a copy; 0: none [0]");

KW_STREAM_NUMBER(ack_segments, 2, 16);
module_param_cb(ack_segments, &kw_param_ops, &kw_set_ack_segments, 0644);
MODULE_PARM_DESC(ack_segments,
		 "Messages of so many TCP segments are acknowledged with the answer; 0: as TCP does it [4]");

KW_NUMBER(connect_timeout_ms, 100, 600000);
module_param_cb(connect_timeout_ms, &kw_param_ops, &kw_set_connect_timeout_ms, 0644);
MODULE_PARM_DESC(connect_timeout_ms,
		 "Bound on TCP's part of connecting in milliseconds [20000]");

KW_NUMBER(start_timeout_ms, 100, 600000);
module_param_cb(start_timeout_ms, &kw_param_ops, &kw_set_start_timeout_ms, 0644);
MODULE_PARM_DESC(start_timeout_ms,
		 "Bound on each wait for an MPA frame but the reply in milliseconds [10000]");

KW_NUMBER(reply_timeout_ms, 100, 600000);
module_param_cb(reply_timeout_ms, &kw_param_ops, &kw_set_reply_timeout_ms, 0644);
MODULE_PARM_DESC(reply_timeout_ms,
		 "Time for the peer's consumer to accept or reject in milliseconds [60000]");

KW_NUMBER(offer_timeout_ms, 100, 600000);
module_param_cb(offer_timeout_ms, &kw_param_ops, &kw_set_offer_timeout_ms, 0644);
MODULE_PARM_DESC(offer_timeout_ms,
		 "Time for a consumer to accept or reject in milliseconds [60000]");

KW_STREAM_NUMBER(first_fpdu_timeout_ms, 1, 60000);
module_param_cb(first_fpdu_timeout_ms, &kw_param_ops, &kw_set_first_fpdu_timeout_ms, 0644);
MODULE_PARM_DESC(first_fpdu_timeout_ms,
		 "Time after which a responder may send first in milliseconds; 0: never [200]");

KW_STREAM_NUMBER(linger_timeout_ms, 100, 600000);
module_param_cb(linger_timeout_ms, &kw_param_ops, &kw_set_linger_timeout_ms, 0644);
MODULE_PARM_DESC(linger_timeout_ms,
		 "Time for what has completed to be sent behind an abort in milliseconds; 0: none [60000]");

KW_SETTING_AT(immediate, stream.immediate, .kind = KW_SETTING_SWITCH);
module_param_cb(immediate, &kw_param_ops, &kw_set_immediate, 0644);
MODULE_PARM_DESC(immediate,
		 "Send and serve Immediate Data (RFC 7306), which the peers have, too [0]");

KW_SETTING_AT(atomics, stream.atomics, .kind = KW_SETTING_SWITCH);
module_param_cb(atomics, &kw_param_ops, &kw_set_atomics, 0644);
MODULE_PARM_DESC(atomics,
		 "Send and serve atomic operations (RFC 7306), which the peers have, too [0]");

KW_NUMBER_OR_0(keepalive_idle_s, 1, 32767);
module_param_cb(keepalive_idle_s, &kw_param_ops, &kw_set_keepalive_idle_s, 0644);
MODULE_PARM_DESC(keepalive_idle_s,
		 "Idle seconds before TCP asks whether the peer is there; 0: never [7200]");

KW_NUMBER(keepalive_interval_s, 1, 32767);
module_param_cb(keepalive_interval_s, &kw_param_ops, &kw_set_keepalive_interval_s, 0644);
MODULE_PARM_DESC(keepalive_interval_s,
		 "Seconds from one such question to the next [75]");

KW_NUMBER(keepalive_probes, 1, 127);
module_param_cb(keepalive_probes, &kw_param_ops, &kw_set_keepalive_probes, 0644);
MODULE_PARM_DESC(keepalive_probes,
		 "Such questions without an answer that end a connection [9]");

KW_NUMBER_OR_0(user_timeout_ms, 100, 86400000);
module_param_cb(user_timeout_ms, &kw_param_ops, &kw_set_user_timeout_ms, 0644);
MODULE_PARM_DESC(user_timeout_ms,
		 "Time without an acknowledgment that ends a connection in milliseconds; 0: the system's [0]");

KW_SETTING(port_map, .kind = KW_SETTING_MAP);
module_param_cb(port_map, &kw_param_ops, &kw_set_port_map, 0644);
MODULE_PARM_DESC(port_map,
		 "Pairs of ports, consumer's:wire's, such as 3260:13260 [none]");

static struct attribute *kw_settings_attrs[] = {
	&kw_set_mpa_rev.attr.attr,
	&kw_set_mpa_rev_accept.attr.attr,
	&kw_set_crc.attr.attr,
	&kw_set_markers.attr.attr,
	&kw_set_large_fpdu.attr.attr,
	&kw_set_p2p.attr.attr,
	&kw_set_rtr.attr.attr,
	&kw_set_ird_max.attr.attr,
	&kw_set_ord_max.attr.attr,
	&kw_set_fpdu_max.attr.attr,
	&kw_set_zcopy_min.attr.attr,
	&kw_set_ack_segments.attr.attr,
	&kw_set_connect_timeout_ms.attr.attr,
	&kw_set_start_timeout_ms.attr.attr,
	&kw_set_reply_timeout_ms.attr.attr,
	&kw_set_offer_timeout_ms.attr.attr,
	&kw_set_first_fpdu_timeout_ms.attr.attr,
	&kw_set_linger_timeout_ms.attr.attr,
	&kw_set_immediate.attr.attr,
	&kw_set_atomics.attr.attr,
	&kw_set_keepalive_idle_s.attr.attr,
	&kw_set_keepalive_interval_s.attr.attr,
	&kw_set_keepalive_probes.attr.attr,
	&kw_set_user_timeout_ms.attr.attr,
	&kw_set_port_map.attr.attr,
	NULL
};

const struct attribute_group kw_settings_group = {
	.name = "settings",
	.attrs = kw_settings_attrs,
};

/**
 * kw_settings_init() - take the module's parameters as a device's settings
 * @s: result
 *
 * Context: process.
 */
void kw_settings_init(struct kw_settings *s)
{
	kw_settings_copy(s, &kw_defaults);
}

/**
 * kw_settings_get() - read a device's settings
 * @dev: the device
 * @s: result
 *
 * Context: process.
 */
void kw_settings_get(struct kw_device *dev, struct kw_settings *s)
{
	kw_settings_copy(s, &dev->settings);
}

/**
 * kw_settings_wire_port() - map a consumer's port to the TCP port on the wire
 * @s: settings
 * @port: as the consumer names it
 *
 * Context: any.
 * Return: the port that the setting port_map has for it, or @port itself.
 */
__be16 kw_settings_wire_port(const struct kw_settings *s, __be16 port)
{
	u32 i;

	for (i = 0; i < KW_PORT_MAPS && s->port_map[i]; i++)
		if (KW_PORT_MAP_PORT(s->port_map[i]) == ntohs(port))
			return htons(KW_PORT_MAP_WIRE(s->port_map[i]));
	return port;
}
