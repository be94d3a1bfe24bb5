/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The part of the kernel that kernel/stream/ uses, for a process with one
 * thread. It is included before every file of kernel/stream/, whose own includes
 * find empty files of the same names.
 *
 * It checks what holds in the kernel: a socket is not locked twice, a work does
 * not run when it was cancelled, what is allocated is freed. kernel.cc has the
 * functions, shim.h those by which a fuzzer controls them.
 */
#ifndef SHIM_KERNEL_H
#define SHIM_KERNEL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "wire/types.h"

typedef long long s64;
typedef unsigned int gfp_t;
typedef struct {
  unsigned int val;
} kuid_t;

#ifdef __cplusplus
extern "C" {
#endif

void shim_broken(const char* file, int line, const char* what);
#define SHIM_CHECK(c) ((c) ? (void)0 : shim_broken(__FILE__, __LINE__, #c))

/* Tracepoints: none, neither the kernel's nor those of trace.h */

#define trace_sk_data_ready(sk) \
  do {                          \
  } while (0)
#define trace_kw_fpdu_received(s, fpdus, bytes) \
  do {                                          \
  } while (0)
#define trace_kw_fpdu_sent(s, fpdus, bytes) \
  do {                                      \
  } while (0)
#define trace_kw_terminate_received(ibdev, qpn, code) \
  do {                                                \
  } while (0)
#define trace_kw_terminate_sent(ibdev, qpn, code) \
  do {                                            \
  } while (0)

/* Language */

#define INDIRECT_CALL_2(f, f2, f1, ...) (f)(__VA_ARGS__)
#define READ_ONCE(x) (*(const volatile __typeof__(x)*)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x)*)&(x) = (v))
#define IS_ALIGNED(x, a) (((x) & ((__typeof__(x))(a)-1)) == 0)
/* There is one CPU. */
#define try_cmpxchg(p, old, new) (*(p) == *(old) ? (*(p) = (new), true) : (*(old) = *(p), false))
#define container_of(p, type, member) ((type*)((char*)(p)-offsetof(type, member)))
#define BIT(n) (1UL << (n))
#define DIV_ROUND_UP(n, d) (((n) + (d)-1) / (d))
#define fallthrough __attribute__((__fallthrough__))
#define __ro_after_init
#define noinline __attribute__((__noinline__))
#define get_unaligned(p)          \
  ({                              \
    __typeof__(*(p) + 0) v_;      \
    memcpy(&v_, (p), sizeof(v_)); \
    v_;                           \
  })
#define U16_MAX 0xffffU
#define unlikely(x) (x)
#define memset_startat(obj, v, member)                             \
  memset((char*)(obj) + offsetof(__typeof__(*(obj)), member), (v), \
         sizeof(*(obj)) - offsetof(__typeof__(*(obj)), member))
#define U32_MAX 0xffffffffU
#define U64_MAX (~0ULL)

#ifndef __cplusplus
#define min_t(t, a, b) ((t)(a) < (t)(b) ? (t)(a) : (t)(b))
#define max_t(t, a, b) ((t)(a) > (t)(b) ? (t)(a) : (t)(b))
#define clamp_t(t, v, lo, hi) min_t(t, max_t(t, v, lo), hi)
#define min(a, b) min_t(__typeof__((a) + (b)), a, b)
#define min3(a, b, c) min(min(a, b), c)
#define max(a, b) max_t(__typeof__((a) + (b)), a, b)
#define clamp(v, lo, hi) clamp_t(__typeof__(v), v, lo, hi)
#define ALIGN(n, to) (((n) + (to)-1) / (to) * (to))
#define swap(a, b)          \
  do {                      \
    __typeof__(a) t_ = (a); \
    (a) = (b);              \
    (b) = t_;               \
  } while (0)
#endif

#define WARN_ON_ONCE(c) \
  ({                    \
    bool w_ = (c);      \
    SHIM_CHECK(!w_);    \
    w_;                 \
  })
/* The arguments are used, as the real one uses them, but nothing is printed. */
#define pr_debug_ratelimited(...)          \
  do {                                     \
    if (shim_verbose) printf(__VA_ARGS__); \
  } while (0)
extern bool shim_verbose;

/* Atomics */

typedef struct {
  int counter;
} atomic_t;
typedef struct {
  s64 counter;
} atomic64_t;

static inline void atomic_set(atomic_t* a, int v) { a->counter = v; }
static inline int atomic_read(const atomic_t* a) { return a->counter; }
static inline void atomic_andnot(int v, atomic_t* a) { a->counter &= ~v; }
static inline void atomic_or(int v, atomic_t* a) { a->counter |= v; }
static inline int atomic_fetch_or(int v, atomic_t* a) {
  int old = a->counter;

  a->counter |= v;
  return old;
}
static inline int atomic_cmpxchg(atomic_t* a, int old, int v) {
  int was = a->counter;

  if (was == old) a->counter = v;
  return was;
}
static inline void atomic64_add(s64 v, atomic64_t* a) { a->counter += v; }
static inline void atomic64_inc(atomic64_t* a) { a->counter++; }
static inline s64 atomic64_read(const atomic64_t* a) { return a->counter; }
#define smp_mb__after_atomic() ((void)0)
#define smp_mb__before_atomic() ((void)0)
#define smp_mb() ((void)0)
#define smp_load_acquire(p) (*(p))
#define smp_store_release(p, v) ((void)(*(p) = (v)))
#define cpu_relax() SHIM_CHECK(!"one thread would wait for ever")
#define IS_ENABLED(option) 0
#define preemptible() false
#define rcu_preempt_depth() 0
#define schedule_timeout_uninterruptible(t) ((void)(t))
#define cond_resched() ((void)0)
#define fatal_signal_pending(task) false

static inline void atomic_inc(atomic_t* a) { a->counter++; }
static inline void atomic_dec(atomic_t* a) { a->counter--; }
static inline bool atomic_inc_not_zero(atomic_t* a) { return a->counter != 0 && ++a->counter; }
static inline bool atomic_add_unless(atomic_t* a, int v, int unless) {
  if (a->counter == unless) return false;
  a->counter += v;
  return true;
}
static inline int atomic_read_acquire(const atomic_t* a) { return a->counter; }

#define ATOMIC_INIT(v) \
  { (v) }
static inline bool atomic_dec_and_test(atomic_t* a) { return --a->counter == 0; }

typedef atomic_t refcount_t;

static inline void refcount_set(refcount_t* r, int v) { r->counter = v; }
static inline void refcount_inc(refcount_t* r) {
  SHIM_CHECK(r->counter > 0);
  r->counter++;
}
static inline bool refcount_dec_and_test(refcount_t* r) {
  SHIM_CHECK(r->counter > 0);
  return --r->counter == 0;
}

struct kref {
  refcount_t refcount;
};

static inline void kref_init(struct kref* k) { k->refcount.counter = 1; }
static inline void kref_get(struct kref* k) { refcount_inc(&k->refcount); }
static inline void kref_put(struct kref* k, void (*release)(struct kref* k)) {
  if (refcount_dec_and_test(&k->refcount)) release(k);
}

static inline void set_bit(int nr, unsigned long* p) { *p |= 1UL << nr; }
static inline void clear_bit(int nr, unsigned long* p) { *p &= ~(1UL << nr); }

/* Locks, which one thread does not need but must not take twice, and lists. */

typedef struct {
  bool held;
} spinlock_t;
typedef spinlock_t raw_spinlock_t;

static inline void shim_spin_lock(spinlock_t* l) {
  SHIM_CHECK(!l->held);
  l->held = true;
}
static inline void shim_spin_unlock(spinlock_t* l) {
  SHIM_CHECK(l->held);
  l->held = false;
}
#define spin_lock_init(l) ((l)->held = false)
#define spin_lock_irq(l) shim_spin_lock(l)
#define spin_unlock_irq(l) shim_spin_unlock(l)
#define raw_spin_lock_init(l) spin_lock_init(l)
#define raw_spin_lock_irq(l) shim_spin_lock(l)
#define raw_spin_unlock_irq(l) shim_spin_unlock(l)
#define raw_spin_lock_irqsave(l, f) spin_lock_irqsave(l, f)
#define raw_spin_unlock_irqrestore(l, f) spin_unlock_irqrestore(l, f)
#define __acquires(l)
#define __releases(l)
#define spin_lock_irqsave(l, f) ((f) = 0, shim_spin_lock(l))
#define spin_unlock_irqrestore(l, f) ((void)(f), shim_spin_unlock(l))
#define rcu_read_lock() ((void)0)
#define rcu_read_unlock() ((void)0)
#define synchronize_rcu() ((void)0)

struct list_head {
  struct list_head *next, *prev;
};

#define LIST_HEAD(l) struct list_head l = {&(l), &(l)}
static inline void INIT_LIST_HEAD(struct list_head* l) { l->next = l->prev = l; }
static inline void list_add_tail(struct list_head* e, struct list_head* l) {
  e->next = l;
  e->prev = l->prev;
  l->prev->next = e;
  l->prev = e;
}
static inline void list_splice_init(struct list_head* from, struct list_head* to) {
  if (from->next == from) return;
  from->next->prev = to;
  from->prev->next = to->next;
  to->next->prev = from->prev;
  to->next = from->next;
  INIT_LIST_HEAD(from);
}
#define list_for_each_entry_safe(e, n, l, m)                \
  for ((e) = container_of((l)->next, __typeof__(*(e)), m),  \
      (n) = container_of((e)->m.next, __typeof__(*(e)), m); \
       &(e)->m != (l); (e) = (n), (n) = container_of((e)->m.next, __typeof__(*(e)), m))

/* No other thread could make the condition true. */
typedef struct {
  char unused;
} wait_queue_head_t;

// In linger.c, which is not among the fuzzed files.
struct xarray {
  int unused;
};

#define DECLARE_WAIT_QUEUE_HEAD(q) wait_queue_head_t q
#define wake_up(q) ((void)(q))
#define wait_event(q, c) ((void)(q), SHIM_CHECK(c))

/* Sleepable RCU: waiting for readers from inside a reader would never end. */

struct srcu_struct {
  int readers;
};

static inline int srcu_read_lock(struct srcu_struct* s) { return s->readers++; }
static inline void srcu_read_unlock(struct srcu_struct* s, int idx) {
  s->readers--;
  SHIM_CHECK(s->readers == idx);
}
static inline int init_srcu_struct(struct srcu_struct* s) { return s->readers = 0; }
static inline void cleanup_srcu_struct(struct srcu_struct* s) { SHIM_CHECK(s->readers == 0); }
// Nothing of what is tested here calls call_srcu().
static inline void srcu_barrier(struct srcu_struct* s) { SHIM_CHECK(s->readers == 0); }

/* Time and work */

#define HZ 250
extern unsigned long jiffies;
#define msecs_to_jiffies(ms) ((unsigned long)(ms)*HZ / 1000)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)
#define time_before(a, b) (!time_after_eq(a, b))
#define time_after(a, b) time_before(b, a)

struct work_struct {
  void (*func)(struct work_struct* work);
};
struct delayed_work {
  struct work_struct work;
  bool pending;
  unsigned long due;
};
struct workqueue_struct;

#define WQ_UNBOUND 0
#define WQ_MEM_RECLAIM 0
#define WQ_HIGHPRI 0
#define WQ_MAX_ACTIVE 0

struct workqueue_struct* alloc_workqueue(const char* name, unsigned int flags, int max_active);
void destroy_workqueue(struct workqueue_struct* wq);
bool mod_delayed_work(struct workqueue_struct* wq, struct delayed_work* dw, unsigned long delay);
bool cancel_delayed_work(struct delayed_work* dw);
/* For queue pairs alone. */
#define queue_work(wq, work) ((void)(work), SHIM_CHECK(!"a queue pair"), false)
#define cancel_delayed_work_sync(dw) cancel_delayed_work(dw)
#define to_delayed_work(w) container_of(w, struct delayed_work, work)
#define INIT_DELAYED_WORK(dw, f) (*(dw) = (struct delayed_work){.work = {.func = (f)}})

/* Memory */

#define GFP_KERNEL 0
#define GFP_ATOMIC 1 /* may fail, and does when the fuzzer wants it to */
#define __GFP_NOWARN 0
#define __GFP_ACCOUNT 0
#define GFP_KERNEL_ACCOUNT 0
#define __GFP_NORETRY 0
#define __GFP_COMP 0
#define PAGE_SIZE 4096UL

struct page {
  u8* bytes;
  unsigned int order;
  int refs;
};
struct page_frag {
  struct page* page;
  u32 offset;
  u32 size;
};

void* kcalloc(size_t n, size_t size, gfp_t gfp);
void kfree(const void* p);
#define kzalloc(size, gfp) kcalloc(1, size, gfp)
#define kvcalloc(n, size, gfp) kcalloc(n, size, gfp)
#define kvfree(p) kfree(p)
/* Large pages are small here, so that their end is reached often. */
#define get_order(size) 1
#define PAGE_ALLOC_COSTLY_ORDER 0
struct page* alloc_pages(gfp_t gfp, unsigned int order);
#define alloc_page(gfp) alloc_pages(gfp, 0)
void get_page(struct page* page);
void put_page(struct page* page);
#define __free_page(page) put_page(page)
static inline void* page_address(const struct page* page) { return page->bytes; }
/*
 * All memory that is no page of the shim's is one large page that begins at
 * address 0. References to it count as allocations.
 */
extern struct page shim_memory;
#define virt_addr_valid(va) ((va) != NULL)
#define virt_to_page(va) ((void)(va), &shim_memory)
#define compound_head(page) (page)
#define sendpage_ok(page) ((page) == &shim_memory)
#define page_to_virt(page) ((page)->bytes)
#define offset_in_page(va) ((size_t)(va))
#define page_size(page) ((void)(page), SIZE_MAX)
#define compound_order(page) ((page)->order)
#define page_is_pfmemalloc(page) ((void)(page), false)
#define page_ref_count(page) ((page)->refs)

/* Socket buffers */

#define MAX_SKB_FRAGS 17

typedef struct {
  u8* bytes;
  u32 len;
} skb_frag_t;

struct sk_buff;
struct skb_shared_info {
  u8 nr_frags;
  skb_frag_t frags[MAX_SKB_FRAGS];
  struct sk_buff* frag_list;
};
struct tcp_skb_cb {
  u32 seq;
  u32 end_seq;
  u8 tcp_flags;
  u8 eor;
};
struct sk_buff {
  struct sk_buff* next;
  u32 len;
  u32 data_len;
  u8* data;
  struct tcp_skb_cb cb;
  struct skb_shared_info shinfo;
};
struct sk_buff_head {
  struct sk_buff* first;
  struct sk_buff* last;
};

#define TCP_SKB_CB(skb) (&(skb)->cb)
#define TCPHDR_FIN 0x01
#define skb_shinfo(skb) (&(skb)->shinfo)
#define skb_headlen(skb) ((skb)->len - (skb)->data_len)
#define skb_frag_address(f) ((void*)(f)->bytes)
#define skb_frag_size(f) ((f)->len)
#define skb_frags_readable(skb) true
#define skb_peek_next(skb, queue) ((skb)->next)

struct ubuf_info;
struct ubuf_info_ops {
  void (*complete)(struct sk_buff* skb, struct ubuf_info* ubuf, bool success);
};
struct ubuf_info {
  const struct ubuf_info_ops* ops;
  refcount_t refcnt;
  u8 flags;
};

#define SKBFL_ZEROCOPY_FRAG 1
#define SKBFL_DONT_ORPHAN 2
#define net_zcopy_get(u) refcount_inc(&(u)->refcnt)
#define net_zcopy_put(u) (u)->ops->complete(NULL, u, true)

/* Sockets */

struct bio_vec {
  struct page* bv_page;
  u32 bv_len;
  size_t bv_offset;
};
struct iov_iter {
  const struct bio_vec* bvec;
  size_t iov_offset;
  size_t count;
};
struct msghdr {
  unsigned int msg_flags;
  struct iov_iter msg_iter;
  struct ubuf_info* msg_ubuf;
  int (*sg_from_iter)(struct sk_buff* skb, struct iov_iter* from, size_t len);
};
#define ITER_SOURCE 1
static inline void bvec_set_page(struct bio_vec* bv, struct page* page, u32 len, size_t off) {
  bv->bv_page = page;
  bv->bv_len = len;
  bv->bv_offset = off;
}
static inline void iov_iter_bvec(struct iov_iter* it, int dir, const struct bio_vec* bv, int n,
                                 size_t len) {
  size_t sum = 0;
  int i;

  for (i = 0; i < n; i++) sum += bv[i].bv_len;
  SHIM_CHECK(dir == ITER_SOURCE && len == sum);
  it->bvec = bv;
  it->iov_offset = 0;
  it->count = len;
}
#define iov_iter_count(it) ((it)->count)
static inline void iov_iter_advance(struct iov_iter* it, size_t n) {
  SHIM_CHECK(n <= it->count && it->iov_offset + n <= it->bvec->bv_len);
  it->count -= n;
  it->iov_offset += n;
  if (it->iov_offset == it->bvec->bv_len) {
    it->bvec++;
    it->iov_offset = 0;
  }
}
int skb_append_pagefrags(struct sk_buff* skb, struct page* page, size_t off, size_t len,
                         size_t max_frags);
static inline void skb_len_add(struct sk_buff* skb, u32 n) {
  skb->len += n;
  skb->data_len += n;
}

#define MSG_DONTWAIT 0x01
#define MSG_NOSIGNAL 0x02
#define MSG_SPLICE_PAGES 0x04
#define MSG_NO_SHARED_FRAGS 0x08
#define MSG_MORE 0x10
#define MSG_EOR 0x20
#define MSG_ZEROCOPY 0x40
#define NETIF_F_SG 1
#define SOCK_NOSPACE 2
#define RCV_SHUTDOWN 1
#define SHUT_WR 1
#define TCP_ESTABLISHED 1
#define TCP_CLOSE 7
#define TCP_NAGLE_OFF 1

enum sock_flags { SOCK_DONE, SOCK_LINGER };

struct socket {
  struct sock* sk;
  unsigned long flags;
};
struct mem_cgroup;
/* Nothing is charged. */
static inline struct mem_cgroup* set_active_memcg(struct mem_cgroup* memcg) { return memcg; }
struct sock {
  struct {
    bool slock;
    bool owned;
  } sk_lock;
  int sk_callback_lock;
  struct socket* sk_socket;
  void* sk_user_data;
  void (*sk_data_ready)(struct sock* sk);
  void (*sk_state_change)(struct sock* sk);
  void (*sk_write_space)(struct sock* sk);
  void (*sk_error_report)(struct sock* sk);
  struct sk_buff_head sk_receive_queue;
  int sk_state;
  int sk_err;
  int sk_shutdown;
  int sk_rcvbuf;
  int sk_sndbuf;
  int sk_wmem_queued;
  int sk_rmem_alloc;
  gfp_t sk_allocation;
  unsigned int sk_route_caps;
  bool sk_use_task_frag;
  unsigned long sk_lingertime;
  unsigned long sk_flags;
  int charged;   /* bytes, beyond those of the send buffer */
  bool pressure; /* TCP is short of memory */
  bool blocked;  /* the send buffer is full */
  bool fin_sent;
  bool released;
};
struct inet_connection_sock {
  u32 icsk_delack_max;
  u8 icsk_retransmits;
  struct {
    u16 rcv_mss;
  } icsk_ack;
};

struct tcp_sock {
  struct sock sk;
  struct inet_connection_sock csk;
  u32 copied_seq;
  u32 rcv_nxt;
  u32 rcv_wup;
  u32 snd_una; /* what is sent is acknowledged at once */
  u32 write_seq;
  u32 mss_cache;
  int nonagle;
};

#define tcp_sk(sk) ((struct tcp_sock*)(sk))
#define inet_csk(sk) (&tcp_sk(sk)->csk)
#define sock_set_flag(sk, flag) ((sk)->sk_flags |= 1UL << (flag))
#define sock_flag(sk, flag) (!!((sk)->sk_flags & 1UL << (flag)))
#define sk_rmem_alloc_get(sk) ((sk)->sk_rmem_alloc)
#define tcp_under_memory_pressure(sk) ((sk)->pressure)
#define sk_wmem_schedule(sk, n) ((void)(sk), (void)(n), true)
#define sk_mem_charge(sk, n) ((sk)->charged += (n))
#define sk_mem_uncharge(sk, n) ((sk)->charged -= (n))
#define sk_stream_memory_free(sk) (!(sk)->blocked)
#define sk_stream_is_writeable(sk) (!(sk)->blocked)
#define sock_owned_by_user(sk) ((sk)->sk_lock.owned)
#define write_lock_bh(lock) ((void)(lock))
#define write_unlock_bh(lock) ((void)(lock))
#define DECLARE_PER_CPU(type, name) extern type name
#define DEFINE_PER_CPU(type, name) type name
#define __percpu
#define this_cpu_ptr(p) (p)
#define this_cpu_add(v, n) ((v) += (n))
#define per_cpu_ptr(p, cpu) ((void)(cpu), (p))
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < 1; (cpu)++)
#define local_bh_disable() ((void)0)
#define local_bh_enable() ((void)0)
typedef bool local_lock_t;
#define INIT_LOCAL_LOCK(name) false
#define local_lock_nested_bh(lock) ((void)(lock))
#define local_unlock_nested_bh(lock) ((void)(lock))

/* Sections with vector registers do not nest; the host's need no saving. */
#ifdef __x86_64__
#define CONFIG_X86_64 1
#endif
#define CONFIG_UML 1
extern bool shim_in_fpu;
#define irq_fpu_usable() (!shim_in_fpu)
#define kernel_fpu_begin() (SHIM_CHECK(!shim_in_fpu), shim_in_fpu = true)
#define kernel_fpu_end() (SHIM_CHECK(shim_in_fpu), shim_in_fpu = false)
#define in_hardirq() false
/* A run of a softirq goes on until shim::newSoftirq(), or until time passes. */
extern bool shim_in_softirq;
#define in_serving_softirq() shim_in_softirq
enum { NET_RX_SOFTIRQ, IRQ_POLL_SOFTIRQ, TASKLET_SOFTIRQ, NR_SOFTIRQS };
struct kernel_stat {
  unsigned int softirqs[NR_SOFTIRQS];
};
extern struct kernel_stat shim_kernel_stat;
#define kstat_this_cpu (&shim_kernel_stat)
#define irqs_disabled() false

void lock_sock(struct sock* sk);
void release_sock(struct sock* sk);
bool shim_slock(struct sock* sk, bool try_only);
void bh_unlock_sock(struct sock* sk);
#define bh_lock_sock(sk) shim_slock(sk, false)
#define spin_trylock(lock) shim_slock(container_of(lock, struct sock, sk_lock.slock), true)

int tcp_inq(struct sock* sk);
struct sk_buff* tcp_recv_skb(struct sock* sk, u32 seq, u32* off);
void tcp_read_done(struct sock* sk, size_t len);
int tcp_sendmsg_locked(struct sock* sk, struct msghdr* msg, size_t len);
/* What was sent is gone from the queue at once. */
#define tcp_write_queue_tail(sk) ((void)(sk), (struct sk_buff*)NULL)
#define tcp_skb_can_collapse_to(skb) (!(skb)->cb.eor)
int kernel_sock_shutdown(struct socket* sock, int how);
void sock_release(struct socket* sock);
void sock_no_linger(struct sock* sk);

/* The RDMA core's names for rights and results. */

enum {
  IB_ACCESS_LOCAL_WRITE = 1 << 0,
  IB_ACCESS_REMOTE_WRITE = 1 << 1,
  IB_ACCESS_REMOTE_READ = 1 << 2,
  IB_ACCESS_REMOTE_ATOMIC = 1 << 3,
};

enum ib_wc_status {
  IB_WC_SUCCESS,
  IB_WC_LOC_LEN_ERR,
  IB_WC_LOC_QP_OP_ERR,
  IB_WC_LOC_EEC_OP_ERR,
  IB_WC_LOC_PROT_ERR,
  IB_WC_WR_FLUSH_ERR,
  IB_WC_MW_BIND_ERR,
  IB_WC_BAD_RESP_ERR,
  IB_WC_LOC_ACCESS_ERR,
  IB_WC_REM_INV_REQ_ERR,
  IB_WC_REM_ACCESS_ERR,
  IB_WC_REM_OP_ERR,
};

#ifdef __cplusplus
}
#endif

#endif /* SHIM_KERNEL_H */
