// Every kernel of the project, every type and width of access, and every barrier left out in turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "comm/nccl/reduce_kernels.h"
#include "gpu/device.h"
#include "gpu/fibers/block.h"
#include "gpu/fibers/findings.h"
#include "gpu/fibers/memory.h"
#include "gpu/fibers/symbols.h"
#include "model/cuda/gpu_kernels.h"

namespace echelon::fibers {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

/// Device memory of zeros. A fresh one for every use: what a kernel must not read nobody has written.
class Zeros {
 public:
  explicit Zeros(std::int64_t bytes, std::size_t shift)
      : bytes_(static_cast<std::size_t>(bytes) + shift, 0), on_(bytes_) {
    at_ = on_.data() + shift;
  }
  template <class T>
  operator T*() const {
    return reinterpret_cast<T*>(at_);
  }

 private:
  std::vector<unsigned char> bytes_;
  test::OnDevice<unsigned char> on_;
  unsigned char* at_;
};

struct Sizes {
  std::int64_t rows;
  std::int64_t n;
  std::size_t shift;  ///< bytes from a 16-byte border
};

Zeros plain(std::int64_t count) {
  return Zeros(count * 8, 0);
}
void done(cudaError_t error) {
  EXPECT_EQ(error, cudaSuccess);
}

void run_norm(DType type, const Sizes& s) {
  const auto zeros = [&] { return Zeros(s.rows * s.n * 4, s.shift); };
  const auto forward = [&](const void* added, void* sum) {
    done(gpu::rms_norm(type, zeros(), added, sum, zeros(), zeros(), plain(s.rows), s.rows, s.n, 1e-5F,
                       NormRounding::kTwice, nullptr));
  };
  forward(nullptr, nullptr);
  forward(zeros(), zeros());
  const auto backward = [&](const void* dsum) {
    done(gpu::rms_norm_backward(type, zeros(), dsum, zeros(), zeros(), plain(s.rows), zeros(), plain(s.n),
                                plain(gpu::rms_norm_partials(s.rows) * s.n), s.rows, s.n,
                                NormRounding::kTwice, nullptr));
  };
  backward(nullptr);
  backward(zeros());
}

void run_rows(DType type, const Sizes& s) {
  const auto zeros = [&] { return Zeros(s.rows * 2 * s.n * 4, s.shift); };
  run_norm(type, s);
  done(gpu::swiglu(type, zeros(), zeros(), s.rows, s.n, nullptr));
  done(gpu::swiglu_backward(type, zeros(), zeros(), zeros(), s.rows, s.n, nullptr));
  const float scale = 1.0F;
  done(gpu::cross_entropy(type, zeros(), plain(s.rows), plain(s.rows), s.rows, s.n, nullptr, nullptr));
  done(gpu::cross_entropy(type, zeros(), plain(s.rows), plain(s.rows), s.rows, s.n, &scale, nullptr));
  const Zeros samples = plain(s.rows);
  const Zeros places = plain(s.rows);
  done(gpu::dropout(type, zeros(), zeros(), s.rows, s.n, {1, 1000, 1.0F, samples, places}, nullptr));
}

void run_rope(DType type, std::size_t shift, std::int64_t width) {
  const kernels::QkvShape shape{3, 4, 2, 16};
  const std::int64_t rows = 2 * shape.seq_len;
  const Zeros qkv(rows * 8 * shape.head_dim * 4, shift);
  const Zeros q(rows * 4 * shape.head_dim * 4, shift);
  const Zeros k(rows * 2 * shape.head_dim * 4, shift);
  const Zeros v(rows * 2 * shape.head_dim * 4, shift);
  const Zeros angles(shape.seq_len * width * 4, 0);
  const auto heads = [&](const Zeros& data, std::int64_t count) {
    return gpu::Heads{data, count * shape.seq_len * shape.head_dim, shape.seq_len * shape.head_dim,
                      shape.head_dim};
  };
  done(
      gpu::rope_split(type, qkv, heads(q, 4), heads(k, 2), heads(v, 2), angles, width, rows, shape, nullptr));
  done(
      gpu::rope_merge(type, qkv, heads(q, 4), heads(k, 2), heads(v, 2), angles, width, rows, shape, nullptr));
}

void run_vectors(std::size_t shift) {
  const std::int64_t n = 5000;
  const auto zeros = [&](std::size_t by) { return Zeros(n * 4, by); };
  done(gpu::sum_of_squares(zeros(shift), n, Zeros(8 * gpu::kSquaresPartials, 0), Zeros(8, 0), nullptr));
  const kernels::AdamWValues step{1, 1e-3, 0.9, 0.95, 1e-8, 0.1, 0.5};
  done(gpu::adamw(step, zeros(0), zeros(shift), zeros(0), zeros(0), n, nullptr));
  done(scale_into(zeros(0), zeros(0), static_cast<std::size_t>(n), 0.5F, shift != 0, nullptr));
  for (const DType type : kTypes) done(gpu::cast(zeros(shift), type, zeros(0), n, nullptr));
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const std::size_t count : {std::size_t{1000}, std::size_t{999}}) {
      const Zeros own = zeros(shift);
      const Zeros arrived = zeros(shift);
      const Pieces pieces{.own = own, .arrived = arrived, .count = count, .rank = 1, .size = 2, .parts = 2};
      done(sum_pieces(pieces, type, zeros(0), 0.5F, shift != 0, nullptr));
    }
  }
}

void run_fp8(std::size_t shift) {
  const std::int64_t rows = 133;
  const std::int64_t n = 80;
  const auto values = [&] { return Zeros(rows * n * 2, shift); };
  for (const gpu::Fp8 type : {gpu::Fp8::kE4m3, gpu::Fp8::kE5m2}) {
    const Zeros scale(8, 0);
    done(gpu::fp8_scale(values(), rows * n, type, plain(gpu::kFp8Partials), scale, nullptr));
    done(gpu::fp8_cast(values(), scale, type, Zeros(rows * n, 0), Zeros(144 * n, 0), rows, n, nullptr));
  }
  done(gpu::fp8_transpose(Zeros(144 * n, 0), Zeros(n * 144, 0), 144, n, nullptr));
}

/// All of them.
void run_everything() {
  for (const DType type : kTypes) {
    for (const Sizes& sizes : {Sizes{3, 512, 0}, Sizes{2, 7, 4}}) run_rows(type, sizes);
    for (const std::int64_t width : {16, 8}) {
      run_rope(type, 0, width);
      run_rope(type, 4, width);
    }
    run_norm(type, {1, 8200, 0});  // longer than a block's registers hold
  }
  run_rows(DType::kF32, {1, 12001, 0});  // sums that do not fit shared memory
  run_norm(DType::kF32, {600, 300, 0});  // more rows than blocks, of several warps
  for (const std::size_t shift : {std::size_t{0}, std::size_t{4}}) {
    run_vectors(shift);
    run_fp8(shift);
  }
}

TEST(EveryKernel, IsFreeOfFaultsInAnyOrderOfThreads) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    set_schedule(seed);
    run_everything();
    for (const std::string& found : take_findings()) ADD_FAILURE() << found;
  }
  // The program's own symbols tell which kernels there are.
  std::size_t kernels = 0;
  for (const Symbol& symbol : symbols()) {
    static const std::regex kKernel(R"((void )?echelon::(gpu::)?\(anonymous namespace\)::\w+_kernel[<(].*)");
    if (!symbol.function || !std::regex_match(symbol.name, kKernel)) continue;
    ++kernels;
    EXPECT_TRUE(launched().contains(symbol.name)) << symbol.name << " never ran";
  }
  EXPECT_GE(kernels, 50U) << "kernels are not found in the program's own symbols";
}

TEST(EveryKernel, CrossEntropyReadsAgainOnlyWhatABlockDoesNotKeep) {
  constexpr std::int64_t kKept = std::int64_t{224} << 10;
  constexpr std::int64_t kOfThreads = 1024 * (8 + 8 + 4);  // each reads the target, twice, and its logit
  const float scale = 1.0F;
  for (const std::int64_t bytes : {std::int64_t{32000}, kKept, std::int64_t{300000}}) {
    for (const DType type : kTypes) {
      const std::size_t before = Memory::only().read_bytes();
      done(gpu::cross_entropy(type, Zeros(bytes, 0), plain(1), plain(1), 1,
                              bytes / (type == DType::kF32 ? 4 : 2), &scale, nullptr));
      const auto read = static_cast<std::int64_t>(Memory::only().read_bytes() - before);
      EXPECT_GE(read, bytes);
      EXPECT_LE(read, bytes + std::max<std::int64_t>(bytes - kKept, 0) + kOfThreads);
    }
  }
}

TEST(EveryKernel, NeedsEachOfItsBarriers) {
  run_everything();
  EXPECT_TRUE(take_findings().empty());
  const std::set<Site> all = barriers();
  EXPECT_GE(all.size(), 3U);
  for (const Site& site : all) {
    set_schedule(1, site);
    run_everything();
    EXPECT_FALSE(take_findings().empty())
        << "nothing notices when " << site.file << ":" << site.line << " is left out";
  }
  set_schedule(1);
}

}  // namespace
}  // namespace echelon::fibers
