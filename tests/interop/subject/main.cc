// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-subject: the verbs consumer that a peer of another make talks to. It does nothing by
// itself: the driver on its standard input says line by line what to post and what to look at, and
// gets one line for each, "ok ..." or "err ...".

#include <arpa/inet.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <vector>

#include "areas.h"
#include "command.h"
#include "common/error.h"
#include "common/resources.h"
#include "links.h"

namespace kiwarp::interop {
namespace {

using vm::checkErrno;
using vm::Deadline;
using vm::fail;
using vm::milliseconds;
using vm::strf;

// How long one look at a queue may wait before the next: other programs share the CPUs.
constexpr useconds_t kNap = 300;

class Subject {
 public:
  Subject(const std::string& address, uint16_t port) : links_(address, port) {}

  std::string handle(const std::string& line);

 private:
  using Handler = std::string (Subject::*)(Command&);
  static const std::map<std::string, Handler> kHandlers;

  std::string mr(Command& c);
  std::string dereg(Command& c);
  std::string mw(Command& c);
  std::string fill(Command& c);
  std::string look(Command& c);
  std::string touched(Command& c);
  std::string request(Command& c);
  std::string prepare(Command& c);
  std::string renew(Command& c);
  std::string connect(Command& c);
  std::string accept(Command& c);
  std::string reject(Command& c);
  std::string disconnect(Command& c);
  std::string forget(Command& c);
  std::string event(Command& c);
  std::string async(Command& c);
  std::string state(Command& c);
  std::string details(Command& c);
  std::string reset(Command& c);
  std::string qpAccess(Command& c);
  std::string recv(Command& c);
  std::string createSrq(Command& c);
  std::string destroySrq(Command& c);
  std::string srqRecv(Command& c);
  std::string srqLimit(Command& c);
  std::string srqAsync(Command& c);
  std::string spoil(Command& c);
  std::string send(Command& c);
  std::string write(Command& c) { return rdma(c, IBV_WR_RDMA_WRITE); }
  std::string read(Command& c) { return rdma(c, IBV_WR_RDMA_READ); }
  std::string bind(Command& c);
  std::string invalidate(Command& c);
  std::string fetchAdd(Command& c) { return atomic(c, IBV_WR_ATOMIC_FETCH_AND_ADD); }
  std::string cmpSwap(Command& c) { return atomic(c, IBV_WR_ATOMIC_CMP_AND_SWP); }
  std::string completions(Command& c);

  std::string atomic(Command& c, ibv_wr_opcode opcode);
  std::string rdma(Command& c, ibv_wr_opcode opcode);
  std::string post(Command& c, ibv_send_wr& wr, const std::string& link);
  Area& area(const std::string& name);
  ibv_srq* srqOption(Command& c);
  template <typename Post>
  std::string postRecv(Command& c, Post post);
  std::vector<ibv_sge> sges(Command& c);

  Links links_;
  std::map<std::string, std::unique_ptr<Area>> areas_;
  // They go before the regions that they are bound to.
  std::map<std::string, vm::Mw> windows_;
};

const std::map<std::string, Subject::Handler> Subject::kHandlers = {
    {"mr", &Subject::mr},
    {"dereg", &Subject::dereg},
    {"mw", &Subject::mw},
    {"fill", &Subject::fill},
    {"look", &Subject::look},
    {"touched", &Subject::touched},
    {"request", &Subject::request},
    {"prepare", &Subject::prepare},
    {"renew", &Subject::renew},
    {"connect", &Subject::connect},
    {"accept", &Subject::accept},
    {"reject", &Subject::reject},
    {"disconnect", &Subject::disconnect},
    {"forget", &Subject::forget},
    {"event", &Subject::event},
    {"async", &Subject::async},
    {"state", &Subject::state},
    {"details", &Subject::details},
    {"reset", &Subject::reset},
    {"qpaccess", &Subject::qpAccess},
    {"recv", &Subject::recv},
    {"srq", &Subject::createSrq},
    {"nosrq", &Subject::destroySrq},
    {"srqrecv", &Subject::srqRecv},
    {"srqlimit", &Subject::srqLimit},
    {"srqasync", &Subject::srqAsync},
    {"spoil", &Subject::spoil},
    {"send", &Subject::send},
    {"write", &Subject::write},
    {"read", &Subject::read},
    {"bind", &Subject::bind},
    {"invalidate", &Subject::invalidate},
    {"fetchadd", &Subject::fetchAdd},
    {"cmpswap", &Subject::cmpSwap},
    {"completions", &Subject::completions},
};

std::string Subject::handle(const std::string& line) {
  Command command(line);
  auto found = kHandlers.find(command.name());
  if (found == kHandlers.end()) fail("no command %s", command.name().c_str());
  std::string answer = (this->*found->second)(command);
  command.finish();
  return answer;
}

Area& Subject::area(const std::string& name) {
  auto found = areas_.find(name);
  if (found == areas_.end()) fail("no area %s", name.c_str());
  return *found->second;
}

// mr NAME SIZE ACCESS [pd=other] [iova=N]: ADDRESS RKEY
std::string Subject::mr(Command& c) {
  const std::string name = c.word();
  const size_t size = c.number();
  const int access = parseAccess(c.word());
  const std::string pd_name = c.option("pd", std::string("own"));
  ibv_pd* pd = pd_name == "other" ? links_.otherPd() : links_.pd();
  const std::string iova = c.option("iova", std::string());
  auto made = iova.empty() ? std::make_unique<Area>(pd, size, access)
                           : std::make_unique<Area>(pd, size, access, toNumber(iova));
  auto& slot = areas_[name];
  slot = std::move(made);
  return strf("%llu %u", static_cast<unsigned long long>(slot->address()), slot->mr()->rkey);
}

// dereg NAME: the region goes, the memory stays and can be looked at.
std::string Subject::dereg(Command& c) {
  area(c.word()).deregister();
  return "";
}

// mw NAME TYPE: RKEY of a window that is not bound
std::string Subject::mw(Command& c) {
  auto& slot = windows_[c.word()];
  slot = vm::allocMw(links_.pd(), static_cast<ibv_mw_type>(c.number()));
  return std::to_string(slot->rkey);
}

// fill NAME OFFSET HEX, or fill NAME: all of it background again.
std::string Subject::fill(Command& c) {
  Area& target = area(c.word());
  if (!c.more()) {
    target.erase();
    return "";
  }
  const uint64_t offset = c.number();
  target.fill(offset, fromHex(c.word()));
  return "";
}

std::string Subject::look(Command& c) { return area(c.word()).look(); }

// touched: the names of all areas that are not clean, guards included
std::string Subject::touched(Command&) {
  std::string names;
  for (const auto& [name, held] : areas_) {
    if (held->look() != "clean") names += name + " ";
  }
  return names;
}

std::string describeAsync(const std::optional<vm::AsyncEvent>& event) {
  return event ? std::to_string(event->type) : "none";
}

std::string describeEvent(const std::optional<vm::CmEvent>& event) {
  if (!event) return "none";
  return strf("%s %d %u %u %s", rdma_event_str(event->type), event->status,
              event->responder_resources, event->initiator_depth,
              toHex(event->private_data.data(), event->private_data.size()).c_str());
}

vm::ConnectParams connectParams(Command& c) {
  vm::ConnectParams params;
  params.responder_resources = static_cast<uint8_t>(c.option("ird", 4));
  params.initiator_depth = static_cast<uint8_t>(c.option("ord", 4));
  params.private_data = fromHex(c.option("pd", std::string("-")));
  return params;
}

// [srq=SRQ]: what a queue pair takes its receives from
ibv_srq* Subject::srqOption(Command& c) {
  const std::string name = c.option("srq", std::string());
  return name.empty() ? nullptr : links_.srq(name);
}

// request LINK MS [srq=SRQ]: waits for a connection request: an event's line, or "none"
std::string Subject::request(Command& c) {
  const std::string name = c.word();
  ibv_srq* srq = srqOption(c);
  return describeEvent(links_.request(name, srq, Deadline(milliseconds(c.number()))));
}

// prepare LINK ADDRESS PORT [srq=SRQ]: resolves, and makes the queue pair
std::string Subject::prepare(Command& c) {
  const std::string name = c.word(), address = c.word();
  ibv_srq* srq = srqOption(c);
  links_.prepare(name, address, static_cast<uint16_t>(c.number()), srq);
  return "";
}

// renew LINK ADDRESS PORT: resolves, for the queue pair of a connection that is over, in RESET
std::string Subject::renew(Command& c) {
  const std::string name = c.word(), address = c.word();
  links_.renew(name, address, static_cast<uint16_t>(c.number()));
  return "";
}

// connect LINK [ird=N] [ord=N] [pd=HEX]: begins to connect
std::string Subject::connect(Command& c) {
  Link& link = links_.at(c.word());
  return vm::errnoName(vm::startConnect(link.id.get(), connectParams(c)));
}

// accept LINK [ird=N] [ord=N] [pd=HEX]
std::string Subject::accept(Command& c) {
  Link& link = links_.at(c.word());
  return vm::errnoName(vm::startAccept(link.id.get(), connectParams(c)));
}

// reject LINK HEX
std::string Subject::reject(Command& c) {
  Link& link = links_.at(c.word());
  const std::vector<uint8_t> pd = fromHex(c.word());
  checkErrno(rdma_reject(link.id.get(), pd.data(), static_cast<uint8_t>(pd.size())), "rdma_reject");
  return "";
}

std::string Subject::disconnect(Command& c) {
  checkErrno(rdma_disconnect(links_.at(c.word()).id.get()), "rdma_disconnect");
  return "";
}

// forget LINK: destroys it, whatever state it is in
std::string Subject::forget(Command& c) {
  links_.forget(c.word());
  return "";
}

// event LINK MS: TYPE STATUS RESPONDER_RESOURCES INITIATOR_DEPTH PRIVATE_DATA, or "none"
std::string Subject::event(Command& c) {
  const std::string name = c.word();
  return describeEvent(links_.event(name, Deadline(milliseconds(c.number()))));
}

// async LINK MS: the next asynchronous event of its queue pair, or "none"
std::string Subject::async(Command& c) {
  const std::string name = c.word();
  return describeAsync(links_.asyncEvent(name, Deadline(milliseconds(c.number()))));
}

std::string Subject::state(Command& c) {
  return vm::stateName(vm::queryState(links_.at(c.word()).qp()));
}

// details LINK: what the device tells an administrator of its queue pair, NAME=VALUE each
std::string Subject::details(Command& c) {
  const ibv_qp* qp = links_.at(c.word()).qp();
  std::string text;
  for (const vm::Resource& each :
       vm::ownResources(ibv_get_device_name(qp->context->device), vm::ResourceKind::kQp)) {
    if (each.lqpn != qp->qp_num) continue;
    for (const auto& [name, value] : each.details)
      text += vm::strf("%s=%s ", name.c_str(), value.c_str());
  }
  return text;
}

// reset LINK: its queue pair goes to RESET
std::string Subject::reset(Command& c) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  checkErrno(ibv_modify_qp(links_.at(c.word()).qp(), &attr, IBV_QP_STATE), "ibv_modify_qp RESET");
  return "";
}

// qpaccess LINK ACCESS
std::string Subject::qpAccess(Command& c) {
  Link& link = links_.at(c.word());
  vm::setQpAccess(link.qp(), static_cast<unsigned>(parseAccess(c.word())));
  return "";
}

// AREA:OFFSET:LENGTH words to the end of the line
std::vector<ibv_sge> Subject::sges(Command& c) {
  std::vector<ibv_sge> list;
  while (c.more()) {
    const std::vector<std::string> parts = split(c.word(), ':');
    if (parts.size() != 3) fail("a piece of memory is AREA:OFFSET:LENGTH");
    list.push_back(
        area(parts[0]).sge(toNumber(parts[1]), static_cast<uint32_t>(toNumber(parts[2]))));
  }
  return list;
}

// ID [AREA:OFFSET:LENGTH]...
template <typename Post>
std::string Subject::postRecv(Command& c, Post post) {
  ibv_recv_wr wr{};
  wr.wr_id = c.number();
  std::vector<ibv_sge> list = sges(c);
  wr.sg_list = list.data();
  wr.num_sge = static_cast<int>(list.size());
  ibv_recv_wr* bad = nullptr;
  return vm::errnoName(post(&wr, &bad));
}

// recv LINK ID [AREA:OFFSET:LENGTH]...
std::string Subject::recv(Command& c) {
  ibv_qp* qp = links_.at(c.word()).qp();
  return postRecv(c,
                  [qp](ibv_recv_wr* wr, ibv_recv_wr** bad) { return ibv_post_recv(qp, wr, bad); });
}

// srq SRQ ENTRIES: creates a shared receive queue
std::string Subject::createSrq(Command& c) {
  const std::string name = c.word();
  links_.createSrq(name, static_cast<uint32_t>(c.number()));
  return "";
}

// nosrq SRQ: destroys it
std::string Subject::destroySrq(Command& c) {
  links_.destroySrq(c.word());
  return "";
}

// srqrecv SRQ ID [AREA:OFFSET:LENGTH]...
std::string Subject::srqRecv(Command& c) {
  ibv_srq* srq = links_.srq(c.word());
  return postRecv(
      c, [srq](ibv_recv_wr* wr, ibv_recv_wr** bad) { return ibv_post_srq_recv(srq, wr, bad); });
}

// srqlimit SRQ [N]: arms the event of the limit with N; the limit as it is
std::string Subject::srqLimit(Command& c) {
  ibv_srq* srq = links_.srq(c.word());
  ibv_srq_attr attr{};
  if (c.more()) {
    attr.srq_limit = static_cast<uint32_t>(c.number());
    checkErrno(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
  }
  checkErrno(ibv_query_srq(srq, &attr), "ibv_query_srq");
  return std::to_string(attr.srq_limit);
}

// srqasync SRQ MS: its next asynchronous event, or "none"
std::string Subject::srqAsync(Command& c) {
  const std::string name = c.word();
  return describeAsync(links_.srqEvent(name, Deadline(milliseconds(c.number()))));
}

// spoil LINK ID pieces|producer N: what a process can write into its own receive ring, in which ID
// is the only receive so far
std::string Subject::spoil(Command& c) {
  const Link& link = links_.at(c.word());
  const uint64_t id = c.number();
  const std::string what = c.word();
  const auto value = static_cast<uint32_t>(c.number());
  if (what == "pieces") {
    link.rings.setPieces(id, value);
  } else if (what == "producer") {
    link.rings.setProducer(id, value);
  } else {
    fail("%s cannot be spoilt", what.c_str());
  }
  return "";
}

std::string Subject::post(Command& c, ibv_send_wr& wr, const std::string& link) {
  std::vector<ibv_sge> list = sges(c);
  wr.sg_list = list.data();
  wr.num_sge = static_cast<int>(list.size());
  wr.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  return vm::errnoName(ibv_post_send(links_.at(link).qp(), &wr, &bad));
}

// [imm=N]: as the peer gets it, in network byte order
bool takeImmediate(Command& c, ibv_send_wr& wr) {
  const std::string imm = c.option("imm", std::string());
  if (imm.empty()) return false;
  wr.imm_data = htonl(static_cast<uint32_t>(toNumber(imm)));
  return true;
}

// send LINK ID [inv=STAG] [imm=N] [se=1] [fence=1] [AREA:OFFSET:LENGTH]...
std::string Subject::send(Command& c) {
  const std::string link = c.word();
  ibv_send_wr wr{};
  wr.wr_id = c.number();
  wr.opcode = IBV_WR_SEND;
  const std::string inv = c.option("inv", std::string());
  if (!inv.empty()) {
    wr.opcode = IBV_WR_SEND_WITH_INV;
    wr.invalidate_rkey = static_cast<uint32_t>(toNumber(inv));
  }
  if (takeImmediate(c, wr)) wr.opcode = IBV_WR_SEND_WITH_IMM;
  if (c.option("se", 0)) wr.send_flags |= IBV_SEND_SOLICITED;
  if (c.option("fence", 0)) wr.send_flags |= IBV_SEND_FENCE;
  return post(c, wr, link);
}

// write|read LINK ID STAG TO [imm=N] [se=1] [AREA:OFFSET:LENGTH]...
std::string Subject::rdma(Command& c, ibv_wr_opcode opcode) {
  const std::string link = c.word();
  ibv_send_wr wr{};
  wr.wr_id = c.number();
  wr.opcode = opcode;
  wr.wr.rdma.rkey = static_cast<uint32_t>(c.number());
  wr.wr.rdma.remote_addr = c.number();
  if (takeImmediate(c, wr)) wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  if (c.option("se", 0)) wr.send_flags |= IBV_SEND_SOLICITED;
  return post(c, wr, link);
}

// bind LINK ID WINDOW RKEY AREA OFFSET LENGTH ACCESS: RKEY is the window's from then on
std::string Subject::bind(Command& c) {
  const std::string link = c.word();
  ibv_send_wr wr{};
  wr.wr_id = c.number();
  wr.opcode = IBV_WR_BIND_MW;
  const auto window = windows_.find(c.word());
  if (window == windows_.end()) fail("no such window");
  wr.bind_mw.mw = window->second.get();
  wr.bind_mw.rkey = static_cast<uint32_t>(c.number());
  const Area& target = area(c.word());
  ibv_mw_bind_info& info = wr.bind_mw.bind_info;
  info.mr = target.mr();
  info.addr = target.address() + c.number();
  info.length = c.number();
  info.mw_access_flags = static_cast<unsigned>(parseAccess(c.word()));
  return post(c, wr, link);
}

// invalidate LINK ID STAG: by the consumer
std::string Subject::invalidate(Command& c) {
  const std::string link = c.word();
  ibv_send_wr wr{};
  wr.wr_id = c.number();
  wr.opcode = IBV_WR_LOCAL_INV;
  wr.invalidate_rkey = static_cast<uint32_t>(c.number());
  return post(c, wr, link);
}

// fetchadd|cmpswap LINK ID STAG TO ADD|COMPARE SWAP [AREA:OFFSET:LENGTH]...
std::string Subject::atomic(Command& c, ibv_wr_opcode opcode) {
  const std::string link = c.word();
  ibv_send_wr wr{};
  wr.wr_id = c.number();
  wr.opcode = opcode;
  wr.wr.atomic.rkey = static_cast<uint32_t>(c.number());
  wr.wr.atomic.remote_addr = c.number();
  wr.wr.atomic.compare_add = c.number();
  wr.wr.atomic.swap = c.number();
  return post(c, wr, link);
}

// completions LINK send|recv COUNT MS: what came, ID:STATUS:OPCODE:LENGTH:FLAGS:STAG:REASON:IMM
// each
std::string Subject::completions(Command& c) {
  Link& link = links_.at(c.word());
  const std::string queue = c.word();
  if (queue != "send" && queue != "recv") fail("no queue %s", queue.c_str());
  ibv_cq* cq = queue == "send" ? link.send_cq.get() : link.recv_cq.get();
  const uint64_t wanted = c.number();
  const Deadline deadline{milliseconds(c.number())};
  std::string answer;
  for (uint64_t got = 0; got < wanted;) {
    ibv_wc wc{};
    const int n = ibv_poll_cq(cq, 1, &wc);
    if (n < 0) fail("ibv_poll_cq");
    if (n == 0) {
      if (deadline.passed()) break;
      usleep(kNap);
      continue;
    }
    ++got;
    answer += strf("%llu:%d:%d:%u:%u:%u:%u:%u ", static_cast<unsigned long long>(wc.wr_id),
                   wc.status, wc.opcode, wc.byte_len, wc.wc_flags,
                   wc.wc_flags & IBV_WC_WITH_INV ? wc.invalidated_rkey : 0, wc.vendor_err,
                   wc.wc_flags & IBV_WC_WITH_IMM ? ntohl(wc.imm_data) : 0);
  }
  return answer;
}

int run(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: kiwarp-subject ADDRESS PORT\n");
    return 2;
  }
  Subject subject(argv[1], static_cast<uint16_t>(toNumber(argv[2])));
  std::printf("ok ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::printf("ok %s\n", subject.handle(line).c_str());
    } catch (const vm::Failure& failure) {
      std::printf("err %s\n", failure.what());
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace kiwarp::interop

int main(int argc, char** argv) {
  try {
    return kiwarp::interop::run(argc, argv);
  } catch (const std::exception& failure) {
    std::printf("err %s\n", failure.what());
    return 1;
  }
}
