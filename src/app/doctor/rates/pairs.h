#pragma once

/// Schedules pairs so that each place meets every other once, with the largest number of simultaneous pairs:
/// the circle method for round-robin tournaments.
namespace echelon::app::doctor {

/// Number of rounds until each of `places` has met every other.
[[nodiscard]] int rounds_of(int places);

/// The partner of `me` in a round, or -1 if it pauses: with an odd number of places, one pauses in each
/// round.
[[nodiscard]] int partner_of(int me, int places, int round);

}  // namespace echelon::app::doctor
