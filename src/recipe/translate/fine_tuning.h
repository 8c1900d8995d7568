#pragma once
#include "recipe/translate/collected.h"
#include "recipe/translate/equivalents.h"

namespace echelon::recipe {

/// Makes the lines of section `lora`, if adapters are trained. `stated`: the configuration has a section
/// peft.
void make_adapters(Trainer trainer, bool stated, Collected& recipe);

/// Makes the lines of train.dpo and returns true, if the objective is that of DPO.
bool make_preference(Trainer trainer, Collected& recipe);

}  // namespace echelon::recipe
