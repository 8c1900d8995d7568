#include "train/adapter_check.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/local_communicator.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

struct Adapted {
  LocalCommunicator comm;
  ShardedModel model;
  explicit Adapted(const LoraOptions& lora)
      : model(build_model(test::small_options(), at::kFloat, at::kCPU, lora), comm, {}, 3, at::kCPU) {}

  /// Adds to every element of the tensors whose name contains `part`.
  void add(const std::string& part) const {
    for (const auto& unit : model.units()) {
      for (const SlicePiece& piece : unit->pieces()) {
        if (piece.part->name.find(part) != std::string::npos)
          unit->master().narrow(0, piece.at, piece.numel()).add_(0.5);
      }
    }
  }
};

std::string refusal(const std::function<void()>& check, Code code = Code::kTraining) {
  return test::refusal(code, check);
}

TEST(AdapterCheck, NamesABThatIsStillZeroAfterAnUpdate) {
  Adapted one({.rank = 2, .modules = {"q_proj", "v_proj"}});
  one.add("layers.1.self_attn.q_proj.lora_B");
  one.add("v_proj.lora_B");
  AdapterCheck check(one.model, one.comm);
  EXPECT_EQ(refusal([&] { check.updated(); }),
            "after an update, 1 of 4 adapters are still zero, such as that of "
            "'model.layers.0.self_attn.q_proj': no gradient reaches them; leave them out of lora.modules");
  EXPECT_EQ(refusal([&] { check.updated(); }), "accepted") << "only once";
  one.add("layers.0.self_attn.q_proj.lora_B");
  AdapterCheck again(one.model, one.comm);
  EXPECT_EQ(refusal([&] { again.updated(); }), "accepted");
}

TEST(AdapterCheck, FindsAFrozenWeightThatChanged) {
  Adapted adapted({.rank = 2, .also_train = {"model.norm"}});
  AdapterCheck check(adapted.model, adapted.comm);
  for (const char* trained : {"lora_A", "lora_B", "model.norm"}) {
    adapted.add(trained);
    EXPECT_EQ(refusal([&] { check.require_frozen(); }), "accepted") << trained;
  }
  adapted.add("layers.1.post_attention_layernorm");
  const std::string found = refusal([&] { check.require_frozen(); }, Code::kInternal);
  EXPECT_MENTIONS(found, "weights that LoRA freezes have changed");
}

}  // namespace
}  // namespace echelon
