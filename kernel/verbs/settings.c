// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Settings: module parameters as defaults of later devices, and files under
 * /sys/class/infiniband/<device>/settings for each device.
 */
#include <linux/module.h>
#include <linux/sysfs.h>

#include "verbs/ops.h"

#define KW_MPA_REV_MIN		1
#define KW_MPA_REV_MAX		2
#define KW_START_TIMEOUT_MIN	100		/* ms */
#define KW_START_TIMEOUT_MAX	600000

static int kw_param_set_mpa_rev(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, KW_MPA_REV_MIN, KW_MPA_REV_MAX);
}

static const struct kernel_param_ops kw_param_mpa_rev = {
	.set = kw_param_set_mpa_rev,
	.get = param_get_uint,
};

static int kw_param_set_timeout(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, KW_START_TIMEOUT_MIN,
				     KW_START_TIMEOUT_MAX);
}

static const struct kernel_param_ops kw_param_timeout = {
	.set = kw_param_set_timeout,
	.get = param_get_uint,
};

static unsigned int mpa_rev = 2;
module_param_cb(mpa_rev, &kw_param_mpa_rev, &mpa_rev, 0644);
MODULE_PARM_DESC(mpa_rev, "MPA revision asked for first: 2 or 1 [2]");

static bool crc = true;
module_param(crc, bool, 0644);
MODULE_PARM_DESC(crc, "Ask for CRC32C [Y]");

static bool markers;
module_param(markers, bool, 0644);
MODULE_PARM_DESC(markers, "Ask for markers in what the peer sends [N]");

static bool p2p = true;
module_param(p2p, bool, 0644);
MODULE_PARM_DESC(p2p, "Offer the peer-to-peer model when connecting [Y]");

static unsigned int start_timeout_ms = 10000;
module_param_cb(start_timeout_ms, &kw_param_timeout, &start_timeout_ms, 0644);
MODULE_PARM_DESC(start_timeout_ms,
		 "Bound on each step of MPA start-up in milliseconds [10000]");

/**
 * kw_settings_init() - take the module's parameters as a device's settings
 * @s: result
 */
void kw_settings_init(struct kw_settings *s)
{
	s->mpa_rev = READ_ONCE(mpa_rev);
	s->crc = READ_ONCE(crc);
	s->markers = READ_ONCE(markers);
	s->p2p = READ_ONCE(p2p);
	s->start_timeout_ms = READ_ONCE(start_timeout_ms);
}

static struct kw_settings *kw_dev_settings(struct device *d)
{
	return &rdma_device_to_drv_device(d, struct kw_device, ib)->settings;
}

static int kw_parse_range(const char *buf, u32 min, u32 max, u32 *val)
{
	int rv = kstrtou32(buf, 0, val);

	if (rv)
		return rv;
	return *val < min || *val > max ? -EINVAL : 0;
}

static ssize_t mpa_rev_show(struct device *d, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(kw_dev_settings(d)->mpa_rev));
}

static ssize_t mpa_rev_store(struct device *d, struct device_attribute *attr,
			     const char *buf, size_t n)
{
	u32 val;
	int rv = kw_parse_range(buf, KW_MPA_REV_MIN, KW_MPA_REV_MAX, &val);

	if (rv)
		return rv;
	WRITE_ONCE(kw_dev_settings(d)->mpa_rev, val);
	return n;
}
static DEVICE_ATTR_RW(mpa_rev);

static ssize_t crc_show(struct device *d, struct device_attribute *attr,
			char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(kw_dev_settings(d)->crc));
}

static ssize_t crc_store(struct device *d, struct device_attribute *attr,
			 const char *buf, size_t n)
{
	bool val;
	int rv = kstrtobool(buf, &val);

	if (rv)
		return rv;
	WRITE_ONCE(kw_dev_settings(d)->crc, val);
	return n;
}
static DEVICE_ATTR_RW(crc);

static ssize_t markers_show(struct device *d, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n",
			  READ_ONCE(kw_dev_settings(d)->markers));
}

static ssize_t markers_store(struct device *d, struct device_attribute *attr,
			     const char *buf, size_t n)
{
	bool val;
	int rv = kstrtobool(buf, &val);

	if (rv)
		return rv;
	WRITE_ONCE(kw_dev_settings(d)->markers, val);
	return n;
}
static DEVICE_ATTR_RW(markers);

static ssize_t p2p_show(struct device *d, struct device_attribute *attr,
			char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(kw_dev_settings(d)->p2p));
}

static ssize_t p2p_store(struct device *d, struct device_attribute *attr,
			 const char *buf, size_t n)
{
	bool val;
	int rv = kstrtobool(buf, &val);

	if (rv)
		return rv;
	WRITE_ONCE(kw_dev_settings(d)->p2p, val);
	return n;
}
static DEVICE_ATTR_RW(p2p);

static ssize_t start_timeout_ms_show(struct device *d,
				     struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n",
			  READ_ONCE(kw_dev_settings(d)->start_timeout_ms));
}

static ssize_t start_timeout_ms_store(struct device *d,
				      struct device_attribute *attr,
				      const char *buf, size_t n)
{
	u32 val;
	int rv = kw_parse_range(buf, KW_START_TIMEOUT_MIN,
				KW_START_TIMEOUT_MAX, &val);

	if (rv)
		return rv;
	WRITE_ONCE(kw_dev_settings(d)->start_timeout_ms, val);
	return n;
}
static DEVICE_ATTR_RW(start_timeout_ms);

static struct attribute *kw_settings_attrs[] = {
	&dev_attr_mpa_rev.attr,
	&dev_attr_crc.attr,
	&dev_attr_markers.attr,
	&dev_attr_p2p.attr,
	&dev_attr_start_timeout_ms.attr,
	NULL
};

const struct attribute_group kw_settings_group = {
	.name = "settings",
	.attrs = kw_settings_attrs,
};
