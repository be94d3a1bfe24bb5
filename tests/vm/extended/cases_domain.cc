// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Parent domains and thread domains: other names for a protection domain, with its rights.

#include <unistd.h>

#include <array>
#include <cerrno>

#include "extended/cases.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kSize = 4096;
constexpr uint64_t kBind = 7;

using Td = std::unique_ptr<ibv_td, VerbsDeleter<ibv_td, ibv_dealloc_td>>;

void* neverAllocates(ibv_pd*, void*, size_t, size_t, uint64_t) { return nullptr; }
void neverFrees(ibv_pd*, void*, void*, uint64_t) {}

ibv_parent_domain_init_attr attributes(ibv_pd* pd, ibv_td* td = nullptr, uint32_t mask = 0) {
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd;
  attr.td = td;
  attr.comp_mask = mask;
  return attr;
}

Td allocTd(Env& env) {
  ibv_td_init_attr attr{};
  Td td(ibv_alloc_td(env.context(), &attr));
  if (!td) fail("ibv_alloc_td: %s", errnoName(errno).c_str());
  return td;
}

Pd allocParent(Env& env, ibv_parent_domain_init_attr attr) {
  Pd parent(ibv_alloc_parent_domain(env.context(), &attr));
  if (!parent) fail("ibv_alloc_parent_domain: %s", errnoName(errno).c_str());
  return parent;
}

void refuse(Env& env, const char* what, int error, ibv_parent_domain_init_attr attr) {
  errno = 0;
  const Pd parent(ibv_alloc_parent_domain(env.context(), &attr));
  expectErrno(what, error, parent ? 0 : errno);
}

int bind(const End& end, ibv_mw* mw, const Buffer& region) {
  ibv_mw_bind attr{};
  attr.wr_id = kBind;
  attr.send_flags = IBV_SEND_SIGNALED;
  attr.bind_info = {region.mr(), region.address(), region.size(), IBV_ACCESS_REMOTE_READ};
  return ibv_bind_mw(end.qp(), mw, &attr);
}

// What is made by a parent domain goes with what is made by the protection domain, and with nothing
// of another's.
void sameRights(Env& env) {
  const std::unique_ptr<Link> link = env.connect();
  const Td td = allocTd(env);
  const Pd parent = allocParent(env, attributes(env.pd(), td.get()));
  const Pd foreign = allocParent(env, attributes(env.otherPd(), td.get()));
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
  const Buffer own(parent.get(), kSize, access);
  const Buffer others(foreign.get(), kSize, access);
  const Mw window = allocMw(parent.get(), IBV_MW_TYPE_1);
  const Mw others_window = allocMw(foreign.get(), IBV_MW_TYPE_1);
  expectErrno("bind by the parent domain", 0, bind(link->client, window.get(), own));
  env.expectWc(link->client.send_cq.get(), kBind, {IBV_WC_SUCCESS}, "bind");
  expectErrno("bind by another's", EPERM, bind(link->client, others_window.get(), others));
  env.expectAlive(*link);
  mustRecv(link->server.qp(), 1, {own.sge(0, 16)});
  expectErrno("a Send", 0, postSend(link->client.qp(), {Work::send(2, {own.sge(16, 16)})}).error);
  env.expectWc(link->server.recv_cq.get(), 1, {IBV_WC_SUCCESS}, "a receive");
  env.expectWc(link->client.send_cq.get(), 2, {IBV_WC_SUCCESS}, "a Send");
  mustRecv(link->server.qp(), 3, {others.sge(0, 16)});
  expectErrno("a Send to another's memory", 0,
              postSend(link->client.qp(), {Work::send(4, {own.sge(16, 16)})}).error);
  env.expectWc(link->server.recv_cq.get(), 3, {IBV_WC_LOC_PROT_ERR}, "a receive");
}

void usedObjects(Env& env) {
  Pd pd(ibv_alloc_pd(env.context()));
  if (!pd) fail("ibv_alloc_pd: %s", errnoName(errno).c_str());
  Td td = allocTd(env);
  Pd first = allocParent(env, attributes(pd.get(), td.get()));
  Pd second = allocParent(env, attributes(pd.get(), td.get()));
  for (Pd* parent : {&first, &second}) {
    expectErrno("the protection domain of a parent domain", EBUSY, ibv_dealloc_pd(pd.get()));
    expectErrno("the thread domain of a parent domain", EBUSY, ibv_dealloc_td(td.get()));
    expectErrno("a parent domain", 0, ibv_dealloc_pd(parent->release()));
  }
  expectErrno("the protection domain", 0, ibv_dealloc_pd(pd.release()));
  expectErrno("the thread domain", 0, ibv_dealloc_td(td.release()));
}

// Windows and queue pairs point to the domain that they were made by.
void outlived(Env& env) {
  const std::unique_ptr<Link> link = env.connect();
  Pd parent = allocParent(env, attributes(env.pd()));
  const Buffer region(parent.get(), kSize, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  const Mw window = allocMw(parent.get(), IBV_MW_TYPE_1);
  expectErrno("a parent domain that a window was made by", 0, ibv_dealloc_pd(parent.release()));
  const Pd foreign = allocParent(env, attributes(env.otherPd()));
  expectErrno("bind what outlived it", 0, bind(link->client, window.get(), region));
  env.expectWc(link->client.send_cq.get(), kBind, {IBV_WC_SUCCESS}, "bind");
  const Pd next = allocParent(env, attributes(env.pd()));
  expectErrno("bind when there is another", 0, bind(link->client, window.get(), region));
  env.expectWc(link->client.send_cq.get(), kBind, {IBV_WC_SUCCESS}, "bind");
}

// The last parent domain of an imported one takes that along: to unimport cannot fail. The memory
// of what has gone is overwritten (35-extended sees to it), so that it is not used unnoticed.
void imported(Env& env) {
  ibv_context* context = ibv_import_device(dup(env.context()->cmd_fd));
  if (!context) fail("ibv_import_device: %s", errnoName(errno).c_str());
  ibv_pd* pd = ibv_import_pd(context, env.pd()->handle);
  if (!pd) fail("ibv_import_pd: %s", errnoName(errno).c_str());
  ibv_parent_domain_init_attr attr = attributes(pd);
  ibv_pd* parents[2] = {};
  for (ibv_pd*& parent : parents) {
    parent = ibv_alloc_parent_domain(context, &attr);
    if (!parent) fail("ibv_alloc_parent_domain: %s", errnoName(errno).c_str());
  }
  refuse(env, "a domain of another context", EINVAL, attr);
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 1;
  cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  cq_attr.parent_domain = parents[0];
  errno = 0;
  ibv_cq_ex* cq = ibv_create_cq_ex(env.context(), &cq_attr);
  expectErrno("a completion queue with a domain of another context", EINVAL, cq ? 0 : errno);
  ibv_unimport_pd(pd);
  std::array<Pd, 4> others;
  for (Pd& other : others) {
    other.reset(ibv_alloc_pd(env.context()));
    if (!other) fail("ibv_alloc_pd: %s", errnoName(errno).c_str());
  }
  ibv_unimport_pd(parents[0]);
  {
    const Buffer region(parents[1], kSize, IBV_ACCESS_LOCAL_WRITE);
    const Mw window = allocMw(parents[1], IBV_MW_TYPE_1);
  }
  expectErrno("the last parent domain", 0, ibv_dealloc_pd(parents[1]));
  for (Pd& other : others) {
    expectErrno("another protection domain", 0, ibv_dealloc_pd(other.release()));
  }
  expectErrno("ibv_close_device", 0, ibv_close_device(context));
  env.expectAlive(*env.connect());
}

void refused(Env& env) {
  const Pd parent = allocParent(env, attributes(env.pd()));
  refuse(env, "no protection domain", EINVAL, attributes(nullptr));
  refuse(env, "a parent domain's parent", EINVAL, attributes(parent.get()));
  refuse(env, "an unknown member", EOPNOTSUPP, attributes(env.pd(), nullptr, 1U << 7));
  ibv_parent_domain_init_attr attr =
      attributes(env.pd(), nullptr, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS);
  refuse(env, "no allocators", EINVAL, attr);
  attr.alloc = neverAllocates;
  refuse(env, "half of the allocators", EINVAL, attr);
  attr.free = neverFrees;
  refuse(env, "allocators, which are not called", 0, attr);
  ibv_td_init_attr td_attr{};
  td_attr.comp_mask = 1;
  errno = 0;
  const Td td(ibv_alloc_td(env.context(), &td_attr));
  expectErrno("a thread domain's unknown member", EOPNOTSUPP, td ? 0 : errno);
}

}  // namespace

void addDomainCases(std::vector<Case>* cases) {
  cases->insert(cases->end(), {{"domain-rights", sameRights},
                               {"domain-used", usedObjects},
                               {"domain-outlived", outlived},
                               {"domain-imported", imported},
                               {"domain-refused", refused}});
}

}  // namespace kiwarp::vm
