// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kiwarp::vm {

// "--name value" and "--flag" options; an unknown one is an error, so that a typo in a test
// script cannot turn a check off.
class Options {
 public:
  explicit Options(std::string usage) : usage_(std::move(usage)) {}

  void text(const std::string& name, std::string* target);
  // Accepts a suffix k, m or g (powers of 1024).
  void number(const std::string& name, uint64_t* target);
  void flag(const std::string& name, bool* target);

  void parse(int argc, char** argv);
  [[noreturn]] void misuse(const std::string& why) const;

 private:
  struct Option {
    bool takes_value;
    std::function<void(const std::string&)> set;
  };

  std::string usage_;
  std::map<std::string, Option> options_;
};

}  // namespace kiwarp::vm
