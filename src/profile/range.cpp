#include "profile/range.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"

namespace echelon::profile {
namespace {

std::string option(const ProfileRange& range) {
  return str("--profile ", range.first, "..", range.last);
}

}  // namespace

ProfileRange ahead(const ProfileRange& wanted, std::int64_t done, std::int64_t last, bool lead) {
  if (!wanted.wanted()) return {};
  if (wanted.first > last) {
    throw Error(Code::kUsage, option(wanted), ": the run ends with step ", last,
                "; expected steps before that");
  }
  if (wanted.last > done) return {std::max(wanted.first, done + 1), wanted.last};
  if (lead)
    log::warn(str(option(wanted), ": these steps are done already (the run goes on from step ", done,
                  "), so there is no profile"));
  return {};
}

}  // namespace echelon::profile
