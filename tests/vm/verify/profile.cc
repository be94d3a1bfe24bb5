// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "verify/profile.h"

#include <algorithm>
#include <array>

namespace kiwarp::vm {
namespace {

struct Ability {
  const char* name;
  bool Profile::*value;
};

// Both sides are the same program, so the order is the same there.
constexpr std::array<Ability, 15> kAbilities = {{
    {"reads", &Profile::reads},
    {"zero-reads", &Profile::zero_reads},
    {"straddle", &Profile::straddle},
    {"invalidate", &Profile::can_invalidate},
    {"serve-invalidate", &Profile::serves_invalidate},
    {"tell-invalidate", &Profile::tells_invalidate},
    {"iova", &Profile::iova},
    {"fenced-reads", &Profile::fenced_reads},
    {"ordered", &Profile::ordered},
    {"reuse", &Profile::reuse},
    {"zero-sge", &Profile::zero_sge},
    {"srq", &Profile::srq},
    {"windows", &Profile::windows},
    {"immediates", &Profile::immediates},
    {"atomics", &Profile::atomics},
}};

}  // namespace

// siw ignores the iova; completes Sends before their bytes are acknowledged, and before the Reads
// in front of them; has 6 SGEs and 80 bytes of inline data; refuses fenced Reads, Reads of no
// bytes and lists of no SGEs; garbles short messages that straddle a page; and its provider
// neither sends nor reports an invalidation, which its peer may ask for of any region. It has
// neither windows nor RFC 7306.
Profile siwProfile() {
  Profile profile;
  profile.zero_reads = false;
  profile.can_invalidate = false;
  profile.serves_invalidate = true;
  profile.tells_invalidate = false;
  profile.iova = false;
  profile.reuse = false;
  profile.fenced_reads = false;
  profile.ordered = false;
  profile.zero_sge = false;
  profile.straddle = false;
  profile.srq = false;
  profile.windows = false;
  profile.immediates = false;
  profile.atomics = false;
  profile.inline_data = 80;
  profile.max_sge = 6;
  return profile;
}

bool takeAway(Profile* profile, const std::string& name) {
  const auto* ability = std::find_if(kAbilities.begin(), kAbilities.end(),
                                     [&](const Ability& known) { return known.name == name; });
  if (ability == kAbilities.end()) return false;
  profile->*ability->value = false;
  return true;
}

uint64_t pack(const Profile& profile) {
  uint64_t packed = 0;
  for (size_t i = 0; i < kAbilities.size(); ++i) {
    packed |= uint64_t{profile.*kAbilities[i].value} << i;
  }
  return packed;
}

void unpack(uint64_t packed, Profile* profile) {
  for (size_t i = 0; i < kAbilities.size(); ++i) {
    profile->*kAbilities[i].value = (packed >> i & 1) != 0;
  }
}

void agree(Profile* mine, Profile* theirs) {
  for (bool Profile::*value :
       {&Profile::srq, &Profile::windows, &Profile::immediates, &Profile::atomics}) {
    mine->*value = theirs->*value = mine->*value && theirs->*value;
  }
}

}  // namespace kiwarp::vm
