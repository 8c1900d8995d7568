#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

/// Token positions grouped by id: ids[order[begin..end)] are equal within a run.
struct Run {
  std::int64_t id;
  std::int64_t begin;
  std::int64_t end;
};

std::vector<Run> runs_of(const std::int64_t* ids, const std::vector<std::int64_t>& order) {
  std::vector<Run> runs;
  const auto n = static_cast<std::int64_t>(order.size());
  for (std::int64_t begin = 0; begin < n;) {
    std::int64_t end = begin + 1;
    while (end < n && ids[order[end]] == ids[order[begin]]) ++end;
    runs.push_back({ids[order[begin]], begin, end});
    begin = end;
  }
  return runs;
}

/// Adds the rows of dy to the rows of `gradient` named by `ids`. A frequent token's rows are summed in fp32
/// and rounded once: adding them one by one in bf16 would stop growing after a few hundred.
void add_rows(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& gradient, bool keep) {
  const std::int64_t width = dy.size(1);
  const std::int64_t* id = in<std::int64_t>(ids);
  std::vector<std::int64_t> order(static_cast<std::size_t>(ids.numel()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  // Stable: equal ids are summed in token order, so the bits do not depend on the sort. Each run has one
  // writer, so threads need no atomics.
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return id[a] < id[b]; });
  const std::vector<Run> runs = runs_of(id, order);
  visit(dy.scalar_type(), [&]<class T>(ElementTag<T>) {
    at::parallel_for(0, static_cast<std::int64_t>(runs.size()), 16, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t r = from; r < to; ++r) {
        kernels::kernels<T>().sum_rows(in<T>(dy), order.data() + runs[r].begin, runs[r].end - runs[r].begin,
                                       out<T>(gradient) + runs[r].id * width, width, keep);
      }
    });
  });
}

struct Embedding : torch::autograd::Function<Embedding> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& ids, const at::Tensor& value,
                            Parameter* weight) {
    ctx->save_for_backward({ids});
    ctx->saved_data["weight"] = reinterpret_cast<std::int64_t>(weight);
    return at::index_select(value, 0, ids);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& weight = *reinterpret_cast<Parameter*>(ctx->saved_data["weight"].toInt());
    const at::Tensor ids = ctx->get_saved_variables()[0];
    const at::Tensor dy = grads[0].contiguous();
    if (device_kernels(dy) != nullptr) {
      return {{}, deposit(weight, at::embedding_dense_backward(dy, ids, weight.shape()[0], -1, false)), {}};
    }
    const auto write = [&](const at::Tensor& into, bool add) {
      if (!add) into.zero_();
      add_rows(ids, dy, into, add);
    };
    return {{}, deposit_by(weight, write), {}};
  }
};

}  // namespace

at::Tensor embedding(const at::Tensor& ids, Parameter& weight) {
  return Embedding::apply(ids, weight.value, &weight);
}

}  // namespace echelon::ops
