// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "command.h"

#include <charconv>
#include <sstream>

#include "common/error.h"

namespace kiwarp::interop {

using vm::fail;

Command::Command(const std::string& line) {
  std::istringstream words(line);
  words >> name_;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      words_.push_back(word);
    } else {
      options_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
}

std::string Command::word() {
  if (!more()) fail("%s: too few words", name_.c_str());
  return words_[next_++];
}

uint64_t Command::number() { return toNumber(word()); }

std::string Command::option(const std::string& name, const std::string& fallback) {
  auto found = options_.find(name);
  if (found == options_.end()) return fallback;
  std::string value = found->second;
  options_.erase(found);
  return value;
}

uint64_t Command::option(const std::string& name, uint64_t fallback) {
  const std::string value = option(name, "");
  return value.empty() ? fallback : toNumber(value);
}

void Command::finish() const {
  if (more()) fail("%s: %s is one word too many", name_.c_str(), words_[next_].c_str());
  if (!options_.empty()) fail("%s: no option %s", name_.c_str(), options_.begin()->first.c_str());
}

uint64_t toNumber(const std::string& text) {
  const bool hex = text.starts_with("0x");
  const char* first = text.data() + (hex ? 2 : 0);
  const char* last = text.data() + text.size();
  uint64_t value = 0;
  auto [end, error] = std::from_chars(first, last, value, hex ? 16 : 10);
  if (error != std::errc() || end != last) fail("\"%s\" is no number", text.c_str());
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::string toHex(const uint8_t* bytes, size_t length) {
  static const char kDigits[] = "0123456789abcdef";
  if (length == 0) return "-";
  std::string text;
  text.reserve(2 * length);
  for (size_t i = 0; i < length; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::vector<uint8_t> fromHex(const std::string& text) {
  std::vector<uint8_t> bytes;
  if (text == "-") return bytes;
  if (text.size() % 2 != 0) fail("half a byte in \"%s\"", text.c_str());
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(toNumber("0x" + text.substr(i, 2))));
  }
  return bytes;
}

}  // namespace kiwarp::interop
