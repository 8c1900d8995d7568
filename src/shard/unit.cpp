#include "shard/unit.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "model/kernels/kernels.h"

namespace echelon {
namespace {

DType dtype_of(at::ScalarType type) {
  return type == at::kBFloat16 ? DType::kBF16 : DType::kF32;
}

/// One pass fp32 -> compute precision, straight to its place in the gathered buffer.
void cast_into(const at::Tensor& slice, const at::Tensor& slot) {
  if (slot.is_cpu() && slot.scalar_type() == at::kBFloat16) {
    kernels::kernels<kernels::Bf16>().from_float(
        slice.const_data_ptr<float>(), static_cast<kernels::Bf16*>(slot.mutable_data_ptr()), slice.numel());
  } else {
    at::Tensor target = slot;
    target.copy_(slice);
  }
}

}  // namespace

Unit::Unit(std::string name, std::vector<Parameter*> parameters, Communicator& comm, BufferPool& pool,
           at::ScalarType compute, at::Device device)
    : name_(std::move(name)),
      layout_(std::move(parameters), comm.size()),
      comm_(&comm),
      compute_(compute),
      master_(at::zeros({layout_.slice_numel()}, at::TensorOptions().dtype(at::kFloat).device(device))),
      gradient_(at::empty_like(master_)),
      pieces_(layout_.pieces(comm.rank())),
      gathered_(pool, layout_.padded_numel(), compute, device),
      outgoing_(pool, layout_.padded_numel(), compute, device) {
  for (std::size_t i = 0; i < layout_.parameters().size(); ++i) {
    Parameter& parameter = *layout_.parameters()[i];
    parameter.value = gathered_.view(layout_.offset(i), parameter.shape()).requires_grad_(true);
    parameter.gradient = outgoing_.view(layout_.offset(i), parameter.shape());
    parameter.sink = this;
  }
  gathered_.deflate();
  outgoing_.deflate();
}

Unit::~Unit() {
  for (Pending* pending : {&unsharding_, &reducing_}) {
    try {
      pending->wait();
    } catch (const Error&) {
      // Communication has failed, so nothing uses the memory any more; whoever caused this destruction
      // reports it.
    }
  }
}

void Unit::initialise(std::uint64_t seed) {
  at::Tensor values = master_.is_cpu() ? master_ : at::zeros({layout_.slice_numel()}, at::kFloat);
  for (const SlicePiece& piece : pieces_) {
    fill_initial(*piece.part, piece.parameter->init(), seed, piece.begin, piece.end - piece.begin,
                 values.mutable_data_ptr<float>() + piece.at);
  }
  if (!master_.is_cpu()) master_.copy_(values);
}

void Unit::start_unshard() {
  if (gathered_.inflated()) return;
  gathered_.inflate();
  const std::int64_t slice = layout_.slice_numel();
  cast_into(master_, gathered_.view(comm_->rank() * slice, {slice}));
  unsharding_ =
      comm_->all_gather(gathered_.data(), static_cast<std::size_t>(slice), dtype_of(compute_), name_);
}

void Unit::finish_unshard() {
  unsharding_.wait();
}

void Unit::reshard() {
  finish_unshard();
  gathered_.deflate();
}

void Unit::open(Parameter& /*parameter*/) {
  if (collecting_) return;
  finish_reduce();  // the sum of the micro-batch before may still be on its way out
  outgoing_.inflate();
  collecting_ = true;
  const std::int64_t padding = layout_.padded_numel() - layout_.numel();
  outgoing_.view(layout_.numel(), {padding}).zero_();
}

void Unit::collect_leaf_gradients() {
  const at::NoGradGuard no_grad;
  for (Parameter* parameter : layout_.parameters()) {
    at::Tensor& leaf = parameter->value.mutable_grad();
    open(*parameter);
    if (leaf.defined()) {
      if (parameter->deposited) {
        parameter->gradient.add_(leaf);
      } else {
        parameter->gradient.copy_(leaf);
      }
      leaf = at::Tensor();
    } else if (!parameter->deposited) {
      parameter->gradient.zero_();  // not used in this micro-batch
    }
    parameter->deposited = false;
  }
}

void Unit::start_reduce(bool accumulate) {
  collect_leaf_gradients();
  reshard();
  collecting_ = false;
  reducing_ = comm_->reduce_scatter(outgoing_.data(), dtype_of(compute_), gradient_.mutable_data_ptr<float>(),
                                    static_cast<std::size_t>(layout_.slice_numel()), 1.0F, accumulate, name_);
}

void Unit::finish_reduce() {
  reducing_.wait();
  if (!collecting_) outgoing_.deflate();
}

}  // namespace echelon
