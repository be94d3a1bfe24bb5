// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * A wire on which a message stops half-way: the accepting end's interface drops
 * long frames from some point on. Acknowledgments and the ends of connections
 * still come through. It needs no packet filter of the kernel's, which kernels
 * with checkers do not have.
 */
#include <linux/etherdevice.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>

#include "ktest.h"

/* More than a frame without data has, and less than one that is full. */
#define KT_STOP_BYTES	600

/**
 * struct kt_stop - what stops
 * @dev: the interface, or NULL
 * @left: long frames that may still pass
 */
static struct kt_stop {
	struct net_device *dev;
	atomic_t left;
} kt_stopped;

static rx_handler_result_t kt_stop_frame(struct sk_buff **pskb)
{
	struct sk_buff *skb = *pskb;

	if (skb->len < KT_STOP_BYTES ||
	    atomic_dec_if_positive(&kt_stopped.left) >= 0)
		return RX_HANDLER_PASS;
	kfree_skb(skb);
	return RX_HANDLER_CONSUMED;
}

/**
 * kt_stop_begin() - let few long frames through to the accepting end
 * @l: link
 * @frames: how many: of at most 64 KiB each, as segmentation is left to the wire
 *
 * Context: process. One link at a time.
 * Return: 0 or -errno.
 */
int kt_stop_begin(struct kt_link *l, int frames)
{
	struct net_device *dev;
	int ret;

	dev = ib_device_get_netdev(l->b.id->device, l->b.id->port_num);
	if (!dev)
		return -ENODEV;
	atomic_set(&kt_stopped.left, frames);
	rtnl_lock();
	ret = netdev_rx_handler_register(dev, kt_stop_frame, NULL);
	rtnl_unlock();
	if (ret)
		dev_put(dev);
	else
		kt_stopped.dev = dev;
	return ret;
}

/**
 * kt_stop_end() - let all frames through again
 *
 * Context: process.
 */
void kt_stop_end(void)
{
	if (!kt_stopped.dev)
		return;
	rtnl_lock();
	netdev_rx_handler_unregister(kt_stopped.dev);
	rtnl_unlock();
	dev_put(kt_stopped.dev);
	kt_stopped.dev = NULL;
}
