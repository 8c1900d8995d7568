#include "run/agreed_stop.h"

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"

namespace echelon {

AgreedStop::AgreedStop(const StopSignal& signal, Communicator& comm, std::function<std::string()> clock)
    : signal_(signal), comm_(comm), clock_(std::move(clock)) {}

AgreedStop::~AgreedStop() {
  try {
    pending_.wait();  // after an error elsewhere the sum may still be running, and writes to this object
  } catch (...) {
    return;  // that error is reported; this one is its consequence
  }
}

void AgreedStop::request(const std::string& reason) {
  if (request_.empty()) request_ = reason;
}

double AgreedStop::vote() {
  if (signal_.requested() != nullptr) return 1;
  if (request_.empty() && clock_) request_ = clock_();
  return request_.empty() ? 0 : 1;
}

bool AgreedStop::decide(double votes) {
  if (decided_ || votes <= 0) return decided_;
  decided_ = true;
  if (signal_.requested() != nullptr) log::note(str(signal_.requested(), " reached this rank"));
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
  if (signal_.requested() != nullptr) return signal_.requested();
  return request_.empty() ? "a signal to another rank" : request_;
}

bool AgreedStop::is_being_ended() const {
  return signal_.requested() != nullptr && std::string_view(signal_.requested()) == "SIGTERM";
}

}  // namespace echelon
