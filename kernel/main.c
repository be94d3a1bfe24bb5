// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The module: "rdma link add NAME type kiwarp netdev DEV", and what happens
 * to a device when its interface changes.
 *
 * A device is unregistered by "rdma link delete", by unloading the module and
 * when its interface goes. In all three the RDMA core calls kw_client_remove()
 * first, which ends connections that the core does not know.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ctype.h>
#include <linux/delay.h>
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/workqueue.h>
#include <rdma/rdma_netlink.h>

#include "cm/cm.h"
#include "compat.h"
#include "stream/tx_pool.h"
#include "verbs/ops.h"

#define KW_DRIVER	((enum rdma_driver_id)KIWARP_DRIVER_ID)

/*
 * How long consumers have to take their flushed completions before the RDMA
 * core destroys their objects. The kernel complains of an interface that does
 * not go after ten seconds; this is far less.
 */
#define KW_GONE_GRACE_MS	500
#define KW_GONE_POLL_MS		5

/* How long a new device waits for one that goes and is in its way. */
#define KW_GONE_LIMIT_MS	10000

static struct workqueue_struct *kw_gone_wq;

/* Devices that began to go, and those of them that have gone. */
static atomic_t kw_gone_begun = ATOMIC_INIT(0);
static atomic_t kw_gone_ended = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(kw_gone_wait);

/* An interface has one device: looking for it and creating it is one step. */
static DEFINE_MUTEX(kw_newlink_lock);

static struct kw_device *kw_device_get(struct net_device *netdev)
{
	struct ib_device *ib = ib_device_get_by_netdev(netdev, KW_DRIVER);

	return ib ? to_kw_dev(ib) : NULL;
}

/*
 * nvme-rdma and nvmet-rdma remove their device from a list before they free its
 * protection domain, so their ib_client.remove does not wait for that. Wait for
 * protection domains here; the last sleep is for rdma_restrack_del(), which
 * follows dealloc_pd().
 */
static void kw_await_consumers(struct kw_device *dev)
{
	unsigned long end = jiffies + msecs_to_jiffies(KW_GONE_GRACE_MS);

	while ((atomic_read(&dev->nr_qp) || atomic_read(&dev->nr_pd)) &&
	       time_before(jiffies, end))
		msleep(KW_GONE_POLL_MS);
	msleep(KW_GONE_POLL_MS);
}

/* Close lingering sockets first: a socket aborted after that is reset. */
static void kw_end_connections(struct kw_device *dev)
{
	kw_cm_device_gone(dev);
	kw_lingers_close(&dev->lingers);
	kw_qps_fail(dev);
}

static void kw_gone_work(struct work_struct *work)
{
	struct kw_device *dev = container_of(work, struct kw_device, gone_work);
	struct ib_event ev = {
		.device = &dev->ib,
		.event = IB_EVENT_DEVICE_FATAL,
	};

	kw_end_connections(dev);
	ib_dispatch_event(&ev);
	kw_await_consumers(dev);
	ib_unregister_device_and_put(&dev->ib);
	atomic_inc(&kw_gone_ended);
	wake_up_all(&kw_gone_wait);
}

/* Takes over the caller's reference. The event may be sent more than once. */
static void kw_device_gone(struct kw_device *dev)
{
	if (test_and_set_bit(0, &dev->gone)) {
		ib_device_put(&dev->ib);
		return;
	}
	atomic_inc(&kw_gone_begun);
	INIT_WORK(&dev->gone_work, kw_gone_work);
	queue_work(kw_gone_wq, &dev->gone_work);
}

static void kw_gid_changed(struct kw_device *dev)
{
	struct ib_event ev = {
		.device = &dev->ib,
		.element.port_num = 1,
		.event = IB_EVENT_GID_CHANGE,
	};

	/* On this event the RDMA core reads the GID again. */
	ib_dispatch_event(&ev);
}

static int kw_netdev_event(struct notifier_block *nb, unsigned long event,
			   void *info)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(info);
	struct kw_device *dev = kw_device_get(netdev);

	if (!dev)
		return NOTIFY_DONE;

	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		kw_port_update(dev);
		break;
	case NETDEV_CHANGEADDR:
		kw_gid_changed(dev);
		break;
	case NETDEV_CHANGENAME:
		strscpy(dev->ib.iw_ifname, netdev->name,
			sizeof(dev->ib.iw_ifname));
		break;
	case NETDEV_UNREGISTER:
		kw_device_gone(dev);
		return NOTIFY_OK;
	default:
		/*
		 * NETDEV_CHANGEMTU is among them: query_port reads the MTU
		 * from the interface, and streams follow TCP's segment size.
		 */
		break;
	}
	ib_device_put(&dev->ib);
	return NOTIFY_OK;
}

static struct notifier_block kw_netdev_nb = {
	.notifier_call = kw_netdev_event,
};

/*
 * What carries IP will do: connections are TCP's. InfiniBand's interfaces are
 * not among them, as rdma_cm looks for InfiniBand devices below them.
 */
static bool kw_netdev_supported(const struct net_device *netdev)
{
	switch (netdev->type) {
	case ARPHRD_ETHER:
	case ARPHRD_LOOPBACK:
	case ARPHRD_NONE:	/* tun, WireGuard */
	case ARPHRD_TUNNEL:
	case ARPHRD_TUNNEL6:
	case ARPHRD_SIT:
	case ARPHRD_IPGRE:
	case ARPHRD_IP6GRE:
		return true;
	default:
		return false;
	}
}

/* A name is a file name in sysfs and a word in the output of tools. */
static bool kw_name_valid(const char *name)
{
	if (*name == '.' || *name == '-')
		return false;
	for (; *name; name++)
		if (!isascii(*name) || !isgraph(*name) || *name == '/')
			return false;
	return true;
}

/*
 * When an interface went while its device was being registered, or left @net,
 * its event found no device. The same holds for its state.
 */
static void kw_catch_up(struct net_device *netdev, const struct net *net)
{
	struct kw_device *dev = kw_device_get(netdev);
	bool gone;

	if (!dev)
		return;
	/* Held for all of a move: it is over, or its event is still to come. */
	rtnl_lock();
	gone = netdev->reg_state != NETREG_REGISTERED || !net_eq(dev_net(netdev), net);
	rtnl_unlock();
	if (gone) {
		kw_device_gone(dev);
		return;
	}
	kw_port_update(dev);
	ib_device_put(&dev->ib);
}

static int kw_newlink_locked(const char *name, struct net_device *netdev,
			     const struct net *net)
{
	struct kw_device *dev = kw_device_get(netdev);
	int ret;

	if (dev) {
		pr_info("%s has the device %s already\n", netdev->name,
			dev_name(&dev->ib.dev));
		ib_device_put(&dev->ib);
		return -EEXIST;
	}
	if (kw_device_name_taken(name)) {
		pr_info("an RDMA device %s exists already\n", name);
		return -EEXIST;
	}
	if (!net_eq(dev_net(netdev), net)) {
		pr_info("%s has moved to another network namespace\n", netdev->name);
		return -ENODEV;
	}
	ret = kw_device_create(name, netdev, &kw_cm_ops);
	if (ret)
		return ret;
	kw_catch_up(netdev, net);
	return 0;
}

/* As wait_event_killable_timeout(), until more devices than @ended have gone. */
static long kw_await_gone(int ended, long left)
{
	return wait_event_killable_timeout(kw_gone_wait,
					   atomic_read(&kw_gone_ended) != ended,
					   left);
}

/* rdma link add. The caller gets the errno; the log has the reason. */
static int kw_newlink(const char *name, struct net_device *netdev)
{
	const struct net *net = dev_net(netdev);
	long left = msecs_to_jiffies(KW_GONE_LIMIT_MS);
	bool going;
	int ended;
	int ret;

	if (!kw_name_valid(name)) {
		pr_info("%s can not be the name of a device\n", name);
		return -EINVAL;
	}
	if (!kw_netdev_supported(netdev)) {
		pr_info("%s is of type %u, which is not supported\n",
			netdev->name, netdev->type);
		return -EOPNOTSUPP;
	}
	/*
	 * A device that goes has its name and its interface for a while. That
	 * the interface moves to another namespace is such a case: there a new
	 * device may be made at once. A process can hold up the end of a device
	 * for as long as it likes, so the wait is bounded.
	 */
	do {
		ended = atomic_read(&kw_gone_ended);
		going = atomic_read(&kw_gone_begun) != ended;
		mutex_lock(&kw_newlink_lock);
		ret = kw_newlink_locked(name, netdev, net);
		mutex_unlock(&kw_newlink_lock);
		if (!going || (ret != -EEXIST && ret != -ENFILE))
			return ret;
		left = kw_await_gone(ended, left);
	} while (left > 0);
	return left ? -EINTR : ret;
}

static struct rdma_link_ops kw_link_ops = {
	.type = "kiwarp",
	.newlink = kw_newlink,
};

static int kw_client_add(struct ib_device *ibdev)
{
	struct kw_device *dev = to_kw_dev(ibdev);

	if (ibdev->ops.driver_id != KW_DRIVER)
		return -EOPNOTSUPP;
	/* Clients are told in the order in which they came: rdma_cm before. */
	WRITE_ONCE(dev->announcer, NULL);
	if (!test_bit(0, &dev->gone))
		kw_lingers_open(&dev->lingers);
	return 0;
}

static void kw_client_remove(struct ib_device *ibdev, void *data)
{
	kw_end_connections(to_kw_dev(ibdev));
}

static struct ib_client kw_client = {
	.name = "kiwarp",
	.add = kw_client_add,
	.remove = kw_client_remove,
};

static int __init kw_init(void)
{
	int ret;

	kw_gone_wq = alloc_workqueue("kiwarp_gone", WQ_UNBOUND, 0);
	if (!kw_gone_wq)
		return -ENOMEM;
	ret = kw_streams_init();
	if (ret)
		goto destroy_wq;
	ret = kw_tx_pool_shrink_init();
	if (ret)
		goto streams_exit;
	ret = kw_cm_init();
	if (ret)
		goto shrink_exit;
	ret = ib_register_client(&kw_client);
	if (ret)
		goto cm_exit;
	ret = register_netdevice_notifier(&kw_netdev_nb);
	if (ret)
		goto unregister_client;
	rdma_link_register(&kw_link_ops);
	return 0;

unregister_client:
	ib_unregister_client(&kw_client);
cm_exit:
	kw_cm_exit();
shrink_exit:
	kw_tx_pool_shrink_exit();
streams_exit:
	kw_streams_exit();
destroy_wq:
	destroy_workqueue(kw_gone_wq);
	return ret;
}

static void __exit kw_exit(void)
{
	rdma_link_unregister(&kw_link_ops);
	/* Calls the notifier with NETDEV_UNREGISTER for each interface. */
	unregister_netdevice_notifier(&kw_netdev_nb);
	destroy_workqueue(kw_gone_wq);
	ib_unregister_driver(KW_DRIVER);
	ib_unregister_client(&kw_client);
	kw_cm_exit();
	kw_mmap_exit();
	kw_tx_pool_shrink_exit();
	kw_streams_exit();
}

module_init(kw_init);
module_exit(kw_exit);

MODULE_DESCRIPTION("Kiwarp, a software iWARP RNIC");
MODULE_AUTHOR("The Kiwarp developers");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("0.2");
MODULE_ALIAS_RDMA_LINK("kiwarp");
