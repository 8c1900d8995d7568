#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echelon::report {

struct Point {
  double x = 0;
  double y = 0;
};

/// A series of numbers in bounded memory. A long one is thinned as it grows: neighboring values share a
/// bucket, which keeps its least and greatest value with their places and its mean, so a spike of a single
/// step stays visible.
class Series {
 public:
  /// Neighboring buckets are merged when there would be more than `most_buckets` (an even number).
  explicit Series(std::size_t most_buckets = 512) : most_(most_buckets) {}

  /// `x` and `y` are finite. `weight`, above 0: of the value in mean().
  void add(double x, double y, double weight = 1);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Values that share one bucket; 1: nothing was thinned.
  [[nodiscard]] std::uint64_t width() const { return width_; }
  /// The last value, in the order of add(). All of these need at least one.
  [[nodiscard]] const Point& last() const { return last_; }
  [[nodiscard]] Point least() const;
  [[nodiscard]] Point greatest() const;
  [[nodiscard]] double mean() const;

  /// The least and the greatest value of every bucket, by x.
  [[nodiscard]] std::vector<Point> points() const;
  /// The mean of every bucket at the mean of its places. Series to which values are added together have the
  /// same places.
  [[nodiscard]] std::vector<Point> means() const;

 private:
  struct Bucket {
    Point least;
    Point greatest;
    double sum_x = 0;
    double sum_y = 0;
    std::uint64_t count = 0;
    void take(const Bucket& other);
  };
  std::size_t most_;
  std::uint64_t width_ = 1;
  std::uint64_t count_ = 0;
  double weights_ = 0;
  double weighted_ = 0;
  Point last_;
  std::vector<Bucket> buckets_;
};

}  // namespace echelon::report
