#pragma once

/// Everyone meets everyone in pairs, as many pairs at the same time as there can be: the circle method of
/// tournaments.
namespace echelon::app::doctor {

/// Rounds until each of `places` has met every other.
[[nodiscard]] int rounds_of(int places);

/// Whom `me` of `places` meets in a round, or -1 where it pauses: of an odd number one does in each round.
[[nodiscard]] int partner_of(int me, int places, int round);

}  // namespace echelon::app::doctor
