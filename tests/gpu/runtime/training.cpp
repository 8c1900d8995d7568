#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/str.h"
#include "gpu/runtime/ranks.h"

namespace echelon::test {
namespace {

constexpr std::size_t kCount = 37;  ///< elements of a rank's part; odd on purpose
constexpr int kLayers = 4;
constexpr int kSlots = 2;  ///< gathered layers at a time
constexpr int kSteps = 2;

float weight_of(int step, int layer, std::size_t index) {
  return static_cast<float>((index * 5 + static_cast<std::size_t>(step * 3 + layer * 7)) % 31);
}

/// Small integers: exact in every type and order. No part's sums are those of another part.
float gradient_of(int rank, int layer, std::size_t index) {
  const auto own = static_cast<std::size_t>(rank);
  return static_cast<float>((index * 2 + static_cast<std::size_t>(layer) + own * own * 5) % 11) - 5.0F;
}

void store(DType type, void* memory, std::size_t index, float value) {
  if (type == DType::kF32)
    static_cast<float*>(memory)[index] = value;
  else
    static_cast<std::uint16_t*>(memory)[index] =
        type == DType::kF16 ? float_to_half(value) : float_to_bf16(value);
}

void expect(float got, float wanted, const std::string& what) {
  if (got != wanted) throw Error(Code::kTraining, str(what, " is ", got, ", expected ", wanted));
}

/// A rank's side of a hybrid strategy: weights are sharded over `shard`, gradients also summed over
/// `replicas`.
class Trainer {
 public:
  explicit Trainer(Rank& rank) : rank_(rank), world_(rank.communicator()) {
    const int half = world_->size() % 2 == 0 && world_->size() > 2 ? world_->size() / 2 : world_->size();
    shard_ = world_->split([half](int other) { return other / half; });
    replicas_ = world_->split([half](int other) { return other % half; });
    all_ = kCount * static_cast<std::size_t>(shard_->size());
    for (void*& slot : slots_) slot = rank.machine.device_memory(all_ * sizeof(float));
    gradients_ = rank.machine.device_memory(all_ * sizeof(float));
    for (float*& sum : sums_) sum = static_cast<float*>(rank.machine.device_memory(kCount * sizeof(float)));
    norm_ = static_cast<double*>(rank.machine.device_memory(sizeof(double)));
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  void step(int step) {
    Pending ahead = gather(step, 0);
    for (int layer = 0; layer < kLayers; ++layer) {
      Pending now = ahead;
      if (layer + 1 < kLayers) ahead = gather(step, layer + 1);
      now.wait();
      backward(step, layer);
      reduce(step, layer);
    }
    for (Pending& sum : summed_) sum.wait();
    check_sums(step);
    check_norm();
    talk(step);
  }

 private:
  [[nodiscard]] void* slot_of(int layer) const { return slots_[static_cast<std::size_t>(layer % kSlots)]; }

  Pending gather(int step, int layer) {
    float* own = static_cast<float*>(slot_of(layer)) + static_cast<std::size_t>(shard_->rank()) * kCount;
    const std::size_t first = static_cast<std::size_t>(shard_->rank()) * kCount;
    rank_.machine.launch(rank_.compute, str("weights of layer ", layer), {}, {{own, kCount * sizeof(float)}},
                         [=] {
                           for (std::size_t i = 0; i < kCount; ++i)
                             own[i] = weight_of(step, layer, first + i);
                         });
    return shard_->all_gather(slot_of(layer), kCount, DType::kF32, str("layer ", layer));
  }

  /// Gradients are those of the rank where the weights are right, and far off where not.
  void backward(int step, int layer) {
    pending_.wait();  // of the buffer that is filled here
    const auto* weights = static_cast<const float*>(slot_of(layer));
    const DType type = type_of(layer);
    rank_.machine.launch(rank_.compute, str("backward of layer ", layer), {{weights, all_ * sizeof(float)}},
                         {{gradients_, all_ * size_of(type)}},
                         [=, all = all_, to = gradients_, rank = world_->rank()] {
                           for (std::size_t i = 0; i < all; ++i) {
                             const bool right = weights[i] == weight_of(step, layer, i);
                             store(type, to, i, right ? gradient_of(rank, layer, i) : 1000.0F);
                           }
                         });
  }

  void reduce(int step, int layer) {
    float* sum = sums_[layer];
    pending_ =
        shard_->reduce_scatter(gradients_, type_of(layer), sum, kCount, 0.5F, step > 0, str("layer ", layer));
    summed_[layer] = replicas_->all_reduce(sum, kCount, DType::kF32, ReduceOp::kSum, str("layer ", layer));
    const double waited_s = shard_->stream_wait_s();
    if (!(waited_s >= waited_s_)) throw Error(Code::kTraining, "the time of waits went back");
    waited_s_ = waited_s;
  }

  void check_sums(int step) {
    for (int layer = 0; layer < kLayers; ++layer) {
      const auto got = rank_.values<float>(sums_[layer], kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        const std::size_t at = static_cast<std::size_t>(shard_->rank()) * kCount + i;
        float once = 0;
        for (int rank = 0; rank < world_->size(); ++rank) once += gradient_of(rank, layer, at);
        // The second step adds to what the replicas had summed in the first.
        const auto replicas = static_cast<float>(replicas_->size());
        const float wanted = step == 0 ? 0.5F * once : 0.5F * once * (1 + replicas);
        expect(got[i], wanted, str("element ", i, " of the sum of layer ", layer));
      }
    }
  }

  void check_norm() {
    rank_.machine.launch(rank_.compute, "norm", {}, {{norm_, sizeof(double)}},
                         [to = norm_, rank = world_->rank()] { *to = rank + 1.0; });
    world_->all_reduce(norm_, 1, DType::kF64, ReduceOp::kSum, "norm").wait();
    expect(static_cast<float>(rank_.values<double>(norm_, 1)[0]),
           static_cast<float>(world_->size() * (world_->size() + 1)) / 2, "the norm");
  }

  void talk(int step) {
    Blob mine(static_cast<std::size_t>(step * 50 + world_->rank() * 3),
              static_cast<std::byte>(world_->rank()));
    const auto all = world_->gather_blobs(mine, "blobs");
    for (int rank = 0; rank < world_->size(); ++rank) {
      if (all[static_cast<std::size_t>(rank)] !=
          Blob(static_cast<std::size_t>(step * 50 + rank * 3), static_cast<std::byte>(rank)))
        throw Error(Code::kTraining, str("the blob of rank ", rank, " is wrong"));
    }
    world_->barrier("end of step");
  }

  static DType type_of(int layer) {
    constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};
    return kTypes[layer % 3];
  }

  Rank& rank_;
  std::shared_ptr<Communicator> world_;
  std::unique_ptr<Communicator> shard_;
  std::unique_ptr<Communicator> replicas_;
  std::size_t all_ = 0;
  void* slots_[kSlots] = {};
  void* gradients_ = nullptr;
  float* sums_[kLayers] = {};
  double* norm_ = nullptr;
  double waited_s_ = 0;
  Pending pending_;
  Pending summed_[kLayers];
};

}  // namespace

void train_in_small(Rank& rank) {
  Trainer trainer(rank);
  for (int step = 0; step < kSteps; ++step) trainer.step(step);
}

}  // namespace echelon::test
