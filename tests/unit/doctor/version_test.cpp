#include "app/doctor/machine/version.h"

#include <gtest/gtest.h>

namespace echelon::app::doctor {
namespace {

TEST(Version, IsTheFirstNumberOfAText) {
  EXPECT_EQ(find_version("PMIx 4.2.2rc2"), (Version{{4, 2, 2}}));
  EXPECT_EQ(find_version("25.11.6"), (Version{{25, 11, 6}}));
  EXPECT_EQ(find_version("v5"), (Version{{5, 0, 0}}));
  EXPECT_EQ(find_version("22.05.8-p1"), (Version{{22, 5, 8}}));
  EXPECT_EQ(find_version("none"), std::nullopt);
  EXPECT_EQ(find_version("99999999999999.1"), std::nullopt);
  EXPECT_LT(*find_version("24.11.7"), *find_version("25.05.2"));
}

}  // namespace
}  // namespace echelon::app::doctor
