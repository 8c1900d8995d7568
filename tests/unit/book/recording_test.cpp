#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "book/books.h"
#include "book/communicator.h"
#include "book/device.h"
#include "book/device_kernels.h"
#include "model/kernels/kernels.h"
#include "model/ops/products/product.h"
#include "support/matches.h"

namespace echelon::book {
namespace {

using forecast::Cost;
using forecast::Event;
using forecast::Trace;
using forecast::Work;
using Tensors = std::vector<at::Tensor>;

void open_books(const std::shared_ptr<Activity>& activity = std::make_shared<Activity>()) {
  books().begin(activity, [] { return std::int64_t{0}; });
}

/// What the books say of `body`, carried out while kernels only record.
Trace recorded(const std::function<void()>& body,
               const std::shared_ptr<Activity>& activity = std::make_shared<Activity>()) {
  const Recording recording;
  books().restart();
  open_books(activity);
  body();
  return books().end();
}

/// The only work called `name`.
Work work_of(const Trace& trace, const std::string& name) {
  std::vector<Work> found;
  std::string all;
  for (const Work& work : trace.works) {
    all += trace.names[work.name] + " ";
    if (trace.names[work.name] == name) found.push_back(work);
  }
  EXPECT_EQ(found.size(), 1U) << name << " among: " << all;
  return found.empty() ? Work{} : found[0];
}

/// Kinds of events, and what they are about.
std::string events_of(const Trace& trace) {
  constexpr std::array<const char*, 7> kWords{"work", "issue", "wait", "mark", "hold", "host-hold", "sync"};
  std::string text;
  for (const Event& event : trace.events) {
    text += kWords.at(static_cast<std::size_t>(event.kind));
    text += " " + std::to_string(event.stream) + ":" + std::to_string(event.index) + "; ";
  }
  return text;
}

at::Tensor numbers(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return (at::arange(count, at::kFloat).mul(0.37).sin() + 0.1).to(type).view(shape);
}

TEST(Recording, ComputesNothing) {
  const at::Tensor a = numbers({3, 4});
  const at::Tensor b = numbers({4, 5});
  const at::Tensor changed = at::zeros({4});
  at::Tensor product;
  (void)recorded([&] {
    product = at::mm(a, b);
    changed.fill_(7);
    changed.add_(1).copy_(numbers({4}));
    kernels::kernels<float>().from_float(b.data_ptr<float>(), changed.data_ptr<float>(), 4);
  });
  EXPECT_EQ(product.sizes(), at::IntArrayRef({3, 5}));
  EXPECT_TRUE(changed.eq(0).all().item<bool>());
}

/// FLOPs and bytes of the only work of an operation.
struct Expected {
  const char* name;
  std::function<at::Tensor()> run;
  Cost cost;
  DType type;
  double flops;
  double bytes;
};

void expect_costs(const std::vector<Expected>& cases) {
  for (const Expected& c : cases) {
    const Trace trace = recorded([&] { (void)c.run(); });
    const Work work = work_of(trace, c.name);
    EXPECT_EQ(trace.works.size(), 1U) << c.name;
    EXPECT_EQ(work.flops, c.flops) << c.name;
    EXPECT_EQ(work.bytes, c.bytes) << c.name;
    EXPECT_EQ(work.cost, c.cost) << c.name;
    EXPECT_EQ(work.type, c.type) << c.name;
    EXPECT_EQ(work.stream, 0) << c.name;
    EXPECT_FALSE(work.divided) << c.name;
  }
}

TEST(Recording, CountsWhatProductsCost) {
  const at::Tensor a = numbers({3, 4});
  const at::Tensor b = numbers({4, 5});
  const at::Tensor a_half = a.to(at::kBFloat16);
  const at::Tensor b_half = b.to(at::kBFloat16);
  const at::Tensor bias = numbers({5});
  const at::Tensor wide = at::zeros({3, 5});
  const at::Tensor batch = numbers({2, 3, 4});
  const at::Tensor batch_t = numbers({2, 4, 5});
  constexpr Cost kProduct = Cost::kProduct;
  expect_costs(
      {{"mm", [&] { return at::mm(a, b); }, kProduct, DType::kF32, 120, 4 * (12 + 20 + 15)},
       {"mm", [&] { return at::mm(a_half, b_half); }, kProduct, DType::kBF16, 120, 2 * (12 + 20 + 15)},
       {"mm", [&] { return at::mm_out(const_cast<at::Tensor&>(wide), a, b); }, kProduct, DType::kF32, 120,
        4 * (12 + 20 + 15)},
       {"bmm", [&] { return at::bmm(batch, batch_t); }, kProduct, DType::kF32, 240, 4 * (24 + 40 + 30)},
       {"addmm", [&] { return at::addmm(bias, a, b); }, kProduct, DType::kF32, 120, 4 * (5 + 12 + 20 + 15)},
       {"addmm_", [&] { return wide.addmm_(a, b); }, kProduct, DType::kF32, 120, 4 * (12 + 20 + 30)}});
}

TEST(Recording, CountsProductsOfFp8) {
  const at::Tensor a = numbers({16, 32}).to(at::kFloat8_e4m3fn);
  const at::Tensor b = numbers({48, 32}).to(at::kFloat8_e5m2);
  const at::Tensor scale = at::ones({1});
  at::Tensor out = at::zeros({16, 48}, at::kBFloat16);
  expect_costs(
      {{"_scaled_mm",
        [&] { return at::_scaled_mm_out(out, a, b.t(), scale, scale, {}, {}, at::kBFloat16, true); },
        Cost::kFp8Product, DType::kU8, 2.0 * 16 * 32 * 48, 16 * 32 + 48 * 32 + 2 * 16 * 48 + 2 * 4}});
}

TEST(Recording, CountsCastsToFp8OfAGpu) {
  const at::Tensor x = numbers({35, 16}).to(at::kBFloat16);
  const at::Tensor scale = at::ones({2});
  const at::Tensor rows = at::zeros({35, 16}, at::kFloat8_e5m2);
  const at::Tensor transposed = at::zeros({16, 48}, at::kFloat8_e5m2);
  const auto kernels = recording_device_kernels();
  const auto cast = [&](const at::Tensor& one, const at::Tensor& other) {
    kernels->fp8_cast(x, scale, one, other);
    return x;
  };
  const auto amax = [&] {
    kernels->fp8_scale(x, at::kFloat8_e5m2, scale);
    return x;
  };
  constexpr Cost kMemory = Cost::kMemory;
  constexpr double kRead = 2 * 35 * 16;
  expect_costs({{"fp8_scale", amax, kMemory, DType::kBF16, 0, kRead},
                {"fp8_cast", [&] { return cast(rows, {}); }, kMemory, DType::kBF16, 0, kRead + 35 * 16},
                {"fp8_cast", [&] { return cast({}, transposed); }, kMemory, DType::kBF16, 0, kRead + 48 * 16},
                {"fp8_cast", [&] { return cast(rows, transposed); }, kMemory, DType::kBF16, 0,
                 kRead + 35 * 16 + 48 * 16}});
}

TEST(Recording, CountsCrossEntropyOfAGpu) {
  const auto kernels = recording_device_kernels();
  const auto losses = [&](std::int64_t vocabulary, const double* scale) {
    return [&kernels, vocabulary, scale] {
      const at::Tensor logits = at::empty({3, vocabulary}, at::kBFloat16);
      kernels->cross_entropy(logits, {}, {}, scale);
      return logits;
    };
  };
  const double scale = 1;
  constexpr Cost kMemory = Cost::kMemory;
  constexpr double kKept = 224 * 1024;
  expect_costs(
      {{"cross_entropy", losses(32000, nullptr), kMemory, DType::kBF16, 0, 3 * 64000},
       {"cross_entropy", losses(32000, &scale), kMemory, DType::kBF16, 0, 2 * 3 * 64000},
       {"cross_entropy", losses(128256, &scale), kMemory, DType::kBF16, 0, 3 * (3 * 256512 - kKept)}});
}

TEST(Recording, CountsWhatConvolutionsCost) {
  const at::Tensor x = numbers({2, 3, 8, 8});
  const at::Tensor w = numbers({4, 3, 3, 3});
  const at::Tensor b = numbers({4});
  const at::Tensor dy = numbers({2, 4, 6, 6});
  // Each of 288 results sums 27 products.
  const auto backward = [&](bool dx, bool dw, bool db) {
    return std::get<0>(at::convolution_backward(dy, x, w, at::IntArrayRef({4}), {1, 1}, {0, 0}, {1, 1}, false,
                                                {0, 0}, 1, {dx, dw, db}));
  };
  constexpr Cost kProduct = Cost::kProduct;
  expect_costs({{"convolution", [&] { return at::conv2d(x, w, b); }, kProduct, DType::kF32, 2.0 * 288 * 27,
                 4 * (384 + 108 + 4 + 288)},
                {"convolution_backward", [&] { return backward(true, true, true); }, kProduct, DType::kF32,
                 4.0 * 288 * 27, 4 * (288 + 384 + 108 + 384 + 108 + 4)},
                {"convolution_backward", [&] { return backward(false, true, true); }, kProduct, DType::kF32,
                 2.0 * 288 * 27, 4 * (288 + 384 + 108 + 108 + 4)}});
}

TEST(Recording, CountsTheBytesThatAreMoved) {
  const at::Tensor x = numbers({6, 4});
  const at::Tensor row = numbers({4});
  const at::Tensor half = x.to(at::kBFloat16);
  const at::Tensor out = at::zeros({6, 4});
  const at::Tensor ids = at::zeros({6}, at::kLong);
  constexpr Cost kMemory = Cost::kMemory;
  expect_costs({{"add", [&] { return x.add(x); }, kMemory, DType::kF32, 0, 4 * 3 * 24},
                {"add", [&] { return x.add(row); }, kMemory, DType::kF32, 0, 4 * (24 + 4 + 24)},
                {"add",
                 [&] {
                   return x.add(row.expand({6, 4}));
                 },
                 kMemory, DType::kF32, 0, 4 * (24 + 4 + 24)},
                {"add_", [&] { return x.add_(row); }, kMemory, DType::kF32, 0, 4 * (2 * 24 + 4)},
                {"copy_", [&] { return out.copy_(half); }, kMemory, DType::kF32, 0, (4 + 2) * 24},
                {"fill_", [&] { return out.fill_(1); }, kMemory, DType::kF32, 0, 4 * 24},
                {"zero_", [&] { return out.zero_(); }, kMemory, DType::kF32, 0, 4 * 24},
                {"sum", [&] { return x.sum(0); }, kMemory, DType::kF32, 0, 4 * (24 + 4)},
                {"copy_", [&] { return x.to(at::kBFloat16); }, kMemory, DType::kBF16, 0, (4 + 2) * 24},
                {"gather",
                 [&] {
                   return x.t().gather(1, ids.view({1, 6}));
                 },
                 kMemory, DType::kF32, 0, 4 * 24 + 8 * 6 + 4 * 6}});
}

TEST(Recording, CountsFusedAttentionAsWhole) {
  const at::Tensor q = numbers({2, 3, 16, 8});
  const at::Tensor k = numbers({2, 3, 10, 8});
  for (const bool causal : {false, true}) {
    const at::Tensor keys = causal ? q : k;
    const Trace trace =
        recorded([&] { (void)at::scaled_dot_product_attention(q, keys, keys, std::nullopt, 0.0, causal); });
    const Work work = work_of(trace, "attention");
    // Two products of 2 * 3 * 16 queries of 8 numbers with 10 keys; of 16 a causal mask leaves 8.5.
    EXPECT_EQ(work.flops, 2.0 * 2 * (2 * 3 * 16 * 8) * (causal ? 8.5 : 10));
    EXPECT_EQ(work.cost, Cost::kAttention);
    EXPECT_EQ(trace.works.size(), 1U);
  }
}

TEST(Recording, LeavesViewsViews) {
  const at::Tensor x = numbers({6, 8});
  (void)recorded([&] {
    const Tensors views{x.view({48}),
                        x.t(),
                        x.transpose(0, 1),
                        x.slice(0, 1, 3),
                        x.narrow(1, 2, 4),
                        x.select(0, 2),
                        x.expand({3, 6, 8}),
                        x.unsqueeze(0),
                        x.permute({1, 0}),
                        x.reshape({4, 12}),
                        x.flatten(),
                        x.unfold(1, 4, 2),
                        x.as_strided({2}, {3}),
                        x.view({2, 3, 8}).squeeze(),
                        x.detach(),
                        x.chunk(2)[1],
                        x.split(2)[2],
                        x.unbind()[5],
                        x.diagonal(),
                        x.contiguous(),
                        x.to(at::kFloat)};
    for (std::size_t i = 0; i < views.size(); ++i) EXPECT_TRUE(views[i].is_alias_of(x)) << i;
    EXPECT_EQ(x.slice(0, 1, 3).storage_offset(), 8);
    EXPECT_EQ(x.t().strides(), at::IntArrayRef({1, 8}));
    EXPECT_FALSE(x.t().contiguous().is_alias_of(x));
    EXPECT_FALSE(x.clone().is_alias_of(x));
  });
}

TEST(Recording, ChangesInPlaceReturnTheTensorItself) {
  const at::Tensor x = numbers({6, 8});
  const at::Tensor y = numbers({6, 8});
  const at::Tensor out = at::zeros({6, 8});
  at::Tensor resized = at::empty({0});
  (void)recorded([&] {
    const at::TensorImpl* const self = x.unsafeGetTensorImpl();
    EXPECT_EQ(x.add_(1).unsafeGetTensorImpl(), self);
    EXPECT_EQ(x.mul_(y).unsafeGetTensorImpl(), self);
    EXPECT_EQ(x.copy_(y).unsafeGetTensorImpl(), self);
    EXPECT_EQ(x.zero_().unsafeGetTensorImpl(), self);
    EXPECT_EQ(x.lerp_(y, 0.5).unsafeGetTensorImpl(), self);
    EXPECT_EQ(x.masked_fill_(y.gt(0), 1).unsafeGetTensorImpl(), self);
    EXPECT_EQ(x.index_put_({at::zeros({1}, at::kLong)}, y[0]).unsafeGetTensorImpl(), self);
    EXPECT_EQ(x.clamp_(0, 1).unsafeGetTensorImpl(), self);
    EXPECT_EQ(at::mul_out(const_cast<at::Tensor&>(out), x, y).unsafeGetTensorImpl(),
              out.unsafeGetTensorImpl());
    (void)at::mul_out(resized, x, y);
    EXPECT_EQ(resized.sizes(), x.sizes());
  });
}

TEST(Recording, EveryNumberThatTheHostReadsIsOne) {
  const at::Tensor x = numbers({4});
  (void)recorded([&] {
    EXPECT_EQ(x.sum().item<double>(), 1);
    EXPECT_EQ(x.to(at::kBFloat16).sum().item<float>(), 1);
    EXPECT_EQ(x.argmax().item<std::int64_t>(), 1);
    EXPECT_TRUE(x.gt(5).any().item<bool>());
    EXPECT_EQ(x[2].item<float>(), 1);
  });
}

TEST(Recording, NamesThePlaceOfTheEngine) {
  const auto activity = std::make_shared<Activity>();
  const at::Tensor x = numbers({4});
  const Trace trace = recorded(
      [&] {
        for (int pass = 0; pass < 3; ++pass) {
          activity->enter(Doing::kReadingData);
          (void)x.clone();
          activity->enter(Doing::kForward, "layers.0");
          (void)x.exp();
          activity->enter(Doing::kBackward, "layers.0");
          (void)x.neg();
          (void)x.neg();
        }
        activity->enter(Doing::kUpdating);
        (void)x.sqrt();
      },
      activity);
  EXPECT_EQ(trace.places,
            std::vector<std::string>({"batch", "forward layers.0", "backward layers.0", "update"}));
  EXPECT_EQ(trace.passes, std::vector<std::uint32_t>({0, 4, 8}));
  EXPECT_EQ(trace.places[work_of(trace, "sqrt").place], "update");
  EXPECT_EQ(trace.names, std::vector<std::string>({"begin", "copy_", "exp", "neg", "sqrt"}));
}

TEST(Recording, KnowsWhenMemoryGrewLast) {
  const at::Tensor x = numbers({4});
  const Recording recording;
  std::int64_t bytes = 100;
  books().restart();
  books().begin(std::make_shared<Activity>(), [&] { return bytes; });
  for (const std::int64_t now : {100, 150, 150, 200, 170, 200}) {
    bytes = std::max(bytes, now);
    (void)x.exp();
  }
  EXPECT_EQ(books().end().peak, 3U);
}

TEST(Recording, TellsWorkThatThreadsShare) {
  const at::Tensor x = numbers({4});
  const Trace trace = recorded([&] {
    (void)x.exp();
    at::parallel_for(0, 4, 1, [&](std::int64_t, std::int64_t) { (void)x.neg(); });
  });
  EXPECT_FALSE(work_of(trace, "exp").divided);
  EXPECT_TRUE(work_of(trace, "neg").divided);
}

TEST(Recording, WritesNothingIntoClosedBooks) {
  const at::Tensor x = numbers({4});
  const Trace first = recorded([&] { (void)x.exp(); });
  const Recording recording;
  (void)x.neg();
  open_books();
  (void)x.sqrt();
  const Trace second = books().end();
  (void)x.neg();
  EXPECT_EQ(first.names, std::vector<std::string>({"begin", "exp"}));
  EXPECT_EQ(second.names, std::vector<std::string>({"begin", "sqrt"}));
  EXPECT_EQ(events_of(second), "work 0:0; ");
}

TEST(Recording, OfCollectives) {
  std::vector<float> memory(64);
  std::unique_ptr<Communicator> half;
  const Trace trace = recorded([&] {
    const auto comm = make_recording_communicator(5, 8, false, 8);
    half = comm->split([](int rank) { return rank % 2; });
    Pending gathered = comm->all_gather(memory.data(), 8, DType::kF32, "layers.0");
    Pending reduced =
        half->reduce_scatter(memory.data(), DType::kBF16, memory.data(), 16, 1.0F, false, "layers.1");
    gathered.wait();
    reduced.wait();
    comm->barrier("end");
  });
  EXPECT_EQ(half->rank(), 2);
  EXPECT_EQ(half->size(), 4);
  EXPECT_EQ(events_of(trace), "issue 0:0; issue 0:1; wait 0:0; wait 0:1; ");
  ASSERT_EQ(trace.groups.size(), 2U);
  EXPECT_EQ(trace.groups[1].ranks, std::vector<int>({1, 3, 5, 7}));
  EXPECT_EQ(trace.messages[0].kind, OperationKind::kAllGather);
  EXPECT_EQ(trace.messages[0].sent_bytes, 7 * 32);
  EXPECT_EQ(trace.names[trace.messages[0].label], "layers.0");
  EXPECT_EQ(trace.messages[1].kind, OperationKind::kReduceScatter);
  EXPECT_EQ(trace.messages[1].type, DType::kBF16);
  EXPECT_EQ(trace.messages[1].count, 16U);
  EXPECT_EQ(trace.messages[1].sent_bytes, 3 * 32);
  EXPECT_EQ(trace.messages[1].group, 1);
}

TEST(Recording, OfGradientsThatAreSummedWithinNodesFirst) {
  std::vector<float> memory(64);
  const Trace trace = recorded([&] {
    const auto comm = make_recording_communicator(0, 8, false, 4);
    comm->reduce_scatter(memory.data(), DType::kBF16, memory.data(), 16, 1.0F, false, "layers.0").wait();
    const auto on_host = make_recording_communicator(0, 8, true, 4);
    on_host->reduce_scatter(memory.data(), DType::kBF16, memory.data(), 16, 1.0F, false, "layers.0").wait();
  });
  // Two nodes' pieces to three ranks, and one sum in fp32; CPU ranks exchange with all.
  EXPECT_EQ(trace.messages[0].sent_bytes, 2 * 3 * 32 + 64);
  EXPECT_EQ(trace.messages[1].sent_bytes, 7 * 32);
}

TEST(Recording, OfCollectivesFromBeforeTheTraceHasNoWaits) {
  std::vector<float> memory(64);
  const Recording recording;
  books().restart();
  const auto comm = make_recording_communicator(0, 8, false, 8);
  Pending before = comm->all_gather(memory.data(), 8, DType::kF32, "before");
  open_books();
  Pending within = comm->all_gather(memory.data(), 8, DType::kF32, "within");
  before.wait();
  within.wait();
  EXPECT_EQ(events_of(books().end()), "issue 0:0; wait 0:0; ");
}

/// Operations of which the same bits are expected before and after a Recording.
Tensors results() {
  const at::Tensor x = numbers({6, 8});
  const at::Tensor w = numbers({8});
  const at::Tensor images = numbers({2, 3, 8, 8});
  Tensors found{at::mm(x, x.t()), x.add(w), at::conv2d(images, numbers({4, 3, 3, 3}), numbers({4}))};
  const auto [y, mean, rstd] = at::native_layer_norm(x, {8}, w, w, 1e-5);
  for (const at::Tensor& tensor : {y, mean, rstd, at::softmax(x, 1), x.to(at::kBFloat16), x.sum(), x.clone()})
    found.push_back(tensor);
  const at::Tensor normed = at::empty_like(x);
  const at::Tensor inverse = at::empty({6});
  kernels::kernels<float>().rms_norm(x.data_ptr<float>(), nullptr, nullptr, w.data_ptr<float>(),
                                     normed.data_ptr<float>(), inverse.data_ptr<float>(), {6, 8}, 1e-5F,
                                     NormRounding::kTwice);
  found.push_back(normed);
  found.push_back(inverse);
  found.push_back(at::scalar_tensor(kernels::tables().sum_of_squares(x.data_ptr<float>(), 48), at::kDouble));
  const at::Tensor half = numbers({64, 64}, at::kBFloat16);
  found.push_back(ops::product(half, half.t()));
  return found;
}

TEST(Recording, LeavesNoTrace) {
  const int threads = at::get_num_threads();
  const Tensors before = results();
  for (int round = 0; round < 2; ++round) {
    (void)recorded([] { (void)results(); });
    const Tensors after = results();
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(after[i], before[i])) << i;
    EXPECT_EQ(at::get_num_threads(), threads);
    EXPECT_EQ(&kernels::tables(), &kernels::processor_tables());
  }
}

class RecordingDevice : public ::testing::Test {
 protected:
  void SetUp() override { device_memory() = {}; }

  at::Device device_ = recording_device();
  at::TensorOptions floats_ = at::TensorOptions(at::kFloat).device(device_);
};

TEST_F(RecordingDevice, CountsMemoryThatIsNotThere) {
  constexpr std::int64_t kTB = 1'000'000'000'000;
  {
    at::Tensor large = at::empty({kTB}, floats_.dtype(at::kByte));
    EXPECT_EQ(device_memory().live_bytes(), kTB);
    (void)large.view({1000, -1}).t();
    EXPECT_EQ(device_memory().live_bytes(), kTB) << "a view";
    const at::Tensor small = at::empty({10, 10}, floats_);
    EXPECT_EQ(device_memory().live_bytes(), kTB + 400);
    large.zero_();
    EXPECT_EQ(device_memory().live_bytes(), kTB + 400);
    large = at::Tensor();
    EXPECT_EQ(device_memory().live_bytes(), 400);
  }
  EXPECT_EQ(device_memory().live_bytes(), 0);
  EXPECT_EQ(device_memory().peak_bytes(), kTB + 400);
  EXPECT_GE(device_memory().reserved_bytes(), kTB + (2 << 20));
  EXPECT_LE(device_memory().reserved_bytes(), kTB + (4 << 20));
}

TEST_F(RecordingDevice, ResultsLieOnIt) {
  (void)recorded([&] {
    const at::Tensor a = at::empty({300, 400}, floats_.dtype(at::kBFloat16));
    const at::Tensor product = at::mm(a, a.t());
    EXPECT_EQ(product.device(), device_);
    EXPECT_EQ(product.scalar_type(), at::kBFloat16);
    EXPECT_EQ(product.sizes(), at::IntArrayRef({300, 300}));
    EXPECT_EQ(device_memory().live_bytes(), 2 * (120'000 + 90'000));
    const at::Tensor wide = product.to(at::kFloat);
    EXPECT_EQ(device_memory().live_bytes(), 2 * (120'000 + 90'000) + 4 * 90'000);
    EXPECT_EQ(at::zeros({7}, floats_).device(), device_);
    EXPECT_EQ(at::arange(7, floats_).sizes(), at::IntArrayRef({7}));
    EXPECT_EQ(wide.sum().item<double>(), 1);
  });
}

TEST_F(RecordingDevice, CopiesMoveEachByteOnce) {
  const at::Tensor host = numbers({1000});
  const Trace up = recorded([&] { (void)host.to(device_); });
  EXPECT_EQ(up.works.size(), 1U);
  EXPECT_EQ(work_of(up, "_copy_from").cost, Cost::kHostCopy);
  EXPECT_EQ(work_of(up, "_copy_from").bytes, 4000);
  const Trace down = recorded([&] { host.copy_(at::empty({1000}, floats_)); });
  EXPECT_EQ(work_of(down, "_copy_from").cost, Cost::kHostCopy);
  EXPECT_EQ(work_of(down, "_copy_from").bytes, 4000);
  const Trace within = recorded([&] { at::empty({1000}, floats_).copy_(at::empty({1000}, floats_)); });
  EXPECT_EQ(work_of(within, "_copy_from").cost, Cost::kMemory);
  EXPECT_EQ(work_of(within, "_copy_from").bytes, 8000);
}

TEST_F(RecordingDevice, TheHostWaitsForNumbersOfTheDeviceOnly) {
  const at::Tensor on_host = numbers({1});
  const Trace trace = recorded([&] {
    const at::Tensor x = at::empty({4}, floats_).exp();
    EXPECT_EQ(on_host.item<float>(), 1);
    EXPECT_EQ(x.sum().item<float>(), 1);
  });
  const std::string events = events_of(trace);
  EXPECT_MENTIONS(events, "sync");
  EXPECT_EQ(events.find("sync"), events.rfind("sync")) << events;
}

TEST_F(RecordingDevice, RecordsStreamsMarksAndHolds) {
  const c10::impl::VirtualGuardImpl impl(device_.type());
  const c10::Stream main = impl.getDefaultStream(device_);
  const c10::Stream copies = impl.getStreamFromGlobalPool(device_);
  ASSERT_NE(main, copies);
  const Trace trace = recorded([&] {
    const at::Tensor x = at::empty({4}, floats_);
    c10::Event computed(device_.type());
    c10::Event copied(device_.type());
    (void)x.exp();
    computed.record(main);
    computed.block(copies);
    {
      const c10::StreamGuard guard(copies);
      (void)x.neg();
      copied.record(copies);
    }
    copied.block(main);
    (void)x.sqrt();
    copied.synchronize();
  });
  EXPECT_EQ(events_of(trace),
            "work 0:0; mark 0:0; hold 1:0; work 1:1; mark 1:1; hold 0:1; work 0:2; host-hold 0:1; ");
  EXPECT_EQ(work_of(trace, "neg").stream, 1);
  EXPECT_EQ(work_of(trace, "sqrt").stream, 0);
}

TEST_F(RecordingDevice, DifferentiatesAsTheCpuDoes) {
  const auto run = [](const at::Device& device) {
    const auto options = at::TensorOptions(at::kFloat).device(device);
    return recorded([&] {
      at::Tensor w = at::empty({8, 5}, options);
      w.set_requires_grad(true);
      const at::Tensor y = at::gelu(at::mm(at::empty({6, 8}, options), w)).pow(2).sum();
      y.backward();
      EXPECT_EQ(w.grad().sizes(), w.sizes());
      EXPECT_EQ(w.grad().device(), device);
    });
  };
  const Trace on_cpu = run(at::kCPU);
  const Trace on_device = run(device_);
  EXPECT_EQ(on_device.names, on_cpu.names);
  ASSERT_EQ(on_device.works.size(), on_cpu.works.size());
  for (std::size_t i = 0; i < on_cpu.works.size(); ++i) {
    EXPECT_EQ(on_device.works[i].flops, on_cpu.works[i].flops) << on_cpu.names[on_cpu.works[i].name];
    EXPECT_EQ(on_device.works[i].bytes, on_cpu.works[i].bytes) << on_cpu.names[on_cpu.works[i].name];
  }
}

// Shapes.

/// Tensors that operations are tried with, new for each.
struct Given {
  explicit Given(const at::Device& device) : device_(device) {}

  [[nodiscard]] at::Tensor on(const at::Tensor& tensor) const { return tensor.to(device_); }
  [[nodiscard]] at::Tensor ints(std::vector<std::int64_t> values) const {
    return on(at::tensor(values, at::kLong));
  }

 private:
  at::Device device_;

 public:
  at::Tensor x = on(numbers({6, 8}));
  at::Tensor y = on(numbers({8, 5}));
  at::Tensor like_x = on(numbers({6, 8}));
  at::Tensor transposed = on(numbers({8, 6})).t();
  at::Tensor row = on(numbers({8}));
  at::Tensor column = on(numbers({6, 1}));
  at::Tensor half = on(numbers({6, 8}, at::kBFloat16));
  at::Tensor half_y = on(numbers({8, 5}, at::kBFloat16));
  at::Tensor batch = on(numbers({2, 6, 8}));
  at::Tensor batch_y = on(numbers({2, 8, 5}));
  at::Tensor images = on(numbers({2, 3, 9, 7}));
  at::Tensor last = on(numbers({2, 9, 7, 3})).permute({0, 3, 1, 2});  ///< channels last
  at::Tensor kernel = on(numbers({4, 3, 3, 2}));
  at::Tensor heads = on(numbers({2, 10, 4, 8})).transpose(1, 2);
  at::Tensor ids = ints({3, 0, 5, 5});
  at::Tensor mask = on(numbers({6, 8}).gt(0.2));
  at::Tensor scalar = on(numbers({8}).sum());  ///< no dimensions
};

struct ShapeCase {
  const char* name;
  std::function<Tensors(Given&)> run;
};

std::string described(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::string text = std::string(c10::toString(tensor.scalar_type())) + " ";
  for (const std::int64_t size : tensor.sizes()) text += std::to_string(size) + ",";
  text += " strides ";
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    text += tensor.size(d) == 1 ? "any," : std::to_string(tensor.stride(d)) + ",";
  return text + (tensor.is_contiguous() ? " contiguous" : "");
}

const auto list = [](const auto&... tensors) { return Tensors{tensors...}; };
Tensors each_of(const auto& results) {
  return std::apply(list, results);
}

const std::vector<ShapeCase> kProducts{
    {"mm", [](Given& g) { return list(at::mm(g.x, g.y)); }},
    {"mm of views", [](Given& g) { return list(at::mm(g.transposed, g.y), at::mm(g.y.t(), g.x.t())); }},
    {"mm in bf16", [](Given& g) { return list(at::mm(g.half, g.half_y)); }},
    {"bmm", [](Given& g) { return list(at::bmm(g.batch, g.batch_y)); }},
    {"addmm",
     [](Given& g) {
       return list(at::addmm(g.row, g.batch[0], g.on(numbers({8, 8}))));
     }},
    {"baddbmm", [](Given& g) { return list(at::baddbmm(g.scalar, g.batch, g.batch_y)); }},
    {"matmul", [](Given& g) { return list(at::matmul(g.batch, g.y), at::matmul(g.x, g.row)); }},
    {"linear",
     [](Given& g) {
       return list(at::linear(g.batch, g.on(numbers({5, 8})), g.on(numbers({5}))));
     }},
    {"outer", [](Given& g) { return list(at::outer(g.row, g.row)); }},
    {"conv2d",
     [](Given& g) {
       return list(at::conv2d(g.images, g.kernel),
                   at::conv2d(g.images, g.kernel, {}, 2, at::IntArrayRef(1), 1),
                   at::conv2d(g.images, g.kernel, {}, 1, at::IntArrayRef({0, 0}), 2));
     }},
    {"conv2d in groups",
     [](Given& g) {
       return list(at::conv2d(g.images, g.on(numbers({6, 1, 3, 3})), {}, 1, at::IntArrayRef(1), 1, 3));
     }},
    {"convolution_backward",
     [](Given& g) {
       const at::Tensor dy = g.on(numbers({2, 4, 4, 4}));
       return each_of(at::convolution_backward(dy, g.images, g.kernel, at::IntArrayRef({4}), {2, 2}, {0, 1},
                                               {1, 1}, false, {0, 0}, 1, {true, true, true}));
     }},
    {"scaled_dot_product_attention",
     [](Given& g) { return list(at::scaled_dot_product_attention(g.heads, g.heads, g.heads, {}, 0, true)); }},
};

const std::vector<ShapeCase> kElements{
    {"add", [](Given& g) { return list(g.x.add(g.row), g.x.add(g.column), g.x.add(g.transposed)); }},
    {"add of views", [](Given& g) { return list(g.transposed.add(1), g.transposed.add(g.transposed)); }},
    {"add of types", [](Given& g) { return list(g.x.add(g.half), g.half.add(g.scalar), g.half.add(2.5)); }},
    {"numbers with integers", [](Given& g) { return list(g.ids.add(1), g.ids.mul(0.5), g.ids.div(2)); }},
    {"numbers with one number",
     [](Given& g) { return list(g.scalar.mul(2.5), g.scalar.div(3), g.scalar.to(at::kBFloat16).mul(2.5)); }},
    {"number by tensor", [](Given& g) { return list(1.0 / g.scalar, 1.0 - g.x); }},
    {"mul, div, sub", [](Given& g) { return list(g.x.mul(g.row), g.x.div(g.column), g.x.sub(g.like_x)); }},
    {"comparisons", [](Given& g) { return list(g.x.gt(0), g.x.eq(g.row), g.ids.ge(3), g.x.ne(g.like_x)); }},
    {"where",
     [](Given& g) {
       return list(at::where(g.mask, g.x, g.like_x), at::where(g.mask, g.row, g.scalar),
                   at::where(g.mask, g.x, 0.5), at::where(g.mask, g.x, g.half),
                   at::where(g.mask, g.transposed, g.transposed));
     }},
    {"masked_fill", [](Given& g) { return list(g.x.masked_fill(g.mask, -1), g.x.masked_fill_(g.mask, 0)); }},
    {"sqrt, exp, log, pow, neg, abs",
     [](Given& g) {
       return list(g.x.sqrt(), g.x.exp(), at::log(g.x), at::pow(g.x, 2), g.x.neg(), g.x.abs(),
                   g.transposed.abs());
     }},
    {"reciprocal, tanh, sigmoid, rsqrt",
     [](Given& g) { return list(at::reciprocal(g.x), g.x.tanh(), g.x.sigmoid(), g.x.rsqrt()); }},
    {"relu", [](Given& g) { return list(at::relu(g.x), at::relu(g.transposed), at::relu(g.last)); }},
    {"gelu", [](Given& g) { return list(at::gelu(g.x), at::gelu(g.half, "tanh")); }},
    {"gelu_backward", [](Given& g) { return list(at::gelu_backward(g.like_x, g.x, "tanh")); }},
    {"silu", [](Given& g) { return list(at::silu(g.x)); }},
    {"threshold_backward", [](Given& g) { return list(at::threshold_backward(g.x, g.like_x, 0)); }},
    {"clamp", [](Given& g) { return list(g.x.clamp_min(0), g.x.clamp_max(1), g.x.clamp_(0, 1)); }},
    {"in place",
     [](Given& g) {
       return list(g.x.add_(g.half), g.x.mul_(0.5), g.x.sqrt_(), g.x.div_(2), g.x.lerp_(g.like_x, 0.1),
                   g.x.addcmul_(g.like_x, g.like_x, 0.1), g.x.zero_(), g.x.addcdiv_(g.like_x, g.like_x));
     }},
    {"types",
     [](Given& g) {
       return list(g.x.to(at::kBFloat16), g.half.to(at::kDouble), g.transposed.to(at::kHalf),
                   g.mask.to(at::kFloat));
     }},
    {"copies",
     [](Given& g) {
       return list(g.x.clone(), g.transposed.clone(), g.transposed.contiguous(), g.x.copy_(g.half),
                   g.last.clone());
     }},
};

const std::vector<ShapeCase> kSums{
    {"sum",
     [](Given& g) {
       return list(g.x.sum(), g.x.sum(0), g.x.sum(at::IntArrayRef({0, 1}), true), g.half.sum(1));
     }},
    {"sum in a type",
     [](Given& g) { return list(g.half.sum(0, false, at::kFloat), g.mask.sum(), g.ids.sum()); }},
    {"mean", [](Given& g) { return list(g.x.mean(), g.x.mean(1, true)); }},
    {"norm", [](Given& g) { return list(g.x.norm(), at::linalg_vector_norm(g.x, 2, 1), g.half.norm()); }},
    {"all, any", [](Given& g) { return list(g.mask.all(), g.mask.any(1)); }},
    {"max", [](Given& g) { return each_of(g.x.max(1)); }},
    {"argmax", [](Given& g) { return list(g.x.argmax(), g.x.argmax(1, true)); }},
    {"cumsum", [](Given& g) { return list(g.x.cumsum(0), g.ids.cumsum(0), g.mask.cumsum(1)); }},
    {"topk", [](Given& g) { return each_of(g.x.topk(3)); }},
    {"sort", [](Given& g) { return each_of(g.x.sort(1, true)); }},
    {"softmax", [](Given& g) { return list(at::softmax(g.x, 1), at::softmax(g.half, -1, at::kFloat)); }},
    {"log_softmax", [](Given& g) { return list(at::log_softmax(g.x, 1)); }},
    {"softmax backward",
     [](Given& g) {
       return list(at::_softmax_backward_data(g.x, g.like_x, 1, at::kFloat),
                   at::_log_softmax_backward_data(g.x, g.like_x, 1, at::kFloat));
     }},
    {"nll_loss",
     [](Given& g) {
       const at::Tensor targets = g.ints({1, 0, 7, 3, 2, 2});
       return list(at::nll_loss(g.x, targets), at::nll_loss(g.x, targets, {}, at::Reduction::None),
                   at::cross_entropy_loss(g.x, targets));
     }},
    {"layer_norm",
     [](Given& g) {
       Tensors all = each_of(at::native_layer_norm(g.batch, {8}, g.row, g.row, 1e-5));
       const Tensors plain = each_of(at::native_layer_norm(g.x, {6, 8}, {}, {}, 1e-5));
       all.insert(all.end(), plain.begin(), plain.end());
       all.push_back(at::layer_norm(g.transposed, {8}, g.row, g.row));
       return all;
     }},
    {"layer_norm backward",
     [](Given& g) {
       const auto [y, mean, rstd] = at::native_layer_norm(g.x, {8}, g.row, g.row, 1e-5);
       return each_of(
           at::native_layer_norm_backward(y, g.x, {8}, mean, rstd, g.row, g.row, {true, true, true}));
     }},
    {"max_pool2d",
     [](Given& g) {
       Tensors all = each_of(at::max_pool2d_with_indices(g.images, 2));
       all.push_back(at::max_pool2d(g.images, 3, 2, 1));
       all.push_back(at::max_pool2d(g.last, 2));
       all.push_back(at::max_pool2d_with_indices_backward(all[0], g.images, 2, 2, 0, 1, false, all[1]));
       return all;
     }},
};

const std::vector<ShapeCase> kPlaces{
    {"index_select",
     [](Given& g) {
       return list(g.x.index_select(0, g.ids), g.x.index_select(-1, g.ids),
                   g.transposed.index_select(0, g.ids), g.batch.index_select(1, g.ids));
     }},
    {"embedding",
     [](Given& g) {
       return list(at::embedding(g.x, g.ids), at::embedding(g.x, g.ids.view({2, 2})));
     }},
    {"embedding backward",
     [](Given& g) {
       return list(at::embedding_dense_backward(g.on(numbers({4, 8})), g.ids, 11, -1, false),
                   at::embedding_dense_backward(g.on(numbers({2, 2, 8})), g.ids.view({2, 2}), 11, -1, false));
     }},
    {"gather, scatter_",
     [](Given& g) {
       const at::Tensor at = g.ids.view({1, 4});
       return list(g.x.gather(0, at), g.x.scatter_(0, at, g.like_x), g.x.scatter_(0, at, 1.0));
     }},
    {"index_put_",
     [](Given& g) {
       return list(g.x.index_put_({g.ids}, g.row), g.x.index_add_(0, g.ids, g.on(numbers({4, 8}))));
     }},
    {"cat",
     [](Given& g) {
       return list(at::cat({g.x, g.like_x}), at::cat({g.x, g.transposed}, 1), at::cat({g.x, g.half}));
     }},
    {"stack",
     [](Given& g) {
       return list(at::stack({g.x, g.like_x}, 1));
     }},
    {"flip, roll",
     [](Given& g) {
       return list(g.x.flip({1}), g.x.flip({0, 1}), g.transposed.flip({1}), at::roll(g.x, {2}, {1}),
                   at::roll(g.x, {2, 1}, {0, 1}));
     }},
    {"tril, triu", [](Given& g) { return list(g.x.tril(), g.x.triu(1)); }},
    {"makers",
     [](Given& g) {
       const auto options = g.ids.options();
       return list(at::zeros({2, 3}, options), at::ones({4}, options), at::full({3, 3}, 7, options),
                   at::arange(2, 9, options), at::zeros_like(g.transposed), at::empty_like(g.half),
                   at::ones_like(g.x), g.x.new_zeros({3}));
     }},
    {"_fused_adamw_",
     [](Given& g) {
       const at::Tensor step = g.on(at::ones({}));
       at::_fused_adamw_({g.x}, {g.like_x}, {g.on(numbers({6, 8}))}, {g.on(numbers({6, 8}).abs())}, {},
                         {step}, 0.1, 0.9, 0.999, 0.01, 1e-8, false, false);
       return list(g.x);
     }},
    {"_fused_sgd_",
     [](Given& g) {
       at::_fused_sgd_({g.x}, {g.like_x}, {g.on(numbers({6, 8}))}, 0, 0.9, 0.1, 0, false, false, false);
       return list(g.x);
     }},
};

/// What a case returns, in words.
std::string shapes_of(const ShapeCase& one, Given& given) {
  std::string text;
  try {
    for (const at::Tensor& tensor : one.run(given)) text += "  " + described(tensor) + "\n";
  } catch (const std::exception& error) {
    text += std::string(error.what()).substr(0, 300);
  }
  return text;
}

/// As they are, and as they are recorded on `device`.
void compare(const std::vector<ShapeCase>& cases, const at::Device& device) {
  for (const ShapeCase& one : cases) {
    Given given(at::kCPU);
    Given on_device(device);
    std::string of_record;
    (void)recorded([&] { of_record = shapes_of(one, on_device); });
    EXPECT_EQ(of_record, shapes_of(one, given)) << one.name;
  }
}

class Shapes : public ::testing::TestWithParam<const std::vector<ShapeCase>*> {};

TEST_P(Shapes, OfRecordedResultsAreTheRealOnes) {
  compare(*GetParam(), at::kCPU);
}

TEST_P(Shapes, OnTheDeviceAreTheSame) {
  compare(*GetParam(), recording_device());
}

INSTANTIATE_TEST_SUITE_P(Operations, Shapes, ::testing::Values(&kProducts, &kElements, &kSums, &kPlaces));

}  // namespace
}  // namespace echelon::book
