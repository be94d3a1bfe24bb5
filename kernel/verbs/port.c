// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The device's one port: its state, speed, MTU and GID are the interface's.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>

#include "verbs/ops.h"

#define KW_PORT			1
#define KW_GID_TABLE_LEN	1
#define KW_PKEY_TABLE_LEN	1
#define KW_DEFAULT_PKEY		0xffff

static bool kw_netdev_active(const struct net_device *netdev)
{
	return netif_running(netdev) && netif_carrier_ok(netdev);
}

/**
 * kw_netdev_gid() - the GID that an interface gives its device
 * @netdev: interface
 * @gid: result: the link-local prefix and an interface identifier
 *
 * The identifier is made of the hardware address (EUI-48). An interface without
 * one, such as lo or wg0, gets an identifier that is locally administered, made
 * of its index and its namespace. It is never zero: many programs skip a GID
 * whose second half is, and rdma_cm finds no device by a GID of zeros. It need
 * not be the hardware address: of an iWARP device rdma_cm compares the
 * interface, in all kernels that this module builds for.
 */
void kw_netdev_gid(const struct net_device *netdev, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	if (netdev->addr_len == ETH_ALEN &&
	    !is_zero_ether_addr(netdev->dev_addr)) {
		addrconf_addr_eui48(gid->raw + 8, netdev->dev_addr);
		return;
	}
	put_unaligned_be32(netdev->ifindex, gid->raw + 8);
	put_unaligned_be32(dev_net(netdev)->ns.inum, gid->raw + 12);
}

static enum ib_mtu kw_mtu(unsigned int mtu)
{
	/* 0 as an interface's maximum means that there is none. */
	return mtu ? ib_mtu_int_to_enum(mtu) : IB_MTU_4096;
}

/* Does the interface report its speed? lo, dummies and idle VLANs do not. */
static bool kw_netdev_has_speed(struct net_device *netdev)
{
	struct ethtool_link_ksettings ks = {};
	bool has = false;

	rtnl_lock();
	if (netdev->reg_state == NETREG_REGISTERED &&
	    !__ethtool_get_link_ksettings(netdev, &ks))
		has = ks.base.speed != (u32)SPEED_UNKNOWN;
	rtnl_unlock();
	return has;
}

static void kw_port_speed(struct ib_device *ibdev, struct net_device *netdev,
			  struct ib_port_attr *attr)
{
	attr->active_speed = IB_SPEED_SDR;
	attr->active_width = IB_WIDTH_1X;
	/* For interfaces without a speed the RDMA core's helper floods the log. */
	if (kw_netdev_has_speed(netdev))
		ib_get_eth_speed(ibdev, KW_PORT, &attr->active_speed,
				 &attr->active_width);
}

/**
 * kw_query_port() - describe the port
 * @ibdev: device
 * @port: 1
 * @attr: result
 *
 * Context: process, without the RTNL, which it takes.
 * Return: 0, or -ENODEV if the interface is gone.
 */
int kw_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct net_device *netdev = ib_device_get_netdev(ibdev, port);

	if (!netdev)
		return -ENODEV;

	memset(attr, 0, sizeof(*attr));
	attr->gid_tbl_len = KW_GID_TABLE_LEN;
	attr->pkey_tbl_len = KW_PKEY_TABLE_LEN;
	attr->max_msg_sz = KW_MAX_MSG_SIZE;
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->max_mtu = kw_mtu(netdev->max_mtu);
	attr->active_mtu = kw_mtu(READ_ONCE(netdev->mtu));
	attr->phys_mtu = READ_ONCE(netdev->mtu);
	if (kw_netdev_active(netdev)) {
		attr->state = IB_PORT_ACTIVE;
		attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	} else {
		attr->state = IB_PORT_DOWN;
		attr->phys_state = netif_running(netdev) ?
				   IB_PORT_PHYS_STATE_POLLING :
				   IB_PORT_PHYS_STATE_DISABLED;
	}
	kw_port_speed(ibdev, netdev, attr);
	dev_put(netdev);
	return 0;
}

/**
 * kw_query_gid() - the port's GID
 * @ibdev: device
 * @port: 1
 * @index: 0
 * @gid: result
 *
 * Context: process.
 * Return: 0, -EINVAL for another index, -ENODEV if the interface is gone.
 */
int kw_query_gid(struct ib_device *ibdev, u32 port, int index,
		 union ib_gid *gid)
{
	struct net_device *netdev;

	if (index)
		return -EINVAL;
	netdev = ib_device_get_netdev(ibdev, port);
	if (!netdev)
		return -ENODEV;
	kw_netdev_gid(netdev, gid);
	dev_put(netdev);
	return 0;
}

/**
 * kw_query_pkey() - the port's partition key
 * @ibdev: device
 * @port: 1
 * @index: 0
 * @pkey: result
 *
 * iWARP has no partitions, but rdma_cm does not resolve a loopback address
 * unless the device has a first key.
 *
 * Return: 0, or -EINVAL for another index.
 */
int kw_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = KW_DEFAULT_PKEY;
	return 0;
}

/**
 * kw_get_port_immutable() - the port's constant attributes
 * @ibdev: device
 * @port: 1
 * @imm: result
 *
 * Return: 0.
 */
int kw_get_port_immutable(struct ib_device *ibdev, u32 port,
			  struct ib_port_immutable *imm)
{
	imm->gid_tbl_len = KW_GID_TABLE_LEN;
	imm->pkey_tbl_len = KW_PKEY_TABLE_LEN;
	imm->core_cap_flags = RDMA_CORE_PORT_IWARP;
	return 0;
}

/**
 * kw_port_update() - raise an event if the port's state has changed
 * @dev: device
 *
 * Context: any.
 */
void kw_port_update(struct kw_device *dev)
{
	int active = kw_netdev_active(dev->netdev);
	struct ib_event ev = {
		.device = &dev->ib,
		.element.port_num = KW_PORT,
		.event = active ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
	};

	if (xchg(&dev->port_active, active) != active)
		ib_dispatch_event(&ev);
}
