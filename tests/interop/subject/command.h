// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kiwarp::interop {

// One line of the driver's: words that are taken in order, and "name=value" options in any place.
// Whatever a handler leaves over is an error, so that a typo in a case cannot go unnoticed.
class Command {
 public:
  explicit Command(const std::string& line);

  const std::string& name() const { return name_; }
  bool more() const { return next_ < words_.size(); }
  std::string word();
  uint64_t number();
  std::string option(const std::string& name, const std::string& fallback);
  uint64_t option(const std::string& name, uint64_t fallback);
  void finish() const;

 private:
  std::string name_;
  std::vector<std::string> words_;
  std::map<std::string, std::string> options_;
  size_t next_ = 0;
};

uint64_t toNumber(const std::string& text);
std::vector<std::string> split(const std::string& text, char separator);

// "-" stands for no bytes at all: an empty word could not be told from a missing one.
std::string toHex(const uint8_t* bytes, size_t length);
std::vector<uint8_t> fromHex(const std::string& text);

}  // namespace kiwarp::interop
