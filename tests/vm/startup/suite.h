// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "startup/connection.h"

namespace kiwarp::vm {

// A device and its settings; none for siw's.
class Device {
 public:
  Device(const std::string& name, std::string address);

  const std::string& name() const { return name_; }
  const std::string& address() const { return address_; }
  std::string get(const std::string& setting) const;
  // Returns errno (positive).
  int tryPut(const std::string& setting, const std::string& value) const;
  void put(const std::string& setting, const std::string& value) const;
  void reset() const;
  uint64_t count(const std::string& counter) const;

 private:
  std::string name_, folder_, address_;
  std::map<std::string, std::string> defaults_;
};

// A connection to be made, and what is to come of it.
struct Attempt {
  size_t server_private = 0, client_private = 0;
  uint8_t server_ird = 4, server_ord = 4, client_ird = 4, client_ord = 4;
  bool unheard = false;  // no request reaches the server's consumer
  bool rejects = false;  // the server's consumer does
  std::string refused;   // rdma_accept, or rdma_reject, fails with this errno
  std::string outcome = "RDMA_CM_EVENT_ESTABLISHED status 0";
  bool server_first = false;  // it speaks first
  bool stays_silent = false;  // the server, as it may not
  uint64_t reads = 4;
  bool swapped = false;  // the second device serves
};

class Suite {
 public:
  Suite(Device server, Device client, const std::string& wire_path);

  void settings();
  void crc();
  void markers();
  void revisions();
  void privateData();
  void readyToReceive();
  void firstFpdu();
  void depths();
  void largeFpdus();
  void laterOnly();
  void portMap();
  void destroyed();
  void siw(bool siw_crc);
  int finish() const;

 private:
  void fact(const std::string& what, const std::function<void()>& test);
  void attempt(const std::string& what, const Attempt& a);
  void make(const Attempt& a);
  void talk(const Attempt& a, Connection& server, Connection& client);
  // What the frames of the last attempt must look like, for frames.py.
  void wire(const std::string& what, const std::string& pattern);
  void both(const std::string& setting, const std::string& value);
  void reset();

  void number(const std::string& name, uint64_t initial, uint64_t min, uint64_t max, bool or_0);
  void isSwitch(const std::string& name, const std::string& initial);
  void isSet(const std::string& name, const std::string& initial, const std::string& good,
             const std::string& read_back, const std::vector<std::string>& bad);

  Device server_, client_;
  std::ofstream wire_;
  uint16_t port_ = 19000;
  unsigned number_ = 0, failed_ = 0;
};

}  // namespace kiwarp::vm
