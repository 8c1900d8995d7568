#include "train/agreed_stop.h"

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"

namespace echelon {

AgreedStop::AgreedStop(const StopSignal& signal, Communicator& comm) : signal_(signal), comm_(comm) {}

AgreedStop::~AgreedStop() {
  try {
    pending_.wait();  // after an error elsewhere: the sum is still being written
  } catch (const Error&) {
    return;  // that error is told, and this one comes of it
  }
}

double AgreedStop::vote() const {
  return signal_.requested() != nullptr ? 1.0 : 0.0;
}

bool AgreedStop::decide(double votes) {
  if (decided_ || votes <= 0) return decided_;
  decided_ = true;
  if (signal_.requested() != nullptr) log::note(str(signal_.requested(), " came to this rank"));
  return true;
}

void AgreedStop::begin_look() {
  votes_ = vote();
  pending_ = comm_.all_reduce(&votes_, 1, DType::kF64, ReduceOp::kSum, "stop?");
}

bool AgreedStop::end_look() {
  pending_.wait();
  return decide(votes_);
}

bool AgreedStop::look() {
  begin_look();
  return end_look();
}

std::string AgreedStop::reason() const {
  return signal_.requested() != nullptr ? signal_.requested() : "a signal to another rank";
}

}  // namespace echelon
