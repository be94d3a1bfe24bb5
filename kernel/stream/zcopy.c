// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Sending payload without a copy.
 *
 * FPDUs are cut as in a copy. Headers, pads and CRCs are built in the transmit
 * buffer. Payload goes to TCP as references to the region's pages. A list of
 * page pieces becomes the fragments of one socket buffer: [header] [payload]
 * [CRC, header] [payload] ... [CRC]. A list has whole FPDUs and starts a socket
 * buffer of its own, so that segments begin with FPDUs as they do otherwise.
 *
 * Lifetime of the consumer's buffer: every skb with pieces of such a message
 * refers to its struct kw_zc_msg. When the last of them is freed no byte can be
 * sent any more, not even by a retransmission in a queueing discipline or a
 * network card. Only then the work request completes, or is flushed. A graceful
 * end therefore waits for all messages in flight; any other end waits for a
 * bounded time (kw_zc_close()).
 *
 * A consumer that deregisters or invalidates memory which a work request of its
 * own still uses breaks that rule, and affects itself only. Each piece has a
 * reference to its page, which is therefore not given to others. What is
 * written there meanwhile may still be sent as part of that work request, and
 * the peer sees it by the CRC computed before. If dereg_mr waited for TCP
 * instead, a peer that acknowledges nothing could block the consumer.
 *
 * Read Responses are always copied: the memory that a peer reads stays the
 * consumer's, who may write to it at any time. A CRC of what is sent later
 * would then be wrong, and end the connection. Messages with markers are
 * copied, too: there would be a piece for every 508 bytes.
 */
#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <net/tcp.h>

#include "stream/charge.h"
#include "stream/priv.h"
#include "stream/sg.h"
#include "stream/vec.h"
#include "stream/zcopy.h"

/*
 * An FPDU with less payload is copied: a reference to a page costs about as
 * much as copying this, and takes a fragment of the socket buffer besides.
 */
#define KW_ZC_PAYLOAD_MIN	512

/*
 * How long the end of a stream waits for pages that its socket has released. A
 * card sends or drops them in far less.
 */
#define KW_ZC_GRACE	(10 * HZ)

/**
 * struct kw_zc_msg - a message in flight without a copy
 * @ubuf: what socket buffers refer to; also held while FPDUs are made of the
 *	message, and by the list that has some
 * @zc: its stream's
 * @node: in kw_zcopy.done
 * @index: of the work request
 * @framed: FPDUs were made of all of it
 * @copied: the stack copied pieces, as it does for a receiver on this machine
 */
struct kw_zc_msg {
	struct ubuf_info ubuf;
	struct kw_zcopy *zc;
	struct list_head node;
	u32 index;
	bool framed;
	bool copied;
};

/**
 * struct kw_zcopy - messages in flight without a copy; can outlive the stream
 * @ref: the stream's, and one of each message
 * @s: the stream; NULL once it does not wait for @busy any more
 * @lock: @s, @attached, @done, @busy
 * @attached: the stream completes the messages in @done
 * @done: messages that TCP has released
 * @busy: messages in flight, or in @done
 * @deadline: until when the stream waits for @busy to become 0, once not
 *	@attached; jiffies
 * @work: takes @done to the stream
 * @msg: whose pieces the list has; NULL if there is no list
 * @tail: bytes of the transmit buffer from here on are not in the list yet
 * @nr: pieces in the list
 * @pieces: how many wait behind it: see kw_zc_collect()
 * @bytes: of payload in the list that were not copied
 * @iter: what of the list TCP has not taken
 * @vec: the list
 *
 * The list, from @msg on, is under the socket lock. Its pieces have references
 * of their own to their pages, until all of it is sent.
 */
struct kw_zcopy {
	struct kref ref;
	struct kw_stream *s;
	spinlock_t lock;		/* s, attached, done, busy */
	bool attached;
	struct list_head done;
	u32 busy;
	unsigned long deadline;
	struct delayed_work work;

	struct kw_zc_msg *msg;
	u8 *tail;
	u32 nr;
	u32 pieces;
	u32 bytes;
	struct iov_iter iter;
	struct bio_vec vec[MAX_SKB_FRAGS];
};

/* The module cannot be unloaded while TCP may call into it. */
static atomic_t kw_zc_live = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(kw_zc_gone);

static void kw_zc_free(struct kref *ref)
{
	kfree(container_of(ref, struct kw_zcopy, ref));
	if (atomic_dec_and_test(&kw_zc_live))
		wake_up(&kw_zc_gone);
}

static void kw_zc_msg_free(struct kw_zc_msg *m)
{
	struct kw_zcopy *zc = m->zc;

	kfree(m);
	kref_put(&zc->ref, kw_zc_free);
}

/*
 * A reference to a message was dropped. This may run under the socket lock or
 * under that of a queueing discipline or a card, so it only queues work.
 * kw_zc_exit() waits for the read-side section.
 */
static void kw_zc_complete(struct sk_buff *skb, struct ubuf_info *ubuf,
			   bool success)
{
	struct kw_zc_msg *m = container_of(ubuf, struct kw_zc_msg, ubuf);
	struct kw_zcopy *zc = m->zc;
	unsigned long flags;
	struct kw_stream *ending;
	bool attached;

	if (!success)
		WRITE_ONCE(m->copied, true);
	if (!refcount_dec_and_test(&ubuf->refcnt))
		return;
	rcu_read_lock();
	spin_lock_irqsave(&zc->lock, flags);
	attached = zc->attached;
	if (attached) {
		list_add_tail(&m->node, &zc->done);
		kw_stream_queue(zc->s, &zc->work, 0);
	} else {
		ending = zc->s;
		if (!--zc->busy && ending)
			kw_stream_queue(ending, &ending->end_work, 0);
	}
	spin_unlock_irqrestore(&zc->lock, flags);
	if (!attached)
		kw_zc_msg_free(m);
	rcu_read_unlock();
}

static const struct ubuf_info_ops kw_zc_ops = {
	.complete = kw_zc_complete,
};

static void kw_zc_done(struct kw_stream *s, struct kw_zc_msg *m)
{
	bool good = m->framed && kw_stream_live(s);

	if (m->copied)
		kw_stream_count(s, KW_CNT_TX_ZCOPY_COPIED);
	s->ops->wqe_zc_done(s, m->index, good);
	kw_zc_msg_free(m);
}

/* Complete the messages that TCP has released. */
static void kw_zc_work(struct work_struct *work)
{
	struct kw_zcopy *zc = container_of(to_delayed_work(work),
					   struct kw_zcopy, work);
	struct kw_stream *s = zc->s;
	struct kw_zc_msg *m, *next;
	LIST_HEAD(done);
	u32 n = 0;

	lock_sock(s->sock->sk);
	spin_lock_irq(&zc->lock);
	list_splice_init(&zc->done, &done);
	spin_unlock_irq(&zc->lock);
	list_for_each_entry_safe(m, next, &done, node) {
		kw_zc_done(s, m);
		n++;
	}
	spin_lock_irq(&zc->lock);
	zc->busy -= n;
	spin_unlock_irq(&zc->lock);
	s->ops->notify(s);
	/* The teardown may have waited for it. */
	if (!kw_zc_busy(s))
		kw_stream_drained(s);
	release_sock(s->sock->sk);
}

/**
 * kw_zc_open() - prepare to send without a copy, if the settings ask for it
 * @s: stream that is being started; its parameters are known
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int kw_zc_open(struct kw_stream *s)
{
	struct kw_zcopy *zc;

	s->zcopy_min = U32_MAX;
	if (!s->p.set.zcopy_min || s->p.tx_markers)
		return 0;
	zc = kzalloc(sizeof(*zc), GFP_KERNEL_ACCOUNT);
	if (!zc)
		return -ENOMEM;
	kref_init(&zc->ref);
	spin_lock_init(&zc->lock);
	INIT_LIST_HEAD(&zc->done);
	INIT_DELAYED_WORK(&zc->work, kw_zc_work);
	zc->s = s;
	zc->attached = true;
	atomic_inc(&kw_zc_live);
	s->zc = zc;
	s->zcopy_min = s->p.set.zcopy_min;
	return 0;
}

static void kw_zc_drop_list(struct kw_zcopy *zc)
{
	struct kw_zc_msg *m = zc->msg;

	while (zc->nr)
		put_page(zc->vec[--zc->nr].bv_page);
	zc->msg = NULL;
	if (m)
		net_zcopy_put(&m->ubuf);
}

/**
 * kw_zc_detach() - ignore completions of messages in flight
 * @s: stream that neither sends nor receives any more
 *
 * Messages still in flight are flushed in kw_stream_ops.ended.
 *
 * Context: process, before the socket goes.
 */
void kw_zc_detach(struct kw_stream *s)
{
	struct kw_zcopy *zc = s->zc;
	struct kw_zc_msg *m, *next;

	if (!zc)
		return;
	spin_lock_irq(&zc->lock);
	zc->attached = false;
	zc->deadline = jiffies + KW_ZC_GRACE;
	spin_unlock_irq(&zc->lock);
	cancel_delayed_work_sync(&zc->work);
	/* Nothing adds to it now. */
	list_for_each_entry_safe(m, next, &zc->done, node) {
		kw_zc_msg_free(m);
		spin_lock_irq(&zc->lock);
		zc->busy--;
		spin_unlock_irq(&zc->lock);
	}
	kw_zc_framed(s, false);
	kw_zc_drop_list(zc);
}

/**
 * kw_zc_close() - drop the state if no message is in flight or time is over
 * @s: stream after kw_zc_detach() whose socket is gone, or that did not start
 *
 * With the socket go all bytes that TCP has in its queues. What it has passed
 * on is usually sent or dropped at once. For an interface that does neither the
 * wait is bounded. That is safe: the stream is dead, and its peer has got the
 * Terminate.
 *
 * Context: process.
 * Return: true if the stream has none any more; false: its end_work is queued,
 * and this is to be called once more.
 */
bool kw_zc_close(struct kw_stream *s)
{
	struct kw_zcopy *zc = s->zc;
	long left;
	bool over;

	if (!zc)
		return true;
	spin_lock_irq(&zc->lock);
	left = zc->deadline - jiffies;
	over = !zc->busy || left <= 0;
	if (over)
		zc->s = NULL;
	else
		kw_stream_queue(s, &s->end_work, left);
	spin_unlock_irq(&zc->lock);
	if (!over)
		return false;
	s->zc = NULL;
	kref_put(&zc->ref, kw_zc_free);
	return true;
}

/**
 * kw_zc_exit() - wait until TCP calls back no more
 *
 * Context: module unload, when there are no streams any more.
 */
void kw_zc_exit(void)
{
	wait_event(kw_zc_gone, !atomic_read(&kw_zc_live));
	synchronize_rcu();
}

/**
 * kw_zc_busy() - whether TCP may still send bytes out of consumers' buffers
 * @s: stream
 *
 * Context: any.
 */
bool kw_zc_busy(const struct kw_stream *s)
{
	return s->zc && READ_ONCE(s->zc->busy);
}

/**
 * kw_zc_begin() - begin to send the current work request without a copy
 * @s: stream; its tx.wqe is a Send or Write of at least s->zcopy_min bytes
 *
 * If that is not possible it is copied. An interface that cannot gather
 * (NETIF_F_SG) would have TCP copy it anyway.
 *
 * Context: socket lock held.
 */
void kw_zc_begin(struct kw_stream *s)
{
	struct mem_cgroup *memcg = kw_sk_memcg(s->sock->sk), *before;
	gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;
	struct kw_zcopy *zc = s->zc;
	struct kw_zc_msg *m;

	if ((s->tx.wqe.flags & KIWARP_SQE_INLINE) ||
	    !(s->sock->sk->sk_route_caps & NETIF_F_SG))
		return;
	/* Without one this would be charged to the current task. */
	if (memcg)
		gfp |= __GFP_ACCOUNT;
	before = set_active_memcg(memcg);
	m = kzalloc(sizeof(*m), gfp);
	set_active_memcg(before);
	if (!m)
		return;
	m->ubuf.ops = &kw_zc_ops;
	m->ubuf.flags = SKBFL_ZEROCOPY_FRAG | SKBFL_DONT_ORPHAN;
	refcount_set(&m->ubuf.refcnt, 1);
	m->zc = zc;
	m->index = s->tx.wqe.index;
	kref_get(&zc->ref);
	spin_lock_irq(&zc->lock);
	zc->busy++;
	spin_unlock_irq(&zc->lock);
	s->tx.zc_msg = m;
	s->ops->wqe_zc_start(s, m->index);
}

/**
 * kw_zc_framed() - all FPDUs of the current zero-copy message are built
 * @s: stream
 * @whole: because all of it is in FPDUs; else because the stream has failed
 *
 * Context: socket lock held, or the stream is at its end.
 */
void kw_zc_framed(struct kw_stream *s, bool whole)
{
	struct kw_zc_msg *m = s->tx.zc_msg;

	if (!m)
		return;
	s->tx.zc_msg = NULL;
	m->framed = whole;
	net_zcopy_put(&m->ubuf);
}

/**
 * kw_zc_listed() - whether there is a list for the current zero-copy message
 * @s: stream
 *
 * Context: socket lock held, transmit token owned.
 * Return: true if kw_zc_list() was called for it, and the list is not sent.
 */
bool kw_zc_listed(const struct kw_stream *s)
{
	return s->zc->msg == s->tx.zc_msg;
}

/**
 * kw_zc_list() - begin a list for the current zero-copy message
 * @s: stream
 * @start: where in the transmit buffer the list's headers begin
 *
 * Context: socket lock held, transmit token owned.
 * Return: false if there is one of another message.
 */
bool kw_zc_list(struct kw_stream *s, u8 *start)
{
	struct kw_zcopy *zc = s->zc;
	struct sk_buff *skb = tcp_write_queue_tail(s->sock->sk);

	if (zc->msg)
		return false;
	/* End the last skb: it might have too few fragments left. */
	if (skb)
		TCP_SKB_CB(skb)->eor = 1;
	zc->msg = s->tx.zc_msg;
	net_zcopy_get(&zc->msg->ubuf);
	zc->tail = start;
	zc->nr = 0;
	zc->bytes = 0;
	return true;
}

/*
 * The piece of a page that begins at @va and is at most @len bytes long. Kernel
 * consumers may send out of memory whose pages are not reference-counted.
 */
static bool kw_zc_piece(struct bio_vec *bv, const u8 *va, u32 len)
{
	struct page *page, *head;
	size_t off;

	if (!virt_addr_valid(va))
		return false;
	page = virt_to_page(va);
	head = compound_head(page);
	if (!sendpage_ok(head))
		return false;
	off = page_to_virt(page) - page_to_virt(head) + offset_in_page(va);
	bvec_set_page(bv, head, min_t(size_t, len, page_size(head) - off), off);
	get_page(head);
	return true;
}

/**
 * kw_zc_collect() - refer to the payload of the next FPDU
 * @s: stream with a list
 * @it: where the payload is; moved past it if this returns 0
 * @len: bytes of payload
 *
 * The pieces wait behind the list's end, with one entry free for the bytes
 * before them. kw_zc_add() makes them part of the list.
 *
 * Context: inside s->mem_srcu, socket lock held, transmit token owned.
 * Return: 0; -EAGAIN if the payload is to be copied, -EMSGSIZE if the list is
 * too full for it, -EACCES if a right is missing.
 */
int kw_zc_collect(struct kw_stream *s, struct kw_sg_iter *it, u32 len)
{
	struct kw_zcopy *zc = s->zc;
	/* One entry before, and one for the transmit buffer's last bytes. */
	const u32 room = MAX_SKB_FRAGS - 2 - min_t(u32, zc->nr,
						   MAX_SKB_FRAGS - 2);
	struct bio_vec *bv = &zc->vec[zc->nr + 1];
	const struct kiwarp_sge *sge = it->sge;
	u32 off = it->off;
	int ret;

	zc->pieces = 0;
	if (len < KW_ZC_PAYLOAD_MIN)
		return -EAGAIN;
	while (len) {
		ret = -EACCES;
		if (!it->run.len && !kw_sg_next(s, it))
			goto drop;
		ret = zc->nr ? -EMSGSIZE : -EAGAIN;
		if (zc->pieces == room || (it->mem && it->mem->copied) ||
		    !kw_zc_piece(bv, it->run.va, min_t(u64, it->run.len, len)))
			goto drop;
		kw_sg_advance(it, bv->bv_len);
		len -= bv->bv_len;
		bv++;
		zc->pieces++;
	}
	return 0;
drop:
	for (; zc->pieces; zc->pieces--)
		put_page((--bv)->bv_page);
	kw_sg_release(it);
	it->sge = sge;
	it->off = off;
	return ret;
}

/* Add the transmit buffer's bytes from the list's tail to @end. */
static void kw_zc_add_headers(struct kw_stream *s, const u8 *end)
{
	struct kw_zcopy *zc = s->zc;
	struct page *page = s->tx.frag.page;

	bvec_set_page(&zc->vec[zc->nr++], page, end - zc->tail,
		      zc->tail - (u8 *)page_address(page));
	get_page(page);
}

/**
 * kw_zc_add() - make the pieces that kw_zc_collect() found part of the list
 * @s: stream
 * @at: their place in the transmit buffer: bytes before it precede them
 * @crc: a CRC32C so far
 *
 * Context: as kw_zc_collect().
 * Return: the CRC over them, too, if there are CRCs.
 */
u32 kw_zc_add(struct kw_stream *s, u8 *at, u32 crc)
{
	struct kw_zcopy *zc = s->zc;
	const struct bio_vec *bv;

	kw_zc_add_headers(s, at);
	zc->tail = at;
	for (; zc->pieces; zc->pieces--) {
		bv = &zc->vec[zc->nr++];
		zc->bytes += bv->bv_len;
		if (s->p.crc)
			crc = kw_crc32c_auto(crc, page_address(bv->bv_page) +
					     bv->bv_offset, bv->bv_len);
	}
	return crc;
}

/**
 * kw_zc_finish() - complete the list, if there is one
 * @s: stream
 * @end: where the bytes in the transmit buffer end
 *
 * Context: socket lock held, transmit token owned.
 * Return: bytes in the list, all of them for kw_zc_send(); 0 if there is none.
 */
__hot u32 kw_zc_finish(struct kw_stream *s, const u8 *end)
{
	struct kw_zcopy *zc = s->zc;
	u32 len = 0, i;

	if (!zc || !zc->msg)
		return 0;
	if (zc->tail != end)
		kw_zc_add_headers(s, end);
	for (i = 0; i < zc->nr; i++)
		len += zc->vec[i].bv_len;
	if (!len)
		kw_zc_drop_list(zc);
	iov_iter_bvec(&zc->iter, ITER_SOURCE, zc->vec, zc->nr, len);
	return len;
}

/*
 * Pieces become fragments of a socket buffer. TCP's own function for that would
 * charge a page for each header, and so fill the send buffer.
 */
static int kw_zc_fill(struct sk_buff *skb, struct iov_iter *from, size_t len)
{
	while (len && iov_iter_count(from)) {
		const struct bio_vec *bv = from->bvec;
		u32 off = from->iov_offset;
		u32 n = min_t(size_t, len, bv->bv_len - off);

		if (skb_append_pagefrags(skb, bv->bv_page, bv->bv_offset + off,
					 n, MAX_SKB_FRAGS))
			return -EMSGSIZE;
		skb_len_add(skb, n);
		iov_iter_advance(from, n);
		len -= n;
	}
	return 0;
}

/**
 * kw_zc_send() - give TCP what is left of the list
 * @s: stream with a list that is complete
 * @flags: MSG_MORE or 0
 *
 * Context: socket lock held, transmit token owned.
 * Return: bytes taken, or -errno. The list is gone when all of it is.
 */
int kw_zc_send(struct kw_stream *s, u32 flags)
{
	struct kw_zcopy *zc = s->zc;
	struct sock *sk = s->sock->sk;
	struct msghdr msg = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_ZEROCOPY |
			     MSG_EOR | flags,
		.msg_iter = zc->iter,
		.msg_ubuf = &zc->msg->ubuf,
		.sg_from_iter = kw_zc_fill,
	};
	int n = tcp_sendmsg_locked(sk, &msg, iov_iter_count(&msg.msg_iter));

	if (n <= 0)
		return n;
	zc->iter = msg.msg_iter;
	if (!iov_iter_count(&zc->iter)) {
		/* An interface may have lost the ability meanwhile: see above. */
		if (sk->sk_route_caps & NETIF_F_SG)
			kw_pass_count(s, KW_CNT_TX_ZCOPY_OCTETS, zc->bytes);
		kw_zc_drop_list(zc);
	}
	return n;
}
