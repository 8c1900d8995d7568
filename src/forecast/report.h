#pragma once
#include <string>

#include "forecast/outlook.h"

namespace echelon::forecast {

/// The subject of a report, in words.
struct ReportTitle {
  std::string recipe;
  std::string strategy;  ///< "full_shard"
  std::string device;    ///< "NVIDIA H100 SXM5 80 GB"
  std::string network;   ///< empty: none
  std::int64_t micro_batch = 0;
  bool unproven = false;  ///< the times come from a profile of a GPU that is compiled in
};

/// The note beside such times.
inline constexpr const char* kUnproven = "forecast; compared with runs on one H100 only";

/// The note on why the time of a save may differ much from the prediction.
inline constexpr const char* kAboutSaves =
    "a save is predicted from its bytes and an assumed disk; making files and committing them takes time of "
    "its own, which counts most in small ones";

/// "14.2 ms", "3.05 s", "28.0 h"
[[nodiscard]] std::string duration(double seconds);
/// Lines for people.
[[nodiscard]] std::string text_report(const ReportTitle& title, const Rehearsed& rehearsed,
                                      const OutlookOptions& options, const Outlook& outlook);
/// The report's numbers as one JSON object; docs/plan.md lists the keys.
[[nodiscard]] std::string json_report(const ReportTitle& title, const Rehearsed& rehearsed,
                                      const OutlookOptions& options, const Outlook& outlook);
/// One line for each kind of operation on the device that computes, longest first.
[[nodiscard]] std::string operations_table(const Timeline& timeline);
/// Lanes of a step as a trace that Perfetto and chrome://tracing open.
[[nodiscard]] std::string perfetto_trace(const Rehearsed& rehearsed, const Timeline& timeline);
/// The report as a picture (SVG).
[[nodiscard]] std::string picture(const ReportTitle& title, const Rehearsed& rehearsed,
                                  const Outlook& outlook);

}  // namespace echelon::forecast
