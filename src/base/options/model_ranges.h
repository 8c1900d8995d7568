#pragma once
#include "base/options/range.h"

/// The allowed numbers of a language model, in recipes and in imported config.json files.
namespace echelon::model_ranges {

inline constexpr IntegerRange kVocabSize{2, 10'000'000};
inline constexpr IntegerRange kHiddenSize{1, 1'048'576};
inline constexpr IntegerRange kIntermediateSize{1, 16'777'216};
inline constexpr IntegerRange kLayers{1, 10'000};
inline constexpr IntegerRange kHeads{1, 65'536};
inline constexpr IntegerRange kMaxPositions{1, 16'777'216};
inline constexpr NumberRange kNormEps = kAboveZeroToOne;
inline constexpr NumberRange kRopeTheta{1.0, 1e12};
inline constexpr NumberRange kPartialRotary = kAboveZeroToOne;
inline constexpr NumberRange kDropout = kBelowOne;
inline constexpr NumberRange kRopeFactor{1.0, 1e6};
inline constexpr NumberRange kRopeFactors{1e-3, kRopeFactor.high};
inline constexpr NumberRange kRopeTurns{1e-6, 1e6};
inline constexpr NumberRange kAttentionFactor{0.0, 1e3};
inline constexpr NumberRange kMultiplier{1e-6, 1e6};
// Where 0 means that another key decides.
inline constexpr NumberRange kWindowRopeTheta{0.0, kRopeTheta.high};
inline constexpr NumberRange kAttentionMultiplier{0.0, kMultiplier.high};
inline constexpr IntegerRange kDecoderLayers{0, kLayers.high};
inline constexpr IntegerRange kHeadSize{0, 65'536};
inline constexpr IntegerRange kOriginalPositions{0, kMaxPositions.high};
inline constexpr IntegerRange kWindow{0, kMaxPositions.high};
inline constexpr IntegerRange kRelativeBuckets{2, 65'536};
inline constexpr IntegerRange kRelativeMaxDistance{2, 16'777'216};

}  // namespace echelon::model_ranges
