// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
// The functions of kernel.h.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "shim.h"

struct workqueue_struct {};

namespace {

// The kernel's smallest buffer when memory is short: its end is reached often.

// A fuzzer is one thread with one machine.
struct Machine {
  long allocated = 0;
  unsigned fail_in = 0;
  std::vector<delayed_work*> works;
  workqueue_struct wq;
} machine;

bool allocationFails(gfp_t gfp) {
  return gfp == GFP_ATOMIC && machine.fail_in != 0 && --machine.fail_in == 0;
}

void* allocate(size_t size) {
  machine.allocated++;
  return std::calloc(1, size != 0 ? size : 1);
}

// The caller writes all of it.
u8* allocateBytes(size_t size) {
  machine.allocated++;
  return static_cast<u8*>(std::malloc(size != 0 ? size : 1));
}

void release(void* p) {
  if (p == nullptr) return;
  machine.allocated--;
  std::free(p);
}

void freeSkb(sk_buff* skb) {
  if (skb == nullptr) return;
  freeSkb(skb->shinfo.frag_list);
  // Adjoining fragments are one allocation, that of the first.
  const u8* end = nullptr;
  for (u32 i = 0; i < skb->shinfo.nr_frags; i++) {
    const skb_frag_t& f = skb->shinfo.frags[i];
    if (f.bytes != end) release(f.bytes);
    end = f.bytes + f.len;
  }
  release(skb->data);
  release(skb);
}

// What has been sent is acknowledged: TCP releases it.
void acknowledge(std::vector<ubuf_info*>* held) {
  for (ubuf_info* ubuf : std::exchange(*held, {})) ubuf->ops->complete(nullptr, ubuf, true);
}

shim::Tcp* tcpOf(sock* sk) {
  return static_cast<shim::Tcp*>(static_cast<void*>(sk->sk_socket->sk));
}

u8* copyOf(const u8* p, size_t len) {
  u8* copy = allocateBytes(len);
  std::copy_n(p, len, copy);
  return copy;
}

sk_buff* makeSkb(const u8* p, u32 len, const shim::Layout& layout) {
  auto* skb = static_cast<sk_buff*>(allocate(sizeof(sk_buff)));
  skb_shared_info& si = skb->shinfo;
  const u32 head = std::min(len, layout.head);
  skb->len = len;
  skb->data_len = len - head;
  skb->data = copyOf(p, head);
  p += head;
  u32 left = len - head;

  if (layout.list && left > 1) {
    shim::Layout second = layout;
    second.list = false;
    const u32 half = left / 2;
    si.frag_list = makeSkb(p + left - half, half, second);
    left -= half;
  }
  u8* block = layout.adjoin && left != 0 ? copyOf(p, left) : nullptr;
  while (left != 0) {
    const bool last = si.nr_frags == MAX_SKB_FRAGS - 1;
    const u32 n = last ? left : std::min(left, std::max(layout.frag, 1U));
    u8* bytes = block != nullptr ? block : copyOf(p, n);
    si.frags[si.nr_frags++] = {bytes, n};
    if (block != nullptr) block += n;
    p += n;
    left -= n;
  }
  return skb;
}

void popSkb(sock* sk) {
  sk_buff* skb = sk->sk_receive_queue.first;
  sk->sk_receive_queue.first = skb->next;
  if (skb->next == nullptr) sk->sk_receive_queue.last = nullptr;
  sk->sk_rmem_alloc -= static_cast<int>(skb->len);
  freeSkb(skb);
}

void pushSkb(sock* sk, sk_buff* skb) {
  sk_buff_head& q = sk->sk_receive_queue;
  (q.last != nullptr ? q.last->next : q.first) = skb;
  q.last = skb;
  sk->sk_rmem_alloc += static_cast<int>(skb->len);
}

void nobodyListens(sock*) {}

// What TCP calls from here on until the end of the block it calls in softirq.
class SoftIrq {
 public:
  explicit SoftIrq(sock* sk) : sk_(sk) { shim_in_softirq = sk_->sk_lock.slock = true; }
  ~SoftIrq() { shim_in_softirq = sk_->sk_lock.slock = false; }
  SoftIrq(const SoftIrq&) = delete;
  SoftIrq& operator=(const SoftIrq&) = delete;

 private:
  sock* sk_;
};

}  // namespace

extern "C" {

bool shim_verbose;
unsigned long jiffies;

bool shim_in_fpu;
bool shim_in_softirq;
struct kernel_stat shim_kernel_stat;

void shim_broken(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: not %s\n", file, line, what);
  std::abort();
}

void* kcalloc(size_t n, size_t size, gfp_t gfp) {
  return allocationFails(gfp) ? nullptr : allocate(n * size);
}

void kfree(const void* p) { release(const_cast<void*>(p)); }

struct page* alloc_pages(gfp_t gfp, unsigned int order) {
  if (allocationFails(gfp)) return nullptr;
  auto* page = static_cast<struct page*>(allocate(sizeof(struct page)));
  page->bytes = static_cast<u8*>(allocate(PAGE_SIZE << order));
  page->order = order;
  page->refs = 1;
  return page;
}

struct page shim_memory;

void get_page(struct page* page) {
  page->refs++;
  if (page == &shim_memory) machine.allocated++;
}

void put_page(struct page* page) {
  SHIM_CHECK(page->refs > 0);
  page->refs--;
  if (page == &shim_memory) {
    machine.allocated--;
  } else if (page->refs == 0) {
    release(page->bytes);
    release(page);
  }
}

workqueue_struct* alloc_workqueue(const char*, unsigned int, int) { return &machine.wq; }

void destroy_workqueue(workqueue_struct*) {}

bool mod_delayed_work(workqueue_struct* wq, delayed_work* dw, unsigned long delay) {
  SHIM_CHECK(wq == &machine.wq);
  const bool was = dw->pending;
  if (!was) machine.works.push_back(dw);
  dw->pending = true;
  dw->due = jiffies + delay;
  return was;
}

bool cancel_delayed_work(delayed_work* dw) {
  const bool was = dw->pending;
  dw->pending = false;
  std::erase(machine.works, dw);
  return was;
}

void lock_sock(sock* sk) {
  SHIM_CHECK(!sk->released && !sk->sk_lock.owned && !sk->sk_lock.slock);
  sk->sk_lock.owned = true;
}

void release_sock(sock* sk) {
  SHIM_CHECK(sk->sk_lock.owned);
  sk->sk_lock.owned = false;
}

bool shim_slock(sock* sk, bool try_only) {
  SHIM_CHECK(!sk->released);
  if (try_only && sk->sk_lock.slock) return false;
  SHIM_CHECK(!sk->sk_lock.slock);
  sk->sk_lock.slock = true;
  return true;
}

void bh_unlock_sock(sock* sk) {
  SHIM_CHECK(sk->sk_lock.slock);
  sk->sk_lock.slock = false;
}

int tcp_inq(sock* sk) {
  const int bytes = static_cast<int>(tcp_sk(sk)->rcv_nxt - tcp_sk(sk)->copied_seq);
  // A FIN takes a sequence number, but is not a byte.
  return bytes > 0 && sock_flag(sk, SOCK_DONE) ? bytes - 1 : bytes;
}

sk_buff* tcp_recv_skb(sock* sk, u32 seq, u32* off) {
  while (sk_buff* skb = sk->sk_receive_queue.first) {
    *off = seq - skb->cb.seq;
    if (*off < skb->len || (skb->cb.tcp_flags & TCPHDR_FIN) != 0) return skb;
    popSkb(sk);
  }
  return nullptr;
}

void tcp_read_done(sock* sk, size_t len) {
  SHIM_CHECK(sk->sk_lock.owned || sk->sk_lock.slock);
  SHIM_CHECK(len <= static_cast<size_t>(tcp_inq(sk)));
  tcp_sock* tp = tcp_sk(sk);
  tp->copied_seq += static_cast<u32>(len);
  while (sk_buff* skb = sk->sk_receive_queue.first) {
    const u32 off = tp->copied_seq - skb->cb.seq;
    if (off < skb->len) break;
    if ((skb->cb.tcp_flags & TCPHDR_FIN) != 0) tp->copied_seq++;
    popSkb(sk);
  }
}

int kernel_sock_shutdown(socket* sock, int how) {
  SHIM_CHECK(how == SHUT_WR && !sock->sk->sk_lock.owned);
  SHIM_CHECK(!sock->sk->fin_sent);
  sock->sk->fin_sent = true;
  return 0;
}

void sock_release(socket* sock) {
  SHIM_CHECK(!sock->sk->sk_lock.owned && !sock->sk->released);
  acknowledge(&tcpOf(sock->sk)->zcopy_);
  SHIM_CHECK(sock->sk->charged == 0);
  sock->sk->released = true;
}

void sock_no_linger(sock* sk) {
  SHIM_CHECK(!sk->sk_lock.owned);
  sk->sk_lingertime = 0;
  sock_set_flag(sk, SOCK_LINGER);
}

/* linger.c is not among the fuzzed files: this closes in order, as it does. */
void kw_sock_close(socket* sock) { sock_release(sock); }

void kw_sock_reset(socket* sock) {
  sock_no_linger(sock->sk);
  sock_release(sock);
}
// Of kernel consumers alone: the queue pair under test is a process's.
void kw_sock_drop(struct sock*) {}

int tcp_sendmsg_locked(sock* sk, msghdr* msg, size_t len) {
  SHIM_CHECK(sk->sk_lock.owned || sk->sk_lock.slock);
  SHIM_CHECK(!sk->fin_sent && (msg->msg_flags & MSG_DONTWAIT) != 0);
  shim::Tcp* tcp = tcpOf(sk);
  if (sk->sk_err != 0) return -EPIPE;
  if (sk->blocked) return -EAGAIN;
  const bool zcopy = (msg->msg_flags & MSG_ZEROCOPY) != 0;
  sk_buff skb{};
  SHIM_CHECK(len == msg->msg_iter.count);
  if (zcopy) {
    SHIM_CHECK(msg->sg_from_iter(&skb, &msg->msg_iter, len) == 0 && skb.len == len);
    net_zcopy_get(msg->msg_ubuf);
    tcp->zcopy_.push_back(msg->msg_ubuf);
  } else {
    const bio_vec& bv = *msg->msg_iter.bvec;
    SHIM_CHECK(skb_append_pagefrags(&skb, bv.bv_page, bv.bv_offset, len, 1) == 0);
    iov_iter_advance(&msg->msg_iter, len);
  }
  for (u32 i = 0; i < skb.shinfo.nr_frags; i++) {
    const skb_frag_t& f = skb.shinfo.frags[i];
    tcp->sent_.insert(tcp->sent_.end(), f.bytes, f.bytes + f.len);
  }
  tcp_sk(sk)->write_seq += static_cast<u32>(len);
  tcp_sk(sk)->snd_una = tcp_sk(sk)->write_seq;
  return static_cast<int>(len);
}

int skb_append_pagefrags(sk_buff* skb, struct page* page, size_t off, size_t len,
                         size_t max_frags) {
  skb_shared_info& si = skb->shinfo;
  if (si.nr_frags >= std::min<size_t>(max_frags, MAX_SKB_FRAGS)) return -EMSGSIZE;
  // NOLINTNEXTLINE: the one large page begins at address 0.
  auto* bytes = reinterpret_cast<u8*>(reinterpret_cast<uintptr_t>(page->bytes) + off);
  si.frags[si.nr_frags++] = {bytes, static_cast<u32>(len)};
  return 0;
}

}  // extern "C"

namespace shim {

Tcp::Tcp(u32 first_seq, int rcvbuf) {
  sock* sk = &tp_.sk;
  socket_.sk = sk;
  sk->sk_socket = &socket_;
  sk->sk_state = TCP_ESTABLISHED;
  sk->sk_rcvbuf = rcvbuf;
  sk->sk_sndbuf = 1 << 20;
  sk->sk_route_caps = NETIF_F_SG;
  sk->sk_data_ready = nobodyListens;
  sk->sk_state_change = nobodyListens;
  sk->sk_write_space = nobodyListens;
  sk->sk_error_report = nobodyListens;
  tp_.copied_seq = first_seq;
  tp_.rcv_nxt = first_seq;
  tp_.mss_cache = 1448;
}

Tcp::~Tcp() {
  while (tp_.sk.sk_receive_queue.first != nullptr) popSkb(&tp_.sk);
}

void Tcp::arrive(const Bytes& stream, size_t from, size_t len, const Layout& layout) {
  const u32 again = std::min<u32>(layout.overlap, static_cast<u32>(tcp_inq(&tp_.sk)));
  sk_buff* skb = makeSkb(stream.data() + from - again, static_cast<u32>(len) + again, layout);
  skb->cb.seq = tp_.rcv_nxt - again;
  tp_.rcv_nxt += static_cast<u32>(len);
  skb->cb.end_seq = tp_.rcv_nxt;
  pushSkb(&tp_.sk, skb);
}

void Tcp::fin() {
  static const u8 none = 0;
  sk_buff* skb = makeSkb(&none, 0, {});
  skb->cb.seq = tp_.rcv_nxt++;
  skb->cb.end_seq = tp_.rcv_nxt;
  skb->cb.tcp_flags = TCPHDR_FIN;
  pushSkb(&tp_.sk, skb);
  sock_set_flag(&tp_.sk, SOCK_DONE);
  tp_.sk.sk_shutdown |= RCV_SHUTDOWN;
  const SoftIrq softirq(&tp_.sk);
  acknowledge(&zcopy_);
  tp_.sk.sk_state_change(&tp_.sk);
}

void Tcp::reset() {
  tp_.sk.sk_err = ECONNRESET;
  tp_.sk.sk_state = TCP_CLOSE;
  tp_.sk.sk_shutdown |= RCV_SHUTDOWN;
  const SoftIrq softirq(&tp_.sk);
  tp_.sk.sk_error_report(&tp_.sk);
}

void Tcp::dataReady() {
  const SoftIrq softirq(&tp_.sk);
  acknowledge(&zcopy_);
  tp_.sk.sk_data_ready(&tp_.sk);
}

void Tcp::unblock() {
  tp_.sk.blocked = false;
  const SoftIrq softirq(&tp_.sk);
  tp_.sk.sk_write_space(&tp_.sk);
}

void newSoftirq() { ++shim_kernel_stat.softirqs[NET_RX_SOFTIRQ]; }

void runWork(unsigned long delay) {
  const unsigned long until = jiffies + delay;
  while (!machine.works.empty()) {
    const auto next = std::min_element(
        machine.works.begin(), machine.works.end(),
        [](const delayed_work* a, const delayed_work* b) { return a->due < b->due; });
    delayed_work* dw = *next;
    if (!time_after_eq(until, dw->due)) break;
    if (time_after_eq(dw->due, jiffies)) jiffies = dw->due;
    cancel_delayed_work(dw);
    dw->work.func(&dw->work);
  }
  jiffies = until;
}

void runOne(delayed_work* dw) {
  SHIM_CHECK(dw->pending);
  cancel_delayed_work(dw);
  dw->work.func(&dw->work);
}

bool workPending() { return !machine.works.empty(); }

long allocated() { return machine.allocated; }

void failAllocation(unsigned n) { machine.fail_in = n; }

}  // namespace shim
