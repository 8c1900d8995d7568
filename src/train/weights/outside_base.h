#pragma once
#include "checkpoint/read/base_note.h"
#include "comm/communicator.h"
#include "families/base_weights.h"
#include "shard/sharded_model.h"

/// The weights below adapters (LoRA). Checkpoints of such a model leave them out: they lie elsewhere and
/// never change.
namespace echelon {

/// Lists the frozen tensors below adapters, without fingerprints; none in a model without adapters. The same
/// on all ranks.
[[nodiscard]] checkpoint::BaseNote base_of(const ShardedModel& model);

/// Sets the fingerprints to those of the weights in memory. Collective.
void take_fingerprints(checkpoint::BaseNote& base, const ShardedModel& model, Communicator& comm);

/// Reads what `note` lists into the model. Collective. Throws Error(kCheckpoint) on all ranks where there is
/// no base, or it is another one than that of the note.
void load_base(const checkpoint::BaseNote& note, const families::BasePlaces& places, ShardedModel& model,
               Communicator& comm);

}  // namespace echelon
