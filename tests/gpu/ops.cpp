#include "model/ops/ops.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <functional>

#include "gpu/accelerator.h"
#include "gpu/device.h"
#include "model/ops/products/fp8_matrix.h"
#include "unit/model/tensors.h"

// The model's operations on tensors of a GPU beside the same operations on the CPU, through the plugin
// itself.
namespace echelon::ops {
namespace {

using test::accelerator;
using test::relative_error;

class GpuOps : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    ECHELON_NEEDS_GPU();
    accelerator().select(0);
    install_device_kernels(accelerator().kernels());
    at::manual_seed(1);
  }
  [[nodiscard]] static double tolerance() { return GetParam() == at::kFloat ? 1e-5 : 2e-2; }
  [[nodiscard]] static at::Tensor random(at::IntArrayRef shape) { return at::randn(shape).to(GetParam()); }
  [[nodiscard]] static at::Tensor leaf(const at::Tensor& value, at::Device device) {
    return value.detach().clone().to(device).requires_grad_(true);
  }
  /// The same weight on both devices, its gradient in a sink of each.
  struct Twin {
    explicit Twin(const std::vector<std::int64_t>& shape)
        : host("w", shape, InitSpec{}), gpu("w", shape, InitSpec{}) {
      const at::Tensor value = random(shape);
      host.value = leaf(value, at::kCPU);
      gpu.value = leaf(value, at::kCUDA);
      host.sink = &host_sink;
      gpu.sink = &gpu_sink;
    }
    [[nodiscard]] Parameter& on(at::Device device) { return device.is_cuda() ? gpu : host; }
    test::MemorySink host_sink;
    test::MemorySink gpu_sink;
    Parameter host;
    Parameter gpu;
  };
  static void expect_near(const at::Tensor& gpu, const at::Tensor& host, const char* what) {
    ASSERT_TRUE(gpu.is_cuda()) << what;
    EXPECT_EQ(gpu.scalar_type(), host.scalar_type()) << what;
    EXPECT_LT(relative_error(gpu.cpu(), host), tolerance()) << what;
  }
  /// Expects equal outputs and gradients of a random input on both devices, and of `w` where there is one.
  static void expect_alike(at::IntArrayRef inputs, at::IntArrayRef outputs,
                           const std::function<at::Tensor(const at::Tensor&)>& operation, Twin* w = nullptr) {
    const at::Tensor value = random(inputs);
    const at::Tensor dy = random(outputs);
    const at::Tensor host = leaf(value, at::kCPU);
    const at::Tensor gpu = leaf(value, at::kCUDA);
    const at::Tensor y = operation(host);
    const at::Tensor y_gpu = operation(gpu);
    expect_near(y_gpu, y, "output");
    y.backward(dy);
    y_gpu.backward(dy.cuda());
    expect_near(gpu.grad(), host.grad(), "input gradient");
    if (w != nullptr) expect_near(w->gpu.gradient, w->host.gradient, "weight gradient");
  }
};

INSTANTIATE_TEST_SUITE_P(Types, GpuOps, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

TEST_P(GpuOps, RmsNormMatchesTheCpuAndAddsUpOverTwoPasses) {
  Twin w({1000});
  const auto norm = [&](const at::Tensor& x) {
    return rms_norm(x, w.on(x.device()), 1e-5, NormRounding::kTwice);
  };
  for (int pass = 0; pass < 2; ++pass) expect_alike({33, 1000}, {33, 1000}, norm, &w);
  EXPECT_FALSE(w.gpu.value.grad().defined());
}

TEST_P(GpuOps, AddRmsNormMatchesTheCpu) {
  Twin w({1000});
  const at::Tensor value = random({33, 1000});
  const at::Tensor added = random({33, 1000});
  const at::Tensor factors = random({33, 1000});
  const at::Tensor host = leaf(value, at::kCPU);
  const at::Tensor gpu = leaf(value, at::kCUDA);
  const SumAndNorm both = add_rms_norm(host, added, w.host, 1e-5, NormRounding::kTwice);
  const SumAndNorm both_gpu = add_rms_norm(gpu, added.cuda(), w.gpu, 1e-5, NormRounding::kTwice);
  EXPECT_TRUE(at::equal(both_gpu.sum.cpu(), both.sum));
  expect_near(both_gpu.norm, both.norm, "norm");
  (both.norm * factors + both.sum).sum().backward();
  (both_gpu.norm * factors.cuda() + both_gpu.sum).sum().backward();
  expect_near(gpu.grad(), host.grad(), "input gradient");
  expect_near(w.gpu.gradient, w.host.gradient, "weight gradient");
}

TEST_P(GpuOps, SwiGluMatchesTheCpu) {
  expect_alike({33, 600}, {33, 300}, swiglu);
}

TEST_P(GpuOps, AttentionMatchesTheCpuWithAndWithoutSharedHeads) {
  for (const kernels::QkvShape& s : {kernels::QkvShape{64, 4, 4, 64}, kernels::QkvShape{100, 6, 2, 32},
                                     kernels::QkvShape{257, 8, 2, 128}}) {
    SCOPED_TRACE(s.seq_len);
    const at::Tensor angle = at::rand({s.seq_len, s.head_dim / 2}) * 6.28;
    const at::Tensor cos_sin = at::cat({angle.cos(), angle.sin()}, 1).contiguous();
    const AttentionOptions options{s.heads, s.kv_heads, s.head_dim, true,
                                   1.0F / std::sqrt(static_cast<float>(s.head_dim))};
    const Sequences two = make_sequences(2, s.seq_len);
    const auto attend = [&](const at::Tensor& qkv) {
      const at::Tensor y =
          self_attention(qkv, two, options, {.rotary = cos_sin.to(qkv.device()), .bias = {}});
      EXPECT_TRUE(y.is_contiguous() || !y.is_cuda());
      return y;
    };
    expect_alike({2 * s.seq_len, (s.heads + 2 * s.kv_heads) * s.head_dim},
                 {2 * s.seq_len, s.heads * s.head_dim}, attend);
  }
}

TEST_P(GpuOps, AttentionOfSequencesOfDifferentLengthsMatchesTheCpu) {
  const Sequences queries = make_sequences({5, 130, 64});
  const Sequences keys = make_sequences({17, 3, 90});
  const AttentionOptions options{4, 4, 32, false, 0.2F};
  const at::Tensor bias = random({4, 2 * 130 - 1});
  const at::Tensor qkv = random({queries->tokens(), 3 * 4 * 32});
  const at::Tensor kv = random({keys->tokens(), 2 * 4 * 32});
  const at::Tensor q = random({queries->tokens(), 4 * 32});
  const at::Tensor dy = random({queries->tokens(), 4 * 32});
  std::vector<std::vector<at::Tensor>> found;
  for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA)}) {
    const std::vector<at::Tensor> in{leaf(qkv, device), leaf(bias, device), leaf(q, device),
                                     leaf(kv, device)};
    const at::Tensor self = self_attention(in[0], queries, options, {.rotary = {}, .bias = in[1]});
    const at::Tensor cross = cross_attention(in[2], in[3], queries, keys, options);
    (self + cross).backward(dy.to(device));
    found.push_back({self, cross, in[0].grad(), in[1].grad(), in[2].grad(), in[3].grad()});
  }
  for (std::size_t i = 0; i < found[0].size(); ++i) expect_near(found[1][i], found[0][i], "tensor");
}

// Documents that lie one behind another, as packing: documents has them: no bias, groups, rotary positions,
// of a quarter of each head.
TEST_P(GpuOps, AttentionOfPackedDocumentsMatchesTheCpu) {
  const Sequences documents = make_sequences({5, 1, 300, 64});
  const AttentionOptions options{4, 2, 64, true, 0.125F};
  const at::Tensor angle = at::rand({documents->longest(), 8}) * 6.28;
  const at::Tensor rotary = at::cat({angle.cos(), angle.sin()}, 1).contiguous();
  for (const bool rotated : {true, false}) {
    const auto attend = [&](const at::Tensor& qkv) {
      const at::Tensor table = rotated ? rotary.to(qkv.device()) : at::Tensor();
      return self_attention(qkv, documents, options, {.rotary = table, .bias = {}});
    };
    expect_alike({documents->tokens(), (4 + 2 * 2) * 64}, {documents->tokens(), 4 * 64}, attend);
  }
}

TEST_P(GpuOps, DropoutZeroesTheElementsThatItZeroesOnTheCpu) {
  Batch batch;
  batch.training = true;
  batch.dropout_key = 7;
  batch.first_sample = 1000;
  batch.by_sample = make_sequences({3, 40});
  const at::Tensor x = random({43, 77});
  EXPECT_TRUE(at::equal(dropout(x.cuda(), 0.3, batch, "a").cpu(), dropout(x, 0.3, batch, "a")));
}

TEST_P(GpuOps, AttentionNamesItsKernelAndRefusesToDoWithoutOne) {
  const std::string name = attention_backend(at::kCUDA, GetParam(), {128, 4, 2, 64});
  EXPECT_TRUE(name == "flash" || name == "cudnn" || name == "memory-efficient") << name;
  if (GetParam() == at::kFloat) {
    EXPECT_EQ(name, "memory-efficient");
    EXPECT_THROW((void)attention_backend(at::kCUDA, at::kFloat, {128, 4, 2, 6}), Error);
    return;
  }
  EXPECT_NE(name, "memory-efficient");
}

TEST_P(GpuOps, LinearCrossEntropyMatchesTheCpu) {
  Twin w({311, 64});
  for (int pass = 0; pass < 2; ++pass) {
    const at::Tensor value = random({45, 64});
    at::Tensor targets = at::randint(0, 311, {45}, at::kLong);
    targets[4] = -100;
    const at::Tensor host = leaf(value, at::kCPU);
    const at::Tensor gpu = leaf(value, at::kCUDA);
    const at::Tensor loss = linear_cross_entropy(host, w.host, targets, 0.125);
    const at::Tensor loss_gpu = linear_cross_entropy(gpu, w.gpu, targets.cuda(), 0.125);
    loss.backward();
    loss_gpu.backward();
    expect_near(loss_gpu, loss, "loss");
    expect_near(gpu.grad(), host.grad(), "input gradient");
    expect_near(w.gpu.gradient, w.host.gradient, "weight gradient");
    const at::NoGradGuard no_grad;
    expect_near(linear_cross_entropy(gpu, w.gpu, targets.cuda(), 0.0), loss, "loss without gradients");
    expect_near(token_losses(gpu, w.gpu, targets.cuda()), token_losses(host, w.host, targets), "tokens");
  }
}

TEST_P(GpuOps, LinearCrossEntropyOfManyChunksMatchesAten) {
  const std::int64_t vocab = 128'256;  // 4,096 tokens a chunk in two-byte types
  Twin w({vocab, 64});
  const at::Tensor x = leaf(random({4300, 64}) * 0.2, at::kCUDA);
  const at::Tensor targets = at::randint(0, vocab, {4300}, at::kLong).cuda();
  const at::Tensor x32 = x.detach().to(at::kFloat).requires_grad_(true);
  const at::Tensor w32 = w.gpu.value.detach().to(at::kFloat).requires_grad_(true);
  const at::Tensor loss = linear_cross_entropy(x, w.gpu, targets, 1.0);
  const at::Tensor loss32 = at::cross_entropy_loss(at::linear(x32, w32), targets, {}, at::Reduction::Sum);
  loss.backward();
  loss32.backward();
  const std::vector<std::pair<at::Tensor, at::Tensor>> pairs{
      {loss, loss32}, {x.grad(), x32.grad()}, {w.gpu.gradient, w32.grad()}};
  for (const auto& [gpu, reference] : pairs)
    EXPECT_LT(relative_error(gpu.cpu().to(at::kFloat), reference.cpu()), tolerance());
}

TEST_P(GpuOps, EmbeddingAndLinearMatchTheCpu) {
  Twin table({50, 64});
  Twin w({96, 64});
  const at::Tensor ids = at::randint(0, 49, {40}, at::kLong);
  const at::Tensor dy = random({40, 96});
  const at::Tensor y = linear(embedding(ids, table.host), w.host);
  const at::Tensor y_gpu = linear(embedding(ids.cuda(), table.gpu), w.gpu);
  expect_near(y_gpu, y, "output");
  y.backward(dy);
  y_gpu.backward(dy.cuda());
  expect_near(w.gpu.gradient, w.host.gradient, "weight gradient");
  expect_near(table.gpu.gradient, table.host.gradient, "table gradient");
}

/// Finite bf16 values of at most `limit`, every one of them.
at::Tensor all_values(double limit) {
  const at::Tensor all = at::arange(-32768, 32768, at::kShort).view(at::kBFloat16).view({-1, 16});
  return at::where(all.abs() <= limit, all, at::zeros_like(all));
}

TEST_P(GpuOps, CastsToFp8HaveTheBitsOfPyTorchs) {
  if (GetParam() != at::kBFloat16 || accelerator().capability(0) < 89)
    GTEST_SKIP() << "of bf16, where products of fp8 are";
  for (const at::ScalarType type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    for (const double limit : {3.4e38, 448.0, 1.0, 1e-3, 1e-13}) {
      const at::Tensor matrix = all_values(limit).narrow(0, 0, 4091);
      const at::Tensor scale = fp8_scale(matrix, type);
      const at::Tensor scale_gpu = fp8_scale(matrix.cuda(), type);
      EXPECT_TRUE(at::equal(scale_gpu.cpu(), scale)) << limit;
      const Fp8Orders made = to_fp8(matrix, type, scale, {.rows = true, .transposed = true});
      const Fp8Orders made_gpu = to_fp8(matrix.cuda(), type, scale_gpu, {.rows = true, .transposed = true});
      const auto same = [](const Fp8Matrix& gpu, const Fp8Matrix& host) {
        return at::equal(gpu.elements.cpu().view(at::kByte), host.elements.view(at::kByte));
      };
      EXPECT_TRUE(same(made_gpu.rows, made.rows)) << limit;
      EXPECT_TRUE(same(made_gpu.transposed, made.transposed)) << limit;
    }
  }
}

TEST_P(GpuOps, Fp8LinearMatchesTheCpuAndAddsUpOverTwoPasses) {
  if (GetParam() != at::kBFloat16 || accelerator().capability(0) < 89)
    GTEST_SKIP() << "of bf16, where products of fp8 are";
  Twin w({96, 64});
  const auto product = [&](const at::Tensor& x) { return fp8_linear(x, w.on(x.device())); };
  for (int pass = 0; pass < 2; ++pass) expect_alike({133, 64}, {133, 96}, product, &w);
}

class GpuAccelerator : public ::testing::Test {
 protected:
  void SetUp() override { ECHELON_NEEDS_GPU(); }
};

TEST_F(GpuAccelerator, TellsTheDevicesApartAndTheirMemory) {
  EXPECT_EQ(accelerator().device_count(), test::visible_devices());
  EXPECT_EQ(accelerator().device_id(0).size(), 32U);
  const app::DeviceMemory memory = accelerator().memory(0);
  EXPECT_GT(memory.free_bytes, 0U);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
}

TEST_F(GpuAccelerator, CopiesThroughTheHostAfterWhatIsQueued) {
  accelerator().select(0);
  const DeviceCopies copies = accelerator().host_copies(0);
  at::Tensor x = at::zeros({1'000'000}, at::TensorOptions().device(at::kCUDA));
  for (int i = 0; i < 100; ++i) x.add_(1.0);
  std::byte* host = copies.allocate_host(x.nbytes());
  copies.to_host(host, x.const_data_ptr(), x.nbytes());
  EXPECT_EQ(reinterpret_cast<const float*>(host)[999'999], 100.0F);
  at::Tensor y = at::zeros_like(x);
  copies.to_device(y.mutable_data_ptr(), host, x.nbytes());
  EXPECT_TRUE(at::equal(x, y));
  copies.free_host(host);
}

}  // namespace
}  // namespace echelon::ops
