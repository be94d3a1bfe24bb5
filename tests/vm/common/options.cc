// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "common/options.h"

#include <cstdio>
#include <cstdlib>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

uint64_t parseNumber(const std::string& name, const std::string& value) {
  char* end = nullptr;
  uint64_t result = std::strtoull(value.c_str(), &end, 0);
  if (end == value.c_str()) fail("%s: '%s' is not a number", name.c_str(), value.c_str());
  switch (*end) {
    case 'k':
      return result << 10;
    case 'm':
      return result << 20;
    case 'g':
      return result << 30;
    case '\0':
      return result;
    default:
      fail("%s: '%s' is not a number", name.c_str(), value.c_str());
  }
}

}  // namespace

void Options::text(const std::string& name, std::string* target) {
  options_[name] = {true, [target](const std::string& value) { *target = value; }};
}

void Options::number(const std::string& name, uint64_t* target) {
  options_[name] = {
      true, [name, target](const std::string& value) { *target = parseNumber(name, value); }};
}

void Options::flag(const std::string& name, bool* target) {
  options_[name] = {false, [target](const std::string&) { *target = true; }};
}

void Options::parse(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") {
      std::printf("%s", usage_.c_str());
      std::exit(0);
    }
    auto found = options_.find(name);
    if (found == options_.end()) misuse("unknown option " + name);
    if (!found->second.takes_value) {
      found->second.set("");
      continue;
    }
    if (++i == argc) misuse(name + " wants a value");
    found->second.set(argv[i]);
  }
}

void Options::misuse(const std::string& why) const {
  std::fprintf(stderr, "%s\n%s", why.c_str(), usage_.c_str());
  std::exit(2);
}

}  // namespace kiwarp::vm
