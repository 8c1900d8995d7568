#pragma once
#include <cstdint>
#include <optional>

#include "recipe/translate/collected.h"
#include "recipe/translate/equivalents.h"

namespace echelon::recipe {

/// Makes the lines of section `schedule`. `steps`: of the run, where they are known; `stated`: the
/// configuration has a section lr_scheduler.
void make_schedule(Trainer trainer, std::optional<std::int64_t> steps, bool stated, Collected& recipe);

}  // namespace echelon::recipe
