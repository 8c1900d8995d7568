#include "train/eval/reference_logps.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/format/manifest.h"
#include "comm/agree.h"
#include "train/batch_tensors.h"

namespace echelon {
namespace {

// The file: for each of the data this head and its values, in the machine's byte order, which is
// little-endian (token files demand it). A checkpoint has checksums of its files.
struct Head {
  std::uint64_t data = 0;  // Loader::fingerprint()
  std::uint64_t answers = 0;
};

void require_room(const std::vector<Loader*>& loaders) {
  std::uint64_t bytes = 0;
  for (Loader* loader : loaders) bytes += sizeof(Head) + loader->reference()->size() * sizeof(double);
  if (bytes <= checkpoint::kMaxAttachmentBytes) return;
  throw Error(Code::kData, "the reference log-probabilities of all answers take ", bytes,
              " bytes, but a file of a ", "checkpoint holds at most ", checkpoint::kMaxAttachmentBytes,
              ": train on fewer pairs at a time");
}

/// Adds the log-probability of each answer of `samples` to its element.
void score(const SampleBatch& samples, ShardedModel& model, std::vector<double>* values) {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> targets;
  for (std::size_t i = 0; i < samples.targets.size(); ++i) {
    if (samples.targets[i] < 0) continue;
    tokens.push_back(static_cast<std::int64_t>(i));
    targets.push_back(samples.targets[i]);
  }
  const std::vector<float> losses = model.token_losses(to_tensors(samples, model.device()), tokens, targets);
  if (values == nullptr) return;
  auto loss = losses.begin();
  auto token = tokens.begin();
  std::int64_t end = 0;
  for (std::size_t sequence = 0; sequence < samples.lengths.size(); ++sequence) {
    end += samples.lengths[sequence];
    for (; token != tokens.end() && *token < end; ++token)
      (*values)[static_cast<std::size_t>(samples.answers[sequence])] -= static_cast<double>(*loss++);
  }
}

/// Sums what each rank has, zeros being nothing. Collective.
void share(std::vector<double>& values, Communicator& comm) {
  comm.all_reduce(values.data(), values.size(), DType::kF64, ReduceOp::kSum, "reference").wait();
}

std::string file_of(const std::vector<Loader*>& loaders) {
  std::string file;
  for (Loader* loader : loaders) {
    const std::vector<double>& values = *loader->reference();
    const Head head{loader->fingerprint(), values.size()};
    file.append(reinterpret_cast<const char*>(&head), sizeof(head));
    file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  }
  return file;
}

/// The values of the data of `loader` in `file`.
std::vector<double> values_in(const std::string& file, Loader& loader) {
  Head head;
  for (std::size_t at = 0; file.size() - at >= sizeof(head); at += head.answers * sizeof(double)) {
    std::memcpy(&head, file.data() + at, sizeof(head));
    at += sizeof(head);
    if (head.answers > (file.size() - at) / sizeof(double)) break;
    if (head.data != loader.fingerprint() || head.answers != loader.reference()->size()) continue;
    std::vector<double> values(head.answers);
    std::memcpy(values.data(), file.data() + at, values.size() * sizeof(double));
    return values;
  }
  throw Error(Code::kCheckpoint, "the checkpoint has ",
              file.empty() ? "no reference log-probabilities" : "reference log-probabilities of other pairs",
              " (", kReferenceFile,
              "): go on with the data and data.seq_len that the run began with, validation included, "
              "or begin a new run from its weights (run.name, checkpoint.init_from)");
}

}  // namespace

bool compute_reference(Loader& loader, ShardedModel& model, std::int64_t rows, Communicator& comm,
                       AgreedStop* stop) {
  const std::int64_t all = loader.samples_per_epoch();
  std::vector<double> values(loader.reference()->size());
  // A pass has the same samples whatever the number of ranks, so that kernels sum in the same order.
  for (std::int64_t first = 0; first < all; first += rows * comm.size()) {
    if (stop != nullptr) stop->begin_look();
    const std::int64_t begin = first + rows * comm.rank();
    // A rank without samples computes the first one, to stay in step.
    const bool idle = begin >= all;
    const SampleBatch samples = idle ? loader.read(0, 1) : loader.read(begin, std::min(rows, all - begin));
    score(samples, model, idle ? nullptr : &values);
    if (stop != nullptr && stop->end_look()) return false;
  }
  share(values, comm);
  // Equal on all ranks, which therefore throw together.
  if (!std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); })) {
    throw Error(Code::kTraining,
                "the weights that the run begins with give an answer a log-probability that is not finite, "
                "so DPO has no reference: check them with `echelon sample`, or use precision.param: fp32");
  }
  *loader.reference() = std::move(values);
  return true;
}

void settle_reference(const std::vector<Loader*>& loaders, TrainState& state, const TrainOptions& train,
                      Communicator& comm, AgreedStop& stop, std::string& file) {
  if (loaders.front()->reference() == nullptr) return;
  require_room(loaders);
  if (state.step > 0) {
    agree(comm, "reference", [&] {
      if (comm.rank() != 0) return;
      for (Loader* loader : loaders) *loader->reference() = values_in(file, *loader);
    });
    for (Loader* loader : loaders) share(*loader->reference(), comm);
    return;
  }
  for (Loader* loader : loaders) {
    if (comm.rank() == 0)
      log::info(str("starting: reference log-probabilities of ", loader->reference()->size(), " answers"));
    if (!compute_reference(*loader, state.model, train.micro_batch_size, comm, &stop)) return;
  }
  file = file_of(loaders);
}

}  // namespace echelon
