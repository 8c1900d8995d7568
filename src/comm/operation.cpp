#include "comm/operation.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

// FNV-1a, 64 bits: labels longer than Operation::label still differ in the check.
std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

// Kinds and operations that other ranks announced may be of any value.
std::string_view name_of(OperationKind kind) {
  constexpr std::array<std::string_view, 6> kNames{"unknown operation", "all-gather",   "reduce-scatter",
                                                   "all-reduce",        "gather-blobs", "barrier"};
  const auto at = static_cast<std::size_t>(kind);
  return kNames[at < kNames.size() ? at : 0];
}

std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, 4> kNames{"sum", "max", "min", "?"};
  return kNames[std::min(static_cast<std::size_t>(op), kNames.size() - 1)];
}

void require_sum_of(OperationKind kind, DType type, std::string_view label) {
  const auto refuse = [&](const char* expected) {
    throw Error::internal(name_of(kind), " '", label, "' of ", name_of(type), ", expected ", expected);
  };
  const bool narrow = type == DType::kBF16 || type == DType::kF16;
  const bool wide = type == DType::kF64 || type == DType::kI64;
  if (kind == OperationKind::kReduceScatter && type != DType::kF32 && !narrow) refuse("fp32, bf16 or fp16");
  if (kind == OperationKind::kAllReduce && type != DType::kF32 && !wide) refuse("fp32, fp64 or int64");
}

}  // namespace

Operation make_operation(OperationKind kind, std::uint64_t count, DType type, std::string_view label) {
  require_sum_of(kind, type, label);
  Operation operation;
  operation.kind = kind;
  operation.count = count;
  operation.type = type;
  operation.label_hash = fnv1a(label);
  std::memcpy(operation.label, label.data(), std::min(label.size(), sizeof(operation.label) - 1));
  return operation;
}

bool matches(const Operation& a, const Operation& b) {
  return a.sequence == b.sequence && a.count == b.count && a.label_hash == b.label_hash && a.kind == b.kind &&
         a.type == b.type && a.op == b.op;
}

std::string describe(const Operation& operation) {
  std::string label(operation.label, strnlen(operation.label, sizeof(operation.label)));
  std::string text = str(name_of(operation.kind), " '", label, "'");
  switch (operation.kind) {
    case OperationKind::kBarrier: return text;
    case OperationKind::kGatherBlobs: return str(text, " ", operation.blob_bytes, " bytes");
    case OperationKind::kAllReduce: text += str(" ", name_of(operation.op)); break;
    default: break;
  }
  return str(text, " ", operation.count, " x ", name_of(operation.type));
}

}  // namespace echelon
