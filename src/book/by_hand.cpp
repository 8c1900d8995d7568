#include <ATen/ATen.h>

#include <map>
#include <string_view>

#include "book/books.h"
#include "book/operations.h"

namespace echelon::book {
namespace {

using c10::IValue;
using Arguments = c10::ArrayRef<IValue>;
using Results = std::vector<IValue>;
using Make = Results (*)(Arguments);

Results like_first(Arguments in) {
  return {at::empty_like(in[0].toTensor(), at::MemoryFormat::Contiguous)};
}

/// In the order of memory of the first argument.
Results as_first(Arguments in) {
  return {at::empty_like(in[0].toTensor(), at::MemoryFormat::Preserve)};
}

Results index_select(Arguments in) {
  const at::Tensor& from = in[0].toTensor();
  std::vector<std::int64_t> shape = from.sizes().vec();
  const std::int64_t dim = in[1].toInt();
  if (!shape.empty())
    shape[static_cast<std::size_t>(dim < 0 ? dim + from.dim() : dim)] = in[2].toTensor().numel();
  return {at::empty(shape, from.options())};
}

Results embedding_dense_backward(Arguments in) {
  const at::Tensor& dy = in[0].toTensor();
  return {at::empty({in[2].toInt(), dy.size(-1)}, dy.options())};
}

Results layer_norm(Arguments in) {
  const at::Tensor& x = in[0].toTensor();
  std::vector<std::int64_t> shape = x.sizes().vec();
  const std::size_t normalized = in[1].toIntVector().size();
  for (std::size_t d = shape.size() - normalized; d < shape.size(); ++d) shape[d] = 1;
  const bool mixed =
      in[2].isTensor() && in[2].toTensor().defined() && in[2].toTensor().scalar_type() != x.scalar_type();
  const auto options = x.options().dtype(mixed ? at::kFloat : x.scalar_type());
  return {at::empty(x.sizes(), x.options()), at::empty(shape, options), at::empty(shape, options)};
}

Results layer_norm_backward(Arguments in) {
  const auto wanted = in[7].toBoolList();
  const auto one = [&](std::size_t which, const IValue& of) {
    if (!wanted.get(which)) return at::Tensor();
    return at::empty_like(of.toTensor(), at::MemoryFormat::Contiguous);
  };
  return {one(0, in[1]), one(1, in[5]), one(2, in[6])};
}

Results absolute_out(Arguments in) {
  const at::Tensor& x = in[0].toTensor();
  const at::Tensor& out = in[1].toTensor();
  if (out.sizes() == x.sizes()) return {out};
  out.resize_(x.sizes());
  if (x.is_non_overlapping_and_dense())
    out.unsafeGetTensorImpl()->set_sizes_and_strides(x.sizes(), x.strides());
  return {out};
}

Results convolution(Arguments in) {
  const at::Tensor& x = in[0].toTensor();
  const at::Tensor& w = in[1].toTensor();
  const auto stride = in[3].toIntVector();
  const auto padding = in[4].toIntVector();
  const auto dilation = in[5].toIntVector();
  std::vector<std::int64_t> shape{x.size(0), w.size(0)};
  // One number stands for all dimensions.
  const auto of = [](const std::vector<std::int64_t>& values, std::int64_t d) {
    return values[values.size() == 1 ? 0 : static_cast<std::size_t>(d - 2)];
  };
  for (std::int64_t d = 2; d < x.dim(); ++d) {
    const std::int64_t window = of(dilation, d) * (w.size(d) - 1) + 1;
    shape.push_back((x.size(d) + 2 * of(padding, d) - window) / of(stride, d) + 1);
  }
  return {at::empty(shape, x.options())};
}

/// On the CPU oneDNN reads copies of its operands in an order of its own.
Results convolution_backward(Arguments in) {
  const auto wanted = in[10].toBoolList();
  const at::Tensor& dy = in[0].toTensor();
  const at::Tensor& x = in[1].toTensor();
  const at::Tensor& w = in[2].toTensor();
  const auto plain = [](const at::Tensor& like) {
    return at::empty_like(like, at::MemoryFormat::Contiguous);
  };
  const auto copy = [&](const at::Tensor& of) { return of.is_cpu() ? plain(of) : at::Tensor(); };
  Results results(3, at::Tensor());
  if (wanted.get(0)) {
    const at::Tensor copies[] = {copy(dy), copy(w)};
    results[0] = plain(x);
  }
  if (wanted.get(1)) {
    const at::Tensor copies[] = {copy(dy), copy(x)};
    results[1] = plain(w);
  }
  if (wanted.get(2)) results[2] = at::empty({w.size(0)}, dy.options());
  return results;
}

/// [batch, heads, queries, head_dim].
Results attention(Arguments in) {
  const at::Tensor& q = in[0].toTensor();
  const std::int64_t batch = q.size(0);
  // As the kernels lay it out: by token, then by head.
  const at::Tensor result = at::empty({batch, q.size(2), q.size(1), in[2].toTensor().size(3)}, q.options());
  return {result.transpose(1, 2), at::empty({batch, q.size(1), q.size(2)}, q.options().dtype(at::kFloat))};
}

Results efficient_attention(Arguments in) {
  Results results = attention(in);
  const auto counters = at::TensorOptions().dtype(at::kLong);
  results.emplace_back(at::empty({}, counters));
  results.emplace_back(at::empty({}, counters));
  return results;
}

at::Tensor like_heads(const at::Tensor& x) {
  return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
}

Results attention_backward(Arguments in) {
  const at::Tensor& q = in[1].toTensor();
  const at::Tensor& k = in[2].toTensor();
  Results results{like_heads(q), like_heads(k), like_heads(in[3].toTensor())};
  // Flash attention needs temporary memory: gradients of queries in fp32, and of keys and values for every
  // query head.
  const at::Tensor sums = at::empty(q.sizes(), q.options().dtype(at::kFloat));
  const std::int64_t repeated = q.size(1) == k.size(1) ? 0 : 2 * k.numel() / k.size(1) * q.size(1);
  const at::Tensor by_query = at::empty({repeated}, q.options());
  return results;
}

Results efficient_attention_backward(Arguments in) {
  const at::Tensor& mask = in[4].isTensor() ? in[4].toTensor() : at::Tensor();
  Results results{like_heads(in[1].toTensor()), like_heads(in[2].toTensor()), like_heads(in[3].toTensor())};
  results.emplace_back(mask.defined() && in[10].toBoolList().get(3) ? at::empty_like(mask) : at::Tensor());
  return results;
}

/// Copies between devices; the result is the second argument.
Results copy_from(Arguments in) {
  return {in[1]};
}

/// The value of every element that the host asks for.
Results one(Arguments in) {
  if (!in[0].toTensor().is_cpu()) books().sync();
  const at::ScalarType type = in[0].toTensor().scalar_type();
  if (c10::isIntegralType(type, true)) return {IValue(c10::Scalar(1))};
  return {IValue(c10::Scalar(1.0))};
}

Results last(Arguments in) {
  return {in.back()};
}

/// where(condition, a, b).
Results where(Arguments in) {
  const at::Tensor& a = in[1].toTensor();
  const at::Tensor& b = in[2].toTensor();
  const auto shape = at::infer_size(at::infer_size(in[0].toTensor().sizes(), a.sizes()), b.sizes());
  return {at::empty(shape, a.options().dtype(at::result_type(a, b)))};
}

const std::map<std::string_view, Make>& makers() {
  static const std::map<std::string_view, Make> known{
      {"aten::index_select", index_select},
      {"aten::embedding_dense_backward", embedding_dense_backward},
      {"aten::roll", like_first},
      {"aten::flip", as_first},
      {"aten::native_layer_norm", layer_norm},
      {"aten::native_layer_norm_backward", layer_norm_backward},
      {"aten::convolution", convolution},
      {"aten::convolution_backward", convolution_backward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
      {"aten::_scaled_dot_product_efficient_attention", efficient_attention},
      {"aten::_scaled_dot_product_efficient_attention_backward", efficient_attention_backward},
      {"aten::_copy_from", copy_from},
      {"aten::_copy_from_and_resize", copy_from},
      {"aten::_local_scalar_dense", one},
      {"aten::relu", as_first},
      {"aten::where.self", where},
      {"aten::abs.out", absolute_out},
      {"aten::_scaled_mm.out", last},
  };
  return known;
}

}  // namespace

bool by_hand(const c10::OperatorHandle& op, Arguments arguments, Results& results) {
  const auto& name = op.operator_name();
  const auto found =
      makers().find(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name);
  if (found == makers().end()) return false;
  results = found->second(arguments);
  return true;
}

}  // namespace echelon::book
