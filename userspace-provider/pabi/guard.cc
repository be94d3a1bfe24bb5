// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "pabi/guard.h"

#include <dlfcn.h>

#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

#include "pabi/functions.h"

namespace kiwarp::pabi {
namespace {

constexpr char kLibraryPrefix[] = "libibverbs.so.1.";

}  // namespace

bool isKnownLibrary(const char* real_path) {
  std::string_view name(real_path);
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0: no slash, nothing to remove
  if (!name.starts_with(kLibraryPrefix)) return false;
  name.remove_prefix(std::strlen(kLibraryPrefix));
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

// The dynamic linker can't distinguish all releases, because the symbol version stayed the same
// while the structures changed. The name of the file does.
bool libraryIsKnown() {
  const char* where = "an unknown file";
  char path[PATH_MAX];
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&verbs_set_ops), &info) != 0 && info.dli_fname != nullptr) {
    where = realpath(info.dli_fname, path) != nullptr ? path : info.dli_fname;
  }
  if (isKnownLibrary(where)) return true;
  char last[16] = "";
  if (kLastRelease != kFirstRelease) std::snprintf(last, sizeof(last), " to %d", kLastRelease);
  std::fprintf(stderr,
               "libkiwarp: built for rdma-core %d%s, but this process uses %s; kiwarp devices "
               "are not available, rebuild the provider for the installed rdma-core\n",
               kFirstRelease, last, where);
  return false;
}

}  // namespace kiwarp::pabi
