// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "pabi/guard.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "pabi/functions.h"

namespace kiwarp::pabi {
namespace {

constexpr std::string_view kLibraryPrefix = "libibverbs.so.1.";

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// The file that this process has mapped at the address, in the buffer; empty if that is not known.
std::string_view fileAt(std::uintptr_t address, std::span<char> buffer) {
  const std::unique_ptr<std::FILE, Closer> maps(std::fopen("/proc/self/maps", "re"));
  bool at_start = true;
  while (maps &&
         std::fgets(buffer.data(), static_cast<int>(buffer.size()), maps.get()) != nullptr) {
    const std::string_view line(buffer.data());
    // What is behind a name that is too long is no line.
    const bool is_start = std::exchange(at_start, line.ends_with('\n'));
    if (!is_start) continue;
    if (const auto file = mappedFile(line, address)) return *file;
  }
  return {};
}

// The same as the dynamic linker has it: by now the name may be another file's.
std::string_view fileByLinker(void* address, std::span<char, PATH_MAX> buffer) {
  Dl_info info = {};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "an unknown file";
  return realpath(info.dli_fname, buffer.data()) != nullptr ? buffer.data() : info.dli_fname;
}

}  // namespace

bool isKnownLibrary(std::string_view real_path) {
  std::string_view name = real_path;
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0: no slash, nothing to remove
  if (!name.starts_with(kLibraryPrefix)) return false;
  name.remove_prefix(kLibraryPrefix.size());
  // INTERFACE.RELEASE.PATCH; the interface is the public one, which only grows.
  int parts[3] = {};
  for (int& part : parts) {
    if (&part != &parts[0]) {
      if (!name.starts_with('.')) return false;
      name.remove_prefix(1);
    }
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), part);
    if (error != std::errc() || part < 0) return false;
    name.remove_prefix(static_cast<size_t>(end - name.data()));
  }
  return name.empty() && parts[1] >= kFirstRelease && parts[1] <= kLastRelease;
}

std::optional<std::string_view> mappedFile(std::string_view line, std::uintptr_t address) {
  std::uintptr_t bounds[2] = {};
  for (std::uintptr_t& bound : bounds) {
    auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), bound, 16);
    if (error != std::errc()) return std::nullopt;
    line.remove_prefix(static_cast<size_t>(end - line.data()));
    if (!line.starts_with(&bound == &bounds[0] ? '-' : ' ')) return std::nullopt;
    line.remove_prefix(1);
  }
  if (address < bounds[0] || address >= bounds[1]) return std::nullopt;
  // Rights, offset, device and inode.
  for (int field = 0; field < 4; ++field) {
    line.remove_prefix(std::min(line.find(' '), line.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  }
  if (line.ends_with('\n')) line.remove_suffix(1);
  // Names in brackets are the kernel's, or those of anonymous memory.
  return line.starts_with('[') ? std::string_view() : line;
}

// The dynamic linker can't distinguish all releases, because the symbol version stayed the same
// while the structures changed. The name of the file that is mapped does. The name that the linker
// has may lead to another release by now, if there was an upgrade while the process ran. A file
// that is gone, but was of a known release, has the layout all the same.
bool libraryIsKnown() {
  char buffer[PATH_MAX + 128];
  void* const address = reinterpret_cast<void*>(&verbs_set_ops);
  std::string_view where = fileAt(reinterpret_cast<std::uintptr_t>(address), buffer);
  if (where.empty()) where = fileByLinker(address, std::span(buffer).first<PATH_MAX>());
  const bool deleted = where.ends_with(kDeleted);
  if (isKnownLibrary(where.substr(0, where.size() - (deleted ? kDeleted.size() : 0)))) return true;
  char last[16] = "";
  if (kLastRelease != kFirstRelease) std::snprintf(last, sizeof(last), " to %d", kLastRelease);
  std::fprintf(stderr,
               "libkiwarp: built for rdma-core %d%s, but this process uses %.*s; kiwarp devices "
               "are not available, %s\n",
               kFirstRelease, last, static_cast<int>(where.size()), where.data(),
               deleted ? "restart the program: that library was replaced while it ran"
                       : "rebuild the provider for the installed rdma-core");
  return false;
}

}  // namespace kiwarp::pabi
