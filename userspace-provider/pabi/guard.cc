// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "pabi/guard.h"

#include <dlfcn.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "pabi/functions.h"

namespace kiwarp::pabi {

bool isKnownLibrary(const char* real_path) {
  std::string_view name(real_path);
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0: no slash, nothing to remove
  return name.starts_with(kLibraryPrefix) && name.size() > std::strlen(kLibraryPrefix);
}

// The dynamic linker can't distinguish releases, because the symbol version stayed the same while
// the structures changed. The name of the file does.
bool libraryIsKnown() {
  const char* where = "an unknown file";
  char path[PATH_MAX];
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&verbs_set_ops), &info) != 0 && info.dli_fname != nullptr) {
    where = realpath(info.dli_fname, path) != nullptr ? path : info.dli_fname;
  }
  if (isKnownLibrary(where)) return true;
  std::fprintf(stderr,
               "libkiwarp: built for rdma-core %d (%s*), but this process uses %s; kiwarp devices "
               "are not available, rebuild the provider for the installed rdma-core\n",
               kRelease, kLibraryPrefix, where);
  return false;
}

}  // namespace kiwarp::pabi
