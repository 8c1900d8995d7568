#include "report/record/series.h"

#include <algorithm>

namespace echelon::report {

void Series::Bucket::take(const Bucket& other) {
  if (count == 0 || other.least.y < least.y) least = other.least;
  if (count == 0 || other.greatest.y > greatest.y) greatest = other.greatest;
  sum_x += other.sum_x;
  sum_y += other.sum_y;
  count += other.count;
}

void Series::add(double x, double y, double weight) {
  const Point point{x, y};
  const Bucket one{.least = point, .greatest = point, .sum_x = x, .sum_y = y, .count = 1};
  last_ = point;
  ++count_;
  weights_ += weight;
  weighted_ += weight * y;
  if (buckets_.empty() || buckets_.back().count >= width_) {
    if (buckets_.size() == most_) {
      for (std::size_t i = 0; i < most_ / 2; ++i) {
        buckets_[i] = buckets_[2 * i];
        buckets_[i].take(buckets_[2 * i + 1]);
      }
      buckets_.resize(most_ / 2);
      width_ *= 2;
    }
    buckets_.emplace_back();
  }
  buckets_.back().take(one);
}

Point Series::least() const {
  return std::ranges::min_element(buckets_, {}, [](const Bucket& one) { return one.least.y; })->least;
}

Point Series::greatest() const {
  return std::ranges::max_element(buckets_, {}, [](const Bucket& one) { return one.greatest.y; })->greatest;
}

double Series::mean() const {
  return weighted_ / weights_;
}

std::vector<Point> Series::points() const {
  std::vector<Point> points;
  points.reserve(2 * buckets_.size());
  for (const Bucket& bucket : buckets_) {
    points.push_back(bucket.least);
    if (bucket.greatest.x != bucket.least.x) points.push_back(bucket.greatest);
  }
  std::ranges::stable_sort(points, {}, &Point::x);
  return points;
}

std::vector<Point> Series::means() const {
  std::vector<Point> points;
  for (const Bucket& bucket : buckets_) {
    const auto count = static_cast<double>(bucket.count);
    points.push_back({bucket.sum_x / count, bucket.sum_y / count});
  }
  std::ranges::stable_sort(points, {}, &Point::x);
  return points;
}

}  // namespace echelon::report
