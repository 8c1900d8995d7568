#include "app/doctor/rates/pairs.h"

namespace echelon::app::doctor {

int rounds_of(int places) {
  return places + places % 2 - 1;
}

// An odd number of places stands on a circle. In round r, places a and b meet if a + b == r modulo their
// count. The place that would meet itself meets the last place, which is not on the circle.
int partner_of(int me, int places, int round) {
  const int even = places + places % 2;
  const int circle = even - 1;
  int partner = 0;
  if (me == even - 1) {
    partner = (round * (circle + 1) / 2) % circle;  // 2 * partner == round (mod circle)
  } else {
    partner = ((round - me) % circle + circle) % circle;
    if (partner == me) partner = even - 1;
  }
  return partner < places ? partner : -1;
}

}  // namespace echelon::app::doctor
