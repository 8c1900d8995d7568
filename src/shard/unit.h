#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "shard/buffer_pool.h"
#include "shard/layout.h"

namespace echelon {

/// The parameters gathered and reduced together. The persistent part is this rank's slice of them in fp32
/// (master weights, gradients); the whole weights exist in compute precision only between start_unshard() and
/// reshard(), the whole gradients only from the first open() to finish_reduce(). Every rank makes the same
/// calls in the same order.
class Unit final : public GradientSink {
 public:
  Unit(std::string name, std::vector<Parameter*> parameters, Communicator& comm, BufferPool& pool,
       at::ScalarType compute, at::Device device);
  /// Waits for collectives that still use this unit's memory; their errors have been or will be seen
  /// elsewhere.
  ~Unit() override;
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  /// This rank's slice gets its initial values; nothing else is allocated.
  void initialise(std::uint64_t seed);

  /// Casts the slice straight into its slot of the gathered buffer and starts the all-gather in place. No-op
  /// when gathered already.
  void start_unshard();
  void finish_unshard();
  /// Frees the gathered bytes; views stay valid objects.
  void reshard();

  void open(Parameter& parameter) override;
  /// Backward of this unit is complete: frees the weights and starts the sum of gradients over ranks. With
  /// `accumulate` it is added to the slice's gradient.
  void start_reduce(bool accumulate);
  void finish_reduce();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const FlatLayout& layout() const { return layout_; }
  [[nodiscard]] const std::vector<SlicePiece>& pieces() const { return pieces_; }
  [[nodiscard]] const at::Tensor& master() const { return master_; }      ///< fp32 [slice_numel]
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }  ///< fp32 [slice_numel]

 private:
  void collect_leaf_gradients();

  std::string name_;
  FlatLayout layout_;
  Communicator* comm_;
  at::ScalarType compute_;
  at::Tensor master_;
  at::Tensor gradient_;
  std::vector<SlicePiece> pieces_;
  ElasticTensor gathered_;
  ElasticTensor outgoing_;   ///< whole gradients, compute precision
  bool collecting_ = false;  ///< gradients are being written to outgoing_
  Pending unsharding_;
  Pending reducing_;
};

}  // namespace echelon
