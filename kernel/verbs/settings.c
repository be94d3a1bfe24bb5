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

static const char *const kw_rev_names[] = { "0", "1", "2" };

static const char *const kw_rtr_names[] = {
	[KW_RTR_SEND] = "send",
	[KW_RTR_WRITE] = "write",
	[KW_RTR_READ] = "read",
};

#define KW_RANGE(_min, _max)		.min = _min, .max = _max
#define KW_RANGE_OR_0(_min, _max)	.min = _min, .max = _max, .zero = true
#define KW_SWITCH			.kind = KW_SETTING_SWITCH
#define KW_PORTS			.kind = KW_SETTING_MAP
#define KW_NAMES(_names)		.kind = KW_SETTING_SET, .names = _names, \
					.nr_names = ARRAY_SIZE(_names)

/*
 * The table. X(name of the file and of the module parameter, member of struct
 * kw_settings, values, default, description)
 */
#define KW_SETTINGS(X)							\
	X(mpa_rev, mpa_rev, KW_RANGE(0, 2), 2,				\
	  "MPA revision to request first: 2, 1 or 0 [2]")		\
	X(mpa_rev_accept, mpa_rev_accept, KW_NAMES(kw_rev_names),	\
	  BIT(1) | BIT(2),						\
	  "MPA revisions to accept and to fall back to [1 2]")		\
	X(crc, crc, KW_SWITCH, 1,					\
	  "Request CRC32C [1]")						\
	X(markers, markers, KW_SWITCH, 0,				\
	  "Request markers in what the peer sends [0]")			\
	X(large_fpdu, large_fpdu, KW_SWITCH, 0,				\
	  "Agree to FPDUs larger than a TCP segment, as siw does [0]")	\
	X(p2p, p2p, KW_SWITCH, 1,					\
	  "Offer the peer-to-peer model when connecting [1]")		\
	X(rtr, rtr, KW_NAMES(kw_rtr_names),				\
	  BIT(KW_RTR_SEND) | BIT(KW_RTR_WRITE) | BIT(KW_RTR_READ),	\
	  "Ready-to-receive messages to offer and to choose from [send write read]") \
	X(ird_max, ird_max, KW_RANGE(0, KW_MAX_QP_RD_ATOM), KW_MAX_QP_RD_ATOM, \
	  "Maximum inbound RDMA Reads of a connection [128]")		\
	X(ord_max, ord_max, KW_RANGE(0, KW_MAX_QP_RD_ATOM), KW_MAX_QP_RD_ATOM, \
	  "Maximum outbound RDMA Reads of a connection [128]")		\
	X(fpdu_max, stream.fpdu_max,					\
	  KW_RANGE_OR_0(KW_FPDU_LIMIT_MIN, KW_FPDU_LIMIT_MAX), 0,	\
	  "Maximum FPDU size to send, bytes; 0: a TCP segment [0]")	\
	X(zcopy_min, stream.zcopy_min,					\
	  KW_RANGE_OR_0(KW_ZCOPY_LIMIT_MIN, KW_MAX_MSG_SIZE), 0,	\
	  "Minimum message size to send without a copy, bytes; 0: off [0]") \
	X(ack_segments, stream.ack_segments, KW_RANGE_OR_0(2, 16), 4,	\
	  "Maximum TCP segments of a message acknowledged with the reply; 0: off [4]") \
	X(connect_timeout_ms, connect_timeout_ms, KW_RANGE(100, 600000), \
	  20000,							\
	  "Time limit for the TCP connection, milliseconds [20000]")	\
	X(start_timeout_ms, start_timeout_ms, KW_RANGE(100, 600000), 10000, \
	  "Time limit for an MPA frame other than the reply, milliseconds [10000]") \
	X(reply_timeout_ms, reply_timeout_ms, KW_RANGE(100, 600000), 60000, \
	  "Time limit for the peer to accept or reject, milliseconds [60000]") \
	X(offer_timeout_ms, offer_timeout_ms, KW_RANGE(100, 600000), 60000, \
	  "Time limit for the local consumer to accept or reject, milliseconds [60000]") \
	X(first_fpdu_timeout_ms, stream.first_fpdu_timeout_ms,		\
	  KW_RANGE_OR_0(1, 60000), 200,					\
	  "Wait for the first FPDU before a responder sends, milliseconds; 0: no limit [200]") \
	X(linger_timeout_ms, stream.linger_timeout_ms,			\
	  KW_RANGE_OR_0(100, 600000), 60000,				\
	  "Time limit to send completed work after an abort, milliseconds; 0: off [60000]") \
	X(immediate, stream.immediate, KW_SWITCH, 0,			\
	  "Send and accept Immediate Data (RFC 7306); both peers need it [0]") \
	X(atomics, stream.atomics, KW_SWITCH, 0,			\
	  "Send and accept atomic operations (RFC 7306); both peers need it [0]") \
	X(keepalive_idle_s, keepalive_idle_s, KW_RANGE_OR_0(1, 32767), 7200, \
	  "Idle seconds before the first keepalive probe; 0: off [7200]") \
	X(keepalive_interval_s, keepalive_interval_s, KW_RANGE(1, 32767), 75, \
	  "Seconds between keepalive probes [75]")			\
	X(keepalive_probes, keepalive_probes, KW_RANGE(1, 127), 9,	\
	  "Unanswered keepalive probes that end a connection [9]")	\
	X(user_timeout_ms, user_timeout_ms, KW_RANGE_OR_0(100, 86400000), 0, \
	  "Unacknowledged time that ends a connection, milliseconds; 0: the system's [0]") \
	X(port_map, port_map, KW_PORTS, { 0 },				\
	  "Port pairs, the consumer's and the wire's, such as 3260:13260 [none]")

#define KW_DEFAULT(_name, _member, _values, _default, _text)		\
	._member = _default,

static struct kw_settings kw_defaults = {
	KW_SETTINGS(KW_DEFAULT)
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

#define KW_DEFINE(_name, _member, _values, _default, _text)		\
	static struct kw_setting kw_set_##_name = {			\
		.attr = {						\
			.attr = { .name = __stringify(_name), .mode = 0644 }, \
			.show = kw_file_show,				\
			.store = kw_file_store,				\
		},							\
		.off = offsetof(struct kw_settings, _member),		\
		_values							\
	};								\
	module_param_cb(_name, &kw_param_ops, &kw_set_##_name, 0644);	\
	MODULE_PARM_DESC(_name, _text);

KW_SETTINGS(KW_DEFINE)

#define KW_ATTR(_name, _member, _values, _default, _text)		\
	&kw_set_##_name.attr.attr,

static struct attribute *kw_settings_attrs[] = {
	KW_SETTINGS(KW_ATTR)
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
